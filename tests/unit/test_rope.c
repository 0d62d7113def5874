/* Rotary positions against their formula in long double, and laws that hold for them. */
#include "../../core/attention.h"
#include "../support/check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 14 };

static double q[MOST], k[MOST], v[MOST], turned_q[MOST], turned_k[MOST], output[MOST];

static void draw(double *x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] = check_random_normal();
}

static attn_view view_of(const void *data, size_t heads, size_t n, size_t d) {
    return (attn_view){data, heads * n * d, n * d, d};
}

static void run(const attn_problem *problem, const attn_results *results, attn_pool *pool) {
    const attn_engine engine = {attn_kernel_find(NULL), pool};
    void *workspace = aligned_alloc(64, (attn_workspace(&engine, problem, results) + 63) / 64 * 64 + 64);
    CHECK(attn_run(&engine, problem, results, workspace, NULL, NULL) == ATTN_OK, "the run failed");
    free(workspace);
}

static const attn_rope plain = {.theta = 10000, .dim = 8, .attention_factor = 1};

/* the rotated row x (d) of a position, from the formula; 64 bits suffice for angles of a few thousand */
static void turn(const attn_rope *rope, size_t d, const double *x, int64_t position, long double *wanted) {
    const size_t half = rope->dim / 2;
    for (size_t c = 0; c < d; c++) wanted[c] = x[c];
    for (size_t t = 0; t < half; t++) {
        const long double angle =
            (long double)position * powl(rope->theta, -2.0L * (long double)t / (long double)rope->dim);
        const size_t a = rope->interleaved ? 2 * t : t, b = rope->interleaved ? 2 * t + 1 : t + half;
        wanted[a] = x[a] * cosl(angle) - x[b] * sinl(angle);
        wanted[b] = x[a] * sinl(angle) + x[b] * cosl(angle);
    }
}

static void check_rows(const char *what, const attn_rope *rope, size_t rows, size_t n, size_t d, const double *x,
                       const double *got, const int64_t *positions, int64_t first) {
    for (size_t r = 0; r < rows; r++) {
        long double wanted[64];
        const int64_t position = positions ? positions[r % n] : first + (int64_t)(r % n);
        turn(rope, d, x + r * d, position, wanted);
        for (size_t c = 0; c < d; c++)
            CHECK(!check_extended() || fabsl(got[r * d + c] - wanted[c]) <= 4e-15L,
                  "%s[%zu, %zu]: %.17g, expected %.17Lg", what, r, c, got[r * d + c], wanted[c]);
    }
}

static void test_rotation(void) {
    attn_pool *pool = attn_pool_new(2);
    for (size_t round = 0; round < check_rounds(200); round++) {
        const size_t kv = 1 + check_random_below(2), heads = kv * (1 + check_random_below(2));
        const size_t n_q = check_random_below(70), n = check_random_below(70), d = 2 + check_random_below(20);
        int64_t positions[70], keys[70], offset[1] = {(int64_t)check_random_below(2000) - 1000};
        attn_rope rope = plain;
        rope.dim = 2 + 2 * check_random_below(d / 2);
        rope.interleaved = check_random_below(2) == 1;
        for (size_t i = 0; i < 70; i++) positions[i] = (int64_t)check_random_below(6000) - 3000;
        for (size_t i = 0; i < 70; i++) keys[i] = (int64_t)(i + check_random_below(3));
        const bool own = check_random_below(2), own_keys = check_random_below(2);
        draw(q, heads * n_q * d), draw(k, kv * n * d), draw(v, kv * n);
        const attn_problem p = {.dtype = ATTN_F64,
                                .batch = 1,
                                .heads = heads,
                                .kv_heads = kv,
                                .n_q = n_q,
                                .n_new = n,
                                .d_k = d,
                                .d_v = 1,
                                .q = view_of(q, heads, n_q, d),
                                .k = view_of(k, kv, n, d),
                                .v = view_of(v, kv, n, 1),
                                .query_offset = check_random_below(2) ? offset : NULL,
                                .scale = 1,
                                .rope = &rope,
                                .positions = own ? positions : NULL,
                                .key_positions = own_keys ? keys : NULL};
        static double present[MOST];
        run(&p,
            &(attn_results){.output = {output, heads * n_q, n_q, 1},
                            .q_rotated = turned_q,
                            .k_rotated = turned_k,
                            .present_k = present},
            round % 2 ? pool : NULL);
        check_rows("q", &rope, heads * n_q, n_q, d, q, turned_q, p.positions, p.query_offset ? offset[0] : 0);
        check_rows("k", &rope, kv * n, n, d, k, turned_k, p.key_positions, 0);
        CHECK(memcmp(present, turned_k, kv * n * d * sizeof *present) == 0, "present_k is not rotated");
    }
    attn_pool_free(pool);
}

/* A position of 2^53 - 1 is as exact as position 1: whole turns of pair 0 come off the position itself. */
static void test_far_positions(void) {
    int64_t far[1] = {((int64_t)1 << 53) - 1};
    attn_rope rope = plain;
    rope.dim = 2;
    double x[2] = {1, 0}, got[2], other[2], o[1], one[1] = {1};
    const attn_problem p = {.dtype = ATTN_F64,
                            .batch = 1,
                            .heads = 1,
                            .kv_heads = 1,
                            .n_q = 1,
                            .n_new = 1,
                            .d_k = 2,
                            .d_v = 1,
                            .q = view_of(x, 1, 1, 2),
                            .k = view_of(x, 1, 1, 2),
                            .v = view_of(one, 1, 1, 1),
                            .scale = 1,
                            .rope = &rope,
                            .positions = far,
                            .key_positions = far};
    run(&p, &(attn_results){.output = {o, 1, 1, 1}, .q_rotated = got, .k_rotated = other}, NULL);
    /* libm reduces a double exactly, and this position is one */
    CHECK(fabs(got[0] - cos(0x1.fffffffffffffp+52)) <= DBL_EPSILON, "%.17g, expected %.17g", got[0],
          cos(0x1.fffffffffffffp+52));
    CHECK(fabs(got[1] - sin(0x1.fffffffffffffp+52)) <= DBL_EPSILON, "%.17g, expected %.17g", got[1],
          sin(0x1.fffffffffffffp+52));
}

/* Scores depend on distances alone, so a shift of all positions changes the weights by roundings only. */
static void test_shift(void) {
    const size_t n = 40, d = 8;
    int64_t at[40];
    double weights[1600], shifted[1600];
    attn_rope rope = plain;
    draw(q, n * d), draw(k, n * d), draw(v, n);
    attn_problem p = {.dtype = ATTN_F64,
                      .batch = 1,
                      .heads = 1,
                      .kv_heads = 1,
                      .n_q = n,
                      .n_new = n,
                      .d_k = d,
                      .d_v = 1,
                      .q = view_of(q, 1, n, d),
                      .k = view_of(k, 1, n, d),
                      .v = view_of(v, 1, n, 1),
                      .scale = 0.25,
                      .rope = &rope};
    run(&p, &(attn_results){.weights = weights}, NULL);
    for (size_t i = 0; i < n; i++) at[i] = 1000000 + (int64_t)i;
    p.positions = p.key_positions = at;
    run(&p, &(attn_results){.weights = shifted}, NULL);
    for (size_t i = 0; i < n * n; i++)
        CHECK(fabs(weights[i] - shifted[i]) <= 1e-13, "[%zu] %.17g, shifted %.17g", i, weights[i], shifted[i]);
}

/* The frequencies of the scalings, seen through the rotation of position 1: values from the papers' formulas. */
static void test_scalings(void) {
    const struct {
        attn_rope rope;
        double frequencies[4];
    } known[] = {
        {{.theta = 10000, .dim = 8, .scaling = ATTN_ROPE_LINEAR, .factor = 4, .attention_factor = 1},
         {0.25, 0.025, 0.0025, 0.00025}},
        {{.theta = 10000, .dim = 8, .scaling = ATTN_ROPE_NTK, .factor = 4, .attention_factor = 1},
         {1, 0.06299605249474366, 0.003968502629920499, 0.00025}},
        {{.theta = 10000,
          .dim = 8,
          .scaling = ATTN_ROPE_YARN,
          .factor = 4,
          .original_length = 64,
          .beta_fast = 32,
          .beta_slow = 1,
          .attention_factor = 1},
         {1, 0.0625, 0.0025, 0.00025}},
        {{.theta = 10000,
          .dim = 8,
          .scaling = ATTN_ROPE_LLAMA3,
          .factor = 4,
          .original_length = 64,
          .low_freq_factor = 1,
          .high_freq_factor = 4,
          .attention_factor = 1},
         {1, 0.025464790894703253, 0.0025, 0.00025}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double x[8] = {1, 1, 1, 1, 0, 0, 0, 0}, got[8], one[1] = {1};
        int64_t at[1] = {1};
        const attn_problem p = {.dtype = ATTN_F64,
                                .batch = 1,
                                .heads = 1,
                                .kv_heads = 1,
                                .n_q = 1,
                                .n_new = 1,
                                .d_k = 8,
                                .d_v = 1,
                                .q = view_of(x, 1, 1, 8),
                                .k = view_of(x, 1, 1, 8),
                                .v = view_of(one, 1, 1, 1),
                                .scale = 1,
                                .rope = &known[i].rope,
                                .positions = at};
        run(&p, &(attn_results){.q_rotated = got, .output = {output, 1, 1, 1}}, NULL);
        for (size_t t = 0; t < 4; t++)
            CHECK(fabs(atan2(got[4 + t], got[t]) - known[i].frequencies[t]) <= 1e-15, "scaling %zu, pair %zu: %.17g", i,
                  t, atan2(got[4 + t], got[t]));
    }
}

int main(int argc, char **argv) {
    const check_test tests[] = {CHECK_TEST(test_rotation), CHECK_TEST(test_far_positions), CHECK_TEST(test_shift),
                                CHECK_TEST(test_scalings)};
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
