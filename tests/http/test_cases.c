/* test_cases.c: every file of tests/cases, through HTTP and, where it POSTs a plain body, through `attentiond call`.
 * A new file is a new test: no code is needed. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "case.h"

#define FOLDER "tests/cases"

static char **paths;
static size_t path_count, next_path;

/* ---- one exchange ------------------------------------------------------------------------------------------------ */

static http_reply send_request(const json_t *request, const text_buffer *body) {
    char storage[16][512];
    const char *headers[17] = {0}, *name;
    json_t *value;
    size_t count = 0;
    json_object_foreach(json_object_get(request, "headers"), name, value) {
        if (count == 16) break;
        snprintf(storage[count], sizeof *storage, "%.100s: %.400s", name, json_string_value(value));
        headers[count] = storage[count];
        count++;
    }
    return http_send(NULL, shared.port,
                     &(http_request){.method = json_string_value(json_object_get(request, "method")),
                                     .path = json_string_value(json_object_get(request, "path")),
                                     .headers = headers,
                                     .body = body->bytes,
                                     .length = body->length});
}

static void run_wire(const json_t *request, const json_t *expect, const char *path) {
    const text_buffer bytes = parts_joined(json_object_get(request, "wire_parts"), true);
    const json_t *within = json_object_get(expect, "within_ms");
    const char *body = strstr(bytes.bytes, "\r\n\r\n");
    const size_t head = json_object_get(expect, "interim") && body ? (size_t)(body - bytes.bytes) + 4 : bytes.length;
    int interim = -1;
    char why[512] = "";
    wire_link wire;
    if (!CHECK(wire_open(&wire, shared.port), "%s: cannot connect", path)) return;
    wire_send(&wire, bytes.bytes, head);
    if (json_object_get(expect, "interim"))
        interim = wire_peek_status(&wire, within ? json_number_value(within) / 1000 : 1);
    http_reply reply = {0};
    if (interim / 100 == 1) reply = wire_reply(&wire, 1, false);
    wire_send(&wire, bytes.bytes + head, bytes.length - head);
    http_free(&reply);
    reply = wire_reply(&wire, 10, false);
    const int closed = json_object_get(expect, "closed") ? wire_ends(&wire, 3) : -1;
    CHECK(case_expects(expect, request, &reply, closed, interim, why), "%s: %s", path, why);
    http_free(&reply);
    wire_close(&wire);
    free(bytes.bytes);
}

/* What `call` prints, as a reply. */
static http_reply call(const char *endpoint, const text_buffer *body, const char *path) {
    command_result result = command_run((const char *const[]){"call", endpoint, NULL}, body->bytes, body->length);
    http_reply reply = {.status = 200, .body = result.output, .length = result.length};
    json_t *json = json_loadb(result.output, result.length, 0, NULL);
    CHECK(result.status == 0 || result.status == 1, "%s: call ended with %d: %s", path, result.status, result.errors);
    if (result.status) {
        reply.status = (int)json_integer_value(json_object_get(json, "status"));
        CHECK(reply.status >= 400, "%s: exit 1 without a problem document: %.300s", path, result.output);
        reply.head = strdup("HTTP/1.1 400\r\nContent-Type: application/problem+json\r\n\r\n");
    }
    json_decref(json);
    free(result.errors);
    return reply;
}

/* The endpoint's name if the request is a plain body to one, else NULL. */
static const char *callable(const json_t *request, const json_t *expect) {
    const char *method = json_string_value(json_object_get(request, "method"));
    const char *path = json_string_value(json_object_get(request, "path"));
    const json_t *headers = json_object_get(request, "headers");
    const char *type = json_string_value(json_object_get(headers, "Content-Type"));
    if (!method || strcmp(method, "POST") || json_object_size(headers) > (type != NULL)) return NULL;
    if (type && strncasecmp(type, "application/json", 16)) return NULL;
    if (json_object_get(expect, "headers")) return NULL;
    if (!strcmp(path, "/attention")) return "attention";
    if (!strcmp(path, "/scan")) return "scan";
    if (!strcmp(path, "/merge")) return "merge";
    return strcmp(path, "/mha") ? NULL : "mha";
}

static void run_report(const json_t *document, const char *path) {
    const json_t *request = json_object_get(document, "request"), *expect = json_object_get(document, "expect");
    char why[512] = "";
    if (json_object_get(request, "wire_parts")) {
        run_wire(request, expect, path);
        return;
    }
    text_buffer body = case_body(request);
    http_reply reply = send_request(request, &body);
    CHECK(case_expects(expect, request, &reply, -1, -1, why), "%s: %s", path, why);
    http_free(&reply);
    const char *endpoint = callable(request, expect);
    if (endpoint) {
        reply = call(endpoint, &body, path);
        CHECK(case_expects(expect, request, &reply, -1, -1, why), "%s: call: %s", path, why);
        http_free(&reply);
    }
    text_free(&body);
}

static void run_onnx(const json_t *node, const char *path) {
    for (int spelling = 0; spelling < 3; spelling++) {
        text_buffer body = onnx_body(node, spelling == 1);
        char why[512] = "";
        http_reply reply = spelling == 2 ? call("attention", &body, path) : http_post("/attention", body.bytes);
        CHECK(onnx_expects(node, &reply, why), "%s (%s): %s", path,
              spelling == 2 ? "call"
              : spelling    ? "nested"
                            : "flat",
              why);
        http_free(&reply);
        text_free(&body);
    }
}

/* Runs the next path: tests are run in their order. */
static void run_next(void) {
    const char *path = paths[next_path++];
    json_error_t error;
    json_t *document = json_load_file(path, JSON_ALLOW_NUL, &error);
    CHECK_FATAL(document, "%s: %s", path, error.text);
    if (json_object_get(document, "op"))
        run_onnx(document, path);
    else
        run_report(document, path);
    CHECK(healthy(shared.port), "%s: not healthy afterwards", path);
    json_decref(document);
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void list_folder(const char *name) {
    char folder[300], path[600];
    snprintf(folder, sizeof folder, "%s/%s", FOLDER, name);
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".json")) continue;
        snprintf(path, sizeof path, "%s/%.255s", folder, entry->d_name);
        paths = realloc(paths, (path_count + 1) * sizeof *paths);
        if (!paths || !(paths[path_count++] = strdup(path))) abort();
    }
    if (directory) closedir(directory);
}

/* argv[1] may name some of the files. */
int main(int argc, char **argv) {
    static const char *const folders[] = {"onnx", "reports", "own", "family"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) list_folder(folders[i]);
    if (path_count) qsort(paths, path_count, sizeof *paths, ascending);
    size_t kept = 0;
    for (size_t i = 0; i < path_count; i++)
        if (argc < 2 || strstr(paths[i], argv[1]))
            paths[kept++] = paths[i];
        else
            free(paths[i]);
    check_test *tests = calloc(kept + 1, sizeof *tests);
    if (!tests) abort();
    for (size_t i = 0; i < kept; i++) tests[i] = (check_test){paths[i], run_next};
    const int status = shared_main(1, argv, tests, kept, NULL);
    for (size_t i = 0; i < kept; i++) free(paths[i]);
    free(paths);
    free(tests);
    return status || kept == 0;
}
