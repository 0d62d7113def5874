/* json_reply.h: the numbers of an output as a flat JSON list (inside api/ only). */
#ifndef API_JSON_REPLY_H
#define API_JSON_REPLY_H

#include "reply.h"

/* Bytes that api_json_flat_write needs at most; SIZE_MAX if they do not fit. */
size_t api_json_flat_bound(const api_output *output);
/* Writes the output as [..] from `text` on, and returns the end. Uses at most the bound, for scratch too. */
char *api_json_flat_write(const api_output *output, attn_pool *pool, const atomic_bool *cancel, char *text);

#endif
