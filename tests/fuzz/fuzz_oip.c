/* fuzz_oip.c: any bytes as an infer request of the Open Inference Protocol, JSON and the tensors after it. The answer
 * must be one that the contract lists, never a 500, its JSON valid and its bytes as many as it says, an error with the
 * member `error`, and the same however the body is cut into pieces.
 *
 * Input: a byte for the model and for how the length of the JSON is told, a byte for the cutting, two for that length,
 * then the body. Built for libFuzzer, or with replay.c as a program that runs files.
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
    size_t length, json; /* json: bytes of JSON */
} run_answer;

static _Noreturn void fail(const char *what, const run_answer *answer) {
    fprintf(stderr, "%s: status %d: %.*s\n", what, answer->status, (int)(answer->length > 2000 ? 2000 : answer->length),
            answer->body);
    abort();
}

static const char *header(void *context, const char *name) {
    return strcmp(name, "inference-header-content-length") == 0 ? context : NULL;
}

/* piece 0: the body at once; else pieces of 1 to `piece` bytes, drawn from `seed` */
static run_answer run(api_service *service, const char *path, const char *json_length, const uint8_t *body, size_t size,
                      size_t piece, uint32_t seed) {
    const api_head head = {.method = "POST", .path = path, .header = header, .context = (void *)(uintptr_t)json_length};
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
    result = (run_answer){response->status, malloc(response->length + 1), response->length, response->length};
    if (!result.body) abort();
    if (response->length) memcpy(result.body, response->body, response->length);
    result.body[response->length] = 0;
    for (const api_header *h = response->headers; h->name; h++)
        if (strcmp(h->name, "Inference-Header-Content-Length") == 0) result.json = strtoull(h->value, NULL, 10);
    api_request_free(request);
    if (service->budget.used) fail("memory stays charged", &result);
    return result;
}

/* bytes that the outputs of a reply say to have after the JSON */
static size_t announced(json_t *json) {
    size_t sum = 0, i;
    json_t *output;
    json_array_foreach(json_object_get(json, "outputs"), i, output) sum +=
        (size_t)json_integer_value(json_object_get(json_object_get(output, "parameters"), "binary_data_size"));
    return sum;
}

static void check_answer(const run_answer *answer) {
    static const int statuses[] = {200, 400, 413, 422, 429, 504};
    bool listed = false;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) listed |= answer->status == statuses[i];
    if (!listed) fail("a status that no input may have", answer);
    if (answer->json > answer->length) fail("more JSON than there is", answer);
    json_t *json = json_loadb(answer->body, answer->json, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(json)) fail("no JSON object", answer);
    if ((answer->status == 200) == json_is_string(json_object_get(json, "error")))
        fail("error there or missing", answer);
    if (answer->json + announced(json) != answer->length) fail("other bytes than the sizes say", answer);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const size_t pieces[] = {1, 2, 7, 64, 1000, 5000};
    static api_service service;
    if (size < 4) return 0;
    if (!service.engine.kernel) {
        service.engine.kernel = attn_kernel_find(NULL);
        service.max_body = MAX_BODY - 100;
        service.budget.limit = BUDGET;
    }
    const char *path = data[0] & 1 ? "/v2/models/mha/infer" : "/v2/models/attention/infer";
    const uint8_t *body = data + 4, *nul = memchr(body, 0, size - 4);
    char json_length[24];
    const size_t length = data[0] & 4 ? data[2] | (size_t)data[3] << 8 : nul ? (size_t)(nul - body) : size - 4;
    snprintf(json_length, sizeof json_length, "%zu",
             length); /* JSON holds no NUL, bytes of tensors often begin with one */
    const char *told = data[0] & 2 ? json_length : NULL;
    const size_t piece = pieces[data[1] % (sizeof pieces / sizeof *pieces)];
    run_answer whole = run(&service, path, told, body, size - 4, 0, 0);
    run_answer cut = run(&service, path, told, body, size - 4, piece, data[1]);
    check_answer(&whole);
    if (whole.status != cut.status || whole.length != cut.length || memcmp(whole.body, cut.body, cut.length)) {
        fprintf(stderr, "whole: status %d: %.2000s\n", whole.status, whole.body);
        fail("other pieces, another answer", &cut);
    }
    free(whole.body);
    free(cut.body);
    return 0;
}
