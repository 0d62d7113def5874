/* small.c: problems of a few numbers, such as a worked example, at once: what the tiled path sets up costs three times
 * as much as the arithmetic. Sums of so few terms are plain loops; the exponentials are the kernel row's, all of a head
 * in one call.
 *
 * A problem comes here by its sizes and options alone, never by its numbers or by what is asked for; a row whose query
 * or open keys are out of range is done by wide_range.c. So the bits of a row's output and lse depend on neither, nor
 * on the numbers of blocked keys and other rows. */
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
#define VALUE_LEAST (REAL_MIN / REAL_EPS)
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

typedef struct small_head {
    const attn_problem *problem;
    const attn_results *results;
    size_t batch, head;
    rows_view q, k, v;
    attn_span reach;            /* the keys that some query may attend ... */
    attn_span open[MOST_CELLS]; /* ... and those of each query */
} small_head;

static rows_view part_of(rows_view x, size_t first) { return (rows_view){x.data + first * x.row, x.row}; }

static inline bool in_range(const small_head *h, size_t query, size_t queries, attn_span keys) {
    const attn_problem *p = h->problem;
    const size_t n = keys.hi > keys.lo ? keys.hi - keys.lo : 0;
    return within(queries, p->d_k, part_of(h->q, query), 0, FACTOR_MOST) &&
           within(n, p->d_k, part_of(h->k, n ? keys.lo : 0), 0, FACTOR_MOST) &&
           within(n, p->d_v, part_of(h->v, n ? keys.lo : 0), VALUE_LEAST, VALUE_MOST);
}

/* s (n_q, n) = scaled scores, counted from max; blocked keys are -infinity, and max 0 without an open one. */
static void scores(const small_head *h, real *s, real *max) {
    const size_t n = h->problem->n_new, d = h->problem->d_k;
    const real scale = (real)h->problem->scale, blocked = -(real)INFINITY;
    for (size_t i = 0; i < h->problem->n_q; i++, s += n) {
        const attn_span open = h->open[i];
        const real *q = h->q.data + i * h->q.row;
        real most = blocked;
        for (size_t j = 0; j < n; j++) {
            const real *k = h->k.data + j * h->k.row;
            s[j] = blocked;
            if (j < open.lo || j >= open.hi) continue;
            real sum = 0;
            for (size_t c = 0; c < d; c++) {
                sum += q[c] * k[c];
                KEEP_SCALAR(c);
            }
            s[j] = sum * scale;
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
static inline void mix_row(const small_head *h, size_t query, const real *e, real sum, real *out) {
    const real by = sum > 0 ? sum : 1;
    const attn_span open = h->open[query];
    const rows_view v = h->v;
    for (size_t c = 0, d = h->problem->d_v; c < d; c++) {
        real x = 0;
        for (size_t j = open.lo; j < open.hi; j++) {
            x += e[j] * v.data[j * v.row + c];
            KEEP_SCALAR(j);
        }
        out[c] = x / by;
        KEEP_SCALAR(c);
    }
}

static bool wide_row(const small_head *h, size_t query) {
    double masked[MOST_KEYS], output[MOST_PRODUCTS], lost[MOST_PRODUCTS];
    const attn_results wanted = {.output = h->results->output, .lse = h->results->lse};
    const attn_wide_row row = {.results = &wanted,
                               .batch = h->batch,
                               .head = h->head,
                               .query = query,
                               .masked = masked,
                               .output = output,
                               .lost = lost};
    attn_fault fault;
    return ATTN_T(attn_wide_row_alone)(h->problem, &row, &fault) == ATTN_OK;
}

static void finish_row(const small_head *h, size_t query, const real *e, real max) {
    const attn_out_view *view = &h->results->output;
    real sum = 0;
    for (size_t j = 0; j < h->problem->n_new; j++) sum += e[j];
    if (view->data != NULL)
        mix_row(h, query, e, sum,
                (real *)view->data + h->batch * view->batch + h->head * view->head + query * view->row);
    if (h->results->lse != NULL) {
        real *lse = (real *)h->results->lse + (h->batch * h->problem->heads + h->head) * h->problem->n_q + query;
        *lse = sum > 0 ? (real)((double)max + log((double)sum)) : -(real)INFINITY;
    }
}

static bool attend_head(const attn_kernel *kernel, small_head *h) {
    const attn_problem *p = h->problem;
    const size_t n_q = p->n_q, n = p->n_new, kv_head = h->head / (p->heads / p->kv_heads);
    h->q = rows_of(&p->q, h->batch, h->head);
    h->k = rows_of(&p->k, h->batch, kv_head);
    h->v = rows_of(&p->v, h->batch, kv_head);
    _Alignas(64) real e[MOST_CELLS];
    real max[MOST_CELLS], all;
    const real nothing = 0;
    const bool fast = in_range(h, 0, n_q, h->reach);
    scores(h, e, max);
    ATTN_T(attn_ops_of)(kernel)->exp_sum(1, n_q * n, e, 1, &nothing, &all);
    for (size_t i = 0; i < n_q; i++) {
        if (__builtin_expect(fast, true) || in_range(h, i, 1, h->open[i]))
            finish_row(h, i, e + i * n, max[i]);
        else if (!wide_row(h, i))
            return false;
    }
    return true;
}

bool ATTN_T(attn_small)(const attn_kernel *kernel, const attn_problem *problem, attn_features features,
                        const attn_results *results) {
    if (!fits(problem, features)) return false;
    small_head h; /* filled member by member: zeros for the whole of it would take a tenth of the time */
    h.problem = problem;
    h.results = results;
    for (h.batch = 0; h.batch < problem->batch; h.batch++) {
        const attn_span all = {0, problem->n_new};
        h.reach = features == 0 ? all : attn_reach(problem, h.batch);
        for (size_t i = 0; i < problem->n_q; i++)
            h.open[i] = features == 0 ? all : attn_query_span(problem, h.batch, i);
        for (h.head = 0; h.head < problem->heads; h.head++)
            if (!attend_head(kernel, &h)) return false;
    }
    atomic_fetch_add_explicit(kernel->tiles, problem->batch * problem->heads, memory_order_relaxed);
    return true;
}
