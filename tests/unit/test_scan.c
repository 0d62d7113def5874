/* Selective scans and the joining of shards, against loops in long double that share no code with core/. */
#include "../../core/attention.h"
#include "../support/check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 9 };

/* One random scan in double, rounded to its type. */
typedef struct problem {
    attn_scan scan;
    size_t counts[FIELDS];
    double *numbers[FIELDS]; /* u, delta, a, b, c, d, z, delta_bias, initial_state; NULL: not given */
    void *typed[FIELDS];
} problem;

enum { U, DELTA, A, B, C, D, Z, BIAS, STATE };

static void *typed_copy(attn_dtype dtype, size_t count, double *numbers) {
    char *copy = malloc(count * attn_sizeof(dtype) + 1);
    for (size_t i = 0; i < count; i++) {
        if (dtype == ATTN_F32) {
            numbers[i] = (double)(float)numbers[i];
            ((float *)(void *)copy)[i] = (float)numbers[i];
        } else {
            ((double *)(void *)copy)[i] = numbers[i];
        }
    }
    return copy;
}

static double number(attn_dtype dtype, const void *data, size_t i) {
    return dtype == ATTN_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void draw(problem *p) {
    attn_scan *s = &p->scan;
    const size_t wide = s->batch * s->n * s->channels * s->width, steps = s->batch * s->n;
    const size_t counts[FIELDS] = {wide,
                                   steps * s->channels,
                                   s->channels * (s->scalar_a ? 1 : s->state),
                                   steps * s->groups * s->state,
                                   steps * s->groups * s->state,
                                   s->channels,
                                   wide,
                                   s->channels,
                                   s->batch * s->channels * s->width * s->state};
    memcpy(p->counts, counts, sizeof counts);
    for (size_t f = 0; f < FIELDS; f++) {
        if (f >= D && check_random_below(3) == 0) continue;
        p->numbers[f] = malloc(counts[f] * sizeof(double) + 1);
        for (size_t i = 0; i < counts[f]; i++) p->numbers[f][i] = check_random_normal();
        if ((f == DELTA || f == BIAS) && !s->softplus) /* a step back in time grows without limit */
            for (size_t i = 0; i < counts[f]; i++) p->numbers[f][i] = fabs(p->numbers[f][i]) / 4;
        if (f == A)
            for (size_t i = 0; i < counts[f]; i++) p->numbers[f][i] = -fabs(p->numbers[f][i]);
        p->typed[f] = typed_copy(s->dtype, counts[f], p->numbers[f]);
    }
    s->u = p->typed[U];
    s->delta = p->typed[DELTA];
    s->a = p->typed[A];
    s->b = p->typed[B];
    s->c = p->typed[C];
    s->d = p->typed[D];
    s->z = p->typed[Z];
    s->delta_bias = p->typed[BIAS];
    s->initial_state = p->typed[STATE];
}

static void drop(problem *p) {
    for (size_t f = 0; f < FIELDS; f++) {
        free(p->numbers[f]);
        free(p->typed[f]);
    }
}

static long double delta_of(const problem *p, size_t batch, size_t t, size_t channel) {
    long double x = p->numbers[DELTA][(batch * p->scan.n + t) * p->scan.channels + channel];
    if (p->numbers[BIAS]) x += p->numbers[BIAS][channel];
    return !p->scan.softplus ? x : x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

typedef struct answer {
    double *output, *state;
    double *output_size, *state_size; /* sums of the terms' magnitudes */
} answer;

/* The recurrence as written. Sizes follow it with magnitudes in place of numbers. */
static void reference(const problem *p, answer *r) {
    const attn_scan *s = &p->scan;
    for (size_t i = 0; i < s->batch * s->channels * s->width; i++) {
        const size_t w = i % s->width, c = i / s->width % s->channels, b = i / s->width / s->channels;
        const size_t group = c / (s->channels / s->groups);
        long double h[64] = {0}, m[64] = {0};
        for (size_t k = 0; k < s->state && p->numbers[STATE]; k++)
            h[k] = p->numbers[STATE][i * s->state + k], m[k] = fabsl(h[k]);
        for (size_t t = 0; t < s->n; t++) {
            const size_t at = ((b * s->n + t) * s->channels + c) * s->width + w;
            const double *row_b = p->numbers[B] + ((b * s->n + t) * s->groups + group) * s->state;
            const double *row_c = p->numbers[C] + ((b * s->n + t) * s->groups + group) * s->state;
            const long double delta = delta_of(p, b, t, c), u = p->numbers[U][at];
            long double y = 0, size = 0;
            for (size_t k = 0; k < s->state; k++) {
                const long double decay = expl(delta * p->numbers[A][s->scalar_a ? c : c * s->state + k]);
                h[k] = decay * h[k] + delta * u * row_b[k];
                m[k] = decay * m[k] + fabsl(delta * u * row_b[k]);
                y += row_c[k] * h[k];
                size += fabsl(row_c[k]) * m[k];
            }
            if (p->numbers[D]) y += p->numbers[D][c] * u, size += fabsl(p->numbers[D][c] * u);
            const long double z = p->numbers[Z] ? p->numbers[Z][at] : 0;
            const long double gate = p->numbers[Z] ? z / (1 + expl(-z)) : 1;
            r->output[at] = (double)(y * gate);
            r->output_size[at] = (double)(size * fabsl(gate));
        }
        for (size_t k = 0; k < s->state; k++) {
            r->state[i * s->state + k] = (double)h[k];
            r->state_size[i * s->state + k] = (double)m[k];
        }
    }
}

/* (8 + t/2) eps sum |terms| with as many terms as there are steps and numbers of the state */
static void compare(const problem *p, const char *what, size_t count, const void *got, const double *wanted,
                    const double *sizes) {
    const attn_scan *s = &p->scan;
    const double eps = s->dtype == ATTN_F32 ? FLT_EPSILON : DBL_EPSILON;
    const double terms = (double)((s->n + 1) * (s->state + 1));
    for (size_t i = 0; i < count; i++) {
        const double x = number(s->dtype, got, i), bound = (8 + terms / 2) * eps * sizes[i];
        if (!CHECK(fabs(x - wanted[i]) <= bound, "%s[%zu] of %zu x %zu x %zu x %zu: %.17g, expected %.17g +- %.3g",
                   what, i, s->n, s->channels, s->width, s->state, x, wanted[i], bound))
            return;
    }
}

static void run(const attn_engine *engine, const attn_scan *scan, const attn_scan_results *results) {
    void *workspace = aligned_alloc(64, (attn_scan_workspace(engine, scan) + 63) / 64 * 64 + 64);
    attn_fault fault;
    const attn_status status = attn_scan_run(engine, scan, results, workspace, NULL, &fault);
    CHECK(status == ATTN_OK, "status %d", (int)status);
    free(workspace);
}

static void check_scan(const attn_kernel *kernel, attn_pool *pool, attn_scan scan) {
    problem p = {.scan = scan};
    draw(&p);
    const size_t size = attn_sizeof(scan.dtype), outputs = p.counts[U], states = p.counts[STATE];
    answer r = {malloc(outputs * 8 + 1), malloc(states * 8 + 1), malloc(outputs * 8 + 1), malloc(states * 8 + 1)};
    reference(&p, &r);
    attn_scan_results alone = {.output = malloc(outputs * size + 1), .final_state = malloc(states * size + 1)};
    attn_scan_results helped = {.output = malloc(outputs * size + 1), .final_state = malloc(states * size + 1)};
    run(&(attn_engine){kernel, NULL}, &p.scan, &alone);
    run(&(attn_engine){kernel, pool}, &p.scan, &helped);
    compare(&p, "output", outputs, alone.output, r.output, r.output_size);
    compare(&p, "final_state", states, alone.final_state, r.state, r.state_size);
    CHECK(memcmp(alone.output, helped.output, outputs * size) == 0, "the bits of output depend on threads");
    CHECK(memcmp(alone.final_state, helped.final_state, states * size) == 0, "the bits of the state depend on threads");
    free(alone.output), free(alone.final_state), free(helped.output), free(helped.final_state);
    free(r.output), free(r.state), free(r.output_size), free(r.state_size);
    drop(&p);
}

static attn_pool *pool;

static const attn_kernel *next_kernel(size_t *index) {
    const attn_kernel *kernel;
    while ((kernel = attn_kernel_at((*index)++)) != NULL)
        if (attn_kernel_supported(kernel)) return kernel;
    return NULL;
}

static void test_random_scans(void) {
    const attn_kernel *kernel;
    for (size_t row = 0; (kernel = next_kernel(&row)) != NULL;)
        for (size_t round = 0; round < check_rounds(200); round++) {
            const size_t groups = 1 + check_random_below(3);
            const attn_scan scan = {.dtype = check_random_below(2) ? ATTN_F64 : ATTN_F32,
                                    .batch = check_random_below(3),
                                    .n = check_random_below(40),
                                    .channels = groups * (1 + check_random_below(20)),
                                    .width = check_random_below(2) ? 1 : 1 + check_random_below(36),
                                    .state = 1 + check_random_below(20),
                                    .groups = groups,
                                    .scalar_a = check_random_below(2) == 1,
                                    .softplus = check_random_below(2) == 1};
            check_scan(kernel, pool, scan);
        }
}

/* so long that the steps are cut into chunks */
static void test_long_scans(void) {
    const attn_kernel *kernel;
    for (size_t row = 0; (kernel = next_kernel(&row)) != NULL;)
        for (size_t dtype = 0; dtype < 2; dtype++)
            check_scan(kernel, pool,
                       (attn_scan){.dtype = dtype ? ATTN_F64 : ATTN_F32,
                                   .batch = 1,
                                   .n = 20000,
                                   .channels = 3,
                                   .width = 1,
                                   .state = 4,
                                   .groups = 1,
                                   .softplus = true});
}

/* The matrix is the same calculation: y_t = sum of M[t, s] delta_s u_s. */
static void test_matrix_reproduces_the_output(void) {
    const attn_engine engine = {attn_kernel_find(NULL), pool};
    for (size_t round = 0; round < check_rounds(40); round++) {
        problem p = {.scan = {.dtype = ATTN_F64,
                              .batch = 1 + check_random_below(2),
                              .n = 1 + check_random_below(12),
                              .channels = 2,
                              .width = 1 + check_random_below(3),
                              .state = 1 + check_random_below(5),
                              .groups = 1 + check_random_below(2),
                              .scalar_a = true,
                              .softplus = true}};
        draw(&p);
        p.scan.d = p.scan.z = p.scan.initial_state = NULL;
        const attn_scan *s = &p.scan;
        const size_t steps = s->batch * s->n;
        double *y = malloc(p.counts[U] * 8), *m = malloc(steps * s->channels * s->n * 8);
        double *delta = malloc(steps * s->channels * 8);
        run(&engine, s, &(attn_scan_results){.output = y, .matrix = m, .delta = delta});
        for (size_t i = 0; i < p.counts[U]; i++) {
            const size_t w = i % s->width, c = i / s->width % s->channels, row = i / s->width / s->channels;
            const size_t b = row / s->n, t = row % s->n;
            double sum = 0, size = 1;
            for (size_t from = 0; from < s->n; from++) {
                const double weight = m[((b * s->channels + c) * s->n + t) * s->n + from];
                CHECK(from <= t || weight == 0, "M[%zu, %zu] is %g", t, from, weight);
                const size_t at = (b * s->n + from) * s->channels + c;
                const double term = weight * delta[at] * p.numbers[U][at * s->width + w];
                sum += term;
                size += fabs(term);
            }
            CHECK(fabs(sum - y[i]) <= 1e-13 * size, "y[%zu] = %.17g, by the matrix %.17g", i, y[i], sum);
        }
        free(y), free(m), free(delta);
        drop(&p);
    }
}

/* A scan that is cut in two, the state carried over, gives what one gives. */
static void test_state_carries_over_a_cut(void) {
    const attn_engine engine = {attn_kernel_find(NULL), NULL};
    problem p = {.scan = {.dtype = ATTN_F64, .batch = 1, .n = 31, .channels = 5, .width = 1, .state = 3, .groups = 1}};
    draw(&p);
    double whole[31 * 5], parts[31 * 5], state[15], end[15];
    run(&engine, &p.scan, &(attn_scan_results){.output = whole, .final_state = end});
    attn_scan half = p.scan;
    half.n = 12;
    run(&engine, &half, &(attn_scan_results){.output = parts, .final_state = state});
    half.n = 31 - 12;
    half.u = p.numbers[U] + 12 * 5;
    half.delta = p.numbers[DELTA] + 12 * 5;
    half.b = p.numbers[B] + 12 * 3;
    half.c = p.numbers[C] + 12 * 3;
    if (half.z) half.z = p.numbers[Z] + 12 * 5;
    half.initial_state = state;
    double last[15];
    run(&engine, &half, &(attn_scan_results){.output = parts + 12 * 5, .final_state = last});
    CHECK(memcmp(whole, parts, sizeof whole) == 0, "outputs differ");
    CHECK(memcmp(end, last, sizeof end) == 0, "states differ");
    drop(&p);
}

static void test_overflow_is_said(void) {
    const attn_engine engine = {attn_kernel_find(NULL), NULL};
    const float u[2] = {1, 1}, delta[2] = {100, 100}, a[1] = {1}, b[2] = {1, 1}, c[2] = {1, 1};
    float y[2];
    const attn_scan scan = {ATTN_F32, 1, 2, 1, 1, 1, 1, u, delta, a, false, b, c, NULL, NULL, NULL, false, NULL};
    void *workspace = aligned_alloc(64, attn_scan_workspace(&engine, &scan) / 64 * 64 + 64);
    attn_fault fault;
    CHECK(attn_scan_run(&engine, &scan, &(attn_scan_results){.output = y}, workspace, NULL, &fault) == ATTN_OVERFLOW,
          "exp(100) 100 fits float32");
    free(workspace);
}

/* ---- merge ------------------------------------------------------------------------------------------------------ */

static void test_merge(void) {
    if (!check_extended()) {
        check_skip("long double is no wider than double here");
        return;
    }
    for (size_t round = 0; round < check_rounds(300); round++) {
        const attn_dtype dtype = check_random_below(2) ? ATTN_F64 : ATTN_F32;
        const size_t shards = 1 + check_random_below(5), rows = check_random_below(6), d = check_random_below(5);
        double *o = malloc(shards * rows * d * 8 + 1), *l = malloc(shards * rows * 8 + 1);
        for (size_t i = 0; i < shards * rows * d; i++) o[i] = check_random_normal();
        for (size_t i = 0; i < shards * rows; i++)
            l[i] = check_random_below(4) == 0 ? -INFINITY : 30 * check_random_normal();
        void *to = typed_copy(dtype, shards * rows * d, o), *tl = typed_copy(dtype, shards * rows, l);
        void *joined = malloc(rows * d * 8 + 1), *lse = malloc(rows * 8 + 1);
        attn_merge(dtype, shards, rows, d, to, tl, joined, lse);
        const double eps = dtype == ATTN_F32 ? FLT_EPSILON : DBL_EPSILON;
        for (size_t row = 0; row < rows; row++) {
            long double sum = 0, greatest = -INFINITY;
            for (size_t p = 0; p < shards; p++) greatest = fmaxl(greatest, l[p * rows + row]);
            for (size_t p = 0; p < shards; p++)
                if (greatest != -INFINITY) sum += expl(l[p * rows + row] - greatest);
            const double wanted = (double)(greatest + logl(sum)), got = number(dtype, lse, row);
            if (greatest == -INFINITY)
                CHECK(got == -INFINITY, "lse of nothing is %g", got);
            else
                CHECK(fabs(got - wanted) <= 2 * eps * (1 + fabs(wanted)), "lse %.17g, expected %.17g", got, wanted);
            for (size_t c = 0; c < d; c++) {
                long double x = 0;
                for (size_t p = 0; p < shards; p++)
                    if (greatest != -INFINITY)
                        x += expl(l[p * rows + row] - greatest) / sum * o[(p * rows + row) * d + c];
                const double y = number(dtype, joined, row * d + c);
                CHECK(fabs(y - (double)x) <= 2 * eps * (1 + fabs((double)x)), "output %.17g, expected %.17g", y,
                      (double)x);
            }
        }
        free(o), free(l), free(to), free(tl), free(joined), free(lse);
    }
}

int main(int argc, char **argv) {
    const check_test tests[] = {CHECK_TEST(test_random_scans),
                                CHECK_TEST(test_long_scans),
                                CHECK_TEST(test_matrix_reproduces_the_output),
                                CHECK_TEST(test_state_carries_over_a_cut),
                                CHECK_TEST(test_overflow_is_said),
                                CHECK_TEST(test_merge)};
    pool = attn_pool_new(3);
    const int status = check_main(argc, argv, tests, sizeof tests / sizeof *tests);
    attn_pool_free(pool);
    return status;
}
