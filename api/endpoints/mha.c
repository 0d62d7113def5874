/* POST /mha: the fields of its own (docs/api.md, section 3). */
#include "operation.h"

/* A weight as (rows, columns) of x W, whichever way it is stored. */
typedef struct weight {
    api_tensor tensor;
    size_t rows, columns;
    bool known;
} weight;

typedef struct inputs {
    api_tensor x, context;
    weight w_q, w_k, w_v, w_o, w_qkv;
    api_tensor b_q, b_k, b_v, b_o, b_qkv, head_mask;
    bool out_in;
    size_t heads, kv_heads;      /* 0: not known */
    bool x_known, context_known; /* their widths, as d_model and d_context; context is x where there is none */
} inputs;

static void read_weight(api_job *job, const inputs *in, api_field field, weight *w) {
    char shape[API_SHAPE_TEXT];
    api_form_tensor(&job->form, field, API_REALS, &w->tensor);
    api_tensor_require_finite(&job->form, &w->tensor);
    if (!w->tensor.ok) return;
    if (w->tensor.rank != 2) {
        api_form_fault(&job->form, field, API_SHAPE_MISMATCH, "%s: expected 2 axes, got %zu: %s",
                       api_fields[field].name, w->tensor.rank, api_shape_text(shape, w->tensor.rank, w->tensor.shape));
        return;
    }
    w->rows = w->tensor.shape[in->out_in ? 1 : 0];
    w->columns = w->tensor.shape[in->out_in ? 0 : 1];
    w->known = true;
}

static void read_vector(api_job *job, api_field field, api_tensor *t) {
    api_form_tensor(&job->form, field, API_REALS, t);
    api_tensor_require_finite(&job->form, t);
}

static void read_fields(api_job *job, inputs *in) {
    static const char *const layouts[] = {"in_out", "out_in"};
    size_t choice = 0;
    api_form_choice(&job->form, API_FIELD_WEIGHT_LAYOUT, layouts, 2, &choice);
    in->out_in = choice == 1;
    read_vector(job, API_FIELD_X, &in->x);
    read_vector(job, API_FIELD_CONTEXT, &in->context);
    read_weight(job, in, API_FIELD_W_Q, &in->w_q);
    read_weight(job, in, API_FIELD_W_K, &in->w_k);
    read_weight(job, in, API_FIELD_W_V, &in->w_v);
    read_weight(job, in, API_FIELD_W_O, &in->w_o);
    read_weight(job, in, API_FIELD_W_QKV, &in->w_qkv);
    read_vector(job, API_FIELD_B_Q, &in->b_q);
    read_vector(job, API_FIELD_B_K, &in->b_k);
    read_vector(job, API_FIELD_B_V, &in->b_v);
    read_vector(job, API_FIELD_B_O, &in->b_o);
    read_vector(job, API_FIELD_B_QKV, &in->b_qkv);
    read_vector(job, API_FIELD_HEAD_MASK, &in->head_mask);
}

/* which fields must be there, and which exclude each other */
static void check_presence(api_job *job, const inputs *in) {
    api_form *form = &job->form;
    if (!in->x.given) api_form_missing(form, API_FIELD_X, "");
    const weight *separate[] = {&in->w_q, &in->w_k, &in->w_v};
    for (size_t i = 0; i < 3; i++) {
        const api_tensor *t = &separate[i]->tensor;
        if (!in->w_qkv.tensor.given && !t->given) api_form_missing(form, t->field, "where there is no w_qkv");
        if (in->w_qkv.tensor.given && t->given)
            api_form_fault(form, API_FIELD_W_QKV, API_OUT_OF_RANGE,
                           "w_qkv: expected w_qkv or w_q, w_k and w_v, got %s too", api_fields[t->field].name);
    }
    const struct {
        const api_tensor *bias;
        const weight *weight;
    } pairs[] = {{&in->b_q, &in->w_q},
                 {&in->b_k, &in->w_k},
                 {&in->b_v, &in->w_v},
                 {&in->b_o, &in->w_o},
                 {&in->b_qkv, &in->w_qkv}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!pairs[i].bias->given || pairs[i].weight->tensor.given) continue;
        char why[40] = "beside ";
        api_known_list(&api_fields[pairs[i].bias->field], 1, API_MHA, why + 7, sizeof why - 7);
        api_form_missing(form, pairs[i].weight->tensor.field, why);
    }
}

static size_t read_count(api_form *form, api_field field) {
    int64_t count;
    if (!api_form_integer(form, field, &count)) return 0;
    if (count >= 1) return (size_t)count;
    api_form_fault(form, field, API_OUT_OF_RANGE, "%s: expected at least 1, got %lld", api_fields[field].name,
                   (long long)count);
    return 0;
}

static void read_counts(api_job *job, inputs *in) {
    api_form *form = &job->form;
    if (!api_form_has(form, API_FIELD_NUM_HEADS)) api_form_missing(form, API_FIELD_NUM_HEADS, "");
    in->heads = read_count(form, API_FIELD_NUM_HEADS);
    in->kv_heads = api_form_has(form, API_FIELD_NUM_KV_HEADS) ? read_count(form, API_FIELD_NUM_KV_HEADS) : in->heads;
    if (in->heads && in->kv_heads && in->heads % in->kv_heads != 0) {
        api_form_fault(form, API_FIELD_NUM_KV_HEADS, API_OUT_OF_RANGE,
                       "num_kv_heads: %zu key/value heads do not divide %zu heads", in->kv_heads, in->heads);
        in->kv_heads = 0;
    }
}

static void set_x(api_job *job, inputs *in) {
    attn_mha *m = &job->mha;
    attn_problem *p = &m->attention;
    const api_tensor *x = &in->x;
    char shape[API_SHAPE_TEXT];
    if (!x->ok) return;
    if (x->rank != 2 && x->rank != 3) {
        api_form_fault(&job->form, API_FIELD_X, API_SHAPE_MISMATCH, "x: expected 2 or 3 axes, got %zu: %s", x->rank,
                       api_shape_text(shape, x->rank, x->shape));
        return;
    }
    job->axes = (api_axes){.batch = x->rank == 3, .heads = true};
    p->batch = x->rank == 3 ? x->shape[0] : 1;
    p->n_q = p->n_new = x->shape[x->rank - 2];
    m->d_model = m->d_context = x->shape[x->rank - 1];
    m->x = x->data;
    in->x_known = true;
    in->context_known = !in->context.given;
}

static void set_context(api_job *job, inputs *in) {
    attn_mha *m = &job->mha;
    attn_problem *p = &m->attention;
    const api_tensor *x = &in->x, *c = &in->context;
    char shape[API_SHAPE_TEXT], other[API_SHAPE_TEXT];
    if (!c->ok) return;
    if (c->rank != 2 && c->rank != 3) {
        api_form_fault(&job->form, API_FIELD_CONTEXT, API_SHAPE_MISMATCH, "context: expected 2 or 3 axes, got %zu: %s",
                       c->rank, api_shape_text(shape, c->rank, c->shape));
        return;
    }
    if (in->x_known && (c->rank != x->rank || (c->rank == 3 && c->shape[0] != p->batch))) {
        api_form_fault(&job->form, API_FIELD_CONTEXT, API_SHAPE_MISMATCH,
                       "context: expected the axes and the batch of x, whose shape is %s; got %s",
                       api_shape_text(other, x->rank, x->shape), api_shape_text(shape, c->rank, c->shape));
        return;
    }
    p->n_new = c->shape[c->rank - 2];
    m->d_context = c->shape[c->rank - 1];
    m->context = c->data;
    in->context_known = true;
}

/* Columns of each of `count` parts of a weight with *rows rows (NULL: not known); 0 after a fault, or where they are
 * none. */
static bool columns_of_head(api_job *job, weight *w, const size_t *rows, const char *input, size_t count,
                            api_field blamed, size_t *columns) {
    if (!w->known) return false;
    const char *name = api_fields[w->tensor.field].name;
    if (rows && w->rows != *rows) {
        char shape[API_SHAPE_TEXT];
        api_form_fault(&job->form, w->tensor.field, API_SHAPE_MISMATCH,
                       "%s: expected %zu rows, the width of %s, got %zu in the shape %s", name, *rows, input, w->rows,
                       api_shape_text(shape, w->tensor.rank, w->tensor.shape));
        w->known = false;
    }
    if (count == 0) return w->known = false;
    if (w->columns % count != 0) {
        api_form_fault(&job->form, blamed, API_OUT_OF_RANGE, "%s: %zu heads do not divide the %zu columns of %s",
                       api_fields[blamed].name, count, w->columns, name);
        w->known = false;
    }
    *columns = w->columns / count;
    return w->known;
}

static bool check_d_k(api_job *job, const weight *w) {
    if (job->mha.attention.d_k != 0) return true;
    api_form_fault(&job->form, w->tensor.field, API_OUT_OF_RANGE, "%s: expected d_k of at least 1, got 0",
                   api_fields[w->tensor.field].name);
    return false;
}

static attn_weight part_of(const api_job *job, const weight *w, bool out_in, size_t first) {
    const size_t size = attn_sizeof(job->form.dtype), stride = out_in ? w->rows : w->columns;
    return (attn_weight){(const char *)w->tensor.data + first * (out_in ? stride : 1) * size, stride, out_in};
}

/* w_q, w_k, w_v apart; sets d_k and d_v. false: not known */
static bool set_separate(api_job *job, inputs *in) {
    attn_mha *m = &job->mha;
    attn_problem *p = &m->attention;
    const api_field blamed =
        api_form_has(&job->form, API_FIELD_NUM_KV_HEADS) ? API_FIELD_NUM_KV_HEADS : API_FIELD_NUM_HEADS;
    const char *source = in->context.given ? "context" : "x";
    const size_t *d_model = in->x_known ? &m->d_model : NULL, *d_context = in->context_known ? &m->d_context : NULL;
    size_t d_k = 0;
    const bool q = columns_of_head(job, &in->w_q, d_model, "x", in->heads, API_FIELD_NUM_HEADS, &p->d_k) &&
                   check_d_k(job, &in->w_q);
    bool k = columns_of_head(job, &in->w_k, d_context, source, in->kv_heads, blamed, &d_k);
    const bool v = columns_of_head(job, &in->w_v, d_context, source, in->kv_heads, blamed, &p->d_v);
    if (q && k && d_k != p->d_k) {
        api_form_fault(&job->form, API_FIELD_W_K, API_SHAPE_MISMATCH,
                       "w_k: expected %zu columns (%zu key/value heads of d_k = %zu as in w_q), got %zu",
                       in->kv_heads * p->d_k, in->kv_heads, p->d_k, in->w_k.columns);
        k = false;
    }
    if (!q || !k || !v) return false;
    m->w_q = part_of(job, &in->w_q, in->out_in, 0);
    m->w_k = part_of(job, &in->w_k, in->out_in, 0);
    m->w_v = part_of(job, &in->w_v, in->out_in, 0);
    return true;
}

/* w_qkv: the columns of q, then k, then v */
static bool set_packed(api_job *job, inputs *in) {
    attn_mha *m = &job->mha;
    attn_problem *p = &m->attention;
    if (in->x_known && in->context_known && m->d_context != m->d_model) {
        api_form_fault(&job->form, API_FIELD_CONTEXT, API_SHAPE_MISMATCH,
                       "context: expected the width of x, %zu, as w_qkv is for both; got %zu", m->d_model,
                       m->d_context);
        return false;
    }
    const size_t parts = in->heads && in->kv_heads ? in->heads + 2 * in->kv_heads : 0;
    if (!columns_of_head(job, &in->w_qkv, in->x_known ? &m->d_model : NULL, "x", parts, API_FIELD_NUM_HEADS, &p->d_k))
        return false;
    if (!check_d_k(job, &in->w_qkv)) return false;
    p->d_v = p->d_k;
    m->w_q = part_of(job, &in->w_qkv, in->out_in, 0);
    m->w_k = part_of(job, &in->w_qkv, in->out_in, in->heads * p->d_k);
    m->w_v = part_of(job, &in->w_qkv, in->out_in, (in->heads + in->kv_heads) * p->d_k);
    return true;
}

/* data of a vector of `count` numbers, or NULL */
static const void *vector_of(api_job *job, const api_tensor *t, size_t count, const char *of) {
    if (!t->ok) return NULL;
    if (t->rank == 1 && t->count == count) return t->data;
    char shape[API_SHAPE_TEXT];
    api_form_fault(&job->form, t->field, API_SHAPE_MISMATCH, "%s: expected a list of %zu numbers, %s, got the shape %s",
                   api_fields[t->field].name, count, of, api_shape_text(shape, t->rank, t->shape));
    return NULL;
}

static void set_biases(api_job *job, const inputs *in) {
    attn_mha *m = &job->mha;
    if (in->w_q.known) m->b_q = vector_of(job, &in->b_q, in->w_q.columns, "one for each column of w_q");
    if (in->w_k.known) m->b_k = vector_of(job, &in->b_k, in->w_k.columns, "one for each column of w_k");
    if (in->w_v.known) m->b_v = vector_of(job, &in->b_v, in->w_v.columns, "one for each column of w_v");
    if (in->w_o.known) m->b_o = vector_of(job, &in->b_o, in->w_o.columns, "one for each column of w_o");
    if (in->heads) m->head_mask = vector_of(job, &in->head_mask, in->heads, "one for each head");
    if (!in->w_qkv.known) return;
    const char *b = vector_of(job, &in->b_qkv, in->w_qkv.columns, "one for each column of w_qkv");
    if (!b) return;
    const size_t head = m->attention.d_k * attn_sizeof(job->form.dtype);
    m->b_q = b;
    m->b_k = b + in->heads * head;
    m->b_v = b + (in->heads + in->kv_heads) * head;
}

static void set_output(api_job *job, inputs *in) {
    attn_mha *m = &job->mha;
    const attn_problem *p = &m->attention;
    const size_t joined = p->heads * p->d_v;
    size_t width = joined;
    if (in->w_o.known && in->w_o.rows != joined) {
        api_form_fault(&job->form, API_FIELD_W_O, API_SHAPE_MISMATCH,
                       "w_o: expected %zu rows (%zu heads of d_v = %zu), got %zu", joined, p->heads, p->d_v,
                       in->w_o.rows);
    } else if (in->w_o.known) {
        m->w_o = part_of(job, &in->w_o, in->out_in, 0);
        m->d_out = width = in->w_o.columns;
    }
    job->output = api_shape_of((api_axes){job->axes.batch, false}, p->batch, 1, p->n_q, width);
}

static void build(api_job *job) {
    inputs in = {0};
    attn_problem *p = &job->mha.attention;
    read_fields(job, &in);
    check_presence(job, &in);
    read_counts(job, &in);
    set_x(job, &in);
    set_context(job, &in);
    p->heads = in.heads;
    p->kv_heads = in.kv_heads;
    const bool known = in.w_qkv.tensor.given ? set_packed(job, &in) : set_separate(job, &in);
    set_biases(job, &in);
    if (known || in.w_v.known) set_output(job, &in); /* w_o must fit heads and w_v, whatever is wrong elsewhere */
    if (!known || !in.x_known || !in.context_known) return;
    if (api_options_apply_past(&job->form, &job->options, job->axes, true, p))
        api_options_apply(&job->form, &job->options, job->axes, p);
}

static double flops(const api_job *job) { return attn_mha_flops(&job->mha); }

static size_t workspace(const attn_engine *engine, const api_job *job) {
    return attn_mha_workspace(engine, &job->mha, &job->results);
}

static attn_status run(const attn_engine *engine, api_job *job, void *scratch, const atomic_bool *cancel,
                       attn_fault *fault) {
    return attn_mha_run(engine, &job->mha, &job->results, scratch, cancel, fault);
}

const struct api_operation api_mha = {"mha", API_MHA, build, flops, workspace, run};
