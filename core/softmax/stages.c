/* stages.c: everything of the scores' shape, recomputed tile by tile straight into the result. The tiles and the
 * kernels are those of fused.c, so every score has the bits that the output was made from. */
#include "tile.h"

#include <math.h>
#include <string.h>

#define TILES_PER_ITEM 16

static size_t key_ranges(const attn_plan *plan) {
    return plan->key_tiles / TILES_PER_ITEM + (plan->key_tiles % TILES_PER_ITEM != 0);
}

static void store(void *result, size_t cell, size_t n, const real *s) {
    if (result != NULL) memcpy((real *)result + cell, s, n * sizeof *s);
}

/* Where key `key` of row r stands in a result */
static size_t cell_of(const attn_plan *plan, const attn_rows *rows, size_t r, size_t key) {
    size_t head = rows->head + r / rows->queries, query = rows->query + r % rows->queries;
    return ((rows->batch * plan->problem->heads + head) * plan->problem->n_q + query) * plan->n_k + key;
}

void ATTN_T(attn_weigh_row)(const attn_plan *plan, const attn_rows *rows, size_t r, size_t key, size_t n, real *s) {
    const real *stats = ATTN_T(attn_stats_of)(plan, rows, r);
    if (stats[0] == -(real)INFINITY) {
        memset(s, 0, n * sizeof *s);
        return;
    }
    ATTN_T(attn_masked_row)(plan, rows, r, key, n, true, s);
    real sum;
    ATTN_T(attn_ops_of)(plan->kernel)->exp_sum(1, n, s, (real)plan->score_scale, &stats[0], &sum);
    for (size_t j = 0; j < n; j++) s[j] /= stats[1];
}

/* s: q.k -> masked, storing what is asked for on the way */
static void store_stages(const attn_plan *plan, const attn_rows *rows, size_t r, size_t key, size_t n, real *s) {
    const attn_problem *problem = plan->problem;
    const attn_results *results = plan->results;
    const size_t cell = cell_of(plan, rows, r, key);
    store(results->scores, cell, n, s);
    ATTN_T(attn_scale_row)(problem, rows, r, n, s);
    store(results->scaled, cell, n, s);
    ATTN_T(attn_cap_row)(problem, n, s);
    store(results->capped, cell, n, s);
    ATTN_T(attn_bias_row)(problem, rows, r, key, n, s);
    ATTN_T(attn_block_row)(problem, rows, r, key, n, s);
    store(results->masked, cell, n, s);
}

/* Fills scratch->scores with q.k, or with zeros if it is not needed. */
static void score_tile(attn_plan *plan, const attn_rows *rows, size_t tile, bool needed, attn_scratch *scratch) {
    size_t count = rows->heads * rows->queries;
    if (!needed) {
        memset(scratch->scores, 0, count * plan->tile_k * sizeof(real));
        return;
    }
    const attn_part part = {.count = count, .hi = attn_plan_keys(plan, tile)};
    ATTN_T(attn_score_rows)(plan, rows, tile, ATTN_T(attn_keys_of)(plan, rows, tile, scratch), &part, scratch);
}

size_t ATTN_T(attn_cells_items)(const attn_plan *plan) {
    return plan->problem->batch * plan->problem->kv_heads * plan->row_tiles * key_ranges(plan);
}

static bool is_blocked(const attn_plan *plan, const attn_rows *rows, size_t tile) {
    return attn_plan_classify(plan, rows, tile) == ATTN_TILE_BLOCKED;
}

static void tile_stages(attn_plan *plan, const attn_rows *rows, size_t tile, attn_scratch *scratch) {
    score_tile(plan, rows, tile, plan->stages || !is_blocked(plan, rows, tile), scratch);
    for (size_t r = 0; r < rows->heads * rows->queries; r++) {
        store_stages(plan, rows, r, tile * plan->tile_k, attn_plan_keys(plan, tile),
                     scratch->scores + r * plan->tile_k);
    }
}

static void tile_weights(attn_plan *plan, const attn_rows *rows, size_t tile, attn_scratch *scratch) {
    const size_t key = tile * plan->tile_k, n = attn_plan_keys(plan, tile);
    score_tile(plan, rows, tile, !is_blocked(plan, rows, tile), scratch);
    for (size_t r = 0; r < rows->heads * rows->queries; r++) {
        real *s = scratch->scores + r * plan->tile_k;
        ATTN_T(attn_weigh_row)(plan, rows, r, key, n, s);
        store(plan->results->weights, cell_of(plan, rows, r, key), n, s);
    }
}

static void each_tile(attn_plan *plan, const attn_rows *rows, size_t range, real factor,
                      void (*body)(attn_plan *, const attn_rows *, size_t, attn_scratch *), attn_scratch *scratch) {
    const size_t end = (range + 1) * TILES_PER_ITEM;
    ATTN_T(attn_load_queries)(plan, rows, factor, scratch->queries);
    for (size_t tile = range * TILES_PER_ITEM; tile < end && tile < plan->key_tiles; tile++) {
        if (attn_plan_cancelled(plan)) return;
        body(plan, rows, tile, scratch);
    }
}

void ATTN_T(attn_cells_item)(void *arg, size_t item, size_t slot) {
    attn_plan *plan = arg;
    const attn_problem *problem = plan->problem;
    attn_scratch scratch = ATTN_T(attn_scratch_of)(plan, slot);
    size_t range = item % key_ranges(plan), row_tile = item / key_ranges(plan);
    size_t pair = row_tile / plan->row_tiles;
    attn_rows rows =
        attn_plan_rows(plan, pair / problem->kv_heads, pair % problem->kv_heads, row_tile % plan->row_tiles);
    if (plan->stages || plan->results->masked != NULL) each_tile(plan, &rows, range, 1, tile_stages, &scratch);
    if (plan->results->weights != NULL) each_tile(plan, &rows, range, (real)plan->query_factor, tile_weights, &scratch);
}

size_t ATTN_T(attn_mean_items)(const attn_plan *plan) {
    return plan->problem->batch * plan->query_tiles * key_ranges(plan);
}

/* Adds the weights of the tile's rows, head by head, to sums (queries, tile_k). */
static void add_weights(attn_plan *plan, const attn_rows *rows, size_t tile, attn_scratch *scratch) {
    size_t key = tile * plan->tile_k, n = attn_plan_keys(plan, tile);
    if (is_blocked(plan, rows, tile)) return;
    ATTN_T(attn_load_queries)(plan, rows, (real)plan->query_factor, scratch->queries);
    score_tile(plan, rows, tile, true, scratch);
    for (size_t r = 0; r < rows->heads * rows->queries; r++) {
        real *s = scratch->scores + r * plan->tile_k;
        double *sums = scratch->mean + r % rows->queries * plan->tile_k;
        ATTN_T(attn_weigh_row)(plan, rows, r, key, n, s);
        for (size_t j = 0; j < n; j++) sums[j] += (double)s[j];
    }
}

void ATTN_T(attn_mean_item)(void *arg, size_t item, size_t slot) {
    attn_plan *plan = arg;
    const attn_problem *problem = plan->problem;
    attn_scratch scratch = ATTN_T(attn_scratch_of)(plan, slot);
    size_t range = item % key_ranges(plan), rest = item / key_ranges(plan);
    size_t batch = rest / plan->query_tiles, query_tile = rest % plan->query_tiles;
    size_t query = query_tile * plan->tile_q;
    size_t queries = problem->n_q - query < plan->tile_q ? problem->n_q - query : plan->tile_q;
    size_t end = (range + 1) * TILES_PER_ITEM;
    for (size_t tile = range * TILES_PER_ITEM; tile < end && tile < plan->key_tiles; tile++) {
        if (attn_plan_cancelled(plan)) return;
        memset(scratch.mean, 0, queries * plan->tile_k * sizeof *scratch.mean);
        for (size_t kv_head = 0; kv_head < problem->kv_heads; kv_head++) {
            for (size_t h = 0; h < plan->head_tiles; h++) {
                attn_rows rows = attn_plan_rows(plan, batch, kv_head, h * plan->query_tiles + query_tile);
                add_weights(plan, &rows, tile, &scratch);
            }
        }
        real *mean = (real *)plan->results->mean_weights + (batch * problem->n_q + query) * plan->n_k;
        for (size_t i = 0; i < queries; i++) {
            for (size_t j = 0; j < attn_plan_keys(plan, tile); j++) {
                double sum = scratch.mean[i * plan->tile_k + j];
                mean[i * plan->n_k + tile * plan->tile_k + j] = sum > 0 ? (real)(sum / (double)problem->heads) : 0;
            }
        }
    }
}
