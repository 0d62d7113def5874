/* blas.h: matrix products by OpenBLAS (inside core/ only).
 *
 * OpenBLAS runs each product on the calling thread: parallelism is the pool's. Its bits for a row may depend on the
 * shape of the product the row stands in, never on other rows' numbers or on the thread: callers that promise the same
 * bits cut their work at fixed places.
 */
#ifndef ATTN_BLAS_H
#define ATTN_BLAS_H

#include "../attention.h"

/* c = beta c + a b, row-major: a is (rows, inner), c is (rows, columns), b is (inner, columns), or (columns, inner)
 * where b_transposed. Strides are those of rows, in elements, each at least the length of its row. beta is 0 or 1; with
 * 0 what c held is ignored, NaN too. Any size may be 0. An answer whose partial sums overflow holds infinities or NaN,
 * never a finite wrong number. */
void attn_gemm_f32(size_t rows, size_t columns, size_t inner, const float *a, size_t a_stride, const float *b,
                   size_t b_stride, bool b_transposed, float beta, float *c, size_t c_stride);
void attn_gemm_f64(size_t rows, size_t columns, size_t inner, const double *a, size_t a_stride, const double *b,
                   size_t b_stride, bool b_transposed, double beta, double *c, size_t c_stride);

#endif
