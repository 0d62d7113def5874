/* operation.h: what a POST endpoint computes, as a row of functions (inside api/ only).
 *
 * A new one is a file that defines an api_operation, with tables of its own fields and names of `return` if it has any,
 * and its name in API_OPERATION_LIST. Every body and reply format serves it; its route, its model under /v2 and
 * `attentiond call` follow from the list.
 */
#ifndef API_OPERATION_H
#define API_OPERATION_H

#include "job.h"

typedef struct api_operation {
    api_schema schema; /* "attention": the path without its slash, the model's name; fields, names of `return` */
    size_t state_size; /* of what the functions keep in job->state: zeros at first, in memory of the request */
    /* Reads into the state those fields whose rows have no `set`; those of api_common_fields are read already, those
     * with `set` are read next. Faults go to the form; if it is broken then, the job has no meaning. NULL: every row
     * has `set`. */
    void (*build)(api_job *job);
    /* Checks what depends on all fields and on the names of the reply, after a fault too; NULL: nothing does. */
    void (*check)(api_job *job);
    /* Useful operations of the job; counts multiply and add as two. */
    double (*flops)(const api_job *job);
    /* Once, when the shapes of the results are known and those that are wanted are not NULL in the state: bytes of
     * scratch memory that run needs; SIZE_MAX if they do not fit size_t. */
    size_t (*workspace)(const attn_engine *engine, api_job *job);
    /* Computes the results that are set in the state. `scratch` is aligned to 64. false: the form's error is set, or
     * the job was cancelled. */
    bool (*run)(const attn_engine *engine, api_job *job, void *scratch, const atomic_bool *cancel);
    /* Fills the sizes for the log; NULL: there are none. */
    void (*trace)(const api_job *job, api_trace *trace);
} api_operation;

/* Every operation. The routes POST /name and the models of other protocols follow from it. */
#define API_OPERATION_LIST(ROW) ROW(attention) ROW(mha) ROW(scan) ROW(merge)

#define ROW(name) extern const api_operation api_##name;
API_OPERATION_LIST(ROW)
#undef ROW
extern const api_operation *const api_operations[]; /* NULL ends the list */
extern const api_schema *const api_schemas[];       /* of the operations in that order; NULL ends the list */
/* The number of an operation in that list. */
size_t api_operation_index(const api_operation *operation);

#endif
