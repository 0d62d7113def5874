/* calculation.c: the row of ATTN_LINEAR. */
#include "../calculation.h"
#include "linear.h"

static size_t workspace(const attn_engine *engine, const attn_problem *problem, const attn_results *results) {
    return problem->dtype == ATTN_F64 ? attn_linear_workspace_f64(engine, problem, results)
                                      : attn_linear_workspace_f32(engine, problem, results);
}

static attn_status run(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                       void *memory, const atomic_bool *cancel, attn_fault *fault) {
    return problem->dtype == ATTN_F64 ? attn_linear_run_f64(engine, problem, results, memory, cancel, fault)
                                      : attn_linear_run_f32(engine, problem, results, memory, cancel, fault);
}

/* keys into the state once for each key/value head, the state into the output once for each query */
static double flops(const attn_problem *problem) {
    const double rows =
        (double)problem->n_q * (double)problem->heads + (double)problem->n_new * (double)problem->kv_heads;
    return 2.0 * (double)problem->batch * rows * (double)problem->d_k * ((double)problem->d_v + 1);
}

const attn_calculation attn_calculation_linear = {"linear", workspace, run, flops};
