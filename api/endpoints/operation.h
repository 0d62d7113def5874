/* operation.h: what a POST endpoint computes, as a row of functions (inside api/ only).
 *
 * A new endpoint is one file that defines an api_operation, and one row in the table of routes. The name, the fields
 * and the names of `return` serve every body and reply format; models under /v2 and `attentiond call` follow from it.
 */
#ifndef API_OPERATION_H
#define API_OPERATION_H

#include "job.h"

struct api_operation {
    const char *name;      /* "attention": the path without its slash, the model's name */
    api_endpoint endpoint; /* its bit in the tables of fields.h */
    /* Reads the fields into the job: sizes, inputs, shape of the output. Faults go to the form; if it is broken then,
     * the job has no meaning. */
    void (*build)(api_job *job);
    /* Useful operations of the job; counts multiply and add as two. */
    double (*flops)(const api_job *job);
    /* Bytes of scratch memory that run needs for the results that are set; SIZE_MAX if it does not fit size_t. */
    size_t (*workspace)(const attn_engine *engine, const api_job *job);
    /* Computes the results that are set. `scratch` is aligned to 64. */
    attn_status (*run)(const attn_engine *engine, api_job *job, void *scratch, const atomic_bool *cancel,
                       attn_fault *fault);
};

extern const struct api_operation api_attention, api_mha;

#endif
