/* Linear attention against its formula in long double. */
#include "../../core/attention.h"
#include "../support/check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct linear_case {
    attn_problem problem;
    attn_linear linear;
    double *q, *k, *v, *past_state, *past_normalizer;
    int64_t *lengths, *offsets;
    uint8_t *mask;
    void *owned[6];
} linear_case;

static double number(attn_dtype dtype, const void *data, size_t i) {
    return dtype == ATTN_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void *draw(linear_case *c, size_t slot, size_t count, double **numbers, bool positive) {
    const attn_dtype dtype = c->problem.dtype;
    char *typed = malloc(count * attn_sizeof(dtype) + 1);
    *numbers = malloc(count * sizeof(double) + 1);
    for (size_t i = 0; i < count; i++) {
        double x = check_random_normal();
        if (positive) x = fabs(x);
        if (dtype == ATTN_F32) x = (double)(float)x;
        (*numbers)[i] = x;
        if (dtype == ATTN_F32)
            ((float *)(void *)typed)[i] = (float)x;
        else
            ((double *)(void *)typed)[i] = x;
    }
    return c->owned[slot] = typed;
}

static void draw_case(linear_case *c) {
    attn_problem *p = &c->problem;
    const size_t b = p->batch, states = b * p->kv_heads * p->d_k;
    p->kind = ATTN_LINEAR;
    p->linear = &c->linear;
    p->scale = 1;
    p->q = (attn_view){draw(c, 0, b * p->heads * p->n_q * p->d_k, &c->q, false), p->heads * p->n_q * p->d_k,
                       p->n_q * p->d_k, p->d_k};
    p->k = (attn_view){draw(c, 1, b * p->kv_heads * p->n_new * p->d_k, &c->k, false), p->kv_heads * p->n_new * p->d_k,
                       p->n_new * p->d_k, p->d_k};
    p->v = (attn_view){draw(c, 2, b * p->kv_heads * p->n_new * p->d_v, &c->v, false), p->kv_heads * p->n_new * p->d_v,
                       p->n_new * p->d_v, p->d_v};
    if (check_random_below(2)) {
        c->linear.past_state = draw(c, 3, states * p->d_v, &c->past_state, false);
        c->linear.past_normalizer = draw(c, 4, states, &c->past_normalizer, true);
    }
    c->linear.feature_map = check_random_below(2) ? ATTN_RELU : ATTN_ELU_PLUS_1;
    c->linear.eps = check_random_below(2) ? 0 : 0.125;
    if (check_random_below(3) == 0) {
        c->mask = malloc(b * p->n_new + 1);
        for (size_t i = 0; i < b * p->n_new; i++) c->mask[i] = check_random_below(4) != 0;
        c->linear.key_mask = c->mask;
    }
    c->lengths = malloc((b + 1) * sizeof *c->lengths);
    c->offsets = malloc((b + 1) * sizeof *c->offsets);
    for (size_t i = 0; i < b; i++) {
        c->lengths[i] = (int64_t)check_random_below(p->n_new + 1);
        c->offsets[i] = (int64_t)check_random_below(5) - 2;
    }
    if (check_random_below(3) == 0) p->kv_lengths = c->lengths;
    if (p->causal && check_random_below(2)) p->query_offset = c->offsets;
}

static void drop(linear_case *c) {
    free(c->q), free(c->k), free(c->v), free(c->past_state), free(c->past_normalizer);
    free(c->lengths), free(c->offsets), free(c->mask);
    for (size_t i = 0; i < 6; i++) free(c->owned[i]);
}

static long double phi(const linear_case *c, double x) {
    if (c->linear.feature_map == ATTN_RELU) return x > 0 ? x : 0;
    return x > 0 ? (long double)x + 1 : expl(x);
}

static bool open_to(const linear_case *c, size_t b, size_t i, size_t j) {
    const attn_problem *p = &c->problem;
    if (p->kv_lengths && (int64_t)j >= p->kv_lengths[b]) return false;
    if (c->mask && !c->mask[b * p->n_new + j]) return false;
    return !p->causal || (int64_t)j <= (int64_t)i + (p->query_offset ? p->query_offset[b] : 0);
}

/* One row from the formula. weights: (n_new); terms: their number, for the bound. */
static void row_of(const linear_case *c, size_t b, size_t h, size_t i, long double *weights, long double *output) {
    const attn_problem *p = &c->problem;
    const size_t pair = b * p->kv_heads + h / (p->heads / p->kv_heads);
    const double *q = c->q + ((b * p->heads + h) * p->n_q + i) * p->d_k;
    long double sum = c->linear.eps, past[8] = {0};
    for (size_t t = 0; t < p->d_k && c->past_state; t++) {
        sum += phi(c, q[t]) * c->past_normalizer[pair * p->d_k + t];
        for (size_t e = 0; e < p->d_v; e++) past[e] += phi(c, q[t]) * c->past_state[(pair * p->d_k + t) * p->d_v + e];
    }
    for (size_t j = 0; j < p->n_new; j++) {
        weights[j] = 0;
        for (size_t t = 0; t < p->d_k && open_to(c, b, i, j); t++)
            weights[j] += phi(c, q[t]) * phi(c, c->k[(pair * p->n_new + j) * p->d_k + t]);
        sum += weights[j];
    }
    for (size_t j = 0; j < p->n_new; j++) weights[j] = sum == 0 ? 0 : weights[j] / sum;
    for (size_t e = 0; e < p->d_v; e++) {
        output[e] = sum == 0 ? 0 : past[e] / sum;
        for (size_t j = 0; j < p->n_new; j++) output[e] += weights[j] * c->v[(pair * p->n_new + j) * p->d_v + e];
    }
}

/* What a row's terms add up to, for its bound: products of positive numbers have their own size, v and the past may
 * cancel. */
static double size_of(const linear_case *c, size_t b, size_t h, size_t i, const long double *weights, size_t e) {
    const attn_problem *p = &c->problem;
    const size_t pair = b * p->kv_heads + h / (p->heads / p->kv_heads);
    long double size = 0, sum = c->linear.eps, past = 0;
    for (size_t j = 0; j < p->n_new; j++) size += weights[j] * fabs(c->v[(pair * p->n_new + j) * p->d_v + e]);
    if (!c->past_state) return (double)size;
    const double *q = c->q + ((b * p->heads + h) * p->n_q + i) * p->d_k;
    for (size_t t = 0; t < p->d_k; t++) {
        sum += phi(c, q[t]) * c->past_normalizer[pair * p->d_k + t];
        past += phi(c, q[t]) * fabs(c->past_state[(pair * p->d_k + t) * p->d_v + e]);
    }
    return (double)(size + (sum > 0 ? past / sum : 0));
}

static void run(const attn_engine *engine, const attn_problem *problem, const attn_results *results) {
    void *workspace = aligned_alloc(64, (attn_workspace(engine, problem, results) + 63) / 64 * 64 + 64);
    CHECK(attn_run(engine, problem, results, workspace, NULL, NULL) == ATTN_OK, "the run failed");
    free(workspace);
}

static attn_pool *pool;

static void check_case(const attn_kernel *kernel, attn_problem problem) {
    linear_case c = {.problem = problem};
    draw_case(&c);
    const attn_problem *p = &c.problem;
    const size_t rows = p->batch * p->heads * p->n_q, size = attn_sizeof(p->dtype);
    const double eps = p->dtype == ATTN_F32 ? FLT_EPSILON : DBL_EPSILON;
    const double bound = (8 + (double)((p->n_new + 1) * (p->d_k + 1)) / 2) * eps;
    void *output = malloc(rows * p->d_v * size + 1), *weights = malloc(rows * p->n_new * size + 1);
    void *alone = malloc(rows * p->d_v * size + 1);
    const attn_out_view view = {output, p->heads * p->n_q * p->d_v, p->n_q * p->d_v, p->d_v};
    attn_out_view other = view;
    other.data = alone;
    run(&(attn_engine){kernel, pool}, p, &(attn_results){.output = view, .weights = weights});
    run(&(attn_engine){kernel, NULL}, p, &(attn_results){.output = other});
    CHECK(memcmp(output, alone, rows * p->d_v * size) == 0, "bits depend on threads or on the weights");
    long double *row = malloc((p->n_new + 1) * sizeof *row), wanted[8];
    for (size_t r = 0; r < rows; r++) {
        const size_t i = r % p->n_q, h = r / p->n_q % p->heads, b = r / p->n_q / p->heads;
        if (p->n_new > 300 && r % 97) continue; /* the formula takes n^2 */
        row_of(&c, b, h, i, row, wanted);
        for (size_t j = 0; j < p->n_new; j++) {
            const double got = number(p->dtype, weights, r * p->n_new + j);
            CHECK(fabs(got - (double)row[j]) <= bound * (double)row[j] + 1e-40, "weight %.17g, expected %.17g", got,
                  (double)row[j]);
        }
        for (size_t e = 0; e < p->d_v; e++) {
            const double got = number(p->dtype, output, r * p->d_v + e);
            CHECK(fabs(got - (double)wanted[e]) <= 2 * bound * (size_of(&c, b, h, i, row, e) + fabs((double)wanted[e])),
                  "output %.17g, expected %.17g", got, (double)wanted[e]);
        }
    }
    free(row), free(output), free(weights), free(alone);
    drop(&c);
}

static void test_random(void) {
    for (size_t k = 0; attn_kernel_at(k); k++)
        for (size_t round = 0; attn_kernel_supported(attn_kernel_at(k)) && round < check_rounds(200); round++) {
            const size_t kv = 1 + check_random_below(2);
            check_case(attn_kernel_at(k), (attn_problem){.dtype = check_random_below(2) ? ATTN_F64 : ATTN_F32,
                                                         .batch = check_random_below(3),
                                                         .kv_heads = kv,
                                                         .heads = kv * (1 + check_random_below(2)),
                                                         .n_q = check_random_below(150),
                                                         .n_new = check_random_below(150),
                                                         .d_k = 1 + check_random_below(20),
                                                         .d_v = check_random_below(8),
                                                         .causal = check_random_below(2) == 1});
        }
}

/* several chunks of keys and of queries */
static void test_chunks(void) {
    for (size_t round = 0; round < 4; round++)
        check_case(attn_kernel_find(NULL), (attn_problem){.dtype = round % 2 ? ATTN_F64 : ATTN_F32,
                                                          .batch = 1,
                                                          .heads = 1,
                                                          .kv_heads = 1,
                                                          .n_q = 2500,
                                                          .n_new = 2500,
                                                          .d_k = 5,
                                                          .d_v = 3,
                                                          .causal = round < 2});
}

/* A causal problem in two parts, the state carried over, gives what one gives. */
static void test_state_carries_over(void) {
    linear_case c = {
        .problem = {
            .dtype = ATTN_F64, .batch = 1, .heads = 1, .kv_heads = 1, .n_q = 20, .n_new = 20, .d_k = 4, .d_v = 3}};
    c.problem.causal = true;
    do {
        drop(&c);
        memset(c.owned, 0, sizeof c.owned);
        c.q = c.k = c.v = c.past_state = c.past_normalizer = NULL, c.lengths = c.offsets = NULL, c.mask = NULL;
        c.linear = (attn_linear){0};
        c.problem.kv_lengths = c.problem.query_offset = NULL;
        draw_case(&c);
    } while (c.mask || c.problem.kv_lengths || c.problem.query_offset);
    const attn_engine engine = {attn_kernel_find(NULL), NULL};
    double whole[60], parts[60], state[12], normalizer[4];
    run(&engine, &c.problem, &(attn_results){.output = {whole, 60, 60, 3}});
    attn_problem half = c.problem;
    half.n_q = half.n_new = 7;
    run(&engine, &half,
        &(attn_results){.output = {parts, 60, 60, 3}, .present_state = state, .present_normalizer = normalizer});
    attn_linear next = c.linear;
    next.past_state = state;
    next.past_normalizer = normalizer;
    half.linear = &next;
    half.n_q = half.n_new = 13;
    half.q.data = c.q + 7 * 4;
    half.k.data = c.k + 7 * 4;
    half.v.data = c.v + 7 * 3;
    run(&engine, &half, &(attn_results){.output = {parts + 21, 60, 60, 3}});
    for (size_t i = 0; i < 60; i++)
        CHECK(fabs(whole[i] - parts[i]) <= 1e-12 * (1 + fabs(whole[i])), "[%zu] %.17g, in two parts %.17g", i, whole[i],
              parts[i]);
    drop(&c);
}

int main(int argc, char **argv) {
    const check_test tests[] = {CHECK_TEST(test_random), CHECK_TEST(test_chunks), CHECK_TEST(test_state_carries_over)};
    pool = attn_pool_new(3);
    const int status = check_main(argc, argv, tests, sizeof tests / sizeof *tests);
    attn_pool_free(pool);
    return status;
}
