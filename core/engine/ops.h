/* ops.h: the functions of a kernel row for the number type that a source is compiled for (inside core/ only). */
#ifndef ATTN_OPS_H
#define ATTN_OPS_H

#include "kernel.h"
#include "real.h"

#ifdef ATTN_DOUBLE
typedef attn_ops_f64 attn_ops;
#else
typedef attn_ops_f32 attn_ops;
#endif

static inline const attn_ops *ATTN_T(attn_ops_of)(const attn_kernel *kernel) {
#ifdef ATTN_DOUBLE
    return &kernel->f64;
#else
    return &kernel->f32;
#endif
}

#endif
