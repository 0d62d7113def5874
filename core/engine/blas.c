/* blas.c: the only place that calls OpenBLAS. */
#include "blas.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t blas_once = PTHREAD_ONCE_INIT;
static char blas_version[96];

/* openblas_get_config() reads "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ... Zen MAX_THREADS=64": its first two words are
 * kept, and the core whose kernels were chosen at run time. */
static void blas_start(void) {
    openblas_set_num_threads(1);
    const char *config = openblas_get_config();
    size_t words = strcspn(config, " ");
    if (config[words] == ' ') words += 1 + strcspn(config + words + 1, " ");
    snprintf(blas_version, sizeof blas_version, "%.*s (%s)", (int)words, config, openblas_get_corename());
}

const char *attn_blas_version(void) {
    pthread_once(&blas_once, blas_start);
    return blas_version;
}

/* OpenBLAS counts in int. A row of 2^31 numbers is beyond any request that is admitted. */
static int blas_int(size_t size) {
    assert(size <= INT_MAX);
    return (int)size;
}

void attn_gemm_f32(size_t rows, size_t columns, size_t inner, const float *a, size_t a_stride, const float *b,
                   size_t b_stride, bool b_transposed, float beta, float *c, size_t c_stride) {
    if (rows == 0 || columns == 0) return;
    if (inner == 0) {
        if (beta == 0)
            for (size_t i = 0; i < rows; i++) memset(c + i * c_stride, 0, columns * sizeof *c);
        return;
    }
    pthread_once(&blas_once, blas_start);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans, blas_int(rows),
                blas_int(columns), blas_int(inner), 1, a, blas_int(a_stride), b, blas_int(b_stride), beta, c,
                blas_int(c_stride));
}

void attn_gemm_f64(size_t rows, size_t columns, size_t inner, const double *a, size_t a_stride, const double *b,
                   size_t b_stride, bool b_transposed, double beta, double *c, size_t c_stride) {
    if (rows == 0 || columns == 0) return;
    if (inner == 0) {
        if (beta == 0)
            for (size_t i = 0; i < rows; i++) memset(c + i * c_stride, 0, columns * sizeof *c);
        return;
    }
    pthread_once(&blas_once, blas_start);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans, blas_int(rows),
                blas_int(columns), blas_int(inner), 1, a, blas_int(a_stride), b, blas_int(b_stride), beta, c,
                blas_int(c_stride));
}
