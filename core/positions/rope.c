/* Rotary positions: every pair of columns of a query or key is a point that its position turns. Cosines and sines are
 * the same for all heads: a table has a row for each position of a batch (turns.h). */
#include "rope.h"

#include <string.h>

#include "../engine/ops.h"
#include "../engine/workspace.h"
#include "frequencies.h"
#include "turns.h"

enum { BLOCK = ATTN_TURNS_BLOCK };

/* q or new k, and the table of its positions. */
typedef struct rope_side {
    attn_view view;
    size_t heads;
    attn_turns turns;
    real *out;  /* (batch, heads, n, d_k) */
    real *copy; /* the same for the caller, or NULL */
} rope_side;

typedef struct rope_run {
    const attn_problem *problem;
    rope_side side; /* at work */
} rope_run;

static size_t tables_of(const attn_problem *p, bool query) {
    const int64_t *positions = query ? p->positions : p->key_positions;
    const size_t stride = query ? p->positions_batch : p->key_positions_batch;
    const bool own = positions ? stride > 0 : query && p->query_offset != NULL;
    return own ? p->batch : p->batch > 0;
}

/* true if q and new k have the same positions: one table serves both */
static bool shares_table(const attn_problem *p) {
    return !p->positions && !p->key_positions && !p->query_offset && p->n_q == p->n_new;
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
    const size_t k_tables = shares_table(p) ? 0 : tables_of(p, false);
    at.k_table = attn_reserve(&at.total, attn_product(k_tables, p->n_new), attn_product(dim, sizeof(real)));
    at.q = attn_reserve(&at.total, attn_product(attn_product(p->batch, p->heads), p->n_q), width);
    at.k = attn_reserve(&at.total, attn_product(attn_product(p->batch, p->kv_heads), p->n_new), width);
    return at;
}

size_t ATTN_T(attn_rope_workspace)(const attn_problem *problem) { return layout_of(problem).total; }

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
    const size_t n = side->turns.n, d = run->problem->d_k, blocks = (n + BLOCK - 1) / BLOCK, pair = item / blocks;
    const size_t batch = pair / side->heads, head = pair % side->heads, first = item % blocks * BLOCK;
    const size_t table = side->turns.tables > 1 ? batch : 0;
    (void)slot;
    for (size_t i = first; i < first + BLOCK && i < n; i++) {
        const real *x =
            (const real *)side->view.data + batch * side->view.batch + head * side->view.head + i * side->view.row;
        const size_t at = (pair * n + i) * d;
        rotate_row(rope, d, x, (const real *)side->turns.table + (table * n + i) * rope->dim, side->out + at);
        if (side->copy) memcpy(side->copy + at, side->out + at, d * sizeof(real));
    }
}

static attn_view rotate_side(const attn_engine *engine, const attn_problem *problem, const rope_side *side) {
    rope_run run = {problem, *side};
    const size_t n = side->turns.n, blocks = (n + BLOCK - 1) / BLOCK, d = problem->d_k;
    attn_pool_for(engine->pool, problem->batch * side->heads * blocks, rotate_item, &run);
    return (attn_view){side->out, side->heads * n * d, n * d, d};
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
    attn_quad *frequencies = (attn_quad *)(void *)(base + at.frequencies);
    attn_rope_frequencies(rope, length_of(problem), frequencies);
    rope_side q = {.view = problem->q,
                   .heads = problem->heads,
                   .turns = {.frequencies = frequencies,
                             .half = rope->dim / 2,
                             .factor = rope->attention_factor,
                             .n = problem->n_q,
                             .tables = tables_of(problem, true),
                             .positions = problem->positions,
                             .positions_batch = problem->positions_batch,
                             .offsets = problem->query_offset,
                             .first = (int64_t)problem->n_past,
                             .steps = (double *)(void *)(base + at.turns),
                             .table = base + at.q_table},
                   .out = (real *)(void *)(base + at.q),
                   .copy = results->q_rotated};
    rope_side k = q;
    k.view = problem->k;
    k.heads = problem->kv_heads;
    k.out = (real *)(void *)(base + at.k);
    k.copy = results->k_rotated;
    ATTN_T(attn_turns_begin)(engine, &q.turns);
    ATTN_T(attn_turns_fill)(engine, &q.turns);
    if (!shares_table(problem)) {
        k.turns.n = problem->n_new;
        k.turns.tables = tables_of(problem, false);
        k.turns.positions = problem->key_positions;
        k.turns.positions_batch = problem->key_positions_batch;
        k.turns.offsets = NULL;
        k.turns.table = base + at.k_table;
        ATTN_T(attn_turns_fill)(engine, &k.turns);
    }
    *rotated = *problem;
    rotated->rope = NULL;
    rotated->q = rotate_side(engine, problem, &q);
    rotated->k = rotate_side(engine, problem, &k);
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

typedef struct back_run {
    const attn_rope *rope;
    attn_out_view view;
    size_t heads, n, tables;
    const real *table;
} back_run;

/* x = the transpose of the rotation times x */
static void turn_back_row(const attn_rope *rope, const real *turn, real *x) {
    const size_t half = rope->dim / 2, step = rope->interleaved ? 2 : 1, other = rope->interleaved ? 1 : half;
    for (size_t t = 0; t < half; t++) {
        real *first = x + t * step, *second = first + other;
        const real a = *first, b = *second;
        *first = a * turn[t] + b * turn[half + t];
        *second = b * turn[t] - a * turn[half + t];
    }
}

static void turn_back_item(void *arg, size_t item, size_t slot) {
    const back_run *run = arg;
    const size_t blocks = (run->n + BLOCK - 1) / BLOCK, pair = item / blocks, first = item % blocks * BLOCK;
    const size_t batch = pair / run->heads, head = pair % run->heads, table = run->tables > 1 ? batch : 0;
    (void)slot;
    for (size_t i = first; i < first + BLOCK && i < run->n; i++)
        turn_back_row(run->rope, run->table + (table * run->n + i) * run->rope->dim,
                      (real *)run->view.data + batch * run->view.batch + head * run->view.head + i * run->view.row);
}

static void turn_back(const attn_engine *engine, size_t batch, back_run *run) {
    if (run->view.data == NULL) return;
    attn_pool_for(engine->pool, batch * run->heads * ((run->n + BLOCK - 1) / BLOCK), turn_back_item, run);
}

void ATTN_T(attn_rope_turn_back)(const attn_engine *engine, const attn_problem *problem, const void *workspace,
                                 const attn_out_view *q, const attn_out_view *k) {
    const layout at = layout_of(problem);
    const char *base = workspace;
    const bool shared = shares_table(problem);
    back_run of_q = {problem->rope,
                     *q,
                     problem->heads,
                     problem->n_q,
                     tables_of(problem, true),
                     (const real *)(const void *)(base + at.q_table)};
    back_run of_k = {problem->rope,
                     *k,
                     problem->kv_heads,
                     problem->n_new,
                     tables_of(problem, shared),
                     (const real *)(const void *)(base + (shared ? at.q_table : at.k_table))};
    turn_back(engine, problem->batch, &of_q);
    turn_back(engine, problem->batch, &of_k);
}
