/* test_alloc.c: the nth allocation of a request fails, for every n: the answer is a clean 503 or the right one, nothing
 * leaks, nothing crashes. The linker sends every allocation of this program here (--wrap in the Makefile). */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#include "../../api/api.h"
#include "../support/check.h"

/* ---- counted allocations ----------------------------------------------------------------------------------------- */

static bool counting, onwards; /* onwards: all from the failing one on fail */
static size_t allocations, failing;
static long outstanding; /* pieces that were taken while counting and not given back */

static bool denied(void) {
    if (!counting) return false;
    allocations++;
    return failing && (onwards ? allocations >= failing : allocations == failing);
}

static void *counted(void *piece) {
    if (counting && piece) outstanding++;
    return piece;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *piece, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **piece, size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *piece);
void *__real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t length);
void *__real_mremap(void *address, size_t old_size, size_t new_size, int flags, ...);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *piece, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **piece, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *piece);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *address, size_t length);
void *__wrap_mremap(void *address, size_t old_size, size_t new_size, int flags, ...);

void *__wrap_malloc(size_t size) { return denied() ? NULL : counted(__real_malloc(size)); }
void *__wrap_calloc(size_t count, size_t size) { return denied() ? NULL : counted(__real_calloc(count, size)); }
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return denied() ? NULL : counted(__real_aligned_alloc(alignment, size));
}
char *__wrap_strdup(const char *text) { return denied() ? NULL : counted(__real_strdup(text)); }

void *__wrap_realloc(void *piece, size_t size) {
    if (denied()) return NULL;
    return piece ? __real_realloc(piece, size) : counted(__real_realloc(NULL, size));
}

int __wrap_posix_memalign(void **piece, size_t alignment, size_t size) {
    if (denied()) return 12; /* ENOMEM */
    const int result = __real_posix_memalign(piece, alignment, size);
    if (!result) counted(*piece);
    return result;
}

void __wrap_free(void *piece) {
    if (counting && piece) outstanding--;
    __real_free(piece);
}

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    if (denied()) return MAP_FAILED;
    void *piece = __real_mmap(address, length, protection, flags, fd, offset);
    if (piece != MAP_FAILED) counted(piece);
    return piece;
}

int __wrap_munmap(void *address, size_t length) {
    if (counting) outstanding--;
    return __real_munmap(address, length);
}

void *__wrap_mremap(void *address, size_t old_size, size_t new_size, int flags, ...) {
    return denied() ? MAP_FAILED : __real_mremap(address, old_size, new_size, flags);
}

/* ---- one request ------------------------------------------------------------------------------------------------- */

typedef struct run_answer {
    int status;
    char *body; /* NULL: none */
} run_answer;

static api_service service;
/* of the requests; NULL: none */
static const char *content_encoding, *accept_encoding, *json_length, *content_type, *query;

static const char *header(void *context, const char *name) {
    (void)context;
    if (!strcmp(name, "content-encoding")) return content_encoding;
    if (!strcmp(name, "inference-header-content-length")) return json_length;
    if (!strcmp(name, "content-type")) return content_type;
    return !strcmp(name, "accept-encoding") ? accept_encoding : NULL;
}

static run_answer run(const char *path, const char *body, size_t length) {
    const api_head head = {.method = "POST", .path = path, .header = header, .query = query};
    run_answer result = {0};
    counting = true;
    api_request *request = api_begin(&service, &head);
    for (size_t at = 0; request && at < length;) {
        const size_t n = length - at < 4000 ? length - at : 4000;
        api_push(request, body + at, n);
        at += n;
    }
    if (request) api_work(request);
    const api_response *response = request ? api_finish(request, 0) : api_out_of_memory();
    counting = false;
    result.status = response->status;
    result.body = calloc(1, response->length + 1);
    if (!result.body) abort();
    if (response->length) memcpy(result.body, response->body, response->length);
    counting = true;
    api_request_free(request);
    counting = false;
    return result;
}

static bool says_out_of_memory(const run_answer *answer) {
    json_t *problem = json_loads(answer->body, 0, NULL);
    const char *code = json_string_value(json_object_get(problem, "code"));
    const bool ok = answer->status == 503 && code && !strcmp(code, "out_of_memory");
    json_decref(problem);
    return ok;
}

/* Runs the request with each allocation failing in turn. */
static void fail_each(const char *path, const char *body, size_t length, int status) {
    failing = 0;
    allocations = 0;
    outstanding = 0;
    run_answer right = run(path, body, length);
    const size_t total = allocations;
    CHECK(right.status == status, "%.60s: status %d, expected %d: %.200s", body, right.status, status, right.body);
    CHECK(outstanding == 0, "%.60s: %ld pieces leak", body, outstanding);
    CHECK(total > 0, "%.60s: no allocation was counted", body);
    for (int mode = 0; mode < 2; mode++)
        for (size_t n = 1; n <= total; n++) {
            onwards = mode;
            failing = n;
            allocations = 0;
            outstanding = 0;
            run_answer got = run(path, body, length);
            failing = 0;
            /* if there is no memory to compress it, a reply is sent as it is */
            const bool same = got.status == right.status && (accept_encoding || !strcmp(got.body, right.body));
            CHECK(same || says_out_of_memory(&got), "%.60s: allocation %zu of %zu%s: %d %.200s", body, n, total,
                  mode ? " and later ones" : "", got.status, got.body);
            CHECK(outstanding == 0, "%.60s: allocation %zu%s: %ld pieces leak", body, n, mode ? " and later ones" : "",
                  outstanding);
            CHECK(service.budget.used == 0, "%.60s: allocation %zu: %zu bytes stay charged", body, n,
                  (size_t)service.budget.used);
            free(got.body);
        }
    free(right.body);
}

static void fail_each_of(const char *path, const char *body, int status) {
    fail_each(path, body, strlen(body), status);
}

static void test_attention_with_every_option(void) {
    fail_each_of(
        "/attention",
        "{\"q\":[[1,2],[3,4]],\"k\":{\"shape\":[2,2],\"data\":[1,0,0,1]},"
        "\"v\":{\"shape\":[2,2],\"dtype\":\"F32\",\"base64\":\"AACAPwAAAEAAAEBAAACAQA==\"},\"num_heads\":2,"
        "\"num_kv_heads\":2,\"mask\":[[1,1,1],[1,0,1]],\"bias\":[0,1,-Infinity],\"kv_lengths\":[2],"
        "\"causal\":true,\"query_offset\":[1],\"window\":[5,5],\"scale\":\"1/d_k\",\"softcap\":3,"
        "\"past_k\":[[[1]],[[2]]],\"past_v\":[[[1]],[[2]]],\"tokens\":[\"a\",\"b\"],"
        "\"key_tokens\":[\"x\",\"y\",\"z\"],\"return\":[\"lse\",\"present_k\"],\"return_weights\":true,\"trace\":true}",
        200);
}

static void test_attention_in_float64_and_formats(void) {
    fail_each_of("/attention",
                 "{\"q\":[[[[1,2]]]],\"k\":[[[[1,2]]]],\"v\":[[[[1,2]]]],\"layout\":\"bnhd\",\"format\":\"flat\","
                 "\"dtype\":\"float64\",\"trace\":true}",
                 200);
    fail_each_of("/attention",
                 "{\"dtype\":\"float64\",\"q\":[[1,2]],\"k\":[[1,2]],\"v\":[[1,2]],\"format\":\"base64\"}", 200);
}

static void test_mha(void) {
    fail_each_of(
        "/mha",
        "{\"x\":[[1,2],[3,4]],\"context\":[[1,0],[0,1]],\"w_q\":[[1,2],[3,4]],\"w_k\":[[1],[2]],\"w_v\":[[1],[2]],"
        "\"w_o\":[[1,2],[3,4]],\"b_q\":[1,2],\"b_k\":[1],\"b_v\":[1],\"b_o\":[1,2],\"num_heads\":2,\"num_kv_heads\":1,"
        "\"head_mask\":[1,0.5],\"weight_layout\":\"in_out\",\"trace\":true,\"return_weights\":\"average\"}",
        200);
    fail_each_of("/mha",
                 "{\"x\":[[[1,2]]],\"w_qkv\":[[1,0,0,1,1,1],[0,1,1,0,1,1]],\"b_qkv\":[1,2,3,4,5,6],\"num_heads\":1,"
                 "\"causal\":true,\"return\":[\"q\",\"k\",\"v\",\"heads\",\"output\"]}",
                 200);
}

static void test_errors(void) {
    fail_each_of("/attention", "", 400);
    fail_each_of("/attention", "{\"q\":[[1,2],[3,4]],\"k\":[[1,2", 400);
    fail_each_of("/attention", "{\"q\":[[1]],\"q\":[[1]]}", 400);
    fail_each_of("/attention", "{}", 422);
    fail_each_of("/attention", "{\"q\":[[1],[2,3]],\"casual\":{\"a\":[\"b\",{}]}}", 422);
    fail_each_of("/attention", "{\"q\":[[NaN]],\"k\":[[1]],\"v\":[[1]]}", 422);
    fail_each_of("/attention", "{\"q\":[[3e38]],\"k\":[[3e38]],\"v\":[[1]]}", 422);
    fail_each_of("/mha", "{\"x\":[[1]],\"num_heads\":1}", 422);
    fail_each_of("/nope", "{}", 404);
}

static void test_open_inference_protocol(void) {
    static const char tensors[] = "{\"id\":\"x\",\"inputs\":["
                                  "{\"name\":\"q\",\"shape\":[1,2],\"datatype\":\"FP16\","
                                  "\"parameters\":{\"binary_data_size\":4}},"
                                  "{\"name\":\"k\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":[1,2]},"
                                  "{\"name\":\"v\",\"shape\":[1,1],\"datatype\":\"FP32\","
                                  "\"parameters\":{\"binary_data_size\":4}}],"
                                  "\"outputs\":[{\"name\":\"output\"},{\"name\":\"lse\"}],"
                                  "\"parameters\":{\"window\":\"[1,1]\",\"scale\":0.5,\"tokens\":[\"a\"]}}";
    static const char bytes[8] = {0, 60, 0, 60, 0, 0, 0, 0};
    char body[sizeof tensors + sizeof bytes], length[24];
    snprintf(length, sizeof length, "%zu", sizeof tensors - 1);
    memcpy(body, tensors, sizeof tensors - 1);
    memcpy(body + sizeof tensors - 1, bytes, sizeof bytes);
    json_length = length;
    fail_each("/v2/models/attention/infer", body, sizeof tensors - 1 + sizeof bytes, 200);
    fail_each("/v2/models/attention/infer", body, sizeof tensors - 1, 400);
    json_length = NULL;
    fail_each_of("/v2/models/attention/infer", "{\"inputs\":[],\"parameters\":{\"windou\":1}}", 422);
    fail_each_of("/v2/models/attention/stats", "", 405);
}

/* Codings whose library allocates through us. */
static void test_codings(void) {
    static const char text[] = "{\"q\":[[1,2]],\"k\":[[1,2]],\"v\":[[1,2]],\"trace\":true}";
    Bytef coded[200];
    uLongf length = sizeof coded;
    CHECK(compress(coded, &length, (const Bytef *)text, sizeof text - 1) == Z_OK, "zlib fails");
    content_encoding = "deflate";
    fail_each("/attention", (const char *)coded, length, 200);
    fail_each("/attention", (const char *)coded, length - 1, 400);
    content_encoding = NULL;
    accept_encoding = "gzip, identity;q=0";
    fail_each("/attention", text, sizeof text - 1, 200);
    accept_encoding = NULL;
}

static void fail_each_safetensors(const char *path, const char *header, size_t length, int status) {
    char body[2000] = {0};
    const size_t header_length = strlen(header);
    body[0] = (char)(header_length & 0xFF);
    body[1] = (char)(header_length >> 8);
    memcpy(body + 8, header, header_length);
    fail_each(path, body, 8 + header_length + length, status);
}

static void test_safetensors(void) {
    content_type = "application/vnd.safetensors";
    query = "causal=true&return=lse,output&tokens=[%22a%22,%22b%22]&window=1,2&scale=1/d_k";
    fail_each_safetensors("/attention",
                          "{\"__metadata__\":{\"causal\":\"true\",\"tokens\":\"a,b\",\"format\":\"pt\","
                          "\"reply_dtype\":\"F16\",\"window\":\"[1, 2]\"},"
                          "\"kv_lengths\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                          "\"softcap\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[4,6]},"
                          "\"q\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[6,22]},"
                          "\"k\":{\"dtype\":\"F64\",\"shape\":[2,2],\"data_offsets\":[22,54]},"
                          "\"v\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[54,62]}}",
                          62, 200);
    query = "causal=false";
    fail_each_safetensors("/attention", "{\"__metadata__\":{\"causal\":\"true\"}}", 0, 422);
    fail_each_safetensors("/mha", "{\"__metadata__\":{\"num_heads\":\"2\"}}", 0, 422);
    query = NULL;
    fail_each_safetensors("/attention", "{\"q\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, 422);
    fail_each_safetensors("/attention", "{\"q\":", 0, 400);
    content_type = NULL;
}

/* The reply's numbers wider, and narrower, than those computed. */
static void test_reply_dtype(void) {
    fail_each_of("/attention", "{\"q\":[[1]],\"k\":[[1]],\"v\":[[0.1]],\"reply_dtype\":\"F64\"}", 200);
    fail_each_of("/attention", "{\"q\":[[1]],\"k\":[[1]],\"v\":[[1e5]],\"reply_dtype\":\"F16\"}", 422);
}

/* Enough numbers that every buffer grows many times. */
static void test_large_tensors(void) {
    enum { ROWS = 3000 };
    char *body = malloc(ROWS * 60), *at = body;
    if (!body) abort();
    for (int i = 0; i < 3; i++) {
        at += sprintf(at, "%s\"%c\":[", i ? "," : "{", "qkv"[i]);
        for (int j = 0; j < (i ? ROWS : 2); j++) at += sprintf(at, "%s[%d.5,1e-3,2]", j ? "," : "", j % 10);
        at += sprintf(at, "]");
    }
    at += sprintf(at, ",\"return\":[\"output\",\"weights\"]}");
    fail_each("/attention", body, (size_t)(at - body), 200);
    free(body);
}

int main(int argc, char **argv) {
    static const check_test tests[] = {
        CHECK_TEST(test_attention_with_every_option),
        CHECK_TEST(test_attention_in_float64_and_formats),
        CHECK_TEST(test_mha),
        CHECK_TEST(test_errors),
        CHECK_TEST(test_open_inference_protocol),
        CHECK_TEST(test_codings),
        CHECK_TEST(test_safetensors),
        CHECK_TEST(test_reply_dtype),
        CHECK_TEST(test_large_tensors),
    };
    json_set_alloc_funcs(malloc, free); /* the library's own calls would pass by the counter */
    service.engine.kernel = attn_kernel_find(NULL);
    service.max_body = 1 << 20;
    service.budget.limit = 64 << 20;
    free(run("/attention", "{\"q\":[[1]],\"k\":[[1]],\"v\":[[1]]}", 31)
             .body); /* sets up what is set up once, uncounted */
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
