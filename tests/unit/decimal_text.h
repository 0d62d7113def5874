/* decimal_text.h: whole decimals to binary, by the digits as the reader passes them on. */
#ifndef DECIMAL_TEXT_H
#define DECIMAL_TEXT_H

#include "../../api/numbers/decimal_internal.h"

/* A number of the JSON grammar */
static inline api_digits digits_of_text(const char *text, size_t length) {
    api_digits digits;
    api_digits_start(&digits);
    bool fraction = false;
    size_t i = 0;
    for (; i < length && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '-')
            digits.negative = true;
        else if (text[i] == '.')
            fraction = true;
        else
            api_digits_add(&digits, (unsigned)(text[i] - '0'), fraction);
    }
    for (i++; i < length; i++) {
        if (text[i] == '-')
            digits.exponent_negative = true;
        else if (text[i] != '+')
            api_digits_add_exponent(&digits, (unsigned)(text[i] - '0'));
    }
    return digits;
}

static inline api_decimal double_of_text(const char *text, size_t length, bool exact) {
    const api_digits digits = digits_of_text(text, length);
    return api_digits_to_double(&digits, exact);
}

static inline float float_of_text(const char *text, size_t length) {
    const api_digits digits = digits_of_text(text, length);
    return api_digits_to_float(&digits);
}

#endif
