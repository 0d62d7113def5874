#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../api/json/reader.h"
#include "../support/check.h"

/* One value of a document, read and not yet taken. */
typedef struct taking {
    api_memory memory;
    api_reader *reader;
    json_t *document;
    api_value *value;
    api_error error;
    bool finite;
    char text[2000];
} taking;

static void start_at(taking *t, const char *text, json_int_t index) {
    memset(t, 0, sizeof *t);
    snprintf(t->text, sizeof t->text, "%s", text);
    api_memory_init(&t->memory, NULL);
    t->reader = api_reader_new(&t->memory, 0);
    api_reader_push(t->reader, text, strlen(text));
    t->document = api_reader_finish(t->reader, &t->error);
    t->value = t->document ? api_reader_value(t->reader, index) : NULL;
    if (!CHECK(t->value != NULL, "%s: %s", text, t->error.detail)) abort();
}
static void start(taking *t, const char *text) { start_at(t, text, 0); }

static void end(taking *t) {
    json_decref(t->document);
    api_memory_deinit(&t->memory);
}

static void check_error(const taking *t, const void *got, api_code code, const char *pointer) {
    CHECK(!got && t->error.code == code, "%s: expected %s, got %s %s", t->text, api_codes[code].code,
          api_codes[t->error.code].code, t->error.detail);
    CHECK(strcmp(t->error.pointer, pointer) == 0, "%s: expected the pointer %s, got %s", t->text, pointer,
          t->error.pointer);
}

/* ---- numbers
 * ---------------------------------------------------------------------------------------------------------- */

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b)); }

static void check_reals(const char *text, attn_dtype compute, api_dtype declared, size_t count,
                        const double *expected) {
    taking t;
    start(&t, text);
    const void *data = api_take_reals(t.reader, t.value, compute, declared, "/q", &t.finite, &t.error);
    if (CHECK(data != NULL, "%s: %s", text, t.error.detail)) {
        CHECK((uintptr_t)data % 64 == 0 && data == t.value->data, "%s: %p", text, data);
        bool finite = true;
        for (size_t i = 0; i < count; i++) {
            const double x = compute == ATTN_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
            CHECK(same(x, expected[i]), "%s: element %zu is %a, got %a", text, i, expected[i], x);
            finite = finite && isfinite(expected[i]);
        }
        CHECK(t.finite == finite, "%s: finite %d", text, t.finite);
    }
    end(&t);
}

static void test_reals_of_text(void) {
    check_reals("[1,-2.5,0.1,-0]", ATTN_F64, API_DTYPE_NONE, 4, (double[]){1, -2.5, 0.1, -0.0});
    check_reals("[1,-2.5,0.1,-0]", ATTN_F32, API_DTYPE_NONE, 4, (double[]){1, -2.5, (double)0.1F, -0.0});
    check_reals("[NaN,Infinity,-Infinity]", ATTN_F32, API_DTYPE_NONE, 3, (double[]){NAN, INFINITY, -INFINITY});
    check_reals("5e-1", ATTN_F32, API_DTYPE_NONE, 1, (double[]){0.5});
    check_reals("16777217.00000000000000000001", ATTN_F32, API_DTYPE_NONE, 1, (double[]){16777218});
    check_reals("[]", ATTN_F32, API_DTYPE_NONE, 0, NULL);
    /* between two floats, by less than a double can tell */
    static const char ties[] = "[16777217,16777217.00000000000000000001,16777216.99999999999999999999,"
                               "-16777217.00000000000000000001,16777219,16777218.99999999999999999999]";
    check_reals(ties, ATTN_F32, API_DTYPE_NONE, 6,
                (double[]){16777216, 16777218, 16777216, -16777218, 16777220, 16777218});
    check_reals(ties, ATTN_F64, API_F32, 6, (double[]){16777216, 16777218, 16777216, -16777218, 16777220, 16777218});
    check_reals(ties, ATTN_F64, API_DTYPE_NONE, 6,
                (double[]){16777217, 16777217, 16777217, -16777217, 16777219, 16777219});
    check_reals(ties, ATTN_F32, API_F64, 6, (double[]){16777216, 16777216, 16777216, -16777216, 16777220, 16777220});
    check_reals("[1.00048828125,1.000488281250000000000001,65519,1e-8]", ATTN_F32, API_F16, 4,
                (double[]){1, 1.0009765625, 65504, 0});
    check_reals("[1.00390625,1.003906250000000000000001,3e38]", ATTN_F64, API_BF16, 3,
                (double[]){1, 1.0078125, 0x1.c4p127});
    check_reals("[3.4028235677973366e38,1e-50]", ATTN_F64, API_DTYPE_NONE, 2, (double[]){3.4028235677973366e38, 1e-50});
    check_reals("[3.4028235677973366e38]", ATTN_F32, API_DTYPE_NONE, 1, (double[]){(double)FLT_MAX}); /* just below */
    check_reals("[1,2e0]", ATTN_F32, API_I64, 2, (double[]){1, 2});
}

/* The document's type first, last or at its default: the same floats. */
static void test_order_of_dtype_changes_nothing(void) {
    char numbers[3000] = "[[";
    for (int i = 0; i < 60; i++)
        sprintf(numbers + strlen(numbers), "%s%.*e", i == 30 ? "],[" : i ? "," : "", 5 + i % 20, check_random_normal());
    strcat(numbers, "]]");
    char texts[3][3100];
    sprintf(texts[0], "{\"dtype\":\"float32\",\"q\":%s}", numbers);
    sprintf(texts[1], "{\"q\":%s,\"dtype\":\"float32\"}", numbers);
    sprintf(texts[2], "{\"q\":%s}", numbers);
    float *all[3];
    taking t[3];
    for (size_t i = 0; i < 3; i++) {
        start(&t[i], texts[i]);
        all[i] = api_take_reals(t[i].reader, t[i].value, ATTN_F32, API_DTYPE_NONE, "", &t[i].finite, &t[i].error);
        CHECK_FATAL(all[i] != NULL, "%s", t[i].error.detail);
        CHECK(memcmp(all[i], all[0], 60 * sizeof(float)) == 0, "variant %zu", i);
    }
    for (size_t i = 0; i < 3; i++) end(&t[i]);
}

static void check_reals_fail(const char *text, attn_dtype compute, api_dtype declared, api_code code,
                             const char *pointer) {
    taking t;
    start(&t, text);
    check_error(&t, api_take_reals(t.reader, t.value, compute, declared, "/q", &t.finite, &t.error), code, pointer);
    end(&t);
}

static void test_reals_that_fail(void) {
    check_reals_fail("[[1,2],[3,1e39]]", ATTN_F32, API_DTYPE_NONE, API_OUT_OF_RANGE, "/q/1/1");
    check_reals_fail("[1,3.4028235677973367e38]", ATTN_F32, API_DTYPE_NONE, API_OUT_OF_RANGE, "/q/1");
    check_reals_fail("[1,-1e400]", ATTN_F64, API_DTYPE_NONE, API_OUT_OF_RANGE, "/q/1");
    check_reals_fail("1e400", ATTN_F64, API_DTYPE_NONE, API_OUT_OF_RANGE, "/q");
    check_reals_fail("1e39", ATTN_F32, API_DTYPE_NONE, API_OUT_OF_RANGE, "/q");
    check_reals_fail("[1,65520]", ATTN_F64, API_F16, API_OUT_OF_RANGE, "/q/1");
    check_reals_fail("[1,1e39]", ATTN_F64, API_F32, API_OUT_OF_RANGE, "/q/1");
    check_reals_fail("[1,1e39]", ATTN_F32, API_F64, API_OUT_OF_RANGE, "/q/1");
    check_reals_fail("[1,3.4e38]", ATTN_F64, API_BF16, API_OUT_OF_RANGE, "/q/1");
    check_reals_fail("[[true,false]]", ATTN_F32, API_DTYPE_NONE, API_WRONG_TYPE, "/q/0/0");
    check_reals_fail("[1,0.5]", ATTN_F32, API_I64, API_WRONG_TYPE, "/q/1");
    /* the first of two errors */
    check_reals_fail("[[1,2],[1e39,\"a\"]]", ATTN_F32, API_DTYPE_NONE, API_OUT_OF_RANGE, "/q/1/0");
    check_reals_fail("[[1,1e39,\"a\"]]", ATTN_F32, API_DTYPE_NONE, API_OUT_OF_RANGE, "/q/0/1");
    check_reals_fail("[[[1,2],[3,1e39],[4]]]", ATTN_F32, API_DTYPE_NONE, API_OUT_OF_RANGE, "/q/0/1/1");
    check_reals_fail("[[1,2],[\"a\",1e39]]", ATTN_F32, API_DTYPE_NONE, API_WRONG_TYPE, "/q/1/0");
    check_reals_fail("[[1,2],[3]]", ATTN_F32, API_DTYPE_NONE, API_RAGGED, "/q/1");
}

/* ---- masks
 * ------------------------------------------------------------------------------------------------------------ */

static void check_mask(const char *text, api_dtype declared, const char *expected) {
    taking t;
    start(&t, text);
    const uint8_t *mask = api_take_mask(t.reader, t.value, declared, "/mask", &t.error);
    if (CHECK(mask != NULL, "%s: %s", text, t.error.detail))
        for (size_t i = 0; i < strlen(expected); i++)
            CHECK(mask[i] == expected[i] - '0', "%s: element %zu is %d", text, i, mask[i]);
    end(&t);
}

static void check_mask_fails(const char *text, api_dtype declared, api_code code, const char *pointer) {
    taking t;
    start_at(&t, text, 0);
    check_error(&t, api_take_mask(t.reader, t.value, declared, "/mask", &t.error), code, pointer);
    if (code == API_OUT_OF_RANGE) CHECK(strstr(t.error.detail, "bias") != NULL, "%s: %s", text, t.error.detail);
    end(&t);
}

static void test_masks(void) {
    check_mask("[[true,false],[false,true]]", API_DTYPE_NONE, "1001");
    check_mask("[[1,0],[0,1]]", API_DTYPE_NONE, "1001");
    check_mask("[1.0,0e5,-0,10e-1]", API_BOOL, "1001");
    check_mask("{\"dtype\":\"float32\",\"mask\":[[1,0],[0.0,1e0]]}", API_DTYPE_NONE, "1001");
    check_mask("{\"dtype\":\"float64\",\"mask\":[[1,0],[0.0,1e0]]}", API_DTYPE_NONE, "1001");
    check_mask("1", API_DTYPE_NONE, "1");
    check_mask("[true,false]", API_BOOL, "10");
    check_mask("[0.99999,0]", API_F16, "10");
    check_mask_fails("[1,2]", API_DTYPE_NONE, API_OUT_OF_RANGE, "/mask/1");
    check_mask_fails("[[0,1],[0.5,1]]", API_DTYPE_NONE, API_OUT_OF_RANGE, "/mask/1/0");
    check_mask_fails("[0,1.0000000000000000000000001]", API_DTYPE_NONE, API_OUT_OF_RANGE, "/mask/1");
    check_mask_fails("[0,1e-400]", API_DTYPE_NONE, API_OUT_OF_RANGE, "/mask/1");
    check_mask_fails("{\"dtype\":\"float32\",\"mask\":[[1,0],[1.00000001,1]]}", API_DTYPE_NONE, API_OUT_OF_RANGE,
                     "/mask/1/0");
    check_mask_fails("{\"dtype\":\"float32\",\"mask\":[[1,0],[0,1e-60]]}", API_DTYPE_NONE, API_OUT_OF_RANGE,
                     "/mask/1/1");
    check_mask_fails("{\"dtype\":\"float64\",\"mask\":[[1,1.00000000000000000001]]}", API_DTYPE_NONE, API_OUT_OF_RANGE,
                     "/mask/0/1");
    check_mask_fails("[0,-Infinity]", API_DTYPE_NONE, API_OUT_OF_RANGE, "/mask/1");
    check_mask_fails("[true,1]", API_DTYPE_NONE, API_WRONG_TYPE, "/mask/1");
    check_mask_fails("[[1],[true]]", API_DTYPE_NONE, API_WRONG_TYPE, "/mask/1/0");
}

/* ---- integers
 * --------------------------------------------------------------------------------------------------------- */

static void check_integers(const char *text, api_dtype declared, size_t count, const int64_t *expected) {
    taking t;
    start(&t, text);
    const int64_t *data = api_take_integers(t.reader, t.value, declared, "/n", &t.error);
    if (CHECK(data != NULL, "%s: %s", text, t.error.detail))
        for (size_t i = 0; i < count; i++)
            CHECK(data[i] == expected[i], "%s: element %zu is %" PRId64, text, i, data[i]);
    end(&t);
}

static void check_integers_fail(const char *text, api_dtype declared, api_code code, const char *pointer) {
    taking t;
    start(&t, text);
    check_error(&t, api_take_integers(t.reader, t.value, declared, "/n", &t.error), code, pointer);
    end(&t);
}

static void test_integers(void) {
    check_integers("[1,2.0,2e0,-3,0.5e1,-0]", API_DTYPE_NONE, 6, (int64_t[]){1, 2, 2, -3, 5, 0});
    check_integers("[9007199254740992,-9007199254740992,16777217]", API_DTYPE_NONE, 3,
                   (int64_t[]){INT64_C(9007199254740992), -INT64_C(9007199254740992), 16777217});
    check_integers("{\"dtype\":\"float32\",\"n\":[16777217,33554433]}", API_DTYPE_NONE, 2,
                   (int64_t[]){16777217, 33554433});
    check_integers("{\"dtype\":\"float32\",\"n\":[[1],[2]]}", API_DTYPE_NONE, 2, (int64_t[]){1, 2});
    check_integers("[2147483647,-2147483648]", API_I32, 2, (int64_t[]){2147483647, -2147483648});
    check_integers("[]", API_DTYPE_NONE, 0, NULL);
    check_integers_fail("[1,0.5]", API_DTYPE_NONE, API_WRONG_TYPE, "/n/1");
    check_integers_fail("[33554433.0000000000000001]", API_DTYPE_NONE, API_WRONG_TYPE, "/n/0");
    check_integers_fail("[1e-400]", API_DTYPE_NONE, API_WRONG_TYPE, "/n/0");
    check_integers_fail("[1,9007199254740993]", API_DTYPE_NONE, API_OUT_OF_RANGE, "/n/1");
    check_integers_fail("[1e300]", API_DTYPE_NONE, API_OUT_OF_RANGE, "/n/0");
    check_integers_fail("[2147483648]", API_I32, API_OUT_OF_RANGE, "/n/0");
    check_integers_fail("[NaN]", API_DTYPE_NONE, API_NOT_FINITE, "/n/0");
    check_integers_fail("[true]", API_DTYPE_NONE, API_WRONG_TYPE, "/n/0");
}

static void check_bare(const char *text, api_code integer_code, int64_t integer, api_code real_code, double real) {
    taking t;
    start(&t, text);
    int64_t i = 0;
    double x = 0;
    bool got = api_take_integer(t.value, "/n", &i, &t.error);
    CHECK(t.error.code == integer_code && got == !integer_code && i == integer, "%s: %s %" PRId64, text, t.error.detail,
          i);
    if (integer_code) CHECK(strcmp(t.error.pointer, "/n") == 0, "%s: %s", text, t.error.pointer);
    t.error = (api_error){0};
    got = api_take_real(t.value, ATTN_F32, "/n", &x, &t.error);
    CHECK(t.error.code == real_code && got == !real_code && same(x, real), "%s: %s %a", text, t.error.detail, x);
    end(&t);
}

static void test_bare_numbers(void) {
    check_bare("3", API_NO_ERROR, 3, API_NO_ERROR, 3);
    check_bare("-2e3", API_NO_ERROR, -2000, API_NO_ERROR, -2000);
    check_bare("0.1", API_WRONG_TYPE, 0, API_NO_ERROR, (double)0.1F);
    check_bare("1.00000000000000000000001", API_WRONG_TYPE, 0, API_NO_ERROR, 1);
    check_bare("9007199254740993", API_OUT_OF_RANGE, 0, API_NO_ERROR, 9007199254740992);
    check_bare("1e39", API_OUT_OF_RANGE, 0, API_OUT_OF_RANGE, 0);
    check_bare("1e400", API_OUT_OF_RANGE, 0, API_OUT_OF_RANGE, 0);
    check_bare("NaN", API_NOT_FINITE, 0, API_NOT_FINITE, 0);
    check_bare("-Infinity", API_NOT_FINITE, 0, API_NOT_FINITE, 0);
    check_bare("[1]", API_WRONG_TYPE, 0, API_WRONG_TYPE, 0);
}

/* ---- base64
 * ----------------------------------------------------------------------------------------------------------- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* {"q":{"base64":"..."}} */
static void encode(char *text, const void *data, size_t size) {
    const uint8_t *p = data;
    text += sprintf(text, "{\"q\":{\"base64\":\"");
    for (size_t i = 0; i < size; i += 3) {
        const unsigned b = i + 1 < size ? p[i + 1] : 0, c = i + 2 < size ? p[i + 2] : 0;
        const unsigned bits = (unsigned)p[i] << 16 | b << 8 | c;
        *text++ = alphabet[bits >> 18];
        *text++ = alphabet[bits >> 12 & 63];
        *text++ = i + 1 < size ? alphabet[bits >> 6 & 63] : '=';
        *text++ = i + 2 < size ? alphabet[bits & 63] : '=';
    }
    strcpy(text, "\"}}");
}

static void check_bytes(const void *data, size_t size, api_dtype declared, attn_dtype compute, size_t count,
                        const double *expected) {
    char text[1000];
    encode(text, data, size);
    check_reals(text, compute, declared, count, expected);
}

static void test_bytes_as_reals(void) {
    const double f64[] = {1, -0.1, 16777217, NAN, INFINITY, -0.0, 1e-50};
    const float f32[] = {1, -0.1F, 0x1p-149F, NAN, -INFINITY, -0.0F};
    const uint16_t f16[] = {0x3C00, 0xC000, 0x0001, 0x03FF, 0x7BFF, 0x7C00, 0xFE01, 0x8000, 0x3555};
    const uint16_t bf16[] = {0x3F80, 0xC000, 0x0001, 0x7F7F, 0xFF80, 0x7FC1};
    const int64_t i64[] = {1, -2, 16777217, INT64_C(0x20000030000001), INT64_C(0x4000004000000001)};
    const int32_t i32[] = {1, -2147483647 - 1, 16777219};
    check_bytes(f64, sizeof f64, API_F64, ATTN_F64, 7, f64);
    check_bytes(f64, sizeof f64, API_F64, ATTN_F32, 7, (double[]){1, (double)-0.1F, 16777216, NAN, INFINITY, -0.0, 0});
    const double wide32[] = {1, (double)-0.1F, 0x1p-149, NAN, -INFINITY, -0.0};
    check_bytes(f32, sizeof f32, API_F32, ATTN_F32, 6, wide32);
    check_bytes(f32, sizeof f32, API_F32, ATTN_F64, 6, wide32);
    const double wide16[] = {1, -2, 0x1p-24, 0x1.ff8p-15, 65504, INFINITY, NAN, -0.0, 0x1.554p-2};
    check_bytes(f16, sizeof f16, API_F16, ATTN_F32, 9, wide16);
    check_bytes(f16, sizeof f16, API_F16, ATTN_F64, 9, wide16);
    const double wideb16[] = {1, -2, 0x1p-133, 0x1.fep127, -INFINITY, NAN};
    check_bytes(bf16, sizeof bf16, API_BF16, ATTN_F32, 6, wideb16);
    check_bytes(bf16, sizeof bf16, API_BF16, ATTN_F64, 6, wideb16);
    /* the last one lies just above the middle of two floats: by way of double it would fall on it */
    check_bytes(i64, sizeof i64, API_I64, ATTN_F32, 5,
                (double[]){1, -2, 16777216, (double)(float)i64[3], 0x1.000002p62});
    check_bytes(i64, sizeof i64, API_I64, ATTN_F64, 4, (double[]){1, -2, 16777217, (double)i64[3]});
    check_bytes(i32, sizeof i32, API_I32, ATTN_F32, 3, (double[]){1, -2147483648.0, 16777220});
    check_bytes(i32, sizeof i32, API_I32, ATTN_F64, 3, (double[]){1, -2147483648.0, 16777219});
    check_reals("{\"q\":{\"base64\":\"\"}}", ATTN_F32, API_F32, 0, NULL);
    check_reals("{\"q\":{\"base64\":\"AACAP\\u0077AAAEAAAEBA\\u0041ACAQA==\"}}", ATTN_F32, API_F32, 4,
                (double[]){1, 2, 3, 4});
    check_reals("{\"q\":{\"base64\":\"\\/\\u002f9\\/fw==\"}}", ATTN_F32, API_F32, 1, (double[]){(double)FLT_MAX});
}

static void test_nan_bits_become_canonical(void) {
    const uint32_t bits[] = {0x7F800001, 0xFFC12345, 0xFF800001};
    char text[200];
    encode(text, bits, sizeof bits);
    taking t;
    start(&t, text);
    const float *x = api_take_reals(t.reader, t.value, ATTN_F32, API_F32, "/q", &t.finite, &t.error);
    CHECK_FATAL(x && !t.finite, "%s", t.error.detail);
    for (size_t i = 0; i < 3; i++) {
        uint32_t got;
        memcpy(&got, x + i, sizeof got);
        CHECK(got == 0x7FC00000, "element %zu is %08x", i, got);
    }
    end(&t);
}

static void test_broken_base64(void) {
    static const char *const texts[] = {
        "A",    "AA",         "AAA",        "AAAAA",    "A===",  "====",     "=",
        "AA=A", "AA==AAAA",   "AA==A",      "AAA=A===", "AAAA=", "AA A",     "AA\\nA=",
        "A-_A", "AA\\u00e9A", "ZZ\xc3\xa9", "AB==",     "AAB=",  "AA======", "AAAAAAAAAAAAAAAAAAAAA*AA",
        "AAA",  "AA=",        "AAA=="};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"q\":{\"base64\":\"%s\"}}", texts[i]);
        taking t;
        start(&t, text);
        check_error(&t, api_take_reals(t.reader, t.value, ATTN_F32, API_F32, "/q/base64", &t.finite, &t.error),
                    API_WRONG_TYPE, "/q/base64");
        end(&t);
    }
    taking t; /* whole bytes, but not whole numbers */
    start(&t, "{\"q\":{\"base64\":\"AAAAAAA=\"}}");
    check_error(&t, api_take_reals(t.reader, t.value, ATTN_F32, API_F32, "/q/base64", &t.finite, &t.error),
                API_WRONG_TYPE, "/q/base64");
    end(&t);
}

static void test_bytes_that_fail(void) {
    char text[200];
    const double large[] = {1, 3.5e38};
    encode(text, large, sizeof large);
    taking t;
    start(&t, text);
    check_error(&t, api_take_reals(t.reader, t.value, ATTN_F32, API_F64, "/q/base64", &t.finite, &t.error),
                API_OUT_OF_RANGE, "/q/base64");
    CHECK(t.error.place.element == 1, "element %zu", t.error.place.element);
    end(&t);
    start(&t, "{\"q\":{\"base64\":\"AQAC\"}}");
    check_error(&t, api_take_mask(t.reader, t.value, API_BOOL, "/q/base64", &t.error), API_OUT_OF_RANGE, "/q/base64");
    end(&t);
    start(&t, "{\"q\":{\"base64\":\"AQAB\"}}");
    const uint8_t *mask = api_take_mask(t.reader, t.value, API_BOOL, "/q/base64", &t.error);
    CHECK(mask && mask[0] == 1 && mask[1] == 0 && mask[2] == 1, "%s", t.error.detail);
    end(&t);
    const float ones[] = {1, 0, -0.0F};
    encode(text, ones, sizeof ones);
    start(&t, text);
    mask = api_take_mask(t.reader, t.value, API_F32, "/q/base64", &t.error);
    CHECK(mask && mask[0] == 1 && mask[1] == 0 && mask[2] == 0, "%s", t.error.detail);
    end(&t);
}

static void test_bytes_as_integers(void) {
    char text[200];
    const int64_t i64[] = {INT64_C(1) << 53, -(INT64_C(1) << 53), 7};
    const int32_t i32[] = {2147483647, -2147483647 - 1, 7};
    encode(text, i64, sizeof i64);
    check_integers(text, API_I64, 3, i64);
    encode(text, i32, sizeof i32);
    check_integers(text, API_I32, 3, (int64_t[]){2147483647, -INT64_C(2147483648), 7});
    const int64_t large[] = {(INT64_C(1) << 53) + 1};
    encode(text, large, sizeof large);
    check_integers_fail(text, API_I64, API_OUT_OF_RANGE, "/n");
    const float half[] = {1, 0.5F};
    encode(text, half, sizeof half);
    check_integers_fail(text, API_F32, API_WRONG_TYPE, "/n");
}

/* ---- names and pointers
 * ----------------------------------------------------------------------------------------------- */

static void test_dtypes(void) {
    static const struct {
        const char *name, *datatype;
        size_t size;
        api_kind kind;
    } all[] = {{"F64", "FP64", 8, API_KIND_REAL},     {"F32", "FP32", 4, API_KIND_REAL},
               {"F16", "FP16", 2, API_KIND_REAL},     {"BF16", "BF16", 2, API_KIND_REAL},
               {"BOOL", "BOOL", 1, API_KIND_BOOLEAN}, {"I64", "INT64", 8, API_KIND_INTEGER},
               {"I32", "INT32", 4, API_KIND_INTEGER}};
    CHECK(API_DTYPE_COUNT == 8, "each dtype is in this list");
    for (size_t i = 0; i < 7; i++) {
        const api_dtype dtype = api_dtype_of_name(all[i].name);
        CHECK(dtype != API_DTYPE_NONE && strcmp(api_dtype_name(dtype), all[i].name) == 0, "%s", all[i].name);
        CHECK(api_dtype_of_datatype(all[i].datatype) == dtype, "%s", all[i].datatype);
        CHECK(strcmp(api_dtypes[dtype].datatype, all[i].datatype) == 0, "%s", all[i].datatype);
        CHECK(api_dtype_size(dtype) == all[i].size, "%s has %zu bytes", all[i].name, api_dtype_size(dtype));
        CHECK(api_dtypes[dtype].kind == all[i].kind && api_dtypes[dtype].read, "%s", all[i].name);
        CHECK(!api_dtypes[dtype].round == (all[i].kind != API_KIND_REAL), "%s", all[i].name);
    }
    CHECK(api_dtype_of_name("f32") == API_DTYPE_NONE && api_dtype_of_name("") == API_DTYPE_NONE, "no names");
    CHECK(api_dtype_of_datatype("F32") == API_DTYPE_NONE && api_dtype_of_datatype("") == API_DTYPE_NONE, "no names");
}

/* The block conversions against one number at a time by the rows' own `read` and `round`. */
static void check_block(api_dtype dtype, const double *numbers, bool fits) {
    const api_dtype_row *row = &api_dtypes[dtype];
    float floats[API_DTYPE_BLOCK], back[API_DTYPE_BLOCK];
    char bytes[API_DTYPE_BLOCK * sizeof(double)], text[API_DECIMAL_MAX];
    for (size_t i = 0; i < API_DTYPE_BLOCK; i++) floats[i] = (float)numbers[i];
    for (int from_float = 0; from_float < 2; from_float++) {
        const bool lost = from_float ? row->from_floats(floats, bytes) : row->from_doubles(numbers, bytes);
        CHECK(lost != fits, "%s: a number was lost: %d", row->name, lost);
        row->to_floats(bytes, back);
        for (size_t i = 0; i < API_DTYPE_BLOCK; i++) {
            const double x = from_float ? (double)floats[i] : numbers[i], expected = row->round((api_decimal){x, 0});
            const double got = row->read(bytes + i * row->size).value;
            CHECK(same(got, expected), "%s: %a became %a, expected %a", row->name, x, got, expected);
            CHECK(same((double)back[i], (double)(float)got), "%s: %a is read as %a", row->name, got, (double)back[i]);
            const size_t length = row->text(text, bytes + i * row->size);
            CHECK(!length == !isfinite(got), "%s: %a as text", row->name, got);
            text[length] = '\0';
            if (length) CHECK(same(row->round((api_decimal){strtod(text, NULL), 0}), got), "%s: %s", row->name, text);
        }
    }
}

static void test_dtype_blocks(void) {
    for (api_dtype dtype = API_F64; dtype <= API_BF16; dtype++) {
        double numbers[API_DTYPE_BLOCK];
        for (size_t i = 0; i < API_DTYPE_BLOCK; i++) numbers[i] = check_random_normal() * exp2((double)i / 4 - 8);
        numbers[3] = 0;
        numbers[4] = -(double)INFINITY;
        numbers[5] = 0x1p-24;
        check_block(dtype, numbers, true);
        numbers[17] = dtype == API_F16 ? 65520 : 0x1.ffp127; /* rounds to infinity in the half types */
        check_block(dtype, numbers, dtype == API_F64 || dtype == API_F32);
    }
}

static void check_axes(const char *text, api_code code, const char *pointer, size_t rank, size_t count) {
    taking t;
    start(&t, text);
    size_t got_rank = 0, got_count = 0, shape[API_MAX_RANK];
    const bool got = api_value_axes(t.value, "/q/shape", "q", &got_rank, shape, &got_count, &t.error);
    if (code)
        check_error(&t, got ? text : NULL, code, pointer);
    else
        CHECK(got && got_rank == rank && got_count == count, "%s: rank %zu, %zu elements: %s", text, got_rank,
              got_count, t.error.detail);
    end(&t);
}

static void test_axes(void) {
    check_axes("[]", API_NO_ERROR, "", 0, 1);
    check_axes("[3]", API_NO_ERROR, "", 1, 3);
    check_axes("[2,3.0,4e0]", API_NO_ERROR, "", 3, 24);
    check_axes("[2,0,9007199254740992]", API_OUT_OF_RANGE, "/q/shape", 0, 0);
    check_axes("[1,0,9007199254740992]", API_NO_ERROR, "", 3, 0);
    check_axes("[4294967296,4294967296,4294967296,4294967296]", API_OUT_OF_RANGE, "/q/shape", 0, 0);
    check_axes("[1,1,1,1,1,1,1,1]", API_NO_ERROR, "", 8, 1);
    check_axes("[1,1,1,1,1,1,1,1,1]", API_SHAPE_MISMATCH, "/q/shape", 0, 0);
    check_axes("[1,-1]", API_OUT_OF_RANGE, "/q/shape/1", 0, 0);
    check_axes("[1,0.5]", API_WRONG_TYPE, "/q/shape/1", 0, 0);
    check_axes("[[1],[2]]", API_WRONG_TYPE, "/q/shape", 0, 0);
    check_axes("[true]", API_WRONG_TYPE, "/q/shape/0", 0, 0);
}

static void test_pointers(void) {
    taking t;
    start(&t, "[[[1,2,3],[4,5,6]],[[7,8,9],[10,11,12]]]");
    char pointer[256];
    api_value_pointer(t.value, "/q", 0, pointer);
    CHECK(strcmp(pointer, "/q/0/0/0") == 0, "%s", pointer);
    api_value_pointer(t.value, "/q", 11, pointer);
    CHECK(strcmp(pointer, "/q/1/1/2") == 0, "%s", pointer);
    api_value_pointer(t.value, "", 4, pointer);
    CHECK(strcmp(pointer, "/0/1/1") == 0, "%s", pointer);
    end(&t);
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_reals_of_text),     CHECK_TEST(test_order_of_dtype_changes_nothing),
        CHECK_TEST(test_reals_that_fail),   CHECK_TEST(test_masks),
        CHECK_TEST(test_integers),          CHECK_TEST(test_bare_numbers),
        CHECK_TEST(test_bytes_as_reals),    CHECK_TEST(test_nan_bits_become_canonical),
        CHECK_TEST(test_broken_base64),     CHECK_TEST(test_bytes_that_fail),
        CHECK_TEST(test_bytes_as_integers), CHECK_TEST(test_dtypes),
        CHECK_TEST(test_dtype_blocks),      CHECK_TEST(test_axes),
        CHECK_TEST(test_pointers),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
