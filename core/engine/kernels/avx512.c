/* avx512.c: the kernel row for x86-64 CPUs with AVX-512 F, DQ, BW and VL: the vectors, on which simd.h builds the
 * functions. 32 registers of 512 bits hold 6 x 4 accumulators, four vectors of keys (or values) and a broadcast.
 */
#include "../ops.h"

#include <immintrin.h>

#define ROW ATTN_T(attn_avx512)
#define TILE_ROWS 6
#define TILE_VECTORS 4
#define VEC_POWER /* has vec_scale_from */
#define VEC_PARTS /* with the first n lanes: the worked example took 2.0 times as long by way of memory */

#ifndef ATTN_DOUBLE
#define LANES 16
#define TILE_Q 96
#define TILE_K 256
typedef __m512 vec;
static inline vec vec_zero(void) { return _mm512_setzero_ps(); }
static inline vec vec_set(real x) { return _mm512_set1_ps(x); }
static inline vec vec_load(const real *p) { return _mm512_loadu_ps(p); }
static inline void vec_store(real *p, vec a) { _mm512_storeu_ps(p, a); }
static inline __mmask16 vec_first(size_t n) { return (__mmask16)(n < 16 ? (1u << n) - 1 : 0xffff); }
static inline vec vec_load_part(size_t n, const real *p, vec rest) {
    return _mm512_mask_loadu_ps(rest, vec_first(n), p);
}
static inline void vec_store_part(size_t n, real *p, vec a) { _mm512_mask_storeu_ps(p, vec_first(n), a); }
static inline vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline vec vec_fms(vec a, vec b, vec c) { return _mm512_fmsub_ps(a, b, c); }
static inline void vec_accumulate(vec *acc, vec a, vec b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(*acc) : "v"(a), "v"(b));
}
static inline vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec vec_abs(vec a) { return _mm512_abs_ps(a); }
static inline real vec_greatest(vec a) { return _mm512_reduce_max_ps(a); }
static inline real vec_sum(vec a) { return _mm512_reduce_add_ps(a); }
static inline vec vec_scale_from(vec least, vec x, vec a, vec n) {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, least, _CMP_NLT_UQ), a, n);
}
/* r[i] lane j <-> r[j] lane i: within each quarter of four rows as for 128-bit vectors, then the quarters */
static inline void vec_transpose(vec *r) {
    vec t[16];
    for (size_t i = 0; i < 16; i += 4) {
        const vec a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
        const vec c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm512_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    for (size_t i = 0; i < 4; i++) {
        const vec a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
        const vec c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88),
                  d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
        r[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
        r[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}
#else
#define LANES 8
#define TILE_Q 48
#define TILE_K 128
typedef __m512d vec;
static inline vec vec_zero(void) { return _mm512_setzero_pd(); }
static inline vec vec_set(real x) { return _mm512_set1_pd(x); }
static inline vec vec_load(const real *p) { return _mm512_loadu_pd(p); }
static inline void vec_store(real *p, vec a) { _mm512_storeu_pd(p, a); }
static inline __mmask8 vec_first(size_t n) { return (__mmask8)(n < 8 ? (1u << n) - 1 : 0xff); }
static inline vec vec_load_part(size_t n, const real *p, vec rest) {
    return _mm512_mask_loadu_pd(rest, vec_first(n), p);
}
static inline void vec_store_part(size_t n, real *p, vec a) { _mm512_mask_storeu_pd(p, vec_first(n), a); }
static inline vec vec_add(vec a, vec b) { return _mm512_add_pd(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm512_sub_pd(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm512_mul_pd(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm512_div_pd(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_pd(a, b, c); }
static inline vec vec_fms(vec a, vec b, vec c) { return _mm512_fmsub_pd(a, b, c); }
static inline void vec_accumulate(vec *acc, vec a, vec b) {
    __asm__("vfmadd231pd %2, %1, %0" : "+v"(*acc) : "v"(a), "v"(b));
}
static inline vec vec_max(vec a, vec b) { return _mm512_max_pd(a, b); }
static inline vec vec_abs(vec a) { return _mm512_abs_pd(a); }
static inline real vec_greatest(vec a) { return _mm512_reduce_max_pd(a); }
static inline real vec_sum(vec a) { return _mm512_reduce_add_pd(a); }
static inline vec vec_scale_from(vec least, vec x, vec a, vec n) {
    return _mm512_maskz_scalef_pd(_mm512_cmp_pd_mask(x, least, _CMP_NLT_UQ), a, n);
}
static inline void vec_transpose(vec *r) {
    vec t[8];
    for (size_t i = 0; i < 8; i += 2) {
        t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
    for (size_t i = 0; i < 2; i++) {
        const vec a = _mm512_shuffle_f64x2(t[i], t[i + 2], 0x88), b = _mm512_shuffle_f64x2(t[i], t[i + 2], 0xdd);
        const vec c = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0x88),
                  d = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0xdd);
        r[i] = _mm512_shuffle_f64x2(a, c, 0x88);
        r[i + 2] = _mm512_shuffle_f64x2(b, d, 0x88);
        r[i + 4] = _mm512_shuffle_f64x2(a, c, 0xdd);
        r[i + 6] = _mm512_shuffle_f64x2(b, d, 0xdd);
    }
}
#endif

#include "simd.h"
