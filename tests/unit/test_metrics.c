/* Metrics: valid exposition text, counts that add up, fixed labels, zeros from the start. */
#include "../support/check.h"

#include "../../server/server.h"

#include <stdlib.h>
#include <string.h>

static const srv_gauges gauges = {
    .queue_limit = 256, .workers = 2, .ready = true, .kernel = "k", .blas = "b", .mhd = "m"};

static char *text_of(srv_metrics *metrics) {
    size_t length = 0;
    char *bytes = srv_metrics_text(metrics, &gauges, &length);
    char *text = bytes ? strndup(bytes, length) : NULL;
    free(bytes);
    return text;
}

/* The value of the sample that begins with `series` and a space; -1: not there. */
static double sample(const char *text, const char *series) {
    size_t n = strlen(series);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, series, n) == 0 && line[n] == ' ') return strtod(line + n + 1, NULL);
    }
    return -1;
}

static void test_zero_from_the_start(void) {
    srv_metrics *metrics = srv_metrics_new();
    CHECK_FATAL(metrics != NULL, "no memory");
    char *text = text_of(metrics);
    CHECK_FATAL(text != NULL, "no memory");
    static const char *const zeros[] = {"attentiond_rejected_total{reason=\"queue_full\"}",
                                        "attentiond_rejected_total{reason=\"draining\"}",
                                        "attentiond_errors_total{code=\"invalid_json\"}",
                                        "attentiond_errors_total{code=\"internal\"}",
                                        "attentiond_cancelled_total{stage=\"compute\"}",
                                        "attentiond_stage_duration_seconds_count{route=\"/mha\",stage=\"encode\"}",
                                        "attentiond_keys_count{route=\"/attention\"}",
                                        "attentiond_requests_in_flight"};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        CHECK(sample(text, zeros[i]) == 0, "%s is %g", zeros[i], sample(text, zeros[i]));
    CHECK(sample(text, "attentiond_ready") == 1 && sample(text, "process_start_time_seconds") > 1e9, "gauges");
    free(text);
    srv_metrics_free(metrics);
}

static void record(srv_metrics *metrics, const char *method, const char *route, int status, double seconds,
                   const api_trace *trace) {
    const srv_record one = {.method = method,
                            .route = route,
                            .client = "c",
                            .status = status,
                            .bytes_in = 300,
                            .bytes_out = 70,
                            .seconds = seconds,
                            .trace = trace,
                            .code = status == 422 ? "ragged" : NULL};
    srv_metrics_record(metrics, &one);
}

static void test_counts_add_up(void) {
    srv_metrics *metrics = srv_metrics_new();
    CHECK_FATAL(metrics != NULL, "no memory");
    const api_trace trace = {.route = "/attention",
                             .format = "json",
                             .computes = true,
                             .has_problem = true,
                             .n_k = 16,
                             .flops = 1000,
                             .times = {.decode = 2e-5, .compute = 0.5}};
    for (int i = 0; i < 10; i++) record(metrics, "POST", "/attention", 200, 0.0002, &trace);
    record(metrics, "POST", "/attention", 422, 100, &trace);
    record(metrics, "BREW", "/coffee", 418, 1, NULL);
    char *text = text_of(metrics);
    CHECK_FATAL(text != NULL, "no memory");
#define REQUESTS(suffix, method, route, status, more)                                            \
    sample(text, "http_server_request_duration_seconds_" suffix "{http_request_method=\"" method \
                 "\",http_route=\"" route "\",http_response_status_code=\"" status "\"" more "}")
    CHECK(REQUESTS("count", "POST", "/attention", "200", "") == 10, "count");
    CHECK(REQUESTS("bucket", "POST", "/attention", "200", ",le=\"0.0001\"") == 0, "below");
    CHECK(REQUESTS("bucket", "POST", "/attention", "200", ",le=\"0.00025\"") == 10, "within");
    CHECK(REQUESTS("bucket", "POST", "/attention", "422", ",le=\"60\"") == 0, "beyond");
    CHECK(REQUESTS("bucket", "POST", "/attention", "422", ",le=\"+Inf\"") == 1, "infinity");
    CHECK(REQUESTS("count", "_OTHER", "unmatched", "500", "") == 1, "other");
    CHECK(sample(text, "attentiond_errors_total{code=\"ragged\"}") == 1, "error");
    CHECK(sample(text, "attentiond_keys_bucket{route=\"/attention\",le=\"4\"}") == 0, "keys below");
    CHECK(sample(text, "attentiond_keys_bucket{route=\"/attention\",le=\"16\"}") == 11, "keys");
    CHECK(sample(text, "attentiond_flops_total{route=\"/attention\"}") == 11000, "flops");
    CHECK(sample(text, "attentiond_stage_duration_seconds_count{route=\"/attention\",stage=\"queue\"}") == 11, "stage");
    CHECK(sample(text, "attentiond_request_bytes_sum{format=\"json\"}") == 3300, "bytes");
    free(text);
    srv_metrics_free(metrics);
}

/* Every sample stands after the HELP and TYPE of its family, which come once. */
static void test_exposition_is_well_formed(void) {
    srv_metrics *metrics = srv_metrics_new();
    CHECK_FATAL(metrics != NULL, "no memory");
    record(metrics, "GET", "/version", 200, 1e-4, NULL);
    char *text = text_of(metrics);
    CHECK_FATAL(text != NULL, "no memory");
    char family[128] = "";
    size_t samples = 0;
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            snprintf(family, sizeof family, "%.*s", (int)strcspn(line + 7, " "), line + 7);
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            CHECK(strncmp(line + 7, family, strlen(family)) == 0, "%s", line);
        } else {
            char *end = NULL;
            const char *value = strrchr(line, ' ');
            CHECK(strncmp(line, family, strlen(family)) == 0, "%s in %s", line, family);
            CHECK(value && (strtod(value + 1, &end), *end == 0), "%s", line);
            samples++;
        }
    }
    CHECK(samples > 100, "%zu samples", samples);
    free(text);
    srv_metrics_free(metrics);
}

int main(int argc, char **argv) {
    const check_test tests[] = {CHECK_TEST(test_zero_from_the_start), CHECK_TEST(test_counts_add_up),
                                CHECK_TEST(test_exposition_is_well_formed)};
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
