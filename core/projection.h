/* projection.h: y = x W + b for whole batches of rows (inside core/ only). */
#ifndef ATTN_PROJECTION_H
#define ATTN_PROJECTION_H

#include "attention.h"

/* One projection. All is contiguous and row-major but the weight, which has its own stride. Rows count the batch in. */
typedef struct attn_projection {
    size_t rows, inner, columns;
    const void *x;      /* (rows, inner) */
    attn_weight weight; /* (inner, columns) */
    const void *bias;   /* (columns), or NULL */
    void *y;            /* (rows, columns) */
    /* set if some element of y does not fit the type, though every partial sum is allowed to: it holds an infinity
     */
    atomic_bool spilled;
} attn_projection;

/* Runs `count` (at most ATTN_PROJECTIONS) projections side by side, in blocks of rows and columns cut at fixed places,
 * so that the bits depend neither on the pool nor on which projections run together. Every element is within
 * (8 + t/2) eps sum |terms| of the exact sum of its t terms, the bias being one. A set `cancel` ends it early. */
#define ATTN_PROJECTIONS 3
void attn_project_f32(const attn_engine *engine, attn_projection *projections, size_t count, const atomic_bool *cancel);
void attn_project_f64(const attn_engine *engine, attn_projection *projections, size_t count, const atomic_bool *cancel);

/* The first element of block (rows, columns), rows `stride` apart, that is not finite, as its index row * columns +
 * column, from index `from` on; rows * columns if there is none. */
size_t attn_find_not_finite_f32(size_t from, size_t rows, size_t columns, size_t stride, const void *block);
size_t attn_find_not_finite_f64(size_t from, size_t rows, size_t columns, size_t stride, const void *block);

/* heads[r, h, c] *= mask[h] for heads (rows, n_heads, d). true if a product does not fit the type. */
bool attn_mask_heads_f32(size_t rows, size_t n_heads, size_t d, const void *mask, void *heads);
bool attn_mask_heads_f64(size_t rows, size_t n_heads, size_t d, const void *mask, void *heads);

#endif
