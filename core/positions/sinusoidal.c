#include "sinusoidal.h"

#include "../engine/ops.h"
#include "../engine/workspace.h"
#include "turns.h"

#define BASE 10000

typedef struct layout {
    size_t frequencies, steps, table, total;
} layout;

static size_t half_of(const attn_sinusoidal *input) { return input->d / 2 + input->d % 2; }

static size_t tables_of(const attn_sinusoidal *input) {
    const bool own = input->positions ? input->positions_batch > 0 : input->offsets != NULL;
    return own ? input->batch : input->batch > 0;
}

static layout layout_of(const attn_sinusoidal *input) {
    const size_t half = half_of(input);
    layout at = {.total = 0};
    at.frequencies = attn_reserve(&at.total, half, sizeof(attn_quad));
    at.steps = attn_reserve(&at.total, attn_product(2 * half, ATTN_TURNS_BLOCK), sizeof(double));
    at.table = attn_reserve(&at.total, attn_product(tables_of(input), input->n), attn_product(2 * half, sizeof(real)));
    return at;
}

size_t ATTN_T(attn_sinusoidal_workspace)(const attn_sinusoidal *input) { return layout_of(input).total; }

typedef struct addition {
    const attn_sinusoidal *input;
    const attn_turns *turns;
    real *out;
} addition;

static void add_row(void *arg, size_t item, size_t slot) {
    const addition *run = arg;
    const attn_sinusoidal *in = run->input;
    const size_t d = in->d, half = run->turns->half, batch = item / in->n, i = item % in->n;
    const real *x = (const real *)in->x + item * d;
    const real *turn = (const real *)run->turns->table + ((run->turns->tables > 1 ? batch : 0) * in->n + i) * 2 * half;
    real *out = run->out + item * d;
    (void)slot;
    for (size_t c = 0; c < d; c++) out[c] = x[c] + turn[c % 2 == 0 ? half + c / 2 : c / 2];
}

void ATTN_T(attn_sinusoidal_add)(const attn_engine *engine, const attn_sinusoidal *input, void *workspace, void *out) {
    const layout at = layout_of(input);
    const size_t half = half_of(input);
    char *base = workspace;
    attn_quad *frequencies = (attn_quad *)(void *)(base + at.frequencies);
    if (input->batch == 0 || input->n == 0 || input->d == 0) return;
    for (size_t t = 0; t < half; t++)
        frequencies[t] = t == 0 ? 1 : attn_quad_power(BASE, -(attn_quad)(2 * t) / (attn_quad)input->d);
    const attn_turns turns = {.frequencies = frequencies,
                              .half = half,
                              .factor = 1,
                              .n = input->n,
                              .tables = tables_of(input),
                              .positions = input->positions,
                              .positions_batch = input->positions_batch,
                              .offsets = input->offsets,
                              .first = input->first,
                              .steps = (double *)(void *)(base + at.steps),
                              .table = base + at.table};
    ATTN_T(attn_turns_begin)(engine, &turns);
    ATTN_T(attn_turns_fill)(engine, &turns);
    addition run = {input, &turns, out};
    attn_pool_for(engine->pool, input->batch * input->n, add_row, &run);
}
