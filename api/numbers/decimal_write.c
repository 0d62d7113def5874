/* decimal_write.c: the shortest decimal that reads back, by Schubfach (Giulietti, "The Schubfach way to render
 * doubles", 2020). Section numbers below are those of the paper. */
#include "decimal_internal.h"

/* digits 10^exponent; zeros at the end are cut later */
typedef struct shortest {
    uint64_t digits;
    int exponent;
} shortest;

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
 * the two neighbours of the value, if both are inside. Without branches, as nothing predicts which it is. */
__attribute__((always_inline)) static inline shortest choose(interval in, int k) {
    const uint64_t s = in.value / 4, tens = s / 10, middle = 4 * s + 2;
    const uint64_t below10 = in.lower <= 40 * tens, above10 = 40 * tens + 40 <= in.upper;
    const uint64_t below = in.lower <= 4 * s, above = 4 * s + 4 <= in.upper;
    const uint64_t nearer = in.value + (s & 1) > middle;
    const uint64_t even = below ^ above, ones = s + ((above & even) | (nearer & (even ^ 1)));
    const uint64_t shorter = (below10 ^ above10) & (s >= 10);
    return (shortest){ones + (-shorter & (10 * (tens + above10) - ones)), k};
}

/* |value| = c 2^q, not 0; `closer`: the neighbour below is at half the distance (a power of two). */
__attribute__((always_inline)) static inline shortest shortest_of(uint64_t c, int q, bool closer, int precision) {
    if (q <= 0 && q > -64 && q + __builtin_ctzll(c) >= 0) return (shortest){c >> -q, 0}; /* an integer */
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

/* The digits of a number below 10^8 as values, the first in the lowest byte: halves, their halves, single digits. The
 * factors are reciprocals of 100 and 10, right for all that can be there. */
static inline uint64_t eight_digits(uint32_t number) {
    const uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
    const uint64_t hundreds = (fours * 5243 >> 19) & 0x0000007F0000007F;
    const uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
    const uint64_t tens = (twos * 103 >> 10) & 0x000F000F000F000F;
    return tens | (twos - 10 * tens) << 8;
}

static void put_eight(char *text, uint64_t eight) { memcpy(text, &eight, sizeof eight); }

static const uint64_t powers[] = {1,
                                  10,
                                  100,
                                  1000,
                                  10000,
                                  100000,
                                  1000000,
                                  10000000,
                                  100000000,
                                  1000000000,
                                  10000000000,
                                  100000000000,
                                  1000000000000,
                                  10000000000000,
                                  100000000000000,
                                  1000000000000000,
                                  10000000000000000,
                                  100000000000000000};

/* Digits of a number from 1 to 10^9, or 10^17 where `wide`; quickly where it has the precision of its type. */
static inline int count_digits(uint64_t number, bool wide) {
    if (wide && number >= powers[15]) return 16 + (number >= powers[16]);
    if (!wide && number >= powers[6]) return 7 + (number >= powers[7]) + (number >= powers[8]);
    int count = 1;
    while (number >= powers[count]) count++;
    return count;
}

static char *write_exponent(char *p, int exponent) {
    *p++ = 'e';
    if (exponent < 0) {
        *p++ = '-';
        exponent = -exponent;
    }
    if (exponent >= 100) *p++ = (char)('0' + exponent / 100);
    if (exponent >= 10) *p++ = (char)('0' + exponent / 10 % 10);
    *p++ = (char)('0' + exponent % 10);
    return p;
}

/* A number of 9 digits, or 17 where `wide`, as text: the first digit, then eights, zeros at the end included; `rest`
 * counts the digits after the first without those. */
typedef struct digits {
    char first;
    uint64_t next, last;
    int rest;
} digits;

static inline digits split_digits(uint64_t number, bool wide) {
    const uint32_t upper = (uint32_t)(wide ? number / 100000000 : number), hundred_million = 100000000;
    const uint64_t ascii = 0x3030303030303030, next = eight_digits(upper % hundred_million);
    const uint64_t last = wide ? eight_digits((uint32_t)(number % hundred_million)) : 0;
    const int rest = last ? 16 - (__builtin_clzll(last) >> 3) : next ? 8 - (__builtin_clzll(next) >> 3) : 0;
    return (digits){(char)('0' + upper / hundred_million), next + ascii, last + ascii, rest};
}

/* d.ddde[-]d */
static char *write_scientific(char *p, digits d, int exponent) {
    p[0] = d.first;
    p[1] = '.';
    put_eight(p + 2, d.next);
    put_eight(p + 10, d.last);
    return write_exponent(p + (d.rest ? 2 + d.rest : 1), exponent);
}

/* Plain notation from 0.0001 to numbers of 17 digits before the point. All is written from registers, in pieces of
 * fixed sizes that overlap. */
__attribute__((always_inline)) static inline size_t write_number(char *text, bool negative, shortest number,
                                                                 bool wide) {
    const int count = count_digits(number.digits, wide), exponent = number.exponent + count - 1;
    const digits d = split_digits(number.digits * powers[(wide ? 17 : 9) - count], wide);
    *text = '-';
    char *p = text + negative;
    if (exponent < -4 || exponent > 16) return (size_t)(write_scientific(p, d, exponent) - text);
    memcpy(p, "0.000000", 8);
    /* no branch on the sign of the exponent either */
    const int small = -(exponent < 0),
              zeros = -exponent & small;  /* before the first digit, one of them before the point */
    const int before = exponent & ~small; /* digits between the first and the point */
    char *const first = p + zeros - small, *const point = p + 1 + before, *const after = point + 1 + zeros;
    *first = d.first;
    put_eight(first + 1, d.next);
    if (wide || d.rest <= exponent) put_eight(first + 9, d.last);
    if (d.rest <= exponent) return (size_t)(first + 1 + exponent - text);
    *point = '.';
    if (wide) {
        const unsigned __int128 rest = ((unsigned __int128)d.last << 64 | d.next) >> 8 * before;
        put_eight(after, (uint64_t)rest);
        put_eight(after + 8, (uint64_t)(rest >> 64));
    } else {
        put_eight(after, d.next >> 8 * before);
    }
    return (size_t)(after + d.rest - before - text);
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
    return write_number(text, bits >> 31, shortest_of(c, q, fraction == 0 && biased > 1, API_BINARY32.precision),
                        false);
}

size_t api_decimal_from_double(char text[API_DECIMAL_MAX], double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint64_t hidden = (uint64_t)1 << 52, fraction = bits & (hidden - 1), biased = bits >> 52 & 0x7FF;
    if (bits << 1 == 0) return write_zero(text, bits != 0);
    const uint64_t c = biased ? fraction | hidden : fraction;
    const int q = (int)(biased ? biased : 1) - 1075;
    return write_number(text, bits >> 63, shortest_of(c, q, fraction == 0 && biased > 1, API_BINARY64.precision), true);
}

/* Their intervals scale as a float's do: the significands have fewer bits, the exponents lie within the table. */
static size_t from_half(char *text, unsigned bits, int fraction_bits, int bias) {
    const unsigned hidden = 1u << fraction_bits, fraction = bits & (hidden - 1);
    const unsigned biased = (bits & 0x7FFF) >> fraction_bits;
    if ((bits & 0x7FFF) == 0) return write_zero(text, bits != 0);
    const uint64_t c = biased ? fraction | hidden : fraction;
    const int q = (int)(biased ? biased : 1) - bias - fraction_bits;
    return write_number(text, bits >> 15, shortest_of(c, q, fraction == 0 && biased > 1, fraction_bits + 1), false);
}

size_t api_decimal_from_f16(char text[API_DECIMAL_MAX], uint16_t bits) { return from_half(text, bits, 10, 15); }
size_t api_decimal_from_bf16(char text[API_DECIMAL_MAX], uint16_t bits) { return from_half(text, bits, 7, 127); }
