/* neon.c: the kernel row for aarch64: the vectors, on which simd.h builds the functions. 32 registers of 128 bits hold
 * 6 x 4 accumulators, four vectors of keys (or values) and a broadcast.
 */
#include "../ops.h"

#include <arm_neon.h>

#define ROW ATTN_T(attn_neon)
#define TILE_ROWS 6
#define TILE_VECTORS 4

#ifndef ATTN_DOUBLE
#define LANES 4
#define TILE_Q 96
#define TILE_K 256
typedef float32x4_t vec;
static inline vec vec_zero(void) { return vdupq_n_f32(0); }
static inline vec vec_set(real x) { return vdupq_n_f32(x); }
static inline vec vec_load(const real *p) { return vld1q_f32(p); }
static inline void vec_store(real *p, vec a) { vst1q_f32(p, a); }
static inline vec vec_add(vec a, vec b) { return vaddq_f32(a, b); }
static inline vec vec_sub(vec a, vec b) { return vsubq_f32(a, b); }
static inline vec vec_mul(vec a, vec b) { return vmulq_f32(a, b); }
static inline vec vec_mul_from(vec least, vec x, vec a, vec b) {
    return vmulq_f32(vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a), vcltq_f32(x, least))), b);
}
static inline vec vec_div(vec a, vec b) { return vdivq_f32(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
static inline vec vec_fms(vec a, vec b, vec c) { return vnegq_f32(vfmsq_f32(c, a, b)); }
static inline void vec_accumulate(vec *acc, vec a, vec b) {
    __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(*acc) : "w"(a), "w"(b));
}
static inline vec vec_max(vec a, vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline vec vec_abs(vec a) { return vabsq_f32(a); }
static inline real vec_greatest(vec a) { return vmaxvq_f32(a); }
static inline real vec_sum(vec a) { return vaddvq_f32(a); }
static inline vec vec_scale(vec a, vec x) {
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), vshlq_n_s32(vreinterpretq_s32_f32(x), 23)));
}
static inline void vec_transpose(vec *r) {
    const vec a = vtrn1q_f32(r[0], r[1]), b = vtrn2q_f32(r[0], r[1]);
    const vec c = vtrn1q_f32(r[2], r[3]), d = vtrn2q_f32(r[2], r[3]);
    r[0] = vcombine_f32(vget_low_f32(a), vget_low_f32(c));
    r[1] = vcombine_f32(vget_low_f32(b), vget_low_f32(d));
    r[2] = vcombine_f32(vget_high_f32(a), vget_high_f32(c));
    r[3] = vcombine_f32(vget_high_f32(b), vget_high_f32(d));
}
#else
#define LANES 2
#define TILE_Q 48
#define TILE_K 128
typedef float64x2_t vec;
static inline vec vec_zero(void) { return vdupq_n_f64(0); }
static inline vec vec_set(real x) { return vdupq_n_f64(x); }
static inline vec vec_load(const real *p) { return vld1q_f64(p); }
static inline void vec_store(real *p, vec a) { vst1q_f64(p, a); }
static inline vec vec_add(vec a, vec b) { return vaddq_f64(a, b); }
static inline vec vec_sub(vec a, vec b) { return vsubq_f64(a, b); }
static inline vec vec_mul(vec a, vec b) { return vmulq_f64(a, b); }
static inline vec vec_mul_from(vec least, vec x, vec a, vec b) {
    return vmulq_f64(vreinterpretq_f64_u64(vbicq_u64(vreinterpretq_u64_f64(a), vcltq_f64(x, least))), b);
}
static inline vec vec_div(vec a, vec b) { return vdivq_f64(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return vfmaq_f64(c, a, b); }
static inline vec vec_fms(vec a, vec b, vec c) { return vnegq_f64(vfmsq_f64(c, a, b)); }
static inline void vec_accumulate(vec *acc, vec a, vec b) {
    __asm__("fmla %0.2d, %1.2d, %2.2d" : "+w"(*acc) : "w"(a), "w"(b));
}
static inline vec vec_max(vec a, vec b) { return vbslq_f64(vcgtq_f64(a, b), a, b); }
static inline vec vec_abs(vec a) { return vabsq_f64(a); }
static inline real vec_greatest(vec a) { return vmaxvq_f64(a); }
static inline real vec_sum(vec a) { return vaddvq_f64(a); }
static inline vec vec_scale(vec a, vec x) {
    return vreinterpretq_f64_s64(vaddq_s64(vreinterpretq_s64_f64(a), vshlq_n_s64(vreinterpretq_s64_f64(x), 52)));
}
static inline void vec_transpose(vec *r) {
    const vec a = vzip1q_f64(r[0], r[1]), b = vzip2q_f64(r[0], r[1]);
    r[0] = a;
    r[1] = b;
}
#endif

#include "simd.h"
