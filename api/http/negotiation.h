/* negotiation.h: what the headers of a request say about media types and codings (inside api/ only). */
#ifndef API_NEGOTIATION_H
#define API_NEGOTIATION_H

#include <stdbool.h>

#include "coding.h"

/* true for a Content-Type that is `wanted` ("type/subtype") or ends in its suffix ("application/...+json"), whatever
 * its parameters are */
bool api_is_type(const char *content_type, const char *wanted);
/* true for a Content-Type that tells nothing: none at all (NULL, or empty), and curl's default,
 * application/x-www-form-urlencoded */
bool api_is_untyped(const char *content_type);
/* The one coding that a Content-Encoding names (NULL, empty, identity: none). false: several, or one not read. */
bool api_content_coding(const char *content_encoding, api_coding *coding);
/* What an Accept header (NULL, empty: anything) says of a media type (RFC 9110, section 12.5.1): the most specific
 * range that matches decides, and q=0 excludes. */
typedef struct api_acceptance {
    int quality;   /* 0 to 1000; 0: left out */
    int closeness; /* of the range that decides: 3 the type itself, 2 type/any, 1 anything, 0 there is none */
} api_acceptance;
/* type: "type/subtype", perhaps with parameters, which are not compared */
api_acceptance api_acceptance_of(const char *accept, const char *type);

/* What an Accept-Encoding header (NULL: any is as good as none) wants of a reply (RFC 9110, section 12.5.3). */
typedef struct api_coding_choice {
    api_coding coding; /* API_IDENTITY: none of ours, or none better than identity */
    bool plain;        /* identity is acceptable too; false with API_IDENTITY: nothing that is made here is */
} api_coding_choice;
api_coding_choice api_choose_coding(const char *accept_encoding);
/* The same for clients of the Open Inference Protocol, some of which name codings whether or not they undo them: they
 * mean it where exactly one of gzip and deflate is named. */
api_coding_choice api_choose_coding_of_client(const char *accept_encoding);

#endif
