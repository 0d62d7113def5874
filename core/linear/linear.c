/* Linear attention: softmax's exponential of q.k is replaced by phi(q).phi(k), so that the sum over keys is a state of
 * (d_k, d_v + 1) numbers, phi(k)^T [v, 1], its last column being the normalizer.
 *
 * Keys are cut into chunks at fixed places. A first pass sums the state of each chunk, a second adds them up from the
 * first chunk on, a third answers the queries, BLOCK at a time: the state of the keys that all of them may attend,
 * plus, under causal, the few keys that only some of them may. The places depend on the sizes alone, and so do the
 * bits. */
#include "linear.h"

#include <math.h>
#include <string.h>

#include "../engine/ops.h"
#include "../engine/workspace.h"

enum {
    BLOCK = 64,   /* queries, or keys, of one product */
    CHUNK = 1024, /* keys of a chunk, queries of an item; a multiple of BLOCK */
};

typedef struct linear_plan {
    const attn_problem *problem;
    const attn_results *results;
    const attn_kernel *kernel;
    const atomic_bool *cancel;
    size_t d_k, wide;                       /* wide: d_v + 1 */
    size_t key_chunks, query_chunks, pairs; /* pairs of batch and key/value head */
    size_t at_states, at_sums, at_slots, slot_bytes, total;
    char *workspace;
    atomic_bool overflow;
} linear_plan;

/* The working memory of one slot. */
typedef struct linear_scratch {
    real *state;    /* (d_k, wide) */
    real *keys;     /* (BLOCK, d_k): phi(k), zeros for closed keys */
    real *turned;   /* (d_k, BLOCK): the same transposed */
    real *values;   /* (BLOCK, wide): v and a one, zeros for closed keys */
    real *queries;  /* (BLOCK, d_k): phi(q) */
    real *products; /* (BLOCK, BLOCK): phi(q).phi(k) */
    real *output;   /* (BLOCK, wide) */
    real *powers;   /* (BLOCK * d_k, rounded up): e^x */
} linear_scratch;

static size_t round_up(size_t n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static linear_plan plan_of(const attn_engine *engine, const attn_problem *problem, const attn_results *results) {
    linear_plan plan = {.problem = problem, .results = results, .kernel = engine->kernel};
    plan.d_k = problem->d_k;
    plan.wide = problem->d_v + 1;
    plan.key_chunks = (problem->n_new + CHUNK - 1) / CHUNK;
    plan.query_chunks = (problem->n_q + CHUNK - 1) / CHUNK;
    plan.pairs = attn_product(problem->batch, problem->kv_heads);
    const size_t state = attn_product(plan.d_k, plan.wide);
    plan.at_states =
        attn_reserve(&plan.total, attn_product(plan.pairs, plan.key_chunks + 1), attn_product(state, sizeof(real)));
    const size_t rows = attn_product(attn_product(problem->batch, problem->heads), problem->n_q);
    plan.at_sums = attn_reserve(&plan.total, results->weights ? rows : 0, sizeof(real));
    size_t slot = 0;
    attn_reserve(&slot, state, sizeof(real));
    attn_reserve(&slot, attn_product(3 * BLOCK, plan.d_k), sizeof(real));
    attn_reserve(&slot, attn_product(2 * BLOCK, plan.wide), sizeof(real));
    attn_reserve(&slot, BLOCK * BLOCK, sizeof(real));
    attn_reserve(&slot, attn_product(BLOCK, plan.d_k), sizeof(real));
    plan.slot_bytes = slot;
    plan.at_slots = attn_reserve(&plan.total, attn_pool_slots(engine->pool), slot);
    return plan;
}

size_t ATTN_T(attn_linear_workspace)(const attn_engine *engine, const attn_problem *problem,
                                     const attn_results *results) {
    return plan_of(engine, problem, results).total;
}

static linear_scratch scratch_of(const linear_plan *plan, size_t slot) {
    real *p = (real *)(void *)(plan->workspace + plan->at_slots + slot * plan->slot_bytes);
    linear_scratch s;
    s.powers = p, p += BLOCK * plan->d_k;
    s.products = p, p += BLOCK * BLOCK;
    s.keys = p, p += BLOCK * plan->d_k;
    s.turned = p, p += BLOCK * plan->d_k;
    s.queries = p, p += BLOCK * plan->d_k;
    s.values = p, p += BLOCK * plan->wide;
    s.output = p, p += BLOCK * plan->wide;
    s.state = p;
    return s;
}

/* the sum of the past and of the first `chunk` chunks, once they are added up */
static real *state_at(const linear_plan *plan, size_t pair, size_t chunk) {
    real *states = (real *)(void *)(plan->workspace + plan->at_states);
    return states + (pair * (plan->key_chunks + 1) + chunk) * plan->d_k * plan->wide;
}

static bool stopped(const linear_plan *plan) {
    return plan->cancel && atomic_load_explicit(plan->cancel, memory_order_relaxed);
}

static const attn_ops *ops_of(const linear_plan *plan) { return ATTN_T(attn_ops_of)(plan->kernel); }

/* phi of `count` numbers in place; powers holds count numbers rounded up to BLOCK */
static void map_features(const linear_plan *plan, size_t count, real *x, real *powers) {
    const real shift = 0;
    real sum;
    if (plan->problem->linear->feature_map == ATTN_RELU) {
        for (size_t i = 0; i < count; i++) x[i] = x[i] > 0 ? x[i] : 0;
        return;
    }
    for (size_t i = 0; i < round_up(count); i++) powers[i] = i < count && x[i] < 0 ? x[i] : 0;
    for (size_t i = 0; i < count; i += BLOCK) ops_of(plan)->exp_sum(1, BLOCK, powers + i, 1, &shift, &sum);
    for (size_t i = 0; i < count; i++) x[i] = x[i] > 0 ? x[i] + 1 : powers[i];
}

static const real *row_of(const attn_view *view, size_t batch, size_t head, size_t row) {
    return (const real *)view->data + batch * view->batch + head * view->head + row * view->row;
}

static bool is_open(const attn_problem *problem, size_t batch, size_t key) {
    if (problem->kv_lengths && (int64_t)key >= problem->kv_lengths[batch]) return false;
    const uint8_t *mask = problem->linear->key_mask;
    return !mask || mask[batch * problem->n_new + key] != 0;
}

/* Keys [key, key + count) of a pair to s->keys and s->values. */
static void load_keys(const linear_plan *plan, size_t pair, size_t key, size_t count, const linear_scratch *s) {
    const attn_problem *problem = plan->problem;
    const size_t batch = pair / problem->kv_heads, head = pair % problem->kv_heads, d_k = plan->d_k, wide = plan->wide;
    for (size_t j = 0; j < count; j++)
        memcpy(s->keys + j * d_k, row_of(&problem->k, batch, head, key + j), d_k * sizeof(real));
    map_features(plan, count * d_k, s->keys, s->powers);
    for (size_t j = 0; j < count; j++) {
        real *to = s->values + j * wide;
        const bool open = is_open(problem, batch, key + j);
        if (open && problem->d_v > 0)
            memcpy(to, row_of(&problem->v, batch, head, key + j), problem->d_v * sizeof(real));
        else
            memset(to, 0, problem->d_v * sizeof(real));
        to[problem->d_v] = open;
        if (!open) memset(s->keys + j * d_k, 0, d_k * sizeof(real));
    }
}

/* state += phi(k)^T [v, 1] over the keys [from, to) */
static void add_keys(const linear_plan *plan, size_t pair, size_t from, size_t to, real *state,
                     const linear_scratch *s) {
    const size_t d_k = plan->d_k, wide = plan->wide;
    for (size_t key = from; key < to; key += BLOCK) {
        const size_t count = smaller(BLOCK, to - key);
        load_keys(plan, pair, key, count, s);
        for (size_t c = 0; c < d_k; c++)
            for (size_t j = 0; j < count; j++) s->turned[c * BLOCK + j] = s->keys[j * d_k + c];
        ops_of(plan)->multiply(d_k, wide, count, s->turned, BLOCK, s->values, wide, false, true, state, wide);
    }
}

/* First pass: the sum of one chunk of one pair. */
static void chunk_item(void *arg, size_t item, size_t slot) {
    linear_plan *plan = arg;
    const size_t pair = item / plan->key_chunks, chunk = item % plan->key_chunks;
    const linear_scratch s = scratch_of(plan, slot);
    real *state = state_at(plan, pair, chunk + 1);
    if (stopped(plan)) return;
    memset(state, 0, plan->d_k * plan->wide * sizeof(real));
    add_keys(plan, pair, chunk * CHUNK, smaller((chunk + 1) * CHUNK, plan->problem->n_new), state, &s);
}

static void load_past(const linear_plan *plan, size_t pair, real *state) {
    const attn_linear *linear = plan->problem->linear;
    const size_t d_v = plan->problem->d_v;
    memset(state, 0, plan->d_k * plan->wide * sizeof(real));
    if (!linear->past_state) return;
    for (size_t c = 0; c < plan->d_k; c++) {
        if (d_v > 0)
            memcpy(state + c * plan->wide, (const real *)linear->past_state + (pair * plan->d_k + c) * d_v,
                   d_v * sizeof(real));
        state[c * plan->wide + d_v] = ((const real *)linear->past_normalizer)[pair * plan->d_k + c];
    }
}

static void store_present(const linear_plan *plan, size_t pair, const real *state) {
    const attn_results *results = plan->results;
    const size_t d_v = plan->problem->d_v;
    for (size_t c = 0; c < plan->d_k; c++) {
        if (results->present_state && d_v > 0)
            memcpy((real *)results->present_state + (pair * plan->d_k + c) * d_v, state + c * plan->wide,
                   d_v * sizeof(real));
        if (results->present_normalizer)
            ((real *)results->present_normalizer)[pair * plan->d_k + c] = state[c * plan->wide + d_v];
    }
}

/* Second pass: the chunks of one pair added up. */
static void add_up_item(void *arg, size_t pair, size_t slot) {
    linear_plan *plan = arg;
    const size_t size = plan->d_k * plan->wide;
    (void)slot;
    load_past(plan, pair, state_at(plan, pair, 0));
    for (size_t chunk = 1; chunk <= plan->key_chunks; chunk++) {
        const real *before = state_at(plan, pair, chunk - 1);
        real *state = state_at(plan, pair, chunk);
        for (size_t i = 0; i < size; i++) state[i] += before[i];
    }
    const real *all = state_at(plan, pair, plan->key_chunks);
    for (size_t i = 0; i < size && (plan->results->present_state || plan->results->present_normalizer); i++)
        if (!isfinite(all[i])) atomic_store(&plan->overflow, true);
    store_present(plan, pair, all);
}

/* keys [0, end) may be attended by query i as far as causal says */
static size_t end_of_keys(const attn_problem *problem, size_t batch, size_t query) {
    if (!problem->causal) return problem->n_new;
    const int64_t end = (int64_t)query + 1 + (problem->query_offset ? problem->query_offset[batch] : 0);
    return end < 0 ? 0 : smaller((size_t)end, problem->n_new);
}

static void load_queries(const linear_plan *plan, size_t batch, size_t head, size_t query, size_t count,
                         const linear_scratch *s) {
    for (size_t i = 0; i < count; i++)
        memcpy(s->queries + i * plan->d_k, row_of(&plan->problem->q, batch, head, query + i), plan->d_k * sizeof(real));
    map_features(plan, count * plan->d_k, s->queries, s->powers);
}

/* s->products = phi(q).phi(k) of the loaded queries and keys, zeros where causal closes the key */
static void multiply_block(const linear_plan *plan, size_t batch, size_t query, size_t count, size_t key, size_t keys,
                           const linear_scratch *s) {
    ops_of(plan)->multiply(count, keys, plan->d_k, s->queries, plan->d_k, s->keys, plan->d_k, true, false, s->products,
                           BLOCK);
    for (size_t i = 0; i < count; i++) {
        const size_t end = end_of_keys(plan->problem, batch, query + i);
        for (size_t j = end > key ? end - key : 0; j < keys; j++) s->products[i * BLOCK + j] = 0;
    }
}

/* Numerators and denominators of a block's rows, (count, wide), to the output. */
static void finish_rows(linear_plan *plan, size_t batch, size_t head, size_t query, size_t count,
                        const linear_scratch *s) {
    const attn_problem *problem = plan->problem;
    const attn_out_view *view = &plan->results->output;
    for (size_t i = 0; i < count; i++) {
        const real *row = s->output + i * plan->wide;
        const real sum = row[problem->d_v] + (real)problem->linear->eps;
        const size_t index = (batch * problem->heads + head) * problem->n_q + query + i;
        if (plan->results->weights) ((real *)(void *)(plan->workspace + plan->at_sums))[index] = sum;
        if (!isfinite(sum)) atomic_store(&plan->overflow, true);
        if (!view->data) continue;
        real *to = (real *)view->data + batch * view->batch + head * view->head + (query + i) * view->row;
        for (size_t c = 0; c < problem->d_v; c++) {
            to[c] = sum == 0 ? 0 : row[c] / sum;
            if (!isfinite(to[c])) atomic_store(&plan->overflow, true);
        }
    }
}

/* Third pass: one chunk of queries of one head. */
static void query_item(void *arg, size_t item, size_t slot) {
    linear_plan *plan = arg;
    const attn_problem *problem = plan->problem;
    const size_t row = item / plan->query_chunks, batch = row / problem->heads, head = row % problem->heads;
    const size_t pair = batch * problem->kv_heads + head / (problem->heads / problem->kv_heads), wide = plan->wide;
    const size_t first = item % plan->query_chunks * CHUNK, last = smaller(first + CHUNK, problem->n_q);
    const linear_scratch s = scratch_of(plan, slot);
    size_t known = end_of_keys(problem, batch, first); /* keys that s.state holds */
    const size_t chunk = known == problem->n_new ? plan->key_chunks : known / CHUNK;
    memcpy(s.state, state_at(plan, pair, chunk), plan->d_k * wide * sizeof(real));
    if (chunk < plan->key_chunks) add_keys(plan, pair, chunk * CHUNK, known, s.state, &s);
    for (size_t query = first; query < last; query += BLOCK) {
        const size_t count = smaller(BLOCK, last - query);
        const size_t all = end_of_keys(problem, batch, query), some = end_of_keys(problem, batch, query + count - 1);
        if (stopped(plan)) return;
        add_keys(plan, pair, known, all, s.state, &s);
        known = all;
        load_queries(plan, batch, head, query, count, &s);
        ops_of(plan)->multiply(count, wide, plan->d_k, s.queries, plan->d_k, s.state, wide, false, false, s.output,
                               wide);
        if (some > all) { /* at most BLOCK - 1 keys */
            load_keys(plan, pair, all, some - all, &s);
            multiply_block(plan, batch, query, count, all, some - all, &s);
            ops_of(plan)->multiply(count, wide, some - all, s.products, BLOCK, s.values, wide, false, true, s.output,
                                   wide);
        }
        finish_rows(plan, batch, head, query, count, &s);
    }
}

/* The weights of one block of queries of one head: phi(q).phi(k) over the row's denominator. */
static void weights_item(void *arg, size_t item, size_t slot) {
    linear_plan *plan = arg;
    const attn_problem *problem = plan->problem;
    const size_t blocks = (problem->n_q + BLOCK - 1) / BLOCK, row = item / blocks, query = item % blocks * BLOCK;
    const size_t batch = row / problem->heads, head = row % problem->heads;
    const size_t pair = batch * problem->kv_heads + head / (problem->heads / problem->kv_heads);
    const size_t count = smaller(BLOCK, problem->n_q - query);
    const linear_scratch s = scratch_of(plan, slot);
    const real *sums = (const real *)(void *)(plan->workspace + plan->at_sums) + row * problem->n_q + query;
    real *weights = (real *)plan->results->weights + (row * problem->n_q + query) * problem->n_new;
    load_queries(plan, batch, head, query, count, &s);
    for (size_t key = 0; key < problem->n_new; key += BLOCK) {
        const size_t keys = smaller(BLOCK, problem->n_new - key);
        if (stopped(plan)) return;
        load_keys(plan, pair, key, keys, &s);
        multiply_block(plan, batch, query, count, key, keys, &s);
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < keys; j++)
                weights[i * problem->n_new + key + j] = sums[i] == 0 ? 0 : s.products[i * BLOCK + j] / sums[i];
    }
}

attn_status ATTN_T(attn_linear_run)(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                                    void *workspace, const atomic_bool *cancel, attn_fault *fault) {
    linear_plan plan = plan_of(engine, problem, results);
    plan.workspace = workspace;
    plan.cancel = cancel;
    const size_t rows = problem->batch * problem->heads;
    attn_pool_for(engine->pool, plan.pairs * plan.key_chunks, chunk_item, &plan);
    attn_pool_for(engine->pool, plan.pairs, add_up_item, &plan);
    if (results->output.data || results->weights)
        attn_pool_for(engine->pool, rows * plan.query_chunks, query_item, &plan);
    if (results->weights) attn_pool_for(engine->pool, rows * ((problem->n_q + BLOCK - 1) / BLOCK), weights_item, &plan);
    if (stopped(&plan)) return ATTN_CANCELLED;
    if (!atomic_load(&plan.overflow)) return ATTN_OK;
    if (fault) *fault = (attn_fault){.stage = ATTN_STAGE_OUTPUT};
    return ATTN_OVERFLOW;
}
