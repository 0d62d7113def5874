/* avx2.c: the kernel row for x86-64 CPUs with AVX2 and FMA: the vectors, on which simd.h builds the functions.
 *
 * 16 registers of 256 bits hold 6 x 2 accumulators, two vectors of keys (or values) and a broadcast. Per step 12
 * multiply-adds need 8 loads, and two FMA units with two load ports and 4 to 5 cycles of latency stay busy.
 */
#include "../ops.h"

#include <immintrin.h>

#define ROW ATTN_T(attn_avx2)
#define TILE_ROWS 6
#define TILE_VECTORS 2
#define VEC_PARTS /* with the first n lanes */

#ifndef ATTN_DOUBLE
#define LANES 8
#define TILE_Q 96
#define TILE_K 256
typedef __m256 vec;
static inline vec vec_zero(void) { return _mm256_setzero_ps(); }
static inline vec vec_set(real x) { return _mm256_set1_ps(x); }
static inline vec vec_load(const real *p) { return _mm256_loadu_ps(p); }
static inline void vec_store(real *p, vec a) { _mm256_storeu_ps(p, a); }
static inline __m256i vec_first(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vec vec_load_part(size_t n, const real *p, vec rest) {
    const __m256i first = vec_first(n);
    return _mm256_blendv_ps(rest, _mm256_maskload_ps(p, first), _mm256_castsi256_ps(first));
}
static inline void vec_store_part(size_t n, real *p, vec a) { _mm256_maskstore_ps(p, vec_first(n), a); }
static inline vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
static inline vec vec_mul_from(vec least, vec x, vec a, vec b) {
    return _mm256_mul_ps(_mm256_and_ps(a, _mm256_cmp_ps(x, least, _CMP_NLT_UQ)), b);
}
static inline vec vec_div(vec a, vec b) { return _mm256_div_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline vec vec_fms(vec a, vec b, vec c) { return _mm256_fmsub_ps(a, b, c); }
static inline void vec_accumulate(vec *acc, vec a, vec b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(a), "x"(b));
}
static inline vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
static inline vec vec_abs(vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline real vec_greatest(vec a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
static inline real vec_sum(vec a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
static inline vec vec_scale(vec a, vec x) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(_mm256_castps_si256(x), 23)));
}
/* r[i] lane j <-> r[j] lane i: pairs, then pairs of pairs, then halves */
static inline void vec_transpose(vec *r) {
    vec t[8];
    for (size_t i = 0; i < 8; i += 4) {
        const vec a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
        const vec c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm256_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    for (size_t i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
}
#else
#define LANES 4
#define TILE_Q 48
#define TILE_K 128
typedef __m256d vec;
static inline vec vec_zero(void) { return _mm256_setzero_pd(); }
static inline vec vec_set(real x) { return _mm256_set1_pd(x); }
static inline vec vec_load(const real *p) { return _mm256_loadu_pd(p); }
static inline void vec_store(real *p, vec a) { _mm256_storeu_pd(p, a); }
static inline __m256i vec_first(size_t n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n < 4 ? (int)n : 4), _mm256_setr_epi64x(0, 1, 2, 3));
}
static inline vec vec_load_part(size_t n, const real *p, vec rest) {
    const __m256i first = vec_first(n);
    return _mm256_blendv_pd(rest, _mm256_maskload_pd(p, first), _mm256_castsi256_pd(first));
}
static inline void vec_store_part(size_t n, real *p, vec a) { _mm256_maskstore_pd(p, vec_first(n), a); }
static inline vec vec_add(vec a, vec b) { return _mm256_add_pd(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm256_sub_pd(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm256_mul_pd(a, b); }
static inline vec vec_mul_from(vec least, vec x, vec a, vec b) {
    return _mm256_mul_pd(_mm256_and_pd(a, _mm256_cmp_pd(x, least, _CMP_NLT_UQ)), b);
}
static inline vec vec_div(vec a, vec b) { return _mm256_div_pd(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_pd(a, b, c); }
static inline vec vec_fms(vec a, vec b, vec c) { return _mm256_fmsub_pd(a, b, c); }
static inline void vec_accumulate(vec *acc, vec a, vec b) {
    __asm__("vfmadd231pd %2, %1, %0" : "+x"(*acc) : "x"(a), "x"(b));
}
static inline vec vec_max(vec a, vec b) { return _mm256_max_pd(a, b); }
static inline vec vec_abs(vec a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
static inline real vec_greatest(vec a) {
    const __m128d x = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_max_sd(x, _mm_unpackhi_pd(x, x)));
}
static inline real vec_sum(vec a) {
    const __m128d x = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)));
}
static inline vec vec_scale(vec a, vec x) {
    return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a), _mm256_slli_epi64(_mm256_castpd_si256(x), 52)));
}
static inline void vec_transpose(vec *r) {
    const vec a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    const vec c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(a, c, 0x20);
    r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31);
    r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}
#endif

#include "simd.h"
