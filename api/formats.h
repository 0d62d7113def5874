/* formats.h: which format a body is read in, and a reply written (inside api/ only). */
#ifndef API_FORMATS_H
#define API_FORMATS_H

#include "formats/body.h"
#include "formats/reply.h"

/* What reads a Content-Type; NULL: nothing does. *is_vague: the type tells little, so that the first bytes of the body
 * may say another format. */
const api_body_format *api_body_format_of(const char *content_type, bool *is_vague);
/* The format that the first bytes of a body tell; NULL: none. */
const api_body_format *api_body_format_seen(const uint8_t *first, size_t count);

/* The format of the reply that Accept prefers: by quality, then by how closely it is named, then that of the body, then
 * in the order of the table. NULL: none will do. */
const api_reply_format *api_reply_format_of(const char *accept, const api_body_format *body);

/* Whether Accept admits the reply to a body of any format. */
bool api_reply_is_possible(const char *accept);

/* All media types that bodies, or replies, may have: "a, b or c". */
enum { API_TYPES_TEXT = 256 };
const char *api_body_types(char text[API_TYPES_TEXT]);
const char *api_reply_types(char text[API_TYPES_TEXT]);

/* NULL after the last */
const api_body_format *api_body_format_at(size_t index);

#endif
