/* differential.c: the row of ATTN_DIFFERENTIAL: two softmaxes, the second taken off lambda times. */
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
    size_t output, weights, inner, total; /* places in the workspace */
} second;

static attn_results half_results(const attn_problem *p, const attn_results *results, const second *at, char *base) {
    attn_results half = {0};
    const size_t row = p->d_v, head = p->n_q * row;
    if (results->output.data) half.output = (attn_out_view){base + at->output, p->heads * head, head, row};
    if (results->weights) half.weights = base + at->weights;
    return half;
}

static second layout_of(const attn_engine *engine, const attn_problem *p, const attn_results *results) {
    second at = {.total = 0};
    const size_t rows = attn_product(attn_product(p->batch, p->heads), p->n_q), size = attn_sizeof(p->dtype);
    at.output = attn_reserve(&at.total, attn_product(results->output.data ? rows : 0, p->d_v), size);
    at.weights = attn_reserve(&at.total, attn_product(results->weights ? rows : 0, p->n_past + p->n_new), size);
    const attn_problem one = half_of(p, false), two = half_of(p, true);
    const attn_results half = half_results(p, results, &at, (char *)&at); /* any place says that it is wanted */
    const size_t a = attn_calculation_softmax.workspace(engine, &one, results),
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
    const attn_results half = half_results(problem, results, &at, base);
    attn_status status = attn_calculation_softmax.run(engine, &one, results, base + at.inner, cancel, fault);
    if (status == ATTN_OK) status = attn_calculation_softmax.run(engine, &two, &half, base + at.inner, cancel, fault);
    if (status == ATTN_OK) subtract(problem, results, &half);
    return status;
}

static double flops(const attn_problem *problem) {
    const attn_problem one = half_of(problem, false);
    return 2 * attn_calculation_softmax.flops(&one);
}

const attn_calculation attn_calculation_differential = {"differential", workspace, run, flops};
