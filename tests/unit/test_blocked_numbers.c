/* test_blocked_numbers.c: what stands at a key that is blocked changes no bit of an answer: of a row for which it is
 * blocked, and of another sample. Nor do the numbers of another sample. */
#include <float.h>
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

/* All results that hold no numbers of blocked keys */
enum { WANTED = WANT_OUTPUT | WANT_LSE | WANT_WEIGHTS | WANT_MASKED | WANT_MEAN };

typedef enum way {
    BY_MASK,
    BY_BIAS,
    BY_LENGTHS,
    BY_CAUSAL,
    BY_WINDOW,
    BY_LEFT_WINDOW,
    BY_MASK_WITHIN,
    BY_SEGMENTS,
    WAYS
} way;

static const char *const way_names[WAYS] = {"mask",   "bias",        "kv_lengths",        "causal",
                                            "window", "left window", "mask in the midst", "segments"};

/* Blocks keys for all queries of sample 1 (or of all samples), from `cut` on, before it, or scattered. */
static bool blocks(way how, size_t cut, size_t key) {
    if (how == BY_LEFT_WINDOW) return key < cut;
    return how == BY_MASK_WITHIN ? key % 5 == 1 || key / 7 % 3 == 1 : key >= cut;
}

/* The keys of sample 1 from the cut on are of a segment that no query has. */
static void block_by_segments(bag *owner, attn_problem *p, size_t cut) {
    const size_t n_k = p->n_past + p->n_new;
    attn_segments *s = bag_take(owner, sizeof *s);
    int64_t *of_query = bag_take(owner, p->n_q * sizeof *of_query);
    int64_t *of_key = bag_take(owner, p->batch * n_k * sizeof *of_key);
    size_t *spans = bag_take(owner, p->batch * 2 * p->n_q * sizeof *spans);
    attn_segment_run *runs = bag_take(owner, n_k * sizeof *runs);
    for (size_t i = 0; i < p->n_q; i++) of_query[i] = 1;
    for (size_t i = 0; i < p->batch * n_k; i++) of_key[i] = i / n_k != 1 || !blocks(BY_SEGMENTS, cut, i % n_k);
    *s = (attn_segments){of_query, of_key, 0, n_k, spans, 2 * p->n_q, false};
    for (size_t b = 0; b < p->batch; b++)
        s->gaps |= attn_segment_spans(p->n_q, of_query, n_k, of_key + b * n_k, runs, spans + b * s->spans_batch);
    p->segments = s;
}

static void block(bag *owner, attn_problem *p, way how, size_t cut) {
    const size_t n_k = p->n_past + p->n_new;
    int64_t *per_batch = bag_take(owner, p->batch * sizeof *per_batch);
    for (size_t b = 0; b < p->batch; b++) per_batch[b] = (int64_t)(b == 1 ? cut : n_k);
    if (how == BY_MASK || how == BY_MASK_WITHIN || how == BY_BIAS) {
        uint8_t *mask = bag_take(owner, p->batch * n_k);
        void *bias = numbers_filled(owner, p->dtype, p->batch * n_k, 0);
        for (size_t i = 0; i < p->batch * n_k; i++) {
            mask[i] = i / n_k != 1 || !blocks(how, cut, i % n_k);
            if (!mask[i]) oracle_put(p->dtype, bias, i, -INFINITY);
        }
        if (how == BY_BIAS)
            p->bias = (attn_broadcast){bias, n_k, 0, 0, 1};
        else
            p->mask = (attn_broadcast){mask, n_k, 0, 0, 1};
    }
    if (how == BY_SEGMENTS) block_by_segments(owner, p, cut);
    if (how == BY_LENGTHS) p->kv_lengths = per_batch;
    if (how != BY_CAUSAL && how != BY_WINDOW && how != BY_LEFT_WINDOW) return;
    for (size_t b = 0; b < p->batch; b++) /* the last query ends at the cut, or the first begins there */
        per_batch[b] = (int64_t)(b == 1 ? cut : n_k) - (int64_t)(how == BY_LEFT_WINDOW ? 0 : p->n_q);
    p->query_offset = per_batch;
    p->causal = how == BY_CAUSAL;
    p->has_window = !p->causal;
    p->window_left = how == BY_LEFT_WINDOW ? 0 : ATTN_OPEN_SIDE;
    p->window_right = how == BY_LEFT_WINDOW ? ATTN_OPEN_SIDE : 0;
}

/* Puts `number` into k, or v, at the blocked keys of sample 1. */
static void fill_blocked(const attn_problem *p, way how, size_t cut, bool values, double number) {
    for (size_t h = 0; h < p->kv_heads; h++)
        for (size_t j = 0; j < p->n_past + p->n_new; j++) {
            if (!blocks(how, cut, j)) continue;
            const bool past = j < p->n_past;
            const attn_view *view = values ? past ? &p->past_v : &p->v : past ? &p->past_k : &p->k;
            const size_t row = past ? j : j - p->n_past;
            for (size_t c = 0; c < (values ? p->d_v : p->d_k); c++)
                oracle_put(p->dtype, (void *)(uintptr_t)view->data, view->batch + h * view->head + row * view->row + c,
                           number);
        }
}

static void check_bits(const attn_engine *engine, const attn_problem *p, const attn_results *a, const attn_results *b,
                       const char *what, double number) {
    for (size_t i = 0; i < WANT_KINDS; i++) {
        size_t bytes;
        const void *x = results_at(a, p, i, &bytes), *y = results_at(b, p, i, &bytes);
        if (x)
            CHECK(memcmp(x, y, bytes) == 0, "%s, %s: %g behind %s changes %s", attn_kernel_name(engine->kernel),
                  problem_text(p), number, what, results_name(i));
    }
}

static attn_problem split_past(attn_problem p, size_t n_past) {
    p.n_past = n_past;
    p.n_new -= n_past;
    p.past_k = p.k;
    p.past_v = p.v;
    p.k.data = (const char *)p.k.data + n_past * p.k.row * attn_sizeof(p.dtype);
    p.v.data = (const char *)p.v.data + n_past * p.v.row * attn_sizeof(p.dtype);
    return p;
}

static const double garbage[] = {1, 1e6, 1e15, 1e38, -3e-42, NAN, INFINITY, -INFINITY};

static void hide(const attn_engine *engine, attn_dtype dtype, const size_t *size, way how) {
    bag owner = {0};
    attn_problem p = problem_plain(&owner, dtype, 2, 2, 1, size[0], size[1], size[2], size[3]);
    const size_t cut = size[1] * 3 / 5;
    if (check_random_below(3) == 0 && size[1] > 2) p = split_past(p, size[1] / 2);
    block(&owner, &p, how, cut);
    if (check_random_below(4) == 0) p.softcap = 20;
    for (size_t values = 0; values < 2; values++) {
        fill_blocked(&p, how, cut, values, 0);
        const attn_results zeros = results_room(&owner, &p, WANTED);
        const attn_status wanted = run_problem(engine, &p, &zeros, NULL, NULL);
        for (size_t i = 0; i < COUNT(garbage); i++) {
            fill_blocked(&p, how, cut, values, garbage[i]);
            const attn_results r = results_room(&owner, &p, i % 2 ? WANTED : WANT_OUTPUT);
            CHECK(run_problem(engine, &p, &r, NULL, NULL) == wanted, "%s: status", problem_text(&p));
            check_bits(engine, &p, &r, &zeros, way_names[how], garbage[i]);
        }
    }
    bag_empty(&owner);
}

/* Where everything is slow, only each `most`th of a list is tried. */
static size_t stride(size_t most) { return check_rounds(20) == 20 ? 1 : most; }

static void blocked_numbers(const attn_engine *engine, attn_dtype dtype) {
    static const size_t sizes[][4] = {{1, 1, 1, 1},     {2, 3, 4, 4},     {3, 5, 4, 4},     {1, 13, 4, 3},
                                      {4, 8, 2, 2},     {1, 40, 4, 8},    {1, 200, 64, 64}, {2, 200, 16, 16},
                                      {16, 33, 4, 4},   {7, 128, 64, 64}, {40, 60, 5, 3},   {64, 128, 64, 64},
                                      {200, 200, 8, 16}};
    for (size_t i = 0; i < COUNT(sizes); i += stride(5))
        for (way how = 0; how < WAYS; how += (way)stride(3)) hide(engine, dtype, sizes[i], how);
    for (size_t i = 0, rounds = check_rounds(35); i < rounds; i++) {
        const size_t size[] = {1 + check_random_below(i % 2 ? 4 : 200), 1 + check_random_below(200),
                               1 + check_random_below(20), 1 + check_random_below(20)};
        hide(engine, dtype, size, (way)(i % WAYS));
    }
}
static void test_blocked_numbers(void) { each(blocked_numbers); }

/* Many keys: several tiles, and splits. */
static void long_caches(const attn_engine *engine, attn_dtype dtype) {
    for (way how = 0; how < WAYS; how += (way)stride(5)) {
        hide(engine, dtype, (const size_t[]){1, 4500, 16, 16}, how);
        hide(engine, dtype, (const size_t[]){20, 900, 16, 16}, how);
    }
}
static void test_long_caches(void) { each(long_caches); }

/* A key that later queries attend: under causal it is blocked for the earlier ones, and must not change their bits. */
static void later_keys(const attn_engine *engine, attn_dtype dtype) {
    static const size_t sizes[] = {3, 5, 20, 100, 200};
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t i = 1; i < 4; i++)
            for (size_t values = 0; values < 2; values++) {
                bag owner = {0};
                const size_t n = sizes[s], at = n * 3 / 5, d = n < 10 ? 3 : 8;
                attn_problem p = problem_plain(&owner, dtype, 1, 2, 1, n, n, d, d);
                p.causal = true;
                const unsigned want = WANT_OUTPUT | WANT_LSE | WANT_WEIGHTS | WANT_MASKED;
                const attn_results a = results_room(&owner, &p, want), b = results_room(&owner, &p, want);
                const attn_status first = run_problem(engine, &p, &a, NULL, NULL);
                const attn_view *view = values ? &p.v : &p.k;
                for (size_t c = 0; c < d; c++)
                    oracle_put(dtype, (void *)(uintptr_t)view->data, at * view->row + c, garbage[i] / (double)d);
                CHECK(run_problem(engine, &p, &b, NULL, NULL) == first, "%s: status", problem_text(&p));
                for (size_t h = 0; h < 2; h++) {
                    const size_t row = h * n, size = attn_sizeof(dtype);
                    CHECK(memcmp((const char *)a.output.data + row * d * size,
                                 (const char *)b.output.data + row * d * size, at * d * size) == 0,
                          "%s, %s: %g in %s of key %zu changes the output of an earlier query",
                          attn_kernel_name(engine->kernel), problem_text(&p), garbage[i], values ? "v" : "k", at);
                    CHECK(memcmp((const char *)a.weights + row * n * size, (const char *)b.weights + row * n * size,
                                 at * n * size) == 0,
                          "%s: %g in key %zu changes weights of an earlier query", problem_text(&p), garbage[i], at);
                    CHECK(memcmp((const char *)a.lse + row * size, (const char *)b.lse + row * size, at * size) == 0,
                          "%s: %g in key %zu changes lse of an earlier query", problem_text(&p), garbage[i], at);
                }
                bag_empty(&owner);
            }
}
static void test_later_keys(void) { each(later_keys); }

/* A sample of a batch has the bits that it has alone, whatever the other holds, be it out of the range of the tiles. */
static void other_samples(const attn_engine *engine, attn_dtype dtype) {
    static const size_t sizes[][3] = {{2, 3, 4}, {1, 100, 8}, {40, 60, 8}, {150, 200, 16}};
    const double great = dtype == ATTN_F64 ? 1e160 : 1e20, greatest = dtype == ATTN_F64 ? DBL_MAX : (double)FLT_MAX;
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t which = 0; which < 3; which++) {
            bag owner = {0};
            attn_problem p = problem_plain(&owner, dtype, 2, 2, 1, sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][2]);
            p.scale = dtype == ATTN_F64 ? 1e-20 : 1e-3;
            attn_problem alone = p;
            alone.batch = 1;
            const unsigned want = WANTED & ~(unsigned)WANT_MASKED;
            const attn_results wanted = results_room(&owner, &alone, want), r = results_room(&owner, &p, want);
            const attn_view *view = which == 0 ? &p.q : which == 1 ? &p.k : &p.v;
            for (size_t c = 0; c < p.d_k; c++)
                oracle_put(dtype, (void *)(uintptr_t)view->data, view->batch + c, which == 2 ? greatest : great);
            CHECK(run_problem(engine, &alone, &wanted, NULL, NULL) == ATTN_OK, "alone");
            CHECK(run_problem(engine, &p, &r, NULL, NULL) == ATTN_OK, "%s: status", problem_text(&p));
            for (size_t i = 0; i < WANT_KINDS; i++) {
                size_t bytes, all;
                const void *x = results_at(&wanted, &alone, i, &bytes), *y = results_at(&r, &p, i, &all);
                if (x)
                    CHECK(memcmp(x, y, bytes) == 0, "%s, %s: the other sample changes %s",
                          attn_kernel_name(engine->kernel), problem_text(&p), results_name(i));
            }
            oracle *o = oracle_attention(&p, &r);
            oracle_report report;
            CHECK(oracle_compare(dtype, &o->output, r.output.data, &report), "%s: %s", problem_text(&p), report.text);
            oracle_free(o);
            bag_empty(&owner);
        }
}
static void test_other_samples(void) { each(other_samples); }

static void test_every_row_ran(void) { check_kernels_ran(); }

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_blocked_numbers), CHECK_TEST(test_long_caches),   CHECK_TEST(test_later_keys),
        CHECK_TEST(test_other_samples),   CHECK_TEST(test_every_row_ran),
    };
    return check_main(argc, argv, tests, COUNT(tests));
}
