/* reply_writer.h: the numbers of a reply, written in the format that the client asked for (inside api/ only). */
#ifndef API_REPLY_WRITER_H
#define API_REPLY_WRITER_H

#include "job.h"

/* A format of replies. */
typedef struct api_reply_format {
    const char *content_type;
    /* Bytes that write may need at most; SIZE_MAX where they do not fit. */
    size_t (*bound)(const api_job *job);
    /* Writes the outputs of the job from `text` on, and returns the end. Scratches at most the bound. */
    char *(*write)(const api_job *job, attn_pool *pool, char *text);
} api_reply_format;

extern const api_reply_format api_json_reply, api_safetensors_reply;

/* Bytes that api_reply_write may need at most; SIZE_MAX where they do not fit. */
size_t api_reply_bound(const api_job *job);

/* The outputs of the job, rounded to the reply's type, in its format; in memory of the request, the length in *length.
 * Large tensors are formatted by the threads of the pool (NULL: by the caller). NULL: no memory, or a number that does
 * not fit, the error of the job is set. */
const char *api_reply_write(api_job *job, attn_pool *pool, size_t *length);

#endif
