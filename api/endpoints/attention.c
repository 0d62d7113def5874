/* POST /attention: the fields of its own (docs/api.md, section 2). */
#include "operation.h"

typedef struct sizes {
    size_t batch, heads, n, width; /* width: heads * d where the last axis holds the heads side by side */
    bool known;
} sizes;

typedef struct inputs {
    api_tensor q, k, v;
    sizes of_q, of_k, of_v;
    bool bnhd;
    bool has_num_heads, has_num_kv_heads;
    int64_t num_heads, num_kv_heads;
} inputs;

static sizes sizes_of(const api_tensor *t, bool bnhd) {
    const size_t *s = t->shape;
    switch (t->rank) {
    case 2: return (sizes){1, 1, s[0], s[1], true};
    case 3: return (sizes){s[0], 1, s[1], s[2], true};
    default: return bnhd ? (sizes){s[0], s[2], s[1], s[3], true} : (sizes){s[0], s[1], s[2], s[3], true};
    }
}

/* The number of axes must be that of the first of q, k and v that can be read. */
static void read_tensors(api_job *job, inputs *in) {
    api_form *form = &job->form;
    const api_field fields[] = {API_FIELD_Q, API_FIELD_K, API_FIELD_V};
    api_tensor *tensors[] = {&in->q, &in->k, &in->v};
    sizes *known[] = {&in->of_q, &in->of_k, &in->of_v};
    const api_tensor *first = NULL;
    char shape[API_SHAPE_TEXT];
    for (size_t i = 0; i < 3; i++) {
        api_tensor *t = tensors[i];
        const char *name = api_fields[fields[i]].name;
        api_form_tensor(form, fields[i], API_REALS, t);
        if (!t->given) api_form_missing(form, fields[i], "");
        if (!t->ok) continue;
        if (!first && (t->rank < 2 || t->rank > 4)) {
            api_form_fault(form, fields[i], API_SHAPE_MISMATCH, "%s: expected 2, 3 or 4 axes, got %zu: %s", name,
                           t->rank, api_shape_text(shape, t->rank, t->shape));
        } else if (first && t->rank != first->rank) {
            api_form_fault(form, fields[i], API_SHAPE_MISMATCH, "%s: expected %zu axes as in %s, got %zu: %s", name,
                           first->rank, api_fields[first->field].name, t->rank,
                           api_shape_text(shape, t->rank, t->shape));
        } else {
            if (!first) first = t;
            *known[i] = sizes_of(t, in->bnhd);
        }
    }
}

static void read_layout(api_job *job, inputs *in) {
    static const char *const layouts[] = {"bhnd", "bnhd"};
    size_t choice = 0;
    api_form_choice(&job->form, API_FIELD_LAYOUT, layouts, 2, &choice);
    in->bnhd = choice == 1;
}

/* a count of heads, at least 1 */
static bool read_count(api_form *form, api_field field, int64_t *count) {
    if (!api_form_integer(form, field, count)) return false;
    if (*count >= 1) return true;
    api_form_fault(form, field, API_OUT_OF_RANGE, "%s: expected at least 1, got %lld", api_fields[field].name,
                   (long long)*count);
    return false;
}

static void read_counts(api_job *job, inputs *in) {
    api_form *form = &job->form;
    in->has_num_heads = read_count(form, API_FIELD_NUM_HEADS, &in->num_heads);
    in->has_num_kv_heads = read_count(form, API_FIELD_NUM_KV_HEADS, &in->num_kv_heads);
    if (!in->of_q.known) return;
    const api_field counts[] = {API_FIELD_NUM_HEADS, API_FIELD_NUM_KV_HEADS};
    if (in->q.rank == 4) {
        for (size_t i = 0; i < 2; i++)
            if (api_form_has(form, counts[i]))
                api_form_fault(form, counts[i], API_SHAPE_MISMATCH,
                               "%s: expected only with q of 2 or 3 axes; q has 4, one of them for the heads",
                               api_fields[counts[i]].name);
    } else if (api_form_has(form, API_FIELD_LAYOUT)) {
        api_form_fault(form, API_FIELD_LAYOUT, API_SHAPE_MISMATCH, "layout: expected only with q of 4 axes, got %zu",
                       in->q.rank);
    }
    if (in->q.rank != 4 && in->has_num_kv_heads && !api_form_has(form, API_FIELD_NUM_HEADS))
        api_form_missing(form, API_FIELD_NUM_HEADS, "beside num_kv_heads");
}

/* the width of one head of a tensor whose last axis holds `count` of them; 0 after a fault */
static bool split(api_form *form, const api_tensor *t, sizes *s, size_t count, api_field blamed) {
    if (s->width % count != 0) {
        api_form_fault(form, blamed, API_OUT_OF_RANGE, "%s: %zu heads do not divide the last axis of %s, %zu",
                       api_fields[blamed].name, count, api_fields[t->field].name, s->width);
        return false;
    }
    s->heads = count;
    s->width /= count;
    return true;
}

/* Turns widths into those of one head, and sets the heads. */
static void split_heads(api_job *job, inputs *in) {
    api_form *form = &job->form;
    if (!in->has_num_heads) { /* a count that is there but wrong leaves nothing to compare */
        if (api_form_has(form, API_FIELD_NUM_HEADS)) in->of_q.known = false;
        return;
    }
    const size_t heads = (size_t)in->num_heads;
    const bool grouped = in->has_num_kv_heads;
    const size_t kv_heads = grouped ? (size_t)in->num_kv_heads : heads;
    const api_field blamed = grouped ? API_FIELD_NUM_KV_HEADS : API_FIELD_NUM_HEADS;
    in->of_q.known = split(form, &in->q, &in->of_q, heads, API_FIELD_NUM_HEADS);
    if (grouped && heads % kv_heads != 0) {
        api_form_fault(form, blamed, API_OUT_OF_RANGE, "num_kv_heads: %zu key/value heads do not divide %zu heads",
                       kv_heads, heads);
        in->of_k.known = false;
    }
    if (in->of_k.known) in->of_k.known = split(form, &in->k, &in->of_k, kv_heads, blamed);
    if (in->of_v.known) in->of_v.known = split(form, &in->v, &in->of_v, kv_heads, blamed);
}

/* an error where two numbers that should be the same are not */
static bool same(api_form *form, api_field field, const char *what, size_t got, const char *other, size_t wanted) {
    if (got == wanted) return true;
    api_form_fault(form, field, API_SHAPE_MISMATCH, "%s: expected %s %zu as in %s, got %zu", api_fields[field].name,
                   what, wanted, other, got);
    return false;
}

static void compare(api_job *job, inputs *in) {
    api_form *form = &job->form;
    sizes *q = &in->of_q, *k = &in->of_k, *v = &in->of_v;
    char shape[API_SHAPE_TEXT];
    if (q->known && q->width == 0) {
        api_form_fault(form, API_FIELD_Q, API_OUT_OF_RANGE, "q: expected d_k of at least 1, got 0 in the shape %s",
                       api_shape_text(shape, in->q.rank, in->q.shape));
        q->known = false;
    }
    if (q->known && k->known) {
        k->known = same(form, API_FIELD_K, "the batch", k->batch, "q", q->batch) &&
                   same(form, API_FIELD_K, "d_k =", k->width, "q", q->width);
        if (k->known && (k->heads == 0 ? q->heads != 0 : q->heads % k->heads != 0)) {
            api_form_fault(form, API_FIELD_K, API_OUT_OF_RANGE, "k: its %zu heads do not divide the %zu heads of q",
                           k->heads, q->heads);
            k->known = false;
        }
    }
    if (!v->known) return;
    if (q->known || k->known)
        v->known = same(form, API_FIELD_V, "the batch", v->batch, q->known ? "q" : "k", (q->known ? q : k)->batch);
    if (v->known && k->known)
        v->known = same(form, API_FIELD_V, "the number of heads", v->heads, "k", k->heads) &&
                   same(form, API_FIELD_V, "the number of keys", v->n, "k", k->n);
}

/* `between`: the heads stand between n and d, as in bnhd and packed; else before n */
static attn_view view_of(const void *data, bool between, size_t heads, size_t n, size_t d) {
    return between ? (attn_view){data, n * heads * d, d, heads * d} : (attn_view){data, heads * n * d, n * d, d};
}

static void set_output(api_job *job, const inputs *in) {
    const attn_problem *p = &job->mha.attention;
    const bool between = in->q.rank < 4 || in->bnhd;
    const attn_view strides = view_of(NULL, between, p->heads, p->n_q, p->d_v);
    job->output_strides = (attn_out_view){NULL, strides.batch, strides.head, strides.row};
    if (in->q.rank < 4)
        job->output = api_shape_of((api_axes){job->axes.batch, false}, p->batch, 1, p->n_q, p->heads * p->d_v);
    else if (in->bnhd)
        job->output = (api_shape){4, {p->batch, p->n_q, p->heads, p->d_v}};
    else
        job->output = (api_shape){4, {p->batch, p->heads, p->n_q, p->d_v}};
}

static void build(api_job *job) {
    inputs in = {0};
    read_layout(job, &in);
    read_tensors(job, &in);
    api_tensor_require_finite(&job->form, &in.q);
    read_counts(job, &in);
    if (in.of_q.known && in.q.rank < 4) split_heads(job, &in);
    compare(job, &in);
    job->k = in.k;
    job->v = in.v;
    if (!in.of_q.known || !in.of_k.known) return;
    const bool between = in.q.rank < 4 || in.bnhd;
    attn_problem *p = &job->mha.attention;
    p->batch = in.of_q.batch;
    p->heads = in.of_q.heads;
    p->kv_heads = in.of_k.heads;
    p->n_q = in.of_q.n;
    p->n_new = in.of_k.n;
    p->d_k = in.of_q.width;
    p->d_v = in.of_v.known ? in.of_v.width : 0;
    p->q = view_of(in.q.data, between, p->heads, p->n_q, p->d_k);
    p->k = view_of(in.k.data, between, p->kv_heads, p->n_new, p->d_k);
    p->v = view_of(in.v.data, between, p->kv_heads, p->n_new, p->d_v);
    job->axes = (api_axes){.batch = in.q.rank > 2, .heads = in.q.rank == 4 || in.has_num_heads};
    if (api_options_apply_past(&job->form, &job->options, job->axes, in.of_v.known, p))
        api_options_apply(&job->form, &job->options, job->axes, p);
    set_output(job, &in);
}

static double flops(const api_job *job) { return attn_flops(&job->mha.attention); }

static size_t workspace(const attn_engine *engine, const api_job *job) {
    return attn_workspace(engine, &job->mha.attention, &job->results.attention);
}

static attn_status run(const attn_engine *engine, api_job *job, void *scratch, const atomic_bool *cancel,
                       attn_fault *fault) {
    return attn_run(engine, &job->mha.attention, &job->results.attention, scratch, cancel, fault);
}

const struct api_operation api_attention = {"attention", API_ATTENTION, build, flops, workspace, run};
