/* Metrics: valid exposition text, counts that add up, labels from the tables of api/, zeros from the start, a bound. */
#include "../support/check.h"

#include "../../api/base/error.h"
#include "../../server/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const srv_settings settings = {.threads = 2};
static srv_server server = {.settings = &settings, .connections = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static char *text_of(srv_metrics *metrics) {
    size_t length = 0;
    char *bytes = srv_metrics_text(metrics, &server, &length);
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
    srv_metrics *metrics = srv_metrics_new(srv_metric_table);
    CHECK_FATAL(metrics != NULL, "no memory");
    char *text = text_of(metrics);
    CHECK_FATAL(text != NULL, "no memory");
    static const char *const zeros[] = {"attentiond_rejected_total{reason=\"queue_full\"}",
                                        "attentiond_rejected_total{reason=\"draining\"}",
                                        "attentiond_errors_total{code=\"invalid_json\"}",
                                        "attentiond_errors_total{code=\"internal\"}",
                                        "attentiond_cancelled_total{stage=\"compute\"}",
                                        "attentiond_stage_duration_seconds_count{route=\"/mha\",stage=\"encode\"}",
                                        "attentiond_flops_total{route=\"/attention\"}",
                                        "attentiond_queue_depth{lane=\"long\"}",
                                        "attentiond_connections_open{state=\"idle\"}",
                                        "attentiond_requests_in_flight"};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        CHECK(sample(text, zeros[i]) == 0, "%s is %g", zeros[i], sample(text, zeros[i]));
    CHECK(sample(text, "attentiond_ready") == 1 && sample(text, "process_start_time_seconds") > 1e9, "gauges");
    CHECK(sample(text, "attentiond_workers") == 2 && sample(text, "attentiond_queue_limit{lane=\"short\"}") == 256,
          "settings");
    CHECK(sample(text, "process_resident_memory_bytes") > 1e6 && sample(text, "process_threads") >= 1, "process");
    CHECK(strstr(text, "attentiond_build_info{version=\""), "build info");
    static const char *const later[] = {"http_server_request_duration_seconds_count{", "attentiond_keys_count{",
                                        "attentiond_request_bytes_count{"};
    for (size_t i = 0; i < 3; i++) CHECK(!strstr(text, later[i]), "%s is there before it has counted", later[i]);
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
    srv_metrics *metrics = srv_metrics_new(srv_metric_table);
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

/* Every sample follows the HELP and TYPE of its family. */
static void test_exposition_is_well_formed(void) {
    srv_metrics *metrics = srv_metrics_new(srv_metric_table);
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

/* A request refused before work counts by its reason and not as an error; labels that are not known have a place. */
static void test_labels_of_refusals(void) {
    srv_metrics *metrics = srv_metrics_new(srv_metric_table);
    CHECK_FATAL(metrics != NULL, "no memory");
    srv_record one = {.method = "PUT", .route = "unmatched", .status = 405, .code = "method_not_allowed"};
    srv_metrics_record(metrics, &one);
    one = (srv_record){.method = "POST", .route = "/mha", .status = 429, .code = "overloaded"};
    for (one.rejected = 1; one.rejected < SRV_REASONS; one.rejected++) srv_metrics_record(metrics, &one);
    one = (srv_record){.method = "POST", .route = "/mha", .status = 499};
    for (one.cancelled = 1; one.cancelled < SRV_CANCELLED; one.cancelled++) srv_metrics_record(metrics, &one);
    one = (srv_record){.method = "POST", .route = "/mha", .status = 500, .code = "unheard_of"};
    srv_metrics_record(metrics, &one);
    char *text = text_of(metrics), series[128];
    CHECK_FATAL(text != NULL, "no memory");
    for (int i = 1; i < SRV_REASONS; i++) {
        snprintf(series, sizeof series, "attentiond_rejected_total{reason=\"%s\"}", srv_reason_names[i]);
        CHECK(sample(text, series) == 1, "%s is %g", series, sample(text, series));
    }
    for (int i = 1; i < SRV_CANCELLED; i++) {
        snprintf(series, sizeof series, "attentiond_cancelled_total{stage=\"%s\"}", srv_cancelled_names[i]);
        CHECK(sample(text, series) == 1, "%s is %g", series, sample(text, series));
    }
    CHECK(sample(text, "attentiond_errors_total{code=\"overloaded\"}") == 0, "counted twice");
    CHECK(sample(text, "attentiond_errors_total{code=\"internal\"}") == 1, "an unknown code");
    CHECK(sample(text, "attentiond_errors_total{code=\"method_not_allowed\"}") == 1, "a code");
    CHECK(strstr(text, "http_request_method=\"_OTHER\",http_route=\"unmatched\",http_response_status_code=\"405\""),
          "PUT is _OTHER");
    free(text);
    srv_metrics_free(metrics);
}

/* Every code of api/ has a series, and its status is a label of its own. */
static void test_codes_and_statuses_of_api(void) {
    srv_metrics *metrics = srv_metrics_new(srv_metric_table);
    CHECK_FATAL(metrics != NULL, "no memory");
    for (int i = API_NO_ERROR + 1; i < API_CODE_COUNT; i++) {
        const srv_record one = {
            .method = "POST", .route = "/mha", .status = api_codes[i].status, .code = api_codes[i].code};
        srv_metrics_record(metrics, &one);
    }
    char *text = text_of(metrics), series[256];
    CHECK_FATAL(text != NULL, "no memory");
    for (int i = API_NO_ERROR + 1; i < API_CODE_COUNT; i++) {
        snprintf(series, sizeof series, "attentiond_errors_total{code=\"%s\"}", api_codes[i].code);
        CHECK(sample(text, series) == 1, "%s is %g", series, sample(text, series));
        snprintf(series, sizeof series, "http_response_status_code=\"%d\"", api_codes[i].status);
        CHECK(strstr(text, series), "%s is missing", series);
    }
    free(text);
    srv_metrics_free(metrics);
}

/* docs/operating.md says how many samples the text has at most. */
static void test_the_bound_is_documented(void) {
    srv_metrics *metrics = srv_metrics_new(srv_metric_table);
    FILE *file = fopen("docs/operating.md", "r");
    char line[1024];
    unsigned long said = 0;
    CHECK_FATAL(metrics && file, "no memory, or not started in the project's folder");
    while (!said && fgets(line, sizeof line, file)) {
        const char *at = strstr(line, "at most **");
        if (at) said = strtoul(at + 10, NULL, 10);
    }
    fclose(file);
    CHECK(said == srv_metrics_most_samples(metrics), "docs/operating.md says %lu, it is %zu", said,
          srv_metrics_most_samples(metrics));
    srv_metrics_free(metrics);
}

/* ---- a new metric is one row --------------------------------------------------------------------------------------
 */

static const char *parity_value(size_t index) { return index < 2 ? (index ? "odd" : "even") : NULL; }
static const char *parity_of(const srv_record *record) { return record->status % 2 ? "odd" : "even"; }
static double status_of(const srv_record *record) { return record->status ? (double)record->status : (double)NAN; }
static double each_of(const srv_record *record, size_t index) { return record->status * (double)(index + 1); }
static double nothing(void) { return NAN; }

static void test_rows(void) {
    static const double bounds[] = {1, 2.5};
    static const srv_buckets buckets = {2, bounds, 10};
    static const srv_label parity = {"parity", parity_value, parity_of, NULL},
                           both = {"both", parity_value, NULL, NULL};
    static const srv_metric table[] = {
        {"sum", "A sum.", SRV_COUNTER, {&parity}, .count = status_of},
        {"each", "Of each.", SRV_HISTOGRAM, {&parity, &both}, &buckets, .from_first = true, .count_each = each_of},
        {"none", "Not known.", SRV_GAUGE, .figure = nothing},
        {0},
    };
    srv_metrics *metrics = srv_metrics_new(table);
    CHECK_FATAL(metrics != NULL, "no memory");
    for (int status = 0; status < 4; status += 2) {
        const srv_record one = {.status = status};
        srv_metrics_record(metrics, &one);
    }
    char *text = text_of(metrics);
    CHECK_FATAL(text != NULL, "no memory");
    static const char want[] =
        "# HELP sum A sum.\n# TYPE sum counter\nsum{parity=\"even\"} 2\nsum{parity=\"odd\"} 0\n"
        "# HELP each Of each.\n# TYPE each histogram\n"
        "each_bucket{parity=\"even\",both=\"even\",le=\"1\"} 1\n"
        "each_bucket{parity=\"even\",both=\"even\",le=\"2.5\"} 2\n"
        "each_bucket{parity=\"even\",both=\"even\",le=\"+Inf\"} 2\n"
        "each_sum{parity=\"even\",both=\"even\"} 2\neach_count{parity=\"even\",both=\"even\"} 2\n"
        "each_bucket{parity=\"even\",both=\"odd\",le=\"1\"} 1\n"
        "each_bucket{parity=\"even\",both=\"odd\",le=\"2.5\"} 1\n"
        "each_bucket{parity=\"even\",both=\"odd\",le=\"+Inf\"} 2\n"
        "each_sum{parity=\"even\",both=\"odd\"} 4\neach_count{parity=\"even\",both=\"odd\"} 2\n"
        "# HELP none Not known.\n# TYPE none gauge\n";
    CHECK(strcmp(text, want) == 0, "%s", text);
    CHECK(srv_metrics_most_samples(metrics) == 2 + 4 * 5 + 1, "%zu samples", srv_metrics_most_samples(metrics));
    free(text);
    srv_metrics_free(metrics);
}

int main(int argc, char **argv) {
    const check_test tests[] = {CHECK_TEST(test_zero_from_the_start),
                                CHECK_TEST(test_counts_add_up),
                                CHECK_TEST(test_exposition_is_well_formed),
                                CHECK_TEST(test_labels_of_refusals),
                                CHECK_TEST(test_codes_and_statuses_of_api),
                                CHECK_TEST(test_the_bound_is_documented),
                                CHECK_TEST(test_rows)};
    server.queue = srv_queue_new(NULL, 2, 256, 1);
    server.service.engine.kernel = attn_kernel_find(NULL);
    if (!server.queue) return 1;
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
