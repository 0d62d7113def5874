/* tile.c: queries, keys and values of a tile, from the tensors of a problem, and the stages of one row of scores. */
#include "tile.h"

#include <math.h>
#include <string.h>

/* Scores are safe where d_k max|q| max|k| max(1, |scale|) stays under 2^SAFE_BITS: far enough below the largest number
 * that a bias of any finite size can be added (half a unit in the last place of REAL_MAX is 2^103, or 2^970). */
#ifdef ATTN_DOUBLE
#define SAFE_BITS 0x1p960
#else
#define SAFE_BITS 0x1p96
#endif
/* Past these, products that lost digits below the normal range could grow to matter, or s / c leave its range. */
#define SCALE_MOST 0x1p24
#define CAP_LEAST 0x1p-60
#define CAP_MOST 0x1p60

bool ATTN_T(attn_settings_safe)(const attn_problem *problem) {
    real scale = (real)problem->scale, cap = (real)problem->softcap;
    if (!(fabs((double)scale) <= SCALE_MOST)) return false;
    return problem->softcap == 0 || ((double)cap >= CAP_LEAST && (double)cap <= CAP_MOST);
}

static real key_limit(const attn_problem *problem) {
    double scale = fabs((double)(real)problem->scale);
    return (real)sqrt(SAFE_BITS / ((double)problem->d_k * (scale > 1 ? scale : 1)));
}

/* sum e v with e up to e^8 < 2^12 must stay under REAL_MAX */
static real value_limit(const attn_plan *plan) { return (real)((double)REAL_MAX / 0x1p13 / ((double)plan->n_k + 1)); }

static real magnitude(const attn_plan *plan, size_t d, const real *row) {
    real most;
    ATTN_T(attn_ops_of)(plan->kernel)->magnitudes(1, d, row, d, &most);
    return most;
}

static void mark(atomic_bool *finding) { atomic_store_explicit(finding, true, memory_order_relaxed); }

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
        if (!(most <= key_limit(problem))) mark(&plan->unsafe);
    }
}

/* A key or value row with a number over the limit, or a value row with nothing but tiny numbers: of an open key, a
 * finding; else its numbers count for nothing. */
static void clean_row(attn_plan *plan, const attn_rows *rows, size_t key, size_t d, real limit, bool values,
                      real *row) {
    if (attn_key_is_open(plan->problem, rows->batch, rows->kv_head, key)) {
        mark(values ? &plan->unsafe_values : &plan->unsafe);
        return;
    }
    for (size_t c = 0; c < d; c++) {
        if (!isfinite(row[c])) row[c] = 0;
    }
    if (magnitude(plan, d, row) <= limit) return;
    memset(row, 0, d * sizeof *row);
    if (!values) mark(&plan->unsafe_stages);
}

/* Copies rows [key, key + n) of past and new joined to `to`, `stride` apart, cleaned. */
static void gather_rows(attn_plan *plan, size_t batch, size_t kv_head, size_t key, size_t n, bool values, real *to,
                        size_t stride) {
    const attn_problem *problem = plan->problem;
    const attn_view *past = values ? &problem->past_v : &problem->past_k;
    const attn_view *fresh = values ? &problem->v : &problem->k;
    size_t d = values ? problem->d_v : problem->d_k;
    real limit = values ? value_limit(plan) : key_limit(problem), least = values ? VALUE_LEAST : 0;
    const attn_rows where = {.batch = batch, .kv_head = kv_head};
    for (size_t j = 0; j < n; j++, to += stride) {
        memcpy(to, attn_joined(problem, past, fresh, batch, kv_head, key + j), d * sizeof *to);
        for (size_t c = d; c < stride; c++) to[c] = 0;
        real most = magnitude(plan, d, to);
        if (most != 0 && !(least <= most && most <= limit)) clean_row(plan, &where, key + j, d, limit, values, to);
    }
}

/* Where the rows of key tile `tile` lie and how far apart, in `view` or `past`; NULL where some are in each. */
static const real *tile_rows(const attn_plan *plan, const attn_view *past, const attn_view *view, size_t batch,
                             size_t kv_head, size_t tile, size_t *stride) {
    const attn_problem *problem = plan->problem;
    size_t key = tile * plan->tile_k;
    if (key < problem->n_past && key + attn_plan_keys(plan, tile) > problem->n_past) return NULL;
    *stride = key < problem->n_past ? past->row : view->row;
    return attn_joined(problem, past, view, batch, kv_head, key);
}

void ATTN_T(attn_pack_keys)(attn_plan *plan, size_t batch, size_t kv_head, size_t tile, real *packed, real *gather) {
    const attn_problem *problem = plan->problem;
    const attn_ops *ops = ATTN_T(attn_ops_of)(plan->kernel);
    size_t n = attn_plan_keys(plan, tile), d = problem->d_k, stride;
    const real *rows = tile_rows(plan, &problem->past_k, &problem->k, batch, kv_head, tile, &stride);
    if (rows != NULL && ops->pack_keys(n, d, rows, stride, packed) <= key_limit(problem)) return;
    gather_rows(plan, batch, kv_head, tile * plan->tile_k, n, false, gather, d);
    ops->pack_keys(n, d, gather, d, packed);
}

/* The values of the tile where they are, if they can stay there: whole vectors, each row within the limits. Rows that
 * are read many times had better be dense: strides that are large powers of two crowd into a few sets of a cache. */
static bool values_in_place(const attn_plan *plan, size_t batch, size_t kv_head, size_t tile, attn_values *values) {
    enum { CHUNK = 16 };
    const attn_problem *problem = plan->problem;
    const size_t n = attn_plan_keys(plan, tile), d = problem->d_v;
    const real limit = value_limit(plan);
    real most[CHUNK];
    values->data = tile_rows(plan, &problem->past_v, &problem->v, batch, kv_head, tile, &values->stride);
    if (values->data == NULL || d != plan->d_v_padded || (plan->packed && values->stride != d)) return false;
    for (size_t j = 0; j < n; j += CHUNK) {
        const size_t count = n - j < CHUNK ? n - j : CHUNK;
        ATTN_T(attn_ops_of)
        (plan->kernel)->magnitudes(count, d, values->data + j * values->stride, values->stride, most);
        for (size_t i = 0; i < count; i++) {
            if (most[i] != 0 && !(VALUE_LEAST <= most[i] && most[i] <= limit)) return false;
        }
    }
    return true;
}

static size_t packed_index(const attn_plan *plan, const attn_rows *rows, size_t tile) {
    return (rows->batch * plan->problem->kv_heads + rows->kv_head) * plan->key_tiles + tile;
}

static real *packed_values(const attn_plan *plan, size_t index) {
    return (real *)(void *)(plan->workspace + plan->at_values) + index * plan->tile_k * plan->d_v_padded;
}

static void gather_values(attn_plan *plan, size_t batch, size_t kv_head, size_t tile, real *to) {
    gather_rows(plan, batch, kv_head, tile * plan->tile_k, attn_plan_keys(plan, tile), true, to, plan->d_v_padded);
}

void ATTN_T(attn_pack_values)(attn_plan *plan, size_t batch, size_t kv_head, size_t tile) {
    const attn_rows rows = {.batch = batch, .kv_head = kv_head};
    const size_t index = packed_index(plan, &rows, tile);
    attn_values values;
    const bool in_place = values_in_place(plan, batch, kv_head, tile, &values);
    plan->workspace[plan->at_in_place + index] = in_place;
    if (!in_place) gather_values(plan, batch, kv_head, tile, packed_values(plan, index));
}

attn_values ATTN_T(attn_values_of)(attn_plan *plan, const attn_rows *rows, size_t tile, const attn_scratch *scratch) {
    attn_values values = {.data = scratch->values, .stride = plan->d_v_padded};
    if (plan->packed) {
        const attn_problem *problem = plan->problem;
        const size_t index = packed_index(plan, rows, tile);
        values.data = packed_values(plan, index);
        if (plan->workspace[plan->at_in_place + index]) {
            values.data =
                tile_rows(plan, &problem->past_v, &problem->v, rows->batch, rows->kv_head, tile, &values.stride);
        }
    } else {
        attn_values found;
        if (values_in_place(plan, rows->batch, rows->kv_head, tile, &found)) return found;
        gather_values(plan, rows->batch, rows->kv_head, tile, scratch->values);
    }
    return values;
}

const real *ATTN_T(attn_keys_of)(attn_plan *plan, const attn_rows *rows, size_t tile, const attn_scratch *scratch) {
    if (plan->in_place) return NULL;
    if (plan->packed) {
        const real *all = (const real *)(const void *)(plan->workspace + plan->at_keys);
        return all + packed_index(plan, rows, tile) * plan->tile_k * plan->problem->d_k;
    }
    ATTN_T(attn_pack_keys)(plan, rows->batch, rows->kv_head, tile, scratch->keys, scratch->gather);
    return scratch->keys;
}

void ATTN_T(attn_score_rows)(attn_plan *plan, const attn_rows *rows, size_t tile, const real *keys,
                             const attn_part *part, const attn_scratch *scratch) {
    const attn_problem *problem = plan->problem;
    const attn_ops *ops = ATTN_T(attn_ops_of)(plan->kernel);
    const size_t d_k = problem->d_k;
    const real *queries = scratch->queries + part->first * d_k;
    if (keys == NULL) {
        size_t stride;
        const real *in_place =
            tile_rows(plan, &problem->past_k, &problem->k, rows->batch, rows->kv_head, tile, &stride);
        /* All keys of the tile decide, not only the part's: whoever asks for another part must get the same bits. */
        if (in_place != NULL && ops->dots(part->count, attn_plan_keys(plan, tile), d_k, queries, d_k, in_place, stride,
                                          scratch->scores) <= key_limit(problem)) {
            return;
        }
        ATTN_T(attn_pack_keys)(plan, rows->batch, rows->kv_head, tile, scratch->keys, scratch->gather);
        keys = scratch->keys;
    }
    ops->scores(part->count, part->lo, part->hi, d_k, queries, d_k, keys, scratch->scores);
}

void ATTN_T(attn_scale_row)(const attn_problem *problem, size_t n, real *s) {
    real scale = (real)problem->scale;
    if (scale == 1) return;
    for (size_t j = 0; j < n; j++) s[j] *= scale;
}

void ATTN_T(attn_cap_row)(const attn_problem *problem, size_t n, real *s) {
    double cap = (double)(real)problem->softcap;
    if (cap == 0) return;
    for (size_t j = 0; j < n; j++) {
        double x = (double)s[j] / cap; /* where that is tiny, tanh x is x, and x may have lost digits */
        if (fabs(x) > 0x1p-30) s[j] = (real)(cap * tanh(x));
    }
}

void ATTN_T(attn_bias_row)(const attn_problem *problem, const attn_rows *rows, size_t row, size_t key, size_t n,
                           real *s) {
    const attn_broadcast *bias = &problem->bias;
    if (bias->data == NULL) return;
    size_t head = rows->head + row / rows->queries, query = rows->query + row % rows->queries;
    size_t stride = bias->key;
    const real *b =
        (const real *)bias->data + rows->batch * bias->batch + head * bias->head + query * bias->query + key * stride;
    if (stride == 1) {
        for (size_t j = 0; j < n; j++) s[j] += b[j];
    } else {
        for (size_t j = 0; j < n; j++) s[j] += b[j * stride];
    }
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
    attn_span span = attn_query_span(problem, rows->batch, query);
    size_t lo = span.lo > key ? span.lo - key : 0, hi = span.hi > key ? span.hi - key : 0;
    for (size_t j = 0; j < n && j < lo; j++) s[j] = blocked;
    for (size_t j = hi; j < n; j++) s[j] = blocked;
}

void ATTN_T(attn_masked_row)(const attn_plan *plan, const attn_rows *rows, size_t row, size_t key, size_t n, bool mixed,
                             real *s) {
    if (!plan->direct) {
        ATTN_T(attn_scale_row)(plan->problem, n, s);
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
