/* kernel.h: what a row of the kernel table offers (inside core/ only).
 *
 * A row is {name, can this CPU run it?, tile sizes, functions for float and for double}, best rows first, the portable
 * one last. A new instruction set is one file in kernels/, one row in kernel_table.c, one line of the Makefile. A row
 * may leave functions out (NULL): see attn_ops_filled below.
 *
 * Tiles: `tile_q` queries by `tile_k` keys. Packed keys are d_k * tile_k numbers in an order that is the row's own;
 * packed values are (tile_k, d_v_padded), columns padded with zeros. A score tile is (rows, tile_k). Packed buffers are
 * aligned to 64 bytes.
 */
#ifndef ATTN_KERNEL_H
#define ATTN_KERNEL_H

#include "../attention.h"

/* Packed keys can be used from each multiple of this on. */
#define ATTN_KEY_STEP 64

#define ATTN_KERNEL_OPS(NAME, REAL)                                                                                    \
    typedef struct NAME {                                                                                              \
        size_t tile_q, tile_k; /* queries and keys of a tile; tile_k is a multiple of lanes */                         \
        size_t block_q;        /* rows best done at a time: their scores stay in the level 1 cache */                  \
        size_t lanes;          /* numbers in a vector: d_v is padded to a multiple of it */                            \
        /* Packs k[j * stride + c], j < n <= tile_k, c < d, as scores reads it; zeros for j >= n. Returns max |k|,     \
         * infinity or NaN where one is not finite. */                                                                 \
        REAL (*pack_keys)(size_t n, size_t d, const REAL *k, size_t stride, REAL *packed);                             \
        /* s[i * tile_k + j] = sum over c of q[i * q_stride + c] * k[j * stride + c], i < rows, lo <= j < hi <=        \
         * tile_k; lo is a multiple of ATTN_KEY_STEP. The bits do not depend on lo and hi. All else of the rows of s   \
         * may be overwritten. */                                                                                      \
        void (*scores)(size_t rows, size_t lo, size_t hi, size_t d, const REAL *q, size_t q_stride,                    \
                       const REAL *packed, REAL *s);                                                                   \
        /* max[i] = the greatest of s[i * tile_k + j], j < n, for i < rows; n > 0 */                                   \
        void (*row_max)(size_t rows, size_t n, const REAL *s, REAL *max);                                              \
        /* With x = s[i * tile_k + j] * scale, rounded, i < rows, j < n, scale > 0: it becomes e^(x - shift[i]), the   \
         * difference rounded, within 1 + |x - shift[i]| / 4 ulp; exactly 0 where x is -infinity, 1 where x is the     \
         * shift, NaN where x is NaN. For differences up to 12. sum[i] = the sum of the row. */                        \
        void (*exp_sum)(size_t rows, size_t n, REAL *s, REAL scale, const REAL *shift, REAL *sum);                     \
        /* x[i][c] = sum over j < n of p[i * tile_k + j] * v[j * v_stride + c], i < rows, c < d, a multiple of lanes.  \
         * x is added to o (rows, d), and what the rounding of that added too much is kept in lost (rows, d), which is \
         * taken off the next x first (Kahan): o - lost is the sum. */                                                 \
        void (*mix)(size_t rows, size_t n, size_t d, const REAL *p, const REAL *v, size_t v_stride, REAL *o,           \
                    REAL *lost);                                                                                       \
        /* As scores, with the keys where they are: for few rows, where packing would cost more than it saves. Writes  \
         * s[i * tile_k + j] for j < n only. Returns max |k| as pack_keys does. */                                     \
        REAL(*dots)                                                                                                    \
        (size_t rows, size_t n, size_t d, const REAL *q, size_t q_stride, const REAL *k, size_t k_stride, REAL *s);    \
        /* out (rows, d) = x times factor, rows of x `stride` apart. Returns max |x| as pack_keys does. */             \
        REAL (*load)(size_t rows, size_t d, const REAL *x, size_t stride, REAL factor, REAL *out);                     \
        /* most[i] = the greatest |x| of row i < rows, infinity or NaN where one is not finite */                      \
        void (*magnitudes)(size_t rows, size_t d, const REAL *x, size_t stride, REAL *most);                           \
        /* out[c] = (o[c] - lost[c]) / sum, c < n */                                                                   \
        void (*finish)(size_t n, const REAL *o, const REAL *lost, REAL sum, REAL *out);                                \
        /* c (rows, columns) = a (rows, inner) times b (inner, columns), or b given (columns, inner) if transposed; or \
         * is added to c if `add`. Strides are those of rows. A row of c does not depend on the other rows. What       \
         * overflows on the way is infinite or NaN in the end. */                                                      \
        void (*multiply)(size_t rows, size_t columns, size_t inner, const REAL *a, size_t a_stride, const REAL *b,     \
                         size_t b_stride, bool transposed, bool add, REAL *c, size_t c_stride);                        \
    } NAME

ATTN_KERNEL_OPS(attn_ops_f32, float);
ATTN_KERNEL_OPS(attn_ops_f64, double);

/* The row with the portable functions in place of those that are NULL. What has to fit, since the order of packed keys
 * and the stride of score tiles are a row's own, is asserted:
 * - pack_keys and scores are both there or both left out;
 * - tile_q, tile_k, block_q and lanes are all there, or all 0 for the portable row's;
 * - a row that leaves out one of scores, row_max, exp_sum, mix and dots has the portable row's tile_k, and no greater
 *   block_q. */
attn_ops_f32 attn_ops_filled_f32(const attn_ops_f32 *row);
attn_ops_f64 attn_ops_filled_f64(const attn_ops_f64 *row);

struct attn_kernel {
    const char *name;
    bool (*supported)(void);
    attn_ops_f32 f32;
    attn_ops_f64 f64;
    atomic_uint_least64_t *tiles; /* counts score tiles */
};

#endif
