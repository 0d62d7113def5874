/* wide_range.c: attention for numbers so large that the fast path could overflow on the way: plain loops, one row at a
 * time, scores as a fraction and an exponent, all else in double. Says overflow only if a number that counts does
 * not fit. */
#include "../engine/compensated.h"
#include "../positions/distance.h"
#include "tile.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* fraction * 2^exponent */
typedef struct wide {
    double fraction;
    int exponent;
} wide;

/* The least fault of all rows, which are done side by side */
typedef struct fault_list {
    pthread_mutex_t lock; /* of the rest */
    bool faulty;
    attn_fault least;
} fault_list;

typedef struct context {
    const attn_problem *problem;
    size_t group, n_k;
    fault_list *faults;
} context;

typedef attn_wide_row wide_row;

static context context_of(const attn_problem *problem, fault_list *faults) {
    return (context){problem, problem->heads / problem->kv_heads, problem->n_past + problem->n_new, faults};
}

static bool fault_before(const attn_fault *a, const attn_fault *b) {
    if (a->stage != b->stage) return a->stage < b->stage;
    if (a->batch != b->batch) return a->batch < b->batch;
    if (a->head != b->head) return a->head < b->head;
    if (a->query != b->query) return a->query < b->query;
    return a->key < b->key;
}

static void report(const context *run, const wide_row *row, attn_stage stage, size_t key) {
    const attn_fault fault = {stage, row->batch, row->head, row->query, key};
    pthread_mutex_lock(&run->faults->lock);
    if (!run->faults->faulty || fault_before(&fault, &run->faults->least)) run->faults->least = fault;
    run->faults->faulty = true;
    pthread_mutex_unlock(&run->faults->lock);
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

/* infinity if it does not fit real */
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
static double score_cell(const context *run, const wide_row *row, const real *q, size_t key, bool open) {
    const attn_problem *problem = run->problem;
    const attn_results *results = row->results;
    size_t kv_head = row->head / run->group;
    size_t cell = ((row->batch * problem->heads + row->head) * problem->n_q + row->query) * run->n_k + key;
    double masked = -INFINITY;
    bool stages = results->scores != NULL || results->scaled != NULL || results->capped != NULL;
    if (open || stages) {
        const real *k = attn_joined(problem, &problem->past_k, &problem->k, row->batch, kv_head, key);
        wide product = dot(problem->d_k, q, k),
             scaled = times(product, (double)ATTN_T(attn_scale_of)(problem, row->head));
        real capped = capped_of(problem, scaled);
        keep(results->scores, cell, narrow(product));
        keep(results->scaled, cell, narrow(scaled));
        keep(results->capped, cell, capped);
        if (results->scores != NULL && !isfinite(narrow(product))) report(run, row, ATTN_STAGE_SCORES, key);
        if ((open || results->scaled != NULL) && !isfinite(narrow(scaled))) report(run, row, ATTN_STAGE_SCALED, key);
        if (results->capped != NULL && !isfinite(capped)) report(run, row, ATTN_STAGE_CAPPED, key);
        if (open) masked = (double)capped;
    }
    if (open && problem->bias.data != NULL) {
        const attn_broadcast *bias = &problem->bias;
        masked += (double)((const real *)bias->data)[row->batch * bias->batch + row->head * bias->head +
                                                     row->query * bias->query + key * bias->key];
    }
    if (open) masked = (double)(real)ATTN_T(attn_distance_add)(problem, row->batch, row->head, row->query, key, masked);
    if (open && !isfinite(masked)) report(run, row, ATTN_STAGE_MASKED, key);
    keep(results->masked, cell, (real)masked);
    return masked;
}

/* row->masked: scores -> weights. Returns the log-sum-exp of them and of the sink, which is -infinity if there is none.
 */
static double softmax_row(size_t n, double sink, double *s) {
    double max = sink, sum = 0, lost = 0;
    for (size_t j = 0; j < n; j++) max = s[j] > max ? s[j] : max;
    if (sink > -INFINITY) sum = exp(sink - max);
    for (size_t j = 0; j < n; j++) {
        s[j] = max == -INFINITY ? 0 : exp(s[j] - max);
        ATTN_ADD_COMPENSATED(sum, lost, s[j]);
    }
    for (size_t j = 0; j < n && sum > 0; j++) s[j] /= sum;
    return sum > 0 ? max + log(sum) : -INFINITY;
}

static const real *value_row(const context *run, const wide_row *row, size_t key) {
    const attn_problem *problem = run->problem;
    size_t kv_head = row->head / run->group;
    return attn_joined(problem, &problem->past_v, &problem->v, row->batch, kv_head, key);
}

/* the greatest |v| of the keys that take part */
static double greatest_value(const context *run, const wide_row *row) {
    double most = 0;
    for (size_t j = 0; j < run->n_k; j++) {
        if (row->masked[j] == 0) continue;
        const real *v = value_row(run, row, j);
        for (size_t c = 0; c < run->problem->d_v; c++) most = fmax(most, fabs((double)v[c]));
    }
    return most;
}

/* sum of w v, taken of v / 2^exponent, the greatest of which is just under 1; it is not greater than the greatest |v|
 */
static void mix_row(const context *run, const wide_row *row) {
    const attn_problem *problem = run->problem;
    const attn_out_view *view = &row->results->output;
    memset(row->output, 0, problem->d_v * sizeof(double));
    memset(row->lost, 0, problem->d_v * sizeof(double));
    wide most = widen(greatest_value(run, row));
    for (size_t j = 0; j < run->n_k; j++) {
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

static const real *query_of(const attn_problem *problem, const wide_row *row) {
    const attn_view *view = &problem->q;
    return (const real *)view->data + row->batch * view->batch + row->head * view->head + row->query * view->row;
}

static bool is_open(const attn_problem *problem, const wide_row *row, attn_span span, size_t key) {
    return key >= span.lo && key < span.hi && attn_cell_is_open(problem, row->batch, row->head, row->query, key);
}

static void attend_row(const context *run, const wide_row *row) {
    const attn_problem *problem = run->problem;
    const attn_results *results = row->results;
    const real *q = query_of(problem, row);
    const attn_span span = attn_query_span(problem, row->batch, row->query);
    for (size_t j = 0; j < run->n_k; j++) row->masked[j] = score_cell(run, row, q, j, is_open(problem, row, span, j));
    const double sink = problem->sinks != NULL ? (double)((const real *)problem->sinks)[row->head] : -INFINITY;
    double lse = softmax_row(run->n_k, sink, row->masked);
    size_t index = (row->batch * problem->heads + row->head) * problem->n_q + row->query;
    keep(results->lse, index, (real)lse);
    for (size_t j = 0; j < run->n_k; j++) {
        keep(results->weights, index * run->n_k + j, (real)row->masked[j]);
        if (row->mean != NULL) row->mean[j] += row->masked[j];
    }
    if (results->output.data != NULL) mix_row(run, row);
}

attn_status ATTN_T(attn_wide_row_alone)(const attn_problem *problem, const attn_wide_row *row, attn_fault *fault) {
    fault_list faults = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const context run = context_of(problem, &faults);
    attend_row(&run, row);
    pthread_mutex_destroy(&faults.lock);
    if (faults.faulty) *fault = faults.least;
    return faults.faulty ? ATTN_OVERFLOW : ATTN_OK;
}

/* ---- which rows ------------------------------------------------------------------------------------------------- */

typedef struct wide_run {
    attn_plan *plan;
    fault_list faults;
} wide_run;

/* What the tiles could not give of a row */
typedef enum row_need { NEED_NOTHING, NEED_OUTPUT, NEED_ALL } row_need;

static row_need need_of(const attn_plan *plan, const wide_row *row) {
    const attn_problem *problem = plan->problem;
    if (plan->out_of_range) return NEED_ALL;
    if (atomic_load(&plan->odd_queries)) {
        real most;
        ATTN_T(attn_ops_of)(plan->kernel)->magnitudes(1, problem->d_k, query_of(problem, row), problem->d_k, &most);
        if (!(most <= ATTN_T(attn_key_limit)(problem))) return NEED_ALL;
    }
    if (!atomic_load(&plan->odd_keys)) return NEED_NOTHING;
    const atomic_uchar *marks = attn_plan_marks(plan, row->batch, row->head / plan->group);
    const attn_span span = attn_query_span(problem, row->batch, row->query);
    row_need need = NEED_NOTHING;
    for (size_t j = span.lo; j < span.hi; j++) {
        const unsigned char mark = atomic_load_explicit(&marks[j], memory_order_relaxed);
        if (mark == 0 || !is_open(problem, row, span, j)) continue;
        if (mark & ATTN_ODD_KEY) return NEED_ALL;
        need = NEED_OUTPUT;
    }
    return need;
}

/* The stages at blocked cells of a row that needs nothing else, of keys that are out of range */
static void redo_blocked_cells(const context *run, const attn_plan *plan, const wide_row *row) {
    const attn_results stages = {
        .scores = plan->results->scores, .scaled = plan->results->scaled, .capped = plan->results->capped};
    const atomic_uchar *marks = attn_plan_marks(plan, row->batch, row->head / plan->group);
    if (!plan->stages || !atomic_load(&plan->odd_keys)) return;
    wide_row cells = *row;
    cells.results = &stages;
    for (size_t j = 0; j < plan->n_k; j++)
        if (atomic_load_explicit(&marks[j], memory_order_relaxed) & ATTN_ODD_KEY)
            score_cell(run, &cells, query_of(plan->problem, row), j, false);
}

/* One row. `mean`: some head of its query needs all, so the mean over heads is made here. */
static void redo_row(const context *run, const attn_plan *plan, const wide_row *of, bool mean) {
    const row_need need = need_of(plan, of);
    attn_results wanted = {.output = {.data = NULL}};
    if (need == NEED_ALL) wanted = *plan->results;
    if (need == NEED_OUTPUT) wanted.output = plan->results->output;
    wide_row row = *of;
    row.results = &wanted;
    if (mean || need == NEED_ALL || (need == NEED_OUTPUT && wanted.output.data != NULL)) attend_row(run, &row);
    if (need != NEED_ALL) redo_blocked_cells(run, plan, &row);
}

/* All heads of one query. */
static void query_item(void *arg, size_t item, size_t slot) {
    wide_run *all = arg;
    attn_plan *plan = all->plan;
    const attn_problem *problem = plan->problem;
    const context run = context_of(problem, &all->faults);
    wide_row row = {.batch = item / problem->n_q,
                    .query = item % problem->n_q,
                    .masked = attn_slot_part(plan, slot, ATTN_SLOT_WIDE_MASKED),
                    .output = attn_slot_part(plan, slot, ATTN_SLOT_WIDE_OUTPUT),
                    .lost = attn_slot_part(plan, slot, ATTN_SLOT_WIDE_LOST)};
    bool mean = false;
    for (row.head = 0; row.head < problem->heads && plan->results->mean_weights != NULL && !mean; row.head++)
        mean = need_of(plan, &row) == NEED_ALL;
    if (mean) {
        row.mean = attn_slot_part(plan, slot, ATTN_SLOT_WIDE_MEAN);
        memset(row.mean, 0, plan->n_k * sizeof *row.mean);
    }
    for (row.head = 0; row.head < problem->heads; row.head++) {
        if (attn_plan_cancelled(plan)) return;
        redo_row(&run, plan, &row, mean);
    }
    for (size_t j = 0; j < plan->n_k && mean; j++)
        keep(plan->results->mean_weights, item * plan->n_k + j, (real)(row.mean[j] / (double)problem->heads));
}

attn_status ATTN_T(attn_wide_range)(attn_plan *plan, attn_fault *fault) {
    const attn_problem *problem = plan->problem;
    if (!plan->out_of_range && !atomic_load(&plan->odd_queries) && !atomic_load(&plan->odd_keys)) return ATTN_OK;
    wide_run run = {.plan = plan, .faults = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    attn_pool_for(plan->pool, problem->batch * problem->n_q, query_item, &run);
    pthread_mutex_destroy(&run.faults.lock);
    if (attn_plan_cancelled(plan)) return ATTN_CANCELLED;
    if (!run.faults.faulty) return ATTN_OK;
    if (fault != NULL) *fault = run.faults.least;
    return ATTN_OVERFLOW;
}
