/* tile.c: the memory of a tile, its queries, and the stages of one row of scores. */
#include "tile.h"
#include "pattern.h"

#include "../positions/distance.h"

#include <math.h>
#include <string.h>

/* Beyond these, products that lost digits below the normal range could grow to matter, or s / c leave its range. */
#define SCALE_MOST 0x1p24
#define CAP_LEAST 0x1p-60
#define CAP_MOST 0x1p60

bool ATTN_T(attn_settings_safe)(const attn_problem *problem) {
    const real cap = (real)problem->softcap;
    if (!(ATTN_T(attn_greatest_scale)(problem) <= SCALE_MOST)) return false;
    if (!ATTN_T(attn_distance_safe)(problem)) return false;
    return problem->softcap == 0 || ((double)cap >= CAP_LEAST && (double)cap <= CAP_MOST);
}

attn_scratch ATTN_T(attn_scratch_of)(const attn_plan *plan, size_t slot) {
    return (attn_scratch){
        .queries = attn_slot_part(plan, slot, ATTN_SLOT_QUERIES),
        .keys = attn_slot_part(plan, slot, ATTN_SLOT_KEYS),
        .values = attn_slot_part(plan, slot, ATTN_SLOT_VALUES),
        .gather = attn_slot_part(plan, slot, ATTN_SLOT_GATHER),
        .scores = attn_slot_part(plan, slot, ATTN_SLOT_SCORES),
        .output = attn_slot_part(plan, slot, ATTN_SLOT_OUTPUT),
        .lost = attn_slot_part(plan, slot, ATTN_SLOT_LOST),
        .max = attn_slot_part(plan, slot, ATTN_SLOT_MAX),
        .sum = attn_slot_part(plan, slot, ATTN_SLOT_SUM),
        .sum_lost = attn_slot_part(plan, slot, ATTN_SLOT_SUM_LOST),
        .mean = attn_slot_part(plan, slot, ATTN_SLOT_MEAN),
    };
}

void ATTN_T(attn_load_queries)(attn_plan *plan, const attn_rows *rows, real factor, real *queries) {
    const attn_problem *problem = plan->problem;
    const attn_ops *ops = ATTN_T(attn_ops_of)(plan->kernel);
    const size_t d_k = problem->d_k;
    for (size_t h = 0; h < rows->heads; h++) {
        const real *from = (const real *)problem->q.data + rows->batch * problem->q.batch +
                           (rows->head + h) * problem->q.head + rows->query * problem->q.row;
        real most = ops->load(rows->queries, d_k, from, problem->q.row, factor, queries + h * rows->queries * d_k);
        if (!(most <= ATTN_T(attn_key_limit)(problem)))
            atomic_store_explicit(&plan->odd_queries, true, memory_order_relaxed);
    }
}

void ATTN_T(attn_scale_row)(const attn_problem *problem, const attn_rows *rows, size_t row, size_t n, real *s) {
    const real scale = ATTN_T(attn_scale_of)(problem, rows->head + row / rows->queries);
    if (scale == 1) return;
    for (size_t j = 0; j < n; j++) s[j] *= scale;
}

void ATTN_T(attn_cap_row)(const attn_problem *problem, size_t n, real *s) {
    double cap = (double)(real)problem->softcap;
    if (cap == 0) return;
    for (size_t j = 0; j < n; j++) {
        double x = (double)s[j] / cap; /* if that is tiny, tanh x is x, and x may have lost digits */
        if (fabs(x) > 0x1p-30) s[j] = (real)(cap * tanh(x));
    }
}

void ATTN_T(attn_bias_row)(const attn_problem *problem, const attn_rows *rows, size_t row, size_t key, size_t n,
                           real *s) {
    const attn_broadcast *bias = &problem->bias;
    const size_t head = rows->head + row / rows->queries, query = rows->query + row % rows->queries;
    const size_t stride = bias->key;
    if (bias->data != NULL) {
        const real *b = (const real *)bias->data + rows->batch * bias->batch + head * bias->head + query * bias->query +
                        key * stride;
        if (stride == 1) {
            for (size_t j = 0; j < n; j++) s[j] += b[j];
        } else {
            for (size_t j = 0; j < n; j++) s[j] += b[j * stride];
        }
    }
    if (problem->alibi != NULL || problem->relative_bias != NULL)
        ATTN_T(attn_distance_row)(problem, rows->batch, head, query, key, n, s);
}

void ATTN_T(attn_block_row)(const attn_problem *problem, const attn_rows *rows, size_t row, size_t key, size_t n,
                            real *s) {
    const real blocked = -(real)INFINITY;
    size_t head = rows->head + row / rows->queries, query = rows->query + row % rows->queries;
    const attn_broadcast *mask = &problem->mask;
    if (mask->data != NULL) {
        size_t stride = mask->key;
        const uint8_t *m = (const uint8_t *)mask->data + rows->batch * mask->batch + head * mask->head +
                           query * mask->query + key * stride;
        if (stride == 1) {
            for (size_t j = 0; j < n; j++) s[j] = m[j] != 0 ? s[j] : blocked;
        } else {
            for (size_t j = 0; j < n; j++) s[j] = m[j * stride] != 0 ? s[j] : blocked;
        }
    }
    if (problem->key_mask != NULL) {
        const uint8_t *m = problem->key_mask + rows->batch * problem->key_mask_batch + key;
        for (size_t j = 0; j < n; j++) s[j] = m[j] != 0 ? s[j] : blocked;
    }
    const attn_segments *segments = problem->segments;
    if (segments != NULL && segments->gaps) {
        const int64_t *ids = segments->of_key + rows->batch * segments->of_key_batch + key;
        const int64_t id = segments->of_query[rows->batch * segments->of_query_batch + query];
        for (size_t j = 0; j < n; j++) s[j] = ids[j] == id ? s[j] : blocked;
    }
    if (problem->pattern != NULL) {
        enum { CHUNK = 256 };
        for (size_t first = 0, count; first < n; first += count) {
            uint8_t may[CHUNK];
            count = n - first < CHUNK ? n - first : CHUNK;
            attn_pattern_row(problem, rows->batch, head, attn_position(problem, rows->batch, query), key + first, count,
                             may);
            for (size_t j = 0; j < count; j++) s[first + j] = may[j] != 0 ? s[first + j] : blocked;
        }
    }
    attn_span span = attn_query_span(problem, rows->batch, query);
    size_t lo = span.lo > key ? span.lo - key : 0, hi = span.hi > key ? span.hi - key : 0;
    for (size_t j = 0; j < n && j < lo; j++) s[j] = blocked;
    for (size_t j = hi; j < n; j++) s[j] = blocked;
}

void ATTN_T(attn_masked_row)(const attn_plan *plan, const attn_rows *rows, size_t row, size_t key, size_t n, bool mixed,
                             real *s) {
    if (!plan->direct) {
        ATTN_T(attn_scale_row)(plan->problem, rows, row, n, s);
        ATTN_T(attn_cap_row)(plan->problem, n, s);
        ATTN_T(attn_bias_row)(plan->problem, rows, row, key, n, s);
    }
    if (mixed) ATTN_T(attn_block_row)(plan->problem, rows, row, key, n, s);
}

real *ATTN_T(attn_stats_of)(const attn_plan *plan, const attn_rows *rows, size_t row) {
    const attn_problem *problem = plan->problem;
    size_t head = rows->head + row / rows->queries, query = rows->query + row % rows->queries;
    size_t index = (rows->batch * problem->heads + head) * problem->n_q + query;
    return (real *)(void *)(plan->workspace + plan->at_stats) + 2 * index;
}

void ATTN_T(attn_present_item)(void *arg, size_t item, size_t slot) {
    (void)slot;
    attn_plan *plan = arg;
    const attn_problem *problem = plan->problem;
    size_t pair = item / plan->key_tiles, key = item % plan->key_tiles * plan->tile_k;
    size_t batch = pair / problem->kv_heads, kv_head = pair % problem->kv_heads;
    size_t end = key + attn_plan_keys(plan, item % plan->key_tiles);
    real *to_k = plan->results->present_k, *to_v = plan->results->present_v;
    for (; key < end; key++) {
        size_t row = pair * plan->n_k + key;
        if (to_k != NULL) {
            memcpy(to_k + row * problem->d_k, attn_joined(problem, &problem->past_k, &problem->k, batch, kv_head, key),
                   problem->d_k * sizeof(real));
        }
        if (to_v != NULL && problem->d_v > 0) {
            memcpy(to_v + row * problem->d_v, attn_joined(problem, &problem->past_v, &problem->v, batch, kv_head, key),
                   problem->d_v * sizeof(real));
        }
    }
}
