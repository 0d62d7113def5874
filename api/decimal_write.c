/* decimal_write.c: the shortest decimal that reads back, by Schubfach (Giulietti, "The Schubfach way to render
 * doubles", 2020). Section numbers below are those of the paper. */
#include "decimal_internal.h"

/* digits 10^exponent, before trailing zeros are cut */
typedef struct shortest {
    uint64_t digits;
    int exponent;
} shortest;

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                  "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

/* Powers as ceilings (section 9.7): g 2^e with g one above the floor unless that is exact. */
static api_power ceiling128(int q) {
    api_power power = api_powers[q - API_POWER_MIN];
    if (q < 0 || q > API_POWER_EXACT) power.hi += ++power.lo == 0;
    return power;
}
static uint64_t ceiling64(int q) { return api_powers[q - API_POWER_MIN].hi + (q < 0 || q > 27); } /* 5^27 < 2^63 */

/* Rounding to odd of g c 2^-128 and 2^-64: the last bit tells whether anything was cut off; g's own error, less than
 * one unit, does not count as such (section 9.9). */
static uint64_t scaled_double(api_power g, uint64_t c) {
    const uint64_t carry = (uint64_t)(((unsigned __int128)g.lo * c) >> 64);
    const unsigned __int128 product = (unsigned __int128)g.hi * c + carry;
    return (uint64_t)(product >> 64) | ((uint64_t)product > 1);
}
static uint64_t scaled_float(uint64_t g, uint64_t c) {
    const unsigned __int128 product = (unsigned __int128)g * c;
    return (uint64_t)(product >> 64) | ((uint32_t)((uint64_t)product >> 32) > 1);
}

/* The interval that rounds to the value, its ends times four and scaled; ends belong to it where the significand is
 * even. */
typedef struct interval {
    uint64_t lower, value, upper;
} interval;

/* Section 8: among the multiples of ten in the interval there is at most one, and it is shorter; else the closer one of
 * the two neighbours of the value, if both are inside. */
static shortest choose(interval in, int k) {
    const uint64_t s = in.value / 4;
    if (s >= 10) {
        const uint64_t tens = s / 10;
        const bool below = in.lower <= 40 * tens, above = 40 * tens + 40 <= in.upper;
        if (below != above) return (shortest){tens + above, k + 1};
    }
    const bool below = in.lower <= 4 * s, above = 4 * s + 4 <= in.upper;
    if (below != above) return (shortest){s + above, k};
    const uint64_t middle = 4 * s + 2;
    return (shortest){s + (in.value > middle || (in.value == middle && (s & 1))), k};
}

/* |value| = c 2^q, not 0; `closer`: the neighbour below is at half the distance (a power of two). */
static shortest shortest_of(uint64_t c, int q, bool closer, int precision) {
    if (q <= 0 && -q < precision && (c & (((uint64_t)1 << -q) - 1)) == 0)
        return (shortest){c >> -q, 0}; /* an integer */
    const uint64_t odd = c & 1, left = 4 * c - 2 + closer, right = 4 * c + 2;
    const int k = (q * 1262611 - (closer ? 524031 : 0)) >> 22; /* floor(log10(2^q)), of 3/4 2^q where closer */
    const int h = q + api_log2_power(-k) + 1;                  /* 1 to 4 */
    interval in;
    if (precision == API_BINARY64.precision) {
        const api_power g = ceiling128(-k);
        in = (interval){scaled_double(g, left << h), scaled_double(g, 4 * c << h), scaled_double(g, right << h)};
    } else {
        const uint64_t g = ceiling64(-k);
        in = (interval){scaled_float(g, left << h), scaled_float(g, 4 * c << h), scaled_float(g, right << h)};
    }
    in.lower += odd;
    in.upper -= odd;
    return choose(in, k);
}

/* Writes the digits of a number below 10^17 so that they end at `end`. Returns the first. */
static char *write_digits(char *end, uint64_t number) {
    while (number >= 100) {
        memcpy(end -= 2, digit_pairs + 2 * (number % 100), 2);
        number /= 100;
    }
    if (number >= 10)
        memcpy(end -= 2, digit_pairs + 2 * number, 2);
    else
        *--end = (char)('0' + number);
    return end;
}

static char *write_exponent(char *p, int exponent) {
    *p++ = 'e';
    if (exponent < 0) {
        *p++ = '-';
        exponent = -exponent;
    }
    char digits[4];
    char *const first = write_digits(digits + sizeof digits, (uint64_t)exponent);
    const size_t count = (size_t)(digits + sizeof digits - first);
    memcpy(p, first, count);
    return p + count;
}

/* Plain notation from 0.0001 to numbers of 17 digits before the point, else d.ddde[-]d. */
static size_t write_number(char *text, bool negative, shortest number) {
    while (number.digits % 10 == 0) {
        number.digits /= 10;
        number.exponent++;
    }
    char buffer[24];
    const char *const digits = write_digits(buffer + sizeof buffer, number.digits);
    const int count = (int)(buffer + sizeof buffer - digits), point = count + number.exponent;
    char *p = text;
    if (negative) *p++ = '-';
    if (point > 17 || point < -3) {
        *p++ = digits[0];
        if (count > 1) *p++ = '.';
        memcpy(p, digits + 1, (size_t)count - 1);
        p = write_exponent(p + count - 1, point - 1);
    } else if (point <= 0) {
        memcpy(p, "0.000", 5);
        p += 2 - point;
        memcpy(p, digits, (size_t)count);
        p += count;
    } else if (point >= count) {
        memcpy(p, digits, (size_t)count);
        memset(p + count, '0', (size_t)(point - count));
        p += point;
    } else {
        memcpy(p, digits, (size_t)point);
        p[point] = '.';
        memcpy(p + point + 1, digits + point, (size_t)(count - point));
        p += count + 1;
    }
    return (size_t)(p - text);
}

static size_t write_zero(char *text, bool negative) {
    memcpy(text, negative ? "-0.0" : "0", negative ? 4 : 1);
    return negative ? 4 : 1;
}

size_t api_decimal_from_float(char text[API_DECIMAL_MAX], float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t fraction = bits & 0x7FFFFF, biased = bits >> 23 & 0xFF;
    if ((bits & 0x7FFFFFFF) == 0) return write_zero(text, bits != 0);
    const uint64_t c = biased ? fraction | 0x800000 : fraction;
    const int q = (int)(biased ? biased : 1) - 150;
    return write_number(text, bits >> 31, shortest_of(c, q, fraction == 0 && biased > 1, API_BINARY32.precision));
}

size_t api_decimal_from_double(char text[API_DECIMAL_MAX], double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint64_t hidden = (uint64_t)1 << 52, fraction = bits & (hidden - 1), biased = bits >> 52 & 0x7FF;
    if (bits << 1 == 0) return write_zero(text, bits != 0);
    const uint64_t c = biased ? fraction | hidden : fraction;
    const int q = (int)(biased ? biased : 1) - 1075;
    return write_number(text, bits >> 63, shortest_of(c, q, fraction == 0 && biased > 1, API_BINARY64.precision));
}

/* Their intervals scale as a float's do: the significands have fewer bits, the exponents lie within the table. */
static size_t from_half(char *text, unsigned bits, int fraction_bits, int bias) {
    const unsigned hidden = 1u << fraction_bits, fraction = bits & (hidden - 1);
    const unsigned biased = (bits & 0x7FFF) >> fraction_bits;
    if ((bits & 0x7FFF) == 0) return write_zero(text, bits != 0);
    const uint64_t c = biased ? fraction | hidden : fraction;
    const int q = (int)(biased ? biased : 1) - bias - fraction_bits;
    return write_number(text, bits >> 15, shortest_of(c, q, fraction == 0 && biased > 1, fraction_bits + 1));
}

size_t api_decimal_from_f16(char text[API_DECIMAL_MAX], uint16_t bits) { return from_half(text, bits, 10, 15); }
size_t api_decimal_from_bf16(char text[API_DECIMAL_MAX], uint16_t bits) { return from_half(text, bits, 7, 127); }
