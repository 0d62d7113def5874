/* rms_norm.h: root mean square normalisation of the heads' queries and keys (inside core/ only). */
#ifndef ATTN_RMS_NORM_H
#define ATTN_RMS_NORM_H

#include "attention.h"

/* x[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight * factor, for x (rows, d) of finite numbers, in place (Zhang and
 * Sennrich, arXiv:1910.07467, equation 4, eps added as models do). Computed in double and rounded once; a row of zeros
 * stays zeros. A number that does not fit the type becomes an infinity: true then. */
bool attn_rms_norm_f32(const attn_engine *engine, size_t rows, size_t d, const void *weight, double eps, double factor,
                       void *x);
bool attn_rms_norm_f64(const attn_engine *engine, size_t rows, size_t d, const void *weight, double eps, double factor,
                       void *x);

#endif
