/* Documents, tensors and shapes of /attention: each rule of docs/api.md, sections 1 and 2. */
#include <stdio.h>
#include <string.h>

#include "../support/exchange.h"

#define ATTENTION(fields) "{'q':[[1,0],[0,1]],'k':[[1,0],[0,1],[1,1]],'v':[[1],[2],[4]]," fields "}"
#define ZEROS(fields) "{'q':[[0],[0]],'k':[[0],[0]],'v':[[1],[3]]," fields "}"

/* ---- documents -------------------------------------------------------------------------------------------------- */

static void test_documents(void) {
    expect_error("/attention", "", 400, "invalid_json", NULL, "line 1");
    expect_error("/attention", "{'q':[[1,2]", 400, "invalid_json", NULL, "column");
    expect_error("/attention", "[]", 422, "wrong_type", "", "object");
    expect_error("/attention", "3", 422, "wrong_type", "", "object");
    expect_error("/attention", "{}", 422, "missing_field", "", "\"q\"");
    expect_error("/attention", "{'q':null,'k':[[1]],'v':[[1]]}", 422, "missing_field", "", "\"q\"");
    expect_error("/attention", "{'q':[[1]],'k':[[1]]}", 422, "missing_field", "", "\"v\"");
    expect_error("/attention", "{'q':[[1]],'q':[[1]]}", 400, "invalid_json", NULL, "q");
    expect_error("/attention", ATTENTION("'casual':true"), 422, "unknown_field", "/casual", "\"causal\"");
    expect_error("/attention", ATTENTION("'a/b~':null"), 422, "unknown_field", "/a~1b~0", NULL);
    expect_error("/attention", ATTENTION("'num_head':2"), 422, "unknown_field", "/num_head", "\"num_heads\"");
}

/* an unknown field names what is meant by it, and nothing if nothing is near */
static void test_hints(void) {
    static const struct {
        const char *path, *field, *hint; /* hint NULL: there is none */
    } rows[] = {
        {"/attention", "casual", "did you mean \"causal\"?"},
        {"/attention", "CAUSAL", "did you mean \"causal\"?"},
        {"/attention", "num_head", "did you mean \"num_heads\"?"},
        {"/attention", "tokn", "did you mean \"tokens\"?"},
        {"/mha", "w_x", "did you mean \"w_"},
        {"/attention", "w_q", "/mha has it"},
        {"/mha", "layout", "/attention has it"},
        {"/attention", "attn_mask", "\"mask\": true or 1 means that the query may attend to the key"},
        {"/attention", "key_padding_mask", "\"key_mask\": true or 1 means that the query may attend to the key"},
        {"/mha", "attention_mask", "\"key_mask\": true or 1 means that the query may attend to the key"},
        {"/attention", "attn_mask", "\"bias\""},
        {"/attention", "is_causal", "\"causal\""},
        {"/attention", "left_window_size", "\"window\""},
        {"/attention", "softmax_precision", "\"dtype\""},
        {"/attention", "kv_cache", "\"past_k\": with \"past_v\""},
        {"/attention", "position_ids", "\"positions\""},
        {"/attention", "s_aux", "\"sinks\""},
        {"/mha", "embed_dim", "the shape of \"x\""},
        {"/mha", "out_proj", "\"w_o\""},
        {"/mha", "w_out", "\"w_o\""},
        {"/mha", "c_attn", "\"w_qkv\""},
        {"/mha", "memory", "\"context\""},
        {"/mha", "weight_q", "\"w_q\""},
        {"/mha", "bias_q", "\"b_q\""},
        {"/attention", "n_head", "\"num_heads\""},
        {"/mha", "n_heads", "\"num_heads\""},
        {"/mha", "num_attention_heads", "\"num_heads\""},
        {"/mha", "head_count", "\"num_heads\""},
        {"/mha", "num_key_value_heads", "\"num_kv_heads\""},
        {"/attention", "query", "\"q\""},
        {"/mha", "query", "\"x\""},
        {"/attention", "Key", "\"k\""},
        {"/attention", "value", "\"v\""},
        {"/attention", "values", "\"v\""},
        {"/attention", "past_key", "\"past_k\""},
        {"/attention", "past_value", "\"past_v\""},
        {"/attention", "logit_softcapping", "\"softcap\""},
        {"/attention", "sliding_window", "\"window\""},
        {"/attention", "softmax_scale", "\"scale\""},
        {"/attention", "temperature", "1/temperature"},
        {"/attention", "need_weights", "\"return_weights\""},
        {"/mha", "average_attn_weights", "\"average\""},
        {"/mha", "in_proj_weight", "out_in"},
        {"/attention", "dropout", "no dropout at inference"},
        {"/attention", "dropout_p", "no dropout at inference"},
        {"/attention", "in_proj_weight", NULL},
        {"/attention", "graph", NULL},
        {"/attention", "foo", NULL},
        {"/attention", "", NULL},
        {"/attention", "model", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[200];
        snprintf(body, sizeof body, "{'%s':1,'q':[[1]],'k':[[1]],'v':[[1]]}", rows[i].field);
        exchange e = exchange_send("POST", rows[i].path, (exchange_headers){{NULL}}, body);
        const char *detail = exchange_member(&e, "detail");
        CHECK(strcmp(exchange_member(&e, "code"), "unknown_field") == 0 && exchange_member(&e, "pointer")[0] == '/' &&
                  strcmp(exchange_member(&e, "pointer") + 1, rows[i].field) == 0,
              "%s", e.body);
        if (rows[i].hint)
            CHECK(strstr(detail, rows[i].hint), "%s: %s", rows[i].field, detail);
        else
            CHECK(detail[strlen(detail) - 1] == '"' && !strchr(detail, '?') && !strchr(detail, ';'), "%s: %s",
                  rows[i].field, detail);
        exchange_free(&e);
    }
}

static void test_the_first_error_counts(void) {
    expect_error("/attention", "{'typo':1,'q':[[1,2],[3]],'k':3}", 422, "unknown_field", "/typo", NULL);
    expect_error("/attention", "{'q':[[1,2],[3]],'typo':1,'k':3}", 422, "ragged", "/q/1", NULL);
    expect_error("/attention", "{'k':3,'q':[[1,2],[3]]}", 422, "wrong_type", "/k", NULL);
    expect_error("/attention", "{'k':3,'q':[[1,2],[3]],}", 400, "invalid_json", NULL, NULL);
    expect_error("/attention", "{'mask':[[1,1]],'typo':1,'q':[[0],[0]],'k':[[0],[0],[0]],'v':[[1],[3],[4]]}", 422,
                 "shape_mismatch", "/mask", NULL);
    expect_error("/attention", "{'k':[[0],[NaN]],'typo':1,'q':[[0]],'v':[[1],[2]]}", 422, "not_finite", "/k/1/0", NULL);
    expect_error("/attention", "{'k':[[0],[NaN]],'q':[[0]],'v':7}", 422, "not_finite", "/k/1/0", NULL);
    expect_error("/attention", "{'v':[[1],[2]],'mask':[2,0],'q':[[0]],'k':[[0],[NaN]]}", 422, "out_of_range", "/mask/0",
                 "bias");
}

static void test_tensor_spellings(void) {
    const char *reply = "{'output':[[2],[2]]}";
    expect_reply("/attention", ZEROS("'scale':1"), reply);
    expect_reply("/attention",
                 "{'q':{'data':[0,0],'shape':[2,1]},'k':{'shape':[2,1],'data':[0,0],'dtype':'F16'},'v':[[1],[3]]}",
                 reply);
    expect_reply("/attention",
                 "{'q':[[0],[0]],'k':[[0],[0]],'v':{'base64':'AACAPwAAQEA=','shape':[2,1],'dtype':'F32'}}", reply);
    expect_reply("/attention",
                 "{'q':[[0],[0]],'k':[[0],[0]],'v':{'data':null,'base64':'AACAPwAAQEA=','shape':[2,1],'dtype':'F32'}}",
                 reply);
#define V(v) "{'q':[[0],[0]],'k':[[0],[0]],'v':" v "}"
    expect_error("/attention", V("{}"), 422, "missing_field", "/v", "shape");
    expect_error("/attention", V("{'shape':[2,1]}"), 422, "missing_field", "/v", "data");
    expect_error("/attention", V("{'data':[1,3]}"), 422, "missing_field", "/v", "shape");
    expect_error("/attention", V("{'shape':[2,1],'base64':'AACAPwAAQEA='}"), 422, "missing_field", "/v", "dtype");
    expect_error("/attention", V("{'shape':[2,1],'data':[1,3],'dtype':'F32','base64':'AACAPwAAQEA='}"), 422,
                 "out_of_range", "/v/base64", "both");
    expect_error("/attention", V("{'shape':[2,1],'data':[1,3],'foo':1}"), 422, "unknown_field", "/v/foo", NULL);
    expect_error("/attention", V("{'shape':[2,1],'datas':[1,3]}"), 422, "unknown_field", "/v/datas", "\"data\"");
    expect_error("/attention", V("{'shape':[2,1],'data':[1,3],'dtype':'F31'}"), 422, "out_of_range", "/v/dtype", "F32");
    expect_error("/attention", V("{'shape':[2,1],'data':[1,3],'dtype':'I32'}"), 422, "out_of_range", "/v/dtype", NULL);
    expect_error("/attention", V("{'shape':[2,1],'data':[1,3],'dtype':7}"), 422, "wrong_type", "/v/dtype", NULL);
    expect_error("/attention", V("{'shape':[2,2],'data':[1,3]}"), 422, "shape_mismatch", "/v/data", "4");
    expect_error("/attention", V("{'shape':[-2,1],'data':[1,3]}"), 422, "out_of_range", "/v/shape/0", "-2");
    expect_error("/attention", V("{'shape':[2,1.5],'data':[1,3]}"), 422, "wrong_type", "/v/shape/1", NULL);
    expect_error("/attention", V("{'shape':2,'data':[1,3]}"), 422, "wrong_type", "/v/shape", NULL);
    expect_error("/attention", V("{'shape':['2',1],'data':[1,3]}"), 422, "wrong_type", "/v/shape/0", NULL);
    expect_error("/attention", V("{'shape':[9007199254740992,9007199254740992],'data':[]}"), 422, "out_of_range",
                 "/v/shape", NULL);
    expect_error("/attention", V("{'shape':[2,1],'data':[[1],[3]]}"), 422, "wrong_type", "/v/data", NULL);
    expect_error("/attention", V("{'shape':[2,1],'data':'abc'}"), 422, "wrong_type", "/v/data", NULL);
    expect_error("/attention", V("{'shape':[2,1],'dtype':'F32','base64':[1]}"), 422, "wrong_type", "/v/base64", NULL);
    expect_error("/attention", V("{'shape':[2,1],'dtype':'F32','base64':'AACAPw=='}"), 422, "shape_mismatch",
                 "/v/base64", "8");
    expect_error("/attention", V("{'shape':[2,1],'dtype':'F32','base64':'AA*APwAAQEA='}"), 422, "wrong_type",
                 "/v/base64", NULL);
    expect_error("/attention", V("'text'"), 422, "wrong_type", "/v", NULL);
    expect_error("/attention", V("[['1'],[3]]"), 422, "wrong_type", "/v/0/0", NULL);
    expect_error("/attention", V("[[1],['3']]"), 422, "wrong_type", "/v/1/0", NULL);
    expect_error("/attention", V("[[true],[false]]"), 422, "wrong_type", "/v/0/0", NULL);
    expect_error("/attention", V("[[1],[null]]"), 422, "wrong_type", "/v/1/0", NULL);
    expect_error("/attention", V("[[[[[1]]]]]"), 422, "too_deep", "/v", NULL);
    expect_error("/attention", V("[1,2]"), 422, "shape_mismatch", "/v", NULL);
}

static void test_numbers(void) {
    expect_error("/attention", V("[[1],[1e39]]"), 422, "out_of_range", "/v/1/0", NULL);
    expect_error("/attention", V("[[1],[-Infinity]]"), 422, "not_finite", "/v/1/0", NULL);
    expect_error("/attention", V("{'shape':[2,1],'data':[1,NaN]}"), 422, "not_finite", "/v/data/1", NULL);
    expect_error("/attention", V("{'shape':[2,1],'dtype':'F32','base64':'AACAPwAAgH8='}"), 422, "not_finite",
                 "/v/base64", NULL);
    expect_error("/attention", "{'q':[[0],[NaN]],'k':[[0]],'v':[[1]],'mask':[false]}", 422, "not_finite", "/q/1/0",
                 NULL);
    expect_reply("/attention", "{'dtype':'float64','q':[[0]],'k':[[0]],'v':[[1e39]]}", "{'output':[[1e39]]}");
    expect_error("/attention", "{'q':[[0]],'k':[[0]],'v':[[1]],'scale':1e39}", 422, "out_of_range", "/scale", NULL);
    expect_error("/attention", "{'q':[[0]],'k':[[0]],'v':[[1]],'scale':NaN}", 422, "not_finite", "/scale", NULL);
    expect_error("/attention", "{'q':[[3e38]],'k':[[3e38]],'v':[[1]],'return':['scores']}", 422, "overflow", NULL,
                 "float64");
}

static void test_shapes(void) {
    expect_error("/attention", "{'q':[1],'k':[[1]],'v':[[1]]}", 422, "shape_mismatch", "/q", NULL);
    expect_error("/attention", "{'q':[[1]],'k':[],'v':[]}", 422, "shape_mismatch", "/k", NULL);
    expect_error("/attention", "{'q':[[1,2]],'k':[[1,2,3]],'v':[[1]]}", 422, "shape_mismatch", "/k", "3");
    expect_error("/attention", "{'q':[[1,2]],'k':[[1,2]],'v':[[1],[2]]}", 422, "shape_mismatch", "/v", "2");
    expect_error("/attention", "{'q':[[[1]]],'k':[[[1]],[[1]]],'v':[[[1]]]}", 422, "shape_mismatch", "/k", NULL);
    expect_error("/attention", "{'q':[[],[]],'k':[[],[]],'v':[[1],[2]]}", 422, "out_of_range", "/q", "d_k");
    expect_error("/attention", "{'q':[[[[1]],[[1]],[[1]]]],'k':[[[[1]],[[1]]]],'v':[[[[1]],[[1]]]]}", 422,
                 "out_of_range", "/k", "3");
    expect_error("/attention", "{'q':[[[[1]],[[1]]]],'k':[[[[1]],[[1]]]],'v':[[[[1]]]]}", 422, "shape_mismatch", "/v",
                 NULL);
    expect_reply("/attention", "{'q':{'shape':[0,2],'data':[]},'k':[[1,0]],'v':[[1]]}", "{'output':[]}");
    expect_reply(
        "/attention",
        "{'q':[[1]],'k':{'shape':[0,1],'data':[]},'v':{'shape':[0,2],'data':[]},'return':['output','lse','weights']}",
        "{'output':[[0,0]],'lse':[null],'weights':[[]]}");
    expect_reply("/attention", "{'q':[[1]],'k':[[1]],'v':[[]]}", "{'output':[[]]}");
    expect_reply(
        "/attention",
        "{'q':{'shape':[2,0,3,1],'data':[]},'k':{'shape':[2,0,3,1],'data':[]},'v':{'shape':[2,0,3,1],'data':[]},"
        "'return':['output','weights','present_k','lse']}",
        "{'output':[[],[]],'weights':[[],[]],'lse':[[],[]],'present_k':[[],[]]}");
    expect_reply(
        "/attention",
        "{'format':'flat','q':{'shape':[1099511627776,0,1],'data':[]},'k':{'shape':[1099511627776,0,1],'data':[]},"
        "'v':{'shape':[1099511627776,0,1],'data':[]},'causal':true,'query_offset':'end'}",
        "{'output':{'shape':[1099511627776,0,1],'data':[]}}");
}

static void test_heads(void) {
    expect_reply("/attention",
                 "{'q':[[0,0,0,0]],'k':[[0,0]],'v':[[5,7]],'num_heads':4,'num_kv_heads':2,'return_weights':true}",
                 "{'output':[[5,5,7,7]],'weights':[[[1]],[[1]],[[1]],[[1]]]}");
    expect_reply("/attention", "{'q':[[0,0]],'k':[[0,0]],'v':[[5,7]],'num_heads':2,'return':['present_v','lse']}",
                 "{'lse':[[0],[0]],'present_v':[[[5]],[[7]]]}");
    expect_reply("/attention",
                 "{'layout':'bnhd','q':[[[[0],[0]]]],'k':[[[[0],[0]],[[0],[0]]]],'v':[[[[1],[2]],[[3],[4]]]]}",
                 "{'output':[[[[2],[3]]]]}");
    expect_error("/attention", "{'q':[[0,0,0]],'k':[[0,0]],'v':[[5,7]],'num_heads':2}", 422, "out_of_range",
                 "/num_heads", "3");
    expect_error("/attention", "{'q':[[0,0]],'k':[[0,0]],'v':[[5,7]],'num_heads':0}", 422, "out_of_range", "/num_heads",
                 "0");
    expect_error("/attention", "{'q':[[0,0]],'k':[[0,0]],'v':[[5,7]],'num_heads':1.5}", 422, "wrong_type", "/num_heads",
                 NULL);
    expect_error("/attention", "{'q':[[0,0,0]],'k':[[0,0]],'v':[[5,7]],'num_heads':3,'num_kv_heads':2}", 422,
                 "out_of_range", "/num_kv_heads", NULL);
    expect_error("/attention", "{'q':[[0,0]],'k':[[0,0]],'v':[[5,7]],'num_kv_heads':2}", 422, "missing_field", "",
                 "num_heads");
    expect_error("/attention", "{'q':[[[[0]]]],'k':[[[[0]]]],'v':[[[[5]]]],'num_heads':1}", 422, "shape_mismatch",
                 "/num_heads", NULL);
    expect_error("/attention", "{'q':[[0]],'k':[[0]],'v':[[5]],'layout':'bhnd'}", 422, "shape_mismatch", "/layout",
                 NULL);
    expect_error("/attention", "{'q':[[0]],'k':[[0]],'v':[[5]],'layout':'nbhd'}", 422, "out_of_range", "/layout",
                 "bnhd");
    expect_error("/attention", "{'q':[[0,0]],'k':[[0,0,0,0]],'v':[[5,7]],'num_heads':2}", 422, "shape_mismatch", "/k",
                 "2");
}

int main(int argc, char **argv) {
    exchange_init();
    const check_test tests[] = {
        CHECK_TEST(test_documents),
        CHECK_TEST(test_hints),
        CHECK_TEST(test_the_first_error_counts),
        CHECK_TEST(test_tensor_spellings),
        CHECK_TEST(test_numbers),
        CHECK_TEST(test_shapes),
        CHECK_TEST(test_heads),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
