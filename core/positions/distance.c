/* ALiBi and T5's buckets: what is added to a score for the distance of its key, without a matrix of biases. */
#include "distance.h"

#include <math.h>

#include "../engine/ops.h"

/* The most that a slope times a distance below 2^55, or a number of a table, may be in the tiles: then any bias of the
 * request and a score in their range can be added. */
#ifdef ATTN_DOUBLE
#define SLOPE_MOST 0x1p900
#define TABLE_MOST 0x1p955
#else
#define SLOPE_MOST 0x1p40
#define TABLE_MOST 0x1p95
#endif

/* Integers below this are exact in real, and so are their differences */
#ifdef ATTN_DOUBLE
#define EXACT ((int64_t)1 << 30)
#else
#define EXACT ((int64_t)1 << 23)
#endif

bool ATTN_T(attn_distance_safe)(const attn_problem *problem) {
    const real *slopes = problem->alibi;
    for (size_t h = 0; slopes != NULL && h < problem->heads; h++)
        if (!(fabs((double)slopes[h]) <= SLOPE_MOST)) return false;
    const attn_relative_bias *bias = problem->relative_bias;
    for (size_t i = 0; bias != NULL && i < bias->buckets * problem->heads; i++)
        if (!(fabs((double)((const real *)bias->table)[i]) <= TABLE_MOST)) return false;
    return true;
}

/* ---- positions -------------------------------------------------------------------------------------------------- */

static int64_t query_position(const attn_problem *p, size_t batch, size_t query) {
    if (p->positions != NULL) return p->positions[batch * p->positions_batch + query];
    return (int64_t)query + (p->query_offset != NULL ? p->query_offset[batch] : (int64_t)p->n_past);
}

static int64_t key_position(const attn_problem *p, size_t batch, size_t key) {
    if (key < p->n_past || p->key_positions == NULL) return (int64_t)key;
    return p->key_positions[batch * p->key_positions_batch + (key - p->n_past)];
}

/* How many keys from `key` on, at most n, stand one after the other */
static size_t consecutive(const attn_problem *p, size_t key, size_t n) {
    if (p->key_positions == NULL) return n;
    if (key >= p->n_past) return 1;
    return p->n_past - key < n ? p->n_past - key : n;
}

/* ---- ALiBi ------------------------------------------------------------------------------------------------------ */

/* Keys at the distances first, first + 1, ... */
static void slope_run(real slope, int64_t first, size_t n, real *s) {
    if (n > (size_t)EXACT || first <= -EXACT || first >= EXACT - (int64_t)n) {
        for (size_t j = 0; j < n; j++) s[j] -= (real)((double)slope * fabs((double)(first + (int64_t)j)));
        return;
    }
    const int32_t from = (int32_t)first, count = (int32_t)n;
    for (int32_t j = 0; j < count; j++) {
        const real x = slope * (real)(from + j);
        s[j] -= from + j < 0 ? -x : x;
    }
}

/* ---- T5's buckets ----------------------------------------------------------------------------------------------- */

static size_t side_of(const attn_relative_bias *bias) { return attn_relative_side(bias->buckets, bias->bidirectional); }

/* The last bucket of a side that begins at `distance` or before. */
static size_t bucket_of(const attn_relative_bias *bias, int64_t distance) {
    size_t lo = 0, hi = side_of(bias);
    while (hi - lo > 1) {
        const size_t middle = lo + (hi - lo) / 2;
        if (bias->edges[middle] <= distance)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

/* The row of the table for a key at distance `first`, and how many keys after it share it, at most n. */
static size_t bucket_run(const attn_relative_bias *bias, int64_t first, size_t n, size_t *count) {
    const size_t side = side_of(bias);
    int64_t same = INT64_MAX;
    size_t bucket = 0;
    if (first <= 0) {
        bucket = bucket_of(bias, -first);
        same = -first - bias->edges[bucket] + 1;
    } else if (bias->bidirectional) {
        bucket = bucket_of(bias, first);
        if (bucket + 1 < side) same = bias->edges[bucket + 1] - first;
        bucket += side;
    }
    *count = (uint64_t)same < n ? (size_t)same : n;
    return bucket;
}

static void bucket_row(const attn_problem *p, size_t head, int64_t first, size_t n, real *s) {
    const real *table = p->relative_bias->table;
    for (size_t count; n > 0; n -= count, s += count, first += (int64_t)count) {
        const real bias = table[bucket_run(p->relative_bias, first, n, &count) * p->heads + head];
        for (size_t j = 0; j < count; j++) s[j] += bias;
    }
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

void ATTN_T(attn_distance_row)(const attn_problem *problem, size_t batch, size_t head, size_t query, size_t key,
                               size_t n, real *s) {
    const int64_t position = query_position(problem, batch, query);
    for (size_t count; n > 0; n -= count, s += count, key += count) {
        const int64_t first = key_position(problem, batch, key) - position;
        count = consecutive(problem, key, n);
        if (problem->alibi != NULL) slope_run(((const real *)problem->alibi)[head], first, count, s);
        if (problem->relative_bias != NULL) bucket_row(problem, head, first, count, s);
    }
}

double ATTN_T(attn_distance_add)(const attn_problem *problem, size_t batch, size_t head, size_t query, size_t key,
                                 double s) {
    const int64_t distance = key_position(problem, batch, key) - query_position(problem, batch, query);
    size_t count;
    if (problem->alibi != NULL) s -= (double)((const real *)problem->alibi)[head] * fabs((double)distance);
    if (problem->relative_bias != NULL) {
        const size_t bucket = bucket_run(problem->relative_bias, distance, 1, &count);
        s += (double)((const real *)problem->relative_bias->table)[bucket * problem->heads + head];
    }
    return s;
}
