/* test_oracle.c: the oracle against numbers worked out by hand, and its comparison against wrong input. */
#include <float.h>
#include <math.h>

#include "../support/check.h"
#include "../support/oracle.h"
#include "../support/problem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool close_to(long double got, double expected) {
    return fabsl(got - expected) <= 1e-12L * (1 + fabs(expected));
}

/* ---- comparison ------------------------------------------------------------------------------------------------- */

static bool compare_one(double expected, double bound, double got) {
    long double value = expected, room = bound;
    const oracle_tensor t = {1, &value, &room};
    oracle_report report;
    return oracle_compare(ATTN_F64, &t, &got, &report);
}

static void test_comparison_accepts_what_is_right(void) {
    CHECK(compare_one(1, 0, 1), "equal numbers need no bound");
    CHECK(compare_one(1, 0.1, 1.05), "within the bound");
    CHECK(compare_one(1, 0.1, 0.95), "within the bound, below");
    CHECK(compare_one(-INFINITY, 0, -INFINITY), "equal infinities");
    CHECK(compare_one(0, 0, -0.0), "zero has no sign here");
}

static void test_comparison_refuses_what_is_wrong(void) {
    CHECK(!compare_one(1, 0.1, 1.2), "beyond the bound");
    CHECK(!compare_one(1, 0.1, 0.8), "beyond the bound, below");
    CHECK(!compare_one(1, 0, 1 + DBL_EPSILON), "any error where the bound is 0");
    CHECK(!compare_one(1, 1e300, NAN), "NaN instead of a number");
    CHECK(!compare_one(-INFINITY, 1e300, NAN), "NaN instead of an infinity");
    CHECK(!compare_one(1, 1e300, INFINITY), "an infinity instead of a number");
    CHECK(!compare_one(-INFINITY, 1e300, -1e300), "a number instead of an infinity");
    CHECK(!compare_one(-INFINITY, 1e300, INFINITY), "the other infinity");
    CHECK(!compare_one(1, INFINITY, NAN), "NaN within an infinite bound");
}

static void test_comparison_reports_the_worst(void) {
    long double value[] = {1, 2, 3}, bound[] = {1, 1, 1};
    const oracle_tensor t = {3, value, bound};
    oracle_report report;
    CHECK(!oracle_compare(ATTN_F32, &t, (const float[]){1.5F, 5, 2}, &report), "element 1 is wrong");
    CHECK(report.worst == 1 && report.expected == 2 && report.got == 5 && report.ratio == 3, "got %s", report.text);
    CHECK(!oracle_compare(ATTN_F32, &t, (const float[]){9, 5, NAN}, &report), "element 2 is NaN");
    CHECK(report.worst == 2, "a NaN is the worst, got %s", report.text);
    const oracle_tensor empty = {0, value, bound};
    CHECK(oracle_compare(ATTN_F32, &empty, value, &report), "nothing to compare");
}

/* Each result, moved by twice and by half its bound: the comparison refuses the first and accepts the second. */
static void test_every_result_has_a_sharp_bound(void) {
    bag owner = {0};
    attn_problem p = problem_plain(&owner, ATTN_F64, 1, 2, 1, 3, 5, 4, 2);
    p.softcap = 3;
    const attn_results asked = results_room(&owner, &p, WANT_ALL);
    oracle *o = oracle_attention(&p, &asked);
    for (size_t kind = 0; kind < WANT_KINDS; kind++) {
        const oracle_tensor *t = results_expected(o, kind);
        double *got = bag_take(&owner, t->count * sizeof *got);
        oracle_report report;
        for (size_t i = 0; i < t->count; i++) got[i] = (double)t->value[i];
        CHECK(oracle_compare(ATTN_F64, t, got, &report), "%s: %s", results_name(kind), report.text);
        const size_t at = check_random_below(t->count);
        const double right = got[at], bound = (double)t->bound[at];
        CHECK(bound < 1e-10, "%s: a bound of %g", results_name(kind), bound);
        got[at] = right + (bound > 0 ? 2 * bound : 1e-15 * fabs(right));
        CHECK(!oracle_compare(ATTN_F64, t, got, &report) && report.worst == at, "%s: %s", results_name(kind),
              report.text);
        got[at] = right + bound / 2;
        CHECK(oracle_compare(ATTN_F64, t, got, &report), "%s: %s", results_name(kind), report.text);
    }
    oracle_free(o);
    bag_empty(&owner);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* x = [[1,0,1,0],[0,1,0,1]], with q = [[2,0,1],[0,2,1]], k = [[1,1,0],[0,1,1]], v = [[1,0,1],[0,1,0]] */
static const double Q[] = {2, 0, 1, 0, 2, 1}, K[] = {1, 1, 0, 0, 1, 1}, V[] = {1, 0, 1, 0, 1, 0};

static attn_problem worked_example(void) {
    return (attn_problem){.dtype = ATTN_F64,
                          .batch = 1,
                          .heads = 1,
                          .kv_heads = 1,
                          .n_q = 2,
                          .n_new = 2,
                          .d_k = 3,
                          .d_v = 3,
                          .q = {Q, 6, 6, 3},
                          .k = {K, 6, 6, 3},
                          .v = {V, 6, 6, 3},
                          .scale = 1 / sqrt(3)};
}

static void test_worked_example(void) {
    const attn_problem p = worked_example();
    oracle *o = oracle_attention(&p, &(attn_results){0});
    const double scores[] = {2, 1, 2, 3}, a = 1 / (1 + exp(-1 / sqrt(3))); /* the weight of the greater score */
    const double weights[] = {a, 1 - a, 1 - a, a}, output[] = {a, 1 - a, a, 1 - a, a, 1 - a};
    CHECK(fabs(a - 0.64) < 0.005, "the weight is %g", a);
    for (size_t i = 0; i < COUNT(scores); i++) {
        CHECK(close_to(o->scores.value[i], scores[i]), "score %zu", i);
        CHECK(close_to(o->scaled.value[i], scores[i] / sqrt(3)), "scaled %zu", i);
        CHECK(close_to(o->weights.value[i], weights[i]), "weight %zu", i);
    }
    for (size_t i = 0; i < COUNT(output); i++) CHECK(close_to(o->output.value[i], output[i]), "output %zu", i);
    CHECK(close_to(o->lse.value[0], log(exp(2 / sqrt(3)) + exp(1 / sqrt(3)))), "lse");
    /* 8 eps (1 + (1 + 3/16) S + log2 2), S = 2/sqrt(3) */
    CHECK(close_to(o->output.bound[0] / DBL_EPSILON, 8 * (2 + (1 + 3 / 16.0) * 2 / sqrt(3))), "the output's bound");
    CHECK(!o->overflows && !o->doubtful, "nothing overflows");
    oracle_free(o);
}

static void test_options_by_hand(void) {
    const double bias[] = {0, 1, -INFINITY, -INFINITY};
    attn_problem p = worked_example();
    p.scale = 1;
    p.softcap = 2;
    p.bias = (attn_broadcast){bias, 0, 0, 2, 1};
    oracle *o = oracle_attention(&p, &(attn_results){0});
    const double low = 2 * tanh(1), high = 2 * tanh(0.5) + 1, w = exp(low) / (exp(low) + exp(high));
    CHECK(close_to(o->capped.value[3], 2 * tanh(1.5)), "soft cap of a blocked cell");
    CHECK(close_to(o->masked.value[0], low) && close_to(o->masked.value[1], high), "bias after the cap");
    CHECK(close_to(o->weights.value[0], w) && close_to(o->weights.value[1], 1 - w), "weights");
    CHECK(isinf(o->masked.value[2]) && o->weights.value[2] == 0 && o->output.value[3] == 0,
          "a row with nothing to attend");
    CHECK(isinf(o->lse.value[1]) && o->lse.value[1] < 0 && o->lse.bound[1] == 0, "its lse");
    oracle_free(o);
}

static void test_grouped_heads_and_past_by_hand(void) {
    /* four heads of queries, two of keys: with one key each, a head's output is the value it reads */
    const double q[4] = {1, 1, 1, 1}, past_k[2] = {0, 0}, past_v[2] = {10, 20}, k[2] = {0, 0}, v[2] = {30, 50};
    const attn_problem p = {.dtype = ATTN_F64,
                            .batch = 1,
                            .heads = 4,
                            .kv_heads = 2,
                            .n_q = 1,
                            .n_past = 1,
                            .n_new = 1,
                            .d_k = 1,
                            .d_v = 1,
                            .q = {q, 4, 1, 1},
                            .k = {k, 2, 1, 1},
                            .v = {v, 2, 1, 1},
                            .past_k = {past_k, 2, 1, 1},
                            .past_v = {past_v, 2, 1, 1},
                            .scale = 1};
    oracle *o = oracle_attention(&p, &(attn_results){0});
    const double output[] = {20, 20, 35, 35}, present[] = {10, 30, 20, 50};
    for (size_t h = 0; h < 4; h++) {
        CHECK(close_to(o->output.value[h], output[h]), "head %zu reads its group's value", h);
        CHECK(close_to(o->present_v.value[h], present[h]), "past before new, %zu", h);
    }
    oracle_free(o);
}

/* Which of six keys are open to query 1, as bits, key 0 the lowest. */
static unsigned open_bits(const attn_problem *p) {
    unsigned bits = 0;
    for (size_t j = 0; j < 6; j++) bits |= (unsigned)oracle_open(p, 0, 0, 1, j) << j;
    return bits;
}

static void test_blocks_by_hand(void) {
    const attn_problem base = {
        .batch = 1, .heads = 1, .kv_heads = 1, .n_q = 2, .n_past = 2, .n_new = 4, .d_k = 1, .d_v = 1};
    attn_problem p = base;
    CHECK(open_bits(&p) == 0x3f, "all open");
    p.causal = true;
    CHECK(open_bits(&p) == 0x0f, "causal: up to 1 + past");
    p.query_offset = (const int64_t[]){-1};
    CHECK(open_bits(&p) == 0x01, "causal, offset -1");
    p.query_offset = (const int64_t[]){-2};
    CHECK(open_bits(&p) == 0, "causal, offset -2");
    p = base;
    p.has_window = true;
    p.window_left = 1;
    p.window_right = ATTN_OPEN_SIDE;
    CHECK(open_bits(&p) == 0x3c, "window [1, open]: from 1 + past - 1");
    p.window_right = 0;
    CHECK(open_bits(&p) == 0x0c, "window [1, 0]");
    p.kv_lengths = (const int64_t[]){3};
    CHECK(open_bits(&p) == 0x04, "and length 3");
    p = base;
    const uint8_t mask[] = {1, 0, 1, 0, 0, 1};
    p.mask = (attn_broadcast){mask, 0, 0, 0, 1};
    CHECK(open_bits(&p) == 0x25, "mask");
}

/* ---- overflow --------------------------------------------------------------------------------------------------- */

static void test_faults_by_hand(void) {
    const float big[] = {1e20F, 1, 1e20F, -1e20F}, one[] = {1, 1};
    attn_problem p = {.dtype = ATTN_F32,
                      .batch = 1,
                      .heads = 1,
                      .kv_heads = 1,
                      .n_q = 2,
                      .n_new = 2,
                      .d_k = 1,
                      .d_v = 1,
                      .q = {big, 2, 2, 1},
                      .k = {big + 2, 2, 2, 1},
                      .v = {one, 2, 2, 1},
                      .scale = 1};
    oracle *o = oracle_attention(&p, &(attn_results){0});
    CHECK(o->overflows && same_fault(&o->fault, &(attn_fault){.stage = ATTN_STAGE_SCALED}), "1e20 * 1e20, scaled");
    oracle_free(o);
    o = oracle_attention(&p, &(attn_results){.scores = o});
    CHECK(o->overflows && o->fault.stage == ATTN_STAGE_SCORES, "asked for, the scores come first");
    oracle_free(o);
    p.scale = 1e-30;
    o = oracle_attention(&p, &(attn_results){0});
    CHECK(!o->overflows && fabsl(o->scaled.value[0] / 1e10L - 1) < 1e-6L, "fits after the scale");
    oracle_free(o);
    p.scale = 1;
    p.mask = (attn_broadcast){(const uint8_t[]){0, 0, 1, 1}, 0, 0, 2, 1};
    o = oracle_attention(&p, &(attn_results){0});
    CHECK(!o->overflows, "blocked");
    oracle_free(o);
    p.mask.data = (const uint8_t[]){0, 1, 1, 1};
    o = oracle_attention(&p, &(attn_results){0});
    CHECK(o->overflows && o->fault.stage == ATTN_STAGE_SCALED && o->fault.key == 1, "the first open cell");
    oracle_free(o);
    const float bias[] = {-FLT_MAX, -FLT_MAX};
    p = (attn_problem){.dtype = ATTN_F32,
                       .batch = 1,
                       .heads = 1,
                       .kv_heads = 1,
                       .n_q = 1,
                       .n_new = 2,
                       .d_k = 1,
                       .d_v = 1,
                       .q = {one, 1, 1, 1},
                       .k = {one, 1, 1, 1},
                       .v = {one, 1, 1, 1},
                       .bias = {bias, 0, 0, 0, 1},
                       .scale = -1e32};
    o = oracle_attention(&p, &(attn_results){0});
    CHECK(o->overflows && o->fault.stage == ATTN_STAGE_MASKED, "-FLT_MAX - 1e32");
    oracle_free(o);
    p.scale = -5;
    o = oracle_attention(&p, &(attn_results){0});
    CHECK(close_to(o->weights.value[0], 0.5), "-FLT_MAX - 5 fits");
    oracle_free(o);
}

/* ---- multi-head ------------------------------------------------------------------------------------------------- */

static void test_mha_by_hand(void) {
    const double x[] = {1, 0, 1, 0, 0, 1, 0, 1}, w_q[] = {1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1};
    const double w_q_t[] = {1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1}, b[] = {100, 200, 300}, prune[] = {0.5};
    attn_mha m = {.attention = worked_example(),
                  .d_model = 4,
                  .d_context = 4,
                  .x = x,
                  .w_q = {w_q, 3, false},
                  .w_k = {w_q, 3, false},
                  .w_v = {w_q_t, 4, true},
                  .b_v = b,
                  .head_mask = prune};
    const attn_mha_results none = {0};
    oracle_mha *o = oracle_mha_new(&m, &none, &none);
    for (size_t i = 0; i < 6; i++) {
        CHECK(close_to(o->q.value[i], Q[i]), "q %zu", i);
        CHECK(close_to(o->v.value[i], Q[i] + b[i % 3]), "v %zu, transposed and with a bias", i);
    }
    const double a = 1 / (1 + exp(-4 / sqrt(3))); /* q.k is 5 and 1 */
    CHECK(close_to(o->heads.value[0], 0.5 * (100 + 2 * a)), "heads, half masked");
    CHECK(o->output.count == 0, "no output projection");
    oracle_mha_free(o);
    const double w_o[] = {1, 0, 0}; /* the first column of the heads */
    m.w_o = (attn_weight){w_o, 1, false};
    m.d_out = 1;
    m.b_o = b;
    o = oracle_mha_new(&m, &none, &none);
    CHECK(o->output.count == 2 && close_to(o->output.value[0], 100 + 0.5 * (100 + 2 * a)), "output");
    oracle_mha_free(o);
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_comparison_accepts_what_is_right),
        CHECK_TEST(test_comparison_refuses_what_is_wrong),
        CHECK_TEST(test_comparison_reports_the_worst),
        CHECK_TEST(test_every_result_has_a_sharp_bound),
        CHECK_TEST(test_worked_example),
        CHECK_TEST(test_options_by_hand),
        CHECK_TEST(test_grouped_heads_and_past_by_hand),
        CHECK_TEST(test_blocks_by_hand),
        CHECK_TEST(test_faults_by_hand),
        CHECK_TEST(test_mha_by_hand),
    };
    if (!check_extended()) return check_skip_all(argv, COUNT(tests), "long double is no wider than double here");
    return check_main(argc, argv, tests, COUNT(tests));
}
