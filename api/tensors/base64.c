/* tensor_base64.c: base64 on its way into memory, and taking values that were written so. */
#include <math.h>
#include <string.h>

#include "../json/reader_internal.h"
#include "../numbers/half.h"

/* ---- decoding --------------------------------------------------------------------------------------------------- */

/* One more than the six bits of a character of the alphabet of RFC 4648, section 4; 0 for any other */
static const uint8_t sextets[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64};

void api_base64_start(api_reader *reader) {
    reader->base64_bits = 0;
    reader->base64_count = reader->base64_padding = 0;
    reader->bytes = api_reader_lift(reader, API_ELEMENT_BYTES, 0);
    if (reader->bytes && !reader->bytes->fault.code) reader->bytes->state->storage = API_STORE_BYTES;
}

static void broken(api_value *value, const char *detail) {
    api_error_set(&value->fault, API_WRONG_TYPE, value->place, "", "broken base64: %s", detail);
}

/* A character that is not in a whole group of four of this piece. */
static void push_one(api_reader *reader, uint8_t c) {
    api_value *value = reader->bytes;
    if (reader->base64_padding > 0 && (c != '=' || reader->base64_count == 0)) {
        broken(value, "there is more after the padding");
        return;
    }
    if (c == '=') {
        if (reader->base64_count < 2) broken(value, "padding where a character is expected");
        reader->base64_padding++;
    } else if (sextets[c] == 0) {
        broken(value, "a character outside of the alphabet of RFC 4648, section 4");
    }
    if (value->fault.code) return;
    reader->base64_bits = reader->base64_bits << 6 | (c == '=' ? 0 : sextets[c] - 1u);
    if (++reader->base64_count < 4) return;
    uint8_t *const out = (uint8_t *)value->data + value->count;
    const uint32_t bits = reader->base64_bits;
    const size_t count = 3 - reader->base64_padding;
    if (bits & ((1u << 8 * reader->base64_padding) - 1)) broken(value, "bits that are left over are not 0");
    for (size_t i = 0; i < count; i++) out[i] = (uint8_t)(bits >> (16 - 8 * i));
    value->count += count;
    reader->base64_bits = 0;
    reader->base64_count = 0;
}

void api_base64_push(api_reader *reader, const uint8_t *text, size_t length) {
    api_value *value = reader->bytes;
    if (!value || value->fault.code || !api_value_reserve(reader, value, value->count + length / 4 * 3 + 3)) return;
    size_t i = 0;
    while (i < length && !value->fault.code) {
        if (reader->base64_count == 0 && reader->base64_padding == 0) {
            uint8_t *out = (uint8_t *)value->data + value->count;
            const uint8_t *const begin = out;
            for (; i + 4 <= length; i += 4, out += 3) {
                const uint32_t a = sextets[text[i]] - 1u, b = sextets[text[i + 1]] - 1u;
                const uint32_t c = sextets[text[i + 2]] - 1u, d = sextets[text[i + 3]] - 1u;
                if ((a | b | c | d) > 63) break;
                const uint32_t bits = a << 18 | b << 12 | c << 6 | d;
                out[0] = (uint8_t)(bits >> 16);
                out[1] = (uint8_t)(bits >> 8);
                out[2] = (uint8_t)bits;
            }
            value->count += (size_t)(out - begin);
            if (i == length) return;
        }
        push_one(reader, text[i++]);
    }
}

void api_base64_end(api_reader *reader) {
    api_value *value = reader->bytes;
    reader->bytes = NULL;
    if (!value || value->fault.code) return;
    if (reader->base64_count > 0)
        broken(value, "the length is no multiple of four");
    else if (value->data)
        api_value_shrink(reader, value, value->count);
}

/* ---- elements --------------------------------------------------------------------------------------------------- */

/* One number, exactly; only I64 may need more bits than a double has. */
static double load(const uint8_t *bytes, api_dtype dtype) {
    switch (dtype) {
    case API_F64: {
        double x;
        memcpy(&x, bytes, sizeof x);
        return x;
    }
    case API_F32: {
        float x;
        memcpy(&x, bytes, sizeof x);
        return (double)x;
    }
    case API_F16: {
        uint16_t bits;
        memcpy(&bits, bytes, sizeof bits);
        return (double)api_float_from_f16(bits);
    }
    case API_BF16: {
        uint16_t bits;
        memcpy(&bits, bytes, sizeof bits);
        return (double)api_float_from_bf16(bits);
    }
    case API_I64: {
        int64_t x;
        memcpy(&x, bytes, sizeof x);
        return (double)x;
    }
    case API_I32: {
        int32_t x;
        memcpy(&x, bytes, sizeof x);
        return (double)x;
    }
    default: return *bytes;
    }
}

/* Checks the bytes as a whole. false: error is set. On success *count is the number of elements. */
static bool check_bytes(api_reader *reader, api_value *value, api_dtype declared, const char *prefix, size_t *count,
                        api_error *error) {
    const size_t size = api_dtype_size(declared);
    if (value->fault.code) {
        api_take_fault(value, prefix, error);
        return false;
    }
    if (size == 0 || value->count % size != 0) {
        api_take_error(value, prefix, 0, API_WRONG_TYPE, error,
                       "expected whole numbers of %zu bytes (%s), got %zu bytes", size, api_dtype_name(declared),
                       value->count);
        return false;
    }
    *count = value->count / size;
    if (value->data || api_value_reserve(reader, value, 1)) return true;
    api_take_no_memory(reader, error);
    return false;
}

api_decimal api_bytes_element(const uint8_t *bytes, api_dtype dtype) {
    const double x = load(bytes, dtype);
    if (dtype != API_I64) return (api_decimal){x, 0};
    int64_t integer; /* a double may hold it no more */
    memcpy(&integer, bytes, sizeof integer);
    const __int128 rest = integer - (__int128)x;
    return (api_decimal){x, (rest > 0) - (rest < 0)};
}

/* Elements that are converted at a time, by way of the stack: always as many, so that the loops are vectorized. */
enum { STEP = 64 };

/* STEP elements as doubles or floats. Rounded once: I64 not by way of double. */
static void to_doubles(const uint8_t *in, double *out, api_dtype declared) {
    for (size_t i = 0; i < STEP; i++) out[i] = load(in + i * api_dtype_size(declared), declared);
}
static void to_floats(const uint8_t *in, float *out, api_dtype declared) {
    uint16_t half[STEP];
    double wide[STEP];
    switch (declared) {
    case API_F16:
        memcpy(half, in, sizeof half);
        for (size_t i = 0; i < STEP; i++) out[i] = api_float_from_f16(half[i]);
        break;
    case API_BF16:
        memcpy(half, in, sizeof half);
        for (size_t i = 0; i < STEP; i++) out[i] = api_float_from_bf16(half[i]);
        break;
    case API_F64:
        memcpy(wide, in, sizeof wide);
        for (size_t i = 0; i < STEP; i++) out[i] = (float)wide[i];
        break;
    default:
        for (size_t i = 0; i < STEP; i++)
            out[i] = api_decimal_round_f32(api_bytes_element(in + i * api_dtype_size(declared), declared));
    }
}

/* Makes every NaN the quiet one; false: there is a number that is not finite. count <= STEP */
static bool settle_floats(float *x, size_t count) {
    uint32_t infinite = 0;
    if (count == STEP)
        for (size_t i = 0; i < STEP; i++) infinite |= (uint32_t)((api_bits_of_float(x[i]) & 0x7F800000) == 0x7F800000);
    else
        for (size_t i = 0; i < count; i++) infinite |= (uint32_t)((api_bits_of_float(x[i]) & 0x7F800000) == 0x7F800000);
    for (size_t i = 0; infinite && i < count; i++)
        if (isnan(x[i])) x[i] = NAN;
    return !infinite;
}
static bool settle_doubles(double *x) {
    bool finite = true;
    for (size_t i = 0; i < STEP; i++) {
        finite &= isfinite(x[i]) != 0;
        if (isnan(x[i])) x[i] = (double)NAN;
    }
    return finite;
}

/* Converts elements [first, first + count) in place, count <= STEP. Returns the first of them that is finite, but not
 * in the compute type; SIZE_MAX: none is. */
static size_t convert(api_value *value, size_t first, size_t count, attn_dtype compute, api_dtype declared,
                      bool *finite) {
    uint8_t in[STEP * sizeof(double)] = {0};
    double doubles[STEP];
    float floats[STEP];
    const size_t size = api_dtype_size(declared);
    memcpy(in, (const char *)value->data + first * size, count * size);
    if (compute == ATTN_F64) {
        to_doubles(in, doubles, declared);
        *finite &= settle_doubles(doubles);
        memcpy((char *)value->data + first * sizeof(double), doubles, count * sizeof(double));
        return SIZE_MAX;
    }
    to_floats(in, floats, declared);
    const bool whole = settle_floats(floats, STEP);
    *finite &= whole;
    memcpy((char *)value->data + first * sizeof(float), floats, count * sizeof(float));
    for (size_t i = 0; !whole && i < count; i++)
        if (isinf(floats[i]) && isfinite(load(in + i * size, declared))) return first + i;
    return SIZE_MAX;
}

void *api_bytes_to_reals(api_reader *reader, api_value *value, attn_dtype compute, api_dtype declared,
                         const char *prefix, bool *finite, api_error *error) {
    size_t count;
    if (declared == API_BOOL) {
        api_take_error(value, prefix, 0, API_WRONG_TYPE, error, "expected numbers, got booleans");
        return NULL;
    }
    if (!check_bytes(reader, value, declared, prefix, &count, error)) return NULL;
    const size_t wide = attn_sizeof(compute);
    if (!api_value_reserve(reader, value, count * wide)) {
        api_take_no_memory(reader, error);
        return NULL;
    }
    *finite = true;
    const size_t steps = (count + STEP - 1) / STEP;
    const bool same = declared == API_F32 && compute == ATTN_F32, backwards = wide > api_dtype_size(declared);
    for (size_t i = 0; i < steps; i++) {
        const size_t first = (backwards ? steps - 1 - i : i) * STEP, part = count - first < STEP ? count - first : STEP;
        if (same) { /* nothing to convert */
            *finite &= settle_floats((float *)value->data + first, part);
            continue;
        }
        const size_t beyond = convert(value, first, part, compute, declared, finite);
        if (beyond == SIZE_MAX) continue;
        api_take_error(value, prefix, beyond, API_OUT_OF_RANGE, error,
                       "element %zu does not fit float32 (\"dtype\": \"float64\" holds more)", beyond);
        value->count = beyond; /* what stands before is converted */
        return NULL;
    }
    api_value_shrink(reader, value, count * wide);
    return value->data;
}

uint8_t *api_bytes_to_mask(api_reader *reader, api_value *value, api_dtype declared, const char *prefix,
                           api_error *error) {
    size_t count;
    if (!check_bytes(reader, value, declared, prefix, &count, error)) return NULL;
    uint8_t *const mask = value->data;
    for (size_t i = 0; i < count; i++) {
        const double x = load(mask + i * api_dtype_size(declared), declared);
        if (x != 0 && x != 1) {
            api_mask_error(value, prefix, i, x, error);
            return NULL;
        }
        mask[i] = x != 0;
    }
    api_value_shrink(reader, value, count);
    return value->data;
}

int64_t *api_bytes_to_integers(api_reader *reader, api_value *value, api_dtype declared, const char *prefix,
                               api_error *error) {
    size_t count;
    if (declared == API_BOOL) {
        api_take_error(value, prefix, 0, API_WRONG_TYPE, error, "expected integers, got booleans");
        return NULL;
    }
    if (!check_bytes(reader, value, declared, prefix, &count, error)) return NULL;
    const size_t size = api_dtype_size(declared);
    for (size_t i = 0; i < count; i++) {
        const char *why;
        const uint8_t *const bytes = (const uint8_t *)value->data + i * size;
        api_code code = api_integer_fault((api_decimal){load(bytes, declared), 0}, declared, &why);
        if (declared == API_I64 && code == API_NO_ERROR) { /* 2^53 + 1 as a double is 2^53 */
            int64_t x;
            memcpy(&x, bytes, sizeof x);
            const int64_t most = (int64_t)1 << 53;
            if (x > most || x < -most) code = api_integer_fault((api_decimal){0x1p54, 0}, declared, &why);
        }
        if (code == API_NO_ERROR) continue;
        api_take_error(value, prefix, i, code, error, "%s", why);
        return NULL;
    }
    if (!api_value_reserve(reader, value, count * sizeof(int64_t))) {
        api_take_no_memory(reader, error);
        return NULL;
    }
    for (size_t i = count; i-- > 0;) {
        const int64_t x = (int64_t)load((const uint8_t *)value->data + i * size, declared);
        memcpy((char *)value->data + i * sizeof x, &x, sizeof x);
    }
    return value->data;
}
