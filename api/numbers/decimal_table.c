#include <stddef.h>

#include "decimal_internal.h"

api_power api_powers[API_POWER_MAX - API_POWER_MIN + 1];

/* Integers of 1024 bits, the least word first: 5^348 has 809 bits, and 2^1023 / 5^348 keeps 215. */
#define WORDS 32

/* The highest 128 bits, left-aligned. */
static api_power leading_bits(const uint32_t words[WORDS]) {
    size_t top = WORDS - 1;
    while (words[top] == 0) top--;
    const int zeros = __builtin_clz(words[top]);
    uint64_t part[5];
    for (size_t i = 0; i < 5; i++) part[i] = top >= i ? words[top - i] : 0;
    unsigned __int128 bits = 0;
    for (size_t i = 0; i < 4; i++) bits = bits << 32 | part[i];
    if (zeros) bits = bits << zeros | part[4] >> (32 - zeros);
    return (api_power){(uint64_t)(bits >> 64), (uint64_t)bits};
}

/* Some 20 microseconds before main: less than a page fault for each page of a table in the binary. The leading bits of
 * 10^q are those of 5^q. Dividing 2^1023 by 5 again and again, rounding down each time, gives floor(2^1023 / 5^n). */
__attribute__((constructor)) static void fill_powers(void) {
    uint32_t words[WORDS] = {1};
    for (int q = 0; q <= API_POWER_MAX; q++) {
        api_powers[q - API_POWER_MIN] = leading_bits(words);
        uint64_t carry = 0;
        for (size_t i = 0; i < WORDS; i++) {
            carry += (uint64_t)words[i] * 5;
            words[i] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    for (size_t i = 0; i < WORDS; i++) words[i] = i == WORDS - 1 ? (uint32_t)1 << 31 : 0;
    for (int q = -1; q >= API_POWER_MIN; q--) {
        uint64_t rest = 0;
        for (size_t i = WORDS; i-- > 0;) {
            const uint64_t part = rest << 32 | words[i];
            words[i] = (uint32_t)(part / 5);
            rest = part % 5;
        }
        api_powers[q - API_POWER_MIN] = leading_bits(words);
    }
}
