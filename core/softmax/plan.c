/* plan.c: the sizes of tiles and the layout of the workspace. */
#include "plan.h"
#include "../engine/workspace.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Below this many operations waking another thread costs more than it saves. */
#define SHARE_FLOPS 1e6
/* Up to this many rows are multiplied with keys that are not packed first. */
#define IN_PLACE_ROWS 16
/* A problem of few row tiles is split over its keys into about this many items, none under SPLIT_KEYS keys. */
#define SPLIT_ITEMS 64
#define SPLIT_KEYS 2048

/* What may stand between the products and the exponents: nothing but the scale, and blocks. */
#define DIRECT_KNOWS                                                                                            \
    (ATTN_HAS_PAST | ATTN_HAS_MASK | ATTN_HAS_KEY_MASK | ATTN_HAS_LENGTHS | ATTN_HAS_OFFSET | ATTN_HAS_CAUSAL | \
     ATTN_HAS_WINDOW | ATTN_HAS_SINKS | ATTN_HAS_SEGMENTS | ATTN_HAS_PATTERN)
/* What leaves each query one span of keys, without gaps between those of neighbours, or does not close any. */
#define SPAN_KNOWS                                                                                               \
    (ATTN_HAS_PAST | ATTN_HAS_LENGTHS | ATTN_HAS_OFFSET | ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_SOFTCAP | \
     ATTN_HAS_SINKS | ATTN_HAS_SCALES | ATTN_HAS_DISTANCE)
/* What closes the same keys for all heads if the strides of mask and bias say so. */
#define SHARED_KNOWS \
    (SPAN_KNOWS | ATTN_HAS_MASK | ATTN_HAS_BIAS | ATTN_HAS_KEY_MASK | ATTN_HAS_SEGMENTS | ATTN_HAS_PATTERN)
/* What may be done with products of keys that are not packed: everything known so far. */
#define IN_PLACE_KNOWS (DIRECT_KNOWS | SPAN_KNOWS | ATTN_HAS_BIAS)

/* From here on up the scale is a normal number of either type, and far from the end. */
#define DIRECT_SCALE 0x1p-60

static size_t ceil_div(size_t a, size_t b) {
    assert(b > 0);
    return a / b + (a % b != 0);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static bool is_power_of_two(double x) {
    int exponent;
    return frexp(x, &exponent) == 0.5;
}

static bool is_small(const attn_problem *problem, size_t n_k) {
    double cells = (double)problem->batch * (double)problem->heads * (double)problem->n_q * (double)n_k;
    return cells * 2.0 * ((double)problem->d_k + (double)problem->d_v + 16) < SHARE_FLOPS;
}

static void cut_rows(attn_plan *plan) {
    const attn_problem *problem = plan->problem;
    plan->queries_per_tile = smaller(problem->n_q, plan->tile_q);
    plan->heads_per_tile = 1;
    if (problem->n_q > 0 && plan->group > 0) plan->heads_per_tile = smaller(plan->group, plan->tile_q / problem->n_q);
    if (plan->heads_per_tile == 0) plan->heads_per_tile = 1;
    plan->rows = plan->heads_per_tile * plan->queries_per_tile;
    plan->query_tiles = ceil_div(problem->n_q, plan->tile_q);
    plan->head_tiles = ceil_div(plan->group, plan->heads_per_tile);
    plan->row_tiles = plan->query_tiles * plan->head_tiles;
}

static void cut_keys(attn_plan *plan) {
    const attn_problem *problem = plan->problem;
    plan->key_tiles = ceil_div(plan->n_k, plan->tile_k);
    plan->splits = 1;
    plan->tiles_per_split = plan->key_tiles;
    size_t items = problem->batch * problem->kv_heads * plan->row_tiles;
    if (items > 0 && items < SPLIT_ITEMS && plan->n_k >= 2 * SPLIT_KEYS) {
        size_t wanted = smaller(ceil_div(SPLIT_ITEMS, items), plan->n_k / SPLIT_KEYS);
        plan->tiles_per_split = ceil_div(plan->key_tiles, wanted);
        plan->splits = ceil_div(plan->key_tiles, plan->tiles_per_split);
    }
}

/* The parts of a slot. The wide range needs none of the others: it begins where they do. */
static void lay_out_slot(attn_plan *plan, size_t size) {
    const attn_problem *problem = plan->problem;
    const size_t d_k = problem->d_k, widest = d_k > problem->d_v ? d_k : problem->d_v;
    const bool mean = plan->results->mean_weights != NULL;
    const size_t counts[ATTN_SLOT_PARTS] = {
        [ATTN_SLOT_QUERIES] = attn_product(plan->rows, d_k),
        [ATTN_SLOT_KEYS] = attn_product(plan->tile_k, d_k),
        [ATTN_SLOT_VALUES] = attn_product(plan->tile_k, plan->d_v_padded),
        [ATTN_SLOT_GATHER] = attn_product(plan->tile_k, widest),
        [ATTN_SLOT_SCORES] = attn_product(plan->rows, plan->tile_k),
        [ATTN_SLOT_OUTPUT] = attn_product(plan->rows, plan->d_v_padded),
        [ATTN_SLOT_LOST] = attn_product(plan->rows, plan->d_v_padded),
        [ATTN_SLOT_MAX] = plan->rows,
        [ATTN_SLOT_SUM] = plan->rows,
        [ATTN_SLOT_SUM_LOST] = plan->rows,
        [ATTN_SLOT_MEAN] = mean ? attn_product(plan->queries_per_tile, plan->tile_k) : 0,
        [ATTN_SLOT_WIDE_MASKED] = plan->n_k,
        [ATTN_SLOT_WIDE_MEAN] = mean ? plan->n_k : 0,
        [ATTN_SLOT_WIDE_OUTPUT] = problem->d_v,
        [ATTN_SLOT_WIDE_LOST] = problem->d_v,
    };
    size_t tiles = 0, wide = 0;
    for (size_t i = 0; i < ATTN_SLOT_MEAN; i++) plan->at_part[i] = attn_reserve(&tiles, counts[i], size);
    plan->at_part[ATTN_SLOT_MEAN] = attn_reserve(&tiles, counts[ATTN_SLOT_MEAN], sizeof(double));
    for (size_t i = ATTN_SLOT_WIDE_MASKED; i < ATTN_SLOT_PARTS; i++)
        plan->at_part[i] = attn_reserve(&wide, counts[i], sizeof(double));
    plan->slot_bytes = tiles > wide ? tiles : wide;
}

static void lay_out(attn_plan *plan, const attn_engine *engine) {
    const attn_problem *problem = plan->problem;
    size_t size = attn_sizeof(problem->dtype), total = 0;
    size_t pairs = attn_product(problem->batch, problem->kv_heads);
    size_t opens = plan->has_open_map ? attn_product(problem->batch, plan->open_heads) : 0;
    size_t tiles = plan->packed ? attn_product(pairs, plan->key_tiles) : 0;
    size_t rows = attn_product(attn_product(problem->batch, problem->heads), problem->n_q);
    size_t items = attn_product(pairs, plan->row_tiles);
    size_t partials = plan->splits > 1 ? attn_product(attn_product(items, plan->splits), plan->rows) : 0;
    plan->at_keys = attn_reserve(&total, attn_product(tiles, attn_product(plan->tile_k, problem->d_k)), size);
    plan->at_values = attn_reserve(&total, attn_product(tiles, attn_product(plan->tile_k, plan->d_v_padded)), size);
    plan->at_open = attn_reserve(&total, attn_product(opens, plan->n_k), 1);
    plan->at_odd = attn_reserve(&total, attn_product(pairs, plan->n_k), 1);
    plan->at_stats = attn_reserve(&total, plan->stats ? attn_product(rows, 2) : 0, size);
    plan->at_partials = attn_reserve(&total, attn_product(partials, plan->d_v_padded + 2), size);
    lay_out_slot(plan, size);
    plan->at_slots = attn_reserve(&total, plan->pool != NULL ? attn_pool_slots(engine->pool) : 1, plan->slot_bytes);
    plan->total_bytes = total;
}

void attn_plan_init(attn_plan *plan, const attn_engine *engine, const attn_problem *problem,
                    const attn_results *results, attn_features features) {
    *plan = (attn_plan){.problem = problem, .results = results, .features = features, .kernel = engine->kernel};
    bool wide = problem->dtype == ATTN_F64;
    size_t lanes = wide ? plan->kernel->f64.lanes : plan->kernel->f32.lanes;
    plan->tile_q = wide ? plan->kernel->f64.tile_q : plan->kernel->f32.tile_q;
    plan->tile_k = wide ? plan->kernel->f64.tile_k : plan->kernel->f32.tile_k;
    plan->n_k = problem->n_past + problem->n_new;
    plan->pool = is_small(problem, plan->n_k) ? NULL : engine->pool;
    plan->group = problem->kv_heads > 0 ? problem->heads / problem->kv_heads : 0;
    plan->d_v_padded = ceil_div(problem->d_v, lanes) * lanes;
    plan->stages = results->scores != NULL || results->scaled != NULL || results->capped != NULL;
    plan->direct = attn_knows(DIRECT_KNOWS, features) && problem->scale >= DIRECT_SCALE;
    const double scale = problem->dtype == ATTN_F64 ? problem->scale : (double)(float)problem->scale;
    plan->query_factor = plan->direct && is_power_of_two(scale) ? scale : 1;
    plan->score_scale = plan->direct ? scale / plan->query_factor : 1;
    plan->stats = results->weights != NULL || results->mean_weights != NULL;
    plan->has_open_map = !attn_knows(SPAN_KNOWS, features);
    plan->open_heads = attn_heads_share_rows(problem) && attn_knows(SHARED_KNOWS, features) ? 1 : problem->kv_heads;
    cut_rows(plan);
    cut_keys(plan);
    plan->packed = plan->row_tiles > 1;
    plan->in_place = attn_knows(IN_PLACE_KNOWS, features) && !plan->packed && plan->rows <= IN_PLACE_ROWS;
    lay_out(plan, engine);
}

attn_rows attn_plan_rows(const attn_plan *plan, size_t batch, size_t kv_head, size_t tile) {
    const attn_problem *problem = plan->problem;
    size_t first_head = tile / plan->query_tiles * plan->heads_per_tile;
    size_t first_query = tile % plan->query_tiles * plan->tile_q;
    attn_rows rows = {
        .batch = batch,
        .kv_head = kv_head,
        .head = kv_head * plan->group + first_head,
        .heads = smaller(plan->heads_per_tile, plan->group - first_head),
        .query = first_query,
        .queries = smaller(plan->tile_q, problem->n_q - first_query),
    };
    attn_rows_spans(problem, &rows);
    return rows;
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

static unsigned char *open_map(const attn_plan *plan, size_t batch, size_t kv_head) {
    const size_t head = plan->open_heads == 1 ? 0 : kv_head;
    return plan->workspace + plan->at_open + (batch * plan->open_heads + head) * plan->n_k;
}

void attn_open_map_item(void *arg, size_t item, size_t slot) {
    (void)slot;
    attn_plan *plan = arg;
    const size_t batch = item / plan->open_heads, head = item % plan->open_heads;
    attn_open_keys(plan->problem, batch, head, open_map(plan, batch, head));
}

attn_tile_kind attn_plan_classify(const attn_plan *plan, const attn_rows *rows, size_t tile) {
    const size_t key = tile * plan->tile_k, n = attn_plan_keys(plan, tile);
    if (plan->has_open_map && memchr(open_map(plan, rows->batch, rows->kv_head) + key, 1, n) == NULL)
        return ATTN_TILE_BLOCKED;
    return attn_tile_classify(plan->problem, rows, key, n);
}

bool attn_is_open_key(const attn_plan *plan, size_t batch, size_t kv_head, size_t key) {
    const attn_span run = attn_open_run(plan, batch, kv_head, key, key + 1);
    return run.lo < run.hi;
}

attn_span attn_open_run(const attn_plan *plan, size_t batch, size_t kv_head, size_t from, size_t to) {
    const attn_span reach = attn_reach(plan->problem, batch);
    const size_t n_past = plan->problem->n_past;
    attn_span run = {from > reach.lo ? from : reach.lo, smaller(to, reach.hi)};
    if (run.lo >= run.hi) return (attn_span){to, to};
    if (plan->has_open_map) {
        const unsigned char *map = open_map(plan, batch, kv_head), *first = memchr(map + run.lo, 1, run.hi - run.lo);
        if (first == NULL) return (attn_span){to, to};
        run.lo = (size_t)(first - map);
        const unsigned char *end = memchr(first, 0, run.hi - run.lo);
        if (end != NULL) run.hi = (size_t)(end - map);
    }
    if (run.lo < n_past && n_past < run.hi) run.hi = n_past;
    return run;
}
