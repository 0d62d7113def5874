/* linformer.c: the row of ATTN_LINFORMER: keys and values are projected along their axis, then softmax. */
#include "kinds.h"

#include "../calculation.h"
#include "../engine/kernel.h"
#include "../engine/workspace.h"

enum { ROWS = 64 }; /* rows of E of one item */

typedef struct linformer_run {
    const attn_engine *engine;
    const attn_problem *problem;
    char *k, *v; /* (batch, heads or kv_heads, keys, d) */
    size_t heads, blocks;
} linformer_run;

static size_t projected_heads(const attn_problem *p) { return p->linformer->per_head ? p->heads : p->kv_heads; }

/* The problem that is left once keys and values are projected. */
static attn_problem projected(const attn_problem *p, const char *k, const char *v) {
    const size_t heads = projected_heads(p), n = p->linformer->keys;
    attn_problem inner = *p;
    inner.kind = ATTN_SOFTMAX;
    inner.linformer = NULL;
    inner.kv_heads = heads;
    inner.n_new = n;
    inner.k = (attn_view){k, heads * n * p->d_k, n * p->d_k, p->d_k};
    inner.v = (attn_view){v, heads * n * p->d_v, n * p->d_v, p->d_v};
    return inner;
}

typedef struct layout {
    size_t k, v, inner, total;
} layout;

static layout layout_of(const attn_engine *engine, const attn_problem *p, const attn_results *results) {
    layout at = {.total = 0};
    const size_t rows = attn_product(attn_product(p->batch, projected_heads(p)), p->linformer->keys);
    const attn_problem inner = projected(p, NULL, NULL);
    at.k = attn_reserve(&at.total, attn_product(rows, p->d_k), attn_sizeof(p->dtype));
    at.v = attn_reserve(&at.total, attn_product(rows, p->d_v), attn_sizeof(p->dtype));
    at.inner = attn_reserve(&at.total, attn_calculation_softmax.workspace(engine, &inner, results), 1);
    return at;
}

static size_t workspace(const attn_engine *engine, const attn_problem *problem, const attn_results *results) {
    return layout_of(engine, problem, results).total;
}

/* rows [row, row + count) of `to` (keys, d) = those of the projection (keys, n_new) times x (n_new, d) */
static void project(const linformer_run *run, const void *projection, size_t head, const attn_view *x, size_t batch,
                    size_t x_head, size_t d, size_t row, size_t count, char *to) {
    const attn_problem *p = run->problem;
    const size_t n = p->n_new, size = attn_sizeof(p->dtype);
    const size_t from = (p->linformer->per_head ? head * p->linformer->keys : 0) + row;
    const void *e = (const char *)projection + from * n * size;
    const void *data = (const char *)x->data + (batch * x->batch + x_head * x->head) * size;
    if (d == 0) return;
    if (p->dtype == ATTN_F64)
        run->engine->kernel->f64.multiply(count, d, n, e, n, data, x->row, false, false, (double *)(void *)to, d);
    else
        run->engine->kernel->f32.multiply(count, d, n, e, n, data, x->row, false, false, (float *)(void *)to, d);
}

static void project_item(void *arg, size_t item, size_t slot) {
    const linformer_run *run = arg;
    const attn_problem *p = run->problem;
    const size_t row = item % run->blocks * ROWS, head = item / run->blocks % run->heads;
    const size_t batch = item / run->blocks / run->heads, keys = p->linformer->keys, size = attn_sizeof(p->dtype);
    const size_t count = keys - row < ROWS ? keys - row : ROWS, at = (batch * run->heads + head) * keys + row;
    const size_t x_head = p->linformer->per_head ? head / (p->heads / p->kv_heads) : head;
    (void)slot;
    project(run, p->linformer->e, head, &p->k, batch, x_head, p->d_k, row, count, run->k + at * p->d_k * size);
    project(run, p->linformer->f, head, &p->v, batch, x_head, p->d_v, row, count, run->v + at * p->d_v * size);
}

static attn_status run(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                       void *memory, const atomic_bool *cancel, attn_fault *fault) {
    const layout at = layout_of(engine, problem, results);
    char *base = memory;
    linformer_run r = {engine, problem, base + at.k, base + at.v, projected_heads(problem), 0};
    r.blocks = (problem->linformer->keys + ROWS - 1) / ROWS;
    attn_pool_for(engine->pool, problem->batch * r.heads * r.blocks, project_item, &r);
    const size_t rows = problem->batch * r.heads * problem->linformer->keys;
    if (!attn_all_finite(problem->dtype, rows * problem->d_k, r.k) ||
        !attn_all_finite(problem->dtype, rows * problem->d_v, r.v)) {
        if (fault) *fault = (attn_fault){.stage = ATTN_STAGE_K};
        return ATTN_OVERFLOW;
    }
    const attn_problem inner = projected(problem, r.k, r.v);
    return attn_calculation_softmax.run(engine, &inner, results, base + at.inner, cancel, fault);
}

static double flops(const attn_problem *problem) {
    const attn_problem inner = projected(problem, NULL, NULL);
    const double cells = (double)problem->batch * (double)projected_heads(problem) * (double)problem->linformer->keys *
                         (double)problem->n_new;
    return 2 * cells * ((double)problem->d_k + (double)problem->d_v) + attn_calculation_softmax.flops(&inner);
}

const attn_calculation attn_calculation_linformer = {"linformer", workspace, run, flops};
