/* job.h: one computation, from the document to the numbers of the reply (inside api/ only). */
#ifndef API_JOB_H
#define API_JOB_H

#include "../fields/field_tensor.h"
#include "../fields/options.h"

/* A tensor of the reply. */
typedef struct api_output {
    const char *name;
    api_shape shape;
    size_t count; /* SIZE_MAX: more than fits */
    void *data;   /* row-major, of the compute type; before it is written rounded to options.reply_dtype in place */
} api_output;

typedef struct api_job {
    const struct api_operation *operation; /* operation.h */
    api_form form;
    const struct api_reply_format *reply; /* how the outputs will be written */
    void *reply_state;                    /* the reply format's own */
    api_options options;
    void *state;         /* the operation's */
    api_output *outputs; /* what the reply holds, in its order */
    size_t output_count;
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
