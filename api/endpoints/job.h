/* job.h: one computation, from the document to the numbers of the reply (inside api/ only). */
#ifndef API_JOB_H
#define API_JOB_H

#include "../fields/options.h"

struct api_operation; /* operation.h */

typedef struct api_job {
    const struct api_operation *operation;
    api_form form;
    api_reply reply; /* format and state are the caller's to set before api_job_prepare */
    api_options options;
    api_axes axes;
    api_tensor k, v;              /* of /attention: they may hold anything at keys that are blocked for every query */
    attn_mha mha;                 /* of /attention, mha.attention alone */
    api_shape output;             /* the shape of `output` */
    attn_out_view output_strides; /* of /attention: its layout, data NULL */
    attn_mha_results results;
    api_output outputs[API_NAME_COUNT]; /* of the reply */
    api_name names[API_NAME_COUNT];     /* of the outputs */
    size_t result_bytes, workspace;
} api_job;

/* Reads and checks the document; operation is set, form is filled in but for dtype and slots. true: no error, the job
 * can run, and all that it needs could be had by a service with nothing else to do. */
bool api_job_prepare(api_job *job, json_t *root, const attn_engine *engine);
/* Useful operations of the job. */
double api_job_flops(const api_job *job);
/* Computes. false: error set, or cancelled. */
bool api_job_run(api_job *job, const attn_engine *engine, const atomic_bool *cancel);

#endif
