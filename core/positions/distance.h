/* distance.h: biases that depend on the distance of a key from its query: ALiBi's and T5's (inside core/ only). */
#ifndef ATTN_DISTANCE_H
#define ATTN_DISTANCE_H

#include "../attention.h"
#include "../engine/real.h"

/* false if slopes or table are so large that sums with them could leave the range of the type on the way */
bool ATTN_T(attn_distance_safe)(const attn_problem *problem);

/* Adds the biases of the keys [key, key + n) of a query to its scores s. */
void ATTN_T(attn_distance_row)(const attn_problem *problem, size_t batch, size_t head, size_t query, size_t key,
                               size_t n, real *s);

/* Adds the biases of one key to its score, in double. */
double ATTN_T(attn_distance_add)(const attn_problem *problem, size_t batch, size_t head, size_t query, size_t key,
                                 double s);

#endif
