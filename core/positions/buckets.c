/* buckets.c: the slopes of ALiBi and the edges of T5's buckets. */
#include <math.h>

#include "../attention.h"
#include "quad.h"

/* The least integer that is not below x > 0; x is an integer if it is one but for roundings. */
static int64_t least_above(attn_quad x) {
    const int64_t whole = (int64_t)x;
    const attn_quad over = x - (attn_quad)whole, tiny = x * (attn_quad)0x1p-100;
    if (over <= tiny) return whole;
    return whole + 1;
}

/* Bucket e + k of a side, e of which hold one distance each, begins where ln(a / e) / ln(max_distance / e) (side - e)
 * reaches k: at a = e (max_distance / e)^(k / (side - e)). */
void attn_relative_edges(size_t buckets, int64_t max_distance, int64_t *edges) {
    const size_t exact = buckets / 2;
    for (size_t b = 0; b < buckets && b <= exact; b++) edges[b] = (int64_t)b;
    for (size_t b = exact + 1; b < buckets; b++) {
        const attn_quad share = (attn_quad)(b - exact) / (attn_quad)(buckets - exact);
        edges[b] = least_above((attn_quad)exact * attn_quad_power((attn_quad)max_distance / (attn_quad)exact, share));
    }
}

/* 2^(-8 (h + 1) / heads) for a power of two; else those of the next lower power of two, and then every other slope of
 * twice as many. */
void attn_alibi_slopes(size_t heads, double *slopes) {
    size_t power = 1;
    while (power <= heads / 2) power *= 2;
    for (size_t h = 0; h < heads; h++) {
        const double steps = h < power ? (double)(h + 1) : (double)(h - power) + 0.5;
        slopes[h] = exp2(-8 * steps / (double)power);
    }
}
