/* differential.c: the row of ATTN_DIFFERENTIAL: two softmaxes, the second taken off lambda times. */
#include <string.h>

#include "../calculation.h"
#include "../engine/workspace.h"

/* The problem of one of the two softmaxes. */
static attn_problem half_of(const attn_problem *p, bool second) {
    attn_problem half = *p;
    half.kind = ATTN_SOFTMAX;
    half.differential = NULL;
    if (second) {
        half.q = p->differential->q_2;
        half.k = p->differential->k_2;
        half.past_k = p->differential->past_k_2;
    }
    return half;
}

/* What the second softmax gives, of the shapes that the results have. */
typedef struct second {
    size_t output, weights, present[2], inner, total; /* places in the workspace */
} second;

static attn_results half_results(const attn_problem *p, const attn_results *results, const second *at, char *base) {
    attn_results half = {0};
    const size_t row = p->d_v, head = p->n_q * row;
    if (results->output.data) half.output = (attn_out_view){base + at->output, p->heads * head, head, row};
    if (results->weights) half.weights = base + at->weights;
    if (results->present_k) half.present_k = base + at->present[1];
    return half;
}

/* The caller's results, but for present_k, whose heads are in pairs. */
static attn_results first_results(const attn_results *results, const second *at, char *base) {
    attn_results first = *results;
    if (results->present_k) first.present_k = base + at->present[0];
    return first;
}

/* present_k (batch, 2 kv_heads, n_k, d_k): the first and the second of each pair side by side */
static void join_present(const attn_problem *p, const attn_results *results, const second *at, const char *base) {
    const size_t head = (p->n_past + p->n_new) * p->d_k * attn_sizeof(p->dtype);
    char *to = results->present_k;
    for (size_t i = 0; to && head > 0 && i < 2 * p->batch * p->kv_heads; i++)
        memcpy(to + i * head, base + at->present[i % 2] + i / 2 * head, head);
}

static second layout_of(const attn_engine *engine, const attn_problem *p, const attn_results *results) {
    second at = {.total = 0};
    const size_t rows = attn_product(attn_product(p->batch, p->heads), p->n_q), size = attn_sizeof(p->dtype);
    at.output = attn_reserve(&at.total, attn_product(results->output.data ? rows : 0, p->d_v), size);
    at.weights = attn_reserve(&at.total, attn_product(results->weights ? rows : 0, p->n_past + p->n_new), size);
    const size_t keys = attn_product(attn_product(p->batch, p->kv_heads), p->n_past + p->n_new);
    for (size_t i = 0; i < 2; i++)
        at.present[i] = attn_reserve(&at.total, attn_product(results->present_k ? keys : 0, p->d_k), size);
    const attn_problem one = half_of(p, false), two = half_of(p, true);
    char *any = (char *)&at; /* any place says that a result is wanted */
    const attn_results first = first_results(results, &at, any), half = half_results(p, results, &at, any);
    const size_t a = attn_calculation_softmax.workspace(engine, &one, &first),
                 b = attn_calculation_softmax.workspace(engine, &two, &half);
    at.inner = attn_reserve(&at.total, a > b ? a : b, 1);
    return at;
}

static size_t workspace(const attn_engine *engine, const attn_problem *problem, const attn_results *results) {
    return layout_of(engine, problem, results).total;
}

/* x -= lambda y */
static void take_off(attn_dtype dtype, size_t count, const void *lambda, size_t head, const void *y, void *x) {
    if (dtype == ATTN_F64) {
        const double factor = ((const double *)lambda)[head];
        for (size_t i = 0; i < count; i++) ((double *)x)[i] -= factor * ((const double *)y)[i];
    } else {
        const double factor = (double)((const float *)lambda)[head];
        for (size_t i = 0; i < count; i++)
            ((float *)x)[i] = (float)((double)((float *)x)[i] - factor * (double)((const float *)y)[i]);
    }
}

static void subtract(const attn_problem *p, const attn_results *results, const attn_results *half) {
    const size_t size = attn_sizeof(p->dtype), n_k = p->n_past + p->n_new;
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++) {
            const size_t row = (b * p->heads + h) * p->n_q;
            const attn_out_view *o = &results->output;
            for (size_t i = 0; i < p->n_q && o->data; i++)
                take_off(p->dtype, p->d_v, p->differential->lambda, h,
                         (char *)half->output.data + (row + i) * p->d_v * size,
                         (char *)o->data + (b * o->batch + h * o->head + i * o->row) * size);
            if (results->weights)
                take_off(p->dtype, p->n_q * n_k, p->differential->lambda, h, (char *)half->weights + row * n_k * size,
                         (char *)results->weights + row * n_k * size);
        }
}

static attn_status run(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                       void *memory, const atomic_bool *cancel, attn_fault *fault) {
    const second at = layout_of(engine, problem, results);
    char *base = memory;
    const attn_problem one = half_of(problem, false), two = half_of(problem, true);
    const attn_results first = first_results(results, &at, base), half = half_results(problem, results, &at, base);
    attn_status status = attn_calculation_softmax.run(engine, &one, &first, base + at.inner, cancel, fault);
    if (status == ATTN_OK) status = attn_calculation_softmax.run(engine, &two, &half, base + at.inner, cancel, fault);
    if (status != ATTN_OK) return status;
    subtract(problem, results, &half);
    join_present(problem, results, &at, base);
    return status;
}

static double flops(const attn_problem *problem) {
    const attn_problem one = half_of(problem, false);
    return 2 * attn_calculation_softmax.flops(&one);
}

const attn_calculation attn_calculation_differential = {"differential", workspace, run, flops};
