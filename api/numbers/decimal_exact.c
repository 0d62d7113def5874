/* decimal_exact.c: comparing a decimal with a binary number by big integers; the last resort of decimal_read.c. */
#include <stddef.h>

#include "decimal_internal.h"

/* 800 digits take 2658 bits; 5^1130 times a significand, the other side of a comparison at the lower end of doubles,
 * 2690; shifting makes both sides about equally long. */
#define LIMBS 48
typedef struct natural {
    size_t size; /* limbs in use, the least first; the highest is not 0 */
    uint64_t limb[LIMBS];
} natural;

static void multiply_add(natural *n, uint64_t factor, uint64_t addend) {
    uint64_t carry = addend;
    for (size_t i = 0; i < n->size; i++) {
        const unsigned __int128 product = (unsigned __int128)n->limb[i] * factor + carry;
        n->limb[i] = (uint64_t)product;
        carry = (uint64_t)(product >> 64);
    }
    if (carry && n->size < LIMBS) n->limb[n->size++] = carry;
}

static void multiply_power_of_five(natural *n, int power) {
    const uint64_t most = 7450580596923828125; /* 5^27 */
    for (; power >= 27; power -= 27) multiply_add(n, most, 0);
    uint64_t rest = 1;
    for (; power > 0; power--) rest *= 5;
    multiply_add(n, rest, 0);
}

static void shift_left(natural *n, int count) {
    const size_t whole = (size_t)count / 64;
    if (n->size == 0 || n->size + whole > LIMBS) return;
    for (size_t i = n->size; whole && i-- > 0;) n->limb[i + whole] = n->limb[i];
    for (size_t i = 0; i < whole; i++) n->limb[i] = 0;
    n->size += whole;
    multiply_add(n, (uint64_t)1 << (count % 64), 0);
}

static int compare(const natural *a, const natural *b) {
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    for (size_t i = a->size; i-- > 0;)
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

static void from_digits(natural *n, const api_digits *digits) {
    n->size = 0;
    unsigned i = 0;
    while (i < digits->count) {
        uint64_t part = 0, power = 1;
        for (; i < digits->count && power < 1000000000000000000; i++) {
            part = part * 10 + digits->digit[i];
            power *= 10;
        }
        multiply_add(n, power, part);
    }
}

int api_digits_compare(const api_digits *digits, int q, uint64_t m, int f) {
    if (digits->count == 0 || m == 0) return (digits->count != 0) - (m != 0);
    natural left, right = {.size = 1, .limb = {m}};
    from_digits(&left, digits);
    multiply_power_of_five(q >= 0 ? &left : &right, q >= 0 ? q : -q);
    if (q >= f)
        shift_left(&left, q - f);
    else
        shift_left(&right, f - q);
    const int sign = compare(&left, &right);
    /* `right` is a multiple of the unit of the last digit kept whenever it could equal `left` (see API_DIGITS_MAX). */
    return sign == 0 && digits->sticky ? 1 : sign;
}
