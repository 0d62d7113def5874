#include "plan.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

/* Below this many operations waking another thread costs more than it saves. */
#define SHARE_FLOPS 1e6
/* Up to this many rows are multiplied with keys that are not packed first. */
#define IN_PLACE_ROWS 16
/* A problem of few row tiles is split over its keys into about this many items, none under SPLIT_KEYS keys. */
#define SPLIT_ITEMS 64
#define SPLIT_KEYS 2048

/* From here on up scale times log2 e is a normal number of either type. */
#define DIRECT_SCALE 0x1p-60

static size_t ceil_div(size_t a, size_t b) {
    assert(b > 0);
    return a / b + (a % b != 0);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static void check_problem(const attn_problem *problem) {
    assert(problem->dtype == ATTN_F32 || problem->dtype == ATTN_F64);
    assert(problem->kv_heads == 0 ? problem->heads == 0 : problem->heads % problem->kv_heads == 0);
    assert(problem->d_k > 0);
    assert(isfinite(problem->scale) && isfinite(problem->softcap) && problem->softcap >= 0);
    assert(!problem->has_window || problem->window_left >= ATTN_OPEN_SIDE);
    assert(!problem->has_window || problem->window_right >= ATTN_OPEN_SIDE);
    assert(problem->n_past == 0 || problem->d_v == 0 || problem->past_v.data != NULL);
    assert(problem->n_past == 0 || problem->past_k.data != NULL);
    (void)problem; /* without assertions */
}

/* Open cells of one head, mask and bias aside. */
static double open_cells(const attn_problem *problem, size_t batch) {
    bool same = !problem->causal && !problem->has_window;
    double cells = 0;
    for (size_t i = 0; i < (same ? smaller(problem->n_q, 1) : problem->n_q); i++) {
        attn_span span = attn_query_span(problem, batch, i);
        if (span.hi > span.lo) cells += (double)(span.hi - span.lo);
    }
    return same ? cells * (double)problem->n_q : cells;
}

double attn_flops(const attn_problem *problem) {
    double cells = 0;
    for (size_t b = 0; b < problem->batch; b++) cells += open_cells(problem, b);
    return cells * (double)problem->heads * 2.0 * ((double)problem->d_k + (double)problem->d_v);
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

/* Takes count * size bytes, rounded up to 64, off the workspace; returns their offset. total_bytes saturates. */
static size_t reserve(size_t *total, size_t count, size_t size) {
    size_t at = *total, bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 63 ||
        __builtin_add_overflow(*total, (bytes + 63) & ~(size_t)63, total)) {
        *total = SIZE_MAX;
    }
    return at;
}

static size_t product(size_t a, size_t b) {
    size_t result;
    return __builtin_mul_overflow(a, b, &result) ? SIZE_MAX : result;
}

/* One slot: see scratch_of in tile.c, and careful.c, which uses the same bytes for a few rows of n_k doubles. */
static size_t slot_bytes(const attn_plan *plan, size_t size) {
    const attn_problem *problem = plan->problem;
    size_t total = 0, widest = problem->d_k > problem->d_v ? problem->d_k : problem->d_v;
    reserve(&total, product(plan->rows, problem->d_k), size);       /* queries */
    reserve(&total, product(plan->tile_k, problem->d_k), size);     /* packed keys */
    reserve(&total, product(plan->tile_k, plan->d_v_padded), size); /* packed values */
    reserve(&total, product(plan->tile_k, widest), size);           /* gathered rows */
    reserve(&total, product(plan->rows, plan->tile_k), size);       /* scores */
    for (int i = 0; i < 2; i++) {                                   /* output: sum, its error */
        reserve(&total, product(plan->rows, plan->d_v_padded), size);
    }
    for (int i = 0; i < 3; i++) reserve(&total, plan->rows, size); /* maximum, sum, its error */
    if (plan->results->mean_weights != NULL) reserve(&total, product(plan->queries_per_tile, plan->tile_k), 8);
    size_t careful = 0;
    reserve(&careful, plan->n_k, sizeof(double));
    if (plan->results->mean_weights != NULL) reserve(&careful, plan->n_k, sizeof(double));
    reserve(&careful, problem->d_v, sizeof(double));
    reserve(&careful, problem->d_v, sizeof(double));
    return total > careful ? total : careful;
}

static void lay_out(attn_plan *plan, const attn_engine *engine) {
    const attn_problem *problem = plan->problem;
    size_t size = attn_sizeof(problem->dtype), total = 0;
    size_t pairs = product(problem->batch, problem->kv_heads);
    size_t tiles = plan->packed ? product(pairs, plan->key_tiles) : 0;
    size_t rows = product(product(problem->batch, problem->heads), problem->n_q);
    size_t items = product(pairs, plan->row_tiles);
    size_t partials = plan->splits > 1 ? product(product(items, plan->splits), plan->rows) : 0;
    plan->at_keys = reserve(&total, product(tiles, product(plan->tile_k, problem->d_k)), size);
    plan->at_values = reserve(&total, product(tiles, product(plan->tile_k, plan->d_v_padded)), size);
    plan->at_in_place = reserve(&total, tiles, 1);
    plan->at_stats = reserve(&total, plan->stats ? product(rows, 2) : 0, size);
    plan->at_partials = reserve(&total, product(partials, plan->d_v_padded + 2), size);
    plan->slot_bytes = slot_bytes(plan, size);
    plan->at_slots = reserve(&total, plan->pool != NULL ? attn_pool_slots(engine->pool) : 1, plan->slot_bytes);
    plan->total_bytes = total;
}

void attn_plan_init(attn_plan *plan, const attn_engine *engine, const attn_problem *problem,
                    const attn_results *results) {
    *plan = (attn_plan){.problem = problem, .results = results, .kernel = engine->kernel};
    bool wide = problem->dtype == ATTN_F64;
    size_t lanes = wide ? plan->kernel->f64.lanes : plan->kernel->f32.lanes;
    plan->tile_q = wide ? plan->kernel->f64.tile_q : plan->kernel->f32.tile_q;
    plan->tile_k = wide ? plan->kernel->f64.tile_k : plan->kernel->f32.tile_k;
    plan->n_k = problem->n_past + problem->n_new;
    plan->pool = is_small(problem, plan->n_k) ? NULL : engine->pool;
    plan->group = problem->kv_heads > 0 ? problem->heads / problem->kv_heads : 0;
    plan->d_v_padded = ceil_div(problem->d_v, lanes) * lanes;
    plan->stages = results->scores != NULL || results->scaled != NULL || results->capped != NULL;
    plan->direct = problem->bias.data == NULL && problem->softcap == 0 && problem->scale >= DIRECT_SCALE;
    plan->stats = results->weights != NULL || results->mean_weights != NULL;
    cut_rows(plan);
    cut_keys(plan);
    plan->packed = plan->row_tiles > 1;
    plan->in_place = !plan->packed && plan->rows <= IN_PLACE_ROWS;
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

size_t attn_workspace(const attn_engine *engine, const attn_problem *problem, const attn_results *results) {
    attn_plan plan;
    attn_plan_init(&plan, engine, problem, results);
    return plan.total_bytes;
}

static bool wants_more(const attn_results *r) {
    return attn_wants_cells(r) || r->mean_weights != NULL || r->present_k != NULL || r->present_v != NULL;
}

attn_status attn_run(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                     void *workspace, const atomic_bool *cancel, attn_fault *fault) {
    check_problem(problem);
    const bool wide = problem->dtype == ATTN_F64;
    const bool done =
        wide ? attn_small_f64(engine->kernel, problem, results) : attn_small_f32(engine->kernel, problem, results);
    if (done && !wants_more(results)) return ATTN_OK;
    attn_results left = *results;
    if (done) left.output.data = left.lse = NULL;
    attn_plan plan;
    attn_plan_init(&plan, engine, problem, &left);
    plan.workspace = workspace;
    plan.cancel = cancel;
    return wide ? attn_execute_f64(&plan, fault) : attn_execute_f32(&plan, fault);
}
