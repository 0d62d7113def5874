/* plan.h: how one run is cut into tiles, and where its workspace lies (inside core/ only).
 *
 * A row tile is up to tile_q rows of scores that share one key/value head: some consecutive queries of one head or,
 * if there are few queries, all queries of several heads of a group stacked. A key tile is up to tile_k keys.
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
    attn_pool *pool; /* NULL also if the problem is too small to share */
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
    bool packed;   /* key and value tiles are packed once, before; else by each user, if one row tile reads them */
    bool in_place; /* keys are multiplied where they are: so few rows that packing would cost more */
    bool stages;   /* scores, scaled or capped is asked for: blocked cells matter */
    bool direct;   /* masked scores are q.k times the scale, which is above zero: no bias, no softcap */
    double query_factor; /* of the queries, if direct: the scale if it is a power of two, so that nothing is rounded */
    double score_scale;  /* of their products with the keys, if direct: the scale if it is none */
    bool out_of_range;   /* scale or softcap is: the tiles are of no use */
    bool has_open_map; /* mask, bias, key_mask or segments may block a key for every query: at_open says which it leaves
                          open */
    size_t open_heads; /* of a batch: 1 if all key/value heads have the same open keys */
    bool stats;        /* weights are asked for: the maximum and sum of every row are kept */

    unsigned char *workspace;
    size_t at_keys, at_values, at_open, at_odd, at_stats, at_partials, at_slots; /* offsets in bytes */
    size_t at_part[ATTN_SLOT_PARTS];                                             /* within a slot */
    size_t slot_bytes, total_bytes;

    /* What the run found out: the keys whose rows are out of the range of the tiles. */
    atomic_bool cancelled, odd_queries, odd_keys; /* any key or value */
} attn_plan;

/* Fills `plan` but for workspace, cancel and the findings. total_bytes is SIZE_MAX if it does not fit. */
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

/* true if the caller wants no more of it */
static inline bool attn_plan_cancelled(attn_plan *plan) {
    if (plan->cancel != NULL && atomic_load_explicit(plan->cancel, memory_order_relaxed)) {
        atomic_store_explicit(&plan->cancelled, true, memory_order_relaxed);
    }
    return atomic_load_explicit(&plan->cancelled, memory_order_relaxed);
}

/* ---- keys ---- */

/* The kind of a tile, as attn_tile_classify */
attn_tile_kind attn_plan_classify(const attn_plan *plan, const attn_rows *rows, size_t tile);

/* Fills the map of open keys; an item is a (batch, open head), arg is the plan. */
void attn_open_map_item(void *arg, size_t item, size_t slot);

/* true if the key is open to at least one query of one head of the group of kv_head */
bool attn_is_open_key(const attn_plan *plan, size_t batch, size_t kv_head, size_t key);

/* The first run of such keys from `from` on and before `to`, all of the past or all new; {to, to} if there is none. */
attn_span attn_open_run(const attn_plan *plan, size_t batch, size_t kv_head, size_t from, size_t to);

/* Marks of keys whose row is out of range: an open key's key or value, a blocked key's key if its scores are wanted */
enum { ATTN_ODD_KEY = 1, ATTN_ODD_VALUE = 2 };
static inline atomic_uchar *attn_plan_marks(const attn_plan *plan, size_t batch, size_t kv_head) {
    return (atomic_uchar *)(plan->workspace + plan->at_odd) + (batch * plan->problem->kv_heads + kv_head) * plan->n_k;
}
static inline void attn_plan_mark(attn_plan *plan, size_t batch, size_t kv_head, size_t key, unsigned char mark) {
    atomic_fetch_or_explicit(attn_plan_marks(plan, batch, kv_head) + key, mark, memory_order_relaxed);
    atomic_store_explicit(&plan->odd_keys, true, memory_order_relaxed);
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

/* Writes output and lse of a problem so small that neither plan nor workspace is worth it. Returns false if it is none,
 * which sizes and options decide, or if a number does not fit the type: then the tiles find out which. */
bool attn_small_f32(const attn_kernel *kernel, const attn_problem *problem, attn_features features,
                    const attn_results *results);
bool attn_small_f64(const attn_kernel *kernel, const attn_problem *problem, attn_features features,
                    const attn_results *results);

/* The run of a plan by tiles. */
attn_status attn_execute_f32(attn_plan *plan, attn_fault *fault);
attn_status attn_execute_f64(attn_plan *plan, attn_fault *fault);

#endif
