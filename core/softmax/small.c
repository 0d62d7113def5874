/* small.c: problems of a few numbers, such as a worked example, at once: what the tiled path sets up costs three times
 * as much as the arithmetic. Sums of so few terms are plain loops; the exponentials are the kernel row's, all of a head
 * in one call.
 *
 * A problem comes here by its sizes, settings and numbers alone, never by what is asked for: so the bits of the output
 * and of lse don't depend on that. Everything else, and what could overflow, is left to the tiles. */
#include "tile.h"

#include <math.h>
#include <string.h>

/* Sums of so many terms round by less than half of it, in eps; section 5 of the contract allows 8. */
#define MOST_KEYS 16
#define MOST_CELLS 32     /* of a head */
#define MOST_PRODUCTS 192 /* of a head: from about here on tiles are as fast */
#define MOST_HEADS 4096   /* of the batch: more are for all threads, and can be cancelled */

/* Scores stay below d |q| |k| scale = 2^(9 + 40 + 40 + 8), or 2^(9 + 400 + 400 + 8); sums of e v, e <= 1, below 2^100
 * or 2^960. Where all of a row of values is below VALUE_LEAST, products with e may be subnormal. */
#define SCALE_LEAST 0x1p-60
#define SCALE_MOST 0x1p8
#ifdef ATTN_DOUBLE
#define FACTOR_MOST 0x1p400
#define VALUE_MOST 0x1p960
#else
#define FACTOR_MOST 0x1p40f
#define VALUE_MOST 0x1p96f
#endif

/* In a loop: the compiler makes no vectors of it. Two lanes loaded where each was just stored alone wait for the cache.
 */
#define KEEP_SCALAR(index) __asm__ volatile("" : "+r"(index))

/* Rows of one head, `row` numbers apart */
typedef struct rows_view {
    const real *data;
    size_t row;
} rows_view;

/* What is done here; a problem that uses anything else goes the general way. */
#define KNOWN (ATTN_HAS_LENGTHS | ATTN_HAS_OFFSET | ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW)

static bool fits(const attn_problem *problem, attn_features features) {
    const size_t n = problem->n_new, d_k = problem->d_k, d_v = problem->d_v;
    if (!attn_knows(KNOWN, features)) return false;
    if (problem->heads == 0 || problem->heads > MOST_HEADS || problem->batch > MOST_HEADS / problem->heads)
        return false;
    if (!(problem->scale >= SCALE_LEAST && problem->scale <= SCALE_MOST)) return false;
    return n - 1 < MOST_KEYS && problem->n_q <= MOST_CELLS && d_k <= MOST_PRODUCTS && d_v <= MOST_PRODUCTS &&
           problem->n_q * n <= MOST_CELLS && problem->n_q * n * (d_k + d_v) <= MOST_PRODUCTS;
}

static inline rows_view rows_of(const attn_view *view, size_t batch, size_t head) {
    return (rows_view){(const real *)view->data + batch * view->batch + head * view->head, view->row};
}

/* true where every number is zero, or from `least` to `most` in size, which are ordered as their bits are */
static inline bool within(size_t rows, size_t d, rows_view x, real least, real most) {
    if (x.row == d) d *= rows, rows = 1;
    const bits from = bits_of(least), room = bits_of(most) - from;
    bits bad = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < d; c++) {
            const bits size = bits_of(x.data[i * x.row + c]) & SIGN_OFF;
            bad |= (bits)(size - from > room) & (bits)(size != 0);
            KEEP_SCALAR(c);
        }
    return bad == 0;
}

/* s (n_q, n) = scaled scores, counted from max; blocked keys are -infinity, and max 0 without an open one.
 */
static void scores(const attn_problem *problem, size_t batch, rows_view q, rows_view k, real *s, real *max) {
    const size_t n = problem->n_new, d = problem->d_k;
    const bool spans = problem->causal || problem->has_window || problem->kv_lengths != NULL;
    const real scale = (real)problem->scale, blocked = -(real)INFINITY;
    for (size_t i = 0; i < problem->n_q; i++, s += n) {
        const attn_span open = spans ? attn_query_span(problem, batch, i) : (attn_span){0, n};
        real most = blocked;
        for (size_t j = 0; j < n; j++) {
            real sum = 0;
            for (size_t c = 0; c < d; c++) {
                sum += q.data[i * q.row + c] * k.data[j * k.row + c];
                KEEP_SCALAR(c);
            }
            s[j] = open.lo <= j && j < open.hi ? sum * scale : blocked;
            most = s[j] > most ? s[j] : most;
        }
        max[i] = most;
        for (size_t j = 0; j < n && most != blocked; j++) {
            s[j] -= most;
            KEEP_SCALAR(j);
        }
    }
}

/* out (d_v) = sum of e v / sum, of a row of e; zeros where the sum is 0 */
static inline void mix_row(const attn_problem *problem, const real *e, real sum, rows_view v, real *out) {
    const real by = sum > 0 ? sum : 1;
    for (size_t c = 0; c < problem->d_v; c++) {
        real x = 0;
        for (size_t j = 0; j < problem->n_new; j++) {
            x += e[j] * v.data[j * v.row + c];
            KEEP_SCALAR(j);
        }
        out[c] = x / by;
        KEEP_SCALAR(c);
    }
}

static bool attend_head(const attn_kernel *kernel, const attn_problem *problem, const attn_results *results,
                        size_t batch, size_t head) {
    const size_t n_q = problem->n_q, n = problem->n_new, kv_head = head / (problem->heads / problem->kv_heads);
    const rows_view q = rows_of(&problem->q, batch, head), k = rows_of(&problem->k, batch, kv_head),
                    v = rows_of(&problem->v, batch, kv_head);
    if (!within(n_q, problem->d_k, q, 0, FACTOR_MOST) || !within(n, problem->d_k, k, 0, FACTOR_MOST) ||
        !within(n, problem->d_v, v, VALUE_LEAST, VALUE_MOST))
        return false;
    _Alignas(64) real e[MOST_CELLS];
    real max[MOST_CELLS], all;
    const real nothing = 0;
    scores(problem, batch, q, k, e, max);
    ATTN_T(attn_ops_of)(kernel)->exp_sum(1, n_q * n, e, 1, &nothing, &all);
    const attn_out_view *view = &results->output;
    for (size_t i = 0; i < n_q; i++) {
        const real *row = e + i * n;
        real sum = 0;
        for (size_t j = 0; j < n; j++) sum += row[j];
        if (view->data != NULL)
            mix_row(problem, row, sum, v, (real *)view->data + batch * view->batch + head * view->head + i * view->row);
        if (results->lse != NULL) {
            real *lse = (real *)results->lse + (batch * problem->heads + head) * n_q + i;
            *lse = sum > 0 ? (real)((double)max[i] + log((double)sum)) : -(real)INFINITY;
        }
    }
    return true;
}

bool ATTN_T(attn_small)(const attn_kernel *kernel, const attn_problem *problem, attn_features features,
                        const attn_results *results) {
    if (!fits(problem, features)) return false;
    for (size_t b = 0; b < problem->batch; b++)
        for (size_t h = 0; h < problem->heads; h++)
            if (!attend_head(kernel, problem, results, b, h)) return false;
    atomic_fetch_add_explicit(kernel->tiles, problem->batch * problem->heads, memory_order_relaxed);
    return true;
}
