/* real.h: sources of core/ that compute are compiled twice, for float and (with ATTN_DOUBLE defined) for double.
 * `real` is the number type and ATTN_T(name) the name with the type's suffix. */
#ifndef ATTN_REAL_H
#define ATTN_REAL_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#ifdef ATTN_DOUBLE
typedef double real;
typedef uint64_t bits; /* of a real. Without its sign magnitudes are ordered as their bits are, infinity and NaN last */
#define SIGN_OFF (UINT64_MAX >> 1)
#define ATTN_T(name) name##_f64
#define REAL_MAX DBL_MAX
#define REAL_MIN DBL_MIN
#define REAL_EPS DBL_EPSILON
#define REAL_DTYPE ATTN_F64
#else
typedef float real;
typedef uint32_t bits;
#define SIGN_OFF (UINT32_MAX >> 1)
#define ATTN_T(name) name##_f32
#define REAL_MAX FLT_MAX
#define REAL_MIN FLT_MIN
#define REAL_EPS FLT_EPSILON
#define REAL_DTYPE ATTN_F32
#endif

#define LOG2_E 0x1.71547652b82fep0

static inline bits bits_of(real x) {
    bits b;
    memcpy(&b, &x, sizeof b);
    return b;
}

#endif
