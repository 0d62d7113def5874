/* backward.c: gradients, in a second pass over the tiles of the first (FlashAttention: Dao et al., arXiv:2205.14135,
 * section 3.1 and appendix B). Nothing of the scores' shape is kept: each tile of weights is computed again from the
 * maximum and the sum of its rows, by the functions that make `weights`; so every option that closes keys or changes
 * scores counts here too, and blocked tiles are skipped.
 *
 * Gradients of queries are sums over keys, one item a row tile; those of keys and values are sums over queries, one
 * item a key tile; those of bias one item for each part of it that shares no number with others. An item is done by one
 * thread in a fixed order. Sums over tiles carry their error along, as in fused.c. */
#include "backward.h"

#include "../engine/compensated.h"
#include "../engine/workspace.h"
#include "tile.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* The memory of a slot beside that of the plan. */
enum { GRAD_OUTPUT, QUERIES, KEYS, DELTA, SLOPES, CAPS, TURNED, PRODUCT, SUM_K, LOST_K, SUM_V, LOST_V, PARTS };

typedef struct backward {
    attn_plan plan;
    attn_results asked, results;
    const attn_gradients *gradients;
    unsigned char *workspace;
    size_t at_output, at_bias_lost, at_slots, at_part[PARTS], slot_bytes, total;
} backward;

typedef struct tile_memory {
    real *grad_output;    /* (rows, d_v) */
    real *queries;        /* (rows, d_k), as they came */
    real *keys;           /* (tile_k, d_k) */
    real *delta;          /* (rows): D, the sum over the keys of P dP, which is grad_output . output */
    real *slopes;         /* (rows, tile_k): dP, then dB, then dS */
    real *caps;           /* (rows, tile_k): the derivative of softcap; unused without it */
    real *turned;         /* (tile_k, rows) */
    real *product;        /* (the larger of rows and tile_k, the larger of d_k and d_v) */
    real *sum_k, *lost_k; /* as product: of the queries, or of the keys */
    real *sum_v, *lost_v; /* (tile_k, d_v) */
} tile_memory;

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void lay_out_slot(backward *b, const attn_problem *problem) {
    const attn_plan *plan = &b->plan;
    const size_t d_k = problem->d_k, d_v = problem->d_v, wide = d_k > d_v ? d_k : d_v;
    const size_t tall = plan->rows > plan->tile_k ? plan->rows : plan->tile_k;
    const size_t cells = attn_product(plan->rows, plan->tile_k);
    const size_t counts[PARTS] = {
        [GRAD_OUTPUT] = attn_product(plan->rows, d_v),
        [QUERIES] = attn_product(plan->rows, d_k),
        [KEYS] = attn_product(plan->tile_k, d_k),
        [DELTA] = plan->rows,
        [SLOPES] = cells,
        [CAPS] = problem->softcap != 0 ? cells : 0,
        [TURNED] = cells,
        [PRODUCT] = attn_product(tall, wide),
        [SUM_K] = attn_product(tall, d_k),
        [LOST_K] = attn_product(tall, d_k),
        [SUM_V] = attn_product(plan->tile_k, d_v),
        [LOST_V] = attn_product(plan->tile_k, d_v),
    };
    b->slot_bytes = 0;
    for (size_t i = 0; i < PARTS; i++) b->at_part[i] = attn_reserve(&b->slot_bytes, counts[i], sizeof(real));
}

/* The plan of the first pass, which keeps the rows' maxima and sums as if weights were asked for, and what follows. */
static void prepare(backward *b, const attn_engine *engine, const attn_problem *problem, attn_features features,
                    const attn_gradients *gradients) {
    const size_t d = problem->d_v, rows = attn_product(attn_product(problem->batch, problem->heads), problem->n_q);
    static real somewhere;
    b->gradients = gradients;
    b->results = (attn_results){.output = {&somewhere, problem->heads * problem->n_q * d, problem->n_q * d, d}};
    b->asked = b->results;
    b->asked.weights = &somewhere;
    attn_plan_init(&b->plan, engine, problem, &b->asked, features);
    b->plan.results = &b->results;
    lay_out_slot(b, problem);
    b->total = 0;
    attn_reserve(&b->total, b->plan.total_bytes, 1);
    b->at_output = attn_reserve(&b->total, attn_product(rows, d), sizeof(real));
    b->at_bias_lost = attn_reserve(&b->total, gradients->bias != NULL ? gradients->bias_count : 0, sizeof(real));
    b->at_slots = attn_reserve(&b->total, b->plan.pool != NULL ? attn_pool_slots(engine->pool) : 1, b->slot_bytes);
}

static real *part_of(const backward *b, size_t slot, size_t part) {
    return (real *)(void *)(b->workspace + b->at_slots + slot * b->slot_bytes + b->at_part[part]);
}

static tile_memory memory_of(const backward *b, size_t slot) {
    return (tile_memory){
        .grad_output = part_of(b, slot, GRAD_OUTPUT),
        .queries = part_of(b, slot, QUERIES),
        .keys = part_of(b, slot, KEYS),
        .delta = part_of(b, slot, DELTA),
        .slopes = part_of(b, slot, SLOPES),
        .caps = part_of(b, slot, CAPS),
        .turned = part_of(b, slot, TURNED),
        .product = part_of(b, slot, PRODUCT),
        .sum_k = part_of(b, slot, SUM_K),
        .lost_k = part_of(b, slot, LOST_K),
        .sum_v = part_of(b, slot, SUM_V),
        .lost_v = part_of(b, slot, LOST_V),
    };
}

static void clear(size_t n, real *sum, real *lost) {
    if (n == 0) return;
    memset(sum, 0, n * sizeof *sum);
    memset(lost, 0, n * sizeof *lost);
}

static void add(size_t n, real *restrict sum, real *restrict lost, const real *restrict x) {
    for (size_t c = 0; c < n; c++) ATTN_ADD_COMPENSATED(sum[c], lost[c], x[c]);
}

/* ---- one tile --------------------------------------------------------------------------------------------------- */

static const real *grad_output_row(const backward *b, size_t batch, size_t head, size_t query) {
    const attn_view *view = &b->gradients->grad_output;
    return (const real *)view->data + batch * view->batch + head * view->head + query * view->row;
}

/* D of a query: grad_output . output */
static double delta_of(const backward *b, size_t batch, size_t head, size_t query) {
    const attn_problem *problem = b->plan.problem;
    const real *grad = grad_output_row(b, batch, head, query);
    const real *output = (const real *)(const void *)(b->workspace + b->at_output) +
                         ((batch * problem->heads + head) * problem->n_q + query) * problem->d_v;
    double sum = 0;
    for (size_t c = 0; c < problem->d_v; c++) sum += (double)grad[c] * (double)output[c];
    return sum;
}

static void load_rows(backward *b, const attn_rows *rows, const attn_scratch *scratch, const tile_memory *m) {
    const attn_problem *problem = b->plan.problem;
    ATTN_T(attn_load_queries)(&b->plan, rows, (real)b->plan.query_factor, scratch->queries);
    ATTN_T(attn_load_queries)(&b->plan, rows, 1, m->queries);
    for (size_t r = 0; r < rows->heads * rows->queries; r++) {
        const size_t head = rows->head + r / rows->queries, query = rows->query + r % rows->queries;
        m->delta[r] = (real)delta_of(b, rows->batch, head, query);
        if (problem->d_v > 0)
            memcpy(m->grad_output + r * problem->d_v, grad_output_row(b, rows->batch, head, query),
                   problem->d_v * sizeof(real));
    }
}

/* caps: the derivative of c tanh(s / c), 1 / cosh^2(s / c), at the products s of a row times the scale */
static void cap_slopes(const attn_problem *problem, real scale, size_t n, const real *s, real *caps) {
    const double cap = (double)(real)problem->softcap;
    for (size_t j = 0; j < n; j++) {
        const double h = cosh((double)(s[j] * scale) / cap);
        caps[j] = (real)(1 / (h * h));
    }
}

/* Leaves P in scratch->scores and dB in m->slopes, for the first keys of the tile, as many as it returns: those beyond
 * are blocked for all queries of the batch. P is 0 at blocked cells, where dP may be anything. */
static size_t tile_slopes(backward *b, const attn_rows *rows, size_t tile, const attn_scratch *scratch,
                          const tile_memory *m) {
    attn_plan *plan = &b->plan;
    const attn_problem *problem = plan->problem;
    const size_t key = tile * plan->tile_k, count = rows->heads * rows->queries, d = problem->d_v;
    const attn_span reach = attn_reach(problem, rows->batch);
    const size_t all = attn_plan_keys(plan, tile), n = reach.hi - key < all ? reach.hi - key : all;
    const attn_part part = {.count = count, .hi = n};
    ATTN_T(attn_score_rows)(plan, rows, tile, ATTN_T(attn_keys_of)(plan, rows, tile, scratch), &part, scratch);
    for (size_t r = 0; r < count; r++) {
        real *s = scratch->scores + r * plan->tile_k;
        const real scale = ATTN_T(attn_scale_of)(problem, rows->head + r / rows->queries);
        if (problem->softcap != 0) cap_slopes(problem, scale, n, s, m->caps + r * plan->tile_k);
        ATTN_T(attn_weigh_row)(plan, rows, r, key, n, s);
    }
    if (d > 0) {
        const attn_values values = ATTN_T(attn_values_of)(plan, rows, tile, scratch);
        ATTN_T(attn_ops_of)
        (plan->kernel)
            ->multiply(count, n, d, m->grad_output, d, values.data, values.stride, true, false, m->slopes,
                       plan->tile_k);
    } else {
        memset(m->slopes, 0, count * plan->tile_k * sizeof(real));
    }
    for (size_t r = 0; r < count; r++) {
        const real *p = scratch->scores + r * plan->tile_k, delta = m->delta[r];
        real *slopes = m->slopes + r * plan->tile_k;
        for (size_t j = 0; j < n; j++) slopes[j] = p[j] == 0 ? 0 : p[j] * (slopes[j] - delta);
    }
    return n;
}

/* dB -> dS, the gradient by q.k */
static void slopes_of_products(const backward *b, const attn_rows *rows, size_t n, const tile_memory *m) {
    const attn_problem *problem = b->plan.problem;
    for (size_t r = 0; r < rows->heads * rows->queries; r++) {
        const real scale = ATTN_T(attn_scale_of)(problem, rows->head + r / rows->queries);
        real *slopes = m->slopes + r * b->plan.tile_k;
        for (size_t j = 0; j < n; j++) slopes[j] *= scale;
        if (problem->softcap == 0) continue;
        const real *caps = m->caps + r * b->plan.tile_k;
        for (size_t j = 0; j < n; j++) slopes[j] *= caps[j];
    }
}

static bool is_blocked(const backward *b, const attn_rows *rows, size_t tile) {
    const size_t key = tile * b->plan.tile_k;
    return key >= rows->any.hi || key + b->plan.tile_k <= rows->any.lo ||
           attn_plan_classify(&b->plan, rows, tile) == ATTN_TILE_BLOCKED;
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

static void write_row(size_t d, const real *sum, const real *lost, real *to) {
    for (size_t c = 0; c < d; c++) to[c] = sum[c] - lost[c];
}

static void queries_item(void *arg, size_t item, size_t slot) {
    backward *b = arg;
    attn_plan *plan = &b->plan;
    const attn_scratch scratch = ATTN_T(attn_scratch_of)(plan, slot);
    const tile_memory m = memory_of(b, slot);
    const size_t pair = item / plan->row_tiles, kv_heads = plan->problem->kv_heads, d = plan->problem->d_k;
    const attn_rows rows = attn_plan_rows(plan, pair / kv_heads, pair % kv_heads, item % plan->row_tiles);
    const size_t count = rows.heads * rows.queries;
    const attn_out_view *view = &b->gradients->q;
    load_rows(b, &rows, &scratch, &m);
    clear(count * d, m.sum_k, m.lost_k);
    for (size_t tile = 0; tile < plan->key_tiles; tile++) {
        if (attn_plan_cancelled(plan)) return;
        if (is_blocked(b, &rows, tile)) continue;
        const size_t n = tile_slopes(b, &rows, tile, &scratch, &m);
        slopes_of_products(b, &rows, n, &m);
        ATTN_T(attn_gather_keys)(plan, rows.batch, rows.kv_head, tile, n, m.keys);
        ATTN_T(attn_ops_of)
        (plan->kernel)->multiply(count, d, n, m.slopes, plan->tile_k, m.keys, d, false, false, m.product, d);
        add(count * d, m.sum_k, m.lost_k, m.product);
    }
    for (size_t r = 0; r < count; r++)
        write_row(d, m.sum_k + r * d, m.lost_k + r * d,
                  (real *)view->data + rows.batch * view->batch + (rows.head + r / rows.queries) * view->head +
                      (rows.query + r % rows.queries) * view->row);
}

/* ---- keys and values -------------------------------------------------------------------------------------------- */

/* sum += the transpose of s (rows, tile_k) times x (rows, d) */
static void add_transposed(const backward *b, size_t rows, size_t n, const real *s, size_t d, const real *x,
                           const tile_memory *m, real *sum, real *lost) {
    const size_t stride = b->plan.tile_k;
    if (d == 0) return;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) m->turned[j * rows + r] = s[r * stride + j];
    ATTN_T(attn_ops_of)(b->plan.kernel)->multiply(n, d, rows, m->turned, rows, x, d, false, false, m->product, d);
    add(n * d, sum, lost, m->product);
}

/* The rows of new keys of a tile */
static void write_keys(const backward *b, const attn_out_view *view, size_t batch, size_t kv_head, size_t tile,
                       size_t d, const real *sum, const real *lost) {
    const size_t key = tile * b->plan.tile_k, n = attn_plan_keys(&b->plan, tile), n_past = b->plan.problem->n_past;
    for (size_t j = 0; j < n && view->data != NULL; j++)
        if (key + j >= n_past)
            write_row(d, sum + j * d, lost + j * d,
                      (real *)view->data + batch * view->batch + kv_head * view->head + (key + j - n_past) * view->row);
}

/* Keys or values of batch 1, which serve every batch: their gradients add up. */
static bool is_shared(const backward *b, const attn_out_view *view) {
    return view->batch == 0 && b->plan.problem->batch > 1;
}

/* What all queries of one batch add to the sums of a key tile. */
static void add_batch(backward *b, size_t batch, size_t kv_head, size_t tile, const attn_scratch *scratch,
                      const tile_memory *m) {
    attn_plan *plan = &b->plan;
    const size_t d_k = plan->problem->d_k, d_v = plan->problem->d_v;
    for (size_t row_tile = 0; row_tile < plan->row_tiles && !attn_plan_cancelled(plan); row_tile++) {
        const attn_rows rows = attn_plan_rows(plan, batch, kv_head, row_tile);
        const size_t count = rows.heads * rows.queries;
        if (is_blocked(b, &rows, tile)) continue;
        load_rows(b, &rows, scratch, m);
        const size_t n = tile_slopes(b, &rows, tile, scratch, m);
        slopes_of_products(b, &rows, n, m);
        add_transposed(b, count, n, scratch->scores, d_v, m->grad_output, m, m->sum_v, m->lost_v);
        add_transposed(b, count, n, m->slopes, d_k, m->queries, m, m->sum_k, m->lost_k);
    }
}

/* A key tile of one batch; of all batches, one after the other, if keys or values are shared. */
static void keys_item(void *arg, size_t item, size_t slot) {
    backward *b = arg;
    attn_plan *plan = &b->plan;
    const attn_problem *problem = plan->problem;
    const attn_out_view *k = &b->gradients->k, *v = &b->gradients->v;
    const attn_scratch scratch = ATTN_T(attn_scratch_of)(plan, slot);
    const tile_memory m = memory_of(b, slot);
    const bool k_shared = is_shared(b, k), v_shared = is_shared(b, v);
    const size_t pair = item / plan->key_tiles, tile = item % plan->key_tiles, kv_head = pair % problem->kv_heads;
    const size_t first = pair / problem->kv_heads, end = k_shared || v_shared ? problem->batch : first + 1;
    if (tile * plan->tile_k + attn_plan_keys(plan, tile) <= problem->n_past) return;
    for (size_t batch = first; batch < end && !attn_plan_cancelled(plan); batch++) {
        if (batch == first || !k_shared) clear(plan->tile_k * problem->d_k, m.sum_k, m.lost_k);
        if (batch == first || !v_shared) clear(plan->tile_k * problem->d_v, m.sum_v, m.lost_v);
        add_batch(b, batch, kv_head, tile, &scratch, &m);
        if (batch == end - 1 || !k_shared) write_keys(b, k, batch, kv_head, tile, problem->d_k, m.sum_k, m.lost_k);
        if (batch == end - 1 || !v_shared) write_keys(b, v, batch, kv_head, tile, problem->d_v, m.sum_v, m.lost_v);
    }
}

/* ---- bias and sinks --------------------------------------------------------------------------------------------- */

/* Adds dB of a tile to the numbers of bias that its cells share. */
static void add_bias(const backward *b, const attn_rows *rows, size_t tile, size_t n, const real *slopes) {
    const attn_broadcast *bias = &b->plan.problem->bias;
    real *sum = b->gradients->bias, *lost = (real *)(void *)(b->workspace + b->at_bias_lost);
    for (size_t r = 0; r < rows->heads * rows->queries; r++) {
        const size_t head = rows->head + r / rows->queries, query = rows->query + r % rows->queries;
        size_t at =
            rows->batch * bias->batch + head * bias->head + query * bias->query + tile * b->plan.tile_k * bias->key;
        for (size_t j = 0; j < n; j++, at += bias->key)
            ATTN_ADD_COMPENSATED(sum[at], lost[at], slopes[r * b->plan.tile_k + j]);
    }
}

/* How many parts the bias has that share no number, along batch, key/value heads and key tiles. */
static size_t bias_batches(const attn_problem *p) { return p->bias.batch > 0 ? p->batch : p->batch > 0; }
static size_t bias_heads(const attn_problem *p) { return p->bias.head > 0 ? p->kv_heads : p->kv_heads > 0; }
static size_t bias_tiles(const attn_plan *plan) {
    return plan->problem->bias.key > 0 ? plan->key_tiles : plan->key_tiles > 0;
}

/* All tiles of a row tile from `first` on and before `end` */
static void bias_rows(backward *b, const attn_rows *rows, size_t first, size_t end, size_t slot) {
    const attn_scratch scratch = ATTN_T(attn_scratch_of)(&b->plan, slot);
    const tile_memory m = memory_of(b, slot);
    bool loaded = false;
    for (size_t tile = first; tile < end && !attn_plan_cancelled(&b->plan); tile++) {
        if (is_blocked(b, rows, tile)) continue;
        if (!loaded) load_rows(b, rows, &scratch, &m);
        loaded = true;
        const size_t n = tile_slopes(b, rows, tile, &scratch, &m);
        add_bias(b, rows, tile, n, m.slopes);
    }
}

static void bias_item(void *arg, size_t item, size_t slot) {
    backward *b = arg;
    attn_plan *plan = &b->plan;
    const attn_problem *p = plan->problem;
    const size_t tiles = bias_tiles(plan), heads = bias_heads(p);
    assert(tiles > 0 && heads > 0); /* else there is no item */
    const size_t tile = item % tiles, pair = item / tiles, batch = pair / heads, head = pair % heads;
    const size_t batch_end = p->bias.batch > 0 ? batch + 1 : p->batch;
    const size_t head_end = p->bias.head > 0 ? head + 1 : p->kv_heads;
    const size_t tile_end = p->bias.key > 0 ? tile + 1 : plan->key_tiles;
    for (size_t i = batch; i < batch_end; i++)
        for (size_t h = head; h < head_end; h++)
            for (size_t row_tile = 0; row_tile < plan->row_tiles; row_tile++) {
                const attn_rows rows = attn_plan_rows(plan, i, h, row_tile);
                bias_rows(b, &rows, tile, tile_end, slot);
            }
}

static void finish_bias(const backward *b) {
    real *sum = b->gradients->bias;
    const real *lost = (const real *)(const void *)(b->workspace + b->at_bias_lost);
    for (size_t i = 0; i < b->gradients->bias_count; i++) sum[i] -= lost[i];
}

/* The sink is a key whose value is zero: dP is 0 there. */
static void sink_item(void *arg, size_t head, size_t slot) {
    const backward *b = arg;
    const attn_problem *problem = b->plan.problem;
    const real sink = ((const real *)problem->sinks)[head];
    const real *stats = (const real *)(const void *)(b->plan.workspace + b->plan.at_stats);
    double sum = 0, lost = 0;
    (void)slot;
    for (size_t batch = 0; batch < problem->batch; batch++) {
        for (size_t i = 0; i < problem->n_q; i++) {
            const real *row = stats + 2 * ((batch * problem->heads + head) * problem->n_q + i);
            if (row[0] == -(real)INFINITY) continue;
            const double weight = exp((double)sink - (double)row[0]) / (double)row[1];
            ATTN_ADD_COMPENSATED(sum, lost, -weight * delta_of(b, batch, head, i));
        }
    }
    ((real *)b->gradients->sinks)[head] = (real)(sum - lost);
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

size_t ATTN_T(attn_backward_workspace)(const attn_engine *engine, const attn_problem *problem, attn_features features,
                                       const attn_gradients *gradients) {
    backward b = {0};
    prepare(&b, engine, problem, features, gradients);
    return b.total;
}

/* true if the weights of the tiles are not to be trusted: only loops with a wide range could compute them */
static bool is_out_of_range(attn_plan *plan) {
    if (plan->out_of_range || atomic_load(&plan->odd_queries)) return true;
    if (!atomic_load(&plan->odd_keys)) return false;
    const size_t count = plan->problem->batch * plan->problem->kv_heads * plan->n_k;
    const atomic_uchar *marks = attn_plan_marks(plan, 0, 0);
    for (size_t i = 0; i < count; i++)
        if (atomic_load_explicit(marks + i, memory_order_relaxed) & ATTN_ODD_KEY) return true;
    return false;
}

static void run_items(backward *b, bool wanted, size_t items, void (*body)(void *, size_t, size_t)) {
    if (wanted && items > 0 && !attn_plan_cancelled(&b->plan)) attn_pool_for(b->plan.pool, items, body, b);
}

attn_status ATTN_T(attn_backward)(const attn_engine *engine, const attn_problem *problem, attn_features features,
                                  const attn_gradients *gradients, void *workspace, const atomic_bool *cancel) {
    backward b = {0};
    prepare(&b, engine, problem, features, gradients);
    b.workspace = b.plan.workspace = workspace;
    b.plan.cancel = cancel;
    b.results.output.data = b.workspace + b.at_output;
    const attn_status status = ATTN_T(attn_execute)(&b.plan, NULL);
    if (status != ATTN_OK) return status;
    if (is_out_of_range(&b.plan)) return ATTN_OVERFLOW;
    const size_t pairs = problem->batch * problem->kv_heads;
    run_items(&b, gradients->q.data != NULL, pairs * b.plan.row_tiles, queries_item);
    const bool shared = is_shared(&b, &gradients->k) || is_shared(&b, &gradients->v);
    run_items(&b, gradients->k.data != NULL || gradients->v.data != NULL,
              (shared ? problem->kv_heads : pairs) * b.plan.key_tiles, keys_item);
    if (gradients->bias != NULL) {
        clear(gradients->bias_count, gradients->bias, (real *)(void *)(b.workspace + b.at_bias_lost));
        run_items(&b, true, bias_batches(problem) * bias_heads(problem) * bias_tiles(&b.plan), bias_item);
        finish_bias(&b);
    }
    run_items(&b, gradients->sinks != NULL, problem->heads, sink_item);
    return attn_plan_cancelled(&b.plan) ? ATTN_CANCELLED : ATTN_OK;
}

void ATTN_T(attn_backward_sum)(size_t batch, size_t heads, size_t n, size_t d, const void *parts,
                               const attn_out_view *to) {
    const real *x = parts;
    for (size_t row = 0; row < heads * n; row++) {
        real *out = (real *)to->data + row / n * to->head + row % n * to->row;
        for (size_t c = 0; c < d; c++) {
            real sum = 0, lost = 0;
            for (size_t b = 0; b < batch; b++) ATTN_ADD_COMPENSATED(sum, lost, x[(b * heads * n + row) * d + c]);
            out[c] = sum - lost;
        }
    }
}
