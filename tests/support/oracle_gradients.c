#include "oracle_gradients.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct row_at {
    size_t batch, head, query;
} row_at;

typedef struct work {
    const attn_problem *p;
    const void *grad_output;
    const oracle *forward;
    oracle_gradients *answer;
    long double *slope, *slope_bound; /* dB of a row, and how far it may be off */
    long double unit, tiny;
} work;

static long double *numbers(size_t count) {
    long double *x = calloc(count + 1, sizeof *x);
    if (!x) {
        perror("oracle_gradients");
        exit(2);
    }
    return x;
}

static oracle_tensor tensor(size_t count) { return (oracle_tensor){count, numbers(count), numbers(count)}; }

static void put(oracle_tensor *t, size_t at, long double value, long double bound) {
    t->value[at] += value;
    t->bound[at] += bound;
}

static size_t keys_of(const attn_problem *p) { return p->n_past + p->n_new; }

static long double key_at(const attn_problem *p, row_at at, size_t key, bool value, size_t c) {
    const bool past = key < p->n_past;
    const attn_view *v = value ? (past ? &p->past_v : &p->v) : (past ? &p->past_k : &p->k);
    const size_t kv = at.head / (p->heads / p->kv_heads), row = past ? key : key - p->n_past;
    return oracle_at(p->dtype, v->data, at.batch * v->batch + kv * v->head + row * v->row + c);
}

static long double query_at(const attn_problem *p, row_at at, size_t c) {
    return oracle_at(p->dtype, p->q.data, at.batch * p->q.batch + at.head * p->q.head + at.query * p->q.row + c);
}

static size_t row_number(const attn_problem *p, row_at at) {
    return (at.batch * p->heads + at.head) * p->n_q + at.query;
}

static long double grad_at(const work *w, row_at at, size_t c) {
    return oracle_at(w->p->dtype, w->grad_output, row_number(w->p, at) * w->p->d_v + c);
}

static long double scale_of(const attn_problem *p, size_t head) {
    if (p->head_scales) return oracle_at(p->dtype, p->head_scales, head);
    return p->dtype == ATTN_F64 ? (long double)p->scale : (long double)(float)p->scale;
}

static bool open_at(const attn_problem *p, row_at at, size_t key) {
    return oracle_open(p, at.batch, at.head, at.query, key);
}

/* S of docs/numerics.md: the largest |scale| sum |q k| and, if the weight counts, |bias|, of the open keys */
static long double size_of_scores(const work *w, row_at at) {
    const attn_problem *p = w->p;
    const size_t cell = row_number(p, at) * keys_of(p);
    long double most = 0;
    for (size_t j = 0; j < keys_of(p); j++) {
        if (!open_at(p, at, j)) continue;
        long double sum = 0;
        for (size_t c = 0; c < p->d_k; c++) sum += fabsl(query_at(p, at, c) * key_at(p, at, j, false, c));
        most = fmaxl(most, sum * fabsl(scale_of(p, at.head)));
        if (w->forward->weights.value[cell + j] >= w->unit)
            most = fmaxl(most, fabsl(w->forward->masked.value[cell + j] - w->forward->capped.value[cell + j]));
    }
    return p->softcap != 0 ? most * (1 + 1 / (long double)p->softcap) : most;
}

/* The relative error of a weight and what is made of it. */
static long double error_of(const work *w, long double scores, long double weight) {
    const attn_problem *p = w->p;
    const long double far = weight > 0 ? fminl(-logl(weight), 800) : 800;
    return 8 * w->unit *
           (8 + (1 + (long double)p->d_k / 16) * scores + (long double)p->d_v / 16 + fmaxl(far, 0) +
            log2l((long double)keys_of(p) + 1));
}

/* How far a weight may be off: where its score is not known to a half, it may be anything up to the bound of weights.
 */
static long double weight_bound(const work *w, long double scores, long double weight) {
    const long double off = error_of(w, scores, weight);
    return off < 0.5L ? off * (weight + w->tiny) : off;
}

/* dB of a row, and D in *delta with its bound in *delta_bound. */
static void slopes_of_row(work *w, row_at at, long double scores, long double *delta, long double *delta_bound) {
    const attn_problem *p = w->p;
    const long double *weights = w->forward->weights.value + row_number(p, at) * keys_of(p);
    long double sum = 0, most = 0;
    for (size_t c = 0; c < p->d_v; c++) {
        long double top = 0;
        for (size_t j = 0; j < keys_of(p); j++)
            if (open_at(p, at, j)) top = fmaxl(top, fabsl(key_at(p, at, j, true, c)));
        most += fabsl(grad_at(w, at, c)) * top;
    }
    for (size_t j = 0; j < keys_of(p); j++) {
        long double product = 0;
        for (size_t c = 0; c < p->d_v && open_at(p, at, j); c++)
            product += grad_at(w, at, c) * key_at(p, at, j, true, c);
        w->slope[j] = product;
        sum += weights[j] * product;
    }
    *delta = sum;
    *delta_bound = error_of(w, scores, 1) * most;
    for (size_t j = 0; j < keys_of(p); j++) {
        w->slope_bound[j] = open_at(p, at, j) ? 2 * weight_bound(w, scores, weights[j]) * most : 0;
        w->slope[j] = open_at(p, at, j) ? weights[j] * (w->slope[j] - sum) : 0;
    }
}

/* What a row adds to the gradients of its query, and of key j and value j. */
static void add_key(work *w, row_at at, size_t j, long double scores) {
    const attn_problem *p = w->p;
    const size_t cell = row_number(p, at) * keys_of(p) + j, kv = at.head / (p->heads / p->kv_heads);
    const size_t key = (at.batch * p->kv_heads + kv) * p->n_new + (j - p->n_past);
    const size_t of_1 = kv * p->n_new + (j - p->n_past); /* of a batch of 1 that serves all */
    const size_t k_row = p->k.batch > 0 ? key : of_1, v_row = p->v.batch > 0 ? key : of_1;
    const long double h = p->softcap != 0 ? coshl(w->forward->scaled.value[cell] / (long double)p->softcap) : 1;
    const long double by = scale_of(p, at.head) / (h * h);
    const long double weight = w->forward->weights.value[cell], off = error_of(w, scores, weight);
    const long double slope = w->slope[j] * by;
    const long double size = fabsl(w->slope[j]) + w->slope_bound[j]; /* times what of 1 / h^2 is below the range */
    const long double bound =
        (w->slope_bound[j] + off * fabsl(w->slope[j])) * fabsl(by) + (size * fabsl(scale_of(p, at.head)) + 1) * w->tiny;
    for (size_t c = 0; c < p->d_k; c++) {
        const long double k = key_at(p, at, j, false, c), q = query_at(p, at, c);
        put(&w->answer->q, row_number(p, at) * p->d_k + c, slope * k, bound * fabsl(k) + w->tiny);
        if (j >= p->n_past) put(&w->answer->k, k_row * p->d_k + c, slope * q, bound * fabsl(q) + w->tiny);
    }
    for (size_t c = 0; c < p->d_v && j >= p->n_past; c++) {
        const long double g = grad_at(w, at, c);
        put(&w->answer->v, v_row * p->d_v + c, weight * g, weight_bound(w, scores, weight) * fabsl(g) + w->tiny);
    }
}

static void add_row(work *w, row_at at) {
    const attn_problem *p = w->p;
    const attn_broadcast *bias = &p->bias;
    const long double scores = size_of_scores(w, at);
    long double delta, delta_bound;
    slopes_of_row(w, at, scores, &delta, &delta_bound);
    for (size_t j = 0; j < keys_of(p); j++) {
        if (!open_at(p, at, j)) continue;
        add_key(w, at, j, scores);
        if (bias->data)
            put(&w->answer->bias,
                at.batch * bias->batch + at.head * bias->head + at.query * bias->query + j * bias->key, w->slope[j],
                w->slope_bound[j] + w->tiny);
    }
    if (!p->sinks) return;
    const long double lse = w->forward->lse.value[row_number(p, at)];
    const long double weight = expl(oracle_at(p->dtype, p->sinks, at.head) - lse);
    const long double off = error_of(w, scores + fabsl(lse), weight);
    const long double share = off < 0.5L ? off * weight : off;
    put(&w->answer->sinks, at.head, -weight * delta,
        weight * delta_bound + share * (fabsl(delta) + delta_bound) + w->tiny);
}

oracle_gradients *oracle_gradients_new(const attn_problem *p, const void *grad_output, size_t bias_count) {
    oracle *forward = oracle_attention(p, &(attn_results){0});
    oracle_gradients *a = calloc(1, sizeof *a);
    if (!a) exit(2);
    a->doubtful = forward->doubtful || forward->overflows;
    a->q = tensor(p->batch * p->heads * p->n_q * p->d_k);
    a->k = tensor((p->k.batch > 0 ? p->batch : 1) * p->kv_heads * p->n_new * p->d_k);
    a->v = tensor((p->v.batch > 0 ? p->batch : 1) * p->kv_heads * p->n_new * p->d_v);
    a->bias = tensor(bias_count);
    a->sinks = tensor(p->sinks ? p->heads : 0);
    work w = {.p = p, .grad_output = grad_output, .forward = forward, .answer = a};
    w.unit = p->dtype == ATTN_F64 ? DBL_EPSILON : (long double)FLT_EPSILON;
    w.tiny = p->dtype == ATTN_F64 ? DBL_MIN : (long double)FLT_MIN;
    w.slope = numbers(keys_of(p));
    w.slope_bound = numbers(keys_of(p));
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < p->n_q; i++) add_row(&w, (row_at){b, h, i});
    free(w.slope);
    free(w.slope_bound);
    oracle_free(forward);
    return a;
}

void oracle_gradients_free(oracle_gradients *a) {
    if (!a) return;
    const oracle_tensor all[] = {a->q, a->k, a->v, a->bias, a->sinks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i].value);
        free(all[i].bound);
    }
    free(a);
}
