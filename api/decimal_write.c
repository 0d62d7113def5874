/* decimal_write.c: the shortest decimal that reads back, by Schubfach (Giulietti, "The Schubfach way to render
 * doubles", 2020). Section numbers below are those of the paper. */
#include "decimal_internal.h"

/* digits 10^exponent, before trailing zeros are cut */
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
 * the two neighbours of the value, if both are inside. Chosen without a branch: which of them it is follows no pattern.
 */
static inline shortest choose(interval in, int k) {
    const uint64_t s = in.value / 4, tens = s / 10, middle = 4 * s + 2;
    const bool ten_below = in.lower <= 40 * tens, ten_above = 40 * tens + 40 <= in.upper;
    const bool below = in.lower <= 4 * s, above = 4 * s + 4 <= in.upper;
    const bool closer_above = (in.value > middle) | ((in.value == middle) & (s & 1));
    const uint64_t one = s + ((above & !below) | ((above == below) & closer_above)), ten = tens + ten_above;
    const bool is_ten = (s >= 10) & (ten_below ^ ten_above);
    return (shortest){one ^ ((one ^ ten) & -(uint64_t)is_ten), k + is_ten};
}

/* |value| = c 2^q, not 0; `closer`: the neighbour below is at half the distance (a power of two). */
static inline __attribute__((always_inline)) shortest shortest_of(uint64_t c, int q, bool closer, int precision) {
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

/* ---- text: made in registers, as the number of digits follows no pattern that a loop over them could be predicted by
 * - */

static const uint64_t tens[] = {1ull,
                                10ull,
                                100ull,
                                1000ull,
                                10000ull,
                                100000ull,
                                1000000ull,
                                10000000ull,
                                100000000ull,
                                1000000000ull,
                                10000000000ull,
                                100000000000ull,
                                1000000000000ull,
                                10000000000000ull,
                                100000000000000ull,
                                1000000000000000ull,
                                10000000000000000ull,
                                100000000000000000ull};

/* The number of digits of a number from 1 to 10^18 - 1. */
static inline int count_digits(uint64_t number) {
    const int guess = ((64 - __builtin_clzll(number)) * 1233) >> 12; /* floor of bits log10(2): the count or one less */
    return guess + (number >= tens[guess]);
}

/* The eight digits of a number below 10^8 as bytes 0 to 9, the first in the lowest: halves, then pairs, then digits, in
 * all lanes at once. x 5243 / 2^19 is x / 100 below 10^4, x 103 / 2^10 is x / 10 below 100. */
static inline uint64_t eight_bytes(uint32_t number) {
    const uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
    const uint64_t hundreds = (fours * 5243 >> 19) & 0x0000007F0000007F;
    const uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
    const uint64_t ten = (twos * 103 >> 10) & 0x000F000F000F000F;
    return ten | (twos - 10 * ten) << 8;
}

/* A decimal d.dddddddd ddddddddd 10^(point - 1): the first digit and sixteen more as bytes 0 to 9; `count` of all are
 * significant, the others 0. */
typedef struct spread {
    unsigned first;
    uint64_t next, last;
    int count, point;
} spread;

/* Of numbers below 10^9, which a float's and a half's digits are. */
static inline spread spread_short(shortest number) {
    const int digits = count_digits(number.digits);
    const uint32_t n = (uint32_t)(number.digits * tens[9 - digits]);
    const uint64_t next = eight_bytes(n % 100000000);
    return (spread){n / 100000000, next, 0, next ? 9 - __builtin_clzll(next) / 8 : 1, digits + number.exponent};
}

/* Of numbers below 10^17. */
static inline spread spread_long(shortest number) {
    const int digits = count_digits(number.digits);
    const uint64_t n = number.digits * tens[17 - digits], rest = n % tens[16];
    const uint64_t next = eight_bytes((uint32_t)(rest / tens[8])), last = eight_bytes((uint32_t)(rest % tens[8]));
    const int count = last ? 17 - __builtin_clzll(last) / 8 : next ? 9 - __builtin_clzll(next) / 8 : 1;
    return (spread){(unsigned)(n / tens[16]), next, last, count, digits + number.exponent};
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

/* Plain notation from 0.0001 to numbers of 17 digits before the point, else d.ddde[-]d. */
static inline size_t write_number(char *text, bool negative, spread s) {
    const uint64_t zeros = 0x3030303030303030;
    const unsigned __int128 rest = (unsigned __int128)(s.last | zeros) << 64 | (s.next | zeros);
    const char first = (char)('0' + s.first);
    *text = '-';
    char *p = text + negative;
    if (s.point <= 0 && s.point >= -3) {
        memcpy(p, "0.000", 5);
        p += 2 - s.point;
        *p = first;
        memcpy(p + 1, &rest, 16);
        p += s.count;
    } else if (s.point > 0 && s.point <= 17) {
        const unsigned __int128 fraction = rest >> (8 * (unsigned)(s.point - 1) & 127);
        *p = first;
        memcpy(p + 1, &rest, 16);
        p[s.point] = '.';
        memcpy(p + s.point + 1, &fraction, 16); /* of no meaning where the number is whole */
        p += s.count > s.point ? s.count + 1 : s.point;
    } else {
        *p = first;
        p[1] = '.';
        memcpy(p + 2, &rest, 16);
        p = write_exponent(p + (s.count > 1 ? s.count + 1 : 1), s.point - 1);
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
    return write_number(text, bits >> 31,
                        spread_short(shortest_of(c, q, fraction == 0 && biased > 1, API_BINARY32.precision)));
}

size_t api_decimal_from_double(char text[API_DECIMAL_MAX], double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint64_t hidden = (uint64_t)1 << 52, fraction = bits & (hidden - 1), biased = bits >> 52 & 0x7FF;
    if (bits << 1 == 0) return write_zero(text, bits != 0);
    const uint64_t c = biased ? fraction | hidden : fraction;
    const int q = (int)(biased ? biased : 1) - 1075;
    return write_number(text, bits >> 63,
                        spread_long(shortest_of(c, q, fraction == 0 && biased > 1, API_BINARY64.precision)));
}

/* Their intervals scale as a float's do: the significands have fewer bits, the exponents lie within the table. */
static size_t from_half(char *text, unsigned bits, int fraction_bits, int bias) {
    const unsigned hidden = 1u << fraction_bits, fraction = bits & (hidden - 1);
    const unsigned biased = (bits & 0x7FFF) >> fraction_bits;
    if ((bits & 0x7FFF) == 0) return write_zero(text, bits != 0);
    const uint64_t c = biased ? fraction | hidden : fraction;
    const int q = (int)(biased ? biased : 1) - bias - fraction_bits;
    return write_number(text, bits >> 15,
                        spread_short(shortest_of(c, q, fraction == 0 && biased > 1, fraction_bits + 1)));
}

size_t api_decimal_from_f16(char text[API_DECIMAL_MAX], uint16_t bits) { return from_half(text, bits, 10, 15); }
size_t api_decimal_from_bf16(char text[API_DECIMAL_MAX], uint16_t bits) { return from_half(text, bits, 7, 127); }
