/* job.h: one computation, from the document to the numbers of the reply (inside api/ only). */
#ifndef API_JOB_H
#define API_JOB_H

#include "../fields/field_tensor.h"
#include "../fields/options.h"

typedef struct api_job {
    const struct api_operation *operation; /* operation.h */
    api_form form;
    api_reply reply; /* format, state and cancel are the caller's to set before api_job_prepare */
    api_options options;
    api_random_tensors randoms;
    void *state; /* the operation's */
    size_t result_bytes, workspace;
} api_job;

/* Reads and checks the document, and the query string. Set are: operation; form up to `error`, but for its schemas, and
 * what a format of bodies asks for; reply. true: no error, the job can run, and all that it needs could be had by a
 * service with nothing else to do. */
bool api_job_prepare(api_job *job, json_t *root, const attn_engine *engine);
/* Useful operations of the job. */
double api_job_flops(const api_job *job);
/* Computes. false: error set, or cancelled. */
bool api_job_run(api_job *job, const attn_engine *engine, const atomic_bool *cancel);

#endif
