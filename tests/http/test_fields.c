/* test_fields.c: changing a request field changes the answer by the predicted amount. Predictions are closed forms on
 * problems of one or two keys: with keys scored a and b, the weight of the second is 1 / (1 + exp(a - b)). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

typedef struct field_row {
    const char *field, *body, *path; /* path of a number in the reply */
    double expected;
} field_row;

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static void check_rows(const char *endpoint, const field_row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const bool wide = strstr(rows[i].body, "float64") != NULL;
        http_reply reply = http_post(endpoint, rows[i].body);
        const double got = reply_number(&reply, rows[i].path), want = rows[i].expected;
        CHECK(reply.status == 200 && (got == want || fabs(got - want) <= (wide ? 1e-14 : 1e-6) * fmax(1, fabs(want))),
              "%s: %s = %.17g, expected %.17g: %s -> %.300s", rows[i].field, rows[i].path, got, want, rows[i].body,
              reply.body);
        http_free(&reply);
    }
}

/* One query 2, keys 0 and 1, values 0 and 1: scores 0 and 2, output logistic(2). */
#define Q "{\"q\":[[2]]"
#define K ",\"k\":[[0],[1]]"
#define V ",\"v\":[[0],[1]]"

static void test_tensors_of_attention(void) {
    const field_row rows[] = {
        {"base", Q K V "}", "output/0/0", logistic(2)},
        {"q", "{\"q\":[[3]]" K V "}", "output/0/0", logistic(3)},
        {"k", Q ",\"k\":[[0],[2]]" V "}", "output/0/0", logistic(4)},
        {"v", Q K ",\"v\":[[0],[5]]}", "output/0/0", 5 * logistic(2)},
        {"v, wider than k", Q K ",\"v\":[[0,1],[5,1]]}", "output/0/1", 1},
        {"past_k, past_v", Q K V ",\"past_k\":[[0]],\"past_v\":[[7]]}", "output/0/0", (7 + exp(2)) / (2 + exp(2))},
        {"past_k", Q K V ",\"past_k\":[[1]],\"past_v\":[[7]]}", "output/0/0", 8 * exp(2) / (1 + 2 * exp(2))},
        {"past_v", Q K V ",\"past_k\":[[0]],\"past_v\":[[0]]}", "output/0/0", exp(2) / (2 + exp(2))},
    };
    check_rows("/attention", rows, sizeof rows / sizeof *rows);
}

static void test_scores_of_attention(void) {
    const field_row rows[] = {
        {"scale", Q K V ",\"scale\":0.5}", "output/0/0", logistic(1)},
        {"scale 0", Q K V ",\"scale\":0}", "output/0/0", 0.5},
        {"scale below 0", Q K V ",\"scale\":-1}", "output/0/0", logistic(-2)},
        {"scale, default", "{\"q\":[[1,1,1,1]],\"k\":[[0,0,0,0],[1,1,1,1]]" V "}", "output/0/0", logistic(2)},
        {"scale 1/sqrt(d_k)", "{\"scale\":\"1/sqrt(d_k)\",\"q\":[[1,1,1,1]],\"k\":[[0,0,0,0],[1,1,1,1]]" V "}",
         "output/0/0", logistic(2)},
        {"scale 1/d_k", "{\"scale\":\"1/d_k\",\"q\":[[1,1,1,1]],\"k\":[[0,0,0,0],[1,1,1,1]]" V "}", "output/0/0",
         logistic(1)},
        {"scale 1", "{\"scale\":\"1\",\"q\":[[1,1,1,1]],\"k\":[[0,0,0,0],[1,1,1,1]]" V "}", "output/0/0", logistic(4)},
        {"softcap", Q K V ",\"softcap\":1}", "output/0/0", logistic(tanh(2))},
        {"softcap 3", Q K V ",\"softcap\":3}", "output/0/0", logistic(3 * tanh(2.0 / 3))},
        {"softcap off", Q K V ",\"softcap\":0}", "output/0/0", logistic(2)},
        {"softcap before bias", Q K V ",\"softcap\":1,\"bias\":[[0,1]]}", "output/0/0", logistic(tanh(2) + 1)},
        {"mask", Q K V ",\"mask\":[[true,false]]}", "output/0/0", 0},
        {"mask of numbers", Q K V ",\"mask\":[[0,1]]}", "output/0/0", 1},
        {"mask, broadcast", "{\"q\":[[2],[2]]" K V ",\"mask\":[[false],[true]]}", "output/0/0", 0},
        {"bias", Q K V ",\"bias\":[[0,1]]}", "output/0/0", logistic(3)},
        {"bias that blocks", Q K V ",\"bias\":[[0,-Infinity]]}", "output/0/0", 0},
        {"bias, rank 1", Q K V ",\"bias\":[1,0]}", "output/0/0", logistic(1)},
        {"kv_lengths", Q K V ",\"kv_lengths\":[1]}", "output/0/0", 0},
        {"kv_lengths 0", Q K V ",\"kv_lengths\":[0]}", "output/0/0", 0},
        {"causal", Q K V ",\"causal\":true}", "output/0/0", 0},
        {"causal off", Q K V ",\"causal\":false}", "output/0/0", logistic(2)},
        {"query_offset", Q K V ",\"causal\":true,\"query_offset\":1}", "output/0/0", logistic(2)},
        {"query_offset, a list", Q K V ",\"causal\":true,\"query_offset\":[1]}", "output/0/0", logistic(2)},
        {"query_offset end", Q K V ",\"causal\":true,\"query_offset\":\"end\"}", "output/0/0", logistic(2)},
        {"query_offset end of kv_lengths", Q K V ",\"causal\":true,\"query_offset\":\"end\",\"kv_lengths\":[1]}",
         "output/0/0", 0},
        {"query_offset below 0", Q K ",\"v\":[[3],[4]],\"causal\":true,\"query_offset\":-1}", "output/0/0", 0},
        {"query_offset defaults to the past", Q K V ",\"causal\":true,\"past_k\":[[0]],\"past_v\":[[7]]}", "output/0/0",
         3.5},
        {"window", Q K V ",\"window\":[0,0]}", "output/0/0", 0},
        {"window, left", Q K V ",\"window\":[0,-1],\"query_offset\":1}", "output/0/0", 1},
        {"window, right", Q K V ",\"window\":[-1,1]}", "output/0/0", logistic(2)},
        {"window, open", Q K V ",\"window\":[-1,-1]}", "output/0/0", logistic(2)},
    };
    check_rows("/attention", rows, sizeof rows / sizeof *rows);
}

static void test_heads_and_layout_of_attention(void) {
#define SQUARE "\"q\":[[[[1],[2]],[[3],[4]]]],\"k\":[[[[0],[5]],[[1],[7]]]],\"v\":[[[[0],[10]],[[1],[20]]]]}"
    const field_row rows[] = {
        {"no heads", "{\"q\":[[1,2]],\"k\":[[0,0],[1,1]],\"v\":[[0,0],[1,1]]}", "output/0/0", logistic(3 / sqrt(2))},
        {"num_heads", "{\"num_heads\":2,\"q\":[[1,2]],\"k\":[[0,0],[1,1]],\"v\":[[0,0],[1,1]]}", "output/0/0",
         logistic(1)},
        {"num_heads", "{\"num_heads\":2,\"q\":[[1,2]],\"k\":[[0,0],[1,1]],\"v\":[[0,0],[1,1]]}", "output/0/1",
         logistic(2)},
        {"num_kv_heads", "{\"num_heads\":2,\"num_kv_heads\":1,\"q\":[[1,2]]" K V "}", "output/0/1", logistic(2)},
        {"num_heads, shape", "{\"num_heads\":1,\"return\":[\"lse\"],\"q\":[[0]]" K V "}", "lse/0/0", log(2)},
        {"no num_heads, shape", "{\"return\":[\"lse\"],\"q\":[[0]]" K V "}", "lse/0", log(2)},
        /* bhnd: head 0 has queries 1 2, keys 0 5, values 0 10; bnhd: queries 1 3, keys 0 1, values 0 1 */
        {"layout, default", "{" SQUARE, "output/0/0/1/0", 10 * logistic(10)},
        {"layout bhnd", "{\"layout\":\"bhnd\"," SQUARE, "output/0/0/0/0", 10 * logistic(5)},
        {"layout bnhd", "{\"layout\":\"bnhd\"," SQUARE, "output/0/0/0/0", logistic(1)},
        {"layout bnhd", "{\"layout\":\"bnhd\"," SQUARE, "output/0/1/0/0", logistic(3)},
        {"layout bnhd, head 1", "{\"layout\":\"bnhd\"," SQUARE, "output/0/0/1/0", 10 + 10 * logistic(4)},
        {"grouped heads",
         "{\"q\":[[[[1]],[[2]],[[1]],[[2]]]],\"k\":[[[[0],[1]],[[0],[3]]]],\"v\":[[[[0],[1]],[[0],[1]]]]}",
         "output/0/2/0/0", logistic(3)},
        {"grouped heads",
         "{\"q\":[[[[1]],[[2]],[[1]],[[2]]]],\"k\":[[[[0],[1]],[[0],[3]]]],\"v\":[[[[0],[1]],[[0],[1]]]]}",
         "output/0/1/0/0", logistic(2)},
        {"batch", "{\"q\":[[[1]],[[2]]],\"k\":[[[0],[1]],[[0],[2]]],\"v\":[[[0],[1]],[[0],[1]]]}", "output/1/0/0",
         logistic(4)},
        {"kv_lengths of a batch",
         "{\"kv_lengths\":[2,1],\"q\":[[[1]],[[2]]],\"k\":[[[0],[1]],[[0],[2]]],\"v\":[[[0],[1]],[[3],[1]]]}",
         "output/1/0/0", 3},
        {"query_offset of a batch",
         "{\"causal\":true,\"query_offset\":[0,1],\"q\":[[[1]],[[2]]],\"k\":[[[0],[1]],[[0],[2]]],\"v\":[[[7],[1]],[[0]"
         ",[1]]]}",
         "output/0/0/0", 7},
    };
#undef SQUARE
    check_rows("/attention", rows, sizeof rows / sizeof *rows);
}

static void test_what_attention_returns(void) {
    const double capped = 2 * tanh(0.5);
    const field_row rows[] = {
        {"scores", Q K V ",\"scale\":0.5,\"return\":[\"scores\"]}", "scores/0/1", 2},
        {"scaled", Q K V ",\"scale\":0.5,\"return\":[\"scaled\"]}", "scaled/0/1", 1},
        {"capped", Q K V ",\"scale\":0.5,\"softcap\":2,\"return\":[\"capped\"]}", "capped/0/1", capped},
        {"capped without softcap", Q K V ",\"scale\":0.5,\"return\":[\"capped\"]}", "capped/0/1", 1},
        {"masked", Q K V ",\"bias\":[[0,3]],\"return\":[\"masked\"]}", "masked/0/1", 5},
        {"masked, blocked", Q K V ",\"mask\":[[0,1]],\"return\":[\"masked\"]}", "masked/0/0", -INFINITY},
        {"weights", Q K V ",\"return\":[\"weights\"]}", "weights/0/0", logistic(-2)},
        {"return_weights", Q K V ",\"return_weights\":true}", "weights/0/1", logistic(2)},
        {"lse", Q K V ",\"return\":[\"lse\"]}", "lse/0", log(1 + exp(2))},
        {"lse, nothing to attend", Q K V ",\"mask\":[[0,0]],\"return\":[\"lse\"]}", "lse/0", -INFINITY},
        {"present_k", Q K V ",\"past_k\":[[5]],\"past_v\":[[9]],\"return\":[\"present_k\"]}", "present_k/0/0", 5},
        {"present_v", Q K V ",\"past_k\":[[5]],\"past_v\":[[9]],\"return\":[\"present_v\"]}", "present_v/2/0", 1},
        {"present_k without a past", Q K V ",\"return\":[\"present_k\"]}", "present_k/1/0", 1},
        {"trace", Q K V ",\"trace\":true}", "scaled/0/1", 2},
        {"trace adds up", Q K V ",\"trace\":true,\"return\":[\"present_k\"]}", "present_k/1/0", 1},
        {"format flat", Q K V ",\"format\":\"flat\"}", "output/data/0", logistic(2)},
        {"format flat", Q K V ",\"format\":\"flat\"}", "output/shape/1", 1},
        {"dtype", Q K V ",\"dtype\":\"float64\"}", "output/0/0", logistic(2)},
        {"dtype", "{\"q\":[[0]],\"k\":[[0]],\"v\":[[16777217]],\"dtype\":\"float64\"}", "output/0/0", 16777217},
        {"dtype, default", "{\"q\":[[0]],\"k\":[[0]],\"v\":[[16777217]]}", "output/0/0", 16777216},
        {"tokens", Q K V ",\"tokens\":[\"a\"],\"key_tokens\":[\"a\",\"b\"]}", "output/0/0", logistic(2)},
    };
    check_rows("/attention", rows, sizeof rows / sizeof *rows);
}

/* x = 0 and 1, all weights 1: row 1 has scores 0 and 1, and values 0 and 1: output logistic(1). */
#define X "{\"num_heads\":1,\"x\":[[0],[1]]"
#define WQ ",\"w_q\":[[1]]"
#define WK ",\"w_k\":[[1]]"
#define WV ",\"w_v\":[[1]]"
#define W WQ WK WV

static void test_tensors_of_mha(void) {
    const field_row rows[] = {
        {"base", X W "}", "output/1/0", logistic(1)},
        {"x", "{\"num_heads\":1,\"x\":[[0],[2]]" W "}", "output/1/0", 2 * logistic(4)},
        {"w_q", X ",\"w_q\":[[2]]" WK WV "}", "output/1/0", logistic(2)},
        {"w_k", X WQ ",\"w_k\":[[3]]" WV "}", "output/1/0", logistic(3)},
        {"w_v", X WQ WK ",\"w_v\":[[4]]}", "output/1/0", 4 * logistic(1)},
        {"w_o", X W ",\"w_o\":[[5]]}", "output/1/0", 5 * logistic(1)},
        {"w_o, wider", X W ",\"w_o\":[[5,6]]}", "output/1/1", 6 * logistic(1)},
        {"b_q", X W ",\"b_q\":[0.5]}", "output/1/0", logistic(1.5)},
        {"b_k", X W ",\"b_k\":[0.5],\"return\":[\"scores\"]}", "scores/0/1/0", 0.5},
        {"b_k", X W ",\"b_k\":[0.5]}", "output/1/0", logistic(1)},
        {"b_v", X W ",\"b_v\":[2]}", "output/1/0", logistic(1) + 2},
        {"b_o", X W ",\"w_o\":[[5]],\"b_o\":[7]}", "output/1/0", 5 * logistic(1) + 7},
        {"w_qkv", X ",\"w_qkv\":[[2,3,4]]}", "output/1/0", 4 * logistic(6)},
        {"b_qkv", X ",\"w_qkv\":[[1,1,1]],\"b_qkv\":[0.5,0,2]}", "output/1/0", logistic(1.5) + 2},
        {"context", X W ",\"context\":[[0],[2]]}", "output/1/0", 2 * logistic(2)},
        {"context of another width", X ",\"context\":[[0,0],[1,2]]" WQ ",\"w_k\":[[1],[1]],\"w_v\":[[1],[0]]}",
         "output/1/0", logistic(3)},
        {"past_k, past_v", X W ",\"past_k\":[[[0]]],\"past_v\":[[[7]]]}", "output/1/0", (7 + exp(1)) / (2 + exp(1))},
        {"head_mask", X W ",\"head_mask\":[0.5]}", "output/1/0", 0.5 * logistic(1)},
        {"weight_layout in_out",
         "{\"num_heads\":1,\"x\":[[1,0]],\"w_q\":[[1],[0]],\"w_k\":[[1],[0]],\"w_v\":[[3,4],[5,6]]}", "output/0/1", 4},
        {"weight_layout out_in",
         "{\"num_heads\":1,\"x\":[[1,0]],\"w_q\":[[1,0]],\"w_k\":[[1,0]],\"w_v\":[[3,4],[5,6]],\"weight_layout\":\"out_"
         "in\"}",
         "output/0/1", 5},
    };
    check_rows("/mha", rows, sizeof rows / sizeof *rows);
}

static void test_heads_of_mha(void) {
#define TWO "{\"num_heads\":2,\"x\":[[0],[1]],\"w_q\":[[1,2]]"
    const field_row rows[] = {
        {"num_heads 1", "{\"num_heads\":1,\"x\":[[0],[1]],\"w_q\":[[1,2]],\"w_k\":[[1,1]],\"w_v\":[[1,1]]}",
         "output/1/0", logistic(3 / sqrt(2))},
        {"num_heads 2", TWO ",\"w_k\":[[1,1]],\"w_v\":[[1,1]]}", "output/1/0", logistic(1)},
        {"num_heads 2", TWO ",\"w_k\":[[1,1]],\"w_v\":[[1,1]]}", "output/1/1", logistic(2)},
        {"num_kv_heads", TWO ",\"num_kv_heads\":1" WK WV "}", "output/1/1", logistic(2)},
        {"head_mask prunes", TWO ",\"num_kv_heads\":1,\"head_mask\":[1,0],\"w_o\":[[1],[100]]" WK WV "}", "output/1/0",
         logistic(1)},
        {"w_o joins the heads", TWO ",\"num_kv_heads\":1,\"w_o\":[[1],[100]]" WK WV "}", "output/1/0",
         logistic(1) + 100 * logistic(2)},
        {"return_weights", TWO ",\"num_kv_heads\":1,\"return_weights\":true" WK WV "}", "weights/1/1/1", logistic(2)},
        {"return_weights per_head", TWO ",\"num_kv_heads\":1,\"return_weights\":\"per_head\"" WK WV "}",
         "weights/0/1/1", logistic(1)},
        {"return_weights average", TWO ",\"num_kv_heads\":1,\"return_weights\":\"average\"" WK WV "}", "weights/1/1",
         (logistic(1) + logistic(2)) / 2},
        {"average in return",
         TWO ",\"num_kv_heads\":1,\"return\":[\"weights\"],\"return_weights\":\"average\"" WK WV "}", "weights/1/1",
         (logistic(1) + logistic(2)) / 2},
        {"heads", TWO ",\"num_kv_heads\":1,\"head_mask\":[1,0.5],\"return\":[\"heads\"],\"w_o\":[[1],[1]]" WK WV "}",
         "heads/1/1", logistic(2) / 2},
        {"q", TWO ",\"num_kv_heads\":1,\"return\":[\"q\"]" WK WV "}", "q/1/1/0", 2},
        {"k", TWO ",\"num_kv_heads\":1,\"return\":[\"k\"],\"b_k\":[3]" WK WV "}", "k/0/1/0", 4},
        {"v", TWO ",\"num_kv_heads\":1,\"return\":[\"v\"],\"b_v\":[3]" WK WV "}", "v/0/0/0", 3},
        {"batch", "{\"num_heads\":1,\"x\":[[[0],[1]],[[0],[2]]]" W "}", "output/1/1/0", 2 * logistic(4)},
    };
#undef TWO
    check_rows("/mha", rows, sizeof rows / sizeof *rows);
}

static void test_options_of_mha(void) {
    const field_row rows[] = {
        {"scale", X W ",\"scale\":3}", "output/1/0", logistic(3)},
        {"scale 1/d_k", "{\"num_heads\":1,\"scale\":\"1/d_k\",\"x\":[[0],[1]],\"w_q\":[[1,1]],\"w_k\":[[1,1]]" WV "}",
         "output/1/0", logistic(1)},
        {"softcap", X W ",\"softcap\":0.5}", "output/1/0", logistic(0.5 * tanh(2))},
        {"mask", X W ",\"mask\":[[1,1],[0,1]]}", "output/1/0", 1},
        {"bias", X W ",\"bias\":[[0,0],[0,2]]}", "output/1/0", logistic(3)},
        {"kv_lengths", X W ",\"kv_lengths\":[1]}", "output/1/0", 0},
        {"causal", X W ",\"causal\":true}", "output/0/0", 0},
        {"not causal", X W "}", "output/0/0", 0.5},
        {"query_offset", X W ",\"causal\":true,\"query_offset\":-1}", "output/1/0", 0},
        {"query_offset end", X W ",\"context\":[[0],[1],[1]],\"causal\":true,\"query_offset\":\"end\"}", "output/0/0",
         0.5},
        {"window", X W ",\"window\":[0,0]}", "output/1/0", 1},
        {"return", X W ",\"return\":[\"lse\"]}", "lse/0/1", log(1 + exp(1))},
        {"masked", X W ",\"causal\":true,\"return\":[\"masked\"]}", "masked/0/0/1", -INFINITY},
        {"capped", X W ",\"softcap\":0.5,\"return\":[\"capped\"]}", "capped/0/1/1", 0.5 * tanh(2)},
        {"present_k", X W ",\"past_k\":[[[5]]],\"past_v\":[[[7]]],\"return\":[\"present_k\"]}", "present_k/0/0/0", 5},
        {"present_v", X W ",\"past_k\":[[[5]]],\"past_v\":[[[7]]],\"return\":[\"present_v\"]}", "present_v/0/2/0", 1},
        {"trace", X W ",\"trace\":true}", "heads/1/0", logistic(1)},
        {"trace", X W ",\"trace\":true}", "q/0/1/0", 1},
        {"dtype", X W ",\"dtype\":\"float64\"}", "output/1/0", logistic(1)},
        {"format", X W ",\"format\":\"flat\"}", "output/data/1", logistic(1)},
        {"tokens", X W ",\"tokens\":[\"a\",\"b\"],\"key_tokens\":[\"c\",\"d\"]}", "output/1/0", logistic(1)},
    };
    check_rows("/mha", rows, sizeof rows / sizeof *rows);
}

/* trace returns what applies, and nothing else */
static void test_names_of_a_trace(void) {
    static const struct {
        const char *endpoint, *body, *names;
    } rows[] = {
        {"/attention", Q K V ",\"trace\":true}", "output weights scores scaled masked lse"},
        {"/attention", Q K V ",\"trace\":true,\"softcap\":2}", "output weights scores scaled capped masked lse"},
        {"/attention", Q K V ",\"trace\":true,\"past_k\":[[0]],\"past_v\":[[0]]}",
         "output weights scores scaled masked lse present_k present_v"},
        {"/mha", X W ",\"trace\":true}", "output weights scores scaled masked lse q k v heads"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char names[200], *rest = NULL;
        size_t count = 0;
        http_reply reply = http_post(rows[i].endpoint, rows[i].body);
        json_t *json = json_loadb(reply.body, reply.length, 0, NULL);
        snprintf(names, sizeof names, "%s", rows[i].names);
        for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest), count++)
            CHECK(json_object_get(json, name), "%s: no %s: %.300s", rows[i].body, name, reply.body);
        CHECK(json_object_size(json) == count, "%s: %zu names: %.300s", rows[i].body, json_object_size(json),
              reply.body);
        json_decref(json);
        http_free(&reply);
    }
}

static void test_null_is_the_same_as_left_out(void) {
    static const char *const fields[] = {"layout",     "num_heads",  "num_kv_heads", "mask",   "bias",
                                         "kv_lengths", "causal",     "query_offset", "window", "scale",
                                         "softcap",    "past_k",     "past_v",       "return", "return_weights",
                                         "tokens",     "key_tokens", "dtype",        "format", "trace"};
    http_reply base = http_post("/attention", Q K V "}");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char body[200];
        snprintf(body, sizeof body, Q K V ",\"%s\":null}", fields[i]);
        http_reply reply = http_post("/attention", body);
        CHECK(reply.status == 200 && !strcmp(reply.body, base.body), "%s: %.300s", fields[i], reply.body);
        http_free(&reply);
    }
    http_free(&base);
}

/* the same options in the query string */
static void test_options_in_the_query(void) {
    static const struct {
        const char *target;
        field_row row;
    } rows[] = {
        {"/attention?scale=3", {"scale", Q K V "}", "output/0/0", 0}},
        {"/attention?causal=True", {"causal", Q K V "}", "output/0/0", 0}},
        {"/attention?window=0,0&query_offset=1", {"window", Q K V "}", "output/0/0", 1}},
        {"/attention?return=weights,lse", {"return", Q K V "}", "weights/0/0", 0}},
        {"/attention?dtype=float64", {"dtype", Q K ",\"v\":[[0.1],[0.1]]}", "output/0/0", 0.1}},
        {"/mha?num_heads=1&return_weights=average",
         {"num_heads", "{\"x\":[[0],[1]],\"w_q\":[[1]],\"w_k\":[[1]],\"w_v\":[[1]]}", "weights/1/1", 0}},
    };
    const double expected[] = {logistic(6), 0, 1, 1 - logistic(2), 0.1, logistic(1)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        field_row row = rows[i].row;
        row.expected = expected[i];
        check_rows(rows[i].target, &row, 1);
    }
}

int main(int argc, char **argv) {
    static const check_test tests[] = {
        CHECK_TEST(test_tensors_of_attention),
        CHECK_TEST(test_scores_of_attention),
        CHECK_TEST(test_heads_and_layout_of_attention),
        CHECK_TEST(test_what_attention_returns),
        CHECK_TEST(test_tensors_of_mha),
        CHECK_TEST(test_heads_of_mha),
        CHECK_TEST(test_options_of_mha),
        CHECK_TEST(test_names_of_a_trace),
        CHECK_TEST(test_options_in_the_query),
        CHECK_TEST(test_null_is_the_same_as_left_out),
    };
    return shared_main(argc, argv, tests, sizeof tests / sizeof *tests, NULL);
}
