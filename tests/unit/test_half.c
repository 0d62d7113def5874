/* F16 and BF16: rounding to them, widening from them, and their shortest decimals, against the plain definitions. */
#include "../../api/numbers/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../api/numbers/decimal.h"
#include "../support/check.h"
#include "decimal_text.h"

typedef struct format {
    const char *name;
    int fraction_bits, bias;
    float (*widen)(uint16_t bits);
    uint16_t (*round)(float x);
    float (*round_exactly)(api_decimal decimal);
    size_t (*write)(char *text, uint16_t bits);
} format;

static const format formats[] = {
    {"F16", 10, 15, api_float_from_f16, api_f16_from_float, api_decimal_round_f16, api_decimal_from_f16},
    {"BF16", 7, 127, api_float_from_bf16, api_bf16_from_float, api_decimal_round_bf16, api_decimal_from_bf16},
};
enum { FORMATS = 2 };

/* by the definition of IEEE 754, section 3.4 */
static double value_of(const format *f, unsigned bits) {
    const int exponent = (int)(bits & 0x7FFF) >> f->fraction_bits;
    const double fraction = bits & ((1u << f->fraction_bits) - 1), hidden = ldexp(1, f->fraction_bits);
    const double magnitude = exponent == (0x7FFF >> f->fraction_bits) ? fraction != 0 ? (double)NAN : (double)INFINITY
                             : exponent == 0                          ? ldexp(fraction, 1 - f->bias - f->fraction_bits)
                                             : ldexp(hidden + fraction, exponent - f->bias - f->fraction_bits);
    return bits >> 15 ? -magnitude : magnitude;
}

static void test_widening_is_exact(void) {
    for (size_t i = 0; i < FORMATS; i++)
        for (unsigned bits = 0; bits < 0x10000; bits++) {
            const double wanted = value_of(&formats[i], bits), got = (double)formats[i].widen((uint16_t)bits);
            CHECK(isnan(wanted) ? isnan(got) : got == wanted && signbit(got) == signbit(wanted),
                  "%s %04x: expected %g, got %g", formats[i].name, bits, wanted, got);
        }
}

static void check_rounding(const format *f, double x) {
    const double wanted = (double)f->round_exactly((api_decimal){x, 0});
    const double got = (double)f->widen(f->round(api_float_rounded_to_odd(x)));
    CHECK(got == wanted && signbit(got) == signbit(x), "%s of %.17g: expected %.9g, got %.9g", f->name, x, wanted, got);
    const float y = (float)x;
    const double direct = (double)f->widen(f->round(y));
    CHECK(direct == (double)f->round_exactly((api_decimal){(double)y, 0}), "%s of the float %.9g: got %.9g", f->name,
          (double)y, direct);
}

/* Every number, the middle to the next one, and the doubles and floats next to it on both sides. */
static void test_rounding_is_to_nearest_even(void) {
    for (size_t i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        const unsigned infinity = 0x7FFFu >> f->fraction_bits << f->fraction_bits;
        for (unsigned bits = 0; bits < infinity; bits++) {
            const double x = value_of(f, bits);
            const double next = bits + 1 == infinity ? ldexp(1, f->bias + 1) : value_of(f, bits + 1);
            const double middle = (x + next) / 2;
            const double near[] = {x,      nextafter(x, 0),      nextafter(x, INFINITY),
                                   middle, nextafter(middle, 0), nextafter(middle, INFINITY)};
            for (size_t j = 0; j < sizeof near / sizeof *near; j++) {
                check_rounding(f, near[j]);
                check_rounding(f, -near[j]);
            }
            check_rounding(f, (double)nextafterf((float)middle, 0));
            check_rounding(f, (double)nextafterf((float)middle, INFINITY));
        }
        const double far[] = {0x1p-1074, 0x1p-150, 1e-40, 0x1.fffffep127, 0x1.ffffffp127, 1e300, INFINITY};
        for (size_t j = 0; j < sizeof far / sizeof *far; j++) check_rounding(f, far[j]);
        for (size_t j = 0; j < 100000; j++)
            check_rounding(f, ldexp(check_random_normal(), (int)check_random_below(60) - 40));
    }
}

/* the significant digits of a decimal */
static int digits_of(const char *text) {
    int count = 0, zeros = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9' || (count == 0 && *text == '0')) continue;
        zeros = *text == '0' ? zeros + 1 : 0;
        count++;
    }
    return count - zeros;
}

static double reads_as(const format *f, const char *text) {
    return (double)f->round_exactly(double_of_text(text, strlen(text), true));
}

/* Decimals of `digits` digits around x that read back as x: the distance of the closest, infinite if there is none.
 */
static double closest(const format *f, double x, int digits) {
    char text[64];
    double best = INFINITY;
    snprintf(text, sizeof text, "%.*e", digits - 1, x);
    char *e = strchr(text, 'e');
    const int exponent = atoi(e + 1) - digits + 1;
    long long middle = 0;
    for (const char *c = text; c < e; c++)
        if (*c != '.') middle = 10 * middle + (*c - '0');
    for (long long i = middle - 2; i <= middle + 2; i++) {
        snprintf(text, sizeof text, "%llde%d", i, exponent);
        if (i > 0 && reads_as(f, text) == x) best = fmin(best, fabs(strtod(text, NULL) - x));
    }
    return best;
}

static void test_decimals_are_the_shortest(void) {
    for (size_t i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        const unsigned infinity = 0x7FFFu >> f->fraction_bits << f->fraction_bits;
        for (unsigned bits = 1; bits < infinity; bits++) {
            char text[API_DECIMAL_MAX + 1];
            const double x = value_of(f, bits);
            text[f->write(text, (uint16_t)bits)] = '\0';
            const int digits = digits_of(text);
            CHECK(reads_as(f, text) == x, "%s %04x: %s does not read back as %.9g", f->name, bits, text, x);
            CHECK(digits == 1 || isinf(closest(f, x, digits - 1)), "%s %04x: %s is not the shortest", f->name, bits,
                  text);
            const double distance = fabs(strtod(text, NULL) - x);
            CHECK(distance <= closest(f, x, digits) * (1 + 1e-12), "%s %04x: %s is not the closest", f->name, bits,
                  text);
            char negative[API_DECIMAL_MAX + 1];
            negative[f->write(negative, (uint16_t)(bits | 0x8000))] = '\0';
            CHECK(negative[0] == '-' && strcmp(negative + 1, text) == 0, "%s %04x: %s", f->name, bits, negative);
        }
    }
}

static void test_decimals_as_they_stand(void) {
    static const struct {
        size_t format;
        uint16_t bits;
        const char *text;
    } rows[] = {{0, 0x0000, "0"},       {0, 0x8000, "-0.0"}, {0, 0x2E66, "0.1"},  {0, 0x3555, "0.3333"},
                {0, 0x7BFF, "65500"},   {0, 0x0001, "6e-8"}, {1, 0x3DCD, "0.1"},  {1, 0x3EAB, "0.334"},
                {1, 0x7F7F, "3.39e38"}, {1, 0x4049, "3.14"}, {1, 0x0001, "9e-41"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[API_DECIMAL_MAX + 1];
        text[formats[rows[i].format].write(text, rows[i].bits)] = '\0';
        CHECK(strcmp(text, rows[i].text) == 0, "%s %04x: expected %s, got %s", formats[rows[i].format].name,
              rows[i].bits, rows[i].text, text);
    }
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_widening_is_exact),
        CHECK_TEST(test_rounding_is_to_nearest_even),
        CHECK_TEST(test_decimals_are_the_shortest),
        CHECK_TEST(test_decimals_as_they_stand),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
