/* merge.c: attention over shards of keys, joined by log-sum-exp: the last step of ring attention. */
#include <math.h>

#include "attention.h"

static inline double number_at(attn_dtype dtype, const void *data, size_t i) {
    return dtype == ATTN_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void put(attn_dtype dtype, void *data, size_t i, double x) {
    if (dtype == ATTN_F64)
        ((double *)data)[i] = x;
    else
        ((float *)data)[i] = (float)x;
}

typedef struct sum {
    double value, lost;
} sum;

/* value + lost = the sum but for rounding of the second order (Neumaier) */
static void add(sum *s, double x) {
    const double total = s->value + x;
    s->lost += fabs(s->value) >= fabs(x) ? (s->value - total) + x : (x - total) + s->value;
    s->value = total;
}

void attn_merge(attn_dtype dtype, size_t shards, size_t rows, size_t d, const void *output, const void *lse,
                void *joined_output, void *joined_lse) {
    for (size_t row = 0; row < rows; row++) {
        double greatest = -INFINITY;
        sum weights = {0, 0};
        for (size_t p = 0; p < shards; p++) greatest = fmax(greatest, number_at(dtype, lse, p * rows + row));
        for (size_t p = 0; p < shards && greatest != -INFINITY; p++)
            add(&weights, exp(number_at(dtype, lse, p * rows + row) - greatest));
        const double all = weights.value + weights.lost;
        if (joined_lse) put(dtype, joined_lse, row, greatest == -INFINITY ? -INFINITY : greatest + log(all));
        for (size_t c = 0; c < d && joined_output; c++) {
            sum o = {0, 0};
            for (size_t p = 0; p < shards && greatest != -INFINITY; p++) {
                const double weight = exp(number_at(dtype, lse, p * rows + row) - greatest) / all;
                if (weight > 0) add(&o, weight * number_at(dtype, output, (p * rows + row) * d + c));
            }
            put(dtype, joined_output, row * d + c, o.value + o.lost);
        }
    }
}
