/* negotiation.h: what the headers of a request say about media types and codings (inside api/ only). */
#ifndef API_NEGOTIATION_H
#define API_NEGOTIATION_H

#include <stdbool.h>

#include "coding.h"

/* true for a Content-Type that is read as JSON: application/json and application/...+json with any parameters, curl's
 * default application/x-www-form-urlencoded, and none at all (NULL, or empty). */
bool api_reads_type(const char *content_type);
/* true for a Content-Type that is `wanted` ("type/subtype"), whatever its parameters are */
bool api_is_type(const char *content_type, const char *wanted);
/* The one coding that a Content-Encoding names (NULL, empty, identity: none). false: several, or one not read. */
bool api_content_coding(const char *content_encoding, api_coding *coding);
/* What an Accept header says of a media type. */
typedef struct api_acceptance {
    int quality;   /* 0 to 1000; 0: left out */
    int closeness; /* of the range that decides: 3 the type itself, 2 type/any, 1 anything, 0 there is none */
} api_acceptance;
api_acceptance api_acceptance_of(const char *accept, const char *type, const char *subtype);
/* true where an Accept header (NULL, empty: anything) admits the media type `type`/`subtype` (RFC 9110, section
 * 12.5.1): the most specific range that matches decides, and q=0 excludes. */
bool api_accepts(const char *accept, const char *type, const char *subtype);

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
