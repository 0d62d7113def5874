/* The reference is exact: midpoints of neighbouring values are written out with all their digits by integer arithmetic,
 * so which way a decimal on, above or below one must go is known beforehand; elsewhere strtod and strtof, which glibc
 * rounds correctly at any length. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../api/numbers/decimal.h"
#include "../support/check.h"
#include "decimal_text.h"

#define TEXT 1400

static double double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* m 2^f exactly, as digits, a point, zeros and an exponent. Decimal integers in groups of nine digits. */
static void print_exactly(char text[TEXT], uint64_t m, int f) {
    const uint64_t base = 1000000000, five9 = 1953125; /* m 2^-9 = m 5^9 10^-9 */
    uint64_t groups[100] = {m % base, m / base % base, m / base / base};
    size_t count = 3;
    int left = f, exponent = 0;
    while (left != 0) {
        const int step = left > 0 ? (left > 20 ? 20 : left) : left < -9 ? -9 : -1;
        const uint64_t factor = step > 0 ? UINT64_C(1) << step : step == -9 ? five9 : 5;
        uint64_t carry = 0;
        for (size_t i = 0; i < count; i++) {
            carry += groups[i] * factor;
            groups[i] = carry % base;
            carry /= base;
        }
        if (carry) groups[count++] = carry;
        if (step < 0) exponent += step;
        left -= step;
    }
    while (count > 1 && groups[count - 1] == 0) count--;
    text += sprintf(text, "%" PRIu64, groups[count - 1]);
    while (--count > 0) text += sprintf(text, "%09" PRIu64, groups[count - 1]);
    sprintf(text, ".000000000000000000000000e%d", exponent);
}

/* The decimal next below in the last place but some: borrow from the last digit that is not 0. */
static void step_down(char text[TEXT]) {
    char *e = strchr(text, 'e'), *p = e - 1;
    for (; *p == '0' || *p == '.'; p--)
        if (*p == '0') *p = '9';
    --*p;
}
static void step_up(char text[TEXT]) { *(strchr(text, 'e') - 1) = '1'; }

static void check_double(const char *text, double expected, int residual) {
    const size_t length = strlen(text);
    const api_decimal got = double_of_text(text, length, true);
    CHECK(bits_of(got.value) == bits_of(expected), "%.60s... is %a, got %a", text, expected, got.value);
    if (residual != 2) CHECK(got.residual == residual, "%.60s...: residual %d, got %d", text, residual, got.residual);
}

static void check_float(const char *text, float expected) {
    const float got = float_of_text(text, strlen(text));
    CHECK(float_bits(got) == float_bits(expected), "%.60s... is %a, got %a", text, (double)expected, (double)got);
    const float twice = api_decimal_round_f32(double_of_text(text, strlen(text), false));
    CHECK(float_bits(twice) == float_bits(expected), "%.60s... by way of double is %a, got %a", text, (double)expected,
          (double)twice);
}

static uint64_t random_double_bits(void) {
    const uint64_t r = check_random();
    const uint64_t bits = check_random_below(4) == 0 ? r & ((UINT64_C(1) << (1 + check_random_below(54))) - 1) : r >> 1;
    return bits < UINT64_C(0x7FF0000000000000) - 1 ? bits : 12345;
}

static void test_doubles_at_midpoints(void) {
    for (size_t i = 0, rounds = check_rounds(3000); i < rounds; i++) {
        const uint64_t bits = i == 0   ? 0
                              : i == 1 ? UINT64_C(0x7FEFFFFFFFFFFFFF)
                              : i == 2 ? UINT64_C(0xFFFFFFFFFFFFF)
                                       : random_double_bits();
        const double low = double_of(bits), high = double_of(bits + 1);
        const uint64_t hidden = UINT64_C(1) << 52, biased = bits >> 52;
        const uint64_t m = (bits & (hidden - 1)) | (biased ? hidden : 0);
        const int f = (int)(biased ? biased : 1) - 1075; /* low = m 2^f */
        char text[TEXT];
        print_exactly(text, 2 * m + 1, f - 1);
        const bool up = bits & 1;
        check_double(text, up ? high : low, up ? -1 : 1);
        step_up(text);
        check_double(text, high, -1);
        print_exactly(text, 2 * m + 1, f - 1);
        step_down(text);
        check_double(text, low, 1);
        print_exactly(text, m, f);
        check_double(text, low, 0);
    }
}

static void test_floats_at_midpoints(void) {
    for (size_t i = 0, rounds = check_rounds(20000); i < rounds; i++) {
        const uint32_t bits = i == 0   ? 0
                              : i == 1 ? 0x7F7FFFFF
                              : i == 2 ? 0x7FFFFF
                                       : (uint32_t)check_random() & 0x7FFFFFFF;
        if (bits > 0x7F7FFFFF) continue;
        const float low = float_of(bits), high = float_of(bits + 1);
        const uint32_t biased = bits >> 23;
        const uint64_t m = (bits & 0x7FFFFF) | (biased ? 0x800000 : 0);
        const int f = (int)(biased ? biased : 1) - 150;
        char text[TEXT];
        print_exactly(text, 2 * m + 1, f - 1);
        check_float(text, bits & 1 ? high : low);
        step_down(text);
        check_float(text, low);
        print_exactly(text, 2 * m + 1, f - 1);
        step_up(text);
        check_float(text, high);
    }
}

static void test_powers_of_ten(void) {
    for (int q = -420; q <= 420; q++) {
        static const char *const heads[] = {"1", "9", "18446744073709551615", "9999999999999999999", "-7.00"};
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
            char text[64];
            snprintf(text, sizeof text, "%se%d", heads[i], q);
            check_double(text, strtod(text, NULL), 2);
            check_float(text, strtof(text, NULL));
        }
    }
}

static void check_text(const char *text) {
    const double x = strtod(text, NULL);
    const float y = strtof(text, NULL);
    check_double(text, x, 2);
    check_float(text, y);
    uint8_t padded[TEXT + API_SCAN_ROOM];
    const size_t length = strlen(text);
    memcpy(padded, text, length);
    memset(padded + length, ',', API_SCAN_ROOM);
    api_short number;
    const uint8_t *const end = api_scan_number(padded, &number);
    if (!end) return;
    CHECK(end == padded + length, "%s: the scan stopped after %td", text, end - padded);
    CHECK(bits_of(api_short_to_double(number)) == bits_of(x), "%s scanned", text);
    CHECK(float_bits(api_short_to_float(number)) == float_bits(y), "%s scanned as float", text);
    const api_decimal a = api_short_to_decimal(number), b = double_of_text(text, length, false);
    CHECK(a.residual == b.residual, "%s: residual %d scanned, %d read", text, a.residual, b.residual);
}

static void test_random_decimals(void) {
    for (size_t i = 0, rounds = check_rounds(200000); i < rounds; i++) {
        char text[TEXT];
        const double x = i % 2 ? check_random_normal() : double_of(random_double_bits());
        switch (check_random_below(4)) {
        case 0: snprintf(text, sizeof text, "%.16e", x); break;
        case 1: snprintf(text, sizeof text, "%.*e", (int)check_random_below(25), x); break;
        case 2: snprintf(text, sizeof text, "%.8e", x); break;
        default: snprintf(text, sizeof text, "%.*f", (int)check_random_below(30), fmod(x, 1e18)); break;
        }
        check_text(text);
    }
}

static void test_scan_takes_what_is_short(void) {
    static const char *const texts[] = {"0",
                                        "-0",
                                        "0.0",
                                        "1",
                                        "-1.5",
                                        "0.1",
                                        "1e5",
                                        "1E+5",
                                        "1.25e-7",
                                        "123456789.123456789",
                                        "0.00000000000000000001234567890123456789",
                                        "1234567890123456789",
                                        "1e99999",
                                        "0.000000000000000000000000",
                                        "12345678.12345678901"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[API_SCAN_ROOM * 2];
        memset(text, ' ', sizeof text);
        memcpy(text, texts[i], strlen(texts[i]));
        api_short number;
        CHECK(api_scan_number((const uint8_t *)text, &number) != NULL, "%s was not scanned", texts[i]);
        check_text(texts[i]);
    }
    static const char *const others[] = {"",
                                         "-",
                                         "+1",
                                         "01",
                                         "1.",
                                         ".5",
                                         "1e",
                                         "1e+",
                                         "NaN",
                                         "-Infinity",
                                         "00",
                                         "-x",
                                         "1.e5",
                                         "12345678901234567890",
                                         "1.2345678901234567890",
                                         "0.0000000000000000000000000000000000000000000000000001",
                                         "1e123456"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[API_SCAN_ROOM * 2];
        memset(text, ' ', sizeof text);
        memcpy(text, others[i], strlen(others[i]));
        api_short number;
        CHECK(api_scan_number((const uint8_t *)text, &number) == NULL, "%s was scanned", others[i]);
    }
}

static void test_long_decimals(void) {
    char *text = malloc(100001);
    CHECK_FATAL(text != NULL, "memory");
    memset(text, '0', 100000);
    text[0] = '1', text[1] = '.', text[99999] = '1', text[100000] = '\0';
    check_double(text, 1, 1);
    check_float(text, 1);
    memset(text, '9', 100000);
    text[0] = '0', text[1] = '.';
    check_double(text, 1, -1);
    memset(text, '0', 100000);
    text[1] = '.';
    memcpy(text + 99980, "123e99980", 10); /* 0.000...123e99980 */
    check_double(text, strtod(text, NULL), 2);
    free(text);
    static const struct {
        const char *text;
        double value;
        int residual;
    } cases[] = {{"0e999999999999999999999", 0, 0},
                 {"-0e-999999999999999999999", -0.0, 0},
                 {"1e999999999999999999999", INFINITY, -1},
                 {"-1e999999999999999999999", -INFINITY, 1},
                 {"1e-999999999999999999999", 0, 1},
                 {"-1e-400", -0.0, -1},
                 {"9007199254740993", 9007199254740992, 1},
                 {"9007199254740993.0000000000000000000000000001", 9007199254740994, -1},
                 {"2.4703282292062327208299439764e-324", 0, 1},
                 {"2.4703282292062327208299439765e-324", 0, 1},
                 {"2.4703282292062328e-324", 0x1p-1074, -1},
                 {"1.7976931348623157e308", DBL_MAX, 2},
                 {"1.7976931348623158e308", DBL_MAX, 2},
                 {"1.7976931348623159e308", INFINITY, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_double(cases[i].text, cases[i].value, cases[i].residual);
}

/* Midpoints of the small formats, and decimals as close to them as no double is. */
static void check_small_format(float (*round)(api_decimal), int precision, int emax, const char *name) {
    for (int i = 0; i < 4000; i++) {
        const int e = (int)check_random_below((size_t)(2 * emax + 10)) - emax - 9;
        const int unit = (e < 1 - emax ? 1 - emax : e > emax ? emax : e) - precision + 1;
        const uint64_t hidden = UINT64_C(1) << (precision - 1);
        const uint64_t m = check_random() % (2 * hidden) | (e > 1 - emax ? hidden : 0); /* below: subnormal too */
        const double low = ldexp((double)m, unit), high = ldexp((double)m + 1, unit),
                     middle = ldexp((double)m + 0.5, unit);
        const double limit = ldexp(1, emax + 1);
        const float at_low = low >= limit ? INFINITY : (float)low, at_high = high >= limit ? INFINITY : (float)high;
        char text[TEXT];
        print_exactly(text, 2 * m + 1, unit - 1);
        const float tie = round(double_of_text(text, strlen(text), false));
        CHECK(tie == (m & 1 ? at_high : at_low), "%s: %.20s ties to %a, got %a", name, text,
              (double)(m & 1 ? at_high : at_low), (double)tie);
        step_up(text);
        const float above = round(double_of_text(text, strlen(text), false));
        CHECK(above == at_high, "%s: above %a is %a, got %a", name, middle, (double)at_high, (double)above);
        print_exactly(text, 2 * m + 1, unit - 1);
        step_down(text);
        const float below = round(double_of_text(text, strlen(text), false));
        CHECK(below == at_low, "%s: below %a is %a, got %a", name, middle, (double)at_low, (double)below);
        const float same = round((api_decimal){-low, 0});
        CHECK(same == -at_low && signbit(same), "%s: %a is its own value, got %a", name, -low, (double)same);
    }
}

static void test_small_formats(void) {
    check_small_format(api_decimal_round_f16, 11, 15, "F16");
    check_small_format(api_decimal_round_bf16, 8, 127, "BF16");
    check_small_format(api_decimal_round_f32, 24, 127, "F32");
    CHECK(isnan(api_decimal_round_f16((api_decimal){NAN, 0})), "NaN stays");
    CHECK(isinf(api_decimal_round_bf16((api_decimal){-INFINITY, 0})), "infinity stays");
    CHECK(isinf(api_decimal_round_f16((api_decimal){65520, 0})), "65520 ties to infinity");
    CHECK(api_decimal_round_f16((api_decimal){65520, -1}) == 65504, "less does not");
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* Significant digits without zeros at either end. */
static int significant(const char *text) {
    int count = 0, zeros = 0;
    for (; *text && *text != 'e' && *text != 'E'; text++) {
        if (*text < '0' || *text > '9' || (count == 0 && *text == '0')) continue;
        count++;
        zeros = *text == '0' ? zeros + 1 : 0;
    }
    return count - zeros;
}

/* The same digits, zeros at either end apart: of two decimals that both round to one value, the same number. */
static bool same_digits(const char *a, const char *b) {
    char digits[2][64] = {"", ""};
    for (size_t i = 0; i < 2; i++) {
        size_t n = 0;
        for (const char *p = i ? b : a; *p && *p != 'e'; p++)
            if (*p >= '0' && *p <= '9' && (n > 0 || *p != '0')) digits[i][n++] = *p;
        while (n > 0 && digits[i][n - 1] == '0') digits[i][--n] = '\0';
    }
    return strcmp(digits[0], digits[1]) == 0;
}

/* RFC 8259, section 6 */
static bool is_json_number(const char *p) {
    if (*p == '-') p++;
    if (*p == '0')
        p++;
    else {
        if (*p < '1' || *p > '9') return false;
        while (*p >= '0' && *p <= '9') p++;
    }
    if (*p == '.') {
        if (*++p < '0' || *p > '9') return false;
        while (*p >= '0' && *p <= '9') p++;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '-' || *p == '+') p++;
        if (*p < '0' || *p > '9') return false;
        while (*p >= '0' && *p <= '9') p++;
    }
    return *p == '\0';
}

/* Fewest digits by trying each precision; printf gives the closest decimal of each. */
static void check_shortest(const char *text, double value, bool single) {
    CHECK(is_json_number(text), "%s is not of the grammar", text);
    char other[64];
    int precision = 0;
    for (bool same = false; !same && precision < 18;) {
        snprintf(other, sizeof other, "%.*e", precision++, value);
        same = single ? strtof(other, NULL) == (float)value : strtod(other, NULL) == value;
    }
    CHECK(significant(text) <= significant(other), "%s is longer than %s", text, other);
    /* of one length the closest: printf's is, and where its digits do not read back a neighbour's may */
    if (significant(text) == significant(other))
        CHECK(same_digits(text, other), "%s is not as close as %s", text, other);
}

static void check_float_written(uint32_t bits, bool thorough) {
    const float x = float_of(bits);
    char text[API_DECIMAL_MAX + 1];
    const size_t length = api_decimal_from_float(text, x);
    if (!CHECK(length <= API_DECIMAL_MAX, "%a takes %zu bytes", (double)x, length)) return;
    text[length] = '\0';
    const float back = float_of_text(text, length);
    CHECK(float_bits(back) == bits, "%a is written %s", (double)x, text);
    CHECK(significant(text) <= 9, "%s has more than nine digits", text);
    if (thorough) check_shortest(text, (double)x, true);
}

static void test_floats_are_written(void) {
    const char *all = getenv("CHECK_EXHAUSTIVE");
    const uint32_t stride = all && strcmp(all, "1") == 0 ? 1 : check_rounds(20) < 20 ? 99991 : 4999;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += stride)
        if ((bits & 0x7F800000) != 0x7F800000)
            check_float_written((uint32_t)bits, (bits / stride) % (stride == 1 ? 4099 : 16) == 0);
    for (uint32_t exponent = 0; exponent < 255; exponent++) /* powers of two: the uneven intervals */
        for (uint32_t i = 0; i < 3; i++) check_float_written((exponent << 23) + i - (exponent > 0), true);
    check_float_written(0x7F7FFFFF, true);
}

static void test_doubles_are_written(void) {
    for (int i = 0; i < 60000; i++) {
        uint64_t bits = random_double_bits();
        if (i < 2046 * 3)
            bits = ((uint64_t)(i / 3 + 1) << 52) + (uint64_t)(i % 3) - 1;
        else if (i % 3 == 0)
            bits = bits_of(floor(ldexp(1, 53) * (double)check_random_below(1000000) / 1e6));
        const double x = double_of(bits);
        char text[API_DECIMAL_MAX + 1];
        const size_t length = api_decimal_from_double(text, x);
        if (!CHECK(length <= API_DECIMAL_MAX, "%a takes %zu bytes", x, length)) continue;
        text[length] = '\0';
        CHECK(bits_of(strtod(text, NULL)) == bits, "%a is written %s", x, text);
        check_shortest(text, x, false);
    }
}

static void test_known_texts(void) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "-0.0"},
                 {1, "1"},
                 {-1.5, "-1.5"},
                 {0.1, "0.1"},
                 {100, "100"},
                 {0x1p-1074, "5e-324"},
                 {DBL_MAX, "1.7976931348623157e308"},
                 {1e23, "1e23"},
                 {9.5367431640625e-07, "9.5367431640625e-7"},
                 {9007199254740991, "9007199254740991"},
                 {0.001, "0.001"},
                 {1.0 / 3, "0.3333333333333333"},
                 {2e-7, "2e-7"},
                 {DBL_MIN, "2.2250738585072014e-308"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[API_DECIMAL_MAX + 1];
        text[api_decimal_from_double(text, cases[i].value)] = '\0';
        CHECK(strcmp(text, cases[i].text) == 0, "expected %s, got %s", cases[i].text, text);
    }
    char text[API_DECIMAL_MAX + 1];
    text[api_decimal_from_float(text, FLT_MAX)] = '\0';
    CHECK(strcmp(text, "3.4028235e38") == 0, "FLT_MAX is %s", text);
    text[api_decimal_from_float(text, -0.0F)] = '\0';
    CHECK(strcmp(text, "-0.0") == 0, "minus zero is %s", text);
    text[api_decimal_from_float(text, 0x1p-149F)] = '\0';
    CHECK(strcmp(text, "1e-45") == 0, "the least float is %s", text);
}

static void test_unsigned_integers(void) {
    static const struct {
        const char *text;
        size_t length;
        uint64_t value;
    } cases[] = {{"", 0, 0},
                 {"x1", 0, 0},
                 {"-1", 0, 0},
                 {"0", 1, 0},
                 {"007,8", 3, 7},
                 {"123x", 3, 123},
                 {"18446744073709551615", 20, UINT64_MAX},
                 {"18446744073709551616", 20, UINT64_MAX},
                 {"99999999999999999999999 ", 23, UINT64_MAX},
                 {"1844674407370955161", 19, 1844674407370955161}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t value;
        const size_t length = api_read_unsigned(cases[i].text, &value);
        CHECK(length == cases[i].length && value == cases[i].value, "\"%s\": %zu digits, %" PRIu64, cases[i].text,
              length, value);
    }
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_unsigned_integers),   CHECK_TEST(test_doubles_at_midpoints),
        CHECK_TEST(test_floats_at_midpoints), CHECK_TEST(test_powers_of_ten),
        CHECK_TEST(test_random_decimals),     CHECK_TEST(test_scan_takes_what_is_short),
        CHECK_TEST(test_long_decimals),       CHECK_TEST(test_small_formats),
        CHECK_TEST(test_floats_are_written),  CHECK_TEST(test_doubles_are_written),
        CHECK_TEST(test_known_texts),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
