#include "dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "half.h"

enum { BLOCK = API_DTYPE_BLOCK };

/* ---- one element ------------------------------------------------------------------------------------------------ */

static api_decimal read_f64(const void *element) {
    double x;
    memcpy(&x, element, sizeof x);
    return (api_decimal){x, 0};
}
static api_decimal read_f32(const void *element) {
    float x;
    memcpy(&x, element, sizeof x);
    return (api_decimal){(double)x, 0};
}
static uint16_t half_bits(const void *element) {
    uint16_t bits;
    memcpy(&bits, element, sizeof bits);
    return bits;
}
static api_decimal read_f16(const void *element) {
    return (api_decimal){(double)api_float_from_f16(half_bits(element)), 0};
}
static api_decimal read_bf16(const void *element) {
    return (api_decimal){(double)api_float_from_bf16(half_bits(element)), 0};
}
static api_decimal read_bool(const void *element) { return (api_decimal){*(const uint8_t *)element, 0}; }
static api_decimal read_i32(const void *element) {
    int32_t x;
    memcpy(&x, element, sizeof x);
    return (api_decimal){x, 0};
}
static api_decimal read_i64(const void *element) {
    int64_t x;
    memcpy(&x, element, sizeof x);
    const __int128 rest = x - (__int128)(double)x;
    return (api_decimal){(double)x, (rest > 0) - (rest < 0)};
}

static double round_f64(api_decimal decimal) { return decimal.value; }
static double round_f32(api_decimal decimal) { return (double)api_decimal_round_f32(decimal); }
static double round_f16(api_decimal decimal) { return (double)api_decimal_round_f16(decimal); }
static double round_bf16(api_decimal decimal) { return (double)api_decimal_round_bf16(decimal); }

static size_t text_f64(char *text, const void *element) {
    const double x = read_f64(element).value;
    return isfinite(x) ? api_decimal_from_double(text, x) : 0;
}
static size_t text_f32(char *text, const void *element) {
    float x;
    memcpy(&x, element, sizeof x);
    return isfinite(x) ? api_decimal_from_float(text, x) : 0;
}
static size_t text_f16(char *text, const void *element) {
    const uint16_t bits = half_bits(element);
    return (bits & 0x7C00) == 0x7C00 ? 0 : api_decimal_from_f16(text, bits);
}
static size_t text_bf16(char *text, const void *element) {
    const uint16_t bits = half_bits(element);
    return (bits & 0x7F80) == 0x7F80 ? 0 : api_decimal_from_bf16(text, bits);
}

/* ---- blocks: from bytes to floats ------------------------------------------------------------------------------- */

static void floats_of_f64(const void *in, float *out) {
    double x[BLOCK];
    memcpy(x, in, sizeof x);
    for (size_t i = 0; i < BLOCK; i++) out[i] = (float)x[i];
}
static void floats_of_f32(const void *in, float *out) { memcpy(out, in, BLOCK * sizeof *out); }
static void floats_of_f16(const void *in, float *out) {
    uint16_t x[BLOCK];
    memcpy(x, in, sizeof x);
    for (size_t i = 0; i < BLOCK; i++) out[i] = api_float_from_f16(x[i]);
}
static void floats_of_bf16(const void *in, float *out) {
    uint16_t x[BLOCK];
    memcpy(x, in, sizeof x);
    for (size_t i = 0; i < BLOCK; i++) out[i] = api_float_from_bf16(x[i]);
}

/* ---- blocks: from floats and doubles to bytes ------------------------------------------------------------------- */

static bool f64_of_floats(const float *in, void *out) {
    double x[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) x[i] = (double)in[i];
    memcpy(out, x, sizeof x);
    return false;
}
static bool f32_of_floats(const float *in, void *out) {
    memcpy(out, in, BLOCK * sizeof *in);
    return false;
}
/* Inlined with a constant format, so that each caller's loop is vectorized. */
__attribute__((always_inline)) static inline bool half_of_floats(const float *in, void *out, bool f16) {
    const unsigned infinity = f16 ? 0x7C00 : 0x7F80;
    uint16_t x[BLOCK];
    unsigned lost = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        x[i] = f16 ? api_f16_from_float(in[i]) : api_bf16_from_float(in[i]);
        lost |= (unsigned)((x[i] & 0x7FFF) == infinity) & (unsigned)((api_bits_of_float(in[i]) << 1) != 0xFF000000);
    }
    memcpy(out, x, sizeof x);
    return lost != 0;
}
static bool f16_of_floats(const float *in, void *out) { return half_of_floats(in, out, true); }
static bool bf16_of_floats(const float *in, void *out) { return half_of_floats(in, out, false); }

static bool f64_of_doubles(const double *in, void *out) {
    memcpy(out, in, BLOCK * sizeof *in);
    return false;
}
static bool f32_of_doubles(const double *in, void *out) {
    float x[BLOCK];
    bool lost = false;
    for (size_t i = 0; i < BLOCK; i++) {
        x[i] = (float)in[i];
        lost |= isinf(x[i]) && !isinf(in[i]);
    }
    memcpy(out, x, sizeof x);
    return lost;
}
__attribute__((always_inline)) static inline bool half_of_doubles(const double *in, void *out, bool f16) {
    const unsigned infinity = f16 ? 0x7C00 : 0x7F80;
    uint16_t x[BLOCK];
    bool lost = false;
    for (size_t i = 0; i < BLOCK; i++) {
        const float odd = api_float_rounded_to_odd(in[i]);
        x[i] = f16 ? api_f16_from_float(odd) : api_bf16_from_float(odd);
        lost |= (x[i] & 0x7FFF) == infinity && !isinf(in[i]);
    }
    memcpy(out, x, sizeof x);
    return lost;
}
static bool f16_of_doubles(const double *in, void *out) { return half_of_doubles(in, out, true); }
static bool bf16_of_doubles(const double *in, void *out) { return half_of_doubles(in, out, false); }

/* ---- the table -------------------------------------------------------------------------------------------------- */

const api_dtype_row api_dtypes[API_DTYPE_COUNT] = {
    [API_DTYPE_NONE] = {.name = "", .datatype = ""},
    [API_F64] = {"F64", "FP64", 8, API_KIND_REAL, read_f64, round_f64, floats_of_f64, f64_of_floats, f64_of_doubles,
                 text_f64},
    [API_F32] = {"F32", "FP32", 4, API_KIND_REAL, read_f32, round_f32, floats_of_f32, f32_of_floats, f32_of_doubles,
                 text_f32},
    [API_F16] = {"F16", "FP16", 2, API_KIND_REAL, read_f16, round_f16, floats_of_f16, f16_of_floats, f16_of_doubles,
                 text_f16},
    [API_BF16] = {"BF16", "BF16", 2, API_KIND_REAL, read_bf16, round_bf16, floats_of_bf16, bf16_of_floats,
                  bf16_of_doubles, text_bf16},
    [API_BOOL] = {"BOOL", "BOOL", 1, API_KIND_BOOLEAN, .read = read_bool},
    [API_I64] = {"I64", "INT64", 8, API_KIND_INTEGER, .read = read_i64},
    [API_I32] = {"I32", "INT32", 4, API_KIND_INTEGER, .read = read_i32},
};

api_dtype api_dtype_of_name(const char *name) {
    api_dtype dtype = API_DTYPE_COUNT;
    while (--dtype > API_DTYPE_NONE && strcmp(name, api_dtypes[dtype].name) != 0) {
    }
    return dtype;
}

api_dtype api_dtype_of_datatype(const char *datatype) {
    api_dtype dtype = API_DTYPE_COUNT;
    while (--dtype > API_DTYPE_NONE && strcmp(datatype, api_dtypes[dtype].datatype) != 0) {
    }
    return dtype;
}

const char *api_dtype_list(char text[API_DTYPE_LIST], bool datatypes) {
    size_t length = 0;
    for (api_dtype dtype = API_DTYPE_NONE + 1; dtype < API_DTYPE_COUNT && length < API_DTYPE_LIST; dtype++)
        length += (size_t)snprintf(text + length, API_DTYPE_LIST - length, "%s%s", length ? ", " : "",
                                   datatypes ? api_dtypes[dtype].datatype : api_dtypes[dtype].name);
    return text;
}
