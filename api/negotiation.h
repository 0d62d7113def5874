/* negotiation.h: what the headers of a request say about media types (inside api/ only). */
#ifndef API_NEGOTIATION_H
#define API_NEGOTIATION_H

#include <stdbool.h>

/* true for a Content-Type that is read as JSON: application/json and application/...+json with any parameters, curl's
 * default application/x-www-form-urlencoded, and none at all (NULL, or empty). */
bool api_reads_type(const char *content_type);
/* true for a Content-Encoding that is none: absent or identity. */
bool api_reads_encoding(const char *content_encoding);
/* true where an Accept header (NULL, empty: anything) admits the media type `type`/`subtype` (RFC 9110, section
 * 12.5.1): the most specific range that matches decides, and q=0 excludes. */
bool api_accepts(const char *accept, const char *type, const char *subtype);

#endif
