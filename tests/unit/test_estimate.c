/* GET /estimate: counts that are known, and its errors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../support/exchange.h"

/* A number of the reply at "a.b" or "a"; NAN: none */
static double number_of(const json_t *json, const char *path) {
    char outer[40];
    const char *dot = strchr(path, '.');
    if (!dot) return json_is_number(json_object_get(json, path)) ? json_number_value(json_object_get(json, path)) : NAN;
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - path), path);
    return number_of(json_object_get(json, outer), dot + 1);
}

static void expect(const char *query, const char *path, double wanted) {
    char target[200];
    snprintf(target, sizeof target, "/estimate%s", query);
    exchange answer = exchange_send("GET", target, (exchange_headers){{NULL}}, "");
    const double x = number_of(answer.json, path);
    CHECK(answer.status == 200 && fabs(x - wanted) <= 1e-12 * wanted, "%s %s: %.17g instead of %.17g (%s)", query, path,
          x, wanted, answer.body);
    exchange_free(&answer);
}

static void test_counts(void) {
    expect("?n=1024", "multiply_adds.projections", 12582912);
    expect("?n=1024", "multiply_adds.scores", 67108864);
    expect("?n=1024", "multiply_adds.output", 67108864);
    expect("?n=1024", "softmax_elements", 1048576);
    expect("?n=1024&heads=2&d_model=10", "multiply_adds.output_projection", 1024 * 128 * 10);
    expect("?n=1024&heads=4&kv_heads=2", "multiply_adds.projections", 1024.0 * 256 * (256 + 256));
    expect("?n=512", "bytes.weights_materialized", 524288);
    expect("?n=128000", "bytes.weights_materialized", 32768000000.0);
    expect("?kv_heads=8&heads=32&d_k=128", "bytes.kv_cache", 16777216);
    expect("?n=10&n_k=3&d_k=5&d_v=7&dtype=F64&batch=2", "bytes.kv_cache", 2 * 3 * 12 * 8);
}

static void test_open_cells(void) {
    expect("?n=4&causal=true", "open_cells", 10);
    expect("?causal=true", "open_cells", 8390656);
    expect("?n=100&n_k=7&window_left=3&window_right=2", "open_cells", 39);
    expect("?n=5&causal=true&window_right=3&heads=2", "open_cells", 30);
    expect("?n=5&window_left=0&window_right=0&batch=3", "open_cells", 15);
    expect("?n=3&n_k=9&causal=true", "open_cells", 6);
    expect("?n=9&n_k=3&causal=true", "open_cells", 24);
}

/* cell by cell, over small sizes */
static void test_open_cells_one_by_one(void) {
    for (int round = 0; round < 60; round++) {
        const int n = 1 + (int)check_random_below(9), n_k = 1 + (int)check_random_below(9);
        const int left = (int)check_random_below(6) - 1, right = (int)check_random_below(6) - 1;
        const bool causal = check_random_below(2);
        int open = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n_k; j++)
                open += (!causal || j <= i) && (left < 0 || j >= i - left) && (right < 0 || j <= i + right);
        if (open == 0) continue;
        char query[120];
        snprintf(query, sizeof query, "?n=%d&n_k=%d&window_left=%d&window_right=%d&causal=%s", n, n_k, left, right,
                 causal ? "true" : "false");
        expect(query, "open_cells", open);
    }
}

static void test_growth(void) {
    expect("", "growth", 4);
    expect("?causal=true&n=4", "growth", 3.6);
    expect("?n_k=100&n=50", "growth", 2);
    expect("", "layers.rnn.n_doubled", 2);
    expect("", "layers.self_attention.d_doubled", 2);
}

static void test_time(void) {
    exchange answer = exchange_send("GET", "/estimate?n=1000", (exchange_headers){{NULL}}, "");
    const double rate = number_of(answer.json, "measured_on.multiply_adds_per_second");
    CHECK(rate > 0, "%s", answer.body);
    expect("?n=1000", "seconds", 2.0 * 1000 * 1000 * 64 / rate);
    exchange_free(&answer);
}

static void error(const char *query, const char *code, const char *detail) {
    char target[200];
    snprintf(target, sizeof target, "/estimate%s", query);
    exchange answer = exchange_send("GET", target, (exchange_headers){{NULL}}, "");
    CHECK(answer.status == 422 && strcmp(exchange_member(&answer, "code"), code) == 0 &&
              strstr(exchange_member(&answer, "detail"), detail),
          "%s: %s", query, answer.body);
    exchange_free(&answer);
}

static void test_errors(void) {
    error("?nk=3", "unknown_field", "n_k");
    error("?heads=3&kv_heads=2", "out_of_range", "divide");
    error("?n=0", "out_of_range", "query string: n:");
    error("?n=4294967296", "out_of_range", "2^31");
    error("?n=abc", "wrong_type", "integer");
    error("?dtype=F8", "out_of_range", "BF16");
    error("?window_left=-2", "out_of_range", "-1");
    error("?causal=2", "wrong_type", "causal");
}

int main(int argc, char **argv) {
    exchange_init();
    const check_test tests[] = {
        CHECK_TEST(test_counts), CHECK_TEST(test_open_cells), CHECK_TEST(test_open_cells_one_by_one),
        CHECK_TEST(test_growth), CHECK_TEST(test_time),       CHECK_TEST(test_errors),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
