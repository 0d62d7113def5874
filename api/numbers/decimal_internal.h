/* decimal_internal.h: what the parts of the decimal conversion share with each other and with the request reader, whose
 * inner loop scans and converts in line (inside api/ only). */
#ifndef API_DECIMAL_INTERNAL_H
#define API_DECIMAL_INTERNAL_H

#include <stdint.h>
#include <string.h>

#include "decimal.h"

/* ---- powers of ten ---------------------------------------------------------------------------------------------- */

/* 10^q = (hi 2^64 + lo + t) 2^e with hi >= 2^63, 0 <= t < 1 and e = floor(log2 10^q) - 127; t is 0 where
 * 0 <= q <= API_POWER_EXACT. Filled before main by exact integer arithmetic (decimal_table.c). */
#define API_POWER_MIN (-348)
#define API_POWER_MAX 325
#define API_POWER_EXACT 55 /* 5^55 < 2^128 */
typedef struct api_power {
    uint64_t hi, lo;
} api_power;
extern api_power api_powers[API_POWER_MAX - API_POWER_MIN + 1];

/* floor(log2 10^q), right for |q| < 1000 */
static inline int api_log2_power(int q) { return (q * 1741647) >> 19; }

/* ---- binary formats --------------------------------------------------------------------------------------------- */

typedef struct api_binary {
    int precision; /* significant bits, the hidden one counted */
    int emax;      /* the largest exponent of a finite value 1.xxx 2^e; the least of a normal one is 1 - emax */
} api_binary;
#define API_BINARY32 ((api_binary){24, 127})
#define API_BINARY64 ((api_binary){53, 1023})

/* Bits of infinity: above those of every finite value, and next to those of the largest. */
static inline uint64_t api_infinity_bits(api_binary format) {
    return ((uint64_t)(2 * format.emax + 1)) << (format.precision - 1);
}

static inline float api_float_of_bits(uint64_t bits, bool negative) {
    const uint32_t word = (uint32_t)bits | (uint32_t)negative << 31;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static inline double api_double_of_bits(uint64_t bits, bool negative) {
    const uint64_t word = bits | (uint64_t)negative << 63;
    double value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* Rounds w 10^q to the nearest value of the format, ties to even, by one product with a 128-bit power of ten (after
 * Lemire, arXiv:2101.11408; here the error is bounded instead of excluded). The power is a floor, off by less than one
 * unit, so the 192-bit product P satisfies P <= true value < P + 2^64: only where this interval reaches a point halfway
 * between two values the answer is unknown; then false is returned, and *bits is one of the two. Any w and q. */
static inline bool api_round_product(uint64_t w, int q, api_binary format, uint64_t *bits) {
    *bits = 0;
    if (w == 0 || q < API_POWER_MIN) return true; /* 2^64 10^-349 is far below half the least double */
    *bits = api_infinity_bits(format);
    if (q > API_POWER_MAX) return true;
    const api_power power = api_powers[q - API_POWER_MIN];
    const int zeros = __builtin_clzll(w);
    const uint64_t normal = w << zeros;
    const unsigned __int128 below = (unsigned __int128)normal * power.lo;
    const unsigned __int128 above = (unsigned __int128)normal * power.hi + (uint64_t)(below >> 64);
    const uint64_t high = (uint64_t)(above >> 64), middle = (uint64_t)above, low = (uint64_t)below;
    const bool exact = q >= 0 && q <= API_POWER_EXACT;
    const int width = 63 + (int)(high >> 63);               /* bits of `high` */
    const int exponent = api_log2_power(q) - zeros + width; /* floor(log2) of the product */
    if (exponent > format.emax) return true;
    const int deficit = 1 - format.emax - exponent; /* > 0: subnormal */
    const int drop = width - format.precision + (deficit > 0 ? deficit : 0);
    if (drop >= 64) { /* less than half the least value, or close to half of it */
        *bits = 0;
        return drop > width && high != UINT64_MAX >> (64 - width);
    }
    const uint64_t half = (uint64_t)1 << (drop - 1), rest = high & (2 * half - 1), kept = high >> drop;
    *bits = kept + (deficit > 0 ? 0 : (uint64_t)(exponent + format.emax - 1) << (format.precision - 1));
    if (rest == half - 1 && middle >= UINT64_MAX - 1 && !exact) return false;
    /* On the very middle a product that is not exact is less than the true value. */
    *bits += rest > half || (rest == half && ((middle | low) != 0 || !exact || (kept & 1)));
    return true;
}

/* ---- decimals of any length ------------------------------------------------------------------------------------- */

/* A point halfway between two doubles has at most 767 significant digits: of the digits past these only whether one is
 * not 0 matters. */
#define API_DIGITS_MAX 800
typedef struct api_digits {
    uint64_t head; /* the first 19 digits as an integer */
    bool negative;
    bool sticky;      /* a digit other than 0 was left out */
    unsigned count;   /* digits kept, from the first that is not 0 */
    int64_t scale;    /* the number is digits 10^scale 10^exponent */
    int64_t exponent; /* as written; stops growing far beyond every range */
    bool exponent_negative;
    uint8_t digit[API_DIGITS_MAX];
} api_digits;
#define API_HEAD_DIGITS 19 /* the most that fit 64 bits */

static inline void api_digits_start(api_digits *digits) {
    digits->negative = digits->sticky = digits->exponent_negative = false;
    digits->head = 0;
    digits->count = 0;
    digits->scale = digits->exponent = 0;
}

/* The next digit; `fraction` tells on which side of the point. */
static inline void api_digits_add(api_digits *digits, unsigned digit, bool fraction) {
    if (digits->count == 0 && digit == 0) {
        digits->scale -= fraction;
    } else if (digits->count < API_DIGITS_MAX) {
        if (digits->count < API_HEAD_DIGITS) digits->head = digits->head * 10 + digit;
        digits->digit[digits->count++] = (uint8_t)digit;
        digits->scale -= fraction;
    } else {
        digits->sticky |= digit != 0;
        digits->scale += !fraction;
    }
}

static inline void api_digits_add_exponent(api_digits *digits, unsigned digit) {
    if (digits->exponent < INT64_MAX / 100) digits->exponent = digits->exponent * 10 + digit;
}

api_decimal api_digits_to_double(const api_digits *digits, bool exact);
float api_digits_to_float(const api_digits *digits);
/* w 10^q exactly as digits */
void api_digits_of_product(api_digits *digits, uint64_t w, int q, bool negative);

/* Sign of |digits 10^q| - m 2^f, for numbers within a factor of four of each other; q replaces the digits' own scale
 * and exponent. */
int api_digits_compare(const api_digits *digits, int q, uint64_t m, int f);

/* Whether something depends on the residual of a double with these bits (no sign), other than its own value: there is a
 * point halfway between two values of F32, F16 or BF16 where the significand has 25 bits, or at most 12, or any number
 * of up to 25 below the normal range of F32; and it may be taken for an integer. Small integers have few bits; the rest
 * of them is not told from other numbers of 2048 and more here. */
static inline bool api_needs_residual(uint64_t bits) {
    const uint64_t bit25 = (uint64_t)1 << 28, below12 = ((uint64_t)1 << 41) - 1;
    return ((bits & (bit25 - 1)) == 0 && ((bits & bit25) || (bits & below12) == 0)) ||
           (bits >> 52) - (1023 - 126) >= 126 + 11; /* below 2^-126, or 2048 and more */
}

/* ---- short decimals --------------------------------------------------------------------------------------------- */

/* A number of at most 19 significant digits: w 10^q */
typedef struct api_short {
    uint64_t w;
    int q;
    bool negative;
} api_short;

float api_short_to_float(api_short number);
double api_short_to_double(api_short number);
/* With the residual wherever api_needs_residual. */
api_decimal api_short_to_decimal(api_short number);

/* The usual case of api_round_product in line: by the high half of the power alone. The product's high word, its top
 * bit made 1, is too small by less than two of its units. False, and nothing said, where that leaves the rounding open
 * or the value is not a normal one. */
__attribute__((always_inline)) static inline bool api_round_quickly(api_short number, api_binary format,
                                                                    uint64_t *bits) {
    *bits = 0;
    if (number.w == 0) return true;
    if ((unsigned)(number.q - API_POWER_MIN) > API_POWER_MAX - API_POWER_MIN) return false;
    const int zeros = __builtin_clzll(number.w);
    const uint64_t power = api_powers[number.q - API_POWER_MIN].hi;
    const uint64_t product = (uint64_t)(((unsigned __int128)(number.w << zeros) * power) >> 64);
    const int carry = (int)(product >> 63), exponent = api_log2_power(number.q) - zeros + 63 + carry;
    const uint64_t high = product << (1 - carry), half = (uint64_t)1 << (63 - format.precision);
    if ((high & (2 * half - 1)) - (half - 2) <= 2 ||
        (unsigned)(exponent + format.emax - 1) >= 2u * (unsigned)format.emax - 1)
        return false;
    *bits = (((high >> (63 - format.precision)) + 1) >> 1) +
            ((uint64_t)(exponent + format.emax - 1) << (format.precision - 1));
    return true;
}

/* Bit 7 of each byte that is not a digit; above the first such byte, as the sums carry, bits may be wrong. */
static inline uint64_t api_no_digits(uint64_t bytes) {
    return ((bytes + 0x4646464646464646) | (bytes - 0x3030303030303030)) & 0x8080808080808080;
}

/* The value of eight digits, the first in the lowest byte, each less '0': pairs, then the four pairs by two products
 * whose upper halves hold the sums. */
static inline uint32_t api_eight_value(uint64_t digits) {
    digits = digits * 10 + (digits >> 8);
    const uint64_t mask = 0x000000FF000000FF;
    return (uint32_t)(((digits & mask) * (100 + ((uint64_t)1000000 << 32)) +
                       ((digits >> 16) & mask) * (1 + ((uint64_t)10000 << 32))) >>
                      32);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte of a text is the lowest of a word");
static inline uint64_t api_load_eight(const uint8_t *text) {
    uint64_t bytes;
    memcpy(&bytes, text, sizeof bytes);
    return bytes;
}

/* w 10^n + the first n of the digits (0 to 7 of them), with stop = 8 n + 7 */
static inline uint64_t api_add_digits(uint64_t w, uint64_t digits, unsigned stop) {
    static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    return w * powers[stop / 8] + api_eight_value((digits - 0x3030303030303030) << 8 << (63 - stop));
}

/* The parts of api_scan_number for what is less usual: an exponent, of which `p` is the e, and all other forms of
 * numbers. */
const uint8_t *api_scan_exponent(const uint8_t *p, api_short *number);
const uint8_t *api_scan_any(const uint8_t *text, api_short *number);
/* By way of a variable of its own, so that the caller's can stay in registers. */
static inline const uint8_t *api_scan_rest(const uint8_t *(*part)(const uint8_t *, api_short *), const uint8_t *p,
                                           api_short *number) {
    api_short copy = *number;
    p = part(p, &copy);
    *number = copy;
    return p;
}

/* Scans one short number of the JSON grammar at `text`, of which API_SCAN_ROOM bytes can be read. Returns its end;
 * NULL where it is malformed, too long, or not a number at all: then the slow way tells which. In line: up to 7 digits
 * before the point, the digits read by eights as if there were no point. */
#define API_SCAN_ROOM 80
__attribute__((always_inline)) static inline const uint8_t *api_scan_number(const uint8_t *text, api_short *number) {
    /* the largest w that may be followed by so many digits */
    static const uint64_t most[] = {UINT64_MAX,      999999999999999999, 99999999999999999, 9999999999999999,
                                    999999999999999, 99999999999999,     9999999999999,     999999999999};
    const uint8_t *p = text;
    *number = (api_short){.negative = *p == '-'};
    p += number->negative;
    unsigned point = 8; /* bits of the digits before it */
    uint64_t first = (api_load_eight(p + 1) & ~(uint64_t)0xFF) | *p;
    if (p[1] != '.') {
        const uint64_t head = api_load_eight(p), others = api_no_digits(head);
        if (others == 0) return api_scan_rest(api_scan_any, text, number);
        const unsigned stop = (unsigned)__builtin_ctzll(others);
        point = stop - 7;
        if (point == 0 || (point > 8 && *p == '0')) return NULL;
        if ((head >> point & 0xFF) != '.') {
            number->w = api_add_digits(0, head, stop);
            p += point / 8;
            return (*p | 0x20) == 'e' ? api_scan_rest(api_scan_exponent, p, number) : p;
        }
        const uint64_t before = ((uint64_t)1 << point) - 1;
        first = (head & before) | (api_load_eight(p + 1) & ~before);
    }
    uint64_t next = first, others = api_no_digits(first);
    p++;
    if (others == 0) {
        number->w = api_eight_value(first - 0x3030303030303030);
        next = api_load_eight(p += 8);
        others = api_no_digits(next);
        number->q = -8;
        if (others == 0) {
            number->w = number->w * 100000000 + api_eight_value(next - 0x3030303030303030);
            next = api_load_eight(p += 8);
            others = api_no_digits(next);
            number->q = -16;
            if (others == 0) return api_scan_rest(api_scan_any, text, number);
        }
    }
    const unsigned stop = (unsigned)__builtin_ctzll(others);
    if (number->w > most[stop / 8]) return api_scan_rest(api_scan_any, text, number);
    number->w = api_add_digits(number->w, next, stop);
    number->q += (int)(point / 8) - (int)(stop / 8);
    p += stop / 8;
    if (number->q >= 0) return NULL; /* no digit after the point, or before it */
    return (*p | 0x20) == 'e' ? api_scan_rest(api_scan_exponent, p, number) : p;
}

#endif
