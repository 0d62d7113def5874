/* fuzz_safetensors.c: any bytes as a body of safetensors, and any as its query string. The answer must be one that the
 * contract lists, and the same however the body is cut into pieces.
 *
 * Input: a byte for the route and the form of the reply, a byte for the cutting and the length of the query, the query,
 * a byte for the length of the header (what is left over is data), the header, the data. The eight bytes before the
 * header are made from that, unless the query is empty: then the rest is the whole body.
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

static const char *accept;

static const char *header(void *context, const char *name) {
    (void)context;
    if (strcmp(name, "content-type") == 0) return "application/vnd.safetensors";
    return strcmp(name, "accept") == 0 ? accept : NULL;
}

static _Noreturn void fail(const char *what, const run_answer *answer) {
    fprintf(stderr, "%s: status %d: %.*s\n", what, answer->status, (int)(answer->length > 2000 ? 2000 : answer->length),
            answer->body);
    abort();
}

/* in pieces of `piece` bytes */
static run_answer run(api_service *service, const char *path, const char *query, const uint8_t *body, size_t size,
                      size_t piece) {
    const api_head head = {.method = "POST", .path = path, .query = query, .header = header};
    run_answer result = {0};
    api_request *request = api_begin(service, &head);
    if (!request) fail("out of memory", &result);
    for (size_t at = 0; at < size; at += piece) api_push(request, body + at, size - at < piece ? size - at : piece);
    if (api_work(request) > MAX_WORK) api_cancel(request, API_CANCEL_TIMEOUT);
    const api_response *response = api_finish(request, 0);
    result = (run_answer){response->status, malloc(response->length + 1), response->length};
    if (!result.body) abort();
    if (response->length) memcpy(result.body, response->body, response->length);
    result.body[response->length] = 0;
    const bool binary = strcmp(response->content_type, "application/vnd.safetensors") == 0;
    uint64_t length = 0;
    if (binary) memcpy(&length, result.body, sizeof length);
    const char *text = binary ? result.body + 8 : result.body;
    if (binary && (response->status != 200 || length % 8 || length > result.length - 8)) fail("no such reply", &result);
    json_t *json = json_loadb(text, binary ? (size_t)length : result.length, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(json)) fail("no JSON object", &result);
    json_decref(json);
    api_request_free(request);
    if (service->budget.used) fail("memory stays charged", &result);
    return result;
}

static void check(api_service *service, const char *path, const char *query, const uint8_t *body, size_t size,
                  size_t piece) {
    static const int statuses[] = {200, 400, 413, 422, 429, 504};
    bool listed = false;
    run_answer whole = run(service, path, query, body, size, size + 1),
               cut = run(service, path, query, body, size, piece);
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) listed |= whole.status == statuses[i];
    if (!listed) fail("a status that no input may have", &whole);
    if (whole.status != cut.status || whole.length != cut.length || memcmp(whole.body, cut.body, cut.length)) {
        fprintf(stderr, "whole: status %d: %.2000s\n", whole.status, whole.body);
        fail("other pieces, another answer", &cut);
    }
    free(whole.body);
    free(cut.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const size_t pieces[] = {1, 2, 7, 9, 64, 1000, 5000, 300};
    static api_service service;
    static uint8_t body[MAX_BODY + 8];
    char query[64] = "";
    if (size < 3 || size > MAX_BODY) return 0;
    if (!service.engine.kernel) {
        service.engine.kernel = attn_kernel_find(NULL);
        service.max_body = MAX_BODY;
        service.budget.limit = BUDGET;
    }
    const char *path = data[0] & 1 ? "/mha" : "/attention";
    accept = data[0] & 2 ? "application/json" : NULL;
    const size_t piece = pieces[data[1] & 7];
    size_t query_length = data[1] >> 3, at = 2;
    if (query_length > size - 3) query_length = size - 3;
    memcpy(query, data + at, query_length);
    at += query_length;
    size_t header_length = (size_t)data[at++] * 8;
    if (header_length > size - at) header_length = size - at;
    for (size_t i = 0; i < 8; i++) body[i] = (uint8_t)((uint64_t)header_length >> 8 * i);
    memcpy(body + 8, data + at, size - at);
    const bool whole = query_length == 0;
    check(&service, path, whole ? NULL : query, whole ? data + at : body, whole ? size - at : size - at + 8, piece);
    return 0;
}
