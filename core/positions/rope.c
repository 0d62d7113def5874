/* Rotary positions: every pair of columns of a query or key is a point that its position turns.
 *
 * Cosines and sines are the same for all heads: a table has a row for each position of a batch. The angle of position
 * p + b is that of p plus that of b: turns of 0 to BLOCK - 1 positions are computed once, and a block of rows needs the
 * turn of its first position besides. Both come from angles of 113 bits; their product errs by two roundings of a
 * double. */
#include "rope.h"

#include <string.h>

#include "../engine/ops.h"
#include "../engine/workspace.h"
#include "frequencies.h"

enum { BLOCK = 32 }; /* positions that share one exact turn, rows of one item */

/* q or new k, and the table of its positions. */
typedef struct rope_side {
    attn_view view;
    size_t heads, n, tables; /* tables: batches with positions of their own, 1: all have the same */
    const int64_t *positions;
    size_t positions_batch;
    bool is_query;
    real *table; /* (tables, n, dim): cosines of the pairs, then sines */
    real *out;   /* (batch, heads, n, d_k) */
    real *copy;  /* the same for the caller, or NULL */
} rope_side;

typedef struct rope_run {
    const attn_problem *problem;
    attn_quad *frequencies; /* (dim / 2) */
    double *turns;          /* (BLOCK, dim): cosines and sines of b positions */
    rope_side side;         /* at work */
} rope_run;

static size_t tables_of(const attn_problem *p, bool query) {
    const int64_t *positions = query ? p->positions : p->key_positions;
    const size_t stride = query ? p->positions_batch : p->key_positions_batch;
    const bool own = positions ? stride > 0 : query && p->query_offset != NULL;
    return own ? p->batch : p->batch > 0;
}

typedef struct layout {
    size_t frequencies, turns, q_table, k_table, q, k, total;
} layout;

static layout layout_of(const attn_problem *p) {
    const size_t dim = p->rope->dim, width = attn_product(p->d_k, sizeof(real));
    layout at = {.total = 0};
    at.frequencies = attn_reserve(&at.total, dim / 2, sizeof(attn_quad));
    at.turns = attn_reserve(&at.total, attn_product(BLOCK, dim), sizeof(double));
    at.q_table = attn_reserve(&at.total, attn_product(tables_of(p, true), p->n_q), attn_product(dim, sizeof(real)));
    at.k_table = attn_reserve(&at.total, attn_product(tables_of(p, false), p->n_new), attn_product(dim, sizeof(real)));
    at.q = attn_reserve(&at.total, attn_product(attn_product(p->batch, p->heads), p->n_q), width);
    at.k = attn_reserve(&at.total, attn_product(attn_product(p->batch, p->kv_heads), p->n_new), width);
    return at;
}

size_t ATTN_T(attn_rope_workspace)(const attn_problem *problem) { return layout_of(problem).total; }

static int64_t position_of(const rope_run *run, size_t batch, size_t row) {
    const rope_side *side = &run->side;
    const attn_problem *p = run->problem;
    if (side->positions) return side->positions[batch * side->positions_batch + row];
    if (!side->is_query || !p->query_offset) return (int64_t)(p->n_past + row);
    return (int64_t)row + p->query_offset[batch];
}

/* The turns of `b` positions, b < BLOCK. */
static void turns_item(void *arg, size_t b, size_t slot) {
    const rope_run *run = arg;
    const size_t half = run->problem->rope->dim / 2;
    double *row = run->turns + b * 2 * half;
    (void)slot;
    for (size_t t = 0; t < half; t++) attn_quad_turn((attn_quad)b * run->frequencies[t], &row[t], &row[half + t]);
}

/* A block of rows of one table. */
static void table_item(void *arg, size_t item, size_t slot) {
    const rope_run *run = arg;
    const rope_side *side = &run->side;
    const size_t half = run->problem->rope->dim / 2, blocks = (side->n + BLOCK - 1) / BLOCK;
    const size_t batch = item / blocks, first = item % blocks * BLOCK;
    const size_t last = first + BLOCK < side->n ? first + BLOCK : side->n;
    const double factor = run->problem->rope->attention_factor;
    real *row = side->table + (batch * side->n + first) * 2 * half;
    (void)slot;
    for (size_t t = 0; t < half; t++) {
        int64_t exact = 0;
        double cosine = 1, sine = 0;
        for (size_t i = first; i < last; i++) {
            const int64_t position = position_of(run, batch, i);
            if (i == first || position < exact || position >= exact + BLOCK) {
                exact = position;
                attn_quad_turn((attn_quad)position * run->frequencies[t], &cosine, &sine);
            }
            const double *turn = run->turns + (size_t)(position - exact) * 2 * half + t;
            real *cell = row + (i - first) * 2 * half + t;
            cell[0] = (real)(factor * (cosine * turn[0] - sine * turn[half]));
            cell[half] = (real)(factor * (sine * turn[0] + cosine * turn[half]));
        }
    }
}

/* out = x turned by the table's row, (dim) cosines and sines; columns from dim on as they are */
static void rotate_row(const attn_rope *rope, size_t d, const real *restrict x, const real *restrict turn,
                       real *restrict out) {
    const size_t half = rope->dim / 2;
    if (rope->interleaved) {
        for (size_t t = 0; t < half; t++) {
            out[2 * t] = x[2 * t] * turn[t] - x[2 * t + 1] * turn[half + t];
            out[2 * t + 1] = x[2 * t] * turn[half + t] + x[2 * t + 1] * turn[t];
        }
    } else {
        for (size_t t = 0; t < half; t++) {
            out[t] = x[t] * turn[t] - x[half + t] * turn[half + t];
            out[half + t] = x[t] * turn[half + t] + x[half + t] * turn[t];
        }
    }
    for (size_t c = rope->dim; c < d; c++) out[c] = x[c];
}

/* A block of rows of one head. */
static void rotate_item(void *arg, size_t item, size_t slot) {
    const rope_run *run = arg;
    const rope_side *side = &run->side;
    const attn_rope *rope = run->problem->rope;
    const size_t d = run->problem->d_k, blocks = (side->n + BLOCK - 1) / BLOCK, pair = item / blocks;
    const size_t batch = pair / side->heads, head = pair % side->heads, first = item % blocks * BLOCK;
    const size_t table = side->tables > 1 ? batch : 0;
    (void)slot;
    for (size_t i = first; i < first + BLOCK && i < side->n; i++) {
        const real *x =
            (const real *)side->view.data + batch * side->view.batch + head * side->view.head + i * side->view.row;
        const size_t at = (pair * side->n + i) * d;
        rotate_row(rope, d, x, side->table + (table * side->n + i) * rope->dim, side->out + at);
        if (side->copy) memcpy(side->copy + at, side->out + at, d * sizeof(real));
    }
}

static attn_view rotate_side(const attn_engine *engine, rope_run *run, rope_side side) {
    const size_t blocks = (side.n + BLOCK - 1) / BLOCK, d = run->problem->d_k;
    run->side = side;
    attn_pool_for(engine->pool, side.tables * blocks, table_item, run);
    attn_pool_for(engine->pool, run->problem->batch * side.heads * blocks, rotate_item, run);
    return (attn_view){side.out, side.heads * side.n * d, side.n * d, d};
}

/* The number of positions in use: past and new keys, or more if a position is beyond them. */
static size_t length_of(const attn_problem *p) {
    int64_t most = (int64_t)(p->n_past + p->n_new) - 1;
    for (size_t b = 0; b < p->batch; b++) {
        for (size_t i = 0; i < p->n_q && p->positions; i++)
            if (p->positions[b * p->positions_batch + i] > most) most = p->positions[b * p->positions_batch + i];
        for (size_t j = 0; j < p->n_new && p->key_positions; j++)
            if (p->key_positions[b * p->key_positions_batch + j] > most)
                most = p->key_positions[b * p->key_positions_batch + j];
    }
    return (size_t)(most + 1);
}

void ATTN_T(attn_rope_rotate)(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                              void *workspace, attn_problem *rotated) {
    const attn_rope *rope = problem->rope;
    const layout at = layout_of(problem);
    char *base = workspace;
    rope_run run = {.problem = problem,
                    .frequencies = (attn_quad *)(void *)(base + at.frequencies),
                    .turns = (double *)(void *)(base + at.turns)};
    attn_rope_frequencies(rope, length_of(problem), run.frequencies);
    attn_pool_for(engine->pool, BLOCK, turns_item, &run);
    *rotated = *problem;
    rotated->rope = NULL;
    rotated->q = rotate_side(engine, &run,
                             (rope_side){.view = problem->q,
                                         .heads = problem->heads,
                                         .n = problem->n_q,
                                         .tables = tables_of(problem, true),
                                         .positions = problem->positions,
                                         .positions_batch = problem->positions_batch,
                                         .is_query = true,
                                         .table = (real *)(void *)(base + at.q_table),
                                         .out = (real *)(void *)(base + at.q),
                                         .copy = results->q_rotated});
    rotated->k = rotate_side(engine, &run,
                             (rope_side){.view = problem->k,
                                         .heads = problem->kv_heads,
                                         .n = problem->n_new,
                                         .tables = tables_of(problem, false),
                                         .positions = problem->key_positions,
                                         .positions_batch = problem->key_positions_batch,
                                         .table = (real *)(void *)(base + at.k_table),
                                         .out = (real *)(void *)(base + at.k),
                                         .copy = results->k_rotated});
}
