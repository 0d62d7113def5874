/* test_kernels.c: every function of every kernel row that this CPU can run, against plain loops; the exponential's
 * error in ulp. CHECK_EXHAUSTIVE=1 tests exp over every float of [-105, 0]. */
#include "../../core/engine/kernel.h"
#include "../support/check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T(name) name##_f32
#define REAL float
#define OPS attn_ops_f32
#define UNIT 0x1p-24L
#define DIGITS FLT_MANT_DIG
#define LEAST_EXPONENT (FLT_MIN_EXP - FLT_MANT_DIG)
#define WIDE_EXP(x) ((long double)exp((double)(x)))
#include "kernel_checks.h"
#undef T
#undef REAL
#undef OPS
#undef UNIT
#undef DIGITS
#undef LEAST_EXPONENT
#undef WIDE_EXP

#define T(name) name##_f64
#define REAL double
#define OPS attn_ops_f64
#define UNIT 0x1p-53L
#define DIGITS DBL_MANT_DIG
#define LEAST_EXPONENT (DBL_MIN_EXP - DBL_MANT_DIG)
#define WIDE_EXP(x) expl((long double)(x))
#include "kernel_checks.h"

typedef struct row {
    const char *name;
    const attn_ops_f32 *f32;
    const attn_ops_f64 *f64;
} row;

extern const attn_ops_f32 attn_avx2_f32, attn_avx512_f32, attn_neon_f32, attn_portable_f32;
extern const attn_ops_f64 attn_avx2_f64, attn_avx512_f64, attn_neon_f64, attn_portable_f64;

#ifdef __x86_64__
static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}

static void test_avx512_row_can_run(void) {
    if (!has_avx512()) check_skip("this CPU has no AVX-512: the row is not tested");
}
#endif

/* Fills `rows` with what this CPU can run; gives their number. */
static size_t runnable(row rows[4]) {
    size_t count = 0;
#ifdef __x86_64__
    if (has_avx512()) rows[count++] = (row){"avx512", &attn_avx512_f32, &attn_avx512_f64};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        rows[count++] = (row){"avx2", &attn_avx2_f32, &attn_avx2_f64};
#elif defined(__aarch64__)
    rows[count++] = (row){"neon", &attn_neon_f32, &attn_neon_f64};
#endif
    rows[count++] = (row){"portable", &attn_portable_f32, &attn_portable_f64};
    return count;
}

static void test_every_function_at_every_size(void) {
    row rows[4];
    for (size_t i = 0, count = runnable(rows); i < count; i++) {
        check_sizes_f32(rows[i].name, rows[i].f32);
        check_sizes_f64(rows[i].name, rows[i].f64);
    }
}

/* All floats from -0 down to -105, or each 997th */
static void test_exp_f32_error(void) {
    enum { BLOCK = 4096 };
    const char *exhaustive = getenv("CHECK_EXHAUSTIVE");
    const uint32_t step = exhaustive && strcmp(exhaustive, "1") == 0 ? 1 : check_rounds(20) < 20 ? 19997 : 997;
    const float lowest = -105;
    uint32_t last;
    memcpy(&last, &lowest, sizeof last);
    row rows[4];
    static float x[BLOCK], s[BLOCK];
    for (size_t i = 0, count = runnable(rows); i < count; i++) {
        long double worst = 0;
        for (uint32_t bits = 0x80000000; bits <= last;) {
            size_t n = 0;
            for (; n < BLOCK && bits <= last; bits += step) memcpy(&x[n++], &bits, sizeof bits);
            const long double error = exp_error_f32(rows[i].name, rows[i].f32, n, x, 1, 0, s);
            if (error > worst) worst = error;
        }
        printf("%s: e^x of float is off by at most |x| / 4 + %.3Lf ulp\n", rows[i].name, worst);
    }
}

static void test_exp_f64_error(void) {
    enum { BLOCK = 4096 };
    row rows[4];
    static double x[BLOCK], s[BLOCK];
    for (size_t i = 0, count = runnable(rows); i < count; i++) {
        long double worst = 0;
        for (size_t block = 0; block < check_rounds(256); block++) {
            const double reach = block % 2 ? 746 : ldexp(1, -(int)(block / 4)); /* half of them near 0 */
            for (size_t j = 0; j < BLOCK; j++) x[j] = -reach * (double)(check_random() >> 11) * 0x1p-53;
            const long double error = exp_error_f64(rows[i].name, rows[i].f64, BLOCK, x, 1, 0, s);
            if (error > worst) worst = error;
        }
        printf("%s: e^x of double is off by at most |x| / 4 + %.3Lf ulp\n", rows[i].name, worst);
    }
}

/* e^x is 1 at 0, the least number just before its value is half of that, and 0 from there on. */
static void test_exp_at_its_ends(void) {
    row rows[4];
    for (size_t i = 0, count = runnable(rows); i < count; i++) {
        float s[] = {0, -0.0f, -103.97f, -103.98f, -104, -105, -1e30f, -FLT_MAX, -INFINITY, -0x1p-149f};
        const float wanted[] = {1, 1, 0x1p-149f, 0, 0, 0, 0, 0, 0, 1};
        double t[] = {0, -0.0, -745.13, -745.14, -746, -747, -1e300, -DBL_MAX, (double)-INFINITY, -0x1p-1074};
        const double wanted_t[] = {1, 1, 0x1p-1074, 0, 0, 0, 0, 0, 0, 1};
        const float no_shift = 0;
        const double no_shift_t = 0;
        float sum;
        double sum_t;
        rows[i].f32->exp_sum(1, sizeof s / sizeof *s, s, 1, &no_shift, &sum);
        rows[i].f64->exp_sum(1, sizeof t / sizeof *t, t, 1, &no_shift_t, &sum_t);
        for (size_t j = 0; j < sizeof s / sizeof *s; j++) {
            CHECK(s[j] == wanted[j], "%s: float %zu is %a", rows[i].name, j, (double)s[j]);
            CHECK(t[j] == wanted_t[j], "%s: double %zu is %a", rows[i].name, j, t[j]);
        }
    }
}

int main(int argc, char **argv) {
    const check_test tests[] = {
#ifdef __x86_64__
        CHECK_TEST(test_avx512_row_can_run),
#endif
        CHECK_TEST(test_every_function_at_every_size),
        CHECK_TEST(test_exp_f32_error),
        CHECK_TEST(test_exp_f64_error),
        CHECK_TEST(test_exp_at_its_ends),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
