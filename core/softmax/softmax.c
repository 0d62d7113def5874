/* softmax.c: the row of ATTN_SOFTMAX: which path a problem takes, and what it costs. */
#include "softmax.h"
#include "../calculation.h"
#include "../engine/workspace.h"
#include "../positions/rope.h"
#include "backward.h"
#include "pattern.h"
#include "plan.h"

#include <assert.h>
#include <math.h>

static void check(const attn_problem *problem) {
    assert(problem->dtype == ATTN_F32 || problem->dtype == ATTN_F64);
    assert(problem->kv_heads == 0 ? problem->heads == 0 : problem->heads % problem->kv_heads == 0);
    assert(problem->d_k > 0);
    assert(isfinite(problem->scale) && isfinite(problem->softcap) && problem->softcap >= 0);
    assert(!problem->has_window || problem->window_left >= ATTN_OPEN_SIDE);
    assert(!problem->has_window || problem->window_right >= ATTN_OPEN_SIDE);
    assert(problem->n_past == 0 || problem->d_v == 0 || problem->past_v.data != NULL);
    assert(problem->n_past == 0 || problem->past_k.data != NULL);
    (void)problem; /* without assertions */
}

/* Open cells of one head, mask, bias, key_mask and gaps of segments aside. */
static double open_cells(const attn_problem *problem, size_t batch) {
    bool same = !problem->causal && !problem->has_window && problem->segments == NULL && problem->pattern == NULL;
    double cells = 0;
    for (size_t i = 0; i < (same ? problem->n_q > 0 : problem->n_q); i++) {
        attn_span span = attn_query_span(problem, batch, i);
        const int64_t offset = problem->query_offset != NULL ? problem->query_offset[batch] : (int64_t)problem->n_past;
        if (problem->pattern != NULL)
            cells += attn_pattern_count(problem, batch, (int64_t)i + offset, span.lo, span.hi);
        else if (span.hi > span.lo)
            cells += (double)(span.hi - span.lo);
    }
    return same ? cells * (double)problem->n_q : cells;
}

static double flops(const attn_problem *problem) {
    double cells = 0;
    for (size_t b = 0; b < problem->batch; b++) cells += open_cells(problem, b);
    return cells * (double)problem->heads * 2.0 * ((double)problem->d_k + (double)problem->d_v);
}

size_t attn_softmax_workspace(const attn_engine *engine, const attn_problem *problem, attn_features features,
                              const attn_results *results) {
    attn_plan plan;
    attn_plan_init(&plan, engine, problem, results, features);
    return plan.total_bytes;
}

static size_t workspace(const attn_engine *engine, const attn_problem *problem, const attn_results *results) {
    return attn_softmax_workspace(engine, problem, attn_features_of(problem), results);
}

static bool wants_more(const attn_results *r) {
    return attn_wants_cells(r) || r->mean_weights != NULL || r->present_k != NULL || r->present_v != NULL;
}

attn_status attn_softmax_run(const attn_engine *engine, const attn_problem *problem, attn_features features,
                             const attn_results *results, void *workspace, const atomic_bool *cancel,
                             attn_fault *fault) {
    check(problem);
    const bool wide = problem->dtype == ATTN_F64;
    const bool done = (wide ? attn_small_f64 : attn_small_f32)(engine->kernel, problem, features, results);
    if (done && !wants_more(results)) return ATTN_OK;
    attn_results left = *results;
    if (done) left.output.data = left.lse = NULL;
    attn_plan plan;
    attn_plan_init(&plan, engine, problem, &left, features);
    plan.workspace = workspace;
    plan.cancel = cancel;
    return (wide ? attn_execute_f64 : attn_execute_f32)(&plan, fault);
}

/* Rotated first: what is left is a problem without rope, whose workspace follows. */
static size_t workspace_with_rope(const attn_engine *engine, const attn_problem *problem, const attn_results *results) {
    if (!problem->rope) return workspace(engine, problem, results);
    attn_problem rotated = *problem;
    rotated.rope = NULL;
    size_t total = 0;
    attn_reserve(&total, attn_rope_workspace(problem), 1);
    attn_reserve(&total, workspace(engine, &rotated, results), 1);
    return total;
}

static attn_status run(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                       void *memory, const atomic_bool *cancel, attn_fault *fault) {
    attn_problem rotated;
    if (problem->rope) {
        size_t used = 0;
        attn_reserve(&used, attn_rope_workspace(problem), 1);
        attn_rope_rotate(engine, problem, results, memory, &rotated);
        problem = &rotated;
        memory = (char *)memory + used;
    }
    return attn_softmax_run(engine, problem, attn_features_of(problem), results, memory, cancel, fault);
}

const attn_calculation attn_calculation_softmax = {
    .name = "softmax", .workspace = workspace_with_rope, .run = run, .flops = flops};

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* With rope keys of batch 1 are turned for each batch by its own positions: so their gradients are turned back in
 * memory of their own before they add up. */
static size_t turned_bytes(const attn_problem *p, const attn_gradients *gradients) {
    if (!p->rope || p->batch < 2 || gradients->k.batch > 0 || gradients->k.data == NULL) return 0;
    const size_t rows = attn_product(attn_product(p->batch, p->kv_heads), p->n_new);
    return attn_product(rows, attn_product(p->d_k, attn_sizeof(p->dtype)));
}

size_t attn_gradients_workspace(const attn_engine *engine, const attn_problem *problem,
                                const attn_gradients *gradients) {
    const bool wide = problem->dtype == ATTN_F64;
    attn_problem rotated = *problem;
    rotated.rope = NULL;
    const attn_features features = attn_features_of(&rotated);
    size_t total = 0;
    if (problem->rope) attn_reserve(&total, attn_rope_workspace(problem), 1);
    attn_reserve(&total, turned_bytes(problem, gradients), 1);
    const size_t rest =
        (wide ? attn_backward_workspace_f64 : attn_backward_workspace_f32)(engine, &rotated, features, gradients);
    attn_reserve(&total, rest, 1);
    return total;
}

attn_status attn_gradients_run(const attn_engine *engine, const attn_problem *problem, const attn_gradients *gradients,
                               void *workspace, const atomic_bool *cancel) {
    const attn_problem *p = problem;
    const bool wide = p->dtype == ATTN_F64;
    const size_t turned = turned_bytes(p, gradients), rows = p->n_new * p->d_k;
    attn_problem rotated = *p;
    attn_gradients inner = *gradients;
    size_t used = 0;
    check(p);
    assert(p->kind == ATTN_SOFTMAX);
    if (p->rope) {
        attn_reserve(&used, attn_rope_workspace(p), 1);
        attn_rope_rotate(engine, p, &(attn_results){0}, workspace, &rotated);
    }
    const size_t at = attn_reserve(&used, turned, 1);
    if (turned > 0) inner.k = (attn_out_view){(char *)workspace + at, p->kv_heads * rows, rows, p->d_k};
    const attn_status status = (wide ? attn_backward_f64 : attn_backward_f32)(
        engine, &rotated, attn_features_of(&rotated), &inner, (char *)workspace + used, cancel);
    if (status != ATTN_OK || !p->rope) return status;
    attn_rope_turn_back(engine, p, workspace, &inner.q, &inner.k);
    if (turned > 0)
        (wide ? attn_backward_sum_f64 : attn_backward_sum_f32)(p->batch, p->kv_heads, p->n_new, p->d_k, inner.k.data,
                                                               &gradients->k);
    return status;
}
