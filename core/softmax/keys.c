/* keys.c: the keys and values of a tile: packed, or used where they are.
 *
 * Which numbers are looked at is decided by the blocks alone. A key that no query may attend is never read, or zeros
 * stand for it, whatever it holds; so it changes neither a bit of an answer nor the time. Only if scores of blocked
 * cells are asked for (plan->stages) such a key is multiplied too, and its products stay in its own column. */
#include "tile.h"

#include <math.h>
#include <string.h>

/* Scores are in range if d_k max|q| max|k| max(1, |scale|) stays under 2^SAFE_BITS: far enough below the largest number
 * that a bias of any finite size can be added (half a unit in the last place of REAL_MAX is 2^103, or 2^970). */
#ifdef ATTN_DOUBLE
#define SAFE_BITS 0x1p960
#else
#define SAFE_BITS 0x1p96
#endif

real ATTN_T(attn_key_limit)(const attn_problem *problem) {
    const double scale = ATTN_T(attn_greatest_scale)(problem);
    return (real)sqrt(SAFE_BITS / ((double)problem->d_k * (scale > 1 ? scale : 1)));
}

/* sum e v with e up to e^8 < 2^12 must stay under REAL_MAX. If every |v| of a row is below REAL_MIN / REAL_EPS,
 * products e v round to subnormal numbers, and that could add up to more than the bound of an output element, 8 eps
 * max|v|, for 2^24 keys (2^53). */
static bool value_is_odd(const attn_plan *plan, real most) {
    const double limit = (double)REAL_MAX / 0x1p13 / ((double)plan->n_k + 1);
    return most != 0 && !((real)(REAL_MIN / REAL_EPS) <= most && most <= (real)limit);
}

/* Marks the keys [key, key + n), all open, whose rows, `stride` apart, are out of range. */
static void mark_odd(attn_plan *plan, size_t batch, size_t kv_head, attn_span keys, bool values, const real *rows,
                     size_t stride) {
    enum { CHUNK = 16 };
    const size_t d = values ? plan->problem->d_v : plan->problem->d_k;
    const real limit = ATTN_T(attn_key_limit)(plan->problem);
    real most[CHUNK];
    for (size_t j = keys.lo, n; j < keys.hi; j += n, rows += n * stride) {
        n = keys.hi - j < CHUNK ? keys.hi - j : CHUNK;
        ATTN_T(attn_ops_of)(plan->kernel)->magnitudes(n, d, rows, stride, most);
        for (size_t i = 0; i < n; i++) {
            if (values ? value_is_odd(plan, most[i]) : !(most[i] <= limit))
                attn_plan_mark(plan, batch, kv_head, j + i, values ? ATTN_ODD_VALUE : ATTN_ODD_KEY);
        }
    }
}

static const real *row_of(const attn_plan *plan, size_t batch, size_t kv_head, size_t key, bool values) {
    const attn_problem *problem = plan->problem;
    return values ? attn_joined(problem, &problem->past_v, &problem->v, batch, kv_head, key)
                  : attn_joined(problem, &problem->past_k, &problem->k, batch, kv_head, key);
}

/* How far apart the rows of a run of keys are */
static size_t stride_of(const attn_plan *plan, size_t key, bool values) {
    const attn_problem *problem = plan->problem;
    if (key < problem->n_past) return values ? problem->past_v.row : problem->past_k.row;
    return values ? problem->v.row : problem->k.row;
}

/* The row of a key that is blocked for every query, for those who ask for its scores; NULL if it is out of range. */
static const real *blocked_row(attn_plan *plan, size_t batch, size_t kv_head, size_t key) {
    const real *row = row_of(plan, batch, kv_head, key, false);
    real most;
    ATTN_T(attn_ops_of)(plan->kernel)->magnitudes(1, plan->problem->d_k, row, plan->problem->d_k, &most);
    if (most <= ATTN_T(attn_key_limit)(plan->problem)) return row;
    attn_plan_mark(plan, batch, kv_head, key, ATTN_ODD_KEY);
    return NULL;
}

/* Copies the rows of `keys` to `to`, `stride` apart: the open ones, zeros for others, and zeros after each row. */
static void gather_rows(attn_plan *plan, size_t batch, size_t kv_head, attn_span keys, bool values, real *to,
                        size_t stride) {
    const size_t d = values ? plan->problem->d_v : plan->problem->d_k;
    if (keys.hi > keys.lo) memset(to, 0, (keys.hi - keys.lo) * stride * sizeof *to);
    for (attn_span run = {.hi = keys.lo}; run.hi < keys.hi;) {
        run = attn_open_run(plan, batch, kv_head, run.hi, keys.hi);
        if (run.lo >= run.hi) break;
        const size_t from = stride_of(plan, run.lo, values);
        const real *rows = row_of(plan, batch, kv_head, run.lo, values);
        for (size_t j = run.lo; j < run.hi; j++)
            memcpy(to + (j - keys.lo) * stride, rows + (j - run.lo) * from, d * sizeof *to);
    }
    for (size_t j = keys.lo; j < keys.hi && !values && plan->stages; j++) {
        if (attn_is_open_key(plan, batch, kv_head, j)) continue;
        const real *row = blocked_row(plan, batch, kv_head, j);
        if (row != NULL) memcpy(to + (j - keys.lo) * stride, row, d * sizeof *to);
    }
}

void ATTN_T(attn_gather_keys)(attn_plan *plan, size_t batch, size_t kv_head, size_t tile, size_t n, real *to) {
    const size_t key = tile * plan->tile_k;
    gather_rows(plan, batch, kv_head, (attn_span){key, key + n}, false, to, plan->problem->d_k);
}

/* The rows of a tile up to the last that is open to any query, if all of them are open and in one tensor. */
static bool tile_is_one_run(const attn_plan *plan, size_t batch, size_t kv_head, size_t tile, attn_span *run) {
    const size_t key = tile * plan->tile_k, end = key + attn_plan_keys(plan, tile);
    *run = attn_open_run(plan, batch, kv_head, key, end);
    if (run->lo != key) return false;
    const attn_span next = attn_open_run(plan, batch, kv_head, run->hi, end);
    return next.lo >= next.hi;
}

void ATTN_T(attn_pack_keys)(attn_plan *plan, size_t batch, size_t kv_head, size_t tile, real *packed, real *gather) {
    const attn_ops *ops = ATTN_T(attn_ops_of)(plan->kernel);
    const real limit = ATTN_T(attn_key_limit)(plan->problem);
    const size_t d = plan->problem->d_k, key = tile * plan->tile_k, n = attn_plan_keys(plan, tile);
    attn_span run;
    if (tile_is_one_run(plan, batch, kv_head, tile, &run) && (!plan->stages || run.hi == key + n)) {
        const real *rows = row_of(plan, batch, kv_head, key, false);
        const size_t stride = stride_of(plan, key, false);
        if (!(ops->pack_keys(run.hi - key, d, rows, stride, packed) <= limit))
            mark_odd(plan, batch, kv_head, run, false, rows, stride);
        return;
    }
    gather_rows(plan, batch, kv_head, (attn_span){key, key + n}, false, gather, d);
    if (!(ops->pack_keys(n, d, gather, d, packed) <= limit))
        mark_odd(plan, batch, kv_head, (attn_span){key, key + n}, false, gather, d);
}

/* The values of the tile where they are, if they can stay there: whole vectors, all open. Rows that are read many times
 * are best dense: strides that are large powers of two crowd into a few sets of a cache. */
static bool values_in_place(const attn_plan *plan, size_t batch, size_t kv_head, size_t tile, attn_values *values,
                            attn_span *run) {
    const size_t d = plan->problem->d_v, end = tile * plan->tile_k + attn_plan_keys(plan, tile);
    const attn_span reach = attn_reach(plan->problem, batch);
    if (d != plan->d_v_padded || !tile_is_one_run(plan, batch, kv_head, tile, run)) return false;
    if (run->hi != (reach.hi < end ? reach.hi : end)) return false; /* the tile is used up to there */
    values->data = row_of(plan, batch, kv_head, run->lo, true);
    values->stride = stride_of(plan, run->lo, true);
    return !plan->packed || values->stride == d;
}

static size_t packed_index(const attn_plan *plan, size_t batch, size_t kv_head, size_t tile) {
    return (batch * plan->problem->kv_heads + kv_head) * plan->key_tiles + tile;
}

/* The values in place, or gathered to `to`; marks those that are out of range. */
static attn_values take_values(attn_plan *plan, size_t batch, size_t kv_head, size_t tile, real *to) {
    attn_values values;
    attn_span run;
    if (!values_in_place(plan, batch, kv_head, tile, &values, &run)) {
        const size_t key = tile * plan->tile_k;
        run = (attn_span){key, key + attn_plan_keys(plan, tile)};
        values = (attn_values){to, plan->d_v_padded};
        gather_rows(plan, batch, kv_head, run, true, to, plan->d_v_padded);
    }
    mark_odd(plan, batch, kv_head, run, true, values.data, values.stride);
    return values;
}

static real *packed_values(const attn_plan *plan, size_t index) {
    return (real *)(void *)(plan->workspace + plan->at_values) + index * plan->tile_k * plan->d_v_padded;
}

void ATTN_T(attn_pack_values)(attn_plan *plan, size_t batch, size_t kv_head, size_t tile) {
    take_values(plan, batch, kv_head, tile, packed_values(plan, packed_index(plan, batch, kv_head, tile)));
}

attn_values ATTN_T(attn_values_of)(attn_plan *plan, const attn_rows *rows, size_t tile, const attn_scratch *scratch) {
    if (!plan->packed) return take_values(plan, rows->batch, rows->kv_head, tile, scratch->values);
    attn_values values;
    attn_span run;
    if (values_in_place(plan, rows->batch, rows->kv_head, tile, &values, &run)) return values;
    const size_t index = packed_index(plan, rows->batch, rows->kv_head, tile);
    return (attn_values){packed_values(plan, index), plan->d_v_padded};
}

const real *ATTN_T(attn_keys_of)(attn_plan *plan, const attn_rows *rows, size_t tile, const attn_scratch *scratch) {
    if (plan->in_place) return NULL;
    if (plan->packed) {
        const real *all = (const real *)(const void *)(plan->workspace + plan->at_keys);
        return all + packed_index(plan, rows->batch, rows->kv_head, tile) * plan->tile_k * plan->problem->d_k;
    }
    ATTN_T(attn_pack_keys)(plan, rows->batch, rows->kv_head, tile, scratch->keys, scratch->gather);
    return scratch->keys;
}

static void clear_columns(const attn_plan *plan, size_t rows, size_t columns, real *s) {
    for (size_t i = 0; i < rows && columns > 0; i++, s += plan->tile_k) memset(s, 0, columns * sizeof *s);
}

/* Keys that are blocked for every query: their columns are zeros, or, if they are asked for, their products. */
static void score_blocked(attn_plan *plan, const attn_rows *rows, size_t count, attn_span keys, const real *queries,
                          real *s) {
    const size_t d = plan->problem->d_k;
    clear_columns(plan, count, keys.hi - keys.lo, s);
    for (size_t j = keys.lo; j < keys.hi && plan->stages; j++) {
        const real *row = blocked_row(plan, rows->batch, rows->kv_head, j);
        if (row != NULL) ATTN_T(attn_ops_of)(plan->kernel)->dots(count, 1, d, queries, d, row, d, s + (j - keys.lo));
    }
}

static void score_in_place(attn_plan *plan, const attn_rows *rows, size_t tile, const attn_part *part,
                           const real *queries, real *s) {
    const size_t d = plan->problem->d_k, key = tile * plan->tile_k, end = key + part->hi;
    const real limit = ATTN_T(attn_key_limit)(plan->problem);
    for (size_t done = key + part->lo; done < end;) {
        const attn_span run = attn_open_run(plan, rows->batch, rows->kv_head, done, end);
        score_blocked(plan, rows, part->count, (attn_span){done, run.lo}, queries, s + (done - key));
        done = run.hi;
        if (run.lo >= run.hi) break;
        const real *keys = row_of(plan, rows->batch, rows->kv_head, run.lo, false);
        const size_t stride = stride_of(plan, run.lo, false);
        const real most = ATTN_T(attn_ops_of)(plan->kernel)
                              ->dots(part->count, run.hi - run.lo, d, queries, d, keys, stride, s + (run.lo - key));
        if (!(most <= limit)) mark_odd(plan, rows->batch, rows->kv_head, run, false, keys, stride);
    }
}

void ATTN_T(attn_score_rows)(attn_plan *plan, const attn_rows *rows, size_t tile, const real *keys,
                             const attn_part *part, const attn_scratch *scratch) {
    const size_t d = plan->problem->d_k;
    const real *queries = scratch->queries + part->first * d;
    if (keys == NULL) {
        score_in_place(plan, rows, tile, part, queries, scratch->scores);
        return;
    }
    ATTN_T(attn_ops_of)(plan->kernel)->scores(part->count, part->lo, part->hi, d, queries, d, keys, scratch->scores);
}
