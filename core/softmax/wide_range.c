/* wide_range.c: attention for numbers so large that the fast path could overflow on the way: plain loops, one row at a
 * time, scores as a fraction and an exponent, all else in double. Says overflow only where a number that counts does
 * not fit. */
#include "../engine/compensated.h"
#include "tile.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* fraction * 2^exponent */
typedef struct wide {
    double fraction;
    int exponent;
} wide;

typedef struct wide_run {
    attn_plan *plan;
    const attn_results *results;
    pthread_mutex_t lock; /* of the rest */
    bool faulty;
    attn_fault fault; /* the least so far */
} wide_run;

/* One row of scores: its place and its memory. */
typedef struct wide_row {
    size_t batch, head, query;
    double *masked; /* (n_k) */
    double *mean;   /* (n_k): weights summed over heads; NULL where not asked for */
    double *output; /* (d_v): sum of w v ... */
    double *lost;   /* (d_v): ... and the error of its roundings */
} wide_row;

static bool fault_before(const attn_fault *a, const attn_fault *b) {
    if (a->stage != b->stage) return a->stage < b->stage;
    if (a->batch != b->batch) return a->batch < b->batch;
    if (a->head != b->head) return a->head < b->head;
    if (a->query != b->query) return a->query < b->query;
    return a->key < b->key;
}

static void report(wide_run *run, const wide_row *row, attn_stage stage, size_t key) {
    attn_fault fault = {stage, row->batch, row->head, row->query, key};
    pthread_mutex_lock(&run->lock);
    if (!run->faulty || fault_before(&fault, &run->fault)) run->fault = fault;
    run->faulty = true;
    pthread_mutex_unlock(&run->lock);
}

static wide widen(double x) {
    wide result;
    result.fraction = frexp(x, &result.exponent);
    return result;
}

static wide times(wide a, double b) {
    wide factor = widen(b);
    wide result = widen(a.fraction * factor.fraction);
    result.exponent += a.exponent + factor.exponent;
    return result;
}

/* infinity where it does not fit real */
static real narrow(wide x) { return (real)ldexp(x.fraction, x.exponent); }

/* A key that is not finite is blocked for every query, and its numbers count as zeros. */
static double number_of(real x) { return isfinite(x) ? (double)x : 0; }

/* q.k term by term with exponents of any size: all terms are brought to the exponent of the largest. */
static wide dot_any_size(size_t d, const real *q, const real *k) {
    int top = INT32_MIN;
    for (size_t c = 0; c < d; c++) {
        wide term = times(widen((double)q[c]), number_of(k[c]));
        if (term.fraction != 0 && term.exponent > top) top = term.exponent;
    }
    if (top == INT32_MIN) return (wide){0, 0};
    double sum = 0;
    for (size_t c = 0; c < d; c++) {
        wide term = times(widen((double)q[c]), number_of(k[c]));
        if (term.fraction != 0) sum += ldexp(term.fraction, term.exponent - top);
    }
    wide result = widen(sum);
    result.exponent += top;
    return result;
}

static wide dot(size_t d, const real *q, const real *k) {
    double sum = 0, size = 0;
    for (size_t c = 0; c < d; c++) {
        double term = (double)q[c] * number_of(k[c]);
        sum += term;
        size += fabs(term);
    }
    /* Away from both ends of double no term overflowed, and those that underflowed don't count. */
    if (size < 0x1p1000 && size > 0x1p-900) return widen(sum);
    return dot_any_size(d, q, k);
}

static real capped_of(const attn_problem *problem, wide scaled) {
    double cap = problem->softcap, s = ldexp(scaled.fraction, scaled.exponent);
    if (cap == 0) return narrow(scaled);
    double x = s / cap;
    if (fabs(x) < 0x1p-30) return (real)s; /* tanh x = x (1 - x^2/3 ...); and s / c may have lost digits */
    return (real)(cap * tanh(x));
}

static void keep(void *result, size_t cell, real value) {
    if (result != NULL) ((real *)result)[cell] = value;
}

/* One cell from q.k to the masked score, which it returns; stores what is asked for and reports what does not fit. */
static double score_cell(wide_run *run, const wide_row *row, const real *q, size_t key, bool open) {
    const attn_problem *problem = run->plan->problem;
    const attn_results *results = run->results;
    size_t kv_head = row->head / run->plan->group;
    size_t cell = ((row->batch * problem->heads + row->head) * problem->n_q + row->query) * run->plan->n_k + key;
    real masked = -(real)INFINITY;
    bool stages = results->scores != NULL || results->scaled != NULL || results->capped != NULL;
    if (open || stages) {
        const real *k = attn_joined(problem, &problem->past_k, &problem->k, row->batch, kv_head, key);
        wide product = dot(problem->d_k, q, k), scaled = times(product, (double)(real)problem->scale);
        real capped = capped_of(problem, scaled);
        keep(results->scores, cell, narrow(product));
        keep(results->scaled, cell, narrow(scaled));
        keep(results->capped, cell, capped);
        if (results->scores != NULL && !isfinite(narrow(product))) report(run, row, ATTN_STAGE_SCORES, key);
        if ((open || results->scaled != NULL) && !isfinite(narrow(scaled))) report(run, row, ATTN_STAGE_SCALED, key);
        if (results->capped != NULL && !isfinite(capped)) report(run, row, ATTN_STAGE_CAPPED, key);
        if (open) masked = capped;
    }
    if (open && problem->bias.data != NULL) {
        const attn_broadcast *bias = &problem->bias;
        masked += ((const real *)bias->data)[row->batch * bias->batch + row->head * bias->head +
                                             row->query * bias->query + key * bias->key];
    }
    if (open && !isfinite(masked)) report(run, row, ATTN_STAGE_MASKED, key);
    keep(results->masked, cell, masked);
    return (double)masked;
}

/* row->masked: scores -> weights. Returns their log-sum-exp, -infinity where no key is open. */
static double softmax_row(size_t n, double *s) {
    double max = -INFINITY, sum = 0, lost = 0;
    for (size_t j = 0; j < n; j++) max = s[j] > max ? s[j] : max;
    for (size_t j = 0; j < n; j++) {
        s[j] = max == -INFINITY ? 0 : exp(s[j] - max);
        ATTN_ADD_COMPENSATED(sum, lost, s[j]);
    }
    for (size_t j = 0; j < n && sum > 0; j++) s[j] /= sum;
    return sum > 0 ? max + log(sum) : -INFINITY;
}

static const real *value_row(const wide_run *run, const wide_row *row, size_t key) {
    const attn_problem *problem = run->plan->problem;
    size_t kv_head = row->head / run->plan->group;
    return attn_joined(problem, &problem->past_v, &problem->v, row->batch, kv_head, key);
}

/* the greatest |v| of the keys that take part */
static double greatest_value(const wide_run *run, const wide_row *row) {
    double most = 0;
    for (size_t j = 0; j < run->plan->n_k; j++) {
        if (row->masked[j] == 0) continue;
        const real *v = value_row(run, row, j);
        for (size_t c = 0; c < run->plan->problem->d_v; c++) most = fmax(most, fabs((double)v[c]));
    }
    return most;
}

/* sum of w v, taken of v / 2^exponent, the greatest of which is just under 1; it is no greater than the greatest |v| */
static void mix_row(const wide_run *run, const wide_row *row) {
    const attn_problem *problem = run->plan->problem;
    const attn_out_view *view = &run->results->output;
    memset(row->output, 0, problem->d_v * sizeof(double));
    memset(row->lost, 0, problem->d_v * sizeof(double));
    wide most = widen(greatest_value(run, row));
    for (size_t j = 0; j < run->plan->n_k; j++) {
        if (row->masked[j] == 0) continue;
        const real *v = value_row(run, row, j);
        for (size_t c = 0; c < problem->d_v; c++) {
            const double term = row->masked[j] * ldexp((double)v[c], -most.exponent);
            ATTN_ADD_COMPENSATED(row->output[c], row->lost[c], term);
        }
    }
    real *to = (real *)view->data + row->batch * view->batch + row->head * view->head + row->query * view->row;
    for (size_t c = 0; c < problem->d_v; c++) {
        double sum = row->output[c] - row->lost[c];
        if (fabs(sum) > most.fraction) sum = copysign(most.fraction, sum);
        to[c] = narrow((wide){sum, most.exponent});
    }
}

static void attend_row(wide_run *run, const wide_row *row) {
    const attn_plan *plan = run->plan;
    const attn_problem *problem = plan->problem;
    const attn_results *results = run->results;
    const attn_view *view = &problem->q;
    const real *q =
        (const real *)view->data + row->batch * view->batch + row->head * view->head + row->query * view->row;
    attn_span span = attn_query_span(problem, row->batch, row->query);
    for (size_t j = 0; j < plan->n_k; j++) {
        bool open = j >= span.lo && j < span.hi && attn_cell_is_open(problem, row->batch, row->head, row->query, j);
        row->masked[j] = score_cell(run, row, q, j, open);
    }
    double lse = softmax_row(plan->n_k, row->masked);
    size_t index = (row->batch * problem->heads + row->head) * problem->n_q + row->query;
    keep(results->lse, index, (real)lse);
    for (size_t j = 0; j < plan->n_k; j++) {
        keep(results->weights, index * plan->n_k + j, (real)row->masked[j]);
        if (row->mean != NULL) row->mean[j] += row->masked[j];
    }
    if (results->output.data != NULL) mix_row(run, row);
}

/* All heads of one query. */
static void query_item(void *arg, size_t item, size_t slot) {
    wide_run *run = arg;
    attn_plan *plan = run->plan;
    const attn_problem *problem = plan->problem;
    wide_row row = {.batch = item / problem->n_q,
                    .query = item % problem->n_q,
                    .masked = attn_slot_part(plan, slot, ATTN_SLOT_WIDE_MASKED),
                    .output = attn_slot_part(plan, slot, ATTN_SLOT_WIDE_OUTPUT),
                    .lost = attn_slot_part(plan, slot, ATTN_SLOT_WIDE_LOST)};
    if (run->results->mean_weights != NULL) {
        row.mean = attn_slot_part(plan, slot, ATTN_SLOT_WIDE_MEAN);
        for (size_t j = 0; j < plan->n_k; j++) row.mean[j] = 0;
    }
    for (row.head = 0; row.head < problem->heads; row.head++) {
        if (attn_plan_cancelled(plan)) return;
        attend_row(run, &row);
    }
    for (size_t j = 0; j < plan->n_k && row.mean != NULL; j++) {
        keep(run->results->mean_weights, item * plan->n_k + j, (real)(row.mean[j] / (double)problem->heads));
    }
}

attn_status ATTN_T(attn_wide_range)(attn_plan *plan, const attn_results *results, attn_fault *fault) {
    wide_run run = {.plan = plan, .results = results, .lock = PTHREAD_MUTEX_INITIALIZER};
    attn_pool_for(plan->pool, plan->problem->batch * plan->problem->n_q, query_item, &run);
    pthread_mutex_destroy(&run.lock);
    if (attn_plan_cancelled(plan)) return ATTN_CANCELLED;
    if (!run.faulty) return ATTN_OK;
    if (fault != NULL) *fault = run.fault;
    return ATTN_OVERFLOW;
}
