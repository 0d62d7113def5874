/* oracle.h: an independent answer to every attention problem, and how far a result may be from it.
 *
 * Plain loops in long double, written from the contract alone. They share no code with core/, only the structures of
 * attention.h, and nothing here is fast.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include "../../core/attention.h"

/* What each element should be, and how far a computed one may be from it. */
typedef struct oracle_tensor {
    size_t count;
    long double *value, *bound;
} oracle_tensor;

/* Shapes as in attn_results; output is contiguous, (batch, heads, n_q, d_v). */
typedef struct oracle {
    oracle_tensor scores, scaled, capped, masked, weights, mean_weights, lse, output, present_k, present_v;
    bool overflows; /* the run must answer ATTN_OVERFLOW with this fault */
    bool doubtful;  /* some number is within its bound of the largest that fits: both answers are right */
    attn_fault fault;
} oracle;

/* `results` says what is asked for, as that decides which numbers may overflow. Never NULL: ends the program when out
 * of memory. oracle_free allows NULL. */
oracle *oracle_attention(const attn_problem *problem, const attn_results *results);
void oracle_free(oracle *answer);

/* true where key j is open to query i, from the contract's section 2 */
bool oracle_open(const attn_problem *problem, size_t batch, size_t head, size_t query, size_t key);

/* Shapes as in attn_mha_results. */
typedef struct oracle_mha {
    oracle_tensor q, k, v, heads, output;
    oracle *attention;
    bool overflows, doubtful;
    attn_fault fault;
} oracle_mha;

/* Each step starts from the rounded numbers of the step before: `computed` gives those of q, k, v and heads (before
 * that, its NULL members are rounded from the oracle's own, in which case bounds of later steps are not to be used).
 * `results` says what is asked for. */
oracle_mha *oracle_mha_new(const attn_mha *mha, const attn_mha_results *results, const attn_mha_results *computed);
void oracle_mha_free(oracle_mha *answer);

/* The comparison of a result with its expected values. A NaN fails; infinities must be equal; elsewhere the error must
 * be within the bound. `text` describes the worst element. */
typedef struct oracle_report {
    size_t worst;
    long double expected, got, ratio; /* error / bound; infinite for NaN and for any error where the bound is 0 */
    char text[160];
} oracle_report;

/* got is contiguous, expected->count numbers. true where all are within their bounds. */
bool oracle_compare(attn_dtype dtype, const oracle_tensor *expected, const void *got, oracle_report *report);

/* numbers of either type */
long double oracle_at(attn_dtype dtype, const void *data, size_t index);
void oracle_put(attn_dtype dtype, void *data, size_t index, long double value);

/* Where check_extended() is false the oracle is no more exact than the code under test: it calls everything doubtful,
 * and oracle_compare only fails for NaN. */

#endif
