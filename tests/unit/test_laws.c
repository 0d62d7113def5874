/* test_laws.c: relations between the answers to different problems, whatever the numbers are. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../support/check.h"
#include "../support/oracle.h"
#include "../support/problem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void each(void (*body)(const attn_engine *engine, attn_dtype dtype)) {
    for (size_t i = 0; test_kernel(i); i++) {
        const attn_engine engine = {.kernel = test_kernel(i)};
        body(&engine, ATTN_F32);
        body(&engine, ATTN_F64);
    }
}

static attn_problem random_plain(bag *owner, attn_dtype dtype) {
    return problem_plain(owner, dtype, 2, 4, 2, 1 + check_random_below(40), 2 + check_random_below(300), 8, 6);
}

/* Runs p, asking for `want`; fails unless it returns ATTN_OK. */
static attn_results answer(bag *owner, const attn_engine *engine, const attn_problem *p, unsigned want) {
    const attn_results r = results_room(owner, p, want);
    const attn_status status = run_problem(engine, p, &r, NULL, NULL);
    CHECK(status == ATTN_OK, "%s: status %d", problem_text(p), status);
    return r;
}

/* a and b are answers to the same problem: each is within its bound, so they differ by at most `times` the bound of p.
 */
static void check_agree(const attn_problem *p, size_t kind, const void *a, const void *b, double times,
                        const char *law) {
    oracle *o = oracle_attention(p, &(attn_results){0});
    const oracle_tensor *t = results_expected(o, kind);
    for (size_t i = 0; i < t->count; i++) {
        t->value[i] = oracle_at(p->dtype, b, i);
        t->bound[i] *= times;
    }
    oracle_report report;
    CHECK(oracle_compare(p->dtype, t, a, &report), "%s: %s, %s", law, problem_text(p), report.text);
    oracle_free(o);
}

/* Two problems with answers of the same shape that must agree in output and lse. */
static void check_same(const attn_engine *engine, const attn_problem *p, const attn_problem *other, const char *law) {
    bag owner = {0};
    const attn_results a = answer(&owner, engine, p, WANT_OUTPUT | WANT_LSE),
                       b = answer(&owner, engine, other, WANT_OUTPUT | WANT_LSE);
    check_agree(p, 0, a.output.data, b.output.data, 2, law);
    check_agree(p, 7, a.lse, b.lse, 2, law);
    bag_empty(&owner);
}

/* ---- softmax ---------------------------------------------------------------------------------------------------- */

static void rows_sum(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    attn_problem p = random_plain(&owner, dtype);
    p.scale = 3;
    p.causal = check_random_below(2);
    const attn_results r = answer(&owner, engine, &p, WANT_WEIGHTS | WANT_MEAN | WANT_LSE);
    const double eps = dtype == ATTN_F64 ? 0x1p-52 : 0x1p-23;
    for (size_t row = 0; row < p.batch * p.heads * p.n_q; row++) {
        long double sum = 0;
        for (size_t j = 0; j < p.n_new; j++) sum += oracle_at(dtype, r.weights, row * p.n_new + j);
        const double lse = fabs((double)oracle_at(dtype, r.lse, row));
        CHECK(fabsl(sum - 1) <= 8 * eps * (1 + lse + log2((double)p.n_new)), "row %zu sums to 1 + %Lg", row, sum - 1);
    }
    bag_empty(&owner);
}
static void test_rows_of_weights_sum_to_one(void) { each(rows_sum); }

/* The same for scores so great that a rounding of one is more than ln 2: weights and their sum must come from the same
 * bits of them, also where a blocked key beside them holds a number that needs care. */
static void rows_of_great_scores_sum(const attn_engine *engine, attn_dtype dtype) {
    const double eps = dtype == ATTN_F64 ? 0x1p-52 : 0x1p-23, great = dtype == ATTN_F64 ? 1e200 : 1e30;
    for (size_t i = 0; i < 40; i++) {
        bag owner = {0};
        const size_t n = 2 + check_random_below(600), n_q = 1 + check_random_below(40);
        attn_problem p = problem_plain(&owner, dtype, 1, 1, 1, n_q, n, 1 + check_random_below(40), 3);
        const int64_t offset = (int64_t)(n / 2);
        for (size_t c = 0; c < n_q * p.d_k; c++)
            oracle_put(dtype, (void *)(uintptr_t)p.q.data, c, oracle_at(dtype, p.q.data, c) * 64 / eps);
        p.causal = true;
        p.query_offset = &offset;
        const size_t blocked = n / 2 + n_q; /* the first key that is blocked for all queries */
        if (blocked < n)
            oracle_put(dtype, (void *)(uintptr_t)p.k.data, (blocked + check_random_below(n - blocked)) * p.k.row,
                       great);
        const attn_results r = answer(&owner, engine, &p, WANT_OUTPUT | WANT_WEIGHTS);
        for (size_t row = 0; row < n_q; row++) {
            long double sum = 0;
            for (size_t j = 0; j < n; j++) sum += oracle_at(dtype, r.weights, row * n + j);
            CHECK(fabsl(sum - 1) <= 8 * eps * (1 + log2((double)n)), "%s: row %zu sums to 1 + %Lg", problem_text(&p),
                  row, sum - 1);
        }
        bag_empty(&owner);
    }
}
static void test_rows_of_great_scores_sum_to_one(void) { each(rows_of_great_scores_sum); }

/* a bias that is the same for all keys of a row changes only lse, by itself */
static void shifts(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    const attn_problem p = random_plain(&owner, dtype);
    attn_problem shifted = p;
    shifted.bias = (attn_broadcast){numbers_filled(&owner, dtype, 1, 3.5), 0, 0, 0, 0};
    const attn_results a = answer(&owner, engine, &shifted, WANT_OUTPUT | WANT_LSE),
                       b = answer(&owner, engine, &p, WANT_OUTPUT | WANT_LSE);
    check_agree(&shifted, 0, a.output.data, b.output.data, 2, "a constant bias");
    for (size_t i = 0; i < p.batch * p.heads * p.n_q; i++)
        oracle_put(dtype, b.lse, i, oracle_at(dtype, b.lse, i) + 3.5L);
    check_agree(&shifted, 7, a.lse, b.lse, 2, "a constant bias");
    bag_empty(&owner);
}
static void test_constant_bias_shifts_lse(void) { each(shifts); }

/* doubling the values doubles the output, bit for bit */
static void doubles(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    const attn_problem p = random_plain(&owner, dtype);
    const attn_results a = answer(&owner, engine, &p, WANT_OUTPUT);
    void *v = (void *)(uintptr_t)p.v.data;
    for (size_t i = 0; i < p.batch * p.kv_heads * p.n_new * p.d_v; i++)
        oracle_put(dtype, v, i, 2 * oracle_at(dtype, v, i));
    const attn_results b = answer(&owner, engine, &p, WANT_OUTPUT);
    for (size_t i = 0; i < p.batch * p.heads * p.n_q * p.d_v; i++)
        CHECK(oracle_at(dtype, b.output.data, i) == 2 * oracle_at(dtype, a.output.data, i), "element %zu", i);
    bag_empty(&owner);
}
static void test_output_is_linear_in_values(void) { each(doubles); }

/* ---- keys ------------------------------------------------------------------------------------------------------- */

static void permutes(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    const attn_problem p = random_plain(&owner, dtype);
    const size_t size = attn_sizeof(dtype);
    attn_problem other = p;
    char *k = bag_take(&owner, p.batch * p.kv_heads * p.n_new * p.d_k * size);
    char *v = bag_take(&owner, p.batch * p.kv_heads * p.n_new * p.d_v * size);
    size_t *order = bag_take(&owner, p.n_new * sizeof *order);
    for (size_t j = 0; j < p.n_new; j++) { /* Fisher and Yates */
        const size_t at = check_random_below(j + 1);
        order[j] = order[at];
        order[at] = j;
    }
    for (size_t g = 0; g < p.batch * p.kv_heads; g++)
        for (size_t j = 0; j < p.n_new; j++) {
            const size_t from = g * p.n_new + order[j], to = g * p.n_new + j;
            memcpy(k + to * p.d_k * size, (const char *)p.k.data + from * p.d_k * size, p.d_k * size);
            memcpy(v + to * p.d_v * size, (const char *)p.v.data + from * p.d_v * size, p.d_v * size);
        }
    other.k.data = k;
    other.v.data = v;
    check_same(engine, &p, &other, "permuted keys");
    bag_empty(&owner);
}
static void test_order_of_keys_is_nothing(void) { each(permutes); }

/* Keys in two parts: o = sum of exp(lse_i - lse) o_i, with lse = log sum exp(lse_i). */
static void splits(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    const attn_problem whole = random_plain(&owner, dtype);
    attn_problem part[2] = {whole, whole};
    const size_t cut = 1 + check_random_below(whole.n_new - 1), rows = whole.batch * whole.heads * whole.n_q;
    part[0].n_new = cut;
    part[1].n_new = whole.n_new - cut;
    part[1].k.data = (const char *)whole.k.data + cut * whole.k.row * attn_sizeof(dtype);
    part[1].v.data = (const char *)whole.v.data + cut * whole.v.row * attn_sizeof(dtype);
    attn_results r[2];
    for (size_t i = 0; i < 2; i++) r[i] = answer(&owner, engine, &part[i], WANT_OUTPUT | WANT_LSE);
    for (size_t row = 0; row < rows; row++) {
        const long double a = oracle_at(dtype, r[0].lse, row), b = oracle_at(dtype, r[1].lse, row);
        const long double lse = fmaxl(a, b) + log1pl(expl(-fabsl(a - b)));
        for (size_t c = row * whole.d_v; c < (row + 1) * whole.d_v; c++)
            oracle_put(dtype, r[0].output.data, c,
                       expl(a - lse) * oracle_at(dtype, r[0].output.data, c) +
                           expl(b - lse) * oracle_at(dtype, r[1].output.data, c));
        oracle_put(dtype, r[0].lse, row, lse);
    }
    const attn_results all = answer(&owner, engine, &whole, WANT_OUTPUT | WANT_LSE);
    check_agree(&whole, 0, r[0].output.data, all.output.data, 4, "split keys"); /* the errors of two lse besides */
    check_agree(&whole, 7, r[0].lse, all.lse, 2, "split keys");
    bag_empty(&owner);
}
static void test_split_keys_merge_by_lse(void) { each(splits); }

/* past keys are keys like any others */
static void past_joins(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    attn_problem p = random_plain(&owner, dtype), other;
    p.causal = true;
    p.query_offset = (const int64_t[]){2, 5};
    other = p;
    other.n_past = check_random_below(p.n_new);
    other.n_new = p.n_new - other.n_past;
    other.past_k = p.k;
    other.past_v = p.v;
    other.k.data = (const char *)p.k.data + other.n_past * p.k.row * attn_sizeof(dtype);
    other.v.data = (const char *)p.v.data + other.n_past * p.v.row * attn_sizeof(dtype);
    check_same(engine, &p, &other, "past and new");
    bag_empty(&owner);
}
static void test_past_is_keys(void) { each(past_joins); }

/* ---- one option by another -------------------------------------------------------------------------------------- */

static void same_blocks(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    attn_problem base = random_plain(&owner, dtype);
    base.query_offset = (const int64_t[]){-3, 7};
    const size_t n_q = base.n_q, n_k = base.n_new;
    attn_problem causal = base, window = base, mask = base, bias = base;
    causal.causal = true;
    window.has_window = true;
    window.window_left = ATTN_OPEN_SIDE;
    uint8_t *may = bag_take(&owner, 2 * n_q * n_k);
    void *add = numbers_filled(&owner, dtype, 2 * n_q * n_k, 0);
    for (size_t at = 0; at < 2 * n_q * n_k; at++) {
        may[at] = (int64_t)(at % n_k) <= (int64_t)(at / n_k % n_q) + base.query_offset[at / n_k / n_q];
        if (!may[at]) oracle_put(dtype, add, at, -INFINITY);
    }
    mask.mask = (attn_broadcast){may, n_q * n_k, 0, n_k, 1};
    bias.bias = (attn_broadcast){add, n_q * n_k, 0, n_k, 1};
    check_same(engine, &causal, &window, "causal is a window with nothing at its right");
    check_same(engine, &causal, &mask, "causal is a mask");
    check_same(engine, &causal, &bias, "causal is a bias of -infinity");
    bag_empty(&owner);
}
static void test_causal_by_other_options(void) { each(same_blocks); }

static void lengths_cut(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    attn_problem p = random_plain(&owner, dtype), cut;
    const int64_t length = 1 + (int64_t)check_random_below(p.n_new);
    cut = p;
    p.kv_lengths = (const int64_t[]){length, length};
    cut.n_new = (size_t)length;
    check_same(engine, &p, &cut, "padding is not keys");
    bag_empty(&owner);
}
static void test_lengths_cut_the_keys(void) { each(lengths_cut); }

/* query heads that share a key/value head are like heads with copies of it; strides of 0 avoid the copies */
static void grouped(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    attn_problem p = problem_plain(&owner, dtype, 2, 3, 1, 20, 150, 8, 6), copies = p;
    copies.kv_heads = 3;
    copies.k.head = copies.v.head = 0;
    check_same(engine, &p, &copies, "shared key/value heads");
    bag_empty(&owner);
}
static void test_groups_are_copies(void) { each(grouped); }

static void scaled_queries(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    attn_problem p = random_plain(&owner, dtype), other;
    other = p;
    p.scale = 0.25;
    other.scale = 1;
    const size_t count = p.batch * p.heads * p.n_q * p.d_k;
    void *q = numbers_filled(&owner, dtype, count, 0);
    for (size_t i = 0; i < count; i++) oracle_put(dtype, q, i, oracle_at(dtype, p.q.data, i) / 4);
    other.q.data = q;
    check_same(engine, &p, &other, "a scale of the queries");
    p.softcap = 1e9;
    check_same(engine, &p, &other, "a soft cap far away");
    bag_empty(&owner);
}
static void test_scale_of_queries(void) { each(scaled_queries); }

/* ---- multi-head ------------------------------------------------------------------------------------------------- */

/* (size, size) with ones on the diagonal */
static attn_weight identity(bag *owner, attn_dtype dtype, size_t size) {
    void *data = numbers_filled(owner, dtype, size * size, 0);
    for (size_t i = 0; i < size; i++) oracle_put(dtype, data, i * size + i, 1);
    return (attn_weight){data, size, false};
}

/* With identity projections, multi-head attention is attention of x with its heads side by side; with one head,
 * plainly. */
static void identities(const attn_engine *engine, attn_dtype dtype) {
    for (size_t heads = 1; heads <= 3; heads += 2) {
        bag owner = {0};
        const size_t n = 1 + check_random_below(60), d = 5, wide = heads * d;
        const void *x = numbers_random(&owner, dtype, 2 * n * wide, 1);
        const attn_view view = {x, n * wide, d, wide};
        attn_problem p = problem_plain(&owner, dtype, 2, heads, heads, n, n, d, d);
        p.causal = true;
        const attn_weight one = identity(&owner, dtype, wide);
        const attn_mha m = {.attention = p,
                            .d_model = wide,
                            .d_context = wide,
                            .d_out = wide,
                            .x = x,
                            .w_q = one,
                            .w_k = one,
                            .w_v = one,
                            .w_o = one};
        p.q = p.k = p.v = view;
        attn_results want = results_room(&owner, &p, WANT_OUTPUT | WANT_LSE);
        attn_results direct = want;
        direct.output.head = d;
        direct.output.row = wide;
        const attn_mha_results r = {.output = numbers_filled(&owner, dtype, 2 * n * wide, NAN)};
        CHECK(run_problem(engine, &p, &direct, NULL, NULL) == ATTN_OK, "attention");
        CHECK(run_mha(engine, &m, &r, NULL, NULL) == ATTN_OK, "multi-head attention");
        for (size_t i = 0; i < 2 * n * wide; i++)
            CHECK(oracle_at(dtype, r.output, i) == oracle_at(dtype, direct.output.data, i), "%zu heads, element %zu",
                  heads, i);
        bag_empty(&owner);
    }
}
static void test_identity_projections_are_attention(void) { each(identities); }

/* ---- small problems, which take another path: right, and the same bits whatever else is asked for -----------------
 */

static void small_problem(const attn_engine *engine, attn_dtype dtype) {
    static const double spreads[] = {1, 1, 1, 30, 0x1p-70, 0x1p45, 0x1p100};
    bag owner = {0};
    const size_t n = 1 + check_random_below(8), d = 1 + check_random_below(6);
    attn_problem p = problem_plain(&owner, dtype, 2, 2, 1, 1 + check_random_below(6), n, d, 1 + check_random_below(6));
    p.causal = check_random_below(3) == 0;
    p.has_window = check_random_below(3) == 0;
    p.window_left = (int64_t)check_random_below(3) - 1;
    p.window_right = (int64_t)check_random_below(3) - 1;
    const double spread = spreads[check_random_below(COUNT(spreads))];
    p.v.data = numbers_random(&owner, dtype, p.batch * n * p.d_v, spread);
    if (check_random_below(2)) p.k.data = numbers_random(&owner, dtype, p.batch * n * d, spread < 100 ? spread : 100);
    const int64_t lengths[] = {(int64_t)check_random_below(n + 1), (int64_t)n};
    if (check_random_below(3) == 0) p.kv_lengths = lengths;
    check_problem(engine, &p, WANT_OUTPUT | WANT_LSE, NULL);
    check_problem(engine, &p, WANT_ALL, NULL);

    const attn_results alone = answer(&owner, engine, &p, WANT_OUTPUT), lse = answer(&owner, engine, &p, WANT_LSE),
                       all = answer(&owner, engine, &p, WANT_ALL);
    size_t bytes;
    const void *output = results_at(&alone, &p, 0, &bytes);
    CHECK(memcmp(output, all.output.data, bytes) == 0, "%s: other bits in output", problem_text(&p));
    const void *logarithms = results_at(&lse, &p, 7, &bytes);
    CHECK(memcmp(logarithms, all.lse, bytes) == 0, "%s: other bits in lse", problem_text(&p));
    bag_empty(&owner);
}

static void small_problems(const attn_engine *engine, attn_dtype dtype) {
    for (size_t i = 0, rounds = check_rounds(300); i < rounds; i++) small_problem(engine, dtype);
}
static void test_small_problems(void) { each(small_problems); }

static void test_every_row_ran(void) { check_kernels_ran(); }

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_rows_of_weights_sum_to_one),
        CHECK_TEST(test_rows_of_great_scores_sum_to_one),
        CHECK_TEST(test_constant_bias_shifts_lse),
        CHECK_TEST(test_output_is_linear_in_values),
        CHECK_TEST(test_order_of_keys_is_nothing),
        CHECK_TEST(test_split_keys_merge_by_lse),
        CHECK_TEST(test_past_is_keys),
        CHECK_TEST(test_causal_by_other_options),
        CHECK_TEST(test_lengths_cut_the_keys),
        CHECK_TEST(test_groups_are_copies),
        CHECK_TEST(test_scale_of_queries),
        CHECK_TEST(test_identity_projections_are_attention),
        CHECK_TEST(test_small_problems),
        CHECK_TEST(test_every_row_ran),
    };
    return check_main(argc, argv, tests, COUNT(tests));
}
