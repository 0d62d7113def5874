/* workspace.h: cutting one block of memory into parts (inside core/ only). */
#ifndef ATTN_WORKSPACE_H
#define ATTN_WORKSPACE_H

#include <stddef.h>
#include <stdint.h>

/* Takes `count` items of `size` bytes, rounded up to 64 bytes in all, from the end of *total, and returns their offset.
 * *total becomes SIZE_MAX, and stays it, if the sum does not fit size_t. */
static inline size_t attn_reserve(size_t *total, size_t count, size_t size) {
    const size_t at = *total;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, 63, &bytes) ||
        __builtin_add_overflow(at, bytes & ~(size_t)63, total))
        *total = SIZE_MAX;
    return at;
}

/* a * b, or SIZE_MAX if that does not fit */
static inline size_t attn_product(size_t a, size_t b) {
    size_t result;
    return __builtin_mul_overflow(a, b, &result) ? SIZE_MAX : result;
}

#endif
