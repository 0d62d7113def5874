/* oracle.c: where the bounds come from.
 *
 * Let u = eps / 2 be the unit roundoff. A sum of t rounded products in any order, fused or not, errs by at most
 * t u (1 + O(u)) sum |terms| = t/2 eps sum |terms| (Higham, Accuracy and Stability of Numerical Algorithms,
 * section 3.1). Each further step of a stage (the scale, tanh, the bias) adds a few u of a number no greater than sum
 * |terms|, for which 8 eps are allowed: (8 + t/2) eps sum |terms|.
 *
 * If every score errs by at most D, softmax's numerators err by a factor within exp(+-2 D), its weights by 2 D in
 * relative terms, and lse by D. D is d_k/2 eps S for the products and some 2 eps S for scale, bias and the subtraction
 * of the maximum, S being the greatest |score|'s sum of |terms|. With a summation whose error grows like log2 n
 * (pairwise, or in tiles), each output, a convex combination of the values, errs by at most (2 D + (c + log2 n) eps)
 * max |v|, which 8 eps (1 + (1 + d_k/16) S + log2 n) max |v| covers. A bias counts if the weight is at least eps;
 * below that, its relative error has no visible effect.
 *
 * Below the normal range a rounding errs by up to half the least positive number, whatever it rounds: a sum of t
 * products gets (1 + t/2) such numbers on top of its bound, any other result one.
 */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static double number_at(attn_dtype dtype, const void *data, size_t index) {
    return dtype == ATTN_F64 ? ((const double *)data)[index] : (double)((const float *)data)[index];
}

long double oracle_at(attn_dtype dtype, const void *data, size_t index) { return number_at(dtype, data, index); }

void oracle_put(attn_dtype dtype, void *data, size_t index, long double value) {
    if (dtype == ATTN_F64)
        ((double *)data)[index] = (double)value;
    else
        ((float *)data)[index] = (float)value;
}

static long double eps_of(attn_dtype dtype) { return dtype == ATTN_F64 ? 0x1p-52L : 0x1p-23L; }
static long double tiny_of(attn_dtype dtype) { return dtype == ATTN_F64 ? 0x1p-1074L : 0x1p-149L; }
/* the least number that rounds to infinity */
static long double limit_of(attn_dtype dtype) { return dtype == ATTN_F64 ? 0x1.fffffffffffff8p1023L : 0x1.ffffffp127L; }

static void *room(size_t count, size_t size) {
    void *data = calloc(count ? count : 1, size);
    if (!data) {
        fputs("oracle: out of memory\n", stderr);
        exit(3);
    }
    return data;
}

static oracle_tensor tensor(size_t count) {
    return (oracle_tensor){count, room(count, sizeof(long double)), room(count, sizeof(long double))};
}

static void drop(oracle_tensor *t) {
    free(t->value);
    free(t->bound);
}

static void set(oracle_tensor *t, size_t index, long double value, long double bound) {
    t->value[index] = value;
    t->bound[index] = bound;
}

/* ---- which keys are open ---------------------------------------------------------------------------------------- */

static size_t broadcast_index(const attn_broadcast *b, size_t batch, size_t head, size_t query, size_t key) {
    return batch * b->batch + head * b->head + query * b->query + key * b->key;
}

static bool holds(const int64_t *list, size_t count, int64_t x) {
    for (size_t i = 0; i < count; i++)
        if (list[i] == x) return true;
    return false;
}

/* Blocks of BigBird: `position` and `key` are places among the keys. */
static bool blocks_open(const attn_problem *p, size_t head, int64_t position, int64_t key) {
    const attn_pattern *t = p->pattern;
    const int64_t size = (int64_t)t->block_size, ends = (int64_t)t->global_blocks;
    const int64_t blocks = ((int64_t)(p->n_past + p->n_new) + size - 1) / size;
    const int64_t of_query = (position - ((position % size) + size) % size) / size, of_key = key / size;
    if (llabs(of_query - of_key) <= (int64_t)t->window_blocks) return true;
    if (of_key < ends || of_key >= blocks - ends) return true;
    if (of_query < 0 || of_query >= blocks) return false;
    if (of_query < ends || of_query >= blocks - ends) return true;
    if (!t->random) return false;
    const int64_t *lists = t->random + head * t->random_head;
    return holds(lists + (size_t)(of_query - ends) * t->random_count, t->random_count, of_key);
}

static bool pattern_open(const attn_problem *p, size_t batch, size_t head, int64_t position, int64_t key) {
    const attn_pattern *t = p->pattern;
    const int64_t *globals = t->globals ? t->globals + batch * t->globals_batch : NULL, ahead = key - position;
    if (holds(globals, t->global_count, key) || holds(globals, t->global_count, position)) return true;
    const int64_t step = t->dilation ? t->dilation[head] : 1;
    if (ahead % step != 0) return false;
    if (p->has_window && p->window_right >= 0 && ahead / step > p->window_right) return false;
    if (p->has_window && p->window_left >= 0 && -ahead / step > p->window_left) return false;
    return t->block_size == 0 || blocks_open(p, head, position, key);
}

bool oracle_open(const attn_problem *p, size_t batch, size_t head, size_t query, size_t key) {
    const int64_t offset = p->query_offset ? p->query_offset[batch] : (int64_t)p->n_past;
    const int64_t ahead = (int64_t)key - (int64_t)query - offset; /* how far the key lies after the query */
    if (p->mask.data && !((const uint8_t *)p->mask.data)[broadcast_index(&p->mask, batch, head, query, key)])
        return false;
    if (p->bias.data) {
        const double bias = number_at(p->dtype, p->bias.data, broadcast_index(&p->bias, batch, head, query, key));
        if (bias < 0 && isinf(bias)) return false;
    }
    if (p->key_mask && !p->key_mask[batch * p->key_mask_batch + key]) return false;
    if (p->segments && p->segments->of_query[batch * p->segments->of_query_batch + query] !=
                           p->segments->of_key[batch * p->segments->of_key_batch + key])
        return false;
    if (p->kv_lengths && (int64_t)key >= p->kv_lengths[batch]) return false;
    if (p->causal && ahead > 0) return false;
    if (p->pattern) return pattern_open(p, batch, head, (int64_t)query + offset, (int64_t)key);
    if (p->has_window && p->window_right >= 0 && ahead > p->window_right) return false;
    if (p->has_window && p->window_left >= 0 && -ahead > p->window_left) return false;
    return true;
}

static bool query_open(const attn_problem *p, size_t batch, size_t head, size_t query) {
    for (size_t j = 0; j < p->n_past + p->n_new; j++)
        if (oracle_open(p, batch, head, query, j)) return true;
    return false;
}

static bool key_open(const attn_problem *p, size_t batch, size_t kv_head, size_t key) {
    const size_t group = p->heads / p->kv_heads;
    for (size_t h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (size_t i = 0; i < p->n_q; i++)
            if (oracle_open(p, batch, h, i, key)) return true;
    return false;
}

/* ---- one row ---------------------------------------------------------------------------------------------------- */

/* element c of key or value j, past first */
static long double joined(const attn_problem *p, const attn_view *past, const attn_view *new, size_t batch,
                          size_t kv_head, size_t j, size_t c) {
    const attn_view *view = j < p->n_past ? past : new;
    const size_t row = j < p->n_past ? j : j - p->n_past;
    return oracle_at(p->dtype, view->data, batch * view->batch + kv_head * view->head + row * view->row + c);
}

/* only keys blocked for every query may have numbers that are not finite; they count as zeros */
static long double or_zero(long double x) { return isfinite(x) ? x : 0; }

typedef struct place {
    size_t batch, head, query;
} place;

/* Records a number that does not fit, if it is used or asked for; the first in the order of attn_fault wins. */
static void judge(attn_dtype dtype, long double value, long double bound, attn_fault at, bool *overflows,
                  bool *doubtful, attn_fault *fault) {
    if (fabsl(fabsl(value) - limit_of(dtype)) <= bound) *doubtful = true;
    if (fabsl(value) < limit_of(dtype)) return;
    const size_t a[] = {at.stage, at.batch, at.head, at.query, at.key};
    const size_t b[] = {fault->stage, fault->batch, fault->head, fault->query, fault->key};
    size_t i = 0;
    while (i < 4 && a[i] == b[i]) i++;
    if (!*overflows || a[i] < b[i]) *fault = at;
    *overflows = true;
}

static void judge_cell(oracle *o, const attn_problem *p, const attn_results *r, place at, size_t j, size_t cell,
                       bool open) {
    const struct {
        const oracle_tensor *t;
        bool counts;
        attn_stage stage;
    } stages[] = {{&o->scores, r->scores, ATTN_STAGE_SCORES},
                  {&o->scaled, open || r->scaled, ATTN_STAGE_SCALED},
                  {&o->capped, r->capped, ATTN_STAGE_CAPPED},
                  {&o->masked, open, ATTN_STAGE_MASKED}};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (stages[i].counts)
            judge(p->dtype, stages[i].t->value[cell], stages[i].t->bound[cell],
                  (attn_fault){stages[i].stage, at.batch, at.head, at.query, j}, &o->overflows, &o->doubtful,
                  &o->fault);
}

/* What is added to the score of a cell for the distance of its key, and the sizes of its terms. */
static long double distance_bias(const attn_problem *p, place at, size_t j, long double *sizes) {
    const int64_t offset = p->query_offset ? p->query_offset[at.batch] : (int64_t)p->n_past;
    const int64_t i =
        p->positions ? p->positions[at.batch * p->positions_batch + at.query] : (int64_t)at.query + offset;
    const int64_t key = p->key_positions && j >= p->n_past
                            ? p->key_positions[at.batch * p->key_positions_batch + j - p->n_past]
                            : (int64_t)j;
    long double sum = 0;
    *sizes = 0;
    if (p->alibi) sum -= oracle_at(p->dtype, p->alibi, at.head) * fabsl((long double)(key - i));
    *sizes += fabsl(sum);
    if (!p->relative_bias) return sum;
    const attn_relative_bias *r = p->relative_bias;
    const size_t side = r->bidirectional ? r->buckets / 2 : r->buckets;
    int64_t away = i - key;
    size_t bucket = 0, base = 0;
    if (r->bidirectional && away < 0) {
        base = side;
        away = -away;
    }
    for (size_t b = 0; b < side; b++)
        if (r->edges[b] <= away) bucket = b;
    const long double bias = oracle_at(p->dtype, r->table, (base + bucket) * p->heads + at.head);
    *sizes += fabsl(bias);
    return sum + bias;
}

/* the scores of a row through all their stages; returns S of the contract without the biases */
static long double row_stages(oracle *o, const attn_problem *p, const attn_results *r, place at, size_t row) {
    const size_t n_k = p->n_past + p->n_new, kv_head = at.head / (p->heads / p->kv_heads);
    const long double eps = eps_of(p->dtype), tiny = tiny_of(p->dtype), d = (long double)p->d_k;
    const long double of_all = p->dtype == ATTN_F64 ? p->scale : (double)(float)p->scale, cap = p->softcap;
    const long double scale = p->head_scales ? oracle_at(p->dtype, p->head_scales, at.head) : of_all;
    long double greatest = 0;
    for (size_t j = 0; j < n_k; j++) {
        long double dot = 0, terms = 0, bias = 0, sizes;
        for (size_t c = 0; c < p->d_k; c++) {
            const long double q =
                oracle_at(p->dtype, p->q.data, at.batch * p->q.batch + at.head * p->q.head + at.query * p->q.row + c);
            const long double k = or_zero(joined(p, &p->past_k, &p->k, at.batch, kv_head, j, c));
            dot += q * k;
            terms += fabsl(q * k);
        }
        const bool open = oracle_open(p, at.batch, at.head, at.query, j);
        if (p->bias.data)
            bias = oracle_at(p->dtype, p->bias.data, broadcast_index(&p->bias, at.batch, at.head, at.query, j));
        const long double sizes_of_bias = fabsl(bias);
        bias += distance_bias(p, at, j, &sizes);
        sizes += sizes_of_bias;
        const long double scaled = scale * dot, all = fabsl(scale) * terms;
        const long double capped = cap > 0 ? cap * tanhl(scaled / cap) : scaled;
        const size_t cell = row * n_k + j;
        set(&o->scores, cell, dot, (8 + d / 2) * eps * terms + (1 + d / 2) * tiny);
        set(&o->scaled, cell, scaled, (8 + d / 2) * eps * all + tiny);
        set(&o->capped, cell, capped, (8 + d / 2) * eps * all + tiny);
        if (open)
            set(&o->masked, cell, capped + bias, (8 + (d + 1) / 2) * eps * (all + sizes) + tiny);
        else
            set(&o->masked, cell, -INFINITY, 0);
        judge_cell(o, p, r, at, j, cell, open);
        if (open && all > greatest) greatest = all;
    }
    return greatest;
}

/* softmax of a row, its lse and its output */
static void row_answer(oracle *o, const attn_problem *p, place at, size_t row, long double greatest) {
    const size_t n_k = p->n_past + p->n_new, kv_head = at.head / (p->heads / p->kv_heads);
    const long double eps = eps_of(p->dtype), tiny = tiny_of(p->dtype);
    const long double *masked = o->masked.value + row * n_k;
    long double top = -INFINITY, sum = 0, greatest_v = 0;
    for (size_t j = 0; j < n_k; j++) top = fmaxl(top, masked[j]);
    const bool any = top > -INFINITY;
    const long double sink = p->sinks ? oracle_at(p->dtype, p->sinks, at.head) : -INFINITY;
    if (any) top = fmaxl(top, sink);
    for (size_t j = 0; j < n_k; j++)
        if (masked[j] > -INFINITY) sum += expl(masked[j] - top);
    if (p->sinks && any) sum += expl(sink - top);
    for (size_t j = 0; j < n_k; j++) {
        if (!(masked[j] > -INFINITY)) continue;
        const long double weight = expl(masked[j] - top) / sum;
        o->weights.value[row * n_k + j] = weight;
        if (weight >= eps) {
            long double sizes;
            distance_bias(p, at, j, &sizes);
            if (p->bias.data)
                sizes +=
                    fabsl(oracle_at(p->dtype, p->bias.data, broadcast_index(&p->bias, at.batch, at.head, at.query, j)));
            greatest = fmaxl(greatest, sizes);
        }
        for (size_t c = 0; c < p->d_v; c++) {
            const long double v = joined(p, &p->past_v, &p->v, at.batch, kv_head, j, c);
            o->output.value[row * p->d_v + c] += weight * v;
            greatest_v = fmaxl(greatest_v, fabsl(v));
        }
    }
    const long double n = n_k > 1 ? (long double)n_k : 1, lse = any ? top + logl(sum) : sink;
    const long double growth = 1 + (1 + (long double)p->d_k / 16) * greatest + log2l(n);
    for (size_t j = 0; j < n_k; j++)
        o->weights.bound[row * n_k + j] = masked[j] > -INFINITY ? 8 * eps * growth + tiny : 0;
    for (size_t c = 0; c < p->d_v; c++)
        o->output.bound[row * p->d_v + c] = any ? 8 * eps * growth * greatest_v + tiny : 0;
    set(&o->lse, row, lse, any ? 8 * eps * (growth + fabsl(lse)) + tiny : 0);
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static void join(oracle_tensor *t, const attn_problem *p, const attn_view *past, const attn_view *new, size_t d) {
    size_t at = 0;
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->kv_heads; h++)
            for (size_t j = 0; j < p->n_past + p->n_new; j++)
                for (size_t c = 0; c < d; c++) t->value[at++] = joined(p, past, new, b, h, j, c);
}

static void average(oracle *o, const attn_problem *p) {
    const size_t cells = p->n_q * (p->n_past + p->n_new);
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < cells; i++) {
                o->mean_weights.value[b * cells + i] +=
                    o->weights.value[(b * p->heads + h) * cells + i] / (long double)p->heads;
                o->mean_weights.bound[b * cells + i] +=
                    o->weights.bound[(b * p->heads + h) * cells + i] / (long double)p->heads;
            }
}

oracle *oracle_attention(const attn_problem *p, const attn_results *results) {
    const size_t n_k = p->n_past + p->n_new, rows = p->batch * p->heads * p->n_q, keys = p->batch * p->kv_heads * n_k;
    oracle *o = room(1, sizeof *o);
    o->doubtful = !check_extended();
    o->scores = tensor(rows * n_k);
    o->scaled = tensor(rows * n_k);
    o->capped = tensor(rows * n_k);
    o->masked = tensor(rows * n_k);
    o->weights = tensor(rows * n_k);
    o->mean_weights = tensor(p->batch * p->n_q * n_k);
    o->lse = tensor(rows);
    o->output = tensor(rows * p->d_v);
    o->present_k = tensor(keys * p->d_k);
    o->present_v = tensor(keys * p->d_v);
    size_t row = 0;
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < p->n_q; i++, row++) {
                const place at = {b, h, i};
                row_answer(o, p, at, row, row_stages(o, p, results, at, row));
            }
    average(o, p);
    join(&o->present_k, p, &p->past_k, &p->k, p->d_k);
    join(&o->present_v, p, &p->past_v, &p->v, p->d_v);
    return o;
}

void oracle_free(oracle *o) {
    if (!o) return;
    enum { TENSORS = 10 };
    oracle_tensor *const all[TENSORS] = {&o->scores,       &o->scaled, &o->capped, &o->masked,    &o->weights,
                                         &o->mean_weights, &o->lse,    &o->output, &o->present_k, &o->present_v};
    for (size_t i = 0; i < TENSORS; i++) drop(all[i]);
    free(o);
}

/* ---- multi-head attention --------------------------------------------------------------------------------------- */

/* (rows, inner) times the weight plus bias, element (row, column) */
static void linear(oracle_tensor *t, size_t index, attn_dtype dtype, const void *x, size_t row, size_t inner,
                   const attn_weight *w, const void *bias, size_t column, bool positioned) {
    long double sum = bias ? oracle_at(dtype, bias, column) : 0, terms = fabsl(sum), slack = 0;
    for (size_t i = 0; i < inner; i++) {
        const size_t at = w->out_in ? column * w->stride + i : i * w->stride + column;
        const long double term = oracle_at(dtype, x, row * inner + i) * oracle_at(dtype, w->data, at);
        sum += term;
        terms += fabsl(term);
        if (positioned)
            slack += (1 + fabsl(oracle_at(dtype, x, row * inner + i))) * fabsl(oracle_at(dtype, w->data, at));
    }
    const long double t_count = (long double)inner + (bias ? 1 : 0);
    set(t, index, sum, ((8 + t_count / 2) * terms + slack) * eps_of(dtype) + (1 + t_count / 2) * tiny_of(dtype));
}

/* x W + b in the shape (batch, heads, n, d) */
static oracle_tensor projected(const attn_mha *m, const void *x, size_t n, size_t inner, const attn_weight *w,
                               const void *bias, size_t heads, size_t d, bool positioned) {
    const size_t batch = m->attention.batch;
    oracle_tensor t = tensor(batch * heads * n * d);
    size_t at = 0;
    for (size_t b = 0; b < batch; b++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < n; i++)
                for (size_t c = 0; c < d; c++)
                    linear(&t, at++, m->attention.dtype, x, b * n + i, inner, w, bias, h * d + c, positioned);
    return t;
}

/* The rounded numbers of a step: those computed, or the oracle's own. Unused ones that do not fit count as zeros. */
static void *rounded(attn_dtype dtype, const oracle_tensor *t, const void *computed) {
    void *data = room(t->count, attn_sizeof(dtype));
    for (size_t i = 0; i < t->count; i++) {
        const long double x = computed ? oracle_at(dtype, computed, i) : t->value[i];
        oracle_put(dtype, data, i, fabsl(x) < limit_of(dtype) ? x : 0);
    }
    return data;
}

static void judge_projections(oracle_mha *o, const attn_mha *m, const attn_mha_results *r) {
    const attn_problem *a = &m->attention;
    const struct {
        const oracle_tensor *t;
        attn_stage stage;
        size_t heads, n, d;
        bool asked;
    } all[] = {{&o->q, ATTN_STAGE_Q, a->heads, a->n_q, a->d_k, r->q},
               {&o->k, ATTN_STAGE_K, a->kv_heads, a->n_new, a->d_k, r->k || r->attention.present_k},
               {&o->v, ATTN_STAGE_V, a->kv_heads, a->n_new, a->d_v, r->v || r->attention.present_v}};
    for (size_t s = 0; s < sizeof all / sizeof *all; s++)
        for (size_t at = 0; at < all[s].t->count; at++) {
            const size_t c = at % all[s].d, i = at / all[s].d % all[s].n, h = at / all[s].d / all[s].n % all[s].heads;
            const size_t b = at / all[s].d / all[s].n / all[s].heads;
            if (fabsl(all[s].t->value[at]) + all[s].t->bound[at] < limit_of(a->dtype)) continue;
            const bool used = s == 0 ? query_open(a, b, h, i) : key_open(a, b, h, a->n_past + i);
            if (all[s].asked || used)
                judge(a->dtype, all[s].t->value[at], all[s].t->bound[at], (attn_fault){all[s].stage, b, h, i, c},
                      &o->overflows, &o->doubtful, &o->fault);
        }
}

/* the attention's output times head_mask, from (batch, heads, n, d) to (batch, n, heads * d) */
static void merge(oracle_mha *o, const attn_mha *m) {
    const attn_problem *a = &m->attention;
    const oracle_tensor *from = &o->attention->output;
    o->heads = tensor(from->count);
    for (size_t at = 0; at < from->count; at++) {
        const size_t c = at % a->d_v, i = at / a->d_v % a->n_q, h = at / a->d_v / a->n_q % a->heads;
        const size_t b = at / a->d_v / a->n_q / a->heads, to = ((b * a->n_q + i) * a->heads + h) * a->d_v + c;
        const long double factor = m->head_mask ? oracle_at(a->dtype, m->head_mask, h) : 1,
                          value = from->value[at] * factor;
        const long double round = m->head_mask ? eps_of(a->dtype) * fabsl(value) + tiny_of(a->dtype) : 0;
        set(&o->heads, to, value, from->bound[at] * fabsl(factor) + round);
        if (m->head_mask)
            judge(a->dtype, value, o->heads.bound[to], (attn_fault){ATTN_STAGE_HEADS, b, h, i, c}, &o->overflows,
                  &o->doubtful, &o->fault);
    }
}

static void project_out(oracle_mha *o, const attn_mha *m, const attn_mha_results *r, const void *heads) {
    const attn_problem *a = &m->attention;
    const size_t rows = a->batch * a->n_q;
    o->output = tensor(rows * m->d_out);
    for (size_t at = 0; at < rows * m->d_out; at++) {
        linear(&o->output, at, a->dtype, heads, at / m->d_out, a->heads * a->d_v, &m->w_o, m->b_o, at % m->d_out,
               false);
        if (r->output)
            judge(a->dtype, o->output.value[at], o->output.bound[at],
                  (attn_fault){ATTN_STAGE_PROJECTION, at / m->d_out / a->n_q, 0, at / m->d_out % a->n_q, at % m->d_out},
                  &o->overflows, &o->doubtful, &o->fault);
    }
}

/* x plus the sines and cosines of its positions, rounded */
static void *positioned(attn_dtype dtype, const void *x, size_t batch, size_t n, size_t d, const int64_t *positions,
                        size_t stride, const int64_t *offsets, int64_t first) {
    void *sum = room(batch * n * d, attn_sizeof(dtype));
    for (size_t at = 0; at < batch * n * d; at++) {
        const size_t c = at % d, i = at / d % n, b = at / d / n;
        const int64_t p = positions ? positions[b * stride + i] : (int64_t)i + (offsets ? offsets[b] : first);
        const long double angle = (long double)p * powl(10000, -(long double)(c - c % 2) / (long double)d);
        oracle_put(dtype, sum, at, oracle_at(dtype, x, at) + (c % 2 ? cosl(angle) : sinl(angle)));
    }
    return sum;
}

/* rows of d numbers, in place: x / sqrt(mean x^2 + eps) times weight */
static void normalize(attn_dtype dtype, void *x, size_t rows, size_t d, const void *weight, double eps) {
    for (size_t r = 0; weight && r < rows; r++) {
        long double squares = 0;
        for (size_t c = 0; c < d; c++) squares += powl(oracle_at(dtype, x, r * d + c), 2);
        const long double root = sqrtl(squares / (long double)d + eps);
        for (size_t c = 0; c < d; c++)
            oracle_put(dtype, x, r * d + c, oracle_at(dtype, x, r * d + c) / root * oracle_at(dtype, weight, c));
    }
}

oracle_mha *oracle_mha_new(const attn_mha *m, const attn_mha_results *results, const attn_mha_results *computed) {
    const attn_problem *a = &m->attention;
    oracle_mha *o = room(1, sizeof *o);
    const bool waves = m->sinusoidal, own = m->value_context != NULL;
    void *x = NULL, *c = NULL;
    if (waves)
        x = positioned(a->dtype, m->x, a->batch, a->n_q, m->d_model, a->positions, a->positions_batch, a->query_offset,
                       (int64_t)a->n_past);
    if (waves && m->context)
        c = positioned(a->dtype, m->context, a->batch, a->n_new, m->d_context, a->key_positions, a->key_positions_batch,
                       NULL, (int64_t)a->n_past);
    const void *input = waves ? x : m->x, *context = !m->context ? input : waves ? c : m->context;
    o->q = projected(m, input, a->n_q, m->d_model, &m->w_q, m->b_q, a->heads, a->d_k, waves);
    o->k = projected(m, context, a->n_new, m->d_context, &m->w_k, m->b_k, a->kv_heads, a->d_k, waves);
    o->v = projected(m, own ? m->value_context : context, a->n_new, own ? m->d_value_context : m->d_context, &m->w_v,
                     m->b_v, a->kv_heads, a->d_v, waves);
    free(x);
    free(c);
    judge_projections(o, m, results);
    void *q = rounded(a->dtype, &o->q, computed->q), *k = rounded(a->dtype, &o->k, computed->k);
    void *v = rounded(a->dtype, &o->v, computed->v);
    normalize(a->dtype, q, a->batch * a->heads * a->n_q, a->d_k, m->q_norm, m->norm_eps);
    normalize(a->dtype, k, a->batch * a->kv_heads * a->n_new, a->d_k, m->k_norm, m->norm_eps);
    attn_problem inner = *a;
    inner.q = (attn_view){q, a->heads * a->n_q * a->d_k, a->n_q * a->d_k, a->d_k};
    inner.k = (attn_view){k, a->kv_heads * a->n_new * a->d_k, a->n_new * a->d_k, a->d_k};
    inner.v = (attn_view){v, a->kv_heads * a->n_new * a->d_v, a->n_new * a->d_v, a->d_v};
    o->attention = oracle_attention(&inner, &results->attention);
    const oracle_tensor *present = &o->attention->present_k; /* new keys are those of a norm, or exact */
    for (size_t i = 0; m->k_norm && i < present->count; i++)
        present->bound[i] = 4 * eps_of(a->dtype) * fabsl(present->value[i]) + tiny_of(a->dtype);
    o->doubtful |= o->attention->doubtful;
    if (o->attention->overflows && !o->overflows) o->fault = o->attention->fault;
    o->overflows |= o->attention->overflows;
    merge(o, m);
    if (m->w_o.data) {
        void *heads = rounded(a->dtype, &o->heads, computed->heads);
        project_out(o, m, results, heads);
        free(heads);
    }
    free(q);
    free(k);
    free(v);
    return o;
}

void oracle_mha_free(oracle_mha *o) {
    if (!o) return;
    enum { TENSORS = 5 };
    oracle_tensor *const all[TENSORS] = {&o->q, &o->k, &o->v, &o->heads, &o->output};
    for (size_t i = 0; i < TENSORS; i++) drop(all[i]);
    oracle_free(o->attention);
    free(o);
}

/* ---- comparison ------------------------------------------------------------------------------------------------- */

bool oracle_compare(attn_dtype dtype, const oracle_tensor *expected, const void *got, oracle_report *report) {
    *report = (oracle_report){.ratio = -1};
    for (size_t i = 0; i < expected->count; i++) {
        const long double want = expected->value[i], have = oracle_at(dtype, got, i);
        long double ratio = INFINITY;
        if (!check_extended())
            ratio = isnan(number_at(dtype, got, i)) ? INFINITY : 0;
        else if (want == have)
            ratio = 0;
        else if (isfinite(want) && isfinite(have) && expected->bound[i] > 0)
            ratio = fabsl(have - want) / expected->bound[i];
        if (ratio > report->ratio) {
            report->worst = i;
            report->expected = want;
            report->got = have;
            report->ratio = ratio;
        }
    }
    snprintf(report->text, sizeof report->text, "element %zu of %zu: expected %.17Lg, got %.17Lg, error/bound %.3Lg",
             report->worst, expected->count, report->expected, report->got, report->ratio);
    return report->ratio <= 1;
}
