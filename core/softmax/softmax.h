/* softmax.h: softmax over keys, with the features of a problem said by the caller (inside core/ only). */
#ifndef ATTN_SOFTMAX_H
#define ATTN_SOFTMAX_H

#include "features.h"

/* attn_run of ATTN_SOFTMAX. `features` are attn_features_of(problem); a test adds one that no path knows. */
attn_status attn_softmax_run(const attn_engine *engine, const attn_problem *problem, attn_features features,
                             const attn_results *results, void *workspace, const atomic_bool *cancel,
                             attn_fault *fault);

/* attn_workspace of ATTN_SOFTMAX, likewise */
size_t attn_softmax_workspace(const attn_engine *engine, const attn_problem *problem, attn_features features,
                              const attn_results *results);

#endif
