/* test_exact_scores.c: scaled scores that are exact in the type give weights within 4 eps (1 + |s_max - s_j|) of their
 * softmax, however large they are, and the same bits as small scores with the same differences. */
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

static void put(attn_dtype dtype, const void *data, size_t at, double x) {
    oracle_put(dtype, (void *)(uintptr_t)data, at, x);
}

/* The weights and the lse of each row against the softmax of its `masked` scores, which are given. */
static void check_rows(const char *row, const attn_problem *p, const attn_results *r, const long double *masked) {
    const size_t n = p->n_past + p->n_new, rows = p->batch * p->heads * p->n_q;
    const long double eps = p->dtype == ATTN_F64 ? 0x1p-52L : 0x1p-23L;
    for (size_t i = 0; i < rows; i++, masked += n) {
        long double top = -INFINITY, sum = 0;
        for (size_t j = 0; j < n; j++) top = fmaxl(top, masked[j]);
        for (size_t j = 0; j < n; j++) sum += expl(masked[j] - top);
        for (size_t j = 0; j < n; j++) {
            const long double wanted = expl(masked[j] - top) / sum, got = oracle_at(p->dtype, r->weights, i * n + j);
            const long double shown = oracle_at(p->dtype, r->masked, i * n + j);
            CHECK(shown == masked[j], "%s, %s: masked is %.17Lg, expected %.17Lg", row, problem_text(p), shown,
                  masked[j]);
            const long double apart = wanted > 0 ? top - masked[j] : 0;
            CHECK(fabsl(got - wanted) <= 4 * eps * (1 + apart) * wanted + 1e-44L,
                  "%s, %s: scores %.17Lg and %.17Lg: weight %.9Lg, expected %.9Lg", row, problem_text(p), top,
                  masked[j], got, wanted);
        }
        const long double lse = top + logl(sum), got = oracle_at(p->dtype, r->lse, i);
        CHECK(fabsl(got - lse) <= eps * fabsl(lse) + 4 * eps, "%s, %s: lse %.17Lg, expected %.17Lg", row,
              problem_text(p), got, lse);
    }
}

/* ---- two that were wrong ---------------------------------------------------------------------------------------- */

static void thousands(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    attn_problem p = problem_plain(&owner, dtype, 1, 1, 1, 1, 3, 1, 1);
    p.scale = 1;
    put(dtype, p.q.data, 0, 1);
    for (size_t j = 0; j < 3; j++) put(dtype, p.k.data, j, 1000 + (double)j);
    const attn_results r = results_room(&owner, &p, WANT_WEIGHTS | WANT_MASKED | WANT_LSE | WANT_OUTPUT);
    CHECK(run_problem(engine, &p, &r, NULL, NULL) == ATTN_OK, "1000, 1001, 1002");
    check_rows(attn_kernel_name(engine->kernel), &p, &r, (const long double[]){1000, 1001, 1002});
    bag_empty(&owner);
}
static void test_1000_1001_1002(void) { each(thousands); }

static void half_a_million(const attn_engine *engine, attn_dtype dtype) {
    for (size_t n_q = 1; n_q <= 20; n_q += 19) {
        bag owner = {0};
        attn_problem p = problem_plain(&owner, dtype, 1, 1, 1, n_q, 2, 64, 1);
        long double masked[2 * 20];
        for (size_t i = 0; i < n_q * 64; i++) put(dtype, p.q.data, i, 256);
        for (size_t i = 0; i < 2 * 64; i++) put(dtype, p.k.data, i, i == 70 ? 255.75 : 256);
        for (size_t i = 0; i < 2 * n_q; i++) masked[i] = i % 2 ? 524280 : 524288;
        const attn_results r = results_room(&owner, &p, WANT_WEIGHTS | WANT_MASKED | WANT_LSE | WANT_OUTPUT);
        CHECK(run_problem(engine, &p, &r, NULL, NULL) == ATTN_OK, "524288 and 8 less");
        check_rows(attn_kernel_name(engine->kernel), &p, &r, masked);
        bag_empty(&owner);
    }
}
static void test_524288_and_8_less(void) { each(half_a_million); }

/* ---- exact scores of all sizes, by all paths -------------------------------------------------------------------- */

/* Scores base + t with whole t: q = (base, 1, 0 ...), k = (1, t, ...), times a scale that keeps them exact. */
typedef struct exact_case {
    size_t n_q, n_k, d;
    double scale, base;
    bool bias, mask, past;
} exact_case;

static attn_problem exact_problem(bag *owner, attn_dtype dtype, const exact_case *c, const double *t, double base) {
    attn_problem p = problem_plain(owner, dtype, 1, 2, 1, c->n_q, c->n_k, c->d, 3);
    p.scale = c->scale;
    for (size_t i = 0; i < 2 * c->n_q * c->d; i++)
        put(dtype, p.q.data, i, i % c->d == 0 ? base : i % c->d == 1 ? 1 : 0);
    for (size_t j = 0; j < c->n_k; j++) {
        put(dtype, p.k.data, j * c->d, 1);
        put(dtype, p.k.data, j * c->d + 1, t[j]);
    }
    if (c->bias) {
        const void *bias = numbers_filled(owner, dtype, c->n_k, 0);
        for (size_t j = 0; j < c->n_k; j++) put(dtype, bias, j, (double)(j % 7) - 3);
        p.bias = (attn_broadcast){bias, 0, 0, 0, 1};
    }
    if (c->mask) {
        uint8_t *mask = bag_take(owner, c->n_k);
        for (size_t j = 0; j < c->n_k; j++) mask[j] = j % 5 != 3;
        p.mask = (attn_broadcast){mask, 0, 0, 0, 1};
    }
    if (c->past) {
        p.past_k = p.k;
        p.past_v = p.v;
        p.n_past = c->n_k / 2;
        p.n_new = c->n_k - p.n_past;
        p.k.data = (const char *)p.k.data + p.n_past * p.k.row * attn_sizeof(dtype);
        p.v.data = (const char *)p.v.data + p.n_past * p.v.row * attn_sizeof(dtype);
    }
    return p;
}

static void check_case(const attn_engine *engine, attn_dtype dtype, const exact_case *c) {
    bag owner = {0};
    const size_t rows = 2 * c->n_q;
    double *t = bag_take(&owner, c->n_k * sizeof *t);
    long double *masked = bag_take(&owner, rows * c->n_k * sizeof *masked);
    const size_t reach = check_random_below(2) ? 12 : 90; /* near ties, or a wide range */
    for (size_t j = 0; j < c->n_k; j++) t[j] = (double)check_random_below(reach) + (reach == 90 ? (double)(j / 20) : 0);
    const attn_problem p = exact_problem(&owner, dtype, c, t, c->base), near = exact_problem(&owner, dtype, c, t, 0);
    for (size_t i = 0; i < rows * c->n_k; i++) {
        const size_t j = i % c->n_k;
        masked[i] = c->mask && j % 5 == 3 ? -(long double)INFINITY
                                          : c->scale * (c->base + t[j]) + (c->bias ? (double)(j % 7) - 3 : 0);
    }
    const unsigned want = WANT_WEIGHTS | WANT_MASKED | WANT_LSE | WANT_OUTPUT;
    const attn_results a = results_room(&owner, &p, want), b = results_room(&owner, &near, want);
    CHECK(run_problem(engine, &p, &a, NULL, NULL) == ATTN_OK, "%s", problem_text(&p));
    CHECK(run_problem(engine, &near, &b, NULL, NULL) == ATTN_OK, "%s", problem_text(&near));
    check_rows(attn_kernel_name(engine->kernel), &p, &a, masked);
    size_t bytes;
    const void *x = results_at(&a, &p, 5, &bytes), *y = results_at(&b, &near, 5, &bytes);
    CHECK(memcmp(x, y, bytes) == 0, "%s, %s: base %g gives other weights than 0", attn_kernel_name(engine->kernel),
          problem_text(&p), c->base);
    bag_empty(&owner);
}

static void exact_scores(const attn_engine *engine, attn_dtype dtype) {
    const size_t sizes[][3] = {{1, 3, 2},     {3, 8, 3},  {2, 16, 2},  {1, 40, 8},    {1, 700, 64},
                               {1, 4200, 16}, {4, 90, 5}, {20, 60, 6}, {70, 300, 16}, {130, 300, 33}};
    const double scales[] = {1, 0.125, 3, 0.75, 1.5, 2, 5, 0x1p-10};
    const double room = dtype == ATTN_F64 ? 0x1p53 : 0x1p24;
    for (size_t i = 0, rounds = check_rounds(20); i < rounds; i++) {
        const size_t *size = sizes[i % COUNT(sizes)];
        exact_case c = {
            .n_q = size[0], .n_k = size[1], .d = size[2], .scale = scales[check_random_below(COUNT(scales))]};
        c.bias = check_random_below(4) == 0 && c.scale >= 1; /* sums with whole numbers stay exact */
        c.mask = check_random_below(4) == 0;
        c.past = check_random_below(4) == 0 && c.n_k > 1;
        /* base + t + bias below 2^24 (2^53) even after a scale that is not a power of two */
        const double most = room / 8 - 500;
        c.base = floor(most * pow(2, -(double)check_random_below(dtype == ATTN_F64 ? 40 : 14)));
        if (check_random_below(2)) c.base = -c.base;
        check_case(engine, dtype, &c);
    }
}
static void test_exact_scores_of_all_sizes(void) { each(exact_scores); }

/* What PyTorch's users measure: two near ties far from zero, in float64. */
static void near_ties(const attn_engine *engine, attn_dtype dtype) {
    const double step = dtype == ATTN_F64 ? 0x1p-30 : 0x1p-8;
    for (size_t n_q = 1; n_q <= 33; n_q += 16) {
        bag owner = {0};
        attn_problem p = problem_plain(&owner, dtype, 1, 1, 1, n_q, 17, 1, 1);
        long double *masked = bag_take(&owner, n_q * 17 * sizeof *masked);
        p.scale = 1;
        for (size_t i = 0; i < n_q; i++) put(dtype, p.q.data, i, 1);
        for (size_t j = 0; j < 17; j++) put(dtype, p.k.data, j, 30000 + step * (double)(j * j));
        for (size_t i = 0; i < n_q * 17; i++) masked[i] = 30000 + (long double)step * (long double)(i % 17 * (i % 17));
        const attn_results r = results_room(&owner, &p, WANT_WEIGHTS | WANT_MASKED | WANT_LSE | WANT_OUTPUT);
        CHECK(run_problem(engine, &p, &r, NULL, NULL) == ATTN_OK, "near ties");
        check_rows(attn_kernel_name(engine->kernel), &p, &r, masked);
        bag_empty(&owner);
    }
}
static void test_near_ties(void) { each(near_ties); }

static void test_every_row_ran(void) { check_kernels_ran(); }

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_1000_1001_1002), CHECK_TEST(test_524288_and_8_less), CHECK_TEST(test_exact_scores_of_all_sizes),
        CHECK_TEST(test_near_ties),      CHECK_TEST(test_every_row_ran),
    };
    if (!check_extended()) return check_skip_all(argv, COUNT(tests), "long double is no wider than double here");
    return check_main(argc, argv, tests, COUNT(tests));
}
