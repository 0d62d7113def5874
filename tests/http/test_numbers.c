/* test_numbers.c: numbers in and out. present_v is v, and one query and one key of score 0 give the value as output, so
 * a number can be followed from the request to the reply in every form. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(text_buffer *text, const void *data, size_t length) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i += 3) {
        const size_t n = length - i < 3 ? length - i : 3;
        unsigned long bits = (unsigned long)bytes[i] << 16;
        if (n > 1) bits |= (unsigned long)bytes[i + 1] << 8;
        if (n > 2) bits |= bytes[i + 2];
        char four[4] = {base64_digits[bits >> 18], base64_digits[bits >> 12 & 63], '=', '='};
        if (n > 1) four[2] = base64_digits[bits >> 6 & 63];
        if (n > 2) four[3] = base64_digits[bits & 63];
        text_append(text, four, 4);
    }
}

/* ---- shortest decimals ------------------------------------------------------------------------------------------- */

/* Digits without leading and trailing zeros. */
static size_t significant(const char *token, size_t length) {
    size_t count = 0, zeros = 0;
    for (size_t i = 0; i < length && token[i] != 'e' && token[i] != 'E'; i++) {
        if (token[i] < '0' || token[i] > '9') continue;
        if (token[i] != '0')
            count += zeros + 1, zeros = 0;
        else if (count)
            zeros++;
    }
    return count;
}

/* The fewest digits of a correctly rounded decimal that reads back as the value. */
static size_t fewest(double value, bool wide, char text[64]) {
    for (int digits = 1; digits < 18; digits++) {
        snprintf(text, 64, "%.*e", digits - 1, value);
        if (wide ? strtod(text, NULL) == value : strtof(text, NULL) == (float)value)
            return significant(text, strlen(text));
    }
    return 0;
}

/* A decimal of as many digits, or of fewer: which can only be at a power of two, where the interval of decimals that
 * read back as the value is lopsided. */
static bool is_shortest(const char *token, size_t length, double value, bool wide) {
    char other[64];
    int exponent;
    const size_t best = fewest(value, wide, other), got = significant(token, length);
    if (got < best) return fabs(frexp(value, &exponent)) == 0.5;
    const double a = strtod(token, NULL), b = strtod(other, NULL);
    return got == best && fabs(a - value) <= fabs(b - value);
}

/* Checks the tokens of the reply's one tensor against the values. */
static void check_tokens(const char *body, const double *values, size_t count, bool wide) {
    const char *at = strchr(body, '[');
    CHECK_FATAL(at, "no tensor: %.200s", body);
    for (size_t i = 0; i < count; i++) {
        at += strcspn(at, "-0123456789");
        const size_t length = strspn(at, "-+.0123456789eE");
        const double got = wide ? strtod(at, NULL) : (double)strtof(at, NULL);
        CHECK_FATAL(length && got == values[i], "number %zu: %.*s is not %.17g", i, (int)length, at, values[i]);
        if (values[i] != 0)
            CHECK(is_shortest(at, length, values[i], wide), "number %zu: %.*s of %.17g is not the shortest", i,
                  (int)length, at, values[i]);
        at += length;
    }
}

/* Random bits, subnormals and powers of two among them. */
static double random_value(bool wide) {
    const unsigned kind = (unsigned)check_random_below(8);
    if (kind == 0) return ldexp(1, (int)check_random_below(wide ? 2090 : 272) - (wide ? 1074 : 149));
    if (kind == 1) return (double)(long long)check_random_below(100000) / 100;
    for (;;) {
        double value;
        if (wide) {
            const unsigned long long bits = check_random();
            memcpy(&value, &bits, sizeof value);
        } else {
            const unsigned bits = (unsigned)check_random();
            float narrow;
            memcpy(&narrow, &bits, sizeof narrow);
            value = narrow;
        }
        if (isfinite(value)) return value;
    }
}

static void round_trip(bool wide) {
    enum { COUNT = 20000 };
    double *values = calloc(COUNT, sizeof *values);
    float *narrow = calloc(COUNT, sizeof *narrow);
    text_buffer body = {0};
    if (!values || !narrow) abort();
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = random_value(wide);
        if (!wide) values[i] = narrow[i] = (float)values[i];
    }
    text_print(&body,
               "{\"return\":[\"present_v\"],\"q\":[[0]],\"k\":[[0]],\"dtype\":\"%s\",\"v\":{\"shape\":[1,%d],\"dtype\":"
               "\"%s\",\"base64\":\"",
               wide ? "float64" : "float32", COUNT, wide ? "F64" : "F32");
    if (wide)
        put_base64(&body, values, COUNT * sizeof *values);
    else
        put_base64(&body, narrow, COUNT * sizeof *narrow);
    text_print(&body, "\"}}");
    http_reply reply = http_post("/attention", body.bytes);
    CHECK(reply.status == 200, "%.300s", reply.body);
    check_tokens(reply.body, values, COUNT, wide);
    http_free(&reply);
    text_free(&body);
    free(values);
    free(narrow);
}

static void test_float32_round_trip(void) { round_trip(false); }
static void test_float64_round_trip(void) { round_trip(true); }

/* ---- decimals in ------------------------------------------------------------------------------------------------- */

static void test_decimals_are_rounded_once(void) {
    static const struct {
        const char *decimal;
        double narrow;
    } rows[] = {
        {"1.000000059604644775390625", 1},                               /* 1 + 2^-24: a tie, to even */
        {"1.00000005960464477539062500000000000000000001", 1 + 0x1p-23}, /* just above: by way of double a tie */
        {"1.00000017881393432617187499999999999999999999", 1 + 0x1p-23}, /* just below 1 + 3 * 2^-24 */
        {"16777217", 16777216},
        {"16777217.0000000000000000001", 16777218},
        {"9007199254740993", 9007199254740992},
        {"7.00649232162408535461864791644958065640130970938257885878534141944895541342930300743319094181060791015625e-"
         "46",
         0},
        {"7."
         "0064923216240853546186479164495806564013097093825788587853414194489554134293030074331909418106079101562500001"
         "e-46",
         0x1p-149},
        {"1e-400", 0},
        {"-1e-400", 0},
        {"0e400", 0},
        {"340282346638528859811704183484516925440", FLT_MAX},
        {"3.40282356779733661637e38", FLT_MAX},
        {"0.1e1", 1},
        {"100E-2", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int early = 0; early < 2; early++) {
            char body[512];
            const char *dtype = early ? "\"dtype\":\"float32\"," : "";
            snprintf(body, sizeof body, "{%s\"q\":[[0]],\"k\":[[0]],\"v\":[[%s]]%s}", dtype, rows[i].decimal,
                     early ? "" : ",\"dtype\":\"float32\"");
            http_reply reply = http_post("/attention", body);
            const float got = (float)reply_number(&reply, "output/0/0");
            CHECK(reply.status == 200 && (double)got == rows[i].narrow, "%s became %.9g (%.200s)", rows[i].decimal,
                  (double)got, reply.body);
            http_free(&reply);
        }
}

static void test_a_declared_type_is_rounded_to_first(void) {
    static const struct {
        const char *dtype, *decimal;
        double expected;
    } rows[] = {
        {"F16", "1.0009765625", 1.0009765625},
        {"F16", "1.00048828125", 1}, /* a tie */
        {"F16", "1.00048828125000000000000000000001", 1.0009765625},
        {"F16", "65519.99", 65504},
        {"F16", "5.9604644775390625e-8", 0x1p-24},
        {"BF16", "1.00390625", 1},
        {"BF16", "1.0039062500000001", 1.0078125},
        {"F32", "16777217", 16777216},
        {"F64", "16777217", 16777217},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[512];
        snprintf(
            body, sizeof body,
            "{\"q\":[[0]],\"k\":[[0]],\"v\":{\"data\":[%s],\"dtype\":\"%s\",\"shape\":[1,1]},\"dtype\":\"float64\"}",
            rows[i].decimal, rows[i].dtype);
        http_reply reply = http_post("/attention", body);
        const double got = reply_number(&reply, "output/0/0");
        CHECK(got == rows[i].expected, "%s as %s became %.17g (%.200s)", rows[i].decimal, rows[i].dtype, got,
              reply.body);
        http_free(&reply);
    }
}

static void test_integers_in_any_spelling(void) {
    static const char *const two[] = {"2", "2.0", "2e0", "20e-1", "0.2E+1", "2.000000000000000000000000000000"};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++) {
        char body[300];
        snprintf(body, sizeof body,
                 "{\"q\":[[1,2]],\"k\":[[0,0],[1,1]],\"v\":[[0,0],[1,1]],\"num_heads\":%s,\"kv_lengths\":[%s]}", two[i],
                 two[i]);
        http_reply reply = http_post("/attention", body);
        const double got = reply_number(&reply, "output/0/1"), want = 1 / (1 + exp(-2));
        CHECK(fabs(got - want) < 1e-6, "%s: %.9g (%.200s)", two[i], got, reply.body);
        http_free(&reply);
    }
}

/* ---- three spellings --------------------------------------------------------------------------------------------- */

/* k = [[1,2],[3,4]] in each spelling; all are exact in every type, so the answers are the same to the last byte */
static void test_spellings_of_a_tensor(void) {
    static const float f32[] = {1, 2, 3, 4};
    static const double f64[] = {1, 2, 3, 4};
    static const unsigned short f16[] = {0x3c00, 0x4000, 0x4200, 0x4400}, bf16[] = {0x3f80, 0x4000, 0x4040, 0x4080};
    static const struct {
        const char *dtype;
        const void *data;
        size_t length;
    } rows[] = {
        {"F32", f32, sizeof f32}, {"F64", f64, sizeof f64}, {"F16", f16, sizeof f16}, {"BF16", bf16, sizeof bf16}};
#define REST "\"q\":[[1,0.5]],\"v\":[[1,2],[3,4]],\"return\":[\"output\",\"weights\",\"lse\"]}"
    http_reply base = http_post("/attention", "{\"k\":[[1,2],[3,4]]," REST);
    http_reply flat = http_post("/attention", "{\"k\":{\"data\":[1,2,3,4],\"shape\":[2,2]}," REST);
    CHECK(base.status == 200 && !strcmp(base.body, flat.body ? flat.body : ""), "flat: %.200s", flat.body);
    for (size_t i = 0; i < 4; i++)
        for (int order = 0; order < 2; order++) {
            text_buffer body = {0};
            text_print(&body, "{\"k\":{\"shape\":[2,2],%s%s%s\"base64\":\"", order ? "" : "\"dtype\":\"",
                       order ? "" : rows[i].dtype, order ? "" : "\",");
            put_base64(&body, rows[i].data, rows[i].length);
            text_print(&body, "\"%s%s%s}," REST, order ? ",\"dtype\":\"" : "", order ? rows[i].dtype : "",
                       order ? "\"" : "");
            http_reply reply = http_post("/attention", body.bytes);
            CHECK(reply.body && !strcmp(base.body, reply.body), "%s: %.200s", rows[i].dtype, reply.body);
            http_free(&reply);
            text_free(&body);
        }
#undef REST
    http_free(&base);
    http_free(&flat);
}

static void test_masks_and_lengths_in_base64(void) {
    static const struct {
        const char *field;
        double expected; /* of q = 2, k = 0 1, v = 3 4 */
    } rows[] = {
        {"\"mask\":{\"shape\":[1,2],\"dtype\":\"BOOL\",\"base64\":\"AQA=\"}", 3},
        {"\"mask\":{\"shape\":[1,2],\"dtype\":\"BOOL\",\"base64\":\"AAE=\"}", 4},
        {"\"mask\":{\"shape\":[1,2],\"data\":[false,true]}", 4},
        {"\"kv_lengths\":{\"shape\":[1],\"dtype\":\"I64\",\"base64\":\"AQAAAAAAAAA=\"}", 3},
        {"\"kv_lengths\":{\"shape\":[1],\"dtype\":\"I32\",\"base64\":\"AQAAAA==\"}", 3},
        {"\"kv_lengths\":{\"shape\":[1],\"data\":[1]}", 3},
        {"\"window\":[0,0],\"query_offset\":{\"shape\":[1],\"dtype\":\"I64\",\"base64\":\"AQAAAAAAAAA=\"}", 4},
        {"\"bias\":{\"shape\":[2],\"dtype\":\"F32\",\"base64\":\"AAAAAAAAgP8=\"}", 3},
        {"\"bias\":{\"shape\":[2],\"dtype\":\"F16\",\"base64\":\"APwAAA==\"}", 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[300];
        snprintf(body, sizeof body, "{\"q\":[[2]],\"k\":[[0],[1]],\"v\":[[3],[4]],%s}", rows[i].field);
        http_reply reply = http_post("/attention", body);
        CHECK(reply_number(&reply, "output/0/0") == rows[i].expected, "%s: %.200s", rows[i].field, reply.body);
        http_free(&reply);
    }
}

/* ---- formats of a reply ------------------------------------------------------------------------------------------ */

static void test_formats_agree(void) {
#define PROBLEM                                                                                        \
    "{\"q\":[[1,2],[0.3,1]],\"k\":[[1,0],[0,1],[1,1]],\"v\":[[1],[2],[3]],\"mask\":[[1,0,1],[0,0,0]]," \
    "\"return\":[\"output\",\"masked\",\"lse\",\"weights\"],\"dtype\":\"%s\",\"format\":\"%s\"}"
    static const char *const names[] = {"output", "masked", "lse", "weights"};
    static const size_t sizes[] = {2, 6, 2, 6};
    for (int wide = 0; wide < 2; wide++) {
        char body[3][500];
        http_reply replies[3];
        json_t *documents[3];
        static const char *const formats[] = {"nested", "flat", "base64"};
        for (int i = 0; i < 3; i++) {
            snprintf(body[i], sizeof body[i], PROBLEM, wide ? "float64" : "float32", formats[i]);
            if (i == 0) memcpy(strstr(body[0], "\"format\""), "\"trace\":false}", 15);
            replies[i] = http_post("/attention", body[i]);
            documents[i] = json_loadb(replies[i].body, replies[i].length, 0, NULL);
            CHECK(replies[i].status == 200, "%s: %.200s", formats[i], replies[i].body);
        }
        for (size_t i = 0; i < 4; i++) {
            json_t *flat = json_object_get(json_object_get(documents[1], names[i]), "data");
            json_t *packed = json_object_get(documents[2], names[i]);
            const char *dtype = json_string_value(json_object_get(packed, "dtype"));
            CHECK(json_equal(json_object_get(packed, "shape"),
                             json_object_get(json_object_get(documents[1], names[i]), "shape")),
                  "%s: shapes", names[i]);
            CHECK(dtype && !strcmp(dtype, wide ? "F64" : "F32"), "%s: dtype", names[i]);
            CHECK_FATAL(json_array_size(flat) == sizes[i], "%s: %.300s", names[i], replies[1].body);
            const char *base64 = json_string_value(json_object_get(packed, "base64"));
            text_buffer bytes = base64_decoded(base64 ? base64 : "");
            CHECK_FATAL(bytes.length == sizes[i] * (wide ? 8 : 4), "%s: %zu bytes", names[i], bytes.length);
            for (size_t j = 0; j < sizes[i]; j++) {
                char path[64];
                float narrow;
                double number;
                memcpy(&narrow, bytes.bytes + 4 * j, 4);
                if (wide)
                    memcpy(&number, bytes.bytes + 8 * j, 8);
                else
                    number = (double)narrow;
                const json_t *element = json_array_get(flat, j);
                const double text = json_is_null(element) ? -INFINITY : json_number_value(element);
                if (i == 2)
                    snprintf(path, sizeof path, "lse/%zu", j);
                else
                    snprintf(path, sizeof path, "%s/%zu/%zu", names[i], j / (sizes[i] / 2), j % (sizes[i] / 2));
                const double nested = reply_number(&replies[0], path);
                CHECK(nested == text, "%s: nested %.17g, flat %.17g", path, nested, text);
                CHECK((wide ? text : (double)(float)text) == number, "%s: flat %.17g, base64 %.17g", path, text,
                      number);
            }
            text_free(&bytes);
        }
        for (int i = 0; i < 3; i++) {
            json_decref(documents[i]);
            http_free(&replies[i]);
        }
    }
#undef PROBLEM
}

static void test_empty_axes(void) {
    static const struct {
        const char *body, *reply;
    } rows[] = {
        {"{\"q\":{\"shape\":[0,2],\"data\":[]},\"k\":[[1,0]],\"v\":[[1,0]]}", "{\"output\":[]}"},
        {"{\"q\":[[1,2]],\"k\":{\"shape\":[0,2],\"data\":[]},\"v\":{\"shape\":[0,3],\"data\":[]},"
         "\"return\":[\"output\",\"weights\",\"lse\"]}",
         "{\"output\":[[0,0,0]],\"weights\":[[]],\"lse\":[null]}"},
        {"{\"q\":[[1],[2]],\"k\":[[1],[2]],\"v\":[[],[]]}", "{\"output\":[[],[]]}"},
        {"{\"q\":{\"shape\":[0,1,2],\"data\":[]},\"k\":{\"shape\":[0,3,2],\"data\":[]},\"v\":{\"shape\":[0,3,1],"
         "\"data\":[]}}",
         "{\"output\":[]}"},
        {"{\"q\":{\"shape\":[2,0,1],\"data\":[]},\"k\":[[[1]],[[1]]],\"v\":[[[1]],[[1]]]}", "{\"output\":[[],[]]}"},
        {"{\"q\":[[1]],\"k\":{\"shape\":[0,1],\"base64\":\"\",\"dtype\":\"F32\"},\"v\":[]}", NULL},
        {"{\"q\":{\"shape\":[0,2],\"data\":[]},\"k\":[[1,0]],\"v\":[[1,0]],\"format\":\"flat\"}",
         "{\"output\":{\"shape\":[0,2],\"data\":[]}}"},
        {"{\"q\":{\"shape\":[0,2],\"data\":[]},\"k\":[[1,0]],\"v\":[[1,0]],\"format\":\"base64\"}",
         "{\"output\":{\"shape\":[0,2],\"dtype\":\"F32\",\"base64\":\"\"}}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        http_reply reply = http_post("/attention", rows[i].body);
        if (!rows[i].reply) {
            expect_problem(&reply, 422, "shape_mismatch", "/v", rows[i].body);
            http_free(&reply);
            continue;
        }
        json_t *got = json_loadb(reply.body, reply.length, JSON_DECODE_INT_AS_REAL, NULL);
        json_t *want = json_loads(rows[i].reply, JSON_DECODE_INT_AS_REAL, NULL);
        CHECK(want && json_equal(got, want), "%s -> %.200s, expected %s", rows[i].body, reply.body, rows[i].reply);
        json_decref(got);
        json_decref(want);
        http_free(&reply);
    }
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static void put_ones(text_buffer *text, size_t rows) {
    text_print(text, "{\"shape\":[%zu,1],\"data\":[1", rows);
    for (size_t i = 1; i < rows; i++) text_append(text, ",1", 2);
    text_print(text, "]}");
}

/* The daemon of this program may hold 64 MiB; the weights of 6000 by 6000 are 137 MiB. */
static void test_a_reply_that_could_never_fit(void) {
    text_buffer body = {0};
    for (int i = 0; i < 3; i++) {
        text_print(&body, "%s\"%c\":", i ? "," : "{", "qkv"[i]);
        put_ones(&body, 6000);
    }
    text_print(&body, ",\"return\":[\"weights\"]}");
    http_reply reply = http_post("/attention", body.bytes);
    expect_problem(&reply, 422, "out_of_range", "/return", "weights of 6000 by 6000");
    http_free(&reply);
    text_free(&body);
}

static void test_a_request_that_could_never_fit(void) {
    text_buffer body = {0};
    text_print(&body, "{\"k\":[[1]],\"v\":[[1]],\"q\":");
    put_ones(&body, 20000000);
    text_print(&body, "}");
    http_reply reply = http_post("/attention", body.bytes);
    expect_problem(&reply, 422, "out_of_range", NULL, "20 million numbers");
    http_free(&reply);
    text_free(&body);
    CHECK(healthy(shared.port), "not healthy");
}

int main(int argc, char **argv) {
    static const check_test tests[] = {
        CHECK_TEST(test_float32_round_trip),
        CHECK_TEST(test_float64_round_trip),
        CHECK_TEST(test_decimals_are_rounded_once),
        CHECK_TEST(test_a_declared_type_is_rounded_to_first),
        CHECK_TEST(test_integers_in_any_spelling),
        CHECK_TEST(test_spellings_of_a_tensor),
        CHECK_TEST(test_masks_and_lengths_in_base64),
        CHECK_TEST(test_formats_agree),
        CHECK_TEST(test_empty_axes),
        CHECK_TEST(test_a_reply_that_could_never_fit),
        CHECK_TEST(test_a_request_that_could_never_fit),
    };
    static const char *const flags[] = {"--max-memory", "64MiB", NULL};
    return shared_main(argc, argv, tests, sizeof tests / sizeof *tests, flags);
}
