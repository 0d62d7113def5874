/* reply_writer.h: the numbers of a reply as JSON text (inside api/ only). */
#ifndef API_REPLY_WRITER_H
#define API_REPLY_WRITER_H

#include "job.h"

/* Bytes that api_reply_write may need at most; SIZE_MAX where they do not fit. */
size_t api_reply_bound(const api_job *job);

/* One JSON object with the outputs of the job, in memory of the request, its length in *length. Large tensors are
 * formatted by the threads of the pool (NULL: by the caller). NULL: no memory, the error of the job is set. */
const char *api_reply_write(api_job *job, attn_pool *pool, size_t *length);

#endif
