#include <float.h>
#include <math.h>

#include "decimal_internal.h"
#include "half.h"

/* ---- the exact way ---------------------------------------------------------------------------------------------- */

/* bits = m 2^f */
static void split(uint64_t bits, api_binary format, uint64_t *m, int *f) {
    const uint64_t hidden = (uint64_t)1 << (format.precision - 1);
    const int biased = (int)(bits >> (format.precision - 1));
    *m = (bits & (hidden - 1)) | (biased ? hidden : 0);
    *f = (biased ? biased : 1) - format.emax - (format.precision - 1);
}

/* Sign of the decimal less the point halfway between `bits` and its successor. */
static int compare_to_half(const api_digits *digits, int q, uint64_t bits, api_binary format) {
    uint64_t m;
    int f;
    split(bits, format, &m, &f);
    return api_digits_compare(digits, q, 2 * m + 1, f - 1);
}

/* Corrects a guess that is near the true rounding. */
static uint64_t round_exactly(const api_digits *digits, int q, api_binary format, uint64_t bits) {
    const uint64_t infinity = api_infinity_bits(format);
    if (bits == infinity) bits--;
    while (bits < infinity) {
        const int above = compare_to_half(digits, q, bits, format);
        if (above < 0 || (above == 0 && !(bits & 1))) break;
        bits++;
    }
    while (bits > 0) {
        const int below = compare_to_half(digits, q, bits - 1, format);
        if (below > 0 || (below == 0 && !(bits & 1))) break;
        bits--;
    }
    return bits;
}

static int sign_of_residual(const api_digits *digits, int q, uint64_t bits) {
    int sign = -1;
    if (bits != api_infinity_bits(API_BINARY64)) {
        uint64_t m;
        int f;
        split(bits, API_BINARY64, &m, &f);
        sign = api_digits_compare(digits, q, m, f);
    }
    return digits->negative ? -sign : sign;
}

/* Beyond these powers of ten every decimal is infinity or less than half the least double. */
#define FAR 400

/* The exponent of the last digit kept, or, far out of range, one just as far as needed. */
static int scale_of(const api_digits *digits) {
    int64_t scale = digits->scale + (digits->exponent_negative ? -digits->exponent : digits->exponent);
    const int64_t least = -FAR - (int64_t)digits->count, most = FAR;
    scale = scale < least ? least : scale;
    return (int)(scale > most ? most : scale);
}

static uint64_t digits_to_bits(const api_digits *digits, api_binary format) {
    if (digits->count == 0) return 0;
    const int q = scale_of(digits);
    if (q + (int)digits->count > FAR - 80) return api_infinity_bits(format);
    if (q + (int)digits->count < -(FAR - 50)) return 0;
    uint64_t bits, next;
    if (digits->count <= API_HEAD_DIGITS) {
        if (api_round_product(digits->head, q, format, &bits)) return bits;
    } else { /* between head and head + 1 times a power of ten: most often both round alike */
        const int scale = q + (int)digits->count - API_HEAD_DIGITS;
        if (api_round_product(digits->head, scale, format, &bits) &&
            api_round_product(digits->head + 1, scale, format, &next) && bits == next)
            return bits;
    }
    return round_exactly(digits, q, format, bits);
}

api_decimal api_digits_to_double(const api_digits *digits, bool exact) {
    const uint64_t bits = digits_to_bits(digits, API_BINARY64);
    api_decimal decimal = {api_double_of_bits(bits, digits->negative), 0};
    const int q = scale_of(digits);
    if (digits->count && bits == 0) /* no number to compare with */
        decimal.residual = digits->negative ? -1 : 1;
    else if (exact || api_needs_residual(bits))
        decimal.residual = sign_of_residual(digits, q, bits);
    return decimal;
}

float api_digits_to_float(const api_digits *digits) {
    return api_float_of_bits(digits_to_bits(digits, API_BINARY32), digits->negative);
}

void api_digits_of_product(api_digits *digits, uint64_t w, int q, bool negative) {
    uint8_t reversed[20];
    size_t count = 0;
    for (; w; w /= 10) reversed[count++] = (uint8_t)(w % 10);
    api_digits_start(digits);
    digits->negative = negative;
    while (count > 0) api_digits_add(digits, reversed[--count], false);
    digits->exponent_negative = q < 0;
    digits->exponent = q < 0 ? -q : q;
}

/* ---- the short way ---------------------------------------------------------------------------------------------- */

static const double exact_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const float exact_powers_float[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F, 1e8F, 1e9F, 1e10F};

/* Clinger (PLDI 1990): w and the power are exact, so one operation rounds once. */
static bool is_one_operation(api_short number) {
    return number.w <= (uint64_t)1 << 53 && number.q >= -22 && number.q <= 22;
}

static double one_operation(api_short number) {
    const double w = (double)number.w;
    return number.q < 0 ? w / exact_powers[-number.q] : w * exact_powers[number.q];
}

float api_short_to_float(api_short number) {
    if (number.w <= (uint64_t)1 << 24 && number.q >= -10 && number.q <= 10) {
        const float w = (float)number.w;
        const float value = number.q < 0 ? w / exact_powers_float[-number.q] : w * exact_powers_float[number.q];
        return number.negative ? -value : value;
    }
    uint64_t bits;
    if (api_round_product(number.w, number.q, API_BINARY32, &bits)) return api_float_of_bits(bits, number.negative);
    api_digits digits;
    api_digits_of_product(&digits, number.w, number.q, number.negative);
    return api_digits_to_float(&digits);
}

double api_short_to_double(api_short number) {
    if (is_one_operation(number)) {
        const double value = one_operation(number);
        return number.negative ? -value : value;
    }
    uint64_t bits;
    if (api_round_product(number.w, number.q, API_BINARY64, &bits)) return api_double_of_bits(bits, number.negative);
    api_digits digits;
    api_digits_of_product(&digits, number.w, number.q, number.negative);
    return api_digits_to_double(&digits, false).value;
}

api_decimal api_short_to_decimal(api_short number) {
    api_decimal decimal = {api_short_to_double(number), 0};
    uint64_t bits;
    memcpy(&bits, &decimal.value, sizeof bits);
    if (number.w == 0 || (number.q == 0 && number.w <= (uint64_t)1 << 53)) return decimal;
    if (!api_needs_residual(bits & (UINT64_MAX >> 1))) return decimal;
    while (number.w > (uint64_t)1 << 53 && number.w % 10 == 0) { /* 1.00000000000000000, as printf writes it */
        number.w /= 10;
        number.q++;
    }
    if (is_one_operation(number)) { /* the error of the one operation, exact by a fused one */
        const double w = (double)number.w, value = fabs(decimal.value);
        const double error =
            number.q < 0 ? fma(-value, exact_powers[-number.q], w) : fma(w, exact_powers[number.q], -value);
        const int sign = (error > 0) - (error < 0);
        decimal.residual = number.negative ? -sign : sign;
        return decimal;
    }
    api_digits digits;
    api_digits_of_product(&digits, number.w, number.q, number.negative);
    return api_digits_to_double(&digits, false);
}

/* ---- scanning --------------------------------------------------------------------------------------------------- */

const uint8_t *api_scan_exponent(const uint8_t *p, api_short *number) {
    const bool minus = *++p == '-';
    p += minus || *p == '+';
    const uint8_t *const start = p;
    int exponent = 0;
    unsigned digit = *p - (unsigned)'0';
    for (; digit <= 9 && p - start < 5; digit = *++p - (unsigned)'0') exponent = exponent * 10 + (int)digit;
    if (p == start || digit <= 9) return NULL;
    number->q += minus ? -exponent : exponent;
    return p;
}

const uint8_t *api_scan_any(const uint8_t *text, api_short *number) {
    const uint8_t *p = text;
    number->negative = *p == '-';
    p += number->negative;
    const uint8_t *const first = p, *point = NULL, *leading = NULL; /* leading: the first digit that is not 0 */
    uint64_t w = 0;
    for (; p - first <= 2 * API_HEAD_DIGITS + 2; p++) {
        const unsigned digit = *p - (unsigned)'0';
        if (*p == '.' && !point) {
            point = p;
        } else if (digit <= 9) {
            if (digit != 0 && !leading) leading = p;
            w = w * 10 + digit;
        } else {
            break;
        }
    }
    const uint8_t *const last = p - 1;
    if (*p - (unsigned)'0' <= 9 || *p == '.' || *first == '.' || last < first || last == point) return NULL;
    if (*first == '0' && last > first && point != first + 1) return NULL;
    /* w has run over where more than 19 digits count */
    if (leading && p - leading - (point && point > leading) > API_HEAD_DIGITS) return NULL;
    number->w = w;
    number->q = point ? (int)(point - last) : 0;
    return (*p | 0x20) == 'e' ? api_scan_exponent(p, number) : p;
}

/* ---- integers --------------------------------------------------------------------------------------------------- */

size_t api_read_unsigned(const char *text, uint64_t *value) {
    size_t length = 0;
    bool fits = true;
    *value = 0;
    for (; text[length] >= '0' && text[length] <= '9'; length++)
        fits = fits && !__builtin_mul_overflow(*value, 10, value) &&
               !__builtin_add_overflow(*value, (uint64_t)(text[length] - '0'), value);
    if (!fits) *value = UINT64_MAX;
    return length;
}

/* ---- the second rounding ---------------------------------------------------------------------------------------- */

/* The double next to the value on the decimal's side, where they differ: a tie of the second rounding becomes none, and
 * nothing else changes, as every value of the smaller formats and every point halfway is a double itself. */
static double nudged(api_decimal decimal) {
    if (decimal.residual == 0 || !isfinite(decimal.value)) return decimal.value;
    return nextafter(decimal.value, decimal.residual > 0 ? INFINITY : -INFINITY);
}

float api_decimal_round_f32(api_decimal decimal) { return (float)nudged(decimal); }

float api_decimal_round_f16(api_decimal decimal) {
    const double value = nudged(decimal);
    return isnan(value) ? NAN : api_float_from_f16(api_f16_from_float(api_float_rounded_to_odd(value)));
}
float api_decimal_round_bf16(api_decimal decimal) {
    const double value = nudged(decimal);
    return isnan(value) ? NAN : api_float_from_bf16(api_bf16_from_float(api_float_rounded_to_odd(value)));
}
