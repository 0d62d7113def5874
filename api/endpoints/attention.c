/* POST /attention: the fields of its own (docs/api.md, section 2). */
#include <stddef.h>

#include "attention_fields.h"

enum { Q, K, V, LAYOUT, NUM_HEADS, NUM_KV_HEADS }; /* the first fields of the schema: rows of `own` */

typedef struct sizes {
    size_t batch, heads, n, width; /* width: heads * d if the last axis holds the heads side by side */
    bool known;
} sizes;

typedef struct inputs {
    api_tensor q, k, v;
    sizes of_q, of_k, of_v;
    bool bnhd;
    bool has_num_heads, has_num_kv_heads;
    size_t num_heads, num_kv_heads;
    size_t pairs; /* heads of q and k for each of v's */
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
static void read_tensors(api_form *form, inputs *in) {
    const api_field fields[] = {Q, K, V};
    api_tensor *tensors[] = {&in->q, &in->k, &in->v};
    sizes *known[] = {&in->of_q, &in->of_k, &in->of_v};
    const api_tensor *first = NULL;
    char shape[API_SHAPE_TEXT];
    for (size_t i = 0; i < 3; i++) {
        api_tensor *t = tensors[i];
        api_form_tensor(form, fields[i], t);
        if (!t->ok) continue;
        if (!first) first = t;
        if (t->rank == first->rank)
            *known[i] = sizes_of(t, in->bnhd);
        else
            api_form_fault(form, fields[i], API_SHAPE_MISMATCH, "expected %zu axes as in %s, got %zu: %s", first->rank,
                           api_form_name(form, first->field), t->rank, api_shape_text(shape, t->rank, t->shape));
    }
}

static void read_layout(api_form *form, inputs *in) {
    static const char *const layouts[] = {"bhnd", "bnhd"};
    size_t choice = 0;
    api_form_choice(form, LAYOUT, layouts, 2, &choice);
    in->bnhd = choice == 1;
}

static void read_counts(api_form *form, inputs *in) {
    in->has_num_heads = api_form_count(form, NUM_HEADS, &in->num_heads);
    in->has_num_kv_heads = api_form_count(form, NUM_KV_HEADS, &in->num_kv_heads);
    if (!in->of_q.known) return;
    const api_field counts[] = {NUM_HEADS, NUM_KV_HEADS};
    if (in->q.rank == 4) {
        for (size_t i = 0; i < 2; i++)
            if (api_form_has(form, counts[i]))
                api_form_fault(form, counts[i], API_SHAPE_MISMATCH,
                               "allowed only if q has 2 or 3 axes; q has 4, one of them for the heads");
    } else if (api_form_has(form, LAYOUT)) {
        api_form_fault(form, LAYOUT, API_SHAPE_MISMATCH, "allowed only if q has 4 axes; q has %zu", in->q.rank);
    }
    if (in->q.rank != 4 && in->has_num_kv_heads && !api_form_has(form, NUM_HEADS))
        api_form_missing(form, "num_heads", "with num_kv_heads");
}

/* the width of one head of a tensor whose last axis holds `count` of them; 0 after a fault */
static bool split(api_form *form, const api_tensor *t, sizes *s, size_t count, api_field blamed) {
    if (s->width % count != 0) {
        api_form_fault(form, blamed, API_OUT_OF_RANGE, "%zu heads do not divide the last axis of %s, %zu", count,
                       api_form_name(form, t->field), s->width);
        return false;
    }
    s->heads = count;
    s->width /= count;
    return true;
}

/* Turns widths into those of one head, and sets the heads. */
static void split_heads(api_form *form, inputs *in) {
    if (!in->has_num_heads) { /* a count that is there but wrong leaves nothing to compare */
        if (api_form_has(form, NUM_HEADS)) in->of_q.known = false;
        return;
    }
    const bool grouped = in->has_num_kv_heads;
    const size_t heads = in->num_heads, kv_heads = grouped ? in->num_kv_heads : heads;
    const api_field blamed = grouped ? NUM_KV_HEADS : NUM_HEADS;
    in->of_q.known = split(form, &in->q, &in->of_q, heads * in->pairs, NUM_HEADS);
    if (grouped && heads % kv_heads != 0) {
        api_form_fault(form, blamed, API_OUT_OF_RANGE, "%zu key/value heads do not divide %zu heads", kv_heads, heads);
        in->of_k.known = false;
    }
    if (in->of_k.known) in->of_k.known = split(form, &in->k, &in->of_k, kv_heads * in->pairs, blamed);
    if (in->of_v.known) in->of_v.known = split(form, &in->v, &in->of_v, kv_heads, blamed);
}

/* an error if two numbers that must be the same are not */
static bool same(api_form *form, api_field field, const char *what, size_t got, const char *other, size_t wanted) {
    if (got == wanted) return true;
    api_form_fault(form, field, API_SHAPE_MISMATCH, "expected %s %zu as in %s, got %zu", what, wanted, other, got);
    return false;
}

/* The same of the batch: keys or values of batch 1 serve every batch of q. */
static bool same_batch(api_form *form, api_field field, size_t got, size_t wanted) {
    if (got == wanted || got == 1) return true;
    api_form_fault(form, field, API_SHAPE_MISMATCH, "expected the batch %zu as in q, or 1 for all of it, got %zu",
                   wanted, got);
    return false;
}

/* Two heads of q and k make one of the differential kind. */
static bool in_pairs(api_form *form, api_field field, const sizes *s, size_t pairs) {
    if (s->heads % pairs == 0) return true;
    api_form_fault(form, field, API_OUT_OF_RANGE,
                   "expected an even number of heads with \"kind\": \"differential\", got %zu", s->heads);
    return false;
}

static void compare(api_form *form, inputs *in) {
    sizes *q = &in->of_q, *k = &in->of_k, *v = &in->of_v;
    char shape[API_SHAPE_TEXT];
    if (q->known && q->width == 0) {
        api_form_fault(form, Q, API_OUT_OF_RANGE, "expected d_k of at least 1, got 0 in the shape %s",
                       api_shape_text(shape, in->q.rank, in->q.shape));
        q->known = false;
    }
    q->known = q->known && in_pairs(form, Q, q, in->pairs);
    k->known = k->known && in_pairs(form, K, k, in->pairs);
    if (q->known && k->known) {
        k->known = same_batch(form, K, k->batch, q->batch) && same(form, K, "d_k =", k->width, "q", q->width);
        if (k->known && (k->heads == 0 ? q->heads != 0 : q->heads % k->heads != 0)) {
            api_form_fault(form, K, API_OUT_OF_RANGE, "its %zu heads do not divide the %zu heads of q", k->heads,
                           q->heads);
            k->known = false;
        }
    }
    if (!v->known) return;
    if (q->known) v->known = same_batch(form, V, v->batch, q->batch);
    if (!q->known && k->known && k->batch != 1 && v->batch != 1)
        v->known = same(form, V, "the batch", v->batch, "k", k->batch);
    if (v->known && k->known)
        v->known =
            same(form, V, "the number of heads", v->heads, in->pairs == 2 ? "half of k" : "k", k->heads / in->pairs) &&
            same(form, V, "the number of keys", v->n, "k", k->n);
}

/* `between`: the heads stand between n and d, as in bnhd and packed; else before n */
static attn_view view_of(const void *data, bool between, size_t heads, size_t n, size_t d) {
    return between ? (attn_view){data, n * heads * d, d, heads * d} : (attn_view){data, heads * n * d, n * d, d};
}

/* Keys or values of that batch */
static attn_view keyed_view(const api_tensor *t, size_t batch, bool between, const attn_problem *p, size_t heads,
                            size_t d) {
    attn_view view = view_of(t->data, between, heads, p->n_new, d);
    if (batch == 1) view.batch = 0;
    return view;
}

static void set_output(api_attention_state *a, const inputs *in) {
    const attn_problem *p = &a->mha.attention;
    const bool between = in->q.rank < 4 || in->bnhd;
    const attn_view strides = view_of(NULL, between, p->heads, p->n_q, p->d_v);
    a->results.attention.output = (attn_out_view){NULL, strides.batch, strides.head, strides.row};
    if (in->q.rank < 4)
        a->output = api_shape_of((api_axes){a->axes.batch, false}, p->batch, 1, p->n_q, p->heads * p->d_v);
    else if (in->bnhd)
        a->output = (api_shape){4, {p->batch, p->n_q, p->heads, p->d_v}};
    else
        a->output = (api_shape){4, {p->batch, p->heads, p->n_q, p->d_v}};
}

/* Gradients are laid out as the tensors of the request. */
static attn_out_view gradient_view(attn_view view) { return (attn_out_view){NULL, view.batch, view.head, view.row}; }

static void set_gradients(api_attention_state *a, const inputs *in) {
    const attn_problem *p = &a->mha.attention;
    const attn_out_view *o = &a->results.attention.output;
    a->q_shape = api_shape_given(&in->q);
    a->k_shape = api_shape_given(&in->k);
    a->v_shape = api_shape_given(&in->v);
    a->gradients.grad_output = (attn_view){NULL, o->batch, o->head, o->row};
    a->gradients.q = gradient_view(p->q);
    a->gradients.k = gradient_view(p->k);
    a->gradients.v = gradient_view(p->v);
}

static void set_problem(api_attention_state *a, const inputs *in) {
    attn_problem *p = &a->mha.attention;
    const bool between = in->q.rank < 4 || in->bnhd;
    p->batch = in->of_q.batch;
    p->heads = in->of_q.heads / in->pairs;
    p->kv_heads = in->of_k.heads / in->pairs;
    p->n_q = in->of_q.n;
    p->n_new = in->of_k.n;
    p->d_k = in->of_q.width;
    p->d_v = in->of_v.known ? in->of_v.width : 0;
    p->q = view_of(in->q.data, between, p->heads * in->pairs, p->n_q, p->d_k);
    p->k = keyed_view(&in->k, in->of_k.batch, between, p, p->kv_heads * in->pairs, p->d_k);
    p->v = keyed_view(&in->v, in->of_v.known ? in->of_v.batch : 1, between, p, p->kv_heads, p->d_v);
    if (in->pairs == 2) {
        a->differential.q_2 = api_split_pairs(p->dtype, &p->q);
        a->differential.k_2 = api_split_pairs(p->dtype, &p->k);
    }
    a->axes = (api_axes){.batch = in->q.rank > 2, .heads = in->q.rank == 4 || in->has_num_heads};
    api_attention_sized(a, in->of_v.known);
    set_output(a, in);
    set_gradients(a, in);
}

static void build(api_job *job) {
    api_form *form = &job->form;
    api_attention_state *a = job->state;
    inputs in = {0};
    a->mha.attention.dtype = form->dtype;
    api_attention_read_kind(form, a);
    in.pairs = a->pairs;
    read_layout(form, &in);
    read_tensors(form, &in);
    api_tensor_require_finite(form, &in.q);
    read_counts(form, &in);
    if (in.of_q.known && in.q.rank < 4) split_heads(form, &in);
    compare(form, &in);
    a->k = in.k;
    a->v = in.v;
    if (in.of_q.known && in.of_k.known) set_problem(a, &in);
}

static void set_return_weights(api_form *form, api_field field, void *state) {
    bool wanted = false;
    (void)state;
    if (api_form_bool(form, field, &wanted) && wanted)
        form->names |= (uint64_t)1 << api_name_find(form->schema, "weights");
}

static double flops(const api_job *job) {
    const api_attention_state *a = job->state;
    /* the first pass, and twice its scores and its dP, with a product each for q, k and v */
    return attn_flops(&a->mha.attention) * (api_gradients_wanted(a) ? 4.5 : 1);
}

static size_t workspace(const attn_engine *engine, api_job *job) {
    api_attention_state *a = job->state;
    attn_problem *p = &a->mha.attention;
    if (p->heads == 0) p->n_q = 0;
    if (p->n_q == 0) p->heads = p->kv_heads;
    api_attention_shrink(a);
    const size_t gradients = api_gradients_workspace(engine, a),
                 rest = attn_workspace(engine, p, &a->results.attention);
    return gradients > rest ? gradients : rest;
}

static bool run(const attn_engine *engine, api_job *job, void *scratch, const atomic_bool *cancel) {
    const api_attention_state *a = job->state;
    attn_fault fault = {0};
    return api_attention_done(job, attn_run(engine, &a->mha.attention, &a->results.attention, scratch, cancel, &fault),
                              &fault) &&
           (!api_gradients_wanted(a) || api_gradients_run(engine, job, scratch, cancel));
}

static void check(api_job *job) {
    api_attention_check(job);
    api_gradients_check(job);
}

static const api_field_row own[] = {
    [Q] = {"q", API_REALS, 2, 4, API_REQUIRED, NULL},
    [K] = {"k", API_REALS, 2, 4, API_REQUIRED, NULL},
    [V] = {"v", API_REALS, 2, 4, API_REQUIRED, NULL},
    [LAYOUT] = {"layout", API_WORD, 0, 0, 0, NULL},
    [NUM_HEADS] = {"num_heads", API_INTEGER, 0, 0, 0, NULL},
    [NUM_KV_HEADS] = {"num_kv_heads", API_INTEGER, 0, 0, 0, NULL},
    {"return_weights", API_BOOLEAN, 0, 0, 0, set_return_weights},
};
static const api_field_table own_fields = API_TABLE(own);

static const api_name_row output[] = {
    {"output", 4, true, api_attention_output_shape, offsetof(api_attention_state, results.attention.output.data),
     api_attention_always, ATTN_STAGE_OUTPUT, "number of the output"},
};
static const api_name_table output_name = API_TABLE(output);

const api_operation api_attention = {
    .schema = {"attention",
               {&own_fields, &api_attention_options, &api_attention_patterns, &api_attention_sparse,
                &api_attention_positions, &api_attention_kinds, &api_gradient_fields, &api_common_fields},
               {&output_name, &api_attention_names, &api_kind_names, &api_gradient_names}},
    .state_size = sizeof(api_attention_state),
    .build = build,
    .check = check,
    .flops = flops,
    .workspace = workspace,
    .run = run,
    .trace = api_attention_trace,
};
