/* problem.h: attention problems for tests, random or given, and runs of them.
 *
 * Every tensor has an allocation of exactly its own length, so that a sanitizer sees each number read beyond it.
 */
#ifndef PROBLEM_H
#define PROBLEM_H

#include "../../core/attention.h"
#include "check.h"
#include "oracle.h"

/* Memory that is freed together. Zero-initialised to begin with. */
typedef struct bag {
    void **items;
    size_t count;
} bag;
void *bag_take(bag *owner, size_t bytes); /* never NULL: ends the program when out of memory */
void bag_empty(bag *owner);

/* random numbers of a type: normal, times `spread` */
void *numbers_random(bag *owner, attn_dtype dtype, size_t count, double spread);
void *numbers_filled(bag *owner, attn_dtype dtype, size_t count, double value);

/* The upper limits of a random problem. */
typedef struct problem_limits {
    size_t batch, heads, n, d;
} problem_limits;

/* A plain problem: (batch, heads, n, d) contiguous, random normal numbers, no options; scale 1 / sqrt(d_k). */
attn_problem problem_plain(bag *owner, attn_dtype dtype, size_t batch, size_t heads, size_t kv_heads, size_t n_q,
                           size_t n_k, size_t d_k, size_t d_v);
/* Sizes within the limits, and any combination of options, layouts, strides with gaps (that hold NaN), and values. */
attn_problem problem_random(bag *owner, attn_dtype dtype, const problem_limits *limits);
/* Only the options: past (its sizes included), mask, bias, lengths, offsets, windows, scale, softcap. Blocks some keys
 * for every query. For a problem whose sizes are set; n_past and the past are set here, from kv_heads, d_k and d_v. */
void problem_options(bag *owner, attn_problem *problem);
/* A few words on sizes and options, for messages. Static storage, one per thread. */
const char *problem_text(const attn_problem *problem);

/* Which results a run asks for: bits in the order of attn_results. */
enum {
    WANT_OUTPUT = 1,
    WANT_SCORES = 2,
    WANT_SCALED = 4,
    WANT_CAPPED = 8,
    WANT_MASKED = 16,
    WANT_WEIGHTS = 32,
    WANT_MEAN = 64,
    WANT_LSE = 128,
    WANT_PRESENT_K = 256,
    WANT_PRESENT_V = 512,
    WANT_ALL = 1023,
    WANT_KINDS = 10
};
/* Room for the results named by `want`, filled with bytes that no correct result has. The output is contiguous. */
attn_results results_room(bag *owner, const attn_problem *problem, unsigned want);
/* The place and number of bytes of kind `index` < WANT_KINDS; NULL if it is not asked for. */
void *results_at(const attn_results *results, const attn_problem *problem, size_t index, size_t *bytes);
const char *results_name(size_t index);
/* the oracle's tensor of kind `index` */
const oracle_tensor *results_expected(const oracle *answer, size_t index);

/* attn_run with a workspace of exactly the length that attn_workspace says, aligned to 64 */
attn_status run_problem(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                        const atomic_bool *cancel, attn_fault *fault);
attn_status run_mha(const attn_engine *engine, const attn_mha *mha, const attn_mha_results *results,
                    const atomic_bool *cancel, attn_fault *fault);

/* Runs the problem with everything in `want` asked for and CHECKs status, fault and every result against the oracle.
 * false if a CHECK failed. *worst grows to the greatest error / bound seen, if not NULL. */
bool check_problem(const attn_engine *engine, const attn_problem *problem, unsigned want, double *worst);
bool same_fault(const attn_fault *a, const attn_fault *b);

/* The kernel rows that this CPU can run, or the one that ATTENTIOND_KERNEL names; NULL past the last. A test program
 * calls check_kernels_ran at its end: each of those rows must have computed tiles. */
const attn_kernel *test_kernel(size_t index);
void check_kernels_ran(void);

#endif
