/* Linformer and differential attention against their formulas in long double. */
#include "../../core/attention.h"
#include "../support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

static double q[MOST], q_2[MOST], k[MOST], k_2[MOST], v[MOST], e[MOST], f[MOST];

static void draw(double *x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] = check_random_normal();
}

static attn_view view_of(const double *data, size_t heads, size_t n, size_t d) {
    return (attn_view){data, heads * n * d, n * d, d};
}

static void run(const attn_problem *problem, const attn_results *results, attn_pool *pool) {
    const attn_engine engine = {attn_kernel_find(NULL), pool};
    void *workspace = aligned_alloc(64, (attn_workspace(&engine, problem, results) + 63) / 64 * 64 + 64);
    CHECK(attn_run(&engine, problem, results, workspace, NULL, NULL) == ATTN_OK, "the run failed");
    free(workspace);
}

/* weights (n_k) of one row: softmax(scale q.k), keys (n_k, d) */
static void softmax(size_t n, size_t d, long double scale, const double *query, const long double *keys, size_t open,
                    long double *weights) {
    long double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < open; j++) {
        weights[j] = 0;
        for (size_t c = 0; c < d; c++) weights[j] += scale * query[c] * keys[j * d + c];
        most = fmaxl(most, weights[j]);
    }
    for (size_t j = 0; j < open; j++) sum += weights[j] = expl(weights[j] - most);
    for (size_t j = 0; j < n; j++) weights[j] = j < open ? weights[j] / sum : 0;
}

static void check_row(const char *what, size_t n, const double *got, const long double *wanted) {
    for (size_t j = 0; j < n; j++)
        CHECK(fabsl(got[j] - wanted[j]) <= 1e-13L * (1 + fabsl(wanted[j])), "%s: %.17g, expected %.17Lg", what, got[j],
              wanted[j]);
}

static void test_linformer(void) {
    for (size_t round = 0; round < check_rounds(100); round++) {
        const size_t kv = 1 + check_random_below(2), heads = kv * (1 + check_random_below(2)),
                     n = 1 + check_random_below(20);
        const size_t n_q = check_random_below(8), d = 1 + check_random_below(6), d_v = check_random_below(6);
        attn_linformer options = {1 + check_random_below(9), check_random_below(2) == 1, e, f};
        draw(q, 2 * heads * n_q * d), draw(k, 2 * kv * n * d), draw(v, 2 * kv * n * d_v);
        draw(e, heads * options.keys * n), draw(f, heads * options.keys * n);
        const attn_problem p = {.dtype = ATTN_F64,
                                .kind = ATTN_LINFORMER,
                                .batch = 2,
                                .heads = heads,
                                .kv_heads = kv,
                                .n_q = n_q,
                                .n_new = n,
                                .d_k = d,
                                .d_v = d_v,
                                .q = view_of(q, heads, n_q, d),
                                .k = view_of(k, kv, n, d),
                                .v = view_of(v, kv, n, d_v),
                                .scale = 0.5,
                                .linformer = &options};
        static double output[MOST], weights[MOST];
        run(&p, &(attn_results){.output = {output, heads * n_q * d_v, n_q * d_v, d_v}, .weights = weights}, NULL);
        for (size_t r = 0; r < 2 * heads * n_q; r++) {
            const size_t h = r / n_q % heads, pair = r / n_q / heads * kv + h / (heads / kv), keys = options.keys;
            long double projected[128], row[16], wanted[8] = {0};
            const double *of_e = e + (options.per_head ? h * keys * n : 0),
                         *of_f = f + (options.per_head ? h * keys * n : 0);
            for (size_t i = 0; i < keys * d; i++) {
                projected[i] = 0;
                for (size_t j = 0; j < n; j++)
                    projected[i] += (long double)of_e[i / d * n + j] * k[(pair * n + j) * d + i % d];
            }
            softmax(keys, d, 0.5L, q + r * d, projected, keys, row);
            for (size_t c = 0; c < d_v; c++)
                for (size_t i = 0; i < keys; i++)
                    for (size_t j = 0; j < n; j++) wanted[c] += row[i] * of_f[i * n + j] * v[(pair * n + j) * d_v + c];
            check_row("weights", keys, weights + r * keys, row);
            check_row("output", d_v, output + r * d_v, wanted);
        }
    }
}

static void test_differential(void) {
    for (size_t round = 0; round < check_rounds(100); round++) {
        const size_t kv = 1 + check_random_below(2), heads = kv * (1 + check_random_below(2)),
                     n = 1 + check_random_below(20);
        const size_t d = 1 + check_random_below(6), d_v = check_random_below(6);
        const double lambda[4] = {0.3, -0.5, 0.8, 1.5};
        const attn_differential options = {view_of(q_2, heads, n, d), view_of(k_2, kv, n, d), {0}, lambda};
        draw(q, heads * n * d), draw(k, kv * n * d), draw(v, kv * n * d_v), draw(q_2, heads * n * d),
            draw(k_2, kv * n * d);
        const attn_problem p = {.dtype = ATTN_F64,
                                .kind = ATTN_DIFFERENTIAL,
                                .batch = 1,
                                .heads = heads,
                                .kv_heads = kv,
                                .n_q = n,
                                .n_new = n,
                                .d_k = d,
                                .d_v = d_v,
                                .q = view_of(q, heads, n, d),
                                .causal = true,
                                .k = view_of(k, kv, n, d),
                                .v = view_of(v, kv, n, d_v),
                                .scale = 0.5,
                                .differential = &options};
        static double output[MOST], weights[MOST];
        run(&p, &(attn_results){.output = {output, heads * n * d_v, n * d_v, d_v}, .weights = weights}, NULL);
        for (size_t r = 0; r < heads * n; r++) {
            const size_t h = r / n, g = h / (heads / kv);
            long double keys[128], keys_2[128], row[32], row_2[32], wanted[8] = {0};
            for (size_t i = 0; i < n * d; i++) keys[i] = k[g * n * d + i], keys_2[i] = k_2[g * n * d + i];
            softmax(n, d, 0.5L, q + r * d, keys, r % n + 1, row);
            softmax(n, d, 0.5L, q_2 + r * d, keys_2, r % n + 1, row_2);
            for (size_t j = 0; j < n; j++) {
                row[j] -= lambda[h] * row_2[j];
                for (size_t c = 0; c < d_v; c++) wanted[c] += row[j] * v[(g * n + j) * d_v + c];
            }
            check_row("weights", n, weights + r * n, row);
            check_row("output", d_v, output + r * d_v, wanted);
        }
    }
}

int main(int argc, char **argv) {
    const check_test tests[] = {CHECK_TEST(test_linformer), CHECK_TEST(test_differential)};
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
