/* test_endpoints.c: every endpoint, status and header of the contract's sections 4 and 6. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exposition.h"
#include "harness.h"

#define SMALL "{\"q\":[[0]],\"k\":[[0]],\"v\":[[1]]}"
#define SMALL_MHA "{\"x\":[[1]],\"w_q\":[[1]],\"w_k\":[[1]],\"w_v\":[[1]],\"num_heads\":1}"
#define SMALL_SCAN "{\"u\":[[1]],\"delta\":[[1]],\"a\":[[1]],\"b\":[[1]],\"c\":[[1]]}"
#define SMALL_MERGE "{\"output\":[[[1]]],\"lse\":[[0]]}"
#define MAX_BODY 65536

static const struct {
    const char *path, *method, *body;
} endpoints[] = {
    {"/attention", "POST", SMALL},   {"/mha", "POST", SMALL_MHA}, {"/scan", "POST", SMALL_SCAN},
    {"/merge", "POST", SMALL_MERGE}, {"/healthz", "GET", NULL},   {"/readyz", "GET", NULL},
    {"/version", "GET", NULL},       {"/estimate", "GET", NULL},  {"/metrics", "GET", NULL},
    {"/openapi.json", "GET", NULL},
};
enum { ENDPOINTS = sizeof endpoints / sizeof *endpoints };

static http_reply send_plain(const char *method, const char *path, const char *body) {
    return http_send(NULL, shared.port,
                     &(http_request){.method = method, .path = path, .body = body, .length = body ? strlen(body) : 0});
}

static http_reply post_with(const char *header, const char *second) {
    const char *const headers[] = {header, second, NULL};
    return http_send(NULL, shared.port, &(http_request){"POST", "/attention", headers, SMALL, strlen(SMALL), false});
}

static void expect_status(http_reply *reply, int status, const char *label) {
    CHECK(reply->status == status, "%s: status %d, expected %d: %.200s", label, reply->status, status,
          reply->body ? reply->body : "");
    http_free(reply);
}

static void test_every_endpoint_answers(void) {
    for (size_t i = 0; i < ENDPOINTS; i++) {
        http_reply reply = send_plain(endpoints[i].method, endpoints[i].path, endpoints[i].body);
        CHECK(reply.length > 0, "%s: an empty body", endpoints[i].path);
        expect_status(&reply, 200, endpoints[i].path);
    }
}

static void test_content_types(void) {
    for (size_t i = 0; i < ENDPOINTS; i++) {
        char type[512];
        http_reply reply = send_plain(endpoints[i].method, endpoints[i].path, endpoints[i].body);
        const char *want =
            strcmp(endpoints[i].path, "/metrics") ? "application/json" : "text/plain; version=0.0.4; charset=utf-8";
        CHECK(http_header(&reply, "Content-Type", type) && !strncmp(type, want, strlen(want)), "%s: %s",
              endpoints[i].path, type);
        http_free(&reply);
    }
}

static void test_health_and_readiness(void) {
    static const char *const paths[] = {"/healthz", "/readyz"};
    for (size_t i = 0; i < 2; i++) {
        http_reply reply = http_get(paths[i]);
        json_t *json = json_loadb(reply.body, reply.length, 0, NULL), *want = json_pack("{s:s}", "status", "ok");
        CHECK(json_equal(json, want), "%s: %s", paths[i], reply.body);
        json_decref(json);
        json_decref(want);
        http_free(&reply);
    }
}

static void test_version(void) {
    http_reply reply = http_get("/version");
    json_t *json = json_loadb(reply.body, reply.length, 0, NULL);
    size_t length = 0;
    char *version = file_read("VERSION", &length);
    const char *got = json_string_value(json_object_get(json, "version"));
    CHECK(version && got && !strncmp(got, version, strcspn(version, "\n")), "version %s", got ? got : "none");
    CHECK(json_is_string(json_object_get(json, "kernel")), "kernel: %s", reply.body);
    CHECK(json_object_size(json_object_get(json, "libraries")) >= 3, "libraries: %s", reply.body);
    free(version);
    json_decref(json);
    http_free(&reply);
}

static void test_head_is_get_without_a_body(void) {
    for (size_t i = 0; i < ENDPOINTS; i++) {
        if (strcmp(endpoints[i].method, "GET")) continue;
        http_reply get = send_plain("GET", endpoints[i].path, NULL), head = send_plain("HEAD", endpoints[i].path, NULL);
        char a[512], b[512];
        CHECK(head.status == get.status && head.length == 0, "%s: HEAD %d", endpoints[i].path, head.status);
        http_header(&get, "Content-Type", a);
        http_header(&head, "Content-Type", b);
        CHECK(!strcmp(a, b), "%s: %s, GET %s", endpoints[i].path, b, a);
        CHECK(http_header(&head, "Content-Length", b), "%s: HEAD without Content-Length", endpoints[i].path);
        http_header(&get, "Content-Length", a);
        CHECK(!strcmp(a, b) || !strcmp(endpoints[i].path, "/metrics"), "%s: length %s, GET %s", endpoints[i].path, b,
              a);
        http_free(&get);
        http_free(&head);
    }
}

static void test_options_and_allow(void) {
    for (size_t i = 0; i < ENDPOINTS; i++) {
        char allow[512];
        http_reply reply = send_plain("OPTIONS", endpoints[i].path, NULL);
        CHECK(reply.status == 204 || reply.status == 200, "%s: OPTIONS %d", endpoints[i].path, reply.status);
        CHECK(http_header(&reply, "Allow", allow) && strstr(allow, endpoints[i].method) && strstr(allow, "OPTIONS"),
              "%s: Allow %s", endpoints[i].path, allow);
        CHECK(strcmp(endpoints[i].method, "GET") || strstr(allow, "HEAD"), "%s: Allow %s", endpoints[i].path, allow);
        http_free(&reply);
    }
}

static void test_wrong_methods(void) {
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"};
    for (size_t i = 0; i < ENDPOINTS; i++)
        for (size_t j = 0; j < sizeof methods / sizeof *methods; j++) {
            const bool get = !strcmp(endpoints[i].method, "GET");
            if (!strcmp(methods[j], endpoints[i].method) || (get && !strcmp(methods[j], "HEAD"))) continue;
            char allow[512], label[100];
            snprintf(label, sizeof label, "%s %s", methods[j], endpoints[i].path);
            http_reply reply = send_plain(methods[j], endpoints[i].path, j == 1 || j == 2 || j == 4 ? "{}" : NULL);
            if (!strcmp(methods[j], "HEAD"))
                CHECK(reply.status == 405, "%s: %d", label, reply.status);
            else
                expect_problem(&reply, 405, "method_not_allowed", NULL, label);
            CHECK(http_header(&reply, "Allow", allow) && strstr(allow, endpoints[i].method), "%s: Allow %s", label,
                  allow);
            http_free(&reply);
        }
}

static void test_an_unknown_method(void) {
    http_reply reply = send_plain("BREW", "/attention", NULL);
    CHECK(reply.status == 405 || reply.status == 501, "BREW: %d", reply.status);
    expect_problem(&reply, reply.status, reply.status == 405 ? "method_not_allowed" : "not_implemented", NULL, "BREW");
    http_free(&reply);
}

static void test_unknown_paths(void) {
    static const char *const paths[] = {"/page/a/b", "/nope",       "/attention/",   "/attentio",   "/Attention",
                                        "/mha/x",    "//attention", "/%61ttention/", "/healthz/..", "/.."};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        http_reply get = send_plain("GET", paths[i], NULL), post = send_plain("POST", paths[i], SMALL);
        expect_problem(&get, 404, "not_found", NULL, paths[i]);
        expect_problem(&post, 404, "not_found", NULL, paths[i]);
        http_free(&get);
        http_free(&post);
    }
}

static void test_query_strings(void) {
    http_reply reply = send_plain("POST", "/attention?x=1", SMALL);
    expect_status(&reply, 422, "/attention?x=1");
    reply = send_plain("POST", "/attention?", SMALL);
    expect_status(&reply, 200, "/attention?");
    reply = send_plain("GET", "/healthz?x=1", NULL);
    expect_status(&reply, 200, "/healthz?x=1");
}

static void test_accept(void) {
    /* tests/unit/test_api.c has the other spellings */
    static const char *const good[] = {"Accept: text/html, */*;q=0.1", "Accept: APPLICATION/JSON",
                                       "Accept: application/json; charset=utf-8"};
    static const char *const bad[] = {"Accept: image/png, text/plain", "Accept: application/xml"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        http_reply reply = post_with(good[i], NULL);
        expect_status(&reply, 200, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        http_reply reply = post_with(bad[i], NULL);
        expect_problem(&reply, 406, "not_acceptable", NULL, bad[i]);
        http_free(&reply);
    }
    static const char *const scrape[] = {"Accept: application/openmetrics-text;version=1.0.0;q=0.5,"
                                         "text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
                                         NULL};
    http_reply reply =
        http_send(NULL, shared.port, &(http_request){.method = "GET", .path = "/metrics", .headers = scrape});
    expect_status(&reply, 200, "a scrape");
}

static void test_media_types(void) {
    /* tests/unit/test_api.c has the other types */
    static const char *const good[] = {"Content-Type: application/problem+json",
                                       "Content-Type: application/vnd.x+json;v=1", "Content-Type:application/json"};
    static const char *const bad[] = {"Content-Type: application/xml", "Content-Type: text/json+x",
                                      "Content-Encoding: br", "Content-Encoding: gzip, br"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        http_reply reply = post_with(good[i], NULL);
        expect_status(&reply, 200, good[i]);
    }
    http_reply none = post_with(NULL, NULL);
    expect_status(&none, 200, "no Content-Type");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char coding[512];
        http_reply reply = post_with(bad[i], NULL);
        expect_problem(&reply, 415, "unsupported_media_type", NULL, bad[i]);
        CHECK(strncmp(bad[i], "Content-E", 9) || http_header(&reply, "Accept-Encoding", coding),
              "%s: no Accept-Encoding (RFC 9110, section 12.5.3)", bad[i]);
        http_free(&reply);
    }
}

/* "name;dur=1.234" for each of the four stages, in milliseconds */
static bool timing_valid(const char *value) {
    static const char *const stages[] = {"decode", "queue", "compute", "encode"};
    for (size_t i = 0; i < 4; i++) {
        char start[32];
        snprintf(start, sizeof start, "%s;dur=", stages[i]);
        const char *at = strstr(value, start);
        if (!at) return false;
        at += strlen(start);
        const size_t whole = strspn(at, "0123456789");
        if (!whole || at[whole] != '.') return false;
        const size_t decimals = strspn(at + whole + 1, "0123456789");
        if (decimals < 3 || !strchr(", ", at[whole + 1 + decimals])) return false;
    }
    return true;
}

static void test_server_timing(void) {
    for (size_t i = 0; i < 2; i++) {
        char value[512];
        const double start = now();
        http_reply reply = send_plain("POST", endpoints[i].path, endpoints[i].body);
        const double took = (now() - start) * 1000;
        CHECK(http_header(&reply, "Server-Timing", value) && timing_valid(value), "Server-Timing: %s", value);
        const char *compute = strstr(value, "compute;dur=");
        CHECK(!compute || strtod(compute + 12, NULL) <= took, "%s of %g ms", value, took);
        http_free(&reply);
    }
}

static void test_a_body_over_the_limit(void) {
    char *body = malloc(MAX_BODY + 1);
    static const char *const json[] = {"Content-Type: application/json", NULL};
    CHECK_FATAL(body, "memory");
    memset(body, ' ', MAX_BODY + 1);
    memcpy(body, SMALL, strlen(SMALL));
    http_request request = {"POST", "/attention", json, body, MAX_BODY, false};
    http_reply reply = http_send(NULL, shared.port, &request);
    expect_status(&reply, 200, "as long as allowed");
    for (int chunked = 0; chunked < 2; chunked++) {
        request.length = MAX_BODY + 1;
        request.chunked = chunked;
        reply = http_send(NULL, shared.port, &request);
        expect_problem(&reply, 413, "body_too_large", NULL, chunked ? "chunked" : "Content-Length");
        http_free(&reply);
    }
    request.length = MAX_BODY;
    reply = http_send(NULL, shared.port, &request);
    expect_status(&reply, 200, "chunked, as long as allowed");
    free(body);
}

/* A request is counted after its reply was sent: waits until only the scrape is under way. Text before that gauge is
 * older, so it is read again. */
static http_reply settled_metrics(void) {
    bool settled = false;
    for (const double end = now() + patient(5); !settled && now() < end; sleep_seconds(0.02)) {
        http_reply reply = http_get("/metrics");
        settled = exposition_value(reply.body, "attentiond_requests_in_flight", NULL) <= 1;
        http_free(&reply);
    }
    return http_get("/metrics");
}

static void test_metrics_are_valid(void) {
    char why[512] = "";
    http_reply first = settled_metrics();
    CHECK(exposition_valid(first.body, why), "%s", why);
    const double before = exposition_value(first.body, "http_server_request_duration_seconds_count", "/attention");
    for (int i = 0; i < 5; i++) {
        http_reply reply = http_post("/attention", SMALL);
        http_free(&reply);
    }
    http_reply second = settled_metrics();
    CHECK(exposition_valid(second.body, why), "%s", why);
    const double after = exposition_value(second.body, "http_server_request_duration_seconds_count", "/attention");
    CHECK(after - (isnan(before) ? 0 : before) == 5, "requests counted: %g, then %g", before, after);
    static const char *const names[] = {
        "attentiond_stage_duration_seconds_count", "attentiond_request_bytes_count", "attentiond_response_bytes_count",
        "attentiond_requests_in_flight",           "attentiond_queue_depth",         "attentiond_build_info"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(!isnan(exposition_value(second.body, names[i], NULL)), "%s is missing", names[i]);
    static const char *const stages[] = {"stage=\"decode\"", "stage=\"queue\"", "stage=\"compute\"",
                                         "stage=\"encode\""};
    for (size_t i = 0; i < 4; i++)
        CHECK(exposition_value(second.body, "attentiond_stage_duration_seconds_count", stages[i]) >= 5, "%s",
              stages[i]);
    CHECK(exposition_value(second.body, "attentiond_build_info", "kernel=") == 1, "build info");
    http_free(&first);
    http_free(&second);
}

static void test_the_exposition_reader_finds_faults(void) {
    static const char *const bad[] = {
        "a 1\n",
        "# HELP a b\n# TYPE a counter\na 1",
        "# HELP a b\n# TYPE a counter\na -1\n",
        "# HELP a b\n# TYPE a counter\na 1\na 2\n",
        "# HELP a b\n# TYPE a thing\na 1\n",
        "# HELP a b\n# TYPE a gauge\na{x=\"\\q\"} 1\n",
        "# HELP a b\n# TYPE a gauge\na{x=1} 1\n",
        "# HELP a b\n# TYPE a gauge\nb 1\n",
        "# HELP a b\n# TYPE a gauge\na one\n",
        "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n",
        "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 1\na_count 3\n",
    };
    char why[512];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!exposition_valid(bad[i], why), "accepted: %s", bad[i]);
    CHECK(exposition_valid(
              "# HELP a b\n# TYPE a histogram\na_bucket{x=\"y\",le=\"1\"} 1\na_bucket{x=\"y\",le=\"+Inf\"} 2\n"
              "a_sum{x=\"y\"} 1.5\na_count{x=\"y\"} 2\n",
              why),
          "refused: %s", why);
}

static void test_openapi(void) {
    http_reply reply = http_get("/openapi.json");
    json_error_t error;
    json_t *json = json_loadb(reply.body, reply.length, JSON_REJECT_DUPLICATES, &error);
    json_t *paths = json_object_get(json, "paths");
    const char *version = json_string_value(json_object_get(json, "openapi"));
    CHECK(json, "not JSON: %s", error.text);
    CHECK(version && !strncmp(version, "3.1", 3), "openapi %s", version ? version : "none");
    for (size_t i = 0; i < ENDPOINTS; i++)
        CHECK(json_object_get(json_object_get(paths, endpoints[i].path), endpoints[i].body ? "post" : "get"),
              "%s is not described", endpoints[i].path);
    size_t own = 0; /* without those of the Open Inference Protocol and of the page */
    const char *path;
    json_t *item;
    json_object_foreach(paths, path, item) own +=
        strncmp(path, "/v2", 3) != 0 && strcmp(path, "/") != 0 && strncmp(path, "/page/", 6) != 0;
    CHECK(own == ENDPOINTS, "%zu paths", own);
    json_decref(json);
    http_free(&reply);
}

static void test_replies_say_what_they_hold(void) {
    http_reply reply =
        http_post("/attention", "{\"q\":[[0]],\"k\":[[0]],\"v\":[[1]],\"return\":[\"lse\",\"output\",\"lse\"]}");
    json_t *json = json_loadb(reply.body, reply.length, JSON_REJECT_DUPLICATES, NULL);
    CHECK(json_object_size(json) == 2 && json_object_get(json, "lse") && json_object_get(json, "output"), "%s",
          reply.body);
    json_decref(json);
    http_free(&reply);
}

int main(int argc, char **argv) {
    static const check_test tests[] = {
        CHECK_TEST(test_every_endpoint_answers),
        CHECK_TEST(test_content_types),
        CHECK_TEST(test_health_and_readiness),
        CHECK_TEST(test_version),
        CHECK_TEST(test_head_is_get_without_a_body),
        CHECK_TEST(test_options_and_allow),
        CHECK_TEST(test_wrong_methods),
        CHECK_TEST(test_an_unknown_method),
        CHECK_TEST(test_unknown_paths),
        CHECK_TEST(test_query_strings),
        CHECK_TEST(test_accept),
        CHECK_TEST(test_media_types),
        CHECK_TEST(test_server_timing),
        CHECK_TEST(test_a_body_over_the_limit),
        CHECK_TEST(test_metrics_are_valid),
        CHECK_TEST(test_the_exposition_reader_finds_faults),
        CHECK_TEST(test_openapi),
        CHECK_TEST(test_replies_say_what_they_hold),
    };
    static const char *const flags[] = {"--max-body", "65536", NULL};
    return shared_main(argc, argv, tests, sizeof tests / sizeof *tests, flags);
}
