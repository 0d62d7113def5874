#include "limits.h"

#include <cblas.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef HAVE_XSMM
#include <libxsmm.h>
#endif

static double now(void) {
    struct timespec time;
    clock_gettime(BENCH_CLOCK, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#define CHAINS 12 /* enough to hide a latency of 4 to 5 cycles on two units */

#ifdef __x86_64__
#include <immintrin.h>

__attribute__((target("avx512f"))) static void fma_loop_512(long count) {
    __m512 x[CHAINS], factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
    __asm__ volatile("" : "+v"(factor), "+v"(term));
    for (int i = 0; i < CHAINS; i++) x[i] = _mm512_set1_ps((float)i);
    for (long n = 0; n < count; n++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) x[i] = _mm512_fmadd_ps(x[i], factor, term);
    for (int i = 0; i < CHAINS; i++) __asm__ volatile("" : : "v"(x[i]));
}

__attribute__((target("avx2,fma"))) static void fma_loop_256(long count) {
    __m256 x[CHAINS], factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
    __asm__ volatile("" : "+x"(factor), "+x"(term));
    for (int i = 0; i < CHAINS; i++) x[i] = _mm256_set1_ps((float)i);
    for (long n = 0; n < count; n++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) x[i] = _mm256_fmadd_ps(x[i], factor, term);
    for (int i = 0; i < CHAINS; i++) __asm__ volatile("" : : "x"(x[i]));
}

static double fma_operations(long count) {
    if (__builtin_cpu_supports("avx512f")) {
        fma_loop_512(count);
        return (double)count * CHAINS * 32;
    }
    fma_loop_256(count);
    return (double)count * CHAINS * 16;
}
#else
#include <arm_neon.h>
static double fma_operations(long count) {
    float32x4_t x[CHAINS], factor = vdupq_n_f32(0.999f), term = vdupq_n_f32(0.001f);
    for (int i = 0; i < CHAINS; i++) x[i] = vdupq_n_f32((float)i);
    for (long n = 0; n < count; n++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) x[i] = vfmaq_f32(term, x[i], factor);
    for (int i = 0; i < CHAINS; i++) __asm__ volatile("" : : "w"(x[i]));
    return (double)count * CHAINS * 8;
}
#endif

double limit_fma(void) {
    double best = 1;
    for (int i = 0; i < 20; i++) {
        const double start = now(), operations = fma_operations(50000), each = (now() - start) / operations;
        if (each < best) best = each;
    }
    return best;
}

static uint64_t *memory;

void limit_read_prepare(void) {
    if (memory) return;
    memory = aligned_alloc(64, READ_BYTES);
    if (!memory) abort();
    memset(memory, 1, READ_BYTES);
}

void limit_read(size_t part) {
    const size_t count = READ_BYTES / READ_PARTS / sizeof *memory;
    const uint64_t *from = memory + part * count;
    uint64_t sums[16] = {0};
    for (size_t i = 0; i < count; i += 16)
        for (size_t k = 0; k < 16; k++) sums[k] += from[i + k];
    for (size_t k = 0; k < 16; k++) __asm__ volatile("" : : "r"(sums[k]));
}

static float q[64 * 64], k[128 * 64], s[64 * 128];

void limit_blas(void) {
    openblas_set_num_threads(1);
    for (int i = 0; i < 20; i++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, 64, 128, 64, 1, q, 64, k, 64, 0, s, 128);
}

void limit_xsmm(void) {
#ifdef HAVE_XSMM
    static libxsmm_smmfunction product;
    if (!product) {
        const libxsmm_blasint m = 128, n = 64, inner = 64, lda = 128, ldb = 64, ldc = 128;
        const float alpha = 1, beta = 0;
        const int flags = 0;
        libxsmm_init();
        product = libxsmm_smmdispatch(m, n, inner, &lda, &ldb, &ldc, &alpha, &beta, &flags, NULL);
        if (!product) abort();
    }
    for (int i = 0; i < 20; i++) product(k, q, s);
#endif
}
