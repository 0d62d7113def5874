/* test_attention.c: every kernel row that this CPU can run, in both types, against the oracle. */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/engine/kernel.h"
#include "../support/check.h"
#include "../support/oracle.h"
#include "../support/problem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static double worst; /* the greatest error / bound seen by a test */

/* Runs body(engine, dtype) for each row and each type, on the calling thread alone. */
static void each(void (*body)(const attn_engine *engine, attn_dtype dtype)) {
    for (size_t i = 0; test_kernel(i); i++) {
        const attn_engine engine = {.kernel = test_kernel(i)};
        body(&engine, ATTN_F32);
        body(&engine, ATTN_F64);
    }
}

typedef struct tile_sizes {
    size_t q, k, lanes;
} tile_sizes;

static tile_sizes tiles_of(const attn_kernel *kernel, attn_dtype dtype) {
    if (dtype == ATTN_F64) return (tile_sizes){kernel->f64.tile_q, kernel->f64.tile_k, kernel->f64.lanes};
    return (tile_sizes){kernel->f32.tile_q, kernel->f32.tile_k, kernel->f32.lanes};
}

static size_t between(size_t least, size_t most) { return least + check_random_below(most - least + 1); }

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

static bool check_sizes(const attn_engine *engine, attn_dtype dtype, size_t n_q, size_t n_k, size_t d_k, size_t d_v) {
    bag owner = {0};
    const attn_problem p = problem_plain(&owner, dtype, 1, 2, check_random_below(2) + 1, n_q, n_k, d_k, d_v);
    const bool ok = check_problem(engine, &p, WANT_ALL, &worst);
    bag_empty(&owner);
    return ok;
}

/* Each size goes through 1 to 2 lanes + 1 in turn, the others are drawn from the same range. */
static void sizes_of_lanes(const attn_engine *engine, attn_dtype dtype) {
    const size_t most = 2 * tiles_of(engine->kernel, dtype).lanes + 1;
    for (size_t axis = 0; axis < 4; axis++)
        for (size_t size = 1; size <= most; size++) {
            size_t s[4] = {between(1, 9), between(1, most), between(1, most), between(1, most)};
            s[axis] = size;
            if (!check_sizes(engine, dtype, s[0], s[1], s[2], s[3])) return;
        }
}
static void test_sizes_up_to_two_vectors(void) { each(sizes_of_lanes); }

static void sizes_of_tiles(const attn_engine *engine, attn_dtype dtype) {
    const tile_sizes tile = tiles_of(engine->kernel, dtype);
    for (size_t times = 1; times <= 2; times++)
        for (size_t more = 0; more <= 2; more++) {
            if (!check_sizes(engine, dtype, times * tile.q + more - 1, between(1, 40), 5, 3)) return;
            if (!check_sizes(engine, dtype, between(2, 9), times * tile.k + more - 1, 5, 3)) return;
            if (!check_sizes(engine, dtype, 1, times * tile.k + more - 1, 64, 64)) return;
        }
}
static void test_sizes_around_tiles(void) { each(sizes_of_tiles); }

static void empty_sizes(const attn_engine *engine, attn_dtype dtype) {
    for (size_t which = 0; which < 5; which++) {
        bag owner = {0};
        attn_problem p = problem_plain(&owner, dtype, which == 0 ? 0 : 2, which == 1 ? 0 : 2, which == 1 ? 0 : 1,
                                       which == 2 ? 0 : 3, which == 3 ? 0 : 4, 5, which == 4 ? 0 : 2);
        check_problem(engine, &p, WANT_ALL, &worst);
        p.causal = true;
        check_problem(engine, &p, WANT_OUTPUT, &worst);
        bag_empty(&owner);
    }
}
static void test_empty_axes(void) { each(empty_sizes); }

/* ---- options ---------------------------------------------------------------------------------------------------- */

static void random_options(const attn_engine *engine, attn_dtype dtype) {
    const tile_sizes tile = tiles_of(engine->kernel, dtype);
    for (size_t i = 0, rounds = check_rounds(200); i < rounds; i++) {
        bag owner = {0};
        const problem_limits small = {3, 4, 24, 20}, wide = {1, 2, tile.q + tile.k, 70};
        const attn_problem p = problem_random(&owner, dtype, i % 10 == 9 ? &wide : &small);
        const unsigned want =
            check_random_below(2) ? WANT_ALL : WANT_OUTPUT | (unsigned)check_random_below(WANT_ALL + 1);
        const bool ok = check_problem(engine, &p, want, &worst);
        bag_empty(&owner);
        if (!ok) return;
    }
}
static void test_random_options(void) {
    worst = 0;
    each(random_options);
    CHECK(worst > 0.001 || !check_extended(), "errors of at most %g of the bound: the bound says nothing", worst);
}

/* Which keys and queries the blocks leave open, by the two public questions about it. */
static void open_questions(const attn_engine *engine, attn_dtype dtype) {
    (void)engine;
    for (size_t i = 0; i < 50; i++) {
        bag owner = {0};
        const attn_problem p = problem_random(&owner, dtype, &(problem_limits){2, 4, 12, 2});
        const size_t n_k = p.n_past + p.n_new, group = p.heads / p.kv_heads;
        uint8_t *open = bag_take(&owner, n_k);
        for (size_t b = 0; b < p.batch; b++)
            for (size_t h = 0; h < p.heads; h++) {
                if (h % group == 0) attn_open_keys(&p, b, h / group, open);
                for (size_t q = 0; q < p.n_q; q++) {
                    bool any = false;
                    for (size_t j = 0; j < n_k; j++) any |= oracle_open(&p, b, h, q, j);
                    CHECK(attn_query_is_open(&p, b, h, q) == any, "%s: query %zu", problem_text(&p), q);
                }
                for (size_t j = 0; h % group == 0 && j < n_k; j++) {
                    bool any = false;
                    for (size_t g = h; g < h + group; g++)
                        for (size_t q = 0; q < p.n_q; q++) any |= oracle_open(&p, b, g, q, j);
                    CHECK((open[j] != 0) == any, "%s: key %zu", problem_text(&p), j);
                }
            }
        bag_empty(&owner);
    }
}
static void test_open_keys_and_queries(void) { each(open_questions); }

static void far_offsets(const attn_engine *engine, attn_dtype dtype) {
    const int64_t far = INT64_C(1) << 53;
    const int64_t offsets[][2] = {{-3, 2}, {0, 70}, {-70, 5}, {far, -far}, {-1, 300}};
    const int64_t windows[][2] = {{ATTN_OPEN_SIDE, ATTN_OPEN_SIDE}, {0, 0},  {2, ATTN_OPEN_SIDE}, {ATTN_OPEN_SIDE, 1},
                                  {INT64_MAX, INT64_MAX},           {4, 130}};
    for (size_t o = 0; o < COUNT(offsets); o++)
        for (size_t w = 0; w < COUNT(windows); w++)
            for (size_t causal = 0; causal < 2; causal++) {
                bag owner = {0};
                attn_problem p = problem_plain(&owner, dtype, 2, 1, 1, 70, 60, 3, 2);
                p.query_offset = offsets[o];
                p.has_window = w > 0;
                p.window_left = windows[w][0];
                p.window_right = windows[w][1];
                p.causal = causal;
                const bool ok = check_problem(engine, &p, WANT_OUTPUT | WANT_WEIGHTS | WANT_LSE, &worst);
                bag_empty(&owner);
                if (!ok) return;
            }
}
static void test_offsets_and_windows(void) { each(far_offsets); }

static void scales(const attn_engine *engine, attn_dtype dtype) {
    const double huge = dtype == ATTN_F64 ? 1e300 : 1e37;
    const double all[] = {0, -0.0, -1, 1e-30, huge, -huge};
    for (size_t i = 0; i < COUNT(all); i++) {
        bag owner = {0};
        attn_problem p = problem_plain(&owner, dtype, 1, 1, 1, 4, 30, 3, 2);
        p.scale = all[i];
        check_problem(engine, &p, WANT_ALL, &worst);
        p.softcap = 2;
        check_problem(engine, &p, WANT_ALL, &worst);
        bag_empty(&owner);
    }
}
static void test_scales(void) { each(scales); }

/* ---- blocked keys and rows -------------------------------------------------------------------------------------- */

static void poisoned_keys(const attn_engine *engine, attn_dtype dtype) {
    const double poisons[] = {NAN, INFINITY, -INFINITY, dtype == ATTN_F64 ? DBL_MAX : 1e38};
    const size_t n = 2 * tiles_of(engine->kernel, dtype).k + 3;
    for (size_t i = 0; i < 2 * COUNT(poisons); i++) {
        bag owner = {0};
        attn_problem p = problem_plain(&owner, dtype, 1, 2, 1, 3, n, 4, 5);
        uint8_t *mask = bag_take(&owner, n);
        for (size_t j = 0; j < n; j++) {
            mask[j] =
                check_random_below(3) > 0 && (j < 100 || j > 200); /* a run that may fill a tile, and scattered ones */
            if (mask[j]) continue;
            for (size_t c = 0; c < 4; c++) oracle_put(dtype, (void *)(uintptr_t)p.k.data, j * 4 + c, poisons[i / 2]);
            for (size_t c = 0; c < 5; c++)
                oracle_put(dtype, (void *)(uintptr_t)p.v.data, j * 5 + c, poisons[(i / 2 + i) % 4]);
        }
        p.mask = (attn_broadcast){mask, 0, 0, 0, 1};
        check_problem(engine, &p, WANT_OUTPUT | WANT_WEIGHTS | WANT_LSE | WANT_MASKED | WANT_MEAN, &worst);
        bag_empty(&owner);
    }
}
static void test_blocked_keys_hold_anything(void) { each(poisoned_keys); }

/* A bias of the lowest number everywhere blocks nothing: with equal scores the output is the mean. */
static void lowest_bias(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    attn_problem p = problem_plain(&owner, dtype, 1, 1, 1, 3, 300, 4, 2);
    const void *bias = numbers_filled(&owner, dtype, 300, dtype == ATTN_F64 ? -DBL_MAX : (double)-FLT_MAX);
    p.bias = (attn_broadcast){bias, 0, 0, 0, 1};
    check_problem(engine, &p, WANT_ALL, &worst);
    p.scale = 0;
    const attn_results r = results_room(&owner, &p, WANT_WEIGHTS | WANT_LSE | WANT_OUTPUT);
    CHECK_FATAL(run_problem(engine, &p, &r, NULL, NULL) == ATTN_OK, "the lowest bias");
    for (size_t i = 0; i < 3 * 300; i++)
        CHECK(fabsl(oracle_at(dtype, r.weights, i) * 300 - 1) < 1e-4L, "weight %zu is %Lg", i,
              oracle_at(dtype, r.weights, i));
    bag_empty(&owner);
}
static void test_lowest_bias_is_no_block(void) { each(lowest_bias); }

static void nothing_to_attend(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    attn_problem p = problem_plain(&owner, dtype, 1, 1, 1, 90, 90, 4, 2);
    p.causal = true;
    p.query_offset = (const int64_t[]){-80}; /* the first 80 queries have no open key */
    check_problem(engine, &p, WANT_ALL, &worst);
    p.query_offset = (const int64_t[]){-90};
    check_problem(engine, &p, WANT_ALL, &worst);
    p.query_offset = NULL;
    p.kv_lengths = (const int64_t[]){0};
    check_problem(engine, &p, WANT_ALL, &worst);
    bag_empty(&owner);
}
static void test_nothing_to_attend(void) { each(nothing_to_attend); }

/* ---- the limits of range ---------------------------------------------------------------------------------------- */

/* One head of n_q queries and n_k keys, all numbers of each tensor alike; the last column of k and v as given. */
static attn_problem uniform(bag *owner, attn_dtype dtype, size_t n_q, size_t n_k, double q, double k, double k_last,
                            double v, double scale) {
    attn_problem p = {.dtype = dtype,
                      .batch = 1,
                      .heads = 1,
                      .kv_heads = 1,
                      .n_q = n_q,
                      .n_new = n_k,
                      .d_k = 2,
                      .d_v = 3,
                      .scale = scale};
    p.q = (attn_view){numbers_filled(owner, dtype, n_q * 2, q), n_q * 2, n_q * 2, 2};
    void *keys = numbers_filled(owner, dtype, n_k * 2, k);
    for (size_t j = 0; j < n_k; j++) oracle_put(dtype, keys, 2 * j + 1, k_last);
    p.k = (attn_view){keys, n_k * 2, n_k * 2, 2};
    p.v = (attn_view){numbers_filled(owner, dtype, n_k * 3, v), n_k * 3, n_k * 3, 3};
    return p;
}

/* No intermediate result may spoil an answer that fits. */
static void intermediates(const attn_engine *engine, attn_dtype dtype) {
    const bool wide = dtype == ATTN_F64;
    const double most = wide ? DBL_MAX : (double)FLT_MAX, big = wide ? 1e200 : 1e30, least = wide ? 1e-300 : 1e-35;
    const struct {
        const char *name;
        double q, k, k_last, v, scale;
    } cases[] = {{"q.k beyond the range, a small scale", big, big, big, 1, least / big},
                 {"products that cancel", big, big, -big, 1, 1},
                 {"the greatest values", 1, 1, 1, most, 1},
                 {"the lowest values", 1, 1, 1, -most, 1},
                 {"products below the range, a great scale", 1 / big, 1 / big, 2 / big, 1, big},
                 {"values below the range", 1, 1, 1, wide ? 0x1p-1074 : 0x1p-149, 1},
                 {"products that lose digits below the range, a scale that brings them back",
                  wide ? 1.37e-160 : 1.37e-22, wide ? 1e-160 : 1e-22, wide ? 3e-160 : 3e-22, 1, 1e18}};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t n_k = 1; n_k < 4000; n_k = n_k * 7 + 3) {
            bag owner = {0};
            const attn_problem p = uniform(&owner, dtype, 1 + i % 3, n_k, cases[i].q, cases[i].k, cases[i].k_last,
                                           cases[i].v, cases[i].scale);
            const bool ok = check_problem(engine, &p, WANT_ALL & ~WANT_SCORES, &worst);
            bag_empty(&owner);
            if (!CHECK(ok, "%s", cases[i].name)) return;
        }
}
/* e v may lie below the normal range where the output, a mean of many, does not: here one key outweighs each of the
 * rest. */
static void tiny_values(const attn_engine *engine, attn_dtype dtype) {
    const bool wide = dtype == ATTN_F64;
    const double all[] = {wide ? 1e-315 : 1e-40, wide ? 3e-308 : 2e-38, wide ? 1e-300 : 1e-30};
    for (size_t i = 0; i < COUNT(all); i++) {
        bag owner = {0};
        const attn_problem p = uniform(&owner, dtype, 2, 10000, 1, 0, 0, all[i], 1);
        oracle_put(dtype, (void *)(uintptr_t)p.k.data, 10, 9.2);
        check_problem(engine, &p, WANT_OUTPUT, &worst);
        bag_empty(&owner);
    }
}
static void test_tiny_values(void) { each(tiny_values); }

static void test_no_intermediate_spoils_the_answer(void) { each(intermediates); }

static void overflows(const attn_engine *engine, attn_dtype dtype) {
    const bool wide = dtype == ATTN_F64;
    const double most = wide ? DBL_MAX : (double)FLT_MAX, big = wide ? 1e200 : 1e25;
    bag owner = {0};
    attn_problem p = uniform(&owner, dtype, 5, 200, 1, 1, 1, 1, 1);
    void *q = (void *)(uintptr_t)p.q.data, *k = (void *)(uintptr_t)p.k.data;
    oracle_put(dtype, q, 2 * 3, big);   /* query 3 */
    oracle_put(dtype, k, 2 * 150, big); /* key 150 */
    check_problem(engine, &p, WANT_OUTPUT, &worst);
    check_problem(engine, &p, WANT_ALL, &worst); /* the scores come first */
    check_problem(engine, &p, WANT_LSE, &worst);
    p.causal = true; /* blocks the cell */
    check_problem(engine, &p, WANT_OUTPUT | WANT_MASKED | WANT_WEIGHTS, &worst);
    check_problem(engine, &p, WANT_OUTPUT | WANT_SCALED, &worst); /* but asked for */
    p.causal = false;
    p.softcap = 3; /* the score overflows before the cap */
    check_problem(engine, &p, WANT_OUTPUT | WANT_CAPPED, &worst);
    p.softcap = 0;
    oracle_put(dtype, q, 2 * 3, 1);
    oracle_put(dtype, k, 2 * 150, most / 4);
    void *bias = numbers_filled(&owner, dtype, 200, -1);
    p.bias = (attn_broadcast){bias, 0, 0, 0, 1};
    check_problem(engine, &p, WANT_ALL, &worst);
    oracle_put(dtype, bias, 150, most); /* a biased score */
    check_problem(engine, &p, WANT_OUTPUT, &worst);
    check_problem(engine, &p, WANT_ALL, &worst);
    bag_empty(&owner);
}
static void test_overflow_is_found_where_it_is(void) { each(overflows); }

/* Random numbers of all magnitudes: what fits must be right, what does not must be reported. */
static void magnitudes(const attn_engine *engine, attn_dtype dtype) {
    const double reach = dtype == ATTN_F64 ? 160 : 19.5; /* decimal exponents of q and k */
    for (size_t i = 0, rounds = check_rounds(60); i < rounds; i++) {
        bag owner = {0};
        attn_problem p = problem_plain(&owner, dtype, 1, 2, 1, 6, 40, 3, 2);
        for (size_t c = 0; c < 2 * 6 * 3; c++)
            if (check_random_below(8) == 0)
                oracle_put(dtype, (void *)(uintptr_t)p.q.data, c,
                           check_random_normal() * pow(10, reach * (double)check_random_below(100) / 99));
        for (size_t c = 0; c < 40 * 3; c++)
            if (check_random_below(30) == 0)
                oracle_put(dtype, (void *)(uintptr_t)p.k.data, c,
                           check_random_normal() * pow(10, reach * (double)check_random_below(100) / 99));
        problem_options(&owner, &p);
        if (check_random_below(2)) p.scale = pow(10, -reach * (double)check_random_below(100) / 50);
        const bool ok = check_problem(engine, &p, WANT_OUTPUT | (unsigned)check_random_below(WANT_ALL + 1), &worst);
        bag_empty(&owner);
        if (!ok) return;
    }
}
static void test_numbers_of_all_magnitudes(void) { each(magnitudes); }

/* ---- long rows -------------------------------------------------------------------------------------------------- */

/* Errors must not grow in proportion to the number of keys: v is 0.1 everywhere, so that each rounding goes the same
 * way, and scores rise slowly, so that the running maximum changes in each tile. */
static void long_rows(const attn_engine *engine, attn_dtype dtype) {
    const double slopes[] = {0, 1e-5, 1e-3, -1e-4};
    for (size_t n_q = 1; n_q <= 3; n_q += 2)
        for (size_t i = 0; i < COUNT(slopes); i++) {
            bag owner = {0};
            const size_t n_k = 20000 + between(0, 3000);
            attn_problem p = uniform(&owner, dtype, n_q, n_k, 1, 0, 0, 0.1, 1);
            for (size_t j = 0; j < n_k; j++)
                oracle_put(dtype, (void *)(uintptr_t)p.k.data, 2 * j, slopes[i] * (double)j);
            check_problem(engine, &p, WANT_OUTPUT | WANT_LSE | WANT_WEIGHTS, &worst);
            bag_empty(&owner);
        }
}
static void test_long_rows(void) { each(long_rows); }

/* One key outweighs all others, which are just too small, each by itself, to change a sum that begins with it; together
 * they do. v is 1 everywhere, or 0.1: a sum of e v that loses them beside a sum of e that has them shows it. */
static void one_great_weight(const attn_engine *engine, attn_dtype dtype) {
    const double least = (dtype == ATTN_F64 ? -53 : -24) * 0.69314718055994531;
    for (size_t n_k = 2; n_k < 3000; n_k += n_k / 3 + 1)
        for (size_t i = 0; i < 6; i++) {
            bag owner = {0};
            attn_problem p = uniform(&owner, dtype, i < 3 ? 1 : 40, n_k, 0, 0, 0, i % 2 ? 0.1 : 1, 1);
            void *bias = numbers_filled(&owner, dtype, n_k, least + (double)between(0, 30) / 1000 - 0.02);
            oracle_put(dtype, bias, i % 3 == 0 ? 0 : check_random_below(n_k), 0);
            p.bias = (attn_broadcast){bias, 0, 0, 0, 1};
            const bool ok = check_problem(engine, &p, WANT_OUTPUT | WANT_LSE | WANT_WEIGHTS, &worst);
            bag_empty(&owner);
            if (!ok) return;
        }
}
static void test_one_great_weight(void) { each(one_great_weight); }

static void wide_heads(const attn_engine *engine, attn_dtype dtype) {
    check_sizes(engine, dtype, 3, 50, 5000, 3);
    check_sizes(engine, dtype, 3, 50, 3, 5000);
}
static void test_wide_heads(void) { each(wide_heads); }

/* ---- the same bits ---------------------------------------------------------------------------------------------- */

static void check_same_bits(const attn_problem *p, const attn_results *a, const attn_results *b, const char *what) {
    for (size_t i = 0; i < WANT_KINDS; i++) {
        size_t bytes;
        const void *x = results_at(a, p, i, &bytes), *y = results_at(b, p, i, &bytes);
        if (x && y) CHECK(memcmp(x, y, bytes) == 0, "%s: other bits in %s %s", problem_text(p), results_name(i), what);
    }
}

enum { POOLS = 3 };
static attn_pool *pools[POOLS]; /* of 1, 2 and 3 threads */

static void same_bits(const attn_engine *engine, attn_dtype dtype) {
    for (size_t i = 0, rounds = check_rounds(24); i < rounds; i++) {
        bag owner = {0};
        const tile_sizes tile = tiles_of(engine->kernel, dtype);
        const size_t n_q = i % 3 == 0 ? 1 : between(1, 2 * tile.q),
                     n_k = i % 3 == 0 ? between(1, 5000) : between(1, 2 * tile.k);
        attn_problem p = problem_plain(&owner, dtype, 2, 4, 2, n_q, n_k, between(1, 40), between(1, 40));
        if (i % 2) problem_options(&owner, &p);
        const attn_results alone = results_room(&owner, &p, WANT_OUTPUT), all = results_room(&owner, &p, WANT_ALL);
        const attn_status first = run_problem(engine, &p, &alone, NULL, NULL);
        CHECK(run_problem(engine, &p, &all, NULL, NULL) == first, "%s: another status with all results",
              problem_text(&p));
        if (first == ATTN_OK) check_same_bits(&p, &alone, &all, "asked for alone");
        for (size_t t = 0; t < POOLS && first == ATTN_OK; t++) {
            const attn_engine threaded = {engine->kernel, pools[t]};
            const attn_results some = results_room(&owner, &p, 1 + (unsigned)check_random_below(WANT_ALL));
            CHECK(run_problem(&threaded, &p, &some, NULL, NULL) == ATTN_OK, "%s: another status with threads",
                  problem_text(&p));
            check_same_bits(&p, &all, &some, "with threads");
        }
        bag_empty(&owner);
    }
}
static void test_same_bits(void) {
    for (size_t t = 0; t < POOLS; t++) CHECK_FATAL((pools[t] = attn_pool_new(t + 1)) != NULL, "no pool");
    each(same_bits);
    for (size_t t = 0; t < POOLS; t++) attn_pool_free(pools[t]);
}

/* One of several callers of the same pool at the same time. */
typedef struct caller {
    pthread_t thread;
    attn_engine engine;
    attn_problem problem;
    attn_results results;
    attn_status status;
} caller;

static void *call(void *arg) {
    caller *c = arg;
    c->status = run_problem(&c->engine, &c->problem, &c->results, NULL, NULL);
    return NULL;
}

static void beside_others(const attn_engine *engine, attn_dtype dtype) {
    enum { CALLERS = 5 };
    bag owner = {0};
    caller callers[CALLERS];
    for (size_t i = 0; i < CALLERS; i++) {
        attn_problem p = problem_plain(&owner, dtype, 1, 4, 2, i == 0 ? 1 : 100, 200, 16, 16);
        p.causal = i == 1;
        callers[i] =
            (caller){.engine = {engine->kernel, pools[1]}, .problem = p, .results = results_room(&owner, &p, WANT_ALL)};
    }
    size_t started = 0;
    while (started < CALLERS && pthread_create(&callers[started].thread, NULL, call, &callers[started]) == 0) started++;
    for (size_t i = 0; i < started; i++) pthread_join(callers[i].thread, NULL);
    CHECK(started == CALLERS, "no thread");
    for (size_t i = 0; i < started; i++) {
        const attn_results alone = results_room(&owner, &callers[i].problem, WANT_ALL);
        CHECK(callers[i].status == ATTN_OK, "status %d", callers[i].status);
        CHECK(run_problem(engine, &callers[i].problem, &alone, NULL, NULL) == ATTN_OK, "alone");
        check_same_bits(&callers[i].problem, &alone, &callers[i].results, "beside others");
    }
    bag_empty(&owner);
}
static void test_same_bits_beside_others(void) {
    CHECK_FATAL((pools[1] = attn_pool_new(2)) != NULL, "no pool");
    each(beside_others);
    attn_pool_free(pools[1]);
}

/* The output is written where its strides say, and nowhere else. */
static void output_strides(const attn_engine *engine, attn_dtype dtype) {
    enum { BATCH = 2, HEADS = 3, N = 40, D = 5, WIDE = HEADS * D + 3 };
    bag owner = {0};
    const attn_problem p = problem_plain(&owner, dtype, BATCH, HEADS, 1, N, 20, 4, D);
    const attn_results plain = results_room(&owner, &p, WANT_OUTPUT);
    void *data = numbers_filled(&owner, dtype, BATCH * N * WIDE, 77);
    const attn_results strided = {.output = {data, N * WIDE, D, WIDE}};
    CHECK_FATAL(run_problem(engine, &p, &plain, NULL, NULL) == ATTN_OK, "plain");
    CHECK_FATAL(run_problem(engine, &p, &strided, NULL, NULL) == ATTN_OK, "strided");
    for (size_t at = 0; at < BATCH * N * WIDE; at++) {
        const size_t c = at % WIDE, i = at / WIDE % N, b = at / WIDE / N;
        const long double expected =
            c < HEADS * D ? oracle_at(dtype, plain.output.data, ((b * HEADS + c / D) * N + i) * D + c % D) : 77;
        CHECK(oracle_at(dtype, data, at) == expected, "place %zu", at);
    }
    bag_empty(&owner);
}
static void test_output_strides(void) { each(output_strides); }

/* ---- cancelling, memory, work ----------------------------------------------------------------------------------- */

/* A kernel row that sets the flag in its 20th call of row_max, which is in the midst of a run. */
static atomic_bool cancel;
static attn_kernel real_row;
static size_t calls_left;

static void cancel_f32(size_t rows, size_t n, const float *s, float *max) {
    if (calls_left > 0 && --calls_left == 0) atomic_store(&cancel, true);
    real_row.f32.row_max(rows, n, s, max);
}

static void cancel_f64(size_t rows, size_t n, const double *s, double *max) {
    if (calls_left > 0 && --calls_left == 0) atomic_store(&cancel, true);
    real_row.f64.row_max(rows, n, s, max);
}

static void cancelling(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    const attn_problem p = problem_plain(&owner, dtype, 1, 2, 2, 1000, 1000, 8, 8);
    const attn_results r = results_room(&owner, &p, WANT_OUTPUT);
    atomic_store(&cancel, true);
    CHECK(run_problem(engine, &p, &r, &cancel, NULL) == ATTN_CANCELLED, "cancelled before it began");
    atomic_store(&cancel, false);
    real_row = *engine->kernel;
    calls_left = 20;
    attn_kernel row = real_row;
    row.f32.row_max = cancel_f32;
    row.f64.row_max = cancel_f64;
    const uint64_t before = attn_kernel_tiles(&row);
    CHECK(run_problem(&(attn_engine){.kernel = &row}, &p, &r, &cancel, NULL) == ATTN_CANCELLED, "cancelled under way");
    CHECK(calls_left == 0 && attn_kernel_tiles(&row) - before < 40, "the run went on for %llu tiles",
          (unsigned long long)(attn_kernel_tiles(&row) - before));
    bag_empty(&owner);
}
static void test_cancel(void) { each(cancelling); }

static void workspace_is_linear(const attn_engine *engine, attn_dtype dtype) {
    size_t bytes[2];
    char stand_in[1] = {0};
    for (size_t i = 0; i < 2; i++) {
        const size_t n = 100000 * (i + 1);
        const attn_problem p = {.dtype = dtype,
                                .batch = 1,
                                .heads = 8,
                                .kv_heads = 8,
                                .n_q = n,
                                .n_new = n,
                                .d_k = 64,
                                .d_v = 64,
                                .q = {stand_in, 0, n * 64, 64},
                                .k = {stand_in, 0, n * 64, 64},
                                .v = {stand_in, 0, n * 64, 64},
                                .scale = 1};
        const attn_results r = {.output = {stand_in, 0, n * 64, 64}, .weights = stand_in};
        bytes[i] = attn_workspace(engine, &p, &r);
    }
    CHECK(bytes[1] <= 2 * bytes[0] + (1 << 20), "%zu bytes for 100,000, %zu for 200,000", bytes[0], bytes[1]);
}
static void test_workspace_is_linear(void) { each(workspace_is_linear); }

static void test_flops_leave_out_what_is_blocked(void) {
    attn_problem p = {.batch = 1, .heads = 2, .kv_heads = 1, .n_q = 4096, .n_new = 4096, .d_k = 64, .d_v = 32};
    const double full = 2.0 * 2 * 4096 * 4096 * (64 + 32), all = attn_flops(&p);
    CHECK(all == full, "%g instead of %g", all, full);
    p.causal = true;
    CHECK(attn_flops(&p) < 0.6 * full && attn_flops(&p) >= 0.5 * full, "causal: %g of %g", attn_flops(&p), full);
    p.causal = false;
    p.kv_lengths = (const int64_t[]){0};
    CHECK(attn_flops(&p) == 0, "nothing to attend: %g", attn_flops(&p));
}

static void test_every_row_ran(void) { check_kernels_ran(); }

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_sizes_up_to_two_vectors),
        CHECK_TEST(test_sizes_around_tiles),
        CHECK_TEST(test_empty_axes),
        CHECK_TEST(test_random_options),
        CHECK_TEST(test_open_keys_and_queries),
        CHECK_TEST(test_offsets_and_windows),
        CHECK_TEST(test_scales),
        CHECK_TEST(test_blocked_keys_hold_anything),
        CHECK_TEST(test_lowest_bias_is_no_block),
        CHECK_TEST(test_nothing_to_attend),
        CHECK_TEST(test_no_intermediate_spoils_the_answer),
        CHECK_TEST(test_tiny_values),
        CHECK_TEST(test_overflow_is_found_where_it_is),
        CHECK_TEST(test_numbers_of_all_magnitudes),
        CHECK_TEST(test_long_rows),
        CHECK_TEST(test_one_great_weight),
        CHECK_TEST(test_wide_heads),
        CHECK_TEST(test_same_bits),
        CHECK_TEST(test_same_bits_beside_others),
        CHECK_TEST(test_output_strides),
        CHECK_TEST(test_cancel),
        CHECK_TEST(test_workspace_is_linear),
        CHECK_TEST(test_flops_leave_out_what_is_blocked),
        CHECK_TEST(test_every_row_ran),
    };
    return check_main(argc, argv, tests, COUNT(tests));
}
