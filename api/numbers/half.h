/* half.h: the 16-bit formats, F16 (IEEE 754 binary16) and BF16 (the upper half of a float) (inside api/ only).
 *
 * Rounding is to nearest, ties to even; what is too large becomes an infinity. The functions have no branches that a
 * compiler could not turn into selections, so that loops over them are vectorized.
 */
#ifndef API_HALF_H
#define API_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t api_bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float api_float_from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float api_float_from_bf16(uint16_t bits) { return api_float_from_bits((uint32_t)bits << 16); }

/* The exponent's bias differs by 112; the product is exact, of subnormal numbers too. */
static inline float api_float_from_f16(uint16_t bits) {
    const uint32_t magnitude = (uint32_t)(bits & 0x7FFF) << 13, sign = (uint32_t)(bits & 0x8000) << 16;
    const uint32_t finite = api_bits_of_float(api_float_from_bits(magnitude) * 0x1p112f);
    return api_float_from_bits(sign | ((bits & 0x7C00) == 0x7C00 ? magnitude | 0x7F800000 : finite));
}

/* x is no NaN */
static inline uint16_t api_bf16_from_float(float x) {
    const uint32_t bits = api_bits_of_float(x);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* x is no NaN. Below 2^-14 the sum with 1/2, whose last bit is 2^-24, rounds as F16's subnormal numbers do. */
static inline uint16_t api_f16_from_float(float x) {
    const uint32_t bits = api_bits_of_float(x), magnitude = bits & 0x7FFFFFFF;
    const uint32_t normal = (magnitude + 0xFFF + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
    const uint32_t small = api_bits_of_float(api_float_from_bits(magnitude) + 0.5f) - (126u << 23);
    const uint32_t rounded = magnitude < (113u << 23) ? small : magnitude >= 0x477FF000 ? 0x7C00 : normal;
    return (uint16_t)(rounded | (bits >> 16 & 0x8000));
}

/* The float beside x whose last bit is odd, x itself where it is a float: rounding it again to 16 bits gives what
 * rounding x would give (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008, section 3). */
static inline float api_float_rounded_to_odd(double x) {
    const float nearest = (float)x;
    const double back = (double)nearest, size = x < 0 ? -x : x, back_size = back < 0 ? -back : back;
    uint32_t bits = api_bits_of_float(nearest);
    bits -= back_size > size;
    bits |= back != x;
    return api_float_from_bits(bits);
}

#endif
