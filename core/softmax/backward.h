/* backward.h: gradients of softmax attention without rope (inside core/ only; attn_gradients: attention.h). */
#ifndef ATTN_BACKWARD_H
#define ATTN_BACKWARD_H

#include "plan.h"

/* attn_gradients_workspace and attn_gradients_run of a problem without rope, one type each */
size_t attn_backward_workspace_f32(const attn_engine *engine, const attn_problem *problem, attn_features features,
                                   const attn_gradients *gradients);
size_t attn_backward_workspace_f64(const attn_engine *engine, const attn_problem *problem, attn_features features,
                                   const attn_gradients *gradients);
attn_status attn_backward_f32(const attn_engine *engine, const attn_problem *problem, attn_features features,
                              const attn_gradients *gradients, void *workspace, const atomic_bool *cancel);
attn_status attn_backward_f64(const attn_engine *engine, const attn_problem *problem, attn_features features,
                              const attn_gradients *gradients, void *workspace, const atomic_bool *cancel);

/* to (heads, n, d) = the sum over the batch of parts (batch, heads, n, d) */
void attn_backward_sum_f32(size_t batch, size_t heads, size_t n, size_t d, const void *parts, const attn_out_view *to);
void attn_backward_sum_f64(size_t batch, size_t heads, size_t n, size_t d, const void *parts, const attn_out_view *to);

#endif
