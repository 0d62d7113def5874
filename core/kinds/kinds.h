/* kinds.h: what calculations that are built upon softmax share (inside core/ only). */
#ifndef ATTN_KINDS_H
#define ATTN_KINDS_H

#include <math.h>

#include "../attention.h"

static inline bool attn_all_finite(attn_dtype dtype, size_t count, const void *x) {
    size_t i = 0;
    if (dtype == ATTN_F64)
        while (i < count && isfinite(((const double *)x)[i])) i++;
    else
        while (i < count && isfinite(((const float *)x)[i])) i++;
    return i == count;
}

#endif
