/* shape.h: shapes, and sizes that may not fit size_t (inside api/ only). */
#ifndef API_SHAPE_H
#define API_SHAPE_H

#include <stddef.h>
#include <stdint.h>

/* A shape of up to four axes, outermost first. */
typedef struct api_shape {
    size_t rank, axes[4];
} api_shape;

/* Writes "[2, 3]" for up to eight axes, and returns text. */
#define API_SHAPE_TEXT 200
const char *api_shape_text(char text[API_SHAPE_TEXT], size_t rank, const size_t *shape);

/* a * b and a + b, SIZE_MAX if they do not fit */
static inline size_t api_times_sizes(size_t a, size_t b) {
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}
static inline size_t api_add_sizes(size_t a, size_t b) {
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

#endif
