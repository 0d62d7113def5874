/* reply_json.h: numbers of a reply as a flat JSON list (inside api/ only). */
#ifndef API_REPLY_JSON_H
#define API_REPLY_JSON_H

#include "../endpoints/job.h"

/* Bytes that api_json_flat_write may need at most; SIZE_MAX where they do not fit. */
size_t api_json_flat_bound(const api_job *job, const api_output *output);
/* Writes the output as [..] from `text` on, and returns the end. Scratches at most the bound. */
char *api_json_flat_write(const api_job *job, const api_output *output, attn_pool *pool, char *text);

#endif
