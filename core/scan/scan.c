/* Selective scans (Gu and Dao, arXiv:2312.00752, equation 2 with delta B as the discrete B; Dao and Gu,
 * arXiv:2405.21060, for a scalar a per head).
 *
 * Columns, COLUMNS at a time, share one pass over the steps: columns are channels if width is 1, else the numbers of
 * one channel. A state is kept as (state, COLUMNS), so that every loop over columns is one of vectors. If there are few
 * blocks of columns, the steps are cut into chunks at fixed places: a first pass finds the state that each chunk adds
 * and the sum of its deltas, from which the chunks' initial states follow, and a second pass computes the outputs. The
 * places depend on the sizes alone, and so do the bits. */
#include <math.h>
#include <string.h>

#include "../engine/ops.h"
#include "../engine/real.h"
#include "scan.h"

enum {
    COLUMNS = 16,        /* columns of a block */
    STEPS = 8,           /* steps whose exponentials are computed at once */
    CHUNK = 8192,        /* steps of a chunk */
    ENOUGH_BLOCKS = 16,  /* so many blocks keep all threads busy without chunks */
    EXPONENTIALS = 64,   /* numbers that the kernel's exponential takes at a time, in every row of the table */
    CANCEL_EVERY = 1024, /* steps between two looks at the cancel flag */
};

/* How a scan is cut. */
typedef struct scan_plan {
    const attn_scan *scan;
    const attn_scan_results *results;
    const attn_kernel *kernel;
    const atomic_bool *cancel;
    size_t blocks_per_group; /* width 1: blocks of channels of one group; else blocks of one channel */
    size_t blocks;           /* of one batch */
    size_t chunks;           /* of one block */
    size_t at_slots, slot_bytes;
    char *workspace; /* states (batch, blocks, chunks, state, COLUMNS), sums of delta (.., COLUMNS), then the slots */
    atomic_bool overflow;
} scan_plan;

/* The columns of a block. */
typedef struct scan_block {
    size_t batch, channel, first, count; /* first: number of the channel's width, if it has several */
    size_t group;
} scan_block;

typedef struct scan_scratch {
    real *decay;    /* (STEPS, state, COLUMNS): exp(delta a) */
    real *exponent; /* (state, COLUMNS): a */
    real *state;    /* (state, COLUMNS) */
    real *delta;    /* (COLUMNS): sum of the steps so far */
} scan_scratch;

static size_t round_up(size_t n) { return (n + EXPONENTIALS - 1) / EXPONENTIALS * EXPONENTIALS; }

static size_t state_size(const attn_scan *scan) { return round_up(scan->state * COLUMNS); }

static scan_plan plan_of(const attn_engine *engine, const attn_scan *scan) {
    scan_plan plan = {.scan = scan, .kernel = engine->kernel};
    const size_t columns = scan->width == 1 ? scan->channels / (scan->groups ? scan->groups : 1) : scan->width;
    plan.blocks_per_group = (columns + COLUMNS - 1) / COLUMNS;
    plan.blocks = plan.blocks_per_group * (scan->width == 1 ? scan->groups : scan->channels);
    plan.chunks = scan->batch * plan.blocks < ENOUGH_BLOCKS ? (scan->n + CHUNK - 1) / CHUNK : 1;
    if (plan.chunks == 0) plan.chunks = 1;
    const size_t states = scan->batch * plan.blocks * plan.chunks;
    plan.at_slots = (states * (state_size(scan) + COLUMNS) * sizeof(real) + 63) / 64 * 64;
    plan.slot_bytes = ((STEPS + 2) * state_size(scan) + EXPONENTIALS) * sizeof(real);
    return plan;
}

size_t ATTN_T(attn_scan_workspace)(const attn_engine *engine, const attn_scan *scan) {
    const scan_plan plan = plan_of(engine, scan);
    return plan.at_slots + plan.slot_bytes * attn_pool_slots(engine->pool);
}

static bool stopped(const scan_plan *plan) {
    return plan->cancel && atomic_load_explicit(plan->cancel, memory_order_relaxed);
}

static scan_block block_of(const scan_plan *plan, size_t index) {
    const attn_scan *scan = plan->scan;
    const size_t block = index % plan->blocks, outer = block / plan->blocks_per_group;
    const size_t first = block % plan->blocks_per_group * COLUMNS, per_group = scan->channels / scan->groups;
    const size_t columns = scan->width == 1 ? per_group : scan->width;
    scan_block b = {.batch = index / plan->blocks};
    b.count = columns - first < COLUMNS ? columns - first : COLUMNS;
    b.channel = scan->width == 1 ? outer * per_group + first : outer;
    b.first = scan->width == 1 ? 0 : first;
    b.group = b.channel / per_group;
    return b;
}

static scan_scratch scratch_of(const scan_plan *plan, size_t slot) {
    real *memory = (real *)(void *)(plan->workspace + plan->at_slots + slot * plan->slot_bytes);
    const size_t size = state_size(plan->scan);
    return (scan_scratch){memory, memory + STEPS * size, memory + (STEPS + 1) * size, memory + (STEPS + 2) * size};
}

static real *chunk_state(const scan_plan *plan, size_t block, size_t chunk) {
    return (real *)(void *)plan->workspace + (block * plan->chunks + chunk) * (state_size(plan->scan) + COLUMNS);
}

static real *chunk_delta(const scan_plan *plan, size_t block, size_t chunk) {
    return chunk_state(plan, block, chunk) + state_size(plan->scan);
}

/* ln(1 + e^x), exact for any x */
static real softplus(real x) { return (real)(x > 0 ? (double)x + log1p(exp(-(double)x)) : log1p(exp((double)x))); }

/* delta of one step and channel, with bias and softplus */
static real delta_at(const attn_scan *scan, size_t batch, size_t step, size_t channel) {
    real x = ((const real *)scan->delta)[(batch * scan->n + step) * scan->channels + channel];
    if (scan->delta_bias) x += ((const real *)scan->delta_bias)[channel];
    return scan->softplus ? softplus(x) : x;
}

static real a_at(const attn_scan *scan, size_t channel, size_t k) {
    return ((const real *)scan->a)[scan->scalar_a ? channel : channel * scan->state + k];
}

/* e^x in place, `count` being a multiple of EXPONENTIALS. The kernel's exponential is for numbers up to 12; a positive
 * `a` may give more. */
static void exponentials(const scan_plan *plan, size_t count, real *x) {
    const real shift = 0;
    real sum;
    for (size_t i = 0; i < count; i += EXPONENTIALS) {
        bool moderate = true;
        for (size_t j = i; j < i + EXPONENTIALS; j++) moderate &= x[j] <= 12;
        if (moderate)
            ATTN_T(attn_ops_of)(plan->kernel)->exp_sum(1, EXPONENTIALS, x + i, 1, &shift, &sum);
        else
            for (size_t j = i; j < i + EXPONENTIALS; j++) x[j] = (real)exp((double)x[j]);
    }
}

static void load_exponents(const scan_plan *plan, const scan_block *b, const scan_scratch *s) {
    const attn_scan *scan = plan->scan;
    memset(s->exponent, 0, state_size(scan) * sizeof(real));
    for (size_t k = 0; k < scan->state; k++)
        for (size_t c = 0; c < b->count; c++)
            s->exponent[k * COLUMNS + c] = a_at(scan, b->channel + (scan->width == 1 ? c : 0), k);
}

/* delta of the columns at one step; columns past the block get 0 */
static void load_delta(const attn_scan *scan, const scan_block *b, size_t step, real delta[COLUMNS]) {
    memset(delta, 0, COLUMNS * sizeof *delta);
    if (scan->width == 1) {
        for (size_t c = 0; c < b->count; c++) delta[c] = delta_at(scan, b->batch, step, b->channel + c);
    } else {
        const real one = delta_at(scan, b->batch, step, b->channel);
        for (size_t c = 0; c < b->count; c++) delta[c] = one;
    }
}

static const real *column_at(const attn_scan *scan, const void *data, const scan_block *b, size_t step) {
    return (const real *)data + ((b->batch * scan->n + step) * scan->channels + b->channel) * scan->width + b->first;
}

static const real *state_row(const attn_scan *scan, const void *data, const scan_block *b, size_t step) {
    return (const real *)data + ((b->batch * scan->n + step) * scan->groups + b->group) * scan->state;
}

/* h = exp(delta a) h + delta u b, for all columns; y = sum over the state of c h if `y` is wanted */
static void advance(const attn_scan *scan, const real *restrict decay, const real *restrict input,
                    const real *restrict b, const real *restrict c, real *restrict h, real *restrict y) {
    if (y) memset(y, 0, COLUMNS * sizeof *y);
    for (size_t k = 0; k < scan->state; k++, h += COLUMNS, decay += COLUMNS) {
        for (size_t i = 0; i < COLUMNS; i++) h[i] = decay[i] * h[i] + input[i] * b[k];
        if (!y) continue;
        for (size_t i = 0; i < COLUMNS; i++) y[i] += c[k] * h[i];
    }
}

/* y + d u, times silu(z) = z / (1 + e^-z) */
static bool write_output(const scan_plan *plan, const scan_block *b, size_t step, const real *u, const real *y) {
    const attn_scan *scan = plan->scan;
    real *out = (real *)plan->results->output + (u - (const real *)scan->u);
    const real *z = scan->z ? column_at(scan, scan->z, b, step) : NULL;
    bool finite = true;
    for (size_t c = 0; c < b->count; c++) {
        real value = y[c];
        if (scan->d) value += ((const real *)scan->d)[b->channel + (scan->width == 1 ? c : 0)] * u[c];
        if (z) value = (real)((double)value * (double)z[c] / (1 + exp(-(double)z[c])));
        out[c] = value;
        finite &= isfinite(value) != 0;
    }
    return finite;
}

/* Runs the steps [from, to) on scratch.state; writes outputs if `outputs`, and sums the deltas. */
static void run_steps(scan_plan *plan, const scan_block *b, size_t from, size_t to, bool outputs,
                      const scan_scratch *s) {
    const attn_scan *scan = plan->scan;
    const size_t size = state_size(scan);
    real delta[STEPS][COLUMNS], input[COLUMNS], y[COLUMNS];
    memset(s->delta, 0, COLUMNS * sizeof(real));
    memset(input, 0, sizeof input);
    for (size_t step = from; step < to; step += STEPS) {
        const size_t steps = to - step < STEPS ? to - step : STEPS;
        if ((step - from) % CANCEL_EVERY == 0 && stopped(plan)) return;
        for (size_t t = 0; t < steps; t++) {
            real *x = s->decay + t * size;
            load_delta(scan, b, step + t, delta[t]);
            for (size_t c = 0; c < COLUMNS; c++) s->delta[c] += delta[t][c];
            for (size_t k = 0; k < size; k += COLUMNS)
                for (size_t c = 0; c < COLUMNS; c++) x[k + c] = delta[t][c] * s->exponent[k + c];
        }
        exponentials(plan, steps * size, s->decay);
        for (size_t t = 0; t < steps; t++) {
            const real *u = column_at(scan, scan->u, b, step + t);
            for (size_t c = 0; c < b->count; c++) input[c] = delta[t][c] * u[c];
            advance(scan, s->decay + t * size, input, state_row(scan, scan->b, b, step + t),
                    state_row(scan, scan->c, b, step + t), s->state, outputs ? y : NULL);
            if (outputs && !write_output(plan, b, step + t, u, y)) atomic_store(&plan->overflow, true);
        }
    }
}

/* where the numbers of column c stand in a state of the caller's, (batch, channels, width, state) */
static size_t state_place(const attn_scan *scan, const scan_block *b, size_t c) {
    return ((b->batch * scan->channels + b->channel) * scan->width + b->first + c) * scan->state;
}

static void load_state(const attn_scan *scan, const scan_block *b, real *state) {
    memset(state, 0, state_size(scan) * sizeof(real));
    if (!scan->initial_state) return;
    for (size_t c = 0; c < b->count; c++)
        for (size_t k = 0; k < scan->state; k++)
            state[k * COLUMNS + c] = ((const real *)scan->initial_state)[state_place(scan, b, c) + k];
}

static void store_state(scan_plan *plan, const scan_block *b, const real *state) {
    const attn_scan *scan = plan->scan;
    if (!plan->results->final_state) return;
    for (size_t c = 0; c < b->count; c++)
        for (size_t k = 0; k < scan->state; k++) {
            const real h = state[k * COLUMNS + c];
            ((real *)plan->results->final_state)[state_place(scan, b, c) + k] = h;
            if (!isfinite(h)) atomic_store(&plan->overflow, true);
        }
}

static size_t chunk_end(const scan_plan *plan, size_t chunk) {
    return chunk + 1 == plan->chunks ? plan->scan->n : (chunk + 1) * CHUNK;
}

/* First pass, one chunk of one block: the state that it ends with if it begins with zeros, and its sum of deltas. */
static void chunk_item(void *arg, size_t item, size_t slot) {
    scan_plan *plan = arg;
    const size_t block = item / (plan->chunks - 1), chunk = item % (plan->chunks - 1);
    const scan_block b = block_of(plan, block);
    scan_scratch s = scratch_of(plan, slot);
    load_exponents(plan, &b, &s);
    s.state = chunk_state(plan, block, chunk + 1);
    s.delta = chunk_delta(plan, block, chunk + 1);
    memset(s.state, 0, state_size(plan->scan) * sizeof(real));
    run_steps(plan, &b, chunk * CHUNK, chunk_end(plan, chunk), false, &s);
}

/* The initial states of a block's chunks: each is exp(a sum delta) times the one before, plus what the chunk added. */
static void join_item(void *arg, size_t block, size_t slot) {
    scan_plan *plan = arg;
    const scan_block b = block_of(plan, block);
    const scan_scratch s = scratch_of(plan, slot);
    const size_t size = state_size(plan->scan);
    load_exponents(plan, &b, &s);
    load_state(plan->scan, &b, chunk_state(plan, block, 0));
    for (size_t chunk = 1; chunk < plan->chunks; chunk++) {
        const real *before = chunk_state(plan, block, chunk - 1), *delta = chunk_delta(plan, block, chunk);
        real *state = chunk_state(plan, block, chunk);
        for (size_t k = 0; k < size; k++) s.decay[k] = s.exponent[k] * delta[k % COLUMNS];
        exponentials(plan, size, s.decay);
        for (size_t k = 0; k < size; k++) state[k] += s.decay[k] * before[k];
    }
}

/* Second pass: the outputs of one chunk of one block. */
static void output_item(void *arg, size_t item, size_t slot) {
    scan_plan *plan = arg;
    const size_t block = item / plan->chunks, chunk = item % plan->chunks;
    const scan_block b = block_of(plan, block);
    const scan_scratch s = scratch_of(plan, slot);
    load_exponents(plan, &b, &s);
    memcpy(s.state, chunk_state(plan, block, chunk), state_size(plan->scan) * sizeof(real));
    run_steps(plan, &b, chunk * CHUNK, chunk_end(plan, chunk), plan->results->output != NULL, &s);
    if (chunk + 1 == plan->chunks) store_state(plan, &b, s.state);
}

static void delta_item(void *arg, size_t row, size_t slot) {
    scan_plan *plan = arg;
    const attn_scan *scan = plan->scan;
    (void)slot;
    for (size_t c = 0; c < scan->channels; c++)
        ((real *)plan->results->delta)[row * scan->channels + c] = delta_at(scan, row / scan->n, row % scan->n, c);
}

/* Row t of the matrix of one channel: M[t, s] = sum over the state of C_t exp(a sum of delta over s+1..t) B_s. */
static void matrix_item(void *arg, size_t item, size_t slot) {
    scan_plan *plan = arg;
    const attn_scan *scan = plan->scan;
    const size_t t = item % scan->n, channel = item / scan->n % scan->channels, batch = item / scan->n / scan->channels;
    const scan_block b = {.batch = batch, .channel = channel, .group = channel / (scan->channels / scan->groups)};
    const real *c = state_row(scan, scan->c, &b, t);
    real *row = (real *)plan->results->matrix + item * scan->n;
    double delta = 0;
    (void)slot;
    memset(row, 0, scan->n * sizeof *row);
    for (size_t s = t + 1; s-- > 0;) {
        const real *in = state_row(scan, scan->b, &b, s);
        double sum = 0;
        if (s % CANCEL_EVERY == 0 && stopped(plan)) return;
        for (size_t k = 0; k < scan->state; k++)
            sum += (double)c[k] * (double)in[k] * exp((double)a_at(scan, channel, k) * delta);
        row[s] = (real)sum;
        if (!isfinite(row[s])) atomic_store(&plan->overflow, true);
        delta += (double)delta_at(scan, batch, s, channel);
    }
}

attn_status ATTN_T(attn_scan_run)(const attn_engine *engine, const attn_scan *scan, const attn_scan_results *results,
                                  void *workspace, const atomic_bool *cancel, attn_fault *fault) {
    scan_plan plan = plan_of(engine, scan);
    plan.results = results;
    plan.workspace = workspace;
    plan.cancel = cancel;
    const size_t blocks = scan->batch * plan.blocks, rows = scan->batch * scan->n;
    if (results->delta) attn_pool_for(engine->pool, rows, delta_item, &plan);
    if (results->matrix) attn_pool_for(engine->pool, rows * scan->channels, matrix_item, &plan);
    if (results->output || results->final_state) {
        attn_pool_for(engine->pool, blocks * (plan.chunks - 1), chunk_item, &plan);
        attn_pool_for(engine->pool, blocks, join_item, &plan);
        attn_pool_for(engine->pool, blocks * plan.chunks, output_item, &plan);
    }
    if (stopped(&plan)) return ATTN_CANCELLED;
    if (!atomic_load(&plan.overflow)) return ATTN_OK;
    if (fault) *fault = (attn_fault){.stage = ATTN_STAGE_OUTPUT};
    return ATTN_OVERFLOW;
}
