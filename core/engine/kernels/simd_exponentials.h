/* simd_exponentials.h: the part of simd.h that turns scores into weights. */
static void row_max(size_t rows, size_t n, const real *s, real *max) {
    for (size_t i = 0; i < rows; i++, s += TILE_K) {
        vec greatest[2] = {vec_set((real)-INFINITY), vec_set((real)-INFINITY)};
        size_t j = 0;
        for (; j + 2 * LANES <= n; j += 2 * LANES) {
            greatest[0] = vec_max(vec_load(s + j), greatest[0]);
            greatest[1] = vec_max(vec_load(s + j + LANES), greatest[1]);
        }
        for (; j < n; j += LANES) greatest[0] = vec_max(load_part(n - j, s + j, (real)-INFINITY), greatest[0]);
        max[i] = vec_greatest(vec_max(greatest[0], greatest[1]));
    }
}

/* e^x = 2^n 2^r, n being the integer nearest to x log2 e and r = x log2 e - n, |r| <= 1/2. Adding ROUNDER leaves n in
 * the low bits, and a fused multiply-add gives r with one rounding of r alone: so the error does not grow with x but by
 * that of log2 e itself, less than |x| / 4 ulp. 2^r = 1 + r h(r) with a polynomial h that makes the greatest relative
 * error of 2^r nearly least: found by Remez exchange, the last bits of its coefficients for float by trying, since
 * there the rounding of each counts. */
#ifndef ATTN_DOUBLE
#define ROUNDER 0x1.8p23f
#define EXP_LOWEST -104.0f /* below it e^x rounds to 0 */
#else
#define ROUNDER 0x1.8p52
#define EXP_LOWEST -746.0
#endif

#ifndef VEC_POWER
/* Without an instruction for it, all coefficients are multiplied by EXP_LIFT, so that 2^n can be multiplied in through
 * the exponent also where the result is subnormal or zero: the last multiplication rounds it. Below EXP_LOWEST that
 * multiplication is left out, since a product that underflows takes many CPUs some 150 cycles: with blocked keys, at
 * -infinity, a causal problem of 1024 queries took 1.13 times as long. */
#ifndef ATTN_DOUBLE
#define EXP_LIFT 0x1p64f
#else
#define EXP_LIFT 0x1p128
#endif
/* e times 2^n, where shifted = n + ROUNDER; 0 where x < EXP_LOWEST */
INLINE vec vec_power(vec e, vec n, vec shifted, vec x) {
    (void)n;
    return vec_mul_from(vec_set(EXP_LOWEST), x, vec_scale(e, shifted), vec_set(1 / EXP_LIFT));
}
#else
#define EXP_LIFT 1
INLINE vec vec_power(vec e, vec n, vec shifted, vec x) {
    (void)shifted;
    return vec_scale_from(vec_set(EXP_LOWEST), x, e, n);
}
#endif

#ifndef ATTN_DOUBLE
#define EXP2_TERMS 7
static const real exp2_terms[EXP2_TERMS] = {
    0x1.470b5ap-13f, 0x1.5f721p-10f, 0x1.3b2688p-7f, 0x1.c6ae4ep-5f, 0x1.ebfbe8p-3f, 0x1.62e432p-1f, 1,
};
#else
#define EXP2_TERMS 12
static const real exp2_terms[EXP2_TERMS] = {
    0x1.e811937d64c24p-32, 0x1.e61228b79147ep-28, 0x1.b5260c3bc81ffp-24, 0x1.62bfcd86b0d43p-20,
    0x1.ffcbfbf933a2ep-17, 0x1.4309130c28c57p-13, 0x1.5d87fe78b3b41p-10, 0x1.3b2ab6fba110dp-7,
    0x1.c6b08d704a0d4p-5,  0x1.ebfbdff82c59cp-3,  0x1.62e42fefa39efp-1,  1,
};
#endif

/* x[u] = e^x[u] for x <= 20, `count` vectors step by step together: each step waits for the one before, and the CPU can
 * only look so far ahead for other work. */
INLINE void vec_exp(size_t count, vec *x) {
    const vec log2_e = vec_set((real)LOG2_E), rounder = vec_set(ROUNDER);
    vec shifted[2], n[2], r[2], e[2];
    UNROLL
    for (size_t u = 0; u < count; u++) {
        shifted[u] = vec_fma(x[u], log2_e, rounder);
        n[u] = vec_sub(shifted[u], rounder);
        r[u] = vec_fms(x[u], log2_e, n[u]);
        e[u] = vec_set(exp2_terms[0] * EXP_LIFT);
    }
    UNROLL
    for (size_t i = 1; i < EXP2_TERMS; i++) {
        UNROLL
        for (size_t u = 0; u < count; u++) e[u] = vec_fma(e[u], r[u], vec_set(exp2_terms[i] * EXP_LIFT));
    }
    UNROLL
    for (size_t u = 0; u < count; u++) x[u] = vec_power(e[u], n[u], shifted[u], x[u]);
}

/* A scale of 1 costs no multiplication. */
INLINE real exp_row(size_t n, real *s, bool scaled, real scale, real shift) {
    const vec by = vec_set(shift), times = vec_set(scale);
    vec sum = vec_zero(), x[2];
    size_t j = 0;
    for (; j + 2 * LANES <= n; j += 2 * LANES) {
        UNROLL
        for (size_t u = 0; u < 2; u++) {
            x[u] = vec_load(s + j + u * LANES);
            x[u] = vec_sub(scaled ? vec_mul(x[u], times) : x[u], by);
        }
        vec_exp(2, x);
        vec_store(s + j, x[0]);
        vec_store(s + j + LANES, x[1]);
        sum = vec_add(sum, vec_add(x[0], x[1]));
    }
    for (size_t left; j < n; j += left) {
        left = n - j < LANES ? n - j : LANES;
        x[0] = load_part(left, s + j, (real)-INFINITY);
        x[0] = vec_sub(scaled ? vec_mul(x[0], times) : x[0], by);
        vec_exp(1, x);
        store_part(left, s + j, x[0]);
        sum = vec_add(sum, x[0]);
    }
    return vec_sum(sum);
}

static void exp_sum(size_t rows, size_t n, real *s, real scale, const real *shift, real *sum) {
    for (size_t i = 0; i < rows; i++)
        sum[i] = scale == 1 ? exp_row(n, s + i * TILE_K, false, 1, shift[i])
                            : exp_row(n, s + i * TILE_K, true, scale, shift[i]);
}
