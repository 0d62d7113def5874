/* operation.h: what a POST endpoint computes, as a row of functions (inside api/ only).
 *
 * A new one is a file that defines an api_operation, and its name in API_OPERATION_LIST. The fields and the names of
 * `return` serve every body and reply format; its route, its model under /v2 and `attentiond call` follow from the
 * list.
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

/* Every operation. The routes POST /name and the models of other protocols follow from it. */
#define API_OPERATION_LIST(ROW) ROW(attention) ROW(mha)

#define ROW(name) extern const struct api_operation api_##name;
API_OPERATION_LIST(ROW)
#undef ROW
extern const struct api_operation *const api_operations[]; /* NULL ends the list */
/* The number of an operation in that list. */
size_t api_operation_index(const struct api_operation *operation);

#endif
