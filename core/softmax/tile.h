/* tile.h: the pieces that a tile is made of, typed; keys.c, fused.c and stages.c compose them (inside core/ only). */
#ifndef ATTN_TILE_H
#define ATTN_TILE_H

#include "../engine/ops.h"
#include "plan.h"

/* The working memory of one slot. */
typedef struct attn_scratch {
    real *queries;  /* (rows, d_k) */
    real *keys;     /* (d_k, tile_k) */
    real *values;   /* (tile_k, d_v_padded) */
    real *gather;   /* (tile_k, d_k or d_v) */
    real *scores;   /* (rows, tile_k) */
    real *output;   /* (rows, d_v_padded): running sum of e v ... */
    real *lost;     /* (rows, d_v_padded): ... and what its roundings added too much */
    real *max;      /* (rows): what scores are shifted by; -infinity until an open key came */
    real *sum;      /* (rows): running sum of e ... */
    real *sum_lost; /* (rows): ... and its error */
    double *mean;   /* (queries, tile_k): weights summed over heads */
} attn_scratch;

attn_scratch ATTN_T(attn_scratch_of)(const attn_plan *plan, size_t slot);

/* What multiplies the scores of a head */
static inline real ATTN_T(attn_scale_of)(const attn_problem *problem, size_t head) {
    return problem->head_scales != NULL ? ((const real *)problem->head_scales)[head] : (real)problem->scale;
}

/* The greatest |scale| of all heads */
static inline double ATTN_T(attn_greatest_scale)(const attn_problem *problem) {
    double most = 0;
    for (size_t h = 0; h < (problem->head_scales != NULL ? problem->heads : 1); h++) {
        const double scale = (double)ATTN_T(attn_scale_of)(problem, h);
        if (!(scale <= most && -scale <= most)) most = scale < 0 ? -scale : scale;
    }
    return most;
}

/* false if scale, softcap or biases of distance alone are out of the range of the tiles */
bool ATTN_T(attn_settings_safe)(const attn_problem *problem);
/* Queries and keys are in the range of the tiles if no number is greater than this. */
real ATTN_T(attn_key_limit)(const attn_problem *problem);

/* Copies the queries of `rows` to queries, (rows, d_k), times `factor`; notes if one is out of range. */
void ATTN_T(attn_load_queries)(attn_plan *plan, const attn_rows *rows, real factor, real *queries);

/* Packs key tile `tile` of (batch, kv_head) to `packed`, (d_k, tile_k), zeros in place of keys that are blocked for
 * every query; `gather` is scratch. Marks open keys that are out of range. */
void ATTN_T(attn_pack_keys)(attn_plan *plan, size_t batch, size_t kv_head, size_t tile, real *packed, real *gather);
/* Packs the values of the tile, (tile_k, d_v_padded), likewise, unless they can be used where they are. */
void ATTN_T(attn_pack_values)(attn_plan *plan, size_t batch, size_t kv_head, size_t tile);

/* Copies the first n keys of the tile to `to`, (n, d_k), zeros in place of those that are blocked for every query. */
void ATTN_T(attn_gather_keys)(attn_plan *plan, size_t batch, size_t kv_head, size_t tile, size_t n, real *to);

/* Rows of tile_k values, `stride` apart */
typedef struct attn_values {
    const real *data;
    size_t stride;
} attn_values;

/* Where the tile stands: packed before, packed now into scratch, or (keys: NULL) used where it is. */
const real *ATTN_T(attn_keys_of)(attn_plan *plan, const attn_rows *rows, size_t tile, const attn_scratch *scratch);
attn_values ATTN_T(attn_values_of)(attn_plan *plan, const attn_rows *rows, size_t tile, const attn_scratch *scratch);
/* A part of a tile: rows [first, first + count) by keys [lo, hi), lo being a multiple of ATTN_KEY_STEP */
typedef struct attn_part {
    size_t first, count, lo, hi;
} attn_part;

/* Products of the part's queries and keys to scratch->scores, the part's first row coming first there. */
void ATTN_T(attn_score_rows)(attn_plan *plan, const attn_rows *rows, size_t tile, const real *keys,
                             const attn_part *part, const attn_scratch *scratch);

/* One row of a tile, the keys [key, key + n): the stages from q.k to the softmax, each in place. */
void ATTN_T(attn_scale_row)(const attn_problem *problem, const attn_rows *rows, size_t row, size_t n, real *s);
void ATTN_T(attn_cap_row)(const attn_problem *problem, size_t n, real *s);
void ATTN_T(attn_bias_row)(const attn_problem *problem, const attn_rows *rows, size_t row, size_t key, size_t n,
                           real *s);
void ATTN_T(attn_block_row)(const attn_problem *problem, const attn_rows *rows, size_t row, size_t key, size_t n,
                            real *s);

/* Keys [key, key + n) of a row of products of queries that were loaded with plan->query_factor: makes of them what
 * exp_sum takes, the masked scores divided by plan->score_scale. Blocks only if `mixed`. */
void ATTN_T(attn_masked_row)(const attn_plan *plan, const attn_rows *rows, size_t row, size_t key, size_t n, bool mixed,
                             real *s);

/* Row `row` of `rows`: where its maximum and sum are kept, two numbers. */
real *ATTN_T(attn_stats_of)(const attn_plan *plan, const attn_rows *rows, size_t row);

/* The same keys of a row: makes of the products the weights, from the row's maximum and sum, which the plan keeps. */
void ATTN_T(attn_weigh_row)(const attn_plan *plan, const attn_rows *rows, size_t row, size_t key, size_t n, real *s);

/* The phases of a run; items of attn_pool_for, arg is the plan. */
void ATTN_T(attn_fused_item)(void *arg, size_t item, size_t slot);
void ATTN_T(attn_merge_item)(void *arg, size_t item, size_t slot);
size_t ATTN_T(attn_cells_items)(const attn_plan *plan);
void ATTN_T(attn_cells_item)(void *arg, size_t item, size_t slot);
size_t ATTN_T(attn_mean_items)(const attn_plan *plan);
void ATTN_T(attn_mean_item)(void *arg, size_t item, size_t slot);
void ATTN_T(attn_present_item)(void *arg, size_t item, size_t slot);

/* ---- numbers of any size (wide_range.c) ---- */

/* A row of scores, its results and its memory */
typedef struct attn_wide_row {
    const attn_results *results; /* what is wanted of this row */
    size_t batch, head, query;
    double *masked;        /* (n_k) */
    double *mean;          /* (n_k): weights summed over heads; NULL if not asked for */
    double *output, *lost; /* (d_v): sum of w v, and the error of its roundings */
} attn_wide_row;

/* Computes the row, without intermediate overflow. Returns ATTN_OVERFLOW, and fills `fault`, if a number that counts
 * does not fit. */
attn_status ATTN_T(attn_wide_row_alone)(const attn_problem *problem, const attn_wide_row *row, attn_fault *fault);

/* Computes again what the tiles could not: rows whose query or open keys are out of range, the output of rows with open
 * values out of range, and scores of keys out of range at blocked cells. Each depends on the row's own open cells
 * alone, and not on what else is asked for: so do its bits. */
attn_status ATTN_T(attn_wide_range)(attn_plan *plan, attn_fault *fault);

#endif
