/* plan.h: how one run is cut into tiles, and where its workspace lies (inside core/ only).
 *
 * A row tile is up to tile_q rows of scores that share one key/value head: some consecutive queries of one head or,
 * where there are few queries, all queries of several heads of a group stacked. A key tile is up to tile_k keys.
 * Every size here follows from the problem and the kernel row alone, never from the number of threads: so do the bits.
 */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "../engine/kernel.h"
#include "blocks.h"
#include "features.h"

/* The parts of a slot, the memory of one thread: those of a tile (see attn_scratch in tile.h), and those of
 * wide_range.c, which lie over them. */
enum {
    ATTN_SLOT_QUERIES,
    ATTN_SLOT_KEYS,
    ATTN_SLOT_VALUES,
    ATTN_SLOT_GATHER,
    ATTN_SLOT_SCORES,
    ATTN_SLOT_OUTPUT,
    ATTN_SLOT_LOST,
    ATTN_SLOT_MAX,
    ATTN_SLOT_SUM,
    ATTN_SLOT_SUM_LOST,
    ATTN_SLOT_MEAN, /* doubles, as all that follow */
    ATTN_SLOT_WIDE_MASKED,
    ATTN_SLOT_WIDE_MEAN,
    ATTN_SLOT_WIDE_OUTPUT,
    ATTN_SLOT_WIDE_LOST,
    ATTN_SLOT_PARTS
};

typedef struct attn_plan {
    const attn_problem *problem;
    const attn_results *results;
    attn_features features;
    const attn_kernel *kernel;
    attn_pool *pool; /* NULL also where the problem is too small to share */
    const atomic_bool *cancel;

    size_t group;      /* query heads of one key/value head */
    size_t n_k;        /* past and new keys */
    size_t d_v_padded; /* d_v rounded up to whole vectors */
    size_t tile_q, tile_k;
    size_t heads_per_tile, queries_per_tile;
    size_t head_tiles, query_tiles, row_tiles; /* of one key/value head; row_tiles = head_tiles * query_tiles */
    size_t rows;                               /* the most rows of a row tile */
    size_t key_tiles;
    size_t splits, tiles_per_split; /* the keys of a row tile are done in `splits` ranges, merged at the end */
    bool packed;   /* key and value tiles are packed once, before; else by each user: where one row tile reads them */
    bool in_place; /* keys are multiplied where they are: so few rows that packing would cost more */
    bool stages;   /* scores, scaled or capped is asked for: blocked cells matter */
    bool direct;   /* masked scores are q.k times the scale, which is above zero: no bias, no softcap */
    double query_factor; /* of the queries, if direct: the scale if it is a power of two, so that nothing is rounded */
    double score_scale;  /* of their products with the keys, if direct: the scale if it is none */
    bool stats;          /* weights are asked for: the maximum and sum of every row are kept */

    unsigned char *workspace;
    size_t at_keys, at_values, at_in_place, at_stats, at_partials, at_slots; /* offsets in bytes */
    size_t at_part[ATTN_SLOT_PARTS];                                         /* within a slot */
    size_t slot_bytes, total_bytes;

    /* What the run found out; each depends on the numbers of the problem alone. */
    atomic_bool cancelled;
    atomic_bool unsafe; /* q, scale or an open key is so large (or scale, softcap so odd) that scores may overflow */
    atomic_bool unsafe_values; /* an open value is so large, or all of its row so small, that sum e v may leave range */
    atomic_bool unsafe_stages; /* a key that is blocked for every query is so large */
} attn_plan;

/* Fills `plan` but for workspace, cancel and the findings. total_bytes is SIZE_MAX where it does not fit. */
void attn_plan_init(attn_plan *plan, const attn_engine *engine, const attn_problem *problem,
                    const attn_results *results, attn_features features);

/* Part `part` of slot `slot` */
static inline void *attn_slot_part(const attn_plan *plan, size_t slot, size_t part) {
    return plan->workspace + plan->at_slots + slot * plan->slot_bytes + plan->at_part[part];
}

/* Row tile `tile` < row_tiles of (batch, kv_head), its spans included. */
attn_rows attn_plan_rows(const attn_plan *plan, size_t batch, size_t kv_head, size_t tile);

/* How many keys stand in key tile `tile`. */
static inline size_t attn_plan_keys(const attn_plan *plan, size_t tile) {
    size_t left = plan->n_k - tile * plan->tile_k;
    return left < plan->tile_k ? left : plan->tile_k;
}

/* true where the caller wants no more of it */
static inline bool attn_plan_cancelled(attn_plan *plan) {
    if (plan->cancel != NULL && atomic_load_explicit(plan->cancel, memory_order_relaxed)) {
        atomic_store_explicit(&plan->cancelled, true, memory_order_relaxed);
    }
    return atomic_load_explicit(&plan->cancelled, memory_order_relaxed);
}

/* true where the fast path should end early */
static inline bool attn_plan_stopped(attn_plan *plan) {
    return attn_plan_cancelled(plan) || atomic_load_explicit(&plan->unsafe, memory_order_relaxed);
}

/* Row `key` of past and new joined, of (batch, kv_head), as an element offset into the data it names. */
static inline const void *attn_joined(const attn_problem *problem, const attn_view *past, const attn_view *fresh,
                                      size_t batch, size_t kv_head, size_t key) {
    const attn_view *view = key < problem->n_past ? past : fresh;
    size_t row = key < problem->n_past ? key : key - problem->n_past;
    size_t offset = batch * view->batch + kv_head * view->head + row * view->row;
    return (const unsigned char *)view->data + offset * attn_sizeof(problem->dtype);
}

/* Something of the scores' shape */
static inline bool attn_wants_cells(const attn_results *results) {
    return results->scores != NULL || results->scaled != NULL || results->capped != NULL || results->masked != NULL ||
           results->weights != NULL;
}

/* Writes output and lse of a problem so small that neither plan nor workspace is worth it; else, and where a number is
 * so large that care is needed, returns false. Which of them it is does not depend on `results`. */
bool attn_small_f32(const attn_kernel *kernel, const attn_problem *problem, attn_features features,
                    const attn_results *results);
bool attn_small_f64(const attn_kernel *kernel, const attn_problem *problem, attn_features features,
                    const attn_results *results);

/* The run of a plan by tiles. */
attn_status attn_execute_f32(attn_plan *plan, attn_fault *fault);
attn_status attn_execute_f64(attn_plan *plan, attn_fault *fault);

#endif
