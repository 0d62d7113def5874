/* Everything but the document: methods, headers, bounds, cancellation, errors of the host, the trace. */
#include "../support/exchange.h"

#include <stdlib.h>
#include <string.h>

#define ZEROS "{'q':[[0],[0]],'k':[[0],[0]],'v':[[1],[3]]}"

/* ---- headers, methods, paths ------------------------------------------------------------------------------------ */

static void expect_head(const char *method, const char *path, exchange_headers headers, int status, const char *code,
                        const char *header) {
    exchange e = exchange_send(method, path, headers, ZEROS);
    CHECK(e.status == status && (!code || strcmp(exchange_member(&e, "code"), code) == 0), "%s %s: %d %s", method, path,
          e.status, e.body);
    CHECK(!header || strstr(e.headers, header), "%s %s: expected %s in %s", method, path, header, e.headers);
    exchange_free(&e);
}

static void test_paths_and_methods(void) {
    const exchange_headers none = {{NULL}};
    expect_head("GET", "/nope", none, 404, "not_found", NULL);
    expect_head("POST", "/attention/", none, 404, "not_found", NULL);
    expect_head("GET", "/attention", none, 405, "method_not_allowed", "Allow: POST, OPTIONS");
    expect_head("HEAD", "/mha", none, 405, "method_not_allowed", "Allow: POST, OPTIONS");
    expect_head("POST", "/healthz", none, 405, "method_not_allowed", "Allow: GET, HEAD, OPTIONS");
    expect_head("DELETE", "/metrics", none, 405, "method_not_allowed", "Allow: GET, HEAD, OPTIONS");
    expect_head("QUERY", "/attention", none, 405, "method_not_allowed", "Allow: POST, OPTIONS");
    expect_head("BREW", "/attention", none, 501, "not_implemented", "Allow: POST, OPTIONS");
    expect_head("OPTIONS", "/attention", none, 204, NULL, "Allow: POST, OPTIONS");
    expect_head("OPTIONS", "/healthz", none, 204, NULL, "Allow: GET, HEAD, OPTIONS");
    expect_head("OPTIONS", "*", none, 204, NULL, "Allow: ");
    expect_head("HEAD", "/healthz", none, 200, NULL, NULL);
}

static void test_what_is_there(void) {
    exchange e = exchange_send("GET", "/nope", (exchange_headers){{NULL}}, "");
    const char *detail = exchange_member(&e, "detail");
    static const char *const words[] = {"no such path: /nope; available: ",
                                        "POST /attention, /mha",
                                        "GET /healthz",
                                        "/version",
                                        "/metrics",
                                        "/openapi.json",
                                        "/v2"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        CHECK(strstr(detail, words[i]), "expected \"%s\" in %s", words[i], detail);
    exchange_free(&e);
    char *(*metrics)(void *, size_t *) = exchange_service.host.metrics;
    exchange_service.host.metrics = NULL;
    e = exchange_send("GET", "/metrics", (exchange_headers){{NULL}}, "");
    CHECK(e.status == 404 && !strstr(strstr(exchange_member(&e, "detail"), "available"), "/metrics"), "%s", e.body);
    exchange_free(&e);
    exchange_service.host.metrics = metrics;
}

static void test_content_types(void) {
    static const struct {
        const char *type;
        int status;
    } rows[] = {{"application/json", 200},
                {"APPLICATION/JSON ; charset=utf-8", 200},
                {"application/vnd.api+json", 200},
                {"application/x-www-form-urlencoded", 200},
                {"", 200},
                {"text/plain", 415},
                {"image/png", 415},
                {"application/jsonx", 415},
                {"application/+json", 415},
                {"application/octet-stream", 415},
                {"multipart/form-data; boundary=x", 415}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_head("POST", "/attention", (exchange_headers){{"content-type", rows[i].type, NULL}}, rows[i].status,
                    rows[i].status == 415 ? "unsupported_media_type" : NULL, NULL);
    expect_head("POST", "/attention", (exchange_headers){{"content-encoding", "br", NULL}}, 415,
                "unsupported_media_type", "Accept-Encoding: gzip, deflate, zstd, identity");
    expect_head("POST", "/attention", (exchange_headers){{"content-encoding", "Identity", NULL}}, 200, NULL, NULL);
}

static void test_accept(void) {
    static const struct {
        const char *accept;
        int status;
    } rows[] = {{"*/*", 200},
                {"", 200},
                {"application/*", 200},
                {"text/html, application/json;q=0.1", 200},
                {"text/html", 406},
                {"application/json;q=0", 406},
                {"*/*, application/json;q=0.000", 406},
                {"application/*;q=0, */*", 406},
                {"*/*;q=0, application/json", 200},
                {"text/html;x=\"a,*/*\"", 406},
                {"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8", 200},
                {"application/problem+json", 406}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const exchange_headers headers = {{"accept", rows[i].accept, NULL}};
        expect_head("POST", "/attention", headers, rows[i].status, rows[i].status == 406 ? "not_acceptable" : NULL,
                    NULL);
        expect_head("GET", "/version", headers, rows[i].status, NULL, NULL);
        expect_head("GET", "/healthz", headers, 200, NULL, NULL);
        expect_head("GET", "/readyz", headers, 200, NULL, NULL);
    }
    expect_head("GET", "/metrics", (exchange_headers){{"accept", "text/plain;version=0.0.4;q=0.4", NULL}}, 200, NULL,
                NULL);
    expect_head("GET", "/metrics", (exchange_headers){{"accept", "application/json", NULL}}, 406, NULL, NULL);
}

static void test_bodies_over_the_limit(void) {
    expect_head("POST", "/attention", (exchange_headers){{"content-length", "1048577", NULL}}, 413, "body_too_large",
                NULL);
    expect_head("POST", "/attention", (exchange_headers){{"content-length", "99999999999999999999999", NULL}}, 413,
                "body_too_large", NULL);
    const api_head head = {.method = "POST", .path = "/attention"};
    api_request *request = api_begin(&exchange_service, &head);
    char blanks[4096];
    memset(blanks, ' ', sizeof blanks);
    for (size_t i = 0; i < 256; i++) CHECK(api_push(request, blanks, sizeof blanks), "refused at %zu", i);
    CHECK(!api_refused(request), "refused too early");
    CHECK(!api_push(request, " ", 1) && api_refused(request)->status == 413, "not refused");
    CHECK(!api_push(request, " ", 1) && api_finish(request, 0)->status == 413, "bytes after that are harmless");
    CHECK(api_finish(request, 0)->close, "the connection ends");
    CHECK(atomic_load(&exchange_service.budget.used) == 0, "what was read is given back at once");
    api_request_free(request);
}

static void test_info(void) {
    const exchange_headers none = {{NULL}};
    exchange e = exchange_send("GET", "/version", none, "");
    CHECK(e.status == 200 && json_object_size(e.json) == 3, "%s", e.body);
    CHECK(strcmp(exchange_member(&e, "version"), api_version) == 0 &&
              strcmp(exchange_member(&e, "kernel"), attn_kernel_name(exchange_service.engine.kernel)) == 0,
          "%s", e.body);
    const json_t *libraries = json_object_get(e.json, "libraries");
    CHECK(json_object_get(libraries, "jansson") && json_object_get(libraries, "openblas") &&
              json_object_get(libraries, "other"),
          "%s", e.body);
    exchange_free(&e);
    e = exchange_send("GET", "/metrics", none, "");
    CHECK(strcmp(e.content_type, "text/plain; version=0.0.4; charset=utf-8") == 0 && strncmp(e.body, "# TYPE", 6) == 0,
          "%s", e.content_type);
    exchange_free(&e);
    e = exchange_send("GET", "/openapi.json", none, "");
    CHECK(e.status == 200 && json_object_get(e.json, "openapi"), "%.60s", e.body);
    exchange_free(&e);
    const int states[] = {API_READY, API_STARTING, API_DRAINING};
    const char *codes[] = {"(none)", "not_ready", "shutting_down"};
    for (size_t i = 0; i < 3; i++) {
        exchange_readiness = states[i];
        e = exchange_send("GET", "/readyz", none, "");
        CHECK(e.status == (i ? 503 : 200) && strcmp(exchange_member(&e, "code"), codes[i]) == 0, "%s", e.body);
        exchange_free(&e);
        expect_head("GET", "/healthz", none, 200, NULL, NULL);
        expect_head("POST", "/attention", none, states[i] == API_STARTING ? 503 : 200, NULL, NULL);
    }
    exchange_readiness = API_READY;
}

/* ---- bounds, cancellation, host errors --------------------------------------------------------------------------- */

static void test_what_can_never_fit(void) {
    const size_t limit = exchange_service.budget.limit;
    char body[200000] = "{'return':['weights'],'q':[[0]", *end = body + strlen(body);
    for (size_t i = 1; i < 3000; i++) end = stpcpy(end, ",[0]");
    end = stpcpy(end, "],'k':[[0]");
    for (size_t i = 1; i < 3000; i++) end = stpcpy(end, ",[0]");
    end = stpcpy(end, "],'v':[[0]");
    for (size_t i = 1; i < 3000; i++) end = stpcpy(end, ",[0]");
    strcpy(end, "]}");
    expect_error("/attention", body, 422, "out_of_range", "/return", "bytes");
    exchange_service.budget.limit = 60000; /* the tensors alone are more */
    memcpy(body, "{'return':['lse'    ]", 21);
    expect_error("/attention", body, 422, "out_of_range", NULL, "58.6 KiB (60,000 bytes) (--max-memory)");
    exchange_service.budget.limit = limit;
}

static void test_memory_full_now(void) {
    atomic_store(&exchange_service.budget.used, exchange_service.budget.limit - 100);
    const api_head head = {.method = "POST", .path = "/attention"};
    api_request *request = api_begin(&exchange_service, &head);
    const exchange e = exchange_keep(api_refused(request) ? api_refused(request) : api_finish(request, 0));
    CHECK(e.status == 429 && strcmp(exchange_member(&e, "code"), "overloaded") == 0 &&
              strstr(e.headers, "Retry-After: 1\n"),
          "%d %s%s", e.status, e.headers, e.body);
    api_request_free(request);
    exchange_free((exchange *)&e);
    atomic_store(&exchange_service.budget.used, 0);
}

static void test_cancel_and_fail(void) {
    const struct {
        int reason, status;
        const char *code;
    } rows[] = {{API_CANCEL_TIMEOUT, 504, "compute_timeout"},
                {API_CANCEL_SHUTDOWN, 503, "shutting_down"},
                {API_CANCEL_GONE, 408, "timeout"}};
    const api_head head = {.method = "POST", .path = "/attention"};
    char *body = exchange_quoted(ZEROS);
    for (size_t i = 0; i < 3; i++) {
        api_request *request = api_begin(&exchange_service, &head);
        api_push(request, body, strlen(body));
        CHECK(api_work(request) > 0, "no work");
        api_cancel(request, rows[i].reason);
        exchange e = exchange_keep(api_finish(request, 0));
        CHECK(e.status == rows[i].status && strcmp(exchange_member(&e, "code"), rows[i].code) == 0, "%s", e.body);
        exchange_free(&e);
        api_request_free(request);
    }
    api_request *request = api_begin(&exchange_service, &head);
    api_push(request, body, strlen(body));
    exchange e = exchange_keep(api_fail(request, "overloaded", "the queue is full", 12));
    CHECK(e.status == 429 && strstr(e.headers, "Retry-After: 12\n") && strstr(e.headers, "Server-Timing"), "%s%s",
          e.headers, e.body);
    CHECK(strcmp(api_trace_of(request)->code, "overloaded") == 0, "trace");
    exchange_free(&e);
    api_request_free(request);
    e = exchange_keep(api_out_of_memory());
    CHECK(e.status == 503 && strcmp(exchange_member(&e, "code"), "out_of_memory") == 0, "%s", e.body);
    exchange_free(&e);
    free(body);
}

static void test_trace_of_a_request(void) {
    const api_head head = {.method = "POST", .path = "/attention"};
    char *body = exchange_quoted("{'q':[[[0,0]],[[0,0]]],'k':[[[0,0],[0,0]],[[0,0],[0,0]]],'v':[[[1],[1]],[[1],[1]]],'"
                                 "num_heads':1,'dtype':'float64'}");
    api_request *request = api_begin(&exchange_service, &head);
    api_push(request, body, strlen(body));
    const api_response *response = api_finish(request, 0.25);
    const api_trace *t = api_trace_of(request);
    CHECK(response->status == 200 && strcmp(t->route, "/attention") == 0 && t->computes && !t->code && !t->pointer,
          "%s", t->route);
    CHECK(t->has_problem && t->batch == 2 && t->heads == 1 && t->n_q == 1 && t->n_k == 2 && t->d_k == 2 && t->d_v == 1,
          "sizes");
    CHECK(t->dtype == ATTN_F64 && t->flops > 0 && t->times.queue == 0.25 && t->times.decode > 0, "times");
    CHECK(strstr(response->headers[0].value, "queue;dur=250.000"), "%s", response->headers[0].value);
    api_request_free(request);
    free(body);
}

/* ---- lists and texts for the host ------------------------------------------------------------------------------- */

static void test_labels(void) {
    bool computes, found = false;
    const char *label, *last = NULL;
    size_t computing = 0;
    for (size_t i = 0; (label = api_route_label(i, &computes)); i++) {
        const char *other;
        bool ignored;
        for (size_t j = 0; j < i && (other = api_route_label(j, &ignored)); j++)
            CHECK(strcmp(label, other) != 0, "%s comes twice", label);
        computing += computes;
        found |= strcmp(label, "/attention") == 0 && computes;
        last = label;
    }
    CHECK(found && last && strcmp(last, "unmatched") == 0, "the last label is %s", last);
    size_t operations = 0;
    while (api_operation_label(operations)) operations++;
    CHECK(computing == 2 * operations, "%zu routes compute, of %zu operations", computing, operations);
    CHECK(strcmp(api_operation_label(0), "attention") == 0 && strcmp(api_operation_label(1), "mha") == 0, "operations");
    CHECK(strcmp(api_format_label(0), "json") == 0 && strcmp(api_format_label(1), "safetensors") == 0 &&
              strcmp(api_format_label(2), "oip") == 0 && !api_format_label(3),
          "formats");
    for (size_t i = 0; (label = api_code_label(i)); i++) last = label;
    CHECK(strcmp(api_code_label(0), "invalid_json") == 0 && strcmp(last, "compute_timeout") == 0, "codes");
}

static void test_json_strings(void) {
    static const struct {
        const char *string, *json;
    } rows[] = {{"", "\"\""},
                {"plain", "\"plain\""},
                {"a\"b\\c", "\"a\\\"b\\\\c\""},
                {"line\n\x7f", "\"line\\u000a\\u007f\""},
                {"\xc2\x9b\xc2\xa0", "\"\\u009b\xc2\xa0\""},
                {"\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9\xf0\x9f\x98\x80\""},
                {"a\xff\xc3z", "\"a??z\""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        const size_t length = strlen(rows[i].json);
        CHECK(api_json_string(text, sizeof text, rows[i].string) == length && memcmp(text, rows[i].json, length) == 0,
              "expected %s, got %.*s", rows[i].json, (int)length, text);
        CHECK(api_json_string(text, length, rows[i].string) == length, "%s fits its own length", rows[i].json);
        for (size_t short_of = 1; short_of <= length; short_of++) {
            memset(text, '#', sizeof text);
            CHECK(api_json_string(text, length - short_of, rows[i].string) == 0, "%s does not fit", rows[i].json);
            CHECK(text[length - short_of] == '#', "%s: written past %zu bytes", rows[i].json, length - short_of);
        }
    }
}

int main(int argc, char **argv) {
    exchange_init();
    const check_test tests[] = {
        CHECK_TEST(test_paths_and_methods),
        CHECK_TEST(test_what_is_there),
        CHECK_TEST(test_content_types),
        CHECK_TEST(test_accept),
        CHECK_TEST(test_bodies_over_the_limit),
        CHECK_TEST(test_info),
        CHECK_TEST(test_what_can_never_fit),
        CHECK_TEST(test_memory_full_now),
        CHECK_TEST(test_cancel_and_fail),
        CHECK_TEST(test_trace_of_a_request),
        CHECK_TEST(test_labels),
        CHECK_TEST(test_json_strings),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
