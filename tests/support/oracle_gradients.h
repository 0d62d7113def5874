/* oracle_gradients.h: independent gradients of softmax attention, and how far computed ones may be from them. */
#ifndef ORACLE_GRADIENTS_H
#define ORACLE_GRADIENTS_H

#include "oracle.h"

/* Contiguous: q (batch, heads, n_q, d_k); k, v (batch, kv_heads, n_new, d); bias as problem->bias; sinks (heads). */
typedef struct oracle_gradients {
    oracle_tensor q, k, v, bias, sinks;
    bool doubtful; /* the problem's own numbers may not fit the type */
} oracle_gradients;

/* The Jacobians of each step, in long double, from the weights of the oracle, for a problem without rope. grad_output
 * is contiguous, (batch, heads, n_q, d_v); bias_count numbers stand behind problem->bias. Never NULL. */
oracle_gradients *oracle_gradients_new(const attn_problem *problem, const void *grad_output, size_t bias_count);
void oracle_gradients_free(oracle_gradients *answer);

#endif
