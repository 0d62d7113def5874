#include <string.h>

#include "tensors.h"

/* One more than the six bits of a character of the alphabet of RFC 4648, section 4; 0 for any other */
static const uint8_t sextets[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64};

static void set_fault(api_value *value, const char *detail) {
    api_error_set(&value->fault, API_WRONG_TYPE, value->place, "", "invalid base64: %s", detail);
}

/* A character that is not in a whole group of four of this piece. */
static void push_one(api_base64 *base64, uint8_t c) {
    api_value *value = base64->value;
    if (base64->padding > 0 && (c != '=' || base64->count == 0)) {
        set_fault(value, "characters after the padding");
        return;
    }
    if (c == '=') {
        if (base64->count < 2) set_fault(value, "padding instead of a character");
        base64->padding++;
    } else if (sextets[c] == 0) {
        set_fault(value, "a character outside the alphabet of RFC 4648, section 4");
    }
    if (value->fault.code) return;
    base64->bits = base64->bits << 6 | (c == '=' ? 0 : sextets[c] - 1u);
    if (++base64->count < 4) return;
    uint8_t *const out = (uint8_t *)value->data + value->count;
    const uint32_t bits = base64->bits;
    const size_t count = 3 - base64->padding;
    if (bits & ((1u << 8 * base64->padding) - 1)) set_fault(value, "the unused bits before the padding are not 0");
    for (size_t i = 0; i < count; i++) out[i] = (uint8_t)(bits >> (16 - 8 * i));
    value->count += count;
    base64->bits = 0;
    base64->count = 0;
}

bool api_base64_push(api_base64 *base64, const uint8_t *text, size_t length) {
    api_value *value = base64->value;
    if (value->fault.code) return true;
    if (!api_value_reserve(value, value->count + length / 4 * 3 + 3)) return false;
    size_t i = 0;
    while (i < length && !value->fault.code) {
        if (base64->count == 0 && base64->padding == 0) {
            uint8_t *out = (uint8_t *)value->data + value->count;
            const uint8_t *const begin = out;
            for (; i + 4 <= length; i += 4, out += 3) {
                const uint32_t a = sextets[text[i]] - 1u, b = sextets[text[i + 1]] - 1u;
                const uint32_t c = sextets[text[i + 2]] - 1u, d = sextets[text[i + 3]] - 1u;
                if ((a | b | c | d) > 63) break;
                const uint32_t bits = a << 18 | b << 12 | c << 6 | d;
                out[0] = (uint8_t)(bits >> 16);
                out[1] = (uint8_t)(bits >> 8);
                out[2] = (uint8_t)bits;
            }
            value->count += (size_t)(out - begin);
            if (i == length) return true;
        }
        push_one(base64, text[i++]);
    }
    return true;
}

void api_base64_end(api_base64 *base64) {
    api_value *value = base64->value;
    if (value->fault.code) return;
    if (base64->count > 0)
        set_fault(value, "the length is not a multiple of four");
    else if (value->data)
        api_value_shrink(value, value->count);
}
