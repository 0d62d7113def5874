/* The options of /attention, and /mha: each rule of docs/api.md, sections 2 and 3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../api/endpoints/operation.h"
#include "../../api/fields/option_text.h"
#include "../support/exchange.h"

#define ZEROS(fields) "{'q':[[0],[0]],'k':[[0],[0]],'v':[[1],[3]]," fields "}"

#define MHA(fields) "{'x':[[1,0],[0,1]],'w_q':[[1,0],[0,1]],'w_k':[[1,0],[0,1]],'w_v':[[1,0],[0,1]]" fields "}"

/* ---- options ---------------------------------------------------------------------------------------------------- */

static void test_mask_and_bias(void) {
    expect_reply("/attention", ZEROS("'mask':[[1,0],[0,0]],'return':['output','weights','lse','masked']"),
                 "{'output':[[1],[0]],'weights':[[1,0],[0,0]],'masked':[[0,null],[null,null]],'lse':[0,null]}");
    expect_reply("/attention", ZEROS("'mask':[false,true]"), "{'output':[[3],[3]]}");
    expect_reply("/attention", ZEROS("'mask':[[true],[false]]"), "{'output':[[2],[0]]}");
    expect_reply("/attention", ZEROS("'mask':{'shape':[],'data':[0]}"), "{'output':[[0],[0]]}");
    expect_reply("/attention", ZEROS("'bias':[0,-Infinity]"), "{'output':[[1],[1]]}");
    expect_reply("/attention", ZEROS("'bias':[[0,1.0986122886681098]]"), "{'output':[[2.5],[2.5]]}");
    expect_error("/attention", ZEROS("'mask':[[1,1,1]]"), 422, "shape_mismatch", "/mask", "[1, 3]");
    expect_error("/attention", ZEROS("'mask':[[[1,1]]]"), 422, "shape_mismatch", "/mask", NULL);
    expect_error("/attention", ZEROS("'mask':[1,0.5]"), 422, "out_of_range", "/mask/1", "bias");
    expect_error("/attention", ZEROS("'mask':[1,true]"), 422, "wrong_type", "/mask/1", NULL);
    expect_error("/attention", ZEROS("'mask':true"), 422, "wrong_type", "/mask", NULL);
    expect_error("/attention", ZEROS("'bias':[0,Infinity]"), 422, "not_finite", "/bias/1", NULL);
    expect_error("/attention", ZEROS("'bias':[NaN,-Infinity]"), 422, "not_finite", "/bias/0", NULL);
    expect_error("/attention", ZEROS("'bias':[[0],[0],[0]]"), 422, "shape_mismatch", "/bias", NULL);
}

static void test_blocked_keys_may_hold_anything(void) {
#define NANS(fields) "{'q':[[0]],'k':[[1],[NaN]],'v':[[5],[Infinity]]," fields "}"
    expect_reply("/attention", NANS("'mask':[1,0]"), "{'output':[[5]]}");
    expect_reply("/attention", NANS("'bias':[0,-Infinity]"), "{'output':[[5]]}");
    expect_reply("/attention", NANS("'kv_lengths':[1]"), "{'output':[[5]]}");
    expect_reply("/attention", NANS("'causal':true,'return':['masked']"), "{'masked':[[0,null]]}");
    expect_reply("/attention", NANS("'window':[-1,0]"), "{'output':[[5]]}");
    expect_error("/attention", NANS("'causal':false"), 422, "not_finite", "/k/1/0", NULL);
    expect_error("/attention", NANS("'causal':true,'query_offset':1"), 422, "not_finite", "/k/1/0", NULL);
    expect_error("/attention", NANS("'causal':true,'return':['scores']"), 422, "not_finite", "/k/1/0", NULL);
    expect_error("/attention", NANS("'causal':true,'trace':true"), 422, "not_finite", "/k/1/0", NULL);
    expect_error("/attention", NANS("'causal':true,'return':['present_v']"), 422, "not_finite", "/v/1/0", NULL);
    expect_error("/attention", "{'q':[[0]],'k':[[1]],'v':[[5]],'past_k':[[1],[2]],'past_v':[[1],[NaN]],'mask':[0,1,1]}",
                 422, "not_finite", "/past_v/1/0", NULL);
    expect_reply("/attention", "{'q':[[0]],'k':[[1]],'v':[[5]],'past_k':[[1],[2]],'past_v':[[NaN],[1]],'mask':[0,1,1]}",
                 "{'output':[[3]]}");
}

static void test_lengths_and_offsets(void) {
    expect_error("/attention", ZEROS("'kv_lengths':[3]"), 422, "out_of_range", "/kv_lengths/0", "3");
    expect_error("/attention", ZEROS("'kv_lengths':[-1]"), 422, "out_of_range", "/kv_lengths/0", NULL);
    expect_error("/attention", ZEROS("'kv_lengths':[1,1]"), 422, "shape_mismatch", "/kv_lengths", NULL);
    expect_error("/attention", ZEROS("'kv_lengths':1"), 422, "wrong_type", "/kv_lengths", NULL);
    expect_error("/attention", ZEROS("'kv_lengths':[1.5]"), 422, "wrong_type", "/kv_lengths/0", NULL);
    expect_reply("/attention", ZEROS("'kv_lengths':[2e0]"), "{'output':[[2],[2]]}");
    expect_reply("/attention", ZEROS("'causal':true"), "{'output':[[1],[2]]}");
    expect_reply("/attention", ZEROS("'causal':true,'query_offset':-1"), "{'output':[[0],[1]]}");
    expect_reply("/attention", ZEROS("'causal':true,'query_offset':[1]"), "{'output':[[2],[2]]}");
    expect_reply("/attention", ZEROS("'causal':true,'query_offset':'end','kv_lengths':[1]"), "{'output':[[0],[1]]}");
    expect_reply("/attention", "{'q':[[0]],'k':[[0],[0],[0]],'v':[[1],[3],[8]],'causal':true,'query_offset':'end'}",
                 "{'output':[[4]]}");
    expect_reply("/attention", "{'q':[[0]],'k':[[0]],'v':[[8]],'past_k':[[0],[0]],'past_v':[[1],[3]],'causal':true}",
                 "{'output':[[4]]}");
    expect_reply(
        "/attention",
        "{'q':[[[0]],[[0]]],'k':[[[0],[0]],[[0],[0]]],'v':[[[1],[3]],[[1],[3]]],'causal':true,'query_offset':[0,1]}",
        "{'output':[[[1]],[[2]]]}");
    expect_error("/attention", ZEROS("'query_offset':'start'"), 422, "out_of_range", "/query_offset", "end");
    expect_error("/attention", ZEROS("'query_offset':[0,0]"), 422, "shape_mismatch", "/query_offset", NULL);
    expect_error("/attention", ZEROS("'query_offset':1e300"), 422, "out_of_range", "/query_offset", NULL);
    expect_error("/attention", ZEROS("'query_offset':0.5"), 422, "wrong_type", "/query_offset", NULL);
    expect_reply("/attention", ZEROS("'window':[0,0]"), "{'output':[[1],[3]]}");
    expect_error("/attention", ZEROS("'window':[-2,0]"), 422, "out_of_range", "/window/0", "-2");
    expect_error("/attention", ZEROS("'window':[1]"), 422, "shape_mismatch", "/window", NULL);
    expect_error("/attention", ZEROS("'causal':1"), 422, "wrong_type", "/causal", NULL);
    expect_error("/attention", ZEROS("'tokens':['a']"), 422, "shape_mismatch", "/tokens", "2");
    expect_error("/attention", ZEROS("'tokens':['a',3]"), 422, "wrong_type", "/tokens/1", NULL);
    expect_error("/attention", ZEROS("'tokens':[]"), 422, "shape_mismatch", "/tokens", NULL);
    expect_error("/attention", ZEROS("'key_tokens':'ab'"), 422, "wrong_type", "/key_tokens", NULL);
    expect_reply("/attention", ZEROS("'tokens':['a','b'],'key_tokens':['c','d']"), "{'output':[[2],[2]]}");
}

static void test_scale_and_softcap(void) {
#define ONE(fields) "{'q':[[2,0,0,0]],'k':[[3,0,0,0]],'v':[[1]],'return':['scaled','capped']," fields "}"
    expect_reply("/attention", ONE("'scale':null"), "{'scaled':[[3]],'capped':[[3]]}");
    expect_reply("/attention", ONE("'scale':'1/sqrt(d_k)'"), "{'scaled':[[3]],'capped':[[3]]}");
    expect_reply("/attention", ONE("'scale':'1/d_k'"), "{'scaled':[[1.5]],'capped':[[1.5]]}");
    expect_reply("/attention", ONE("'scale':'1'"), "{'scaled':[[6]],'capped':[[6]]}");
    expect_reply("/attention", ONE("'scale':0"), "{'scaled':[[0]],'capped':[[0]]}");
    expect_reply("/attention", ONE("'scale':-0.5"), "{'scaled':[[-3]],'capped':[[-3]]}");
    expect_reply("/attention", ONE("'softcap':2"), "{'scaled':[[3]],'capped':[[1.8102965]]}");
    expect_error("/attention", ONE("'scale':'sqrt'"), 422, "out_of_range", "/scale", "1/d_k");
    expect_error("/attention", ONE("'scale':true"), 422, "wrong_type", "/scale", NULL);
    expect_error("/attention", ONE("'softcap':-1"), 422, "out_of_range", "/softcap", "-1");
    expect_error("/attention", ONE("'softcap':1e-60"), 422, "out_of_range", "/softcap", "float64");
    expect_reply("/attention", ONE("'softcap':0.0"), "{'scaled':[[3]],'capped':[[3]]}");
    expect_error("/attention", ONE("'softcap':'2'"), 422, "wrong_type", "/softcap", NULL);
}

static void test_past(void) {
    expect_reply("/attention",
                 "{'q':[[[0]]],'k':[[[1]]],'v':[[[3]]],'past_k':[[[2],[4]]],'past_v':[[[6],[9]]],'return':['present_k',"
                 "'present_v','output']}",
                 "{'output':[[[6]]],'present_k':[[[2],[4],[1]]],'present_v':[[[6],[9],[3]]]}");
    expect_reply("/attention", ZEROS("'return':['present_k']"), "{'present_k':[[0],[0]]}");
    expect_error("/attention", ZEROS("'past_k':[[0]]"), 422, "missing_field", "", "past_v");
    expect_error("/attention", ZEROS("'past_k':[[0,0]],'past_v':[[0]]"), 422, "shape_mismatch", "/past_k", "[1, 2]");
    expect_error("/attention", ZEROS("'past_k':[[0]],'past_v':[[0],[0]]"), 422, "shape_mismatch", "/past_v", "2");
    expect_error("/attention", ZEROS("'past_k':[[[0]]],'past_v':[[[0]]]"), 422, "shape_mismatch", "/past_k", "n_past");
}

static void test_return(void) {
    expect_reply("/attention", ZEROS("'return':['lse','lse']"), "{'lse':[0.693147,0.693147]}");
    expect_reply("/attention", ZEROS("'return':['lse'],'return_weights':true"),
                 "{'lse':[0.693147,0.693147],'weights':[[0.5,0.5],[0.5,0.5]]}");
    expect_reply("/attention", "{'q':[[0]],'k':[[0]],'v':[[7]],'trace':true}",
                 "{'output':[[7]],'weights':[[1]],'scores':[[0]],'scaled':[[0]],'masked':[[0]],'lse':[0]}");
    expect_reply(
        "/attention",
        "{'q':[[0]],'k':[[0]],'v':[[7]],'trace':true,'softcap':1,'past_k':[[0]],'past_v':[[5]],'return':['lse']}",
        "{'output':[[6]],'weights':[[0.5,0.5]],'scores':[[0,0]],'scaled':[[0,0]],'capped':[[0,0]],'masked':[[0,0]],'"
        "lse':[0.693147],'present_k':[[0],[0]],'present_v':[[5],[7]]}");
    expect_reply("/attention", "{'q':[[0]],'k':[[0]],'v':[[1]],'format':'base64'}",
                 "{'output':{'shape':[1,1],'dtype':'F32','base64':'AACAPw=='}}");
    expect_reply("/attention", "{'q':[[0]],'k':[[0]],'v':[[1]],'format':'flat'}",
                 "{'output':{'shape':[1,1],'data':[1]}}");
    expect_error("/attention", ZEROS("'return':[]"), 422, "out_of_range", "/return", NULL);
    expect_error("/attention", ZEROS("'return':['output','weight']"), 422, "out_of_range", "/return/1", "present_k");
    expect_error("/attention", ZEROS("'return':['heads']"), 422, "out_of_range", "/return/0", NULL);
    expect_error("/attention", ZEROS("'return':'output'"), 422, "wrong_type", "/return", NULL);
    expect_error("/attention", ZEROS("'return':[1]"), 422, "wrong_type", "/return/0", NULL);
    expect_error("/attention", ZEROS("'return_weights':'average'"), 422, "wrong_type", "/return_weights", NULL);
    expect_error("/attention", ZEROS("'trace':1"), 422, "wrong_type", "/trace", NULL);
    expect_error("/attention", ZEROS("'dtype':'float16'"), 422, "out_of_range", "/dtype", "float64");
    expect_error("/attention", ZEROS("'format':'hex'"), 422, "out_of_range", "/format", "base64");
}

/* ---- options in the query string -------------------------------------------------------------------------------- */

#define PLAIN ZEROS("'format':null")

static void test_query_options(void) {
    const struct {
        const char *query, *body, *reply;
    } rows[] = {
        {"causal=true", PLAIN, "{'output':[[1],[2]]}"},
        {"causal=True", PLAIN, "{'output':[[1],[2]]}"},
        {"causal=1", PLAIN, "{'output':[[1],[2]]}"},
        {"causal=False", PLAIN, "{'output':[[2],[2]]}"},
        {"causal=0&", PLAIN, "{'output':[[2],[2]]}"},
        {"&&causal=%74rue", PLAIN, "{'output':[[1],[2]]}"},
        {"causal=1", ZEROS("'causal':true"), "{'output':[[1],[2]]}"},
        {"causal=true", ZEROS("'causal':null"), "{'output':[[1],[2]]}"},
        {"causal=null", ZEROS("'causal':true"), "{'output':[[1],[2]]}"},
        {"causal=true&causal=1", PLAIN, "{'output':[[1],[2]]}"},
        {"return=lse,weights", PLAIN, "{'lse':[0.693147,0.693147],'weights':[[0.5,0.5],[0.5,0.5]]}"},
        {"return=[%22lse%22]", ZEROS("'return':['lse']"), "{'lse':[0.693147,0.693147]}"},
        {"return_weights=1", PLAIN, "{'output':[[2],[2]],'weights':[[0.5,0.5],[0.5,0.5]]}"},
        {"window=0,0", PLAIN, "{'output':[[1],[3]]}"},
        {"window=[0,+0]", ZEROS("'dtype':'float32','window':[0.0,0e1]"), "{'output':[[1],[3]]}"},
        {"kv_lengths=1", PLAIN, "{'output':[[1],[1]]}"},
        {"kv_lengths=1,2", "{'q':[[[0]],[[0]]],'k':[[[0],[0]],[[0],[0]]],'v':[[[1],[3]],[[1],[3]]]}",
         "{'output':[[[1]],[[2]]]}"},
        {"causal=1&query_offset=-1", PLAIN, "{'output':[[0],[1]]}"},
        {"causal=1&query_offset=end", PLAIN, "{'output':[[1],[2]]}"},
        {"scale=0.5", ZEROS("'scale':5e-1"), "{'output':[[2],[2]]}"},
        {"return=scaled&scale=1/d_k", "{'q':[[2,2]],'k':[[1,1]],'v':[[1]]}", "{'scaled':[[2]]}"},
        {"return=scaled&scale=1", "{'q':[[2,2]],'k':[[1,1]],'v':[[1]]}", "{'scaled':[[4]]}"},
        {"tokens=a,true&key_tokens=1,2", PLAIN, "{'output':[[2],[2]]}"},
        {"dtype=float64&format=flat", PLAIN, "{'output':{'shape':[2,1],'data':[2,2]}}"},
        {"kv_lengths=1", ZEROS("'kv_lengths':{'shape':[1],'data':[1.0]}"), "{'output':[[1],[1]]}"},
        {"kv_lengths=1", ZEROS("'kv_lengths':{'shape':[1],'dtype':'I32','base64':'AQAAAA=='}"), "{'output':[[1],[1]]}"},
        {"scale=1.0", ZEROS("'scale':'1'"), "{'output':[[2],[2]]}"},
        {"num_heads=2", "{'q':[[0,0]],'k':[[0,0]],'v':[[5,7]]}", "{'output':[[5,7]]}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char target[200];
        snprintf(target, sizeof target, "/attention?%s", rows[i].query);
        expect_reply(target, rows[i].body, rows[i].reply);
    }
    expect_reply("/mha?return_weights=average&return=weights&num_heads=2", MHA(""),
                 "{'weights':[[0.615529,0.384471],[0.384471,0.615529]]}");
}

/* such an error has no place in the body, and comes after those that have one */
static void test_query_errors(void) {
    const struct {
        const char *query, *body, *code, *detail;
    } rows[] = {
        {"casual=true", PLAIN, "unknown_field", "did you mean \"causal\""},
        {"foo=1", PLAIN, "unknown_field", "query string: unknown field \"foo\""},
        {"is_causal=1", PLAIN, "unknown_field", "\"causal\""},
        {"q=[[1]]", PLAIN, "unknown_field", "tensors belong in the body"},
        {"mask=1,0", PLAIN, "unknown_field", "tensors belong in the body"},
        {"causal=false", ZEROS("'causal':true"), "out_of_range", "causal"},
        {"causal=true&causal=false", PLAIN, "out_of_range", "causal"},
        {"scale=0.5", ZEROS("'scale':0.25"), "out_of_range", "scale"},
        {"scale=0.100000000001", ZEROS("'scale':0.1"), "out_of_range", "scale"},
        {"return=lse,output", ZEROS("'return':['output','lse']"), "out_of_range", "return"},
        {"return=lsd", PLAIN, "out_of_range", "query string: return: unknown name"},
        {"return=", PLAIN, "out_of_range", "return"},
        {"causal=2", PLAIN, "wrong_type", "query string: causal: expected true or false"},
        {"causal", PLAIN, "wrong_type", "causal"},
        {"window=1", PLAIN, "shape_mismatch", "query string: window"},
        {"window=1,-2", PLAIN, "out_of_range", "-2"},
        {"window=1,x", PLAIN, "wrong_type", "window"},
        {"kv_lengths=1", ZEROS("'kv_lengths':{'shape':[1],'data':[2]}"), "out_of_range", "two that differ"},
        {"kv_lengths=1", ZEROS("'kv_lengths':{'shape':[1],'dtype':'I32','base64':'AgAAAA=='}"), "out_of_range",
         "two that differ"},
        {"scale=2", ZEROS("'scale':'1'"), "out_of_range", "two that differ"},
        {"kv_lengths=9", PLAIN, "out_of_range", "kv_lengths"},
        {"softcap=-1", PLAIN, "out_of_range", "softcap"},
        {"softcap=1e-60", PLAIN, "out_of_range", "float64"},
        {"num_heads=1.5", "{'q':[[0]],'k':[[0]],'v':[[5]]}", "wrong_type", "num_heads"},
        {"tokens=a", PLAIN, "shape_mismatch", "2 labels"},
        {"query_offset=1,", PLAIN, "out_of_range", "query string: query_offset"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char target[200];
        snprintf(target, sizeof target, "/attention?%s", rows[i].query);
        expect_error(target, rows[i].body, 422, rows[i].code, NULL, rows[i].detail);
    }
    expect_error("/attention?casual=1", ZEROS("'typo':1"), 422, "unknown_field", "/typo", NULL);
    expect_error("/attention?casual=1", "{'q':[[0]]}", 422, "unknown_field", NULL, "casual");
    expect_error("/attention?casual=1", "{'q':", 400, "invalid_json", NULL, NULL);
    expect_error("/attention?casual=1", "[]", 422, "wrong_type", "", NULL);
    expect_error("/mha?return=output",
                 "{'x':{'shape':[1099511627776,3,0],'data':[]},'w_qkv':{'shape':[0,3],'data':[]},'num_heads':1}", 422,
                 "out_of_range", NULL, "--max-memory");
    expect_error("/mha?layout=bhnd", MHA(",'num_heads':1"), 422, "unknown_field", NULL, "/attention has it");
}

static void test_queries_of_other_routes(void) {
#define INFER                                                             \
    "{'inputs':[{'name':'q','shape':[1,1],'datatype':'FP32','data':[1]}," \
    "{'name':'k','shape':[1,1],'datatype':'FP32','data':[1]},"            \
    "{'name':'v','shape':[1,1],'datatype':'FP32','data':[1]}]}"
    const char *const good[] = {"/v2/models/attention/infer", "/v2/models/attention/infer?",
                                "/v2/models/attention/infer?x=1"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        exchange e = exchange_send("POST", good[i], (exchange_headers){{NULL}}, INFER);
        CHECK(e.status == 200, "%s: %s", good[i], e.body);
        exchange_free(&e);
    }
    const char *const bad[] = {"/v2/models/attention/infer?causal=true", "/v2/models/attention/infer?x=1&q=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        exchange e = exchange_send("POST", bad[i], (exchange_headers){{NULL}}, INFER);
        CHECK(e.status == 422 && strstr(exchange_member(&e, "detail"), "\"parameters\""), "%s: %s", bad[i], e.body);
        exchange_free(&e);
    }
    const char *const info[] = {"/healthz?causal=true", "/version?x", "/openapi.json?q=1"};
    for (size_t i = 0; i < sizeof info / sizeof *info; i++) {
        exchange e = exchange_send("GET", info[i], (exchange_headers){{NULL}}, "");
        CHECK(e.status == 200, "%s: %d", info[i], e.status);
        exchange_free(&e);
    }
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

static void test_rows_of_every_schema(void) {
    for (size_t s = 0; api_schemas[s]; s++) {
        const api_schema *schema = api_schemas[s];
        CHECK(api_operations[s] && &api_operations[s]->schema == schema, "%s: the lists differ", schema->name);
        CHECK(api_field_count(schema) <= API_MAX_FIELDS && api_name_count(schema) <= API_MAX_NAMES, "%s: too many rows",
              schema->name);
        for (size_t i = 0; i < api_field_count(schema); i++) {
            const api_field_row *row = api_field_at(schema, i);
            const unsigned tensor = row->kinds & API_TENSOR;
            CHECK(api_field_find(schema, row->name) == i, "%s: %s is there twice", schema->name, row->name);
            CHECK(row->kinds && (tensor & (tensor - 1)) == 0, "%s: its kinds", row->name);
            CHECK(row->min_rank <= row->max_rank && row->max_rank <= 5 && (row->max_rank > 0) == (tensor != 0),
                  "%s: ranks %u to %u", row->name, row->min_rank, row->max_rank);
        }
        for (size_t i = 0; i < api_name_count(schema); i++) {
            const api_name_row *row = api_name_at(schema, i);
            CHECK(api_name_find(schema, row->name) == i, "%s: %s is there twice", schema->name, row->name);
            CHECK(row->rank > 0 && row->rank <= 4 && row->result < api_operations[s]->state_size, "%s", row->name);
            CHECK((row->stage == API_NO_STAGE) == (row->number == NULL), "%s: stage without its number", row->name);
        }
    }
}

/* every field of every kind can be read from a text, and a bare word is never a tensor */
static void test_what_queries_hold(void) {
    static const struct {
        const char *name;
        bool in_query;
    } rows[] = {{"q", false},     {"mask", false},        {"bias", false},  {"past_k", false}, {"kv_lengths", true},
                {"window", true}, {"query_offset", true}, {"scale", true},  {"return", true},  {"causal", true},
                {"layout", true}, {"num_heads", true},    {"tokens", true}, {"dtype", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const api_field_row *row =
            api_field_at(&api_attention.schema, api_field_find(&api_attention.schema, rows[i].name));
        CHECK(row && api_field_in_query(row) == rows[i].in_query, "%s", rows[i].name);
    }
}

/* ---- options that are objects ------------------------------------------------------------------------------------ */

typedef struct turning { /* what the rows below read */
    double theta, factor;
    size_t type;
    api_tensor table;
} turning;

static void set_theta(api_form *form, api_field field, void *state) {
    api_form_real(form, field, &((turning *)state)->theta);
}
static void set_factor(api_form *form, api_field field, void *state) {
    double *factor = &((turning *)state)->factor;
    if (api_form_real(form, field, factor) && *factor < 1)
        api_form_fault(form, field, API_OUT_OF_RANGE, "expected a number of at least 1, got %g", *factor);
}
static void set_type(api_form *form, api_field field, void *state) {
    static const char *const types[] = {"linear", "yarn"};
    api_form_choice(form, field, types, 2, &((turning *)state)->type);
}
static void set_table(api_form *form, api_field field, void *state) {
    api_form_tensor(form, field, &((turning *)state)->table);
}
static const api_field_row scaling_rows[] = {{"type", API_WORD, 0, 0, 0, set_type},
                                             {"factor", API_NUMBER, 0, 0, API_REQUIRED, set_factor}};
static const api_field_table scaling_table = API_TABLE(scaling_rows);
static const api_schema scaling_members = {"scaling", {&scaling_table}, {NULL}};
static void set_scaling(api_form *form, api_field field, void *state) {
    api_form_object(form, field, &scaling_members, state);
}
static const api_field_row turn_rows[] = {{"theta", API_NUMBER, 0, 0, 0, set_theta},
                                          {"scaling", API_OBJECT, 0, 0, 0, set_scaling},
                                          {"table", API_REALS, 1, 2, 0, set_table}};
static const api_field_table turn_table = API_TABLE(turn_rows);
static const api_schema turn_members = {"turn", {&turn_table}, {NULL}};
static void set_turn(api_form *form, api_field field, void *state) {
    api_form_object(form, field, &turn_members, state);
}
static const api_field_row top_rows[] = {{"before", API_BOOLEAN, 0, 0, 0, NULL},
                                         {"turn", API_OBJECT, 0, 0, 0, set_turn}};
static const api_field_table top_table = API_TABLE(top_rows);
static const api_schema top_schema = {"top", {&top_table}, {NULL}};

/* Reads a document and a query string by the tables above. */
static turning read_turning(const char *document, const char *query, api_error *error, bool *broken) {
    turning t = {0};
    char *text = exchange_quoted(document), *options = query ? exchange_quoted(query) : NULL;
    api_memory memory;
    api_memory_init(&memory, NULL);
    *error = (api_error){0};
    api_reader *reader = api_reader_new(&memory, 0);
    api_reader_push(reader, text, strlen(text));
    json_t *root = api_reader_finish(reader, error);
    CHECK(root, "%s: %s", document, error->detail);
    api_form form = {.schema = &top_schema, .memory = &memory, .reader = reader, .error = error, .query = options};
    api_form_bind(&form, root);
    api_query_read(&form, root);
    api_form_set(&form, &top_table, &t);
    api_query_locate(error);
    *broken = form.broken;
    json_decref(root);
    api_memory_deinit(&memory);
    free(text);
    free(options);
    return t;
}

static void test_objects(void) {
    static const struct {
        const char *document, *query, *code, *pointer, *detail;
    } rows[] = {
        {"{'turn':{}}", NULL, NULL, NULL, NULL},
        {"{'turn':{'theta':5,'scaling':{'type':'yarn','factor':2},'table':[[1,2]]}}", NULL, NULL, NULL, NULL},
        {"{}", "turn={'theta':5,'scaling':{'type':'yarn','factor':2},'table':{'shape':[1],'data':[1]}}", NULL, NULL,
         NULL},
        {"{'turn':{'theta':5.0}}", "turn={'theta':5}", NULL, NULL, NULL},
        {"{'turn':3}", NULL, "wrong_type", "/turn", "turn: expected an object, got a number"},
        {"{'turn':{'thetta':5}}", NULL, "unknown_field", "/turn/thetta",
         "turn: unknown field \"thetta\", did you mean \"theta\"?"},
        {"{'turn':{'is_causal':5}}", NULL, "unknown_field", "/turn/is_causal", "turn: unknown field \"is_causal\""},
        {"{'turn':{'theta':'5'}}", NULL, "wrong_type", "/turn/theta", "turn.theta: expected a number, got a string"},
        {"{'turn':{'scaling':{}}}", NULL, "missing_field", "/turn/scaling", "\"turn.scaling.factor\" is required"},
        {"{'turn':{'scaling':{'factor':0.5}}}", NULL, "out_of_range", "/turn/scaling/factor",
         "turn.scaling.factor: expected"},
        {"{'turn':{'scaling':{'factor':2,'type':'ntk'}}}", NULL, "out_of_range", "/turn/scaling/type", "\"ntk\""},
        {"{'turn':{'table':[1,'a']}}", NULL, "wrong_type", "/turn/table/1", "expected a number"},
        {"{'turn':{'table':{'shape':[2],'data':[1]}}}", NULL, "shape_mismatch", "/turn/table/data", "turn.table.data"},
        {"{'turn':{'table':{'shape':[1],'data':[NaN,'a']}}}", NULL, "wrong_type", "/turn/table/data/1", NULL},
        {"{'turn':{'table':[[[1]]]}}", NULL, "shape_mismatch", "/turn/table", "1 or 2 axes"},
        /* the first in the document counts */
        {"{'turn':{'scaling':{'factor':0,'b':1},'a':1}}", NULL, "out_of_range", "/turn/scaling/factor", NULL},
        {"{'turn':{'a':1,'scaling':{'b':1,'factor':0}}}", NULL, "unknown_field", "/turn/a", NULL},
        {"{'turn':{'scaling':{'b':1,'factor':0}},'c':1}", NULL, "unknown_field", "/turn/scaling/b", NULL},
        {"{'c':1,'turn':3}", NULL, "unknown_field", "/c", NULL},
        {"{'turn':{'theta':5}}", "turn={'theta':6}", "out_of_range", NULL, "query string: turn"},
        {"{}", "turn=x", "wrong_type", NULL, "query string: turn: expected an object, got a string"},
        {"{}", "turn={'scaling':{'factor':0}}", "out_of_range", NULL, "query string: turn.scaling.factor"},
        {"{}", "turn={'theta':1e999}", "out_of_range", NULL, "query string: turn"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        api_error e;
        bool broken;
        const turning t = read_turning(rows[i].document, rows[i].query, &e, &broken);
        const char *code = rows[i].code ? rows[i].code : "";
        CHECK(strcmp(api_codes[e.code].code, code) == 0, "%s: %s %s", rows[i].document, api_codes[e.code].code,
              e.detail);
        CHECK(!rows[i].pointer == !e.has_pointer && (!e.has_pointer || strcmp(e.pointer, rows[i].pointer) == 0),
              "%s: at %s", rows[i].document, e.pointer);
        CHECK(!rows[i].detail || strstr(e.detail, rows[i].detail), "%s: %s", rows[i].document, e.detail);
        const bool only_unknown = strcmp(code, "unknown_field") == 0 && !strstr(rows[i].document, "factor");
        if (!rows[i].code || only_unknown)
            CHECK(broken == (strstr(rows[i].document, ":3") != NULL), "%s", rows[i].document);
        if (rows[i].code && rows[i].pointer && !only_unknown) CHECK(broken, "%s: not broken", rows[i].document);
        if (!rows[i].code && i > 0) CHECK(t.theta == 5, "%s: theta %g", rows[i].document, t.theta);
        if (!rows[i].code && strstr(rows[i].document, "yarn"))
            CHECK(t.factor == 2 && t.type == 1, "%s", rows[i].document);
    }
}

/* ---- /mha ------------------------------------------------------------------------------------------------------- */

static void test_mha_replies(void) {
    expect_reply("/mha", MHA(",'num_heads':2,'return_weights':true"),
                 "{'output':[[0.731059,0.5],[0.5,0.731059]],'weights':[[[0.731059,0.268941],[0.5,0.5]],[[0.5,0.5],[0."
                 "268941,0.731059]]]}");
    expect_reply("/mha", MHA(",'num_heads':2,'return':['weights'],'return_weights':'average'"),
                 "{'weights':[[0.615529,0.384471],[0.384471,0.615529]]}");
    expect_reply("/mha", MHA(",'num_heads':2,'return':['q','k','v','heads'],'w_o':[[1],[1]]"),
                 "{'q':[[[1],[0]],[[0],[1]]],'k':[[[1],[0]],[[0],[1]]],'v':[[[1],[0]],[[0],[1]]],'heads':[[0.731059,0."
                 "5],[0.5,0.731059]]}");
    expect_reply("/mha", MHA(",'num_heads':2,'w_o':[[1],[1]],'b_o':[10],'head_mask':[1,0]"),
                 "{'output':[[10.731059],[10.5]]}");
    expect_reply("/mha",
                 "{'x':[[1,2]],'w_q':[[1,0],[0,1]],'w_k':[[1,0],[0,1]],'w_v':[[1,1],[0,1]],'num_heads':1,'weight_"
                 "layout':'out_in'}",
                 "{'output':[[3,2]]}");
    expect_reply("/mha", "{'x':[[1,2]],'w_qkv':[[0,0,3],[0,0,4]],'b_qkv':[0,0,1],'num_heads':1}", "{'output':[[12]]}");
    expect_reply("/mha",
                 "{'x':[[1,2]],'w_qkv':[[0,0],[0,0],[3,4]],'b_qkv':[0,0,1],'num_heads':1,'weight_layout':'out_in'}",
                 "{'output':[[12]]}");
    expect_reply("/mha",
                 "{'x':[[[1]]],'context':[[[1,1],[2,2]]],'w_q':[[0]],'w_k':[[0],[0]],'w_v':[[1],[0]],'num_heads':1}",
                 "{'output':[[[1.5]]]}");
    expect_reply("/mha",
                 MHA(",'num_heads':1,'past_k':[[[0,0]]],'past_v':[[[9,9]]],'return':['present_v'],'causal':true"),
                 "{'present_v':[[[9,9],[1,0],[0,1]]]}");
}

static void test_mha_errors(void) {
    expect_error("/mha",
                 "{'x':{'shape':[1099511627776,3,0],'data':[]},'w_qkv':{'shape':[0,3],'data':[]},'num_heads':1}", 422,
                 "out_of_range", "/return", "may hold 64.0 MiB (67,108,864 bytes) (--max-memory)");
    expect_error("/mha", MHA(",'num_heads':1,'layout':'bhnd'"), 422, "unknown_field", "/layout", NULL);
    expect_error("/mha", "{}", 422, "missing_field", "", "\"x\"");
    expect_error("/mha", MHA(""), 422, "missing_field", "", "\"num_heads\"");
    expect_error("/mha", "{'x':[[1]],'num_heads':1,'w_q':[[1]],'w_k':[[1]]}", 422, "missing_field", "", "\"w_v\"");
    expect_error("/mha", MHA(",'num_heads':1,'b_o':[1,1]"), 422, "missing_field", "", "\"w_o\"");
    expect_error("/mha", MHA(",'num_heads':1,'b_qkv':[1,1]"), 422, "missing_field", "", "\"w_qkv\"");
    expect_error("/mha", MHA(",'num_heads':1,'w_qkv':[[1,1,1],[1,1,1]]"), 422, "out_of_range", "/w_qkv", NULL);
    expect_error("/mha", MHA(",'num_heads':3"), 422, "out_of_range", "/num_heads", "3");
    expect_error("/mha", MHA(",'num_heads':2,'num_kv_heads':3"), 422, "out_of_range", "/num_kv_heads", "3");
    expect_error("/mha", MHA(",'num_heads':2,'num_kv_heads':1"), 422, "shape_mismatch", "/w_k", "1");
    expect_error("/mha", MHA(",'num_heads':1,'w_o':[[1]]"), 422, "shape_mismatch", "/w_o", "2");
    expect_error("/mha", MHA(",'num_heads':1,'b_q':[1]"), 422, "shape_mismatch", "/b_q", "2");
    expect_error("/mha", MHA(",'num_heads':2,'head_mask':[1]"), 422, "shape_mismatch", "/head_mask", "2");
    expect_error("/mha", MHA(",'num_heads':2,'head_mask':[1,NaN]"), 422, "not_finite", "/head_mask/1", NULL);
    expect_error("/mha", MHA(",'num_heads':1,'return_weights':'both'"), 422, "out_of_range", "/return_weights",
                 "average");
    expect_error("/mha", MHA(",'num_heads':1,'return_weights':1"), 422, "wrong_type", "/return_weights", NULL);
    expect_error("/mha", MHA(",'num_heads':1,'weight_layout':'io'"), 422, "out_of_range", "/weight_layout", "out_in");
    expect_error("/mha", MHA(",'num_heads':1,'context':[[[1,0]]]"), 422, "shape_mismatch", "/context", NULL);
    expect_error("/mha", "{'x':[1],'num_heads':1,'w_qkv':[[1,1,1]]}", 422, "shape_mismatch", "/x", NULL);
    expect_error("/mha", "{'x':[[1]],'num_heads':1,'w_qkv':[[1,1]]}", 422, "out_of_range", "/num_heads", "2");
    expect_error("/mha", "{'x':[[1]],'context':[[1,1]],'num_heads':1,'w_qkv':[[1,1,1]]}", 422, "shape_mismatch",
                 "/context", NULL);
    expect_error("/mha", "{'x':[[1]],'num_heads':1,'w_qkv':[[1,1,1],[1,1,1]]}", 422, "shape_mismatch", "/w_qkv", "2");
    expect_error("/mha", "{'x':[[1]],'num_heads':1,'w_qkv':[1,1,1]}", 422, "shape_mismatch", "/w_qkv", NULL);
    expect_error("/mha", "{'x':[[1]],'num_heads':1,'w_qkv':[[]]}", 422, "out_of_range", "/w_qkv", "d_k");
    expect_error("/mha", "{'x':[[1]],'num_heads':1,'w_qkv':[[1,Infinity,1]]}", 422, "not_finite", "/w_qkv/0/1", NULL);
    expect_error("/mha", "{'x':[[NaN]],'num_heads':1,'w_qkv':[[1,1,1]]}", 422, "not_finite", "/x/0/0", NULL);
}

int main(int argc, char **argv) {
    exchange_init();
    const check_test tests[] = {
        CHECK_TEST(test_mask_and_bias),
        CHECK_TEST(test_blocked_keys_may_hold_anything),
        CHECK_TEST(test_lengths_and_offsets),
        CHECK_TEST(test_scale_and_softcap),
        CHECK_TEST(test_past),
        CHECK_TEST(test_return),
        CHECK_TEST(test_query_options),
        CHECK_TEST(test_query_errors),
        CHECK_TEST(test_queries_of_other_routes),
        CHECK_TEST(test_rows_of_every_schema),
        CHECK_TEST(test_what_queries_hold),
        CHECK_TEST(test_objects),
        CHECK_TEST(test_mha_replies),
        CHECK_TEST(test_mha_errors),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
