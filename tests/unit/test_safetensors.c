/* safetensors in and out: the same bits as JSON, options, bodies that break the format, negotiation, reply_dtype. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../../api/numbers/half.h"
#include "../support/exchange.h"

#define SAFETENSORS "application/vnd.safetensors"

/* ---- requests ---------------------------------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t *data; /* malloc'd */
    size_t length;
} bytes;

/* A body of a header, with ' for ", and data; `claimed` is the length that it says the header has. */
static bytes body_claiming(uint64_t claimed, const char *header, const void *data, size_t length) {
    char *text = exchange_quoted(header);
    const size_t header_length = strlen(text);
    bytes body = {malloc(8 + header_length + length + 1), 8 + header_length + length};
    for (size_t i = 0; i < 8; i++) body.data[i] = (uint8_t)(claimed >> 8 * i);
    memcpy(body.data + 8, text, header_length);
    if (length) memcpy(body.data + 8 + header_length, data, length);
    free(text);
    return body;
}

static bytes body_of(const char *header, const void *data, size_t length) {
    return body_claiming(strlen(header), header, data, length);
}

static const char *header_value(void *context, const char *name) {
    for (const char **p = ((exchange_headers *)context)->pairs; *p; p += 2)
        if (strcasecmp(p[0], name) == 0) return p[1];
    return NULL;
}

typedef struct answer {
    int status;
    char content_type[64];
    bytes body; /* zero-ended beyond its length */
} answer;

/* Sends in pieces of `piece` bytes, 0: at once. */
static answer send_pieces(exchange_headers headers, const char *path, const char *query, bytes body, size_t piece) {
    const api_head head = {.method = "POST", .path = path, .query = query, .header = header_value, .context = &headers};
    api_request *request = api_begin(&exchange_service, &head);
    const api_response *response = api_refused(request);
    if (!response) {
        if (piece == 0) piece = body.length + 1;
        for (size_t i = 0; i < body.length; i += piece)
            api_push(request, body.data + i, body.length - i < piece ? body.length - i : piece);
        response = api_finish(request, 0);
    }
    answer a = {response->status, "", {malloc(response->length + 1), response->length}};
    snprintf(a.content_type, sizeof a.content_type, "%s", response->content_type);
    memcpy(a.body.data, response->body, response->length);
    a.body.data[response->length] = 0;
    api_request_free(request);
    CHECK(atomic_load(&exchange_service.budget.used) == 0, "memory of the request is still charged");
    return a;
}

static answer send_as(const char *accept, const char *path, const char *query, bytes body) {
    const exchange_headers headers = {{"content-type", SAFETENSORS, accept ? "accept" : NULL, accept, NULL}};
    return send_pieces(headers, path, query, body, 1 + check_random_below(60));
}

static answer send_json(const char *accept, const char *path, const char *text) {
    const exchange_headers headers = {{accept ? "accept" : NULL, accept, NULL}};
    return send_pieces(headers, path, NULL, (bytes){(uint8_t *)text, strlen(text)}, 0);
}

static void expect_fault(const char *what, const char *query, bytes body, int status, const char *code,
                         const char *pointer) {
    answer a = send_as(NULL, "/attention", query, body);
    json_t *problem = json_loadb((char *)a.body.data, a.body.length, 0, NULL);
    const char *got_code = json_string_value(json_object_get(problem, "code"));
    const char *got_pointer = json_string_value(json_object_get(problem, "pointer"));
    CHECK(a.status == status && got_code && strcmp(got_code, code) == 0 &&
              (pointer ? got_pointer && strcmp(got_pointer, pointer) == 0 : !got_pointer),
          "%s: expected %d %s at %s, got %d %s", what, status, code, pointer ? pointer : "(none)", a.status,
          (char *)a.body.data);
    CHECK(strcmp(a.content_type, "application/problem+json") == 0, "%s: %s", what, a.content_type);
    json_decref(problem);
    free(a.body.data);
}

/* ---- the same bits as JSON --------------------------------------------------------------------------------------- */

static char *base64(const uint8_t *in, size_t length) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc(length / 3 * 4 + 5), *p = text;
    for (size_t i = 0; i < length; i += 3) {
        const unsigned left = length - i < 3 ? (unsigned)(length - i) : 3;
        const unsigned bits =
            (unsigned)in[i] << 16 | (left > 1 ? (unsigned)in[i + 1] << 8 : 0) | (left > 2 ? in[i + 2] : 0);
        *p++ = letters[bits >> 18];
        *p++ = letters[bits >> 12 & 63];
        *p++ = left > 1 ? letters[bits >> 6 & 63] : '=';
        *p++ = left > 2 ? letters[bits & 63] : '=';
    }
    *p = 0;
    return text;
}

static size_t fill(uint8_t *out, const char *dtype, size_t count) {
    const size_t size = strcmp(dtype, "F64") == 0 ? 8 : strcmp(dtype, "F32") == 0 ? 4 : 2;
    for (size_t i = 0; i < count; i++) {
        const double x = check_random_normal();
        const float y = (float)x;
        const uint16_t half = strcmp(dtype, "F16") == 0 ? api_f16_from_float(y) : api_bf16_from_float(y);
        if (size == 8) memcpy(out + 8 * i, &x, 8);
        if (size == 4) memcpy(out + 4 * i, &y, 4);
        if (size == 2) memcpy(out + 2 * i, &half, 2);
    }
    return count * size;
}

enum { N = 70, D = 5 }; /* more numbers than are converted at a time, and not a multiple of that */

/* q, k, v of a dtype, a mask, lengths; in another order in the data than in the header, so that most are at odd
 * addresses */
static void same_as_json(const char *dtype, const char *compute, const char *reply_dtype) {
    static uint8_t data[3 * N * D * 8 + N * N + 8 + 1];
    char header[1000], *json = malloc(100000);
    const size_t mask = N * N + 1 - 1; /* bytes */
    for (size_t i = 0; i < mask; i++) data[i] = check_random_below(4) > 0;
    const size_t tensor = fill(data + mask, dtype, 3 * N * D) / 3, lengths = mask + 3 * tensor;
    const int32_t length = N - 3;
    memcpy(data + lengths, &length, 4);
    snprintf(header, sizeof header,
             "{'q':{'dtype':'%s','shape':[%d,%d],'data_offsets':[%zu,%zu]},"
             "'__metadata__':{'dtype':'%s','causal':'true','reply_dtype':'%s','softcap':'7.5','format':'base64'},"
             "'k':{'dtype':'%s','shape':[%d,%d],'data_offsets':[%zu,%zu]},"
             "'v':{'dtype':'%s','shape':[%d,%d],'data_offsets':[%zu,%zu]},"
             "'kv_lengths':{'dtype':'I32','shape':[1],'data_offsets':[%zu,%zu]},"
             "'mask':{'dtype':'BOOL','shape':[%d,%d],'data_offsets':[0,%zu]}}",
             dtype, N, D, mask, mask + tensor, compute, reply_dtype, dtype, N, D, mask + tensor, mask + 2 * tensor,
             dtype, N, D, mask + 2 * tensor, lengths, lengths, lengths + 4, N, N, mask);
    char *p = json;
    p += sprintf(p, "{");
    for (size_t i = 0; i < 3; i++) {
        char *text = base64(data + mask + i * tensor, tensor);
        p += sprintf(p, "'%c':{'shape':[%d,%d],'dtype':'%s','base64':'%s'},", "qkv"[i], N, D, dtype, text);
        free(text);
    }
    char *text = base64(data, mask);
    p += sprintf(p, "'mask':{'shape':[%d,%d],'dtype':'BOOL','base64':'%s'},'kv_lengths':[%d],", N, N, text, N - 3);
    free(text);
    sprintf(p, "'dtype':'%s','causal':true,'reply_dtype':'%s','softcap':7.5,'format':'base64'}", compute, reply_dtype);
    char *quoted = exchange_quoted(json);
    bytes body = body_of(header, data, lengths + 4);
    answer wanted = send_json(NULL, "/attention", quoted), got = send_as("application/json", "/attention", NULL, body);
    CHECK(wanted.status == 200 && got.status == 200, "%s: %d, %.300s; %d, %.300s", dtype, wanted.status,
          (char *)wanted.body.data, got.status, (char *)got.body.data);
    CHECK(strcmp((char *)wanted.body.data, (char *)got.body.data) == 0, "%s computed in %s differs from JSON", dtype,
          compute);
    /* and the bytes of a reply in safetensors are those of the base64 */
    answer binary = send_as(NULL, "/attention", NULL, body);
    uint64_t header_length = 0;
    memcpy(&header_length, binary.body.data, 8);
    char *reply = base64(binary.body.data + 8 + header_length, binary.body.length - 8 - (size_t)header_length);
    CHECK(strcmp(binary.content_type, SAFETENSORS) == 0 && header_length % 8 == 0, "%s", binary.content_type);
    CHECK(strstr((char *)got.body.data, reply), "%s as %s: the reply's bytes differ", dtype, reply_dtype);
    free(reply);
    free(binary.body.data);
    free(wanted.body.data);
    free(got.body.data);
    free(body.data);
    free(quoted);
    free(json);
}

static void test_the_same_bits_as_json(void) {
    static const char *const dtypes[] = {"F64", "F32", "F16", "BF16"}, *const computes[] = {"float32", "float64"};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 2; j++)
            for (size_t k = 0; k < 4; k++) same_as_json(dtypes[i], computes[j], dtypes[k]);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* q (1, 2), k and v (2, 2), in float32 */
static const float numbers[] = {1, 0, 1, 0, 0, 1, 1, 2, 3, 4};
#define SMALL_TENSORS                                                                                                 \
    "'q':{'dtype':'F32','shape':[1,2],'data_offsets':[0,8]},'k':{'dtype':'F32','shape':[2,2],'data_offsets':[8,24]}," \
    "'v':{'dtype':'F32','shape':[2,2],'data_offsets':[24,40]}"

static bytes small_body(const char *metadata) {
    char header[2000];
    snprintf(header, sizeof header, "{%s" SMALL_TENSORS "}", metadata);
    return body_of(header, numbers, sizeof numbers);
}

/* an option in the header, in the query, and in JSON give the same reply */
static void same_option(const char *name, const char *text, const char *encoded, const char *json) {
    char metadata[300], query[300], object[1000];
    snprintf(metadata, sizeof metadata, "'__metadata__':{'%s':'%s'},", name, text);
    snprintf(query, sizeof query, "%s=%s", name, encoded);
    snprintf(object, sizeof object, "{'q':[[1,0]],'k':[[1,0],[0,1]],'v':[[1,2],[3,4]],'%s':%s}", name, json);
    char *quoted = exchange_quoted(object);
    bytes with = small_body(metadata), without = small_body("");
    answer wanted = send_json(NULL, "/attention", quoted);
    answer in_header = send_as("application/json", "/attention", NULL, with);
    answer in_query = send_as("application/json", "/attention", query, without);
    answer in_both = send_as("application/json", "/attention", query, with);
    const answer *got[] = {&in_header, &in_query, &in_both};
    CHECK(wanted.status == 200, "%s: %s", object, (char *)wanted.body.data);
    for (size_t i = 0; i < 3; i++)
        CHECK(strcmp((char *)got[i]->body.data, (char *)wanted.body.data) == 0, "%s=%s (%zu): expected %s, got %s",
              name, text, i, (char *)wanted.body.data, (char *)got[i]->body.data);
    free(wanted.body.data);
    for (size_t i = 0; i < 3; i++) free(got[i]->body.data);
    free(with.data);
    free(without.data);
    free(quoted);
}

static void test_options(void) {
    same_option("causal", "true", "true", "true");
    same_option("causal", " true ", "+true%20", "true");
    same_option("scale", "0.5", "0.50", "0.5");
    same_option("scale", "1/sqrt(d_k)", "1%2fsqrt(d_k)", "'1/sqrt(d_k)'");
    same_option("scale", "1", "1", "'1'");
    same_option("dtype", "float64", "float64", "'float64'");
    same_option("dtype", "\\\"float64\\\"", "%22float64%22", "'float64'");
    same_option("window", "[0, 1]", "0,1", "[0,1]");
    same_option("window", "0,1", "%5B0,1%5D", "[0,1]");
    same_option("query_offset", "end", "end", "'end'");
    same_option("return", "output,lse", "output%2Clse", "['output','lse']");
    same_option("return", "[\\\"lse\\\"]", "lse", "['lse']");
    same_option("tokens", "a b", "a+b", "['a b']");
    same_option("key_tokens", "a,b", "a,b", "['a','b']");
    same_option("causal", "True", "1", "true");
    same_option("causal", "0", "False", "false");
    same_option("kv_lengths", "1", "%5B1e0%5D", "[1]");
    same_option("tokens", "1", "1", "['1']");
    same_option("format", "flat", "flat", "'flat'");
    same_option("trace", "null", "null", "null");
}

static void test_options_that_are_wrong(void) {
    static const struct {
        const char *metadata, *query, *code, *pointer;
    } rows[] = {
        {"'__metadata__':{'causal':'true'},", "causal=false", "out_of_range", NULL},
        {"'__metadata__':{'scale':'0.5'},", "scale=0.25", "out_of_range", NULL},
        {"'__metadata__':{'window':'[1,2]'},", "window=1,3", "out_of_range", NULL},
        {"'__metadata__':{'return':'[\\\"lse\\\"]'},", "return=lse,output", "out_of_range", NULL},
        {"", "causal=true&causal=false", "out_of_range", NULL},
        {"'__metadata__':{'q':'[[1,2]]'},", NULL, "out_of_range", "/q"},
        {"", "k=[[1,2]]", "unknown_field", NULL},
        {"'__metadata__':{'casual':'true'},", NULL, "unknown_field", "/casual"},
        {"", "casual=true", "unknown_field", NULL},
        {"", "caus%ff%00l=true", "unknown_field", NULL},
        {"'__metadata__':{'causal':true},", NULL, "wrong_type", "/__metadata__/causal"},
        {"'__metadata__':'x',", NULL, "wrong_type", "/__metadata__"},
        {"'__metadata__':{'causal':'2'},", NULL, "wrong_type", "/causal"},
        {"'__metadata__':{'causal':'TRUE'},", NULL, "wrong_type", "/causal"},
        {"", "causal", "wrong_type", NULL},
        {"", "causal=true,\"scale\":2", "wrong_type", NULL},
        {"", "scale=1},\"causal\":{", "out_of_range", NULL},
        {"", "dtype=float16", "out_of_range", NULL},
        {"", "reply_dtype=I64", "out_of_range", NULL},
        {"'__metadata__':{'format':'base32'},", NULL, "out_of_range", "/format"},
        {"'__metadata__':{'window':'[1,2,3]'},", NULL, "shape_mismatch", "/window"},
        {"'__metadata__':{'window':'[1,-2]'},", NULL, "out_of_range", "/window/1"},
        {"'__metadata__':{'return':'outptu'},", NULL, "out_of_range", "/return/0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes body = small_body(rows[i].metadata);
        char what[200];
        snprintf(what, sizeof what, "%s ?%s", rows[i].metadata, rows[i].query ? rows[i].query : "");
        expect_fault(what, rows[i].query, body, 422, rows[i].code, rows[i].pointer);
        free(body.data);
    }
}

static void expect_json(const char *query, bytes body, const char *wanted) {
    answer a = send_as("application/json", "/attention", query, body);
    CHECK(a.status == 200 && strcmp((char *)a.body.data, wanted) == 0, "expected %s, got %d %s", wanted, a.status,
          (char *)a.body.data);
    free(a.body.data);
}

/* metadata that libraries add, and empty pairs */
static void test_what_counts_as_nothing(void) {
    bytes body = small_body("'__metadata__':{'format':'pt','causal':'null'},");
    expect_json("", body, "{\"output\":[[1.6604769,2.660477]]}\n");
    expect_json("&&format=nested&", body, "{\"output\":[[1.6604769,2.660477]]}\n");
    free(body.data);
}

/* tensors without axes are numbers and booleans */
static void test_scalars(void) {
    struct {
        float numbers[10];
        double scale;
        int64_t offset;
        uint8_t causal;
    } data = {.scale = 0, .offset = 1, .causal = 1};
    memcpy(data.numbers, numbers, sizeof numbers);
    bytes body = body_of("{" SMALL_TENSORS ",'scale':{'dtype':'F64','shape':[],'data_offsets':[40,48]},"
                         "'query_offset':{'dtype':'I64','shape':[],'data_offsets':[48,56]},"
                         "'causal':{'dtype':'BOOL','shape':[],'data_offsets':[56,57]}}",
                         &data, 57);
    expect_json(NULL, body, "{\"output\":[[2,3]]}\n");
    body.data[body.length - 1] = 2;
    expect_fault("a byte that is not a boolean", NULL, body, 422, "wrong_type", "/causal");
    free(body.data);
}

/* ---- bodies that break the format -------------------------------------------------------------------------------- */

static void test_broken_headers(void) {
    static const struct {
        const char *header;
        int status;
        const char *code, *pointer;
    } rows[] = {
        {"", 400, "invalid_json", NULL},
        {"{'q':", 400, "invalid_json", NULL},
        {"{'q':1,'q':2}", 400, "invalid_json", NULL},
        {"\xEF\xBB\xBF{}", 400, "invalid_json", NULL},
        {"{'\xFF':1}", 400, "invalid_json", NULL},
        {"[]", 422, "wrong_type", ""},
        {"7", 422, "wrong_type", ""},
        {" {}", 422, "wrong_type", ""},
        {"{}  ", 422, "shape_mismatch", ""},
        {"{'q':7}", 422, "wrong_type", "/q"},
        {"{'q':null}", 422, "wrong_type", "/q"},
        {"{'q':{}}", 422, "missing_field", "/q"},
        {"{'q':{'dtype':'F32','shape':[1,2]}}", 422, "missing_field", "/q"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[0,8],'x':1}}", 422, "unknown_field", "/q"},
        {"{'q':{'dtype':'U8','shape':[1,2],'data_offsets':[0,2]}}", 422, "out_of_range", "/q"},
        {"{'q':{'dtype':4,'shape':[1,2],'data_offsets':[0,8]}}", 422, "wrong_type", "/q"},
        {"{'q':{'dtype':'F32','shape':7,'data_offsets':[0,8]}}", 422, "wrong_type", "/q"},
        {"{'q':{'dtype':'F32','shape':[1.5],'data_offsets':[0,8]}}", 422, "wrong_type", "/q/0"},
        {"{'q':{'dtype':'F32','shape':[true],'data_offsets':[0,8]}}", 422, "wrong_type", "/q"},
        {"{'q':{'dtype':'F32','shape':['1'],'data_offsets':[0,8]}}", 422, "wrong_type", "/q"},
        {"{'q':{'dtype':'F32','shape':[[1,2]],'data_offsets':[0,8]}}", 422, "wrong_type", "/q"},
        {"{'q':{'dtype':'F32','shape':[-1,2],'data_offsets':[0,8]}}", 422, "out_of_range", "/q/0"},
        {"{'q':{'dtype':'F32','shape':[4294967296,4294967296],'data_offsets':[0,0]}}", 422, "out_of_range", "/q"},
        {"{'q':{'dtype':'F32','shape':[0,4294967296,4294967296],'data_offsets':[0,0]}}", 422, "out_of_range", "/q"},
        {"{'q':{'dtype':'F32','shape':[1,1,1,1,1,1,1,1,2],'data_offsets':[0,8]}}", 422, "shape_mismatch", "/q"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[0,4]}}", 422, "shape_mismatch", "/q"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[8,0]}}", 422, "out_of_range", "/q"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[0,8,8]}}", 422, "out_of_range", "/q"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[-8,0]}}", 422, "out_of_range", "/q"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[0,1e300]}}", 422, "out_of_range", "/q/1"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[9007199254740984,9007199254740992]}}", 422, "out_of_range",
         "/q"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[8,16]}}", 422, "out_of_range", "/q"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[0,8]},'k':{'dtype':'F32','shape':[1,2],'data_offsets':[4,"
         "12]}}",
         422, "out_of_range", "/k"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[0,8]},'k':{'dtype':'F32','shape':[1,2],'data_offsets':[0,8]"
         "}}",
         422, "out_of_range", "/k"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[0,8]},'k':{'dtype':'F32','shape':[1],'data_offsets':[12,16]"
         "}}",
         422, "out_of_range", "/k"},
        {"{'q':{'dtype':'F32','shape':[1,2],'data_offsets':[0,8]}}", 422, "shape_mismatch", ""},
        {"{'q':{'dtype':'F32','shape':[1,6],'data_offsets':[0,24]}}", 422, "shape_mismatch", "/q"},
        {"{'zz':{'dtype':'F32','shape':[2,2],'data_offsets':[0,16]}}", 422, "unknown_field", "/zz"},
        {"{'q':{'dtype':'F32','shape':[2,2],'data_offsets':[0,16]}}", 422, "missing_field", ""},
        {"{'q':{'dtype':'I64','shape':[2,1],'data_offsets':[0,16]}}", 422, "out_of_range", "/q"},
        {"{'kv_lengths':{'dtype':'F32','shape':[4],'data_offsets':[0,16]}}", 422, "out_of_range", "/kv_lengths"},
        {"{'dtype':{'dtype':'F32','shape':[4],'data_offsets':[0,16]}}", 422, "wrong_type", "/dtype"},
        {"{'tokens':{'dtype':'F32','shape':[4],'data_offsets':[0,16]}}", 422, "wrong_type", "/tokens/0"},
        {"{'causal':{'dtype':'F32','shape':[4],'data_offsets':[0,16]}}", 422, "wrong_type", "/causal"},
        {"{'softcap':{'dtype':'F32','shape':[4],'data_offsets':[0,16]}}", 422, "wrong_type", "/softcap"},
    };
    const uint8_t data[16] = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes body = body_of(rows[i].header, data, sizeof data);
        expect_fault(rows[i].header, NULL, body, rows[i].status, rows[i].code, rows[i].pointer);
        free(body.data);
    }
}

static void test_broken_lengths(void) {
    static const struct {
        uint64_t claimed;
        int status;
        const char *code, *pointer;
    } rows[] = {
        {0, 400, "invalid_json", NULL},
        {1, 400, "invalid_json", NULL},
        {3, 400, "invalid_json", NULL},
        {1 << 20, 400, "invalid_json", NULL},
        {(1 << 20) + 1, 422, "out_of_range", ""},
        {UINT64_MAX, 422, "out_of_range", ""},
        {UINT64_MAX - 7, 422, "out_of_range", ""},
        {(uint64_t)1 << 63, 422, "out_of_range", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes body = body_claiming(rows[i].claimed, "{}", "....", 4);
        char what[40];
        snprintf(what, sizeof what, "length %llu", (unsigned long long)rows[i].claimed);
        expect_fault(what, NULL, body, rows[i].status, rows[i].code, rows[i].pointer);
        free(body.data);
    }
    bytes whole = small_body("");
    for (size_t length = 0; length < whole.length; length++) {
        const size_t header = whole.length - sizeof numbers;
        const bool cut = length < header;
        /* the first tensor that is cut */
        const size_t left = cut ? 0 : length - header;
        expect_fault("cut short", NULL, (bytes){whole.data, length}, cut ? 400 : 422,
                     cut ? "invalid_json" : "shape_mismatch",
                     cut         ? NULL
                     : left < 8  ? "/q"
                     : left < 24 ? "/k"
                                 : "/v");
    }
    free(whole.data);
}

/* ---- pieces, sizes ----------------------------------------------------------------------------------------------- */

static void test_any_pieces(void) {
    bytes body = small_body("'__metadata__':{'return':'output,lse','mask':'[[1,0]]'},");
    static const size_t pieces[] = {1, 2, 3, 7, 8, 9, 64, 400};
    char length[24];
    snprintf(length, sizeof length, "%zu", body.length);
    const exchange_headers chunked = {{"content-type", SAFETENSORS, NULL}};
    const exchange_headers counted = {{"content-type", SAFETENSORS, "content-length", length, NULL}};
    answer whole = send_pieces(chunked, "/attention", NULL, body, 0);
    CHECK(whole.status == 200, "%d", whole.status);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        for (size_t j = 0; j < 2; j++) {
            answer cut = send_pieces(j ? counted : chunked, "/attention", NULL, body, pieces[i]);
            CHECK(cut.status == 200 && cut.body.length == whole.body.length &&
                      memcmp(cut.body.data, whole.body.data, cut.body.length) == 0,
                  "pieces of %zu give another answer", pieces[i]);
            free(cut.body.data);
        }
    free(whole.body.data);
    free(body.data);
}

/* Data beyond the first piece of memory, with and without its length known, and with a length that is wrong */
static void test_large_data(void) {
    enum { ROWS = 60000 };
    const size_t size = 2 * ROWS * sizeof(float) + sizeof(float);
    float *data = malloc(size);
    data[0] = 1;
    for (size_t i = 1; i < 2 * ROWS + 1; i++) data[i] = (float)check_random_normal();
    char header[400];
    snprintf(header, sizeof header,
             "{'q':{'dtype':'F32','shape':[1,1],'data_offsets':[0,4]},'k':{'dtype':'F32','shape':[%d,1],'data_offsets':"
             "[4,%d]},"
             "'v':{'dtype':'F32','shape':[%d,1],'data_offsets':[%d,%zu]}}",
             ROWS, 4 + 4 * ROWS, ROWS, 4 + 4 * ROWS, size);
    bytes body = body_of(header, data, size);
    char length[24];
    snprintf(length, sizeof length, "%zu", body.length);
    const exchange_headers kinds[] = {{{"content-type", SAFETENSORS, NULL}},
                                      {{"content-type", SAFETENSORS, "content-length", length, NULL}},
                                      {{"content-type", SAFETENSORS, "content-length", "400", NULL}},
                                      {{"content-type", SAFETENSORS, "content-length", "1000000", NULL}}};
    answer first = send_pieces(kinds[0], "/attention", NULL, body, 16384);
    CHECK(first.status == 200, "%d %s", first.status, (char *)first.body.data);
    for (size_t i = 1; i < sizeof kinds / sizeof *kinds; i++) {
        answer other = send_pieces(kinds[i], "/attention", NULL, body, 10007);
        CHECK(other.body.length == first.body.length && !memcmp(other.body.data, first.body.data, first.body.length),
              "kind %zu gives another answer", i);
        free(other.body.data);
    }
    free(first.body.data);
    free(body.data);
    free(data);
}

static void test_empty_tensors(void) {
    bytes body = body_of("{'q':{'dtype':'F32','shape':[0,2],'data_offsets':[0,0]},"
                         "'k':{'dtype':'F32','shape':[0,2],'data_offsets':[0,0]},"
                         "'v':{'dtype':'F16','shape':[0,3],'data_offsets':[0,0]}}      ",
                         NULL, 0);
    expect_json(NULL, body, "{\"output\":[]}\n");
    answer a = send_as(NULL, "/attention", NULL, body);
    CHECK(a.status == 200 && a.body.length == 72 &&
              strcmp((char *)a.body.data + 8,
                     "{\"output\":{\"dtype\":\"F32\",\"shape\":[0, 3],\"data_offsets\":[0,0]}}  ") == 0,
          "%zu bytes: %s", a.body.length, (char *)a.body.data + 8);
    free(a.body.data);
    free(body.data);
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static void test_negotiation(void) {
    static const struct {
        const char *accept;
        bool of_json, of_safetensors; /* the reply is safetensors */
        int status_of_json;
    } rows[] = {
        {NULL, false, true, 200},
        {"", false, true, 200},
        {"*/*", false, true, 200},
        {"application/*", false, true, 200},
        {"application/json", false, false, 200},
        {SAFETENSORS, true, true, 200},
        {"Application/VND.safetensors;v=1", true, true, 200},
        {"application/json, text/plain, */*", false, false, 200},
        {SAFETENSORS ", */*", true, true, 200},
        {SAFETENSORS ";q=0.5, application/json;q=0.4", true, true, 200},
        {SAFETENSORS ";q=0.3, application/json;q=0.4", false, false, 200},
        {SAFETENSORS ", application/json", false, true, 200},
        {SAFETENSORS ";q=0, */*", false, false, 200},
        {"*/*;q=0.1, " SAFETENSORS ";q=0.05", false, false, 200},
        {"application/json;q=0, */*", false, true, 406},
        {"text/html, " SAFETENSORS ";q=0.001", true, true, 200},
    };
    static const char json[] = "{\"q\":[[1,0]],\"k\":[[1,0],[0,1]],\"v\":[[1,2],[3,4]]}";
    bytes body = small_body("");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        answer a = send_json(rows[i].accept, "/attention", json), b = send_as(rows[i].accept, "/attention", NULL, body);
        const char *accept = rows[i].accept ? rows[i].accept : "(none)";
        CHECK(a.status == rows[i].status_of_json, "%s: %d", accept, a.status);
        CHECK(a.status != 200 || strcmp(a.content_type, rows[i].of_json ? SAFETENSORS : "application/json") == 0,
              "%s: JSON is answered in %s", accept, a.content_type);
        CHECK(b.status == 200 && strcmp(b.content_type, rows[i].of_safetensors ? SAFETENSORS : "application/json") == 0,
              "%s: safetensors are answered with %d in %s", accept, b.status, b.content_type);
        free(a.body.data);
        free(b.body.data);
    }
    answer none = send_as("text/html", "/attention", NULL, body);
    CHECK(none.status == 406, "%d", none.status);
    free(none.body.data);
    answer fault = send_json(SAFETENSORS, "/attention", "{}");
    CHECK(fault.status == 422 && strcmp(fault.content_type, "application/problem+json") == 0, "%d %s", fault.status,
          fault.content_type);
    free(fault.body.data);
    free(body.data);
}

/* ---- bodies whose type tells nothing ------------------------------------------------------------------------------
 */

static answer send_typed(const char *type, const char *accept, bytes body, size_t piece) {
    const exchange_headers headers = {
        {accept ? "accept" : "x", accept ? accept : "", type ? "content-type" : NULL, type, NULL}};
    return send_pieces(headers, "/attention", NULL, body, piece);
}

static void expect_answer(answer a, int status, const char *content_type, const char *what) {
    CHECK(a.status == status && strcmp(a.content_type, content_type) == 0, "%s: expected %d in %s, got %d in %s: %s",
          what, status, content_type, a.status, a.content_type, (char *)a.body.data);
    free(a.body.data);
}

static void test_recognized_by_its_first_bytes(void) {
    static const char *const vague[] = {NULL, "", "application/x-www-form-urlencoded", "application/octet-stream",
                                        "Application/Octet-Stream; x=y"};
    bytes body = small_body("");
    answer named = send_as(NULL, "/attention", NULL, body);
    for (size_t i = 0; i < sizeof vague / sizeof *vague; i++) {
        const char *type = vague[i] ? vague[i] : "no type";
        for (size_t piece = 0; piece < 12; piece++) {
            answer a = send_typed(vague[i], NULL, body, piece);
            CHECK(a.status == 200 && strcmp(a.content_type, SAFETENSORS) == 0 && a.body.length == named.body.length &&
                      memcmp(a.body.data, named.body.data, a.body.length) == 0,
                  "%s in pieces of %zu: %d %s", type, piece, a.status, a.content_type);
            free(a.body.data);
        }
        expect_answer(send_typed(vague[i], "application/json", body, 3), 200, "application/json", type);
        expect_answer(send_typed(vague[i], "application/json;q=0, */*", body, 3), 200, SAFETENSORS, type);
        expect_answer(send_typed(vague[i], "text/html", body, 3), 406, "application/problem+json", type);
    }
    expect_answer(send_typed("application/json", NULL, body, 0), 400, "application/problem+json", "named JSON");
    expect_answer(send_typed("text/plain", NULL, body, 0), 415, "application/problem+json", "another type");
    free(named.body.data);
    free(body.data);
}

static void test_vague_bodies_of_other_formats(void) {
    static const char octets[] = "application/octet-stream", problem[] = "application/problem+json";
    /* the ninth byte is a brace, as in safetensors */
    static const char json[] = "{\"mask\":{\"shape\":[1],\"data\":[1]},\"q\":[[1]],\"k\":[[1]],\"v\":[[2]]}";
    for (size_t piece = 0; piece < 12; piece++) {
        const bytes text = {(uint8_t *)(uintptr_t)json, sizeof json - 1}, tiny = {(uint8_t *)(uintptr_t) "{}", 2};
        expect_answer(send_typed(NULL, NULL, text, piece), 200, "application/json", "JSON");
        expect_answer(send_typed(octets, NULL, text, piece), 415, problem, "JSON as octets");
        expect_answer(send_typed(NULL, NULL, tiny, piece), 422, problem, "less than nine bytes");
        expect_answer(send_typed(octets, NULL, tiny, piece), 415, problem, "less than nine bytes of octets");
        expect_answer(send_typed(NULL, NULL, (bytes){tiny.data, 0}, piece), 400, problem, "nothing");
        expect_answer(send_typed(octets, NULL, (bytes){tiny.data, 0}, piece), 415, problem, "no octets");
    }
    bytes cut = small_body("");
    cut.length = 9;
    expect_answer(send_typed(NULL, NULL, cut, 4), 400, problem, "nine bytes of safetensors");
    free(cut.data);
}

static void test_a_reply_byte_for_byte(void) {
    answer a = send_json(SAFETENSORS, "/attention",
                         "{\"q\":[[1,0],[0,0]],\"k\":[[1,0],[0,1]],\"v\":[[1],[3]],\"mask\":[[1,0],[0,0]],"
                         "\"return\":[\"lse\",\"output\"],\"scale\":2}");
    static const char header[] = "{\"output\":{\"dtype\":\"F32\",\"shape\":[2, 1],\"data_offsets\":[0,8]},"
                                 "\"lse\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}";
    const size_t padded = (sizeof header - 1 + 7) / 8 * 8;
    const float wanted[] = {1, 0, 2, -__builtin_inff()};
    CHECK_FATAL(a.status == 200 && a.body.length == 8 + padded + 16, "%d, %zu bytes", a.status, a.body.length);
    CHECK(a.body.data[0] == padded && memcmp(a.body.data + 8, header, sizeof header - 1) == 0, "%.*s", (int)padded,
          (char *)a.body.data + 8);
    for (size_t i = sizeof header - 1; i < padded; i++) CHECK(a.body.data[8 + i] == ' ', "byte %zu", i);
    CHECK(memcmp(a.body.data + 8 + padded, wanted, 16) == 0, "the numbers differ");
    free(a.body.data);
}

static void test_reply_dtype(void) {
    static const char *const request = "{'q':[[1,0]],'k':[[1,0]],'v':[[%s]],'reply_dtype':'%s'%s}";
    static const struct {
        const char *v, *dtype, *more, *reply;
    } rows[] = {
        {"0.1", "F16", "", "{'output':[[0.1]]}"},
        {"0.1", "BF16", "", "{'output':[[0.1]]}"},
        {"0.1", "F32", "", "{'output':[[0.1]]}"},
        {"0.1", "F64", "", "{'output':[[0.10000000149011612]]}"},
        {"0.1", "F32", ",'dtype':'float64'", "{'output':[[0.1]]}"},
        {"0.1", "F16", ",'dtype':'float64'", "{'output':[[0.1]]}"},
        {"1.00048828125", "F16", "", "{'output':[[1]]}"}, /* a tie */
        {"1.00048828125000001", "F16", ",'dtype':'float64'", "{'output':[[1]]}"},
        {"1.0004882812500003", "F16", ",'dtype':'float64'", "{'output':[[1.001]]}"},
        {"65519", "F16", "", "{'output':[[65500]]}"},
        {"2", "F16", ",'format':'base64'", "{'output':{'shape':[1, 1],'dtype':'F16','base64':'AEA='}}"},
        {"2", "BF16", ",'format':'base64'", "{'output':{'shape':[1, 1],'dtype':'BF16','base64':'AEA='}}"},
        {"2", "F64", ",'format':'flat'", "{'output':{'shape':[1, 1],'data':[2]}}"},
        {"1", "F16", ",'mask':[[0]],'return':['lse']", "{'lse':[null]}"},
        {"1", "BF16", ",'mask':[[0]],'return':['lse']", "{'lse':[null]}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[400];
        snprintf(text, sizeof text, request, rows[i].v, rows[i].dtype, rows[i].more);
        char *body = exchange_quoted(text), *wanted = exchange_quoted(rows[i].reply);
        answer a = send_json(NULL, "/attention", body);
        a.body.data[a.body.length ? a.body.length - 1 : 0] = 0;
        CHECK(a.status == 200 && strcmp((char *)a.body.data, wanted) == 0, "%s: expected %s, got %d %s", text, wanted,
              a.status, (char *)a.body.data);
        free(a.body.data);
        free(body);
        free(wanted);
    }
    static const char *const beyond[][3] = {{"65520", "F16", ""},
                                            {"1e5", "F16", ",'dtype':'float64'"},
                                            {"3.4e38", "BF16", ""},
                                            {"1e39", "F32", ",'dtype':'float64'"},
                                            {"1e39", "BF16", ",'dtype':'float64'"}};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        char text[400];
        snprintf(text, sizeof text, request, beyond[i][0], beyond[i][1], beyond[i][2]);
        expect_error("/attention", text, 422, "overflow", NULL, "reply_dtype");
    }
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_the_same_bits_as_json),
        CHECK_TEST(test_options),
        CHECK_TEST(test_options_that_are_wrong),
        CHECK_TEST(test_what_counts_as_nothing),
        CHECK_TEST(test_scalars),
        CHECK_TEST(test_broken_headers),
        CHECK_TEST(test_broken_lengths),
        CHECK_TEST(test_any_pieces),
        CHECK_TEST(test_large_data),
        CHECK_TEST(test_empty_tensors),
        CHECK_TEST(test_negotiation),
        CHECK_TEST(test_recognized_by_its_first_bytes),
        CHECK_TEST(test_vague_bodies_of_other_formats),
        CHECK_TEST(test_a_reply_byte_for_byte),
        CHECK_TEST(test_reply_dtype),
    };
    exchange_init();
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
