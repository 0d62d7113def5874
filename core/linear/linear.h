/* linear.h: linear attention for either number type (inside core/ only). */
#ifndef ATTN_LINEAR_H
#define ATTN_LINEAR_H

#include "../attention.h"

size_t attn_linear_workspace_f32(const attn_engine *engine, const attn_problem *problem, const attn_results *results);
size_t attn_linear_workspace_f64(const attn_engine *engine, const attn_problem *problem, const attn_results *results);
attn_status attn_linear_run_f32(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                                void *workspace, const atomic_bool *cancel, attn_fault *fault);
attn_status attn_linear_run_f64(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                                void *workspace, const atomic_bool *cancel, attn_fault *fault);

#endif
