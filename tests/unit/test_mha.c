/* test_mha.c: multi-head attention against the oracle, each step from the rounded numbers of the step before. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/check.h"
#include "../support/oracle.h"
#include "../support/problem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { POOLS = 2 };
static attn_pool *pools[POOLS]; /* of 1 and 2 threads */

static bool chance(size_t one_in) { return check_random_below(one_in) == 0; }
static size_t between(size_t least, size_t most) { return least + check_random_below(most - least + 1); }

static void each(void (*body)(const attn_engine *engine, attn_dtype dtype)) {
    for (size_t i = 0; test_kernel(i); i++) {
        const attn_engine engine = {.kernel = test_kernel(i)};
        body(&engine, ATTN_F32);
        body(&engine, ATTN_F64);
    }
}

/* ---- problems --------------------------------------------------------------------------------------------------- */

/* (rows, columns) in either layout, often with gaps between its rows, as the parts of a joined weight have */
static attn_weight random_weight(bag *owner, attn_dtype dtype, size_t rows, size_t columns, double spread) {
    const bool out_in = chance(2);
    const size_t lines = out_in ? columns : rows, line = out_in ? rows : columns,
                 stride = line + (chance(2) ? between(1, 9) : 0);
    const size_t length = lines ? (lines - 1) * stride + line : 0;
    void *data = numbers_filled(owner, dtype, length, NAN);
    for (size_t i = 0; i < length; i++)
        if (i % stride < line) oracle_put(dtype, data, i, check_random_normal() * spread);
    return (attn_weight){data, stride, out_in};
}

typedef struct mha_sizes {
    size_t batch, heads, kv_heads, n_q, n_new, d_k, d_v, d_model, d_context, d_out;
    bool cross, w_o, biases, head_mask, sinusoidal, norms;
    size_t d_value; /* of a value_context; 0: none */
} mha_sizes;

static attn_mha build(bag *owner, attn_dtype dtype, const mha_sizes *s) {
    const size_t n_new = s->cross ? s->n_new : s->n_q, d_context = s->cross ? s->d_context : s->d_model;
    const double into_q = 1 / sqrt((double)s->d_model + 1), into_kv = 1 / sqrt((double)d_context + 1);
    attn_mha m = {.attention = {.dtype = dtype,
                                .batch = s->batch,
                                .heads = s->heads,
                                .kv_heads = s->kv_heads,
                                .n_q = s->n_q,
                                .n_new = n_new,
                                .d_k = s->d_k,
                                .d_v = s->d_v,
                                .scale = 1 / sqrt((double)s->d_k)},
                  .d_model = s->d_model,
                  .d_context = d_context,
                  .d_out = s->d_out};
    m.x = numbers_random(owner, dtype, s->batch * s->n_q * s->d_model, 1);
    if (s->cross) m.context = numbers_random(owner, dtype, s->batch * n_new * d_context, 1);
    m.w_q = random_weight(owner, dtype, s->d_model, s->heads * s->d_k, into_q);
    m.w_k = random_weight(owner, dtype, d_context, s->kv_heads * s->d_k, into_kv);
    m.w_v = random_weight(owner, dtype, s->d_value ? s->d_value : d_context, s->kv_heads * s->d_v, into_kv);
    if (s->d_value) {
        m.value_context = numbers_random(owner, dtype, s->batch * n_new * s->d_value, 1);
        m.d_value_context = s->d_value;
    }
    m.sinusoidal = s->sinusoidal;
    m.norm_eps = 1e-6;
    if (s->norms) {
        m.q_norm = numbers_random(owner, dtype, s->d_k, 1);
        if (chance(2)) m.k_norm = numbers_random(owner, dtype, s->d_k, 1);
    }
    if (s->w_o)
        m.w_o = random_weight(owner, dtype, s->heads * s->d_v, s->d_out, 1 / sqrt((double)(s->heads * s->d_v) + 1));
    if (s->biases) {
        m.b_q = numbers_random(owner, dtype, s->heads * s->d_k, 1);
        if (chance(2)) m.b_k = numbers_random(owner, dtype, s->kv_heads * s->d_k, 1);
        m.b_v = numbers_random(owner, dtype, s->kv_heads * s->d_v, 1);
        if (s->w_o) m.b_o = numbers_random(owner, dtype, s->d_out, 1);
    }
    if (s->head_mask) {
        void *mask = numbers_random(owner, dtype, s->heads, 1);
        oracle_put(dtype, mask, 0, 0);
        m.head_mask = mask;
    }
    return m;
}

/* The oracle's 64 bits suffice for the angles of positions up to some hundreds. */
static bool near(const attn_problem *p) {
    bool ok = true;
    for (size_t b = 0; b < p->batch; b++) {
        if (p->query_offset) ok &= llabs(p->query_offset[b]) < 1024;
        for (size_t i = 0; p->positions && i < p->n_q; i++)
            ok &= llabs(p->positions[b * p->positions_batch + i]) < 1024;
        for (size_t j = 0; p->key_positions && j < p->n_new; j++)
            ok &= llabs(p->key_positions[b * p->key_positions_batch + j]) < 1024;
    }
    return ok;
}

static mha_sizes random_sizes(void) {
    const size_t kv_heads = between(1, 3);
    return (mha_sizes){.batch = between(1, 3),
                       .heads = kv_heads * between(1, 3),
                       .kv_heads = kv_heads,
                       .n_q = between(0, 20),
                       .n_new = between(0, 20),
                       .d_k = between(1, 9),
                       .d_v = chance(20) ? 0 : between(1, 9),
                       .d_model = chance(20) ? 0 : between(1, 30),
                       .d_context = between(1, 30),
                       .d_out = between(1, 20),
                       .cross = chance(2),
                       .w_o = !chance(3),
                       .biases = chance(2),
                       .head_mask = chance(3),
                       .sinusoidal = chance(4),
                       .norms = chance(4),
                       .d_value = chance(4) ? between(1, 20) : 0};
}

static const char *mha_text(const attn_mha *m) {
    static _Thread_local char text[600];
    snprintf(text, sizeof text, "%s, d_model %zu d_context %zu d_out %zu%s%s%s%s%s%s", problem_text(&m->attention),
             m->d_model, m->d_context, m->w_o.data ? m->d_out : 0, m->context ? " context" : "",
             m->b_q ? " biases" : "", m->head_mask ? " head_mask" : "", m->sinusoidal ? " sinusoidal" : "",
             m->q_norm ? " norms" : "", m->value_context ? " value_context" : "");
    return text;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

enum { MHA_KINDS = 5 }; /* q, k, v, heads, output */

static size_t mha_count(const attn_mha *m, size_t kind) {
    const attn_problem *a = &m->attention;
    const size_t q_rows = a->batch * a->n_q, kv_rows = a->batch * a->n_new, wide = a->heads * a->d_v;
    const size_t counts[MHA_KINDS] = {q_rows * a->heads * a->d_k, kv_rows * a->kv_heads * a->d_k,
                                      kv_rows * a->kv_heads * a->d_v, q_rows * wide,
                                      q_rows * (m->w_o.data ? m->d_out : wide)};
    return counts[kind];
}

static void *mha_at(const attn_mha_results *r, size_t kind) {
    void *const at[MHA_KINDS] = {r->q, r->k, r->v, r->heads, r->output};
    return at[kind];
}

/* `want` as for results_room, `more` likewise for q, k, v, heads, output */
static attn_mha_results mha_room(bag *owner, const attn_mha *m, unsigned want, unsigned more) {
    void *at[MHA_KINDS] = {0};
    for (size_t i = 0; i < MHA_KINDS; i++)
        if (more >> i & 1) at[i] = numbers_filled(owner, m->attention.dtype, mha_count(m, i), NAN);
    return (attn_mha_results){.attention = results_room(owner, &m->attention, want & ~(unsigned)WANT_OUTPUT),
                              .q = at[0],
                              .k = at[1],
                              .v = at[2],
                              .heads = at[3],
                              .output = at[4]};
}

static void check_values(const attn_mha *m, const oracle_mha *o, const attn_mha_results *r) {
    static const char *const names[MHA_KINDS] = {"q", "k", "v", "heads", "output"};
    const oracle_tensor *const expected[MHA_KINDS] = {&o->q, &o->k, &o->v, &o->heads,
                                                      m->w_o.data ? &o->output : &o->heads};
    oracle_report report;
    for (size_t i = 0; i < MHA_KINDS; i++)
        CHECK(oracle_compare(m->attention.dtype, expected[i], mha_at(r, i), &report), "%s: %s %s", mha_text(m),
              names[i], report.text);
    for (size_t i = 1; i < WANT_KINDS; i++) {
        size_t bytes;
        const void *got = results_at(&r->attention, &m->attention, i, &bytes);
        if (!got) continue;
        CHECK(oracle_compare(m->attention.dtype, results_expected(o->attention, i), got, &report), "%s: %s %s",
              mha_text(m), results_name(i), report.text);
    }
}

static void check_same_bits(const attn_mha *m, const attn_mha_results *a, const attn_mha_results *b, const char *what) {
    for (size_t i = 0; i < MHA_KINDS; i++) {
        const void *x = mha_at(a, i), *y = mha_at(b, i);
        const size_t bytes = mha_count(m, i) * attn_sizeof(m->attention.dtype);
        if (x && y) CHECK(memcmp(x, y, bytes) == 0, "%s: other bits %s", mha_text(m), what);
    }
}

/* All results against the oracle; then fewer results, and with threads: the same bits. */
static void check_mha(const attn_engine *engine, const attn_mha *m) {
    bag owner = {0};
    const attn_mha_results all = mha_room(&owner, m, WANT_ALL, 31);
    attn_fault fault = {.stage = ATTN_STAGE_Q};
    const attn_status status = run_mha(engine, m, &all, NULL, &fault);
    const attn_mha_results none = {0};
    oracle_mha *o = oracle_mha_new(m, &all, status == ATTN_OK ? &all : &none);
    if (!o->doubtful) {
        CHECK(status == (o->overflows ? ATTN_OVERFLOW : ATTN_OK), "%s: status %d", mha_text(m), status);
        if (o->overflows)
            CHECK(same_fault(&fault, &o->fault), "%s: fault at stage %d, expected %d", mha_text(m), fault.stage,
                  o->fault.stage);
    }
    if (status == ATTN_OK) check_values(m, o, &all);
    for (size_t i = 0; i < 3 && status == ATTN_OK; i++) {
        const attn_engine other = {engine->kernel, i == 0 ? NULL : pools[i - 1]};
        const attn_mha_results some = mha_room(&owner, m, (unsigned)check_random_below(WANT_ALL + 1),
                                               i == 0 ? 16 : (unsigned)check_random_below(32));
        CHECK(run_mha(&other, m, &some, NULL, NULL) == ATTN_OK, "%s: another status", mha_text(m));
        check_same_bits(m, &all, &some, i == 0 ? "asked for alone" : "with threads");
    }
    oracle_mha_free(o);
    bag_empty(&owner);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void random_problems(const attn_engine *engine, attn_dtype dtype) {
    for (size_t i = 0, rounds = check_rounds(100); i < rounds; i++) {
        bag owner = {0};
        const mha_sizes sizes = random_sizes();
        attn_mha m = build(&owner, dtype, &sizes);
        problem_options(&owner, &m.attention);
        m.sinusoidal &= near(&m.attention);
        check_mha(engine, &m);
        bag_empty(&owner);
    }
}
static void test_random_problems(void) { each(random_problems); }

/* more rows and columns than one block of a projection has */
static void many_blocks(const attn_engine *engine, attn_dtype dtype) {
    const mha_sizes sizes = {.batch = 2,
                             .heads = 9,
                             .kv_heads = 3,
                             .n_q = 270,
                             .n_new = 90,
                             .d_k = 60,
                             .d_v = 59,
                             .d_model = 20,
                             .d_context = 11,
                             .d_out = 140,
                             .cross = true,
                             .w_o = true,
                             .biases = true};
    bag owner = {0};
    const attn_mha m = build(&owner, dtype, &sizes);
    check_mha(engine, &m);
    bag_empty(&owner);
}
static void test_many_blocks(void) { each(many_blocks); }

static void long_sums(const attn_engine *engine, attn_dtype dtype) {
    const mha_sizes sizes = {
        .batch = 1, .heads = 1, .kv_heads = 1, .n_q = 3, .d_k = 4, .d_v = 4, .d_model = 20000, .d_out = 3, .w_o = true};
    bag owner = {0};
    attn_mha m = build(&owner, dtype, &sizes);
    m.x = numbers_filled(&owner, dtype, 3 * 20000, 0.1); /* each rounding goes the same way */
    m.w_q = (attn_weight){numbers_filled(&owner, dtype, 4 * 20000, 0.1), 4, false};
    m.attention.scale = 1e-6;
    check_mha(engine, &m);
    bag_empty(&owner);
}
static void test_long_sums(void) { each(long_sums); }

/* One head, d_k = d_v = 1, two rows of two numbers: x = [[a, b], [1, 1]], all weights (w, w2). */
typedef struct small {
    attn_mha mha;
    void *x, *w, *other, *bias;
} small;

static small small_mha(bag *owner, attn_dtype dtype, double a, double b, double w, double w2) {
    small s = {.x = numbers_filled(owner, dtype, 4, 1),
               .w = numbers_filled(owner, dtype, 2, w),
               .other = numbers_filled(owner, dtype, 2, 0.5),
               .bias = numbers_filled(owner, dtype, 1, 5)};
    oracle_put(dtype, s.x, 0, a);
    oracle_put(dtype, s.x, 1, b);
    oracle_put(dtype, s.w, 1, w2);
    const attn_weight plain = {s.other, 1, false};
    s.mha = (attn_mha){.attention = {.dtype = dtype,
                                     .batch = 1,
                                     .heads = 1,
                                     .kv_heads = 1,
                                     .n_q = 2,
                                     .n_new = 2,
                                     .d_k = 1,
                                     .d_v = 1,
                                     .scale = 1e-3},
                       .d_model = 2,
                       .d_context = 2,
                       .d_out = 1,
                       .x = s.x,
                       .w_q = plain,
                       .w_k = plain,
                       .w_v = plain};
    return s;
}

/* x W beyond the range on the way to a sum that fits */
static void projections_cancel(const attn_engine *engine, attn_dtype dtype) {
    const double big = dtype == ATTN_F64 ? 0x1p513 : 0x1p100; /* products are exact */
    bag owner = {0};
    small s = small_mha(&owner, dtype, big, big, big, -big);
    s.mha.w_q = (attn_weight){s.w, 1, false};
    s.mha.b_q = s.bias;
    const attn_mha_results r = {.q = numbers_filled(&owner, dtype, 2, NAN)};
    s.mha.w_k = s.mha.w_v = (attn_weight){numbers_filled(&owner, dtype, 2, 0), 1, false};
    CHECK_FATAL(run_mha(engine, &s.mha, &r, NULL, NULL) == ATTN_OK, "cancelling products");
    CHECK(oracle_at(dtype, r.q, 0) == 5, "the bias is left, got %Lg", oracle_at(dtype, r.q, 0));
    oracle_put(dtype, s.w, 1, 1);
    attn_fault fault;
    CHECK(run_mha(engine, &s.mha, &r, NULL, &fault) == ATTN_OVERFLOW && fault.stage == ATTN_STAGE_Q &&
              fault.query == 0 && fault.key == 0,
          "a sum beyond the range");
    /* a sum beyond the range that the bias brings back */
    const double most = dtype == ATTN_F64 ? DBL_MAX : (double)FLT_MAX;
    small t = small_mha(&owner, dtype, most, most, 1, 0.5);
    t.mha.w_q = (attn_weight){t.w, 1, false};
    t.mha.b_q = numbers_filled(&owner, dtype, 1, -most);
    t.mha.w_k = t.mha.w_v = s.mha.w_k;
    CHECK_FATAL(run_mha(engine, &t.mha, &r, NULL, NULL) == ATTN_OK, "the bias is part of the sum");
    CHECK(oracle_at(dtype, r.q, 0) == most / 2, "got %Lg", oracle_at(dtype, r.q, 0));
    bag_empty(&owner);
}
static void test_projections_that_cancel(void) { each(projections_cancel); }

/* Expects ATTN_OK if stage < 0, else a fault at that stage in row `row`, column 0. */
static void expect(const attn_engine *engine, const attn_mha *m, const attn_mha_results *r, int stage, size_t row,
                   const char *what) {
    attn_fault fault = {0};
    const attn_status status = run_mha(engine, m, r, NULL, &fault);
    if (stage < 0)
        CHECK(status == ATTN_OK, "%s: status %d, stage %d", what, status, fault.stage);
    else
        CHECK(status == ATTN_OVERFLOW && (int)fault.stage == stage && fault.query == row && fault.key == 0,
              "%s: status %d, stage %d row %zu", what, status, fault.stage, fault.query);
}

/* Row 0 of a projection does not fit. It is a fault only if it is used or asked for. */
static void used_or_asked(const attn_engine *engine, attn_dtype dtype) {
    const double big = dtype == ATTN_F64 ? 1e200 : 1e30;
    bag owner = {0};
    small s = small_mha(&owner, dtype, big, big, big, big);
    const attn_weight large = {s.w, 1, false}, zero = {numbers_filled(&owner, dtype, 2, 0), 1, false};
    attn_mha_results r = {.output = numbers_filled(&owner, dtype, 2, NAN)};
    void *extra = numbers_filled(&owner, dtype, 2, NAN);
    const attn_mha base = {
        .attention = s.mha.attention, .d_model = 2, .d_context = 2, .x = s.x, .w_q = zero, .w_k = zero, .w_v = zero};
    attn_mha m = base;
    m.w_q = large;
    expect(engine, &m, &r, ATTN_STAGE_Q, 0, "q used");
    m.attention.mask = (attn_broadcast){(const uint8_t[]){0, 1}, 0, 0, 1, 0}; /* query 0 has no open key */
    oracle_put(dtype, s.w, 0, 0.1);
    oracle_put(dtype, s.w, 1, 0.2); /* row 1 fits, row 0 as well */
    expect(engine, &m, &r, -1, 0, "all fits");
    m.x = numbers_filled(&owner, dtype, 4, 1);
    oracle_put(dtype, (void *)(uintptr_t)m.x, 0, dtype == ATTN_F64 ? DBL_MAX : (double)FLT_MAX);
    oracle_put(dtype, s.w, 0, 3);
    expect(engine, &m, &r, -1, 0, "q of a query with nothing to attend");
    CHECK(oracle_at(dtype, r.output, 0) == 0, "its output is zero");
    r.q = extra;
    expect(engine, &m, &r, ATTN_STAGE_Q, 0, "but asked for");
    r.q = NULL;
    for (size_t which = 0; which < 2; which++) { /* k, then v */
        const int stage = which ? ATTN_STAGE_V : ATTN_STAGE_K;
        attn_mha n = base;
        n.x = m.x;
        *(which ? &n.w_v : &n.w_k) = large;
        expect(engine, &n, &r, stage, 0, "a key used");
        n.attention.mask = (attn_broadcast){(const uint8_t[]){0, 1}, 0, 0, 0, 1}; /* key 0 is blocked */
        expect(engine, &n, &r, -1, 0, "a key blocked for all");
        attn_mha_results asked = r;
        *(which ? &asked.v : &asked.k) = extra;
        expect(engine, &n, &asked, stage, 0, "but asked for");
        asked = r;
        *(which ? &asked.attention.present_v : &asked.attention.present_k) = extra;
        expect(engine, &n, &asked, stage, 0, "but asked for as present");
    }
    bag_empty(&owner);
}
static void test_overflow_where_used_or_asked_for(void) { each(used_or_asked); }

static void output_overflows(const attn_engine *engine, attn_dtype dtype) {
    const double most = dtype == ATTN_F64 ? DBL_MAX : (double)FLT_MAX;
    bag owner = {0};
    small s = small_mha(&owner, dtype, 1, 1, 1, 1);
    attn_mha m = s.mha;
    m.x = numbers_filled(&owner, dtype, 4, 1);
    m.w_v = (attn_weight){numbers_filled(&owner, dtype, 2, most / 4), 1, false}; /* v = most / 2 */
    attn_mha_results r = {.output = numbers_filled(&owner, dtype, 2, NAN)};
    m.head_mask = numbers_filled(&owner, dtype, 1, 1.5);
    expect(engine, &m, &r, -1, 0, "times 1.5");
    m.head_mask = numbers_filled(&owner, dtype, 1, 2.5);
    expect(engine, &m, &r, ATTN_STAGE_HEADS, 0, "times 2.5");
    m.head_mask = NULL;
    m.w_o = (attn_weight){numbers_filled(&owner, dtype, 1, -2.5), 1, false};
    expect(engine, &m, &r, ATTN_STAGE_PROJECTION, 0, "w_o");
    m.b_o = numbers_filled(&owner, dtype, 1, most / 2);
    expect(engine, &m, &r, -1, 0, "brought back by the bias");
    const attn_mha_results heads = {.heads = r.output};
    m.b_o = NULL;
    expect(engine, &m, &heads, -1, 0, "heads alone");
    bag_empty(&owner);
}
static void test_overflow_after_attention(void) { each(output_overflows); }

/* Random magnitudes: what fits must be right, what does not must be reported. */
static void magnitudes(const attn_engine *engine, attn_dtype dtype) {
    const double reach = dtype == ATTN_F64 ? 160 : 20;
    for (size_t i = 0, rounds = check_rounds(40); i < rounds; i++) {
        bag owner = {0};
        mha_sizes sizes = random_sizes();
        sizes.n_q = sizes.n_new = 8;
        attn_mha m = build(&owner, dtype, &sizes);
        problem_options(&owner, &m.attention);
        m.sinusoidal &= near(&m.attention);
        void *x = (void *)(uintptr_t)m.x;
        for (size_t c = 0; c < sizes.batch * 8 * sizes.d_model; c++)
            if (chance(40))
                oracle_put(dtype, x, c, check_random_normal() * pow(10, reach * (double)check_random_below(100) / 70));
        m.attention.scale = chance(2) ? 0 : pow(10, -reach * (double)check_random_below(100) / 50);
        check_mha(engine, &m);
        bag_empty(&owner);
    }
}
static void test_numbers_of_all_magnitudes(void) { each(magnitudes); }

static void cancelled(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    const mha_sizes sizes = {
        .batch = 1, .heads = 2, .kv_heads = 2, .n_q = 30, .d_k = 8, .d_v = 8, .d_model = 16, .d_out = 4, .w_o = true};
    const attn_mha m = build(&owner, dtype, &sizes);
    const attn_mha_results r = mha_room(&owner, &m, 0, 16);
    const atomic_bool cancel = true;
    CHECK(run_mha(engine, &m, &r, &cancel, NULL) == ATTN_CANCELLED, "cancelled before it began");
    bag_empty(&owner);
}
static void test_cancel(void) { each(cancelled); }

static void test_flops(void) {
    const attn_mha m = {
        .attention = {.batch = 2, .heads = 4, .kv_heads = 2, .n_q = 10, .n_new = 10, .d_k = 3, .d_v = 5},
        .d_model = 7,
        .d_context = 7,
        .d_out = 6,
        .w_o = {"", 0, false}};
    const double projections = 2.0 * (20 * 7 * (4 * 3 + 2 * 3 + 2 * 5) + 20 * 4 * 5 * 6),
                 attention = 2.0 * 2 * 4 * 100 * 8;
    CHECK(attn_mha_flops(&m) == projections + attention, "%g instead of %g", attn_mha_flops(&m),
          projections + attention);
}

static void test_every_row_ran(void) { check_kernels_ran(); }

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_random_problems),
        CHECK_TEST(test_many_blocks),
        CHECK_TEST(test_long_sums),
        CHECK_TEST(test_projections_that_cancel),
        CHECK_TEST(test_overflow_where_used_or_asked_for),
        CHECK_TEST(test_overflow_after_attention),
        CHECK_TEST(test_numbers_of_all_magnitudes),
        CHECK_TEST(test_cancel),
        CHECK_TEST(test_flops),
        CHECK_TEST(test_every_row_ran),
    };
    for (size_t i = 0; i < POOLS; i++) pools[i] = attn_pool_new(i + 1);
    const int status = check_main(argc, argv, tests, COUNT(tests));
    for (size_t i = 0; i < POOLS; i++) attn_pool_free(pools[i]);
    return status;
}
