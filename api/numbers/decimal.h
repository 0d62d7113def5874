/* decimal.h: decimals to binary and back, exactly (inside api/ only). */
#ifndef API_DECIMAL_H
#define API_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Result of reading a decimal as a double: `value` is the double nearest to it (ties to even; infinity beyond range),
 * `residual` the sign of (decimal - value): -1, 0, +1. It is known always where `exact` was asked for; else wherever a
 * second rounding to F32, F16 or BF16 depends on it (value is halfway between two such numbers), or whether the decimal
 * is an integer up to 2^53. */
typedef struct api_decimal {
    double value;
    int residual;
} api_decimal;

/* The nearest float, F16 or BF16 value (as a float), given a double and its residual. */
float api_decimal_round_f32(api_decimal decimal);
float api_decimal_round_f16(api_decimal decimal);
float api_decimal_round_bf16(api_decimal decimal);

/* Reads the digits that text begins with, as of a header's length. Returns how many there are; *value is UINT64_MAX if
 * the number does not fit. */
size_t api_read_unsigned(const char *text, uint64_t *value);

/* Writes the decimal with the fewest significant digits that reads back as the same value, the closest of those.
 * Any JSON form; value is finite; "0" for zero, "-0.0" for minus zero. No terminator. Returns the length, at most
 * API_DECIMAL_MAX (formatting scratches at most that many bytes). */
#define API_DECIMAL_MAX 48
size_t api_decimal_from_float(char text[API_DECIMAL_MAX], float value);
size_t api_decimal_from_double(char text[API_DECIMAL_MAX], double value);
/* The same of the finite F16 or BF16 value with these bits: it reads back by rounding to that type. */
size_t api_decimal_from_f16(char text[API_DECIMAL_MAX], uint16_t bits);
size_t api_decimal_from_bf16(char text[API_DECIMAL_MAX], uint16_t bits);

#endif
