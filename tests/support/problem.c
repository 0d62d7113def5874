#include "problem.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void *must(void *data) {
    if (!data) {
        fputs("problem: out of memory\n", stderr);
        exit(3);
    }
    return data;
}

void *bag_take(bag *owner, size_t bytes) {
    if ((owner->count & (owner->count - 1)) == 0) /* full at each power of two */
        owner->items = must(realloc(owner->items, (owner->count ? 2 * owner->count : 1) * sizeof *owner->items));
    return owner->items[owner->count++] = must(malloc(bytes ? bytes : 1));
}

void bag_empty(bag *owner) {
    for (size_t i = 0; i < owner->count; i++) free(owner->items[i]);
    free(owner->items);
    *owner = (bag){0};
}

void *numbers_random(bag *owner, attn_dtype dtype, size_t count, double spread) {
    void *data = bag_take(owner, count * attn_sizeof(dtype));
    for (size_t i = 0; i < count; i++) oracle_put(dtype, data, i, check_random_normal() * spread);
    return data;
}

void *numbers_filled(bag *owner, attn_dtype dtype, size_t count, double value) {
    void *data = bag_take(owner, count * attn_sizeof(dtype));
    for (size_t i = 0; i < count; i++) oracle_put(dtype, data, i, value);
    return data;
}

/* ---- problems --------------------------------------------------------------------------------------------------- */

static bool chance(size_t one_in) { return check_random_below(one_in) == 0; }
static size_t between(size_t least, size_t most) { return least + check_random_below(most - least + 1); }

attn_problem problem_plain(bag *owner, attn_dtype dtype, size_t batch, size_t heads, size_t kv_heads, size_t n_q,
                           size_t n_k, size_t d_k, size_t d_v) {
    attn_problem p = {.dtype = dtype,
                      .batch = batch,
                      .heads = heads,
                      .kv_heads = kv_heads,
                      .n_q = n_q,
                      .n_new = n_k,
                      .d_k = d_k,
                      .d_v = d_v,
                      .scale = 1 / sqrt((double)d_k)};
    p.q = (attn_view){numbers_random(owner, dtype, batch * heads * n_q * d_k, 1), heads * n_q * d_k, n_q * d_k, d_k};
    p.k = (attn_view){numbers_random(owner, dtype, batch * kv_heads * n_k * d_k, 1), kv_heads * n_k * d_k, n_k * d_k,
                      d_k};
    p.v = (attn_view){numbers_random(owner, dtype, batch * kv_heads * n_k * d_v, 1), kv_heads * n_k * d_v, n_k * d_v,
                      d_v};
    return p;
}

/* A random tensor in one of the layouts: heads outside or inside the rows, rows with or without gaps; gaps hold NaN. */
static attn_view random_view(bag *owner, attn_dtype dtype, size_t batch, size_t heads, size_t n, size_t d,
                             double spread) {
    const size_t gap = chance(3) ? between(1, 5) : 0, wide = d + gap;
    const bool inside = chance(2);
    const attn_view view = {
        .batch = heads * n * wide, .head = inside ? wide : n * wide, .row = inside ? heads * wide : wide};
    const size_t total = batch * heads * n * wide, length = total ? total - gap : 0;
    void *data = numbers_filled(owner, dtype, length, NAN);
    for (size_t i = 0; i < length; i++)
        if (i % wide < d) oracle_put(dtype, data, i, check_random_normal() * spread);
    return (attn_view){data, view.batch, view.head, view.row};
}

/* Keys or values: those of each entry of the batch, or one set for all. */
static attn_view random_keys(bag *owner, const attn_problem *p, size_t n, size_t d, double spread) {
    if (!chance(5)) return random_view(owner, p->dtype, p->batch, p->kv_heads, n, d, spread);
    attn_view view = random_view(owner, p->dtype, 1, p->kv_heads, n, d, spread);
    view.batch = 0;
    return view;
}

/* Random strides of a tensor that broadcasts to (batch, heads, n_q, n_k); *count is set to its length. */
static attn_broadcast random_broadcast(const attn_problem *p, size_t *count) {
    const size_t n_k = p->n_past + p->n_new;
    const size_t axes[4] = {chance(2) ? 1 : p->batch, chance(2) ? 1 : p->heads, chance(3) ? 1 : p->n_q,
                            chance(4) ? 1 : n_k};
    *count = axes[0] * axes[1] * axes[2] * axes[3];
    return (attn_broadcast){.batch = axes[0] == 1 ? 0 : axes[1] * axes[2] * axes[3],
                            .head = axes[1] == 1 ? 0 : axes[2] * axes[3],
                            .query = axes[2] == 1 ? 0 : axes[3],
                            .key = axes[3] == 1 ? 0 : 1};
}

static void random_mask(bag *owner, attn_problem *p) {
    size_t count;
    p->mask = random_broadcast(p, &count);
    uint8_t *mask = bag_take(owner, count);
    const size_t style = check_random_below(4); /* half, few blocked, few open, in runs */
    for (size_t i = 0, run = 1; i < count; i++) {
        bool open = style == 0 ? chance(2) : style == 1 ? !chance(20) : chance(20);
        if (style == 3 && i > 0 && --run > 0) open = mask[i - 1] != 0;
        if (run == 0) run = between(1, 40);
        mask[i] = !open ? 0 : chance(2) ? 1 : 255;
    }
    p->mask.data = mask;
}

static void random_bias(bag *owner, attn_problem *p) {
    size_t count;
    p->bias = random_broadcast(p, &count);
    void *bias = bag_take(owner, count * attn_sizeof(p->dtype));
    const double spread = (const double[]){1, 10, 1000}[check_random_below(3)];
    const bool blocks = chance(2);
    const double least =
        chance(6) ? p->dtype == ATTN_F64 ? -DBL_MAX / 4 : -1e38 : 0; /* "minus a lot" instead of a block */
    for (size_t i = 0; i < count; i++) {
        const bool low = (blocks || least < 0) && chance(3);
        oracle_put(p->dtype, bias, i, low ? (blocks ? (double)-INFINITY : least) : check_random_normal() * spread);
    }
    p->bias.data = bias;
}

/* Bytes for the keys of each batch, or of one for all: padding at the left, at the right, or anywhere. */
static void random_key_mask(bag *owner, attn_problem *p) {
    const size_t n_k = p->n_past + p->n_new, rows = chance(3) ? 1 : p->batch;
    uint8_t *mask = bag_take(owner, rows * n_k);
    for (size_t b = 0; b < rows; b++) {
        const size_t style = check_random_below(3), edge = between(0, n_k);
        for (size_t j = 0; j < n_k; j++)
            mask[b * n_k + j] = style == 0 ? j >= edge : style == 1 ? j < edge : (uint8_t)check_random_below(3);
    }
    p->key_mask = mask;
    p->key_mask_batch = rows == 1 ? 0 : n_k;
}

/* Ids of tokens: packed, with gaps, or few that stand anywhere; queries may have ids that no key has. */
static void random_segments(bag *owner, attn_problem *p) {
    const size_t n_k = p->n_past + p->n_new, most = p->n_q > n_k ? p->n_q : n_k;
    const size_t q_rows = chance(2) ? 1 : p->batch, k_rows = chance(2) ? 1 : p->batch, rows = p->batch;
    attn_segments *s = bag_take(owner, sizeof *s);
    int64_t *of_query = bag_take(owner, q_rows * p->n_q * sizeof *of_query);
    int64_t *of_key = bag_take(owner, k_rows * n_k * sizeof *of_key);
    size_t *spans = bag_take(owner, rows * 2 * p->n_q * sizeof *spans);
    attn_segment_run *runs = bag_take(owner, n_k * sizeof *runs);
    const size_t style = check_random_below(4), length = between(1, most + 1);
    for (size_t i = 0; i < q_rows * p->n_q; i++)
        of_query[i] = style < 2 ? (int64_t)(i % p->n_q / length) : (int64_t)check_random_below(3) - 1;
    for (size_t j = 0; j < k_rows * n_k; j++)
        of_key[j] = style < 3 ? (int64_t)(j % n_k / length) : (int64_t)check_random_below(4) - 1;
    if (style == 0) /* in the opposite order, and far apart */
        for (size_t j = 0; j < k_rows * n_k; j++) of_key[j] = of_key[j] == 0 ? INT64_MIN : INT64_MAX - of_key[j];
    if (style == 0)
        for (size_t i = 0; i < q_rows * p->n_q; i++)
            of_query[i] = of_query[i] == 0 ? INT64_MIN : INT64_MAX - of_query[i];
    *s = (attn_segments){of_query, of_key, q_rows == 1 ? 0 : p->n_q, k_rows == 1 ? 0 : n_k, spans, 2 * p->n_q, false};
    for (size_t b = 0; b < rows; b++)
        s->gaps |= attn_segment_spans(p->n_q, of_query + b * s->of_query_batch, n_k, of_key + b * s->of_key_batch, runs,
                                      spans + b * s->spans_batch);
    p->segments = s;
}

static void random_sinks(bag *owner, attn_problem *p) {
    void *sinks = bag_take(owner, p->heads * attn_sizeof(p->dtype));
    for (size_t h = 0; h < p->heads; h++)
        oracle_put(p->dtype, sinks, h, chance(6) ? (chance(2) ? 1e30 : -1e30) : check_random_normal() * 5);
    p->sinks = sinks;
}

static void random_scales(bag *owner, attn_problem *p) {
    void *scales = bag_take(owner, p->heads * attn_sizeof(p->dtype));
    for (size_t h = 0; h < p->heads; h++) oracle_put(p->dtype, scales, h, chance(20) ? 0 : check_random_normal());
    p->head_scales = scales;
}

static const int64_t *random_positions(bag *owner, size_t batch, size_t n, size_t *stride) {
    const int64_t far = INT64_C(1) << (chance(4) ? 53 : 9);
    int64_t *positions = bag_take(owner, batch * n * sizeof *positions);
    for (size_t i = 0; i < batch * n; i++)
        positions[i] = (int64_t)check_random_below((size_t)far) - (chance(2) ? 0 : far - 1);
    *stride = chance(2) ? 0 : n;
    return positions;
}

/* ALiBi, T5's buckets, and the positions that they go by. */
static void random_distance(bag *owner, attn_problem *p) {
    if (chance(2)) {
        void *slopes = bag_take(owner, p->heads * attn_sizeof(p->dtype));
        const double size = chance(6) ? 1e30 : chance(2) ? 0.1 : 3;
        for (size_t h = 0; h < p->heads; h++) oracle_put(p->dtype, slopes, h, check_random_normal() * size);
        p->alibi = slopes;
    }
    if (chance(2)) {
        attn_relative_bias *bias = bag_take(owner, sizeof *bias);
        const size_t side = between(1, 20);
        int64_t *edges = bag_take(owner, side * sizeof *edges);
        *bias = (attn_relative_bias){.bidirectional = chance(2), .edges = edges};
        bias->buckets = bias->bidirectional ? 2 * side : side;
        attn_relative_edges(side, (int64_t)(side / 2 + between(1, 200)), edges);
        void *table = bag_take(owner, bias->buckets * p->heads * attn_sizeof(p->dtype));
        for (size_t i = 0; i < bias->buckets * p->heads; i++)
            oracle_put(p->dtype, table, i, check_random_normal() * (chance(30) ? 1e30 : 2));
        bias->table = table;
        p->relative_bias = bias;
    }
    if (chance(3)) p->positions = random_positions(owner, p->batch, p->n_q, &p->positions_batch);
    if (chance(3)) p->key_positions = random_positions(owner, p->batch, p->n_new, &p->key_positions_batch);
}

static void random_places(bag *owner, attn_problem *p) {
    const size_t n_k = p->n_past + p->n_new;
    if (chance(4)) {
        int64_t *lengths = bag_take(owner, p->batch * sizeof *lengths);
        for (size_t b = 0; b < p->batch; b++) lengths[b] = (int64_t)between(0, n_k);
        p->kv_lengths = lengths;
    }
    if (chance(3)) {
        int64_t *offsets = bag_take(owner, p->batch * sizeof *offsets);
        for (size_t b = 0; b < p->batch; b++) {
            offsets[b] = (int64_t)check_random_below(2 * n_k + 5) - (int64_t)n_k - 2;
            if (chance(20)) offsets[b] = chance(2) ? INT64_C(1) << 53 : -(INT64_C(1) << 53);
        }
        p->query_offset = offsets;
    }
    p->causal = chance(3);
    p->has_window = chance(4);
    p->window_left = chance(3) ? ATTN_OPEN_SIDE : (int64_t)between(0, n_k);
    p->window_right = chance(3) ? ATTN_OPEN_SIDE : (int64_t)between(0, n_k);
    if (chance(20)) p->window_left = INT64_MAX;
}

/* Sorted, some twice */
static void random_globals(bag *owner, attn_problem *p, attn_pattern *t) {
    const size_t n_k = p->n_past + p->n_new, rows = chance(2) ? 1 : p->batch, count = n_k ? between(0, 3) : 0;
    int64_t *globals = bag_take(owner, rows * count * sizeof *globals);
    for (size_t r = 0; r < rows; r++)
        for (size_t g = 0; g < count; g++) {
            const int64_t before = g > 0 ? globals[r * count + g - 1] : 0;
            globals[r * count + g] = before + (int64_t)check_random_below(n_k - (size_t)before);
        }
    t->globals = globals;
    t->global_count = count;
    t->globals_batch = rows > 1 ? count : 0;
}

static void random_blocks(bag *owner, attn_problem *p, attn_pattern *t) {
    const size_t n_k = p->n_past + p->n_new, heads = chance(2) ? 1 : p->heads;
    t->block_size = between(1, chance(2) ? 4 : n_k + 1);
    t->window_blocks = between(0, 2);
    t->global_blocks = between(0, 2);
    const size_t blocks = (n_k + t->block_size - 1) / t->block_size, ends = t->global_blocks;
    if (blocks <= 2 * ends || chance(3)) return;
    t->random_rows = blocks - 2 * ends;
    t->random_count = between(0, 3);
    t->random_head = heads > 1 ? t->random_rows * t->random_count : 0;
    const size_t count = heads * t->random_rows * t->random_count;
    int64_t *random = bag_take(owner, (count + 1) * sizeof *random);
    for (size_t i = 0; i < count; i++) random[i] = (int64_t)check_random_below(blocks + 1) - 1; /* -1: none */
    t->random = random;
}

static void random_pattern(bag *owner, attn_problem *p) {
    attn_pattern *t = bag_take(owner, sizeof *t);
    *t = (attn_pattern){0};
    if (chance(2)) {
        int64_t *dilation = bag_take(owner, p->heads * sizeof *dilation);
        const bool same = chance(2);
        for (size_t h = 0; h < p->heads; h++)
            dilation[h] = same && h > 0 ? dilation[0] : chance(20) ? INT64_C(1) << 53 : (int64_t)between(1, 4);
        t->dilation = dilation;
    }
    if (chance(2)) random_globals(owner, p, t);
    if (chance(2)) random_blocks(owner, p, t);
    p->pattern = t;
}

void problem_options(bag *owner, attn_problem *p) {
    if (chance(3)) {
        p->n_past = between(0, p->n_new + 3);
        p->past_k = random_keys(owner, p, p->n_past, p->d_k, 1);
        p->past_v = random_keys(owner, p, p->n_past, p->d_v, 1);
        if (p->n_past == 0) p->past_k.data = p->past_v.data = NULL;
    }
    if (chance(3)) random_mask(owner, p);
    if (chance(3)) random_bias(owner, p);
    if (chance(4)) random_key_mask(owner, p);
    if (chance(4)) random_segments(owner, p);
    if (chance(4)) random_sinks(owner, p);
    if (chance(5)) random_scales(owner, p);
    if (chance(3)) random_distance(owner, p);
    random_places(owner, p);
    if (chance(4)) random_pattern(owner, p);
    const double scales[] = {1 / sqrt((double)p->d_k), 1, 1 / (double)p->d_k, 0, -0.7, 30, 1e-9};
    p->scale = chance(2) ? scales[0] : scales[check_random_below(7)];
    if (chance(4)) p->softcap = (const double[]){0.3, 5, 50, 1e6}[check_random_below(4)];
}

/* Keys blocked for every query may hold anything in k and v: `poison` them. */
static void poison_view(const attn_problem *p, const attn_view *view, size_t batch, size_t kv_head, size_t row,
                        size_t d) {
    if (p->batch > 1 && view->batch == 0) return; /* the key may be open in another entry of the batch */
    const double poisons[] = {NAN, INFINITY, -INFINITY, p->dtype == ATTN_F64 ? DBL_MAX : 1e38};
    for (size_t c = 0; c < d; c++)
        if (chance(2))
            oracle_put(p->dtype, (void *)(uintptr_t)view->data,
                       batch * view->batch + kv_head * view->head + row * view->row + c,
                       poisons[check_random_below(4)]);
}

static void poison_blocked(bag *owner, const attn_problem *p) {
    const size_t n_k = p->n_past + p->n_new;
    uint8_t *open = bag_take(owner, n_k);
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->kv_heads; h++) {
            attn_open_keys(p, b, h, open);
            for (size_t j = 0; j < n_k; j++) {
                if (open[j] || chance(2)) continue;
                const bool past = j < p->n_past;
                poison_view(p, past ? &p->past_k : &p->k, b, h, past ? j : j - p->n_past, p->d_k);
                poison_view(p, past ? &p->past_v : &p->v, b, h, past ? j : j - p->n_past, p->d_v);
            }
        }
}

attn_problem problem_random(bag *owner, attn_dtype dtype, const problem_limits *limits) {
    const size_t kv_heads = between(1, limits->heads), group = between(1, limits->heads / kv_heads);
    attn_problem p = {.dtype = dtype,
                      .batch = between(1, limits->batch),
                      .heads = kv_heads * group,
                      .kv_heads = kv_heads,
                      .n_q = chance(4) ? 1 : between(0, limits->n),
                      .n_new = between(0, limits->n),
                      .d_k = between(1, limits->d),
                      .d_v = chance(40) ? 0 : between(1, limits->d)};
    p.q = random_view(owner, dtype, p.batch, p.heads, p.n_q, p.d_k, chance(10) ? 20 : 1);
    p.k = random_keys(owner, &p, p.n_new, p.d_k, 1);
    p.v = random_keys(owner, &p, p.n_new, p.d_v, chance(10) ? 1e30 : 1);
    problem_options(owner, &p);
    if (chance(2)) poison_blocked(owner, &p);
    return p;
}

const char *problem_text(const attn_problem *p) {
    static _Thread_local char text[400];
    snprintf(text, sizeof text,
             "%s batch %zu heads %zu/%zu n_q %zu n_k %zu+%zu d %zu,%zu%s%s%s%s%s%s%s%s%s%s%s%s%s%s scale %g softcap %g",
             p->dtype == ATTN_F64 ? "f64" : "f32", p->batch, p->heads, p->kv_heads, p->n_q, p->n_past, p->n_new, p->d_k,
             p->d_v, p->mask.data ? " mask" : "", p->bias.data ? " bias" : "", p->kv_lengths ? " lengths" : "",
             p->query_offset ? " offset" : "", p->causal ? " causal" : "", p->has_window ? " window" : "",
             p->key_mask ? " key_mask" : "", p->segments ? p->segments->gaps ? " segments with gaps" : " segments" : "",
             p->pattern ? " pattern" : "", p->sinks ? " sinks" : "", p->head_scales ? " scales" : "",
             p->alibi ? " alibi" : "", p->relative_bias ? " relative_bias" : "",
             p->positions || p->key_positions ? " positions" : "", p->scale, p->softcap);
    return text;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

static size_t result_count(const attn_problem *p, size_t index) {
    const size_t n_k = p->n_past + p->n_new, rows = p->batch * p->heads * p->n_q, keys = p->batch * p->kv_heads * n_k;
    switch (1U << index) {
    case WANT_OUTPUT: return rows * p->d_v;
    case WANT_MEAN: return p->batch * p->n_q * n_k;
    case WANT_LSE: return rows;
    case WANT_PRESENT_K: return keys * p->d_k;
    case WANT_PRESENT_V: return keys * p->d_v;
    default: return rows * n_k;
    }
}

attn_results results_room(bag *owner, const attn_problem *p, unsigned want) {
    void *at[WANT_KINDS] = {0};
    for (size_t i = 0; i < WANT_KINDS; i++)
        if (want >> i & 1) {
            const size_t bytes = result_count(p, i) * attn_sizeof(p->dtype);
            memset(at[i] = bag_take(owner, bytes), 0xff, bytes); /* a NaN */
        }
    return (attn_results){.output = {at[0], p->heads * p->n_q * p->d_v, p->n_q * p->d_v, p->d_v},
                          .scores = at[1],
                          .scaled = at[2],
                          .capped = at[3],
                          .masked = at[4],
                          .weights = at[5],
                          .mean_weights = at[6],
                          .lse = at[7],
                          .present_k = at[8],
                          .present_v = at[9]};
}

void *results_at(const attn_results *r, const attn_problem *p, size_t index, size_t *bytes) {
    void *const at[WANT_KINDS] = {r->output.data, r->scores,       r->scaled, r->capped,    r->masked,
                                  r->weights,     r->mean_weights, r->lse,    r->present_k, r->present_v};
    *bytes = result_count(p, index) * attn_sizeof(p->dtype);
    return at[index];
}

const char *results_name(size_t index) {
    static const char *const names[WANT_KINDS] = {"output",  "scores",       "scaled", "capped",    "masked",
                                                  "weights", "mean_weights", "lse",    "present_k", "present_v"};
    return names[index];
}

const oracle_tensor *results_expected(const oracle *o, size_t index) {
    const oracle_tensor *const at[WANT_KINDS] = {&o->output,    &o->scores,   &o->scaled,       &o->capped,
                                                 &o->masked,    &o->weights,  &o->mean_weights, &o->lse,
                                                 &o->present_k, &o->present_v};
    return at[index];
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

/* malloc'd memory of exactly `bytes`, with the first 64-aligned place in it; bytes are junk, not zeros */
static void *workspace_new(size_t bytes, void **aligned) {
    char *data = must(malloc(bytes + 63));
    memset(data, 0xff, bytes + 63);
    *aligned = data + (64 - (uintptr_t)data % 64) % 64;
    return data;
}

attn_status run_problem(const attn_engine *engine, const attn_problem *p, const attn_results *results,
                        const atomic_bool *cancel, attn_fault *fault) {
    void *aligned, *workspace = workspace_new(attn_workspace(engine, p, results), &aligned);
    const attn_status status = attn_run(engine, p, results, aligned, cancel, fault);
    free(workspace);
    return status;
}

attn_status run_mha(const attn_engine *engine, const attn_mha *mha, const attn_mha_results *results,
                    const atomic_bool *cancel, attn_fault *fault) {
    void *aligned, *workspace = workspace_new(attn_mha_workspace(engine, mha, results), &aligned);
    const attn_status status = attn_mha_run(engine, mha, results, aligned, cancel, fault);
    free(workspace);
    return status;
}

bool same_fault(const attn_fault *a, const attn_fault *b) {
    return a->stage == b->stage && a->batch == b->batch && a->head == b->head && a->query == b->query &&
           a->key == b->key;
}

static bool check_fault(const attn_problem *p, const oracle *o, attn_status status, const attn_fault *fault) {
    const attn_fault *e = &o->fault;
    if (!o->overflows) return CHECK(false, "%s: status %d", problem_text(p), status);
    return CHECK(same_fault(fault, e), "%s: fault at stage %d [%zu,%zu,%zu,%zu], expected %d [%zu,%zu,%zu,%zu]",
                 problem_text(p), fault->stage, fault->batch, fault->head, fault->query, fault->key, e->stage, e->batch,
                 e->head, e->query, e->key);
}

/* results that hold the numbers of blocked keys too */
enum { WANT_BLOCKED = WANT_SCORES | WANT_SCALED | WANT_CAPPED | WANT_PRESENT_K | WANT_PRESENT_V };

static bool all_finite(const attn_problem *p, const attn_view *view, size_t n, size_t d) {
    for (size_t at = 0; at < p->batch * p->kv_heads * n * d; at++) {
        const size_t c = at % d, j = at / d % n, h = at / d / n % p->kv_heads, b = at / d / n / p->kv_heads;
        if (!isfinite(oracle_at(p->dtype, view->data, b * view->batch + h * view->head + j * view->row + c)))
            return false;
    }
    return true;
}

static bool keys_finite(const attn_problem *p) {
    return all_finite(p, &p->k, p->n_new, p->d_k) && all_finite(p, &p->v, p->n_new, p->d_v) &&
           all_finite(p, &p->past_k, p->n_past, p->d_k) && all_finite(p, &p->past_v, p->n_past, p->d_v);
}

bool check_problem(const attn_engine *engine, const attn_problem *p, unsigned want, double *worst) {
    bag owner = {0};
    if (!keys_finite(p)) want &= ~(unsigned)WANT_BLOCKED; /* api/ refuses such a request */
    const attn_results results = results_room(&owner, p, want);
    oracle *o = oracle_attention(p, &results);
    attn_fault fault = {.stage = ATTN_STAGE_PROJECTION};
    const attn_status status = run_problem(engine, p, &results, NULL, &fault);
    bool ok = true;
    if (o->doubtful) {
        ok = CHECK(status == ATTN_OK || status == ATTN_OVERFLOW, "%s: status %d", problem_text(p), status);
    } else if (status != ATTN_OK) {
        ok = check_fault(p, o, status, &fault);
    } else {
        ok = CHECK(!o->overflows, "%s: no overflow found, expected at stage %d [%zu,%zu,%zu,%zu]", problem_text(p),
                   o->fault.stage, o->fault.batch, o->fault.head, o->fault.query, o->fault.key);
    }
    for (size_t i = 0; ok && status == ATTN_OK && i < WANT_KINDS; i++) {
        size_t bytes;
        oracle_report report;
        const void *got = results_at(&results, p, i, &bytes);
        if (!got) continue;
        ok = CHECK(oracle_compare(p->dtype, results_expected(o, i), got, &report), "%s, %s: %s %s",
                   attn_kernel_name(engine->kernel), problem_text(p), results_name(i), report.text);
        if (worst && report.ratio > *worst) *worst = (double)report.ratio;
    }
    oracle_free(o);
    bag_empty(&owner);
    return ok;
}

/* ---- kernel rows ------------------------------------------------------------------------------------------------ */

const attn_kernel *test_kernel(size_t index) {
    const char *only = getenv("ATTENTIOND_KERNEL");
    if (only && *only) return index == 0 ? attn_kernel_find(only) : NULL;
    for (size_t i = 0; attn_kernel_at(i); i++)
        if (attn_kernel_supported(attn_kernel_at(i)) && index-- == 0) return attn_kernel_at(i);
    return NULL;
}

void check_kernels_ran(void) {
    CHECK(test_kernel(0) != NULL, "no kernel row to test: ATTENTIOND_KERNEL names none that this CPU can run");
    for (size_t i = 0; test_kernel(i); i++)
        CHECK(attn_kernel_tiles(test_kernel(i)) > 0, "the row %s computed no tile", attn_kernel_name(test_kernel(i)));
}
