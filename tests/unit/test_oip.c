/* The Open Inference Protocol under /v2: what its clients rely on, and the errors of malformed requests. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/exchange.h"

#define INFER "/v2/models/attention/infer"
#define MHA_INFER "/v2/models/mha/infer"

/* ---- requests --------------------------------------------------------------------------------------------------- */

typedef struct body {
    char data[1 << 16];
    size_t length, json; /* json: bytes of JSON, which the header says */
} body;

/* with " for ' */
static void set_json(body *b, const char *json) {
    b->length = b->json = strlen(json);
    for (size_t i = 0; i < b->length; i++) b->data[i] = (char)(json[i] == '\'' ? '"' : json[i]);
}

static void add_bytes(body *b, const void *bytes, size_t length) {
    memcpy(b->data + b->length, bytes, length);
    b->length += length;
}

static size_t answers; /* that are kept at the moment */

typedef struct answer {
    api_request *request;
    const api_response *response;
    json_t *json;      /* of the JSON part; NULL if it is not JSON */
    const char *bytes; /* what follows it */
    size_t byte_count;
} answer;

static const char *find(void *context, const char *name) {
    for (const char **p = ((exchange_headers *)context)->pairs; *p; p += 2)
        if (strcmp(p[0], name) == 0) return p[1];
    return NULL;
}

static const char *header_of(const answer *a, const char *name) {
    for (const api_header *h = a->response->headers; h->name; h++)
        if (strcmp(h->name, name) == 0) return h->value;
    return NULL;
}

static answer send_raw(const char *method, const char *path, exchange_headers headers, const void *bytes,
                       size_t length) {
    char bare[200];
    const char *query = strchr(path, '?');
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(path, "?"), path);
    const api_head head = {
        .method = method, .path = bare, .header = find, .context = &headers, .query = query ? query + 1 : NULL};
    answer a = {.request = api_begin(&exchange_service, &head)};
    const size_t chunk = 1 + check_random_below(60);
    a.response = api_refused(a.request);
    if (!a.response) {
        for (size_t i = 0; i < length; i += chunk)
            if (!api_push(a.request, (const char *)bytes + i, length - i < chunk ? length - i : chunk)) break;
        if (chunk % 2) api_work(a.request);
        a.response = api_finish(a.request, 0.001);
    }
    answers++;
    const char *json = header_of(&a, "Content-Encoding") ? NULL : header_of(&a, "Inference-Header-Content-Length");
    const size_t json_length = json ? strtoull(json, NULL, 10) : a.response->length;
    CHECK(json_length <= a.response->length, "%s bytes of JSON in %zu", json, a.response->length);
    a.json = json_loadb(a.response->body ? a.response->body : "", json_length, JSON_REJECT_DUPLICATES, NULL);
    a.bytes = a.response->body + json_length;
    a.byte_count = a.response->length - json_length;
    return a;
}

static void done(answer *a) {
    json_decref(a->json);
    api_request_free(a->request);
    CHECK(--answers > 0 || atomic_load(&exchange_service.budget.used) == 0, "memory of the request is still charged");
}

static answer send(const char *path, const body *b) {
    char length[24];
    snprintf(length, sizeof length, "%zu", b->json);
    const exchange_headers headers = {{b->json < b->length ? "inference-header-content-length" : NULL, length, NULL}};
    return send_raw("POST", path, headers, b->data, b->length);
}

static answer send_json(const char *path, const char *json) {
    static body b;
    set_json(&b, json);
    return send(path, &b);
}

static const char *text(const answer *a, const char *name) {
    const char *s = json_string_value(json_object_get(a->json, name));
    return s ? s : "(none)";
}

#define SHOWN(a) (int)((a).response->length < 600 ? (a).response->length : 600), (a).response->body

/* Every error under /v2 is a problem document with the sentence in `error` too. */
static void check_error(const answer *a, int status, const char *code, const char *pointer, const char *what) {
    const json_t *p = json_object_get(a->json, "pointer");
    CHECK(a->response->status == status && strcmp(text(a, "code"), code) == 0, "%s: expected %d %s, got %.*s", what,
          status, code, SHOWN(*a));
    CHECK(pointer ? p && strcmp(json_string_value(p), pointer) == 0 : !p, "%s: expected pointer %s, got %.*s", what,
          pointer ? pointer : "(none)", SHOWN(*a));
    CHECK(json_is_string(json_object_get(a->json, "error")) && strcmp(text(a, "error"), text(a, "detail")) == 0,
          "%s: no member error with the sentence: %.*s", what, SHOWN(*a));
    CHECK(strcmp(a->response->content_type, "application/json") == 0, "%s", a->response->content_type);
}

static void expect(const char *path, const char *json, int status, const char *code, const char *pointer,
                   const char *detail) {
    answer a = send_json(path, json);
    check_error(&a, status, code, pointer, json);
    CHECK(!detail || strstr(text(&a, "error"), detail), "%s: expected \"%s\" in %s", json, detail, text(&a, "error"));
    CHECK(!a.response->close, "%s: the body was read, the connection stays", json);
    done(&a);
}

/* the output `name` of a 200, NULL: not there */
static json_t *output_of(const answer *a, const char *name) {
    size_t i;
    json_t *output;
    json_array_foreach(json_object_get(a->json, "outputs"), i, output) {
        const char *s = json_string_value(json_object_get(output, "name"));
        if (s && strcmp(s, name) == 0) return output;
    }
    return NULL;
}

#define Q "{'name':'q','shape':[2,1],'datatype':'FP32','data':[0.5,-1]}"
#define K "{'name':'k','shape':[2,1],'datatype':'FP32','data':[1,2]}"
#define V "{'name':'v','shape':[2,1],'datatype':'FP32','data':[1,3]}"
#define INPUTS "'inputs':[" Q "," K "," V "]"
#define PLAIN "{'q':[[0.5],[-1]],'k':[[1],[2]],'v':[[1],[3]]"

/* ---- 1 to 5: paths, statuses, headers --------------------------------------------------------------------------- */

static void test_every_path_answers(void) {
    static const struct {
        const char *method, *path;
        int status;
    } rows[] = {
        {"GET", "/v2", 200},
        {"GET", "/v2/health/live", 200},
        {"GET", "/v2/health/ready", 200},
        {"HEAD", "/v2/health/ready", 200},
        {"GET", "/v2/models/attention", 200},
        {"GET", "/v2/models/mha", 200},
        {"GET", "/v2/models/attention/versions/1", 200},
        {"GET", "/v2/models/attention/versions/1/ready", 200},
        {"GET", "/v2/models/mha/ready", 200},
        {"GET", "/v2/models/mha/config", 200},
        {"GET", "/v2/models/mha/versions/1/config", 200},
        {"GET", "/v2/models/attention/stats", 200},
        {"GET", "/v2/models/attention/versions/1/stats", 200},
        {"GET", "/v2/models/stats", 200},
        {"POST", "/v2/repository/index", 200},
        {"GET", "/v2/systemsharedmemory/status", 200},
        {"GET", "/v2/cudasharedmemory/region/r/status", 200},
        {"POST", "/v2/systemsharedmemory/unregister", 200},
        {"POST", "/v2/systemsharedmemory/region/r/register", 400},
        {"POST", "/v2/cudasharedmemory/region/r/register", 400},
        {"POST", "/v2/repository/models/attention/load", 400},
        {"POST", "/v2/repository/models/other/unload", 400},
        {"GET", "/v2/logging", 400},
        {"POST", "/v2/logging", 400},
        {"GET", "/v2/trace/setting", 400},
        {"POST", "/v2/models/attention/trace/setting", 400},
        {"POST", "/v2/models/attention/infer", 400}, /* an empty body */
        {"GET", "/v2/models/attention/infer", 405},
        {"POST", "/v2/health/live", 405},
        {"GET", "/v2/repository/index", 405},
        {"BREW", "/v2", 501},
        {"QUERY", "/v2/models/attention/infer", 405},
        {"POST", "/v2/models/mha/ready", 405},
        {"POST", "/v2/models/attention/versions/1/config", 405},
        {"OPTIONS", "/v2/models/attention/infer", 204},
        {"GET", "/v2/", 404},
        {"GET", "/v2/models", 404},
        {"GET", "/v2/models/other", 404},
        {"GET", "/v2/models/attentions", 404},
        {"GET", "/v2/models/attention/versions/2", 404},
        {"GET", "/v2/models/attention/versions/", 404},
        {"POST", "/v2/models/attention/versions/2/infer", 404},
        {"POST", "/v2/models//infer", 404},
        {"POST", "/v2/systemsharedmemory/region//register", 404},
        {"POST", "/v2/repository/models/a/b/load", 404},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        answer a = send_raw(rows[i].method, rows[i].path, (exchange_headers){{NULL}}, "", 0);
        CHECK(a.response->status == rows[i].status, "%s %s: expected %d, got %d", rows[i].method, rows[i].path,
              rows[i].status, a.response->status);
        if (rows[i].status >= 400) check_error(&a, rows[i].status, text(&a, "code"), NULL, rows[i].path);
        CHECK(rows[i].status < 400 || !strchr(text(&a, "error"), '{'), "%s: %s", rows[i].path, text(&a, "error"));
        if (rows[i].status == 200) CHECK(a.json && a.response->length < 8192, "%s: %.*s", rows[i].path, SHOWN(a));
        done(&a);
    }
}

static void test_readiness(void) {
    const char *const paths[] = {"/v2/health/ready", "/v2/models/mha/ready"};
    for (size_t i = 0; i < 2; i++) {
        exchange_readiness = API_DRAINING;
        answer a = send_raw("GET", paths[i], (exchange_headers){{NULL}}, "", 0);
        check_error(&a, 503, "shutting_down", NULL, paths[i]);
        done(&a);
        exchange_readiness = API_STARTING;
        a = send_raw("GET", paths[i], (exchange_headers){{NULL}}, "", 0);
        check_error(&a, 503, "not_ready", NULL, paths[i]);
        done(&a);
        a = send_raw("GET", "/v2/health/live", (exchange_headers){{NULL}}, "", 0);
        CHECK(a.response->status == 200, "a service that is not ready lives");
        done(&a);
        exchange_readiness = API_READY;
    }
}

static void test_types_do_not_matter(void) {
    static body b;
    set_json(&b, "{" INPUTS "}");
    const char *const types[] = {"application/octet-stream", "text/plain", "image/png", ""};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        answer a = send_raw("POST", INFER, (exchange_headers){{"content-type", types[i], "accept", types[i], NULL}},
                            b.data, b.length);
        CHECK(a.response->status == 200, "%s: %.*s", types[i], SHOWN(a));
        done(&a);
    }
}

static void test_errors_of_the_host_have_the_member(void) {
    static const char *const codes[] = {"overloaded", "shutting_down", "timeout", "bad_request", "body_too_large"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char buffer[1024], detail[600];
        memset(detail, '"', sizeof detail);
        detail[sizeof detail - 1] = '\0';
        api_response response;
        api_fail_static(&response, buffer, api_protocol_of(INFER), codes[i], i % 2 ? detail : "a sentence", 1);
        json_t *json = json_loadb(response.body, response.length, JSON_REJECT_DUPLICATES, NULL);
        CHECK(json && json_string_length(json_object_get(json, "error")) > 0, "%.*s", (int)response.length,
              response.body);
        json_decref(json);
        const api_head head = {.method = "POST", .path = INFER};
        answer a = {.request = api_begin(&exchange_service, &head)};
        answers++;
        a.response = api_fail(a.request, codes[i], "a sentence", 3);
        a.json = json_loadb(a.response->body, a.response->length, 0, NULL);
        check_error(&a, a.response->status, codes[i], NULL, codes[i]);
        done(&a);
    }
    const api_protocol *protocol = api_protocol_of(INFER), *plain = api_protocol_of("/attention");
    CHECK(protocol != plain && api_protocol_of("/v2") == protocol && api_protocol_of("/v2/x") == protocol &&
              api_protocol_of("/v2?x") == protocol && api_protocol_of("/v2x") == plain && api_protocol_of("*") == plain,
          "paths");
}

static void test_a_body_over_the_limit(void) {
    answer a = send_raw("POST", INFER, (exchange_headers){{"content-length", "1048577", NULL}}, "", 0);
    check_error(&a, 413, "body_too_large", NULL, "too long");
    CHECK(a.response->close, "the body is not read");
    done(&a);
}

/* ---- 6, 7: id and parameters ------------------------------------------------------------------------------------ */

static void test_id_is_echoed(void) {
    answer a = send_json(INFER, "{'id':'a\\\"\\u00e9\\n'," INPUTS "}");
    CHECK(strcmp(text(&a, "id"), "a\"\xc3\xa9\n") == 0, "%.*s", SHOWN(a));
    done(&a);
    a = send_json(INFER, "{" INPUTS "}");
    CHECK(a.json && !json_object_get(a.json, "id"), "%.*s", SHOWN(a));
    CHECK(strcmp(text(&a, "model_name"), "attention") == 0 && strcmp(text(&a, "model_version"), "1") == 0, "%.*s",
          SHOWN(a));
    done(&a);
}

/* The numbers of an output are, as text, those of the plain route. */
static void same_as_plain(const char *parameters, const char *fields) {
    char json[2000], plain[2000];
    snprintf(json, sizeof json, "{" INPUTS ",'parameters':{%s}}", parameters);
    snprintf(plain, sizeof plain, PLAIN "%s%s,'format':'flat'}", *fields ? "," : "", fields);
    exchange e = exchange_send("POST", "/attention", (exchange_headers){{NULL}}, plain);
    answer a = send_json(INFER, json);
    CHECK(a.response->status == 200 && e.status == 200, "%s: %.*s %s", parameters, SHOWN(a), e.body);
    const char *name;
    json_t *tensor;
    json_object_foreach(e.json, name, tensor) {
        json_t *output = output_of(&a, name);
        CHECK(json_equal(json_object_get(output, "data"), json_object_get(tensor, "data")) &&
                  json_equal(json_object_get(output, "shape"), json_object_get(tensor, "shape")),
              "%s: %s: expected %s, got %.*s", parameters, name, e.body, SHOWN(a));
    }
    CHECK(json_array_size(json_object_get(a.json, "outputs")) == json_object_size(e.json), "%s: %.*s", parameters,
          SHOWN(a));
    exchange_free(&e);
    done(&a);
}

static void test_parameters_are_the_options(void) {
    same_as_plain("", "");
    same_as_plain("'causal':true", "'causal':true");
    same_as_plain("'causal':'true'", "'causal':true");
    same_as_plain("'window':[0,1]", "'window':[0,1]");
    same_as_plain("'window':'[0, 1]'", "'window':[0,1]");
    same_as_plain("'scale':0.25", "'scale':0.25");
    same_as_plain("'scale':'1/d_k'", "'scale':'1/d_k'");
    same_as_plain("'scale':'0.25'", "'scale':0.25");
    same_as_plain("'dtype':'float64','softcap':3", "'dtype':'float64','softcap':3");
    same_as_plain("'query_offset':'end'", "'query_offset':'end'");
    same_as_plain("'query_offset':1,'causal':true", "'query_offset':1,'causal':true");
    same_as_plain("'mask':[[true,false],[true,true]]", "'mask':[[true,false],[true,true]]");
    same_as_plain("'kv_lengths':[1]", "'kv_lengths':[1]");
    same_as_plain("'return':['lse','weights']", "'return':['output','lse','weights']");
    same_as_plain("'return':'[\\\"lse\\\"]'", "'return':['output','lse']");
    same_as_plain("'return_weights':true", "'return_weights':true");
    same_as_plain("'trace':true", "'trace':true");
    same_as_plain("'tokens':['a','b'],'reply_dtype':'F16'", "'reply_dtype':'F16'");
    same_as_plain("'num_heads':1", "'num_heads':1");
    same_as_plain("'causal':null", "");
}

static void test_reserved_parameters(void) {
    same_as_plain("'priority':5,'sequence_id':0,'sequence_start':false,'sequence_end':true,'triton_x':{},"
                  "'binary_data_output':false,'headers':'h','timeout':60000000",
                  "");
    same_as_plain("'timeout':99999999999999999999,'sequence_id':''", "");
    const struct {
        const char *parameters, *pointer;
    } rows[] = {{"'sequence_id':7", "/parameters/sequence_id"},
                {"'sequence_id':'s'", "/parameters/sequence_id"},
                {"'timeout':-1", "/parameters/timeout"},
                {"'timeout':'soon'", "/parameters/timeout"},
                {"'binary_data_output':1", "/parameters/binary_data_output"},
                {"'format':'flat'", "/parameters/format"},
                {"'q':[[1]]", "/parameters/q"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[1000];
        snprintf(json, sizeof json, "{" INPUTS ",'parameters':{%s}}", rows[i].parameters);
        expect(INFER, json, 400, "bad_request", rows[i].pointer, NULL);
    }
    expect(INFER, "{" INPUTS ",'parameters':{'timeout':1}}", 504, "compute_timeout", NULL, "timeout");
}

/* ---- what the clients of KServe and MLServer send --------------------------------------------------------------- */

static void test_model_name(void) {
    answer a = send_json(INFER, "{'id':'1','model_name':'attention'," INPUTS "}");
    CHECK(a.response->status == 200 && strcmp(text(&a, "id"), "1") == 0, "%.*s", SHOWN(a));
    done(&a);
    a = send_json(INFER, "{'model_name':null," INPUTS "}");
    CHECK(a.response->status == 200, "%.*s", SHOWN(a));
    done(&a);
    expect(INFER, "{'model_name':'mha'," INPUTS "}", 400, "bad_request", "/model_name", "\"attention\"");
    expect(INFER, "{'model_name':7," INPUTS "}", 400, "bad_request", "/model_name", "\"attention\"");
    expect(INFER, "{'model_version':'1'," INPUTS "}", 400, "bad_request", "/model_version", NULL);
}

static void test_null_is_absent(void) {
    static const char *const bodies[] = {
        "{'id':null,'parameters':null,'outputs':null," INPUTS "}",
        "{" INPUTS ",'parameters':{'causal':null,'format':null,'timeout':null,'binary_data_output':null,"
        "'sequence_id':null,'q':null}}",
        "{" INPUTS ",'outputs':[{'name':'output','parameters':null}]}",
        "{" INPUTS ",'outputs':[{'name':'output','parameters':{'binary_data':null}}]}",
        "{'inputs':[{'name':'q','shape':[2,1],'datatype':'FP32','parameters':null,'data':[0.5,-1]}," K "," V "]}",
        "{'inputs':[{'name':'q','shape':[2,1],'datatype':'FP32','parameters':{'binary_data_size':null},'data':[0.5,-1]}"
        "," K "," V "]}",
    };
    exchange e = exchange_send("POST", "/attention", (exchange_headers){{NULL}}, PLAIN ",'format':'flat'}");
    const json_t *wanted = json_object_get(json_object_get(e.json, "output"), "data");
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        answer a = send_json(INFER, bodies[i]);
        CHECK(a.response->status == 200 && json_equal(json_object_get(output_of(&a, "output"), "data"), wanted) &&
                  !json_object_get(a.json, "id"),
              "%s: %.*s", bodies[i], SHOWN(a));
        done(&a);
    }
    exchange_free(&e);
    expect(INFER, "{'inputs':null}", 400, "bad_request", "/inputs", NULL);
    expect(INFER, "{" INPUTS ",'parameters':{'windou':null}}", 422, "unknown_field", "/parameters/windou", NULL);
    expect(INFER, "{'inputs':[{'name':'q','shape':[1],'datatype':'FP32','data':null}," K "," V "]}", 400, "bad_request",
           "/inputs/0", "neither");
}

static void test_content_type_and_headers_are_ignored(void) {
    answer a = send_json(
        INFER, "{'parameters':{'content_type':'np','headers':{'a':'b'}},'inputs':["
               "{'name':'q','shape':[2,1],'datatype':'FP32','parameters':{'content_type':'np','headers':null},"
               "'data':[0.5,-1]}," K "," V "],'outputs':[{'name':'output','parameters':"
               "{'content_type':'np','headers':{}}}]}");
    CHECK(a.response->status == 200 && output_of(&a, "output"), "%.*s", SHOWN(a));
    done(&a);
    expect(INFER, "{" INPUTS ",'parameters':{'content_typ':'np'}}", 422, "unknown_field", "/parameters/content_typ",
           NULL);
    expect(INFER,
           "{'inputs':[{'name':'q','shape':[2,1],'datatype':'FP32','parameters':{'content':'np'},'data':[1,2]}," K "," V
           "]}",
           400, "bad_request", "/inputs/0/parameters/content", NULL);
    expect(INFER, "{" INPUTS ",'outputs':[{'name':'output','parameters':{'content':'np'}}]}", 400, "bad_request",
           "/outputs/0/parameters/content", NULL);
}

static void test_options_in_the_query(void) {
    expect(INFER "?causal=true", "{" INPUTS "}", 422, "unknown_field", NULL, "parameters");
    expect(INFER "?x=1&window=1,0", "{" INPUTS "}", 422, "unknown_field", NULL, "window");
    answer a = send_json(INFER "?x=1&session=7", "{" INPUTS "}");
    CHECK(a.response->status == 200, "%.*s", SHOWN(a));
    done(&a);
}

/* ---- pointers and faults of the JSON ---------------------------------------------------------------------------- */

static void test_pointers_lead_into_the_body(void) {
#define IN(q, k, v) "{'inputs':[" q "," k "," v "]}"
#define T(name, shape, type, data) "{'name':'" name "','shape':" shape ",'datatype':'" type "','data':" data "}"
    expect(INFER, IN(T("q", "[2,2]", "FP32", "[1,2,3,null]"), K, V), 422, "wrong_type", "/inputs/0/data/3", NULL);
    expect(INFER, IN(T("q", "[2,1]", "FP32", "[1,NaN]"), K, V), 422, "not_finite", "/inputs/0/data/1", "NaN");
    expect(INFER, IN(T("q", "[2,1]", "FP32", "[1,1e39]"), K, V), 422, "out_of_range", "/inputs/0/data/1", "F32");
    expect(INFER, IN(T("q", "[2,1]", "FP32", "[1,2,3]"), K, V), 422, "shape_mismatch", "/inputs/0/data", "2 numbers");
    expect(INFER, IN(T("q", "[2,1]", "FP32", "['a']"), K, V), 422, "wrong_type", "/inputs/0/data/0", NULL);
    expect(INFER, IN(T("q", "[2,1]", "FP32", "[[1],[2,3]]"), K, V), 422, "ragged", "/inputs/0/data/1", NULL);
    expect(INFER, IN(T("q", "[2,1]", "FP32", "[[1,2]]"), K, V), 422, "wrong_type", "/inputs/0/data", NULL);
    expect(INFER, IN(T("q", "[2,1]", "INT64", "[1,2]"), K, V), 422, "out_of_range", "/inputs/0/datatype", NULL);
    expect(INFER, IN(T("q", "[2,-1]", "FP32", "[1,2]"), K, V), 422, "out_of_range", "/inputs/0/shape/1", "-1");
    expect(INFER, IN(T("q", "[4294967296,4294967296]", "FP32", "[]"), K, V), 422, "out_of_range", "/inputs/0/shape",
           "2^53");
    expect(INFER, IN(T("q", "[4294967296,0,4294967296]", "FP32", "[]"), K, V), 422, "out_of_range", "/inputs/0/shape",
           "2^53");
    expect(INFER, IN(T("q", "[2.5]", "FP32", "[1]"), K, V), 422, "wrong_type", "/inputs/0/shape/0", NULL);
    expect(INFER, IN(Q, T("k", "[2,3]", "FP32", "[1,2,3,4,5,6]"), V), 422, "shape_mismatch", "/inputs/1", "d_k");
    expect(INFER, IN(Q, T("kk", "[2,1]", "FP32", "[1,2]"), V), 422, "unknown_field", "/inputs/1", "\"kk\"");
    expect(INFER, "{'inputs':[" Q "," K "]}", 422, "missing_field", "", "\"v\"");
    expect(INFER, "{" INPUTS ",'parameters':{'windou':1}}", 422, "unknown_field", "/parameters/windou", "\"window\"");
    expect(INFER, "{" INPUTS ",'parameters':{'window':[1,-2]}}", 422, "out_of_range", "/parameters/window/1", NULL);
    expect(INFER, "{" INPUTS ",'parameters':{'window':'[1,-2]'}}", 422, "out_of_range", "/parameters/window", NULL);
    expect(INFER, "{" INPUTS ",'parameters':{'causal':3}}", 422, "wrong_type", "/parameters/causal", NULL);
    expect(INFER, "{" INPUTS ",'parameters':{'return':['no']}}", 422, "out_of_range", "/parameters/return/0", NULL);
    expect(INFER, "{" INPUTS ",'parameters':{'softcap':-1,'causal':1}}", 422, "out_of_range", "/parameters/softcap",
           NULL);
    expect(MHA_INFER, "{'inputs':[" T("x", "[1,1]", "FP32", "[1]") "]}", 422, "missing_field", "", NULL);
    expect(INFER, "{'inputs':[]}", 422, "missing_field", "", "\"q\"");
    expect(INFER, "[]", 422, "wrong_type", "", NULL);
    expect(INFER, "{'inputs':[", 400, "invalid_json", NULL, "end of the body");
    expect(INFER, "", 400, "invalid_json", NULL, NULL);
}

static void test_faults_of_the_protocol(void) {
    static const struct {
        const char *json, *pointer;
    } rows[] = {
        {"{}", ""},
        {"{'inputs':3}", "/inputs"},
        {"{'inputs':{}}", "/inputs"},
        {"{'inputs':['q']}", "/inputs/0"},
        {"{" INPUTS ",'more':1}", "/more"},
        {"{" INPUTS ",'id':5}", "/id"},
        {"{" INPUTS ",'parameters':[1]}", "/parameters"},
        {"{" INPUTS ",'outputs':5}", "/outputs"},
        {"{" INPUTS ",'outputs':['output']}", "/outputs/0"},
        {"{" INPUTS ",'outputs':[{'name':'no'}]}", "/outputs/0/name"},
        {"{" INPUTS ",'outputs':[{'name':'heads'}]}", "/outputs/0/name"}, /* of mha alone */
        {"{" INPUTS ",'outputs':[{'name':'output','x':1}]}", "/outputs/0/x"},
        {"{" INPUTS ",'outputs':[{'name':'output','parameters':{'classification':3}}]}",
         "/outputs/0/parameters/classification"},
        {"{" INPUTS ",'outputs':[{'name':'output','parameters':{'binary_data':1}}]}",
         "/outputs/0/parameters/binary_data"},
        {"{" INPUTS ",'outputs':[{'name':'output','parameters':{'shared_memory_region':'r'}}]}",
         "/outputs/0/parameters/shared_memory_region"},
        {IN("{'shape':[1],'datatype':'FP32','data':[1]}", K, V), "/inputs/0"},
        {IN("{'name':'q','datatype':'FP32','data':[1]}", K, V), "/inputs/0"},
        {IN("{'name':'q','shape':[1],'data':[1]}", K, V), "/inputs/0"},
        {IN("{'name':'q','shape':[1],'datatype':'FP32'}", K, V), "/inputs/0"},
        {IN("{'name':'q','shape':'1','datatype':'FP32','data':[1]}", K, V), "/inputs/0"},
        {IN("{'name':'q','shape':[1],'datatype':'FP32','data':[1],'x':1}", K, V), "/inputs/0/x"},
        {IN(Q, Q, V), "/inputs/1"},
        {IN(T("q", "[1]", "BYTES", "['a']"), K, V), "/inputs/0/datatype"},
        {IN(T("q", "[1]", "INT8", "[1]"), K, V), "/inputs/0/datatype"},
        {IN(T("q", "[1]", "INT16", "[1]"), K, V), "/inputs/0/datatype"},
        {IN(T("q", "[1]", "UINT64", "[1]"), K, V), "/inputs/0/datatype"},
        {IN(T("q", "[1]", "fp32", "[1]"), K, V), "/inputs/0/datatype"},
        {IN("{'name':'q','shape':[1],'datatype':'FP32','parameters':{'shared_memory_region':'r'}}", K, V),
         "/inputs/0/parameters/shared_memory_region"},
        {IN("{'name':'q','shape':[1],'datatype':'FP32','parameters':{'binary_data_size':4}}", K, V),
         "/inputs/0/parameters/binary_data_size"}, /* without the header */
        {IN("{'name':'q','shape':[1],'datatype':'FP32','parameters':{'other':4},'data':[1]}", K, V),
         "/inputs/0/parameters/other"},
        {IN("{'name':'q','shape':[1],'datatype':'FP32','parameters':7,'data':[1]}", K, V), "/inputs/0/parameters"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(INFER, rows[i].json, 400, "bad_request", rows[i].pointer, NULL);
    answer a = send_json(INFER, "{" INPUTS ",'outputs':[{'name':'no'}]}");
    CHECK(strstr(text(&a, "error"), "output, weights, scores"), "the known names: %s", text(&a, "error"));
    done(&a);
    a = send_json(INFER, IN(T("q", "[1]", "INT8", "[1]"), K, V));
    CHECK(strstr(text(&a, "error"), "FP64, FP32, FP16, BF16, BOOL, INT64, INT32"), "%s", text(&a, "error"));
    done(&a);
}

/* ---- 8 to 13: tensors ------------------------------------------------------------------------------------------- */

static const float q_data[] = {0.5f, -1}, k_data[] = {1, 2}, v_data[] = {1, 3};

#define BINARY(name, shape, type, size) \
    "{'name':'" name "','shape':" shape ",'datatype':'" type "','parameters':{'binary_data_size':" size "}}"
#define BINARIES \
    BINARY("q", "[2,1]", "FP32", "8") "," BINARY("k", "[2,1]", "FP32", "8") "," BINARY("v", "[2,1]", "FP32", "8")

static void set_binary(body *b, const char *json) {
    set_json(b, json);
    add_bytes(b, q_data, sizeof q_data);
    add_bytes(b, k_data, sizeof k_data);
    add_bytes(b, v_data, sizeof v_data);
}

static exchange plain_base64(const char *more) {
    char json[1000];
    snprintf(json, sizeof json, PLAIN ",'format':'base64'%s}", more);
    return exchange_send("POST", "/attention", (exchange_headers){{NULL}}, json);
}

/* the base64 text of bytes, to compare with that of the plain route */
static char *base64_of(const char *bytes, size_t length) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *out = malloc(length / 3 * 4 + 5), *p = out;
    for (size_t i = 0; i < length; i += 3) {
        unsigned bits = 0;
        for (size_t j = 0; j < 3; j++) bits = bits << 8 | (i + j < length ? (unsigned char)bytes[i + j] : 0u);
        for (size_t j = 0; j < 4; j++) *p++ = i + j > length && j > 0 ? '=' : letters[bits >> (18 - 6 * j) & 63];
        if (i + 1 == length) p[-2] = p[-1] = '=';
        if (i + 2 == length) p[-1] = '=';
    }
    *p = '\0';
    return out;
}

static void test_binary_in_and_out(void) {
    static body b;
    set_binary(&b, "{'inputs':[" BINARIES "],'parameters':{'binary_data_output':true,'return':['lse']}}");
    exchange e = plain_base64(",'return':['output','lse']");
    answer a = send(INFER, &b);
    CHECK_FATAL(a.response->status == 200, "%.*s", SHOWN(a));
    CHECK(strcmp(a.response->content_type, "application/octet-stream") == 0, "%s", a.response->content_type);
    CHECK(a.byte_count == 16, "%zu bytes", a.byte_count);
    const char *const names[] = {"output", "lse"};
    for (size_t i = 0; i < 2; i++) {
        json_t *o = output_of(&a, names[i]), *tensor = json_object_get(e.json, names[i]);
        CHECK(json_integer_value(json_object_get(json_object_get(o, "parameters"), "binary_data_size")) == 8, "%.*s",
              SHOWN(a));
        CHECK(!json_object_get(o, "data") && json_object_size(o) == 4, "%.*s", SHOWN(a));
        char *base64 = base64_of(a.bytes + 8 * i, 8);
        CHECK(strcmp(base64, json_string_value(json_object_get(tensor, "base64"))) == 0, "%s: expected %s, got %s",
              names[i], e.body, base64);
        free(base64);
    }
    exchange_free(&e);
    done(&a);
}

static void test_outputs_that_are_listed(void) {
    static body b;
    set_binary(&b, "{'inputs':[" BINARIES "],'outputs':[{'name':'lse','parameters':{'binary_data':true}},"
                   "{'name':'weights'},{'name':'output','parameters':{'binary_data':true}}]}");
    answer a = send(INFER, &b);
    json_t *outputs = json_object_get(a.json, "outputs");
    const char *const order[] = {"lse", "weights", "output"};
    CHECK_FATAL(json_array_size(outputs) == 3, "%.*s", SHOWN(a));
    for (size_t i = 0; i < 3; i++)
        CHECK(strcmp(json_string_value(json_object_get(json_array_get(outputs, i), "name")), order[i]) == 0, "%.*s",
              SHOWN(a));
    json_t *weights = json_array_get(outputs, 1);
    CHECK(!json_object_get(weights, "parameters") && json_array_size(json_object_get(weights, "data")) == 4, "%.*s",
          SHOWN(a));
    CHECK(a.byte_count == 16, "%zu bytes", a.byte_count);
    done(&a);
    set_binary(&b, "{'inputs':[" BINARIES "],'parameters':{'binary_data_output':true,'return':['weights']},"
                   "'outputs':[{'name':'output','parameters':{'binary_data':false}},{'name':'lse'},{'name':'lse'}]}");
    a = send(INFER, &b);
    CHECK(json_array_size(json_object_get(a.json, "outputs")) == 2 && a.byte_count == 8, "%.*s", SHOWN(a));
    CHECK(json_object_get(output_of(&a, "output"), "data") != NULL, "binary_data of each wins: %.*s", SHOWN(a));
    done(&a);
    a = send_json(INFER, "{" INPUTS ",'outputs':[]}");
    CHECK(a.response->status == 200 && output_of(&a, "output"), "%.*s", SHOWN(a));
    CHECK(!header_of(&a, "Inference-Header-Content-Length") &&
              strcmp(a.response->content_type, "application/json") == 0,
          "%s", a.response->content_type);
    done(&a);
}

static void test_json_and_bytes_mixed(void) {
    static body b;
    set_json(&b, "{'inputs':[" BINARY("q", "[2,1]", "FP32", "8") "," K "," BINARY("v", "[2,1]", "FP64", "16") "]}");
    const double v64[] = {1, 3};
    add_bytes(&b, q_data, sizeof q_data);
    add_bytes(&b, v64, sizeof v64);
    answer a = send(INFER, &b), c = send_json(INFER, "{" INPUTS "}");
    CHECK(a.response->status == 200 && json_equal(output_of(&a, "output"), output_of(&c, "output")), "%.*s", SHOWN(a));
    done(&c);
    done(&a);
    a = send_json(INFER, IN(T("q", "[2,1]", "FP32", "[[0.5],[-1]]"), K, V)); /* nested as the shape */
    CHECK(a.response->status == 200, "%.*s", SHOWN(a));
    done(&a);
}

static void test_half_types_and_booleans(void) {
    static body b;
    const uint16_t q16[] = {0x3800, 0xBC00}, kbf[] = {0x3F80, 0x4000};
    const uint8_t mask[] = {1, 0, 1, 1};
    const int32_t lengths[] = {2};
    set_json(&b, "{'inputs':[" BINARY("q", "[2,1]", "FP16", "4") "," BINARY("k", "[2,1]", "BF16", "4") "," V "," BINARY(
                     "mask", "[2,2]", "BOOL", "4") "," BINARY("kv_lengths", "[1]", "INT32", "4") "]}");
    add_bytes(&b, q16, sizeof q16);
    add_bytes(&b, kbf, sizeof kbf);
    add_bytes(&b, mask, sizeof mask);
    add_bytes(&b, lengths, sizeof lengths);
    answer a = send(INFER, &b);
    answer c = send_json(
        INFER, "{'inputs':[" T("q", "[2,1]", "FP16", "[0.5,-1]") "," K "," V "," T(
                   "mask", "[2,2]", "BOOL", "[true,false,true,true]") "," T("kv_lengths", "[1]", "INT64", "[2]") "]}");
    CHECK(a.response->status == 200 && c.response->status == 200, "%.*s %.*s", SHOWN(a), SHOWN(c));
    CHECK(json_equal(output_of(&a, "output"), output_of(&c, "output")), "%.*s %.*s", SHOWN(a), SHOWN(c));
    done(&a);
    done(&c);
    b.data[b.length - 6] = 2; /* a byte of the mask */
    a = send(INFER, &b);
    check_error(&a, 422, "out_of_range", "/inputs/3", "a mask of 2");
    done(&a);
}

static void test_empty_tensors(void) {
    answer a = send_json(
        INFER, IN(T("q", "[0,3]", "FP32", "[]"), T("k", "[0,3]", "FP32", "[]"), T("v", "[0,2]", "FP32", "[]")));
    json_t *o = output_of(&a, "output");
    CHECK(json_array_size(json_object_get(o, "data")) == 0 &&
              json_integer_value(json_array_get(json_object_get(o, "shape"), 1)) == 2,
          "%.*s", SHOWN(a));
    done(&a);
    static body b;
    set_json(&b, IN(BINARY("q", "[0,3]", "FP32", "0"), BINARY("k", "[0,3]", "FP32", "0"),
                    BINARY("v", "[0,2]", "FP32", "0")));
    char length[24];
    snprintf(length, sizeof length, "%zu", b.length); /* the whole body is JSON, and the header says so */
    a = send_raw("POST", INFER, (exchange_headers){{"inference-header-content-length", length, NULL}}, b.data,
                 b.length);
    CHECK(a.response->status == 200, "%.*s", SHOWN(a));
    done(&a);
    a = send_raw("POST", INFER, (exchange_headers){{NULL}}, b.data, b.length);
    CHECK(a.response->status == 200, "sizes of 0 need no header: %.*s", SHOWN(a));
    done(&a);
}

static void test_what_is_not_finite(void) {
    static body b;
    set_binary(&b, "{'inputs':[" BINARIES "],'parameters':{'kv_lengths':[0]},'outputs':[{'name':'lse','parameters':"
                   "{'binary_data':true}},{'name':'masked'}]}");
    answer a = send(INFER, &b);
    float lse[2] = {0};
    CHECK_FATAL(a.byte_count == sizeof lse, "%.*s", SHOWN(a));
    memcpy(lse, a.bytes, sizeof lse);
    CHECK(isinf(lse[0]) && lse[0] < 0, "got %g", (double)lse[0]);
    CHECK(json_is_null(json_array_get(json_object_get(output_of(&a, "masked"), "data"), 0)), "%.*s", SHOWN(a));
    done(&a);
    a = send_json(INFER, "{'inputs':[" Q "," K "," V "," T("bias", "[2,2]", "FP32", "[0,-Infinity,0,0]") "]}");
    CHECK(a.response->status == 200, "%.*s", SHOWN(a));
    done(&a);
    const float nan_q[] = {NAN, 1};
    set_json(&b, "{'inputs':[" BINARY("q", "[2,1]", "FP32", "8") "," K "," V "]}");
    add_bytes(&b, nan_q, sizeof nan_q);
    a = send(INFER, &b);
    check_error(&a, 422, "not_finite", "/inputs/0", "NaN in bytes");
    done(&a);
}

static void test_reply_types(void) {
    answer a = send_json(INFER, "{" INPUTS ",'parameters':{'reply_dtype':'BF16','binary_data_output':true}}");
    const char *datatype = json_string_value(json_object_get(output_of(&a, "output"), "datatype"));
    CHECK(datatype && strcmp(datatype, "BF16") == 0 && a.byte_count == 4, "%.*s", SHOWN(a));
    done(&a);
    a = send_json(INFER, "{" INPUTS ",'parameters':{'dtype':'float64','binary_data_output':true}}");
    datatype = json_string_value(json_object_get(output_of(&a, "output"), "datatype"));
    CHECK(datatype && strcmp(datatype, "FP64") == 0 && a.byte_count == 16, "%.*s", SHOWN(a));
    done(&a);
}

/* ---- 9: lengths that are wrong ---------------------------------------------------------------------------------- */

static void expect_raw(const char *header, const body *b, int status, const char *code, const char *pointer) {
    answer a = send_raw("POST", INFER, (exchange_headers){{"inference-header-content-length", header, NULL}}, b->data,
                        b->length);
    check_error(&a, status, code, pointer, header);
    CHECK(!a.response->close, "%s: the body was read, the connection stays", header);
    done(&a);
}

static void test_header_lengths(void) {
    static body b;
    char text_of_length[48];
    set_binary(&b, "{'inputs':[" BINARIES "]}");
    const char *const wrong[] = {"0",
                                 "-1",
                                 "1e3",
                                 "",
                                 " ",
                                 "9223372036854775808",
                                 "18446744073709551616",
                                 "99999999999999999999999",
                                 "0x10",
                                 "+5",
                                 "5 5",
                                 "abc",
                                 "9223372036854775807",
                                 "100000"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) expect_raw(wrong[i], &b, 400, "bad_request", NULL);
    snprintf(text_of_length, sizeof text_of_length, "%zu, %zu", b.json, b.json);
    expect_raw(text_of_length, &b, 400, "bad_request", NULL); /* twice */
    snprintf(text_of_length, sizeof text_of_length, "%zu", b.json - 1);
    expect_raw(text_of_length, &b, 400, "invalid_json", NULL);
    snprintf(text_of_length, sizeof text_of_length, "%zu", b.json + 1);
    expect_raw(text_of_length, &b, 400, "invalid_json", NULL);
    answer a = send_raw("POST", INFER, (exchange_headers){{NULL}}, b.data, b.length);
    check_error(&a, 400, "invalid_json", NULL, "no header at all");
    done(&a);
}

static void test_sizes_that_contradict(void) {
    static body b;
    char json_length[24];
    set_binary(&b, "{'inputs':[" BINARIES "]}");
    snprintf(json_length, sizeof json_length, "%zu", b.json);
    b.length--;
    expect_raw(json_length, &b, 400, "bad_request", NULL); /* a byte is missing */
    b.length += 2;
    expect_raw(json_length, &b, 400, "bad_request", NULL); /* one too many */
    const struct {
        const char *q, *code, *pointer;
        int status;
    } rows[] = {
        {BINARY("q", "[2,1]", "FP32", "12"), "shape_mismatch", "/inputs/0/parameters/binary_data_size", 422},
        {BINARY("q", "[2,1]", "FP64", "8"), "shape_mismatch", "/inputs/0/parameters/binary_data_size", 422},
        {BINARY("q", "[2,-1]", "FP32", "8"), "out_of_range", "/inputs/0/shape/1", 422},
        {BINARY("q", "[-1,-1]", "FP32", "8"), "out_of_range", "/inputs/0/shape/0", 422},
        {BINARY("q", "[4294967296,1]", "FP32", "8"), "shape_mismatch", "/inputs/0/parameters/binary_data_size", 422},
        {BINARY("q", "[4294967296,4294967296]", "FP32", "0"), "out_of_range", "/inputs/0/shape", 422},
        {BINARY("q", "[4294967296,1073741824]", "FP32", "0"), "out_of_range", "/inputs/0/shape", 422},
        {BINARY("q", "[1e300]", "FP32", "8"), "out_of_range", "/inputs/0/shape/0", 422},
        {BINARY("q", "[1,1,1,1,1,1,1,1,2]", "FP32", "8"), "shape_mismatch", "/inputs/0/shape", 422},
        {BINARY("q", "[2,1]", "FP32", "-8"), "bad_request", "/inputs/0/parameters/binary_data_size", 400},
        {BINARY("q", "[2,1]", "FP32", "8.5"), "bad_request", "/inputs/0/parameters/binary_data_size", 400},
        {BINARY("q", "[2,1]", "FP32", "'8'"), "bad_request", "/inputs/0/parameters/binary_data_size", 400},
        {BINARY("q", "[2,1]", "FP32", "9223372036854775808"), "bad_request", "/inputs/0/parameters/binary_data_size",
         400},
        {BINARY("q", "[1073741824,1048576]", "FP32", "4503599627370496"), "bad_request", NULL, 400},
        {"{'name':'q','shape':[2,1],'datatype':'FP32','data':[1,2],'parameters':{'binary_data_size':8}}", "bad_request",
         "/inputs/0", 400},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[1000];
        snprintf(json, sizeof json,
                 "{'inputs':[%s," BINARY("k", "[2,1]", "FP32", "8") "," BINARY("v", "[2,1]", "FP32", "8") "]}",
                 rows[i].q);
        set_binary(&b, json);
        snprintf(json_length, sizeof json_length, "%zu", b.json);
        answer a = send_raw("POST", INFER, (exchange_headers){{"inference-header-content-length", json_length, NULL}},
                            b.data, b.length);
        check_error(&a, rows[i].status, rows[i].code, rows[i].pointer, rows[i].q);
        done(&a);
    }
}

/* ---- 14: compression -------------------------------------------------------------------------------------------- */

static void test_compression_only_where_a_client_means_it(void) {
    static body b;
    set_binary(&b, "{'inputs':[" BINARIES "],'parameters':{'trace':true,'binary_data_output':true}}");
    char length[24];
    snprintf(length, sizeof length, "%zu", b.json);
    const struct {
        const char *accept, *coding;
    } rows[] = {{"gzip", "gzip"}, {"deflate", "deflate"}, {"gzip, deflate", NULL}, {"zstd", NULL}, {"*", NULL},
                {"br", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const exchange_headers headers = {
            {"accept-encoding", rows[i].accept, "inference-header-content-length", length, NULL}};
        answer a = send_raw("POST", INFER, headers, b.data, b.length);
        const char *coding = header_of(&a, "Content-Encoding"), *vary = header_of(&a, "Vary");
        CHECK(a.response->status == 200, "%s: %d", rows[i].accept, a.response->status);
        CHECK(rows[i].coding ? coding && strcmp(coding, rows[i].coding) == 0 : !coding, "%s: %s", rows[i].accept,
              coding ? coding : "(none)");
        CHECK(vary && strcmp(vary, "Accept-Encoding") == 0, "%s: no Vary", rows[i].accept);
        CHECK(header_of(&a, "Inference-Header-Content-Length") != NULL, "the length is there, coded or not");
        done(&a);
        a = send_raw("GET", "/v2/models/attention", headers, "", 0);
        CHECK(a.response->status == 200 && !header_of(&a, "Content-Encoding"), "metadata is never coded");
        done(&a);
        a = send_raw("POST", INFER, headers, "{", 1);
        CHECK(a.response->status == 400 && !header_of(&a, "Content-Encoding") && a.json, "an error is never coded");
        done(&a);
    }
}

/* ---- 16, 17: the documents about the models -------------------------------------------------------------------------
 */

static void test_metadata(void) {
    const exchange_headers none = {{NULL}};
    answer a = send_raw("GET", "/v2", none, "", 0);
    CHECK(strcmp(text(&a, "name"), "attentiond") == 0 && strcmp(text(&a, "version"), api_version) == 0 &&
              json_array_size(json_object_get(a.json, "extensions")) == 4,
          "%.*s", SHOWN(a));
    done(&a);
    const char *const models[] = {"attention", "mha", "scan", "merge"};
    const size_t names[] = {18, 17, 4, 2};
    for (size_t m = 0; m < 4; m++) {
        char path[64];
        size_t i;
        json_t *tensor, *length;
        snprintf(path, sizeof path, "/v2/models/%s", models[m]);
        a = send_raw("GET", path, none, "", 0);
        CHECK(strcmp(text(&a, "name"), models[m]) == 0 && json_array_size(json_object_get(a.json, "versions")) == 1,
              "%.*s", SHOWN(a));
        size_t inputs = json_array_size(json_object_get(a.json, "inputs"));
        size_t outputs = json_array_size(json_object_get(a.json, "outputs"));
        json_array_foreach(json_object_get(a.json, "inputs"), i, tensor) {
            size_t j;
            json_array_foreach(json_object_get(tensor, "shape"), j, length)
                CHECK(json_integer_value(length) == -1, "%.*s", SHOWN(a));
            CHECK(json_object_size(tensor) == 3 && json_is_string(json_object_get(tensor, "datatype")), "%.*s",
                  SHOWN(a));
        }
        CHECK(outputs == names[m], "%zu outputs", outputs);
        const json_t *types = json_object_get(json_object_get(a.json, "parameters"), "reply_dtype");
        CHECK(json_is_string(types) && strstr(json_string_value(types), "FP32"), "types of outputs: %.*s", SHOWN(a));
        done(&a);
        snprintf(path, sizeof path, "/v2/models/%s/config", models[m]);
        a = send_raw("GET", path, none, "", 0);
        CHECK(json_is_integer(json_object_get(a.json, "max_batch_size")) &&
                  json_integer_value(json_object_get(a.json, "max_batch_size")) == 0,
              "%.*s", SHOWN(a));
        CHECK(json_array_size(json_object_get(a.json, "input")) == inputs &&
                  json_array_size(json_object_get(a.json, "output")) == outputs,
              "%.*s", SHOWN(a));
        types = json_object_get(json_object_get(a.json, "parameters"), "reply_dtype");
        CHECK(json_is_string(json_object_get(types, "string_value")), "types of outputs: %.*s", SHOWN(a));
        json_array_foreach(json_object_get(a.json, "input"), i, tensor) {
            CHECK(json_is_boolean(json_object_get(tensor, "optional")), "%.*s", SHOWN(a));
            CHECK(strncmp(json_string_value(json_object_get(tensor, "data_type")), "TYPE_", 5) == 0, "%.*s", SHOWN(a));
        }
        done(&a);
    }
    a = send_raw("POST", "/v2/repository/index", none, "{\"ready\":true}", 14);
    CHECK(json_array_size(a.json) == 4 &&
              strcmp(json_string_value(json_object_get(json_array_get(a.json, 1), "state")), "READY") == 0,
          "%.*s", SHOWN(a));
    done(&a);
    a = send_raw("GET", "/v2/systemsharedmemory/status", none, "", 0);
    CHECK(json_is_array(a.json) && json_array_size(a.json) == 0, "%.*s", SHOWN(a));
    done(&a);
}

static json_int_t counted(const char *model, const char *tally, const char *what) {
    char path[64];
    snprintf(path, sizeof path, "/v2/models/%s/stats", model);
    answer a = send_raw("GET", path, (exchange_headers){{NULL}}, "", 0);
    json_t *stats = json_array_get(json_object_get(a.json, "model_stats"), 0);
    json_t *value = tally ? json_object_get(json_object_get(json_object_get(stats, "inference_stats"), tally), what)
                          : json_object_get(stats, what);
    const json_int_t result = json_is_integer(value) ? json_integer_value(value) : -1;
    CHECK(result >= 0, "%s %s is missing: %.*s", tally ? tally : "", what, SHOWN(a));
    done(&a);
    return result;
}

static void test_statistics(void) {
    static const char *const tallies[] = {"success",       "fail",           "queue",     "compute_input",
                                          "compute_infer", "compute_output", "cache_hit", "cache_miss"};
    json_int_t before[8], ns[8];
    for (size_t i = 0; i < 8; i++) {
        before[i] = counted("attention", tallies[i], "count");
        ns[i] = counted("attention", tallies[i], "ns");
    }
    const json_int_t inferences = counted("attention", NULL, "inference_count");
    const json_int_t others = counted("mha", "success", "count");
    for (size_t i = 0; i < 3; i++) {
        answer a = send_json(INFER, "{" INPUTS "}");
        done(&a);
    }
    answer a = send_json(INFER, "{}");
    done(&a);
    for (size_t i = 0; i < 8; i++) {
        const json_int_t wanted = i == 1 ? 1 : i >= 6 ? 0 : 3;
        CHECK(counted("attention", tallies[i], "count") - before[i] == wanted, "%s", tallies[i]);
        CHECK(wanted ? counted("attention", tallies[i], "ns") > ns[i] : counted("attention", tallies[i], "ns") == 0,
              "%s", tallies[i]);
    }
    CHECK(counted("attention", NULL, "inference_count") - inferences == 3, "inference_count");
    CHECK(counted("attention", NULL, "execution_count") - inferences == 3, "execution_count");
    CHECK(counted("attention", NULL, "last_inference") > 1500000000000, "milliseconds since 1970");
    CHECK(counted("mha", "success", "count") == others, "of the other model");
}

static void test_mha(void) {
    exchange e = exchange_send("POST", "/mha", (exchange_headers){{NULL}},
                               "{'x':[[1,0],[0,1]],'w_qkv':[[1,0,1,0,1,0],[0,1,0,1,0,1]],'num_heads':1,'format':'flat',"
                               "'return':['output','heads']}");
    answer a = send_json(MHA_INFER, "{'inputs':[" T("x", "[2,2]", "FP32", "[1,0,0,1]") "," T(
                                        "w_qkv", "[2,6]", "FP32",
                                        "[1,0,1,0,1,0,0,1,0,1,0,1]") "],'parameters':{'num_heads':1},"
                                                                     "'outputs':[{'name':'output'},{'name':'heads'}]}");
    CHECK(a.response->status == 200 && e.status == 200, "%.*s %s", SHOWN(a), e.body);
    CHECK(json_equal(json_object_get(output_of(&a, "output"), "data"),
                     json_object_get(json_object_get(e.json, "output"), "data")),
          "%.*s %s", SHOWN(a), e.body);
    CHECK(strcmp(text(&a, "model_name"), "mha") == 0, "%.*s", SHOWN(a));
    exchange_free(&e);
    done(&a);
}

int main(int argc, char **argv) {
    exchange_init();
    const check_test tests[] = {
        CHECK_TEST(test_every_path_answers),
        CHECK_TEST(test_readiness),
        CHECK_TEST(test_types_do_not_matter),
        CHECK_TEST(test_errors_of_the_host_have_the_member),
        CHECK_TEST(test_a_body_over_the_limit),
        CHECK_TEST(test_id_is_echoed),
        CHECK_TEST(test_parameters_are_the_options),
        CHECK_TEST(test_reserved_parameters),
        CHECK_TEST(test_pointers_lead_into_the_body),
        CHECK_TEST(test_faults_of_the_protocol),
        CHECK_TEST(test_model_name),
        CHECK_TEST(test_null_is_absent),
        CHECK_TEST(test_content_type_and_headers_are_ignored),
        CHECK_TEST(test_options_in_the_query),
        CHECK_TEST(test_binary_in_and_out),
        CHECK_TEST(test_outputs_that_are_listed),
        CHECK_TEST(test_json_and_bytes_mixed),
        CHECK_TEST(test_half_types_and_booleans),
        CHECK_TEST(test_empty_tensors),
        CHECK_TEST(test_what_is_not_finite),
        CHECK_TEST(test_reply_types),
        CHECK_TEST(test_header_lengths),
        CHECK_TEST(test_sizes_that_contradict),
        CHECK_TEST(test_compression_only_where_a_client_means_it),
        CHECK_TEST(test_metadata),
        CHECK_TEST(test_statistics),
        CHECK_TEST(test_mha),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
