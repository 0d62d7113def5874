/* sinusoidal.h: absolute positions as sines and cosines that join the inputs (inside core/ only). */
#ifndef ATTN_SINUSOIDAL_H
#define ATTN_SINUSOIDAL_H

#include "../attention.h"

/* Rows of one input */
typedef struct attn_sinusoidal {
    size_t batch, n, d;
    const void *x;            /* (batch, n, d) */
    const int64_t *positions; /* (n) of each batch, positions_batch apart, or NULL: ... */
    size_t positions_batch;
    const int64_t *offsets; /* ... i + offsets[batch], or, NULL too, i + first */
    int64_t first;
} attn_sinusoidal;

/* Bytes of workspace of attn_sinusoidal_add: O(n d), nothing of the batch unless its positions differ. SIZE_MAX if they
 * do not fit. */
size_t attn_sinusoidal_workspace_f32(const attn_sinusoidal *input);
size_t attn_sinusoidal_workspace_f64(const attn_sinusoidal *input);

/* out = x + PE, (batch, n, d): PE[p, 2t] = sin(p / 10000^(2t/d)), PE[p, 2t+1] = cos of the same (Vaswani et al.,
 * arXiv:1706.03762, section 3.5); an odd d ends on a sine. */
void attn_sinusoidal_add_f32(const attn_engine *engine, const attn_sinusoidal *input, void *workspace, void *out);
void attn_sinusoidal_add_f64(const attn_engine *engine, const attn_sinusoidal *input, void *workspace, void *out);

#endif
