/* fuzz_api.c: any bytes as a request through begin, push, finish. The answer must be one that the contract lists, never
 * a 500, valid JSON, and the same however the body is cut into pieces.
 *
 * Input: a byte for the route and the body's coding, a byte for the cutting, then the body. Built for libFuzzer, or
 * with replay.c as a program that runs files.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../api/api.h"
#include "fuzz_api.h"

#define MAX_BODY (64 << 10)
#define BUDGET ((size_t)64 << 20)
#define MAX_WORK 3e7 /* nanoseconds, estimated; more is cancelled, which is an answer too */

typedef struct run_answer {
    int status;
    char *body;
    size_t length;
} run_answer;

static const char *const paths[] = {"/attention", "/mha", "/attention", "/mha", "/healthz", "/nope"};

static _Noreturn void fail(const char *what, const run_answer *answer) {
    fprintf(stderr, "%s: status %d: %.*s\n", what, answer->status, (int)(answer->length > 2000 ? 2000 : answer->length),
            answer->body);
    abort();
}

static const char *content_encoding; /* of the request; NULL: none */

static const char *header(void *context, const char *name) {
    (void)context;
    return strcmp(name, "content-encoding") == 0 ? content_encoding : NULL;
}

/* piece 0: the body at once; else pieces of 1 to `piece` bytes, drawn from `seed` */
static run_answer run(api_service *service, const char *path, const uint8_t *body, size_t size, size_t piece,
                      uint32_t seed) {
    const api_head head = {.method = "POST", .path = path, .header = header};
    run_answer result = {0};
    api_request *request = api_begin(service, &head);
    if (!request) fail("out of memory", &result);
    for (size_t at = 0; at < size;) {
        seed = seed * 1664525 + 1013904223;
        size_t n = piece ? 1 + (seed >> 8) % piece : size;
        if (n > size - at) n = size - at;
        api_push(request, body + at, n);
        at += n;
    }
    if (api_work(request) > MAX_WORK) api_cancel(request, API_CANCEL_TIMEOUT);
    const api_response *response = api_finish(request, 0);
    result = (run_answer){response->status, malloc(response->length + 1), response->length};
    if (!result.body) abort();
    if (response->length) memcpy(result.body, response->body, response->length);
    result.body[response->length] = 0;
    api_request_free(request);
    if (service->budget.used) fail("memory stays charged", &result);
    return result;
}

static void check_answer(const run_answer *answer) {
    static const int statuses[] = {200, 400, 404, 405, 413, 422, 429, 504};
    bool listed = false;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) listed |= answer->status == statuses[i];
    if (!listed) fail("a status that no input may have", answer);
    json_t *json = json_loadb(answer->body, answer->length, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(json)) fail("no JSON object", answer);
    const char *code = json_string_value(json_object_get(json, "code"));
    if ((answer->status == 200) == (code != NULL)) fail("a code where there should be none, or none", answer);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const size_t pieces[] = {1, 2, 7, 64, 1000, 5000};
    static const char *const codings[] = {NULL, "gzip", "deflate", "zstd"};
    static api_service service;
    if (size < 2) return 0;
    if (!service.engine.kernel) {
        service.engine.kernel = attn_kernel_find(NULL);
        service.max_body = MAX_BODY - 100;
        service.budget.limit = BUDGET;
    }
    const char *path = paths[data[0] % (sizeof paths / sizeof *paths)];
    content_encoding = codings[data[0] / 64];
    const size_t piece = pieces[data[1] % (sizeof pieces / sizeof *pieces)];
    run_answer whole = run(&service, path, data + 2, size - 2, 0, 0);
    run_answer cut = run(&service, path, data + 2, size - 2, piece, data[1]);
    check_answer(&whole);
    const bool same =
        whole.status == cut.status && whole.length == cut.length && !memcmp(whole.body, cut.body, cut.length);
    /* what the libraries say of a corrupt body depends on how much of it they see at once */
    const bool both_fail = content_encoding && whole.status >= 400 && cut.status >= 400;
    if (!same && !both_fail) {
        fprintf(stderr, "whole: status %d: %.2000s\n", whole.status, whole.body);
        fail("other pieces, another answer", &cut);
    }
    free(whole.body);
    free(cut.body);
    return 0;
}
