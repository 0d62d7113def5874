/* POST /mha: the fields of its own (docs/api.md, section 3). */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "attention_fields.h"

/* The first fields of the schema: rows of `own`. */
enum {
    X,
    CONTEXT,
    W_Q,
    W_K,
    W_V,
    W_O,
    W_QKV,
    B_Q,
    B_K,
    B_V,
    B_O,
    B_QKV,
    WEIGHT_LAYOUT,
    HEAD_MASK,
    NUM_HEADS,
    NUM_KV_HEADS,
    VALUE_CONTEXT,
    W_QKV_LAYOUT,
    POSITION_ENCODING,
    Q_NORM_WEIGHT,
    K_NORM_WEIGHT,
    NORM_EPS,
    LAMBDA_Q1,
    LAMBDA_K1,
    LAMBDA_Q2,
    LAMBDA_K2,
    DEPTH,
    NORM_WEIGHT,
    NORM
};

/* A weight as (rows, columns) of x W, whichever way it is stored. */
typedef struct weight {
    api_tensor tensor;
    size_t rows, columns;
    bool known;
    bool split; /* it came with an axis for the heads */
} weight;

typedef enum qkv_layout { Q_K_V, PER_HEAD, PER_GROUP } qkv_layout;

typedef struct inputs {
    api_tensor x, context, value_context;
    weight w_q, w_k, w_v, w_o, w_qkv;
    api_tensor b_q, b_k, b_v, b_o, b_qkv, head_mask;
    bool out_in;
    bool differential;
    bool only_cache; /* no new keys: those of the past alone are attended to */
    qkv_layout qkv_layout;
    size_t heads, kv_heads;      /* 0: not known */
    bool x_known, context_known; /* their widths, as d_model and d_context; context is x if there is none */
} inputs;

/* A weight with an axis for the heads, as Keras and Flax keep them: (d_model, heads, d), or (heads, d, d_out). */
static void join_heads(api_form *form, const inputs *in, weight *w, size_t heads, bool first) {
    api_tensor *t = &w->tensor;
    char shape[API_SHAPE_TEXT];
    api_shape_text(shape, t->rank, t->shape);
    if (in->out_in)
        api_form_fault(form, t->field, API_SHAPE_MISMATCH,
                       "expected 2 axes with \"weight_layout\": \"out_in\", got 3: %s", shape);
    else if (heads && t->shape[first ? 0 : 1] != heads)
        api_form_fault(form, t->field, API_SHAPE_MISMATCH, "expected %zu heads in axis %d, got the shape %s", heads,
                       first ? 0 : 1, shape);
    else
        w->known = heads != 0;
    if (first)
        t->shape[0] *= t->shape[1], t->shape[1] = t->shape[2];
    else
        t->shape[1] *= t->shape[2];
    t->rank = 2;
}

static void read_weight(api_form *form, const inputs *in, api_field field, size_t heads, weight *w) {
    api_tensor *t = &w->tensor;
    api_form_tensor(form, field, t);
    api_tensor_require_finite(form, t);
    w->known = t->ok && t->rank == 2;
    w->split = t->ok && t->rank == 3;
    if (w->split) join_heads(form, in, w, heads, field == W_O);
    w->rows = t->shape[in->out_in ? 1 : 0];
    w->columns = t->shape[in->out_in ? 0 : 1];
}

/* A bias, (heads, d) beside a weight that has an axis for the heads */
static void read_bias(api_form *form, api_field field, const weight *w, size_t heads, api_tensor *t) {
    char shape[API_SHAPE_TEXT];
    api_form_tensor(form, field, t);
    api_tensor_require_finite(form, t);
    if (!t->ok || t->rank == 1) return;
    api_shape_text(shape, t->rank, t->shape);
    if (w->tensor.ok && !w->split)
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected 1 axis beside a weight of 2, got 2: %s", shape);
    else if (heads && t->shape[0] != heads)
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected %zu heads in axis 0, got the shape %s", heads, shape);
    t->ok = w->split && t->shape[0] == heads;
    t->rank = 1;
    t->shape[0] = t->count;
}

static void read_vector(api_form *form, api_field field, api_tensor *t) {
    api_form_tensor(form, field, t);
    api_tensor_require_finite(form, t);
}

static void read_fields(api_form *form, inputs *in) {
    static const char *const layouts[] = {"in_out", "out_in"};
    static const char *const orders[] = {"q_k_v", "per_head", "per_group"};
    size_t choice = 0, order = Q_K_V;
    api_form_choice(form, W_QKV_LAYOUT, orders, 3, &order);
    in->qkv_layout = (qkv_layout)order;
    api_form_choice(form, WEIGHT_LAYOUT, layouts, 2, &choice);
    in->out_in = choice == 1;
    read_vector(form, X, &in->x);
    read_vector(form, CONTEXT, &in->context);
    read_vector(form, VALUE_CONTEXT, &in->value_context);
    read_weight(form, in, W_Q, in->heads, &in->w_q);
    read_weight(form, in, W_K, in->kv_heads, &in->w_k);
    read_weight(form, in, W_V, in->kv_heads, &in->w_v);
    read_weight(form, in, W_O, in->heads, &in->w_o);
    read_weight(form, in, W_QKV, 0, &in->w_qkv);
    read_bias(form, B_Q, &in->w_q, in->heads, &in->b_q);
    read_bias(form, B_K, &in->w_k, in->kv_heads, &in->b_k);
    read_bias(form, B_V, &in->w_v, in->kv_heads, &in->b_v);
    read_vector(form, B_O, &in->b_o);
    read_vector(form, B_QKV, &in->b_qkv);
    read_vector(form, HEAD_MASK, &in->head_mask);
}

/* which fields must be there beside others, and which exclude each other */
static void check_presence(api_form *form, const inputs *in) {
    const weight *separate[] = {&in->w_q, &in->w_k, &in->w_v};
    for (size_t i = 0; i < 3; i++) {
        const api_tensor *t = &separate[i]->tensor;
        const char *name = api_form_name(form, t->field);
        if (in->only_cache && i > 0) continue;
        if (!in->w_qkv.tensor.given && !t->given) api_form_missing(form, name, "if there is no w_qkv");
        if (in->w_qkv.tensor.given && t->given)
            api_form_fault(form, W_QKV, API_OUT_OF_RANGE, "cannot be combined with %s", name);
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
        char why[40];
        snprintf(why, sizeof why, "beside %s", api_form_name(form, pairs[i].bias->field));
        api_form_missing(form, api_form_name(form, pairs[i].weight->tensor.field), why);
    }
}

/* What has a meaning only beside another field, or none beside it. */
static void check_company(api_form *form, const inputs *in) {
    if (api_form_has(form, W_QKV_LAYOUT) && !in->w_qkv.tensor.given)
        api_form_fault(form, W_QKV_LAYOUT, API_OUT_OF_RANGE, "has a meaning only with w_qkv, which is not there");
    if (in->value_context.given && in->w_qkv.tensor.given)
        api_form_fault(form, VALUE_CONTEXT, API_OUT_OF_RANGE,
                       "cannot be combined with w_qkv, which projects one input; use w_q, w_k and w_v");
    if (in->value_context.given && in->only_cache)
        api_form_fault(form, VALUE_CONTEXT, API_OUT_OF_RANGE, "has a meaning only with w_v, which is not there");
    if (api_form_has(form, NORM_EPS) && !in->differential && !api_form_has(form, Q_NORM_WEIGHT) &&
        !api_form_has(form, K_NORM_WEIGHT))
        api_form_fault(form, NORM_EPS, API_OUT_OF_RANGE,
                       "has a meaning only with q_norm_weight or k_norm_weight, which are not there");
    if (in->only_cache && api_form_has(form, K_NORM_WEIGHT))
        api_form_fault(form, K_NORM_WEIGHT, API_OUT_OF_RANGE, "has a meaning only with new keys; there is no w_k");
}

static bool is_given(const api_form *form, const char *name) {
    const size_t field = api_field_find(form->schema, name);
    return field < api_field_count(form->schema) && api_form_has(form, (api_field)field);
}

static void read_counts(api_form *form, inputs *in) {
    api_form_count(form, NUM_HEADS, &in->heads);
    if (api_form_has(form, NUM_KV_HEADS))
        api_form_count(form, NUM_KV_HEADS, &in->kv_heads);
    else
        in->kv_heads = in->heads;
    if (in->heads && in->kv_heads && in->heads % in->kv_heads != 0) {
        api_form_fault(form, NUM_KV_HEADS, API_OUT_OF_RANGE, "%zu key/value heads do not divide %zu heads",
                       in->kv_heads, in->heads);
        in->kv_heads = 0;
    }
}

static void set_x(api_attention_state *a, inputs *in) {
    attn_mha *m = &a->mha;
    attn_problem *p = &m->attention;
    const api_tensor *x = &in->x;
    if (!x->ok) return;
    a->axes = (api_axes){.batch = x->rank == 3, .heads = true};
    p->batch = x->rank == 3 ? x->shape[0] : 1;
    p->n_q = p->n_new = x->shape[x->rank - 2];
    m->d_model = m->d_context = x->shape[x->rank - 1];
    m->x = x->data;
    in->x_known = true;
    in->context_known = !in->context.given;
}

static void set_context(api_form *form, attn_mha *m, inputs *in) {
    const api_tensor *x = &in->x, *c = &in->context;
    char shape[API_SHAPE_TEXT], other[API_SHAPE_TEXT];
    if (!c->ok) return;
    if (in->x_known && (c->rank != x->rank || (c->rank == 3 && c->shape[0] != m->attention.batch))) {
        api_form_fault(form, CONTEXT, API_SHAPE_MISMATCH,
                       "expected as many axes as x and the same batch; x has the shape %s, got %s",
                       api_shape_text(other, x->rank, x->shape), api_shape_text(shape, c->rank, c->shape));
        return;
    }
    m->attention.n_new = c->shape[c->rank - 2];
    m->d_context = c->shape[c->rank - 1];
    m->context = c->data;
    in->context_known = true;
}

static void set_value_context(api_form *form, attn_mha *m, const inputs *in) {
    const api_tensor *x = &in->x, *c = &in->value_context;
    char shape[API_SHAPE_TEXT];
    if (!c->ok || !in->x_known || (in->context.given && !in->context_known)) return;
    if (c->rank != x->rank || (c->rank == 3 && c->shape[0] != m->attention.batch) ||
        c->shape[c->rank - 2] != m->attention.n_new) {
        api_form_fault(form, VALUE_CONTEXT, API_SHAPE_MISMATCH,
                       "expected the axes of %s, %zu keys, of any width; got the shape %s",
                       in->context.given ? "context" : "x", m->attention.n_new,
                       api_shape_text(shape, c->rank, c->shape));
        return;
    }
    m->value_context = c->data;
    m->d_value_context = c->shape[c->rank - 1];
}

/* Columns of each of `count` parts of a weight that has *rows rows (NULL: not known). false: fault, or not known */
static bool columns_of_head(api_form *form, weight *w, const size_t *rows, const char *input, size_t count,
                            api_field blamed, size_t *columns) {
    if (!w->known) return false;
    if (rows && w->rows != *rows) {
        char shape[API_SHAPE_TEXT];
        api_form_fault(form, w->tensor.field, API_SHAPE_MISMATCH,
                       "expected %zu rows, the width of %s, got %zu in the shape %s", *rows, input, w->rows,
                       api_shape_text(shape, w->tensor.rank, w->tensor.shape));
        w->known = false;
    }
    if (count == 0) return w->known = false;
    if (w->columns % count != 0) {
        api_form_fault(form, blamed, API_OUT_OF_RANGE, "%zu heads do not divide the %zu columns of %s", count,
                       w->columns, api_form_name(form, w->tensor.field));
        w->known = false;
    }
    *columns = w->columns / count;
    return w->known;
}

static bool check_d_k(api_form *form, const attn_mha *m, const weight *w) {
    if (m->attention.d_k == 0)
        api_form_fault(form, w->tensor.field, API_OUT_OF_RANGE, "expected d_k of at least 1, got 0");
    return m->attention.d_k != 0;
}

static attn_weight part_of(const attn_mha *m, const weight *w, bool out_in, size_t first) {
    const size_t size = attn_sizeof(m->attention.dtype), stride = out_in ? w->rows : w->columns;
    return (attn_weight){(const char *)w->tensor.data + first * (out_in ? stride : 1) * size, stride, out_in};
}

/* w_q, w_k, w_v apart; sets d_k and d_v. false: not known */
static bool set_separate(api_form *form, attn_mha *m, inputs *in) {
    attn_problem *p = &m->attention;
    const api_field blamed = api_form_has(form, NUM_KV_HEADS) ? NUM_KV_HEADS : NUM_HEADS;
    const char *source = in->context.given ? "context" : "x";
    const size_t *d_model = in->x_known ? &m->d_model : NULL, *d_context = in->context_known ? &m->d_context : NULL;
    const size_t pairs = p->kind == ATTN_DIFFERENTIAL ? 2 : 1;
    const size_t *d_value = m->value_context ? &m->d_value_context : in->value_context.given ? NULL : d_context;
    size_t d_k = 0;
    const bool q = columns_of_head(form, &in->w_q, d_model, "x", in->heads * pairs, NUM_HEADS, &p->d_k) &&
                   check_d_k(form, m, &in->w_q);
    bool k = columns_of_head(form, &in->w_k, d_context, source, in->kv_heads * pairs, blamed, &d_k);
    const bool v = columns_of_head(form, &in->w_v, d_value, in->value_context.given ? "value_context" : source,
                                   in->kv_heads, blamed, &p->d_v);
    if (q && k && d_k != p->d_k) {
        api_form_fault(form, W_K, API_SHAPE_MISMATCH,
                       "expected %zu columns (%zu key/value heads of d_k = %zu as in w_q), got %zu",
                       in->kv_heads * pairs * p->d_k, in->kv_heads * pairs, p->d_k, in->w_k.columns);
        k = false;
    }
    if (!q || !k || !v) return false;
    m->w_q = part_of(m, &in->w_q, in->out_in, 0);
    m->w_k = part_of(m, &in->w_k, in->out_in, 0);
    m->w_v = part_of(m, &in->w_v, in->out_in, 0);
    return true;
}

/* w_q alone: keys and values are those of the past, whose d_v is read from past_v. */
static bool set_query_alone(api_form *form, api_attention_state *a, inputs *in) {
    attn_mha *m = &a->mha;
    attn_problem *p = &m->attention;
    const api_field field = (api_field)api_field_find(form->schema, "past_v");
    if (!columns_of_head(form, &in->w_q, in->x_known ? &m->d_model : NULL, "x", in->heads * a->pairs, NUM_HEADS,
                         &p->d_k))
        return false;
    if (!check_d_k(form, m, &in->w_q) || in->kv_heads == 0) return false;
    api_form_tensor(form, field, &a->past_v);
    if (!a->past_v.ok) return false;
    p->d_v = a->past_v.shape[a->past_v.rank - 1];
    m->w_q = part_of(m, &in->w_q, in->out_in, 0);
    m->context = NULL;
    p->n_new = 0;
    return true;
}

/* Where column `column` of w_qkv in the order q, k, v stands in the order of its layout. */
static size_t column_of(const inputs *in, size_t d, size_t column) {
    const size_t group = in->heads / in->kv_heads, part = column / d, wide = group + 2;
    const bool is_q = part < in->heads, is_k = !is_q && part < in->heads + in->kv_heads;
    const size_t kv = is_q ? part / group : is_k ? part - in->heads : part - in->heads - in->kv_heads;
    return (kv * wide + (is_q ? part % group : is_k ? group : group + 1)) * d + column % d;
}

/* w_qkv, or its bias (1 row), with its columns in the order q, k, v. NULL: no memory, error is set. */
static void *reordered(api_form *form, const inputs *in, const void *data, size_t rows, size_t columns, bool out_in,
                       size_t d) {
    const size_t size = attn_sizeof(form->dtype);
    char *to = api_large(form->memory, api_times_sizes(api_times_sizes(rows, columns), size) + size);
    if (!to) {
        form->broken = true;
        api_error_memory(form->error, form->memory);
        return NULL;
    }
    for (size_t c = 0; c < columns; c++) {
        const size_t from = column_of(in, d, c);
        if (out_in && rows > 0) memcpy(to + c * rows * size, (const char *)data + from * rows * size, rows * size);
        for (size_t r = 0; r < rows && !out_in && c % d == 0; r++)
            memcpy(to + (r * columns + c) * size, (const char *)data + (r * columns + from) * size, d * size);
    }
    return to;
}

/* The layouts of checkpoints: each head's, or each group's, q, k and v side by side. */
static bool reorder(api_form *form, inputs *in, size_t d) {
    if (in->qkv_layout == PER_HEAD && in->heads != in->kv_heads) {
        api_form_fault(form, W_QKV_LAYOUT, API_OUT_OF_RANGE,
                       "\"per_head\" needs as many key/value heads as heads; with fewer it is \"per_group\"");
        return false;
    }
    if (in->qkv_layout == Q_K_V) return true;
    weight *w = &in->w_qkv;
    w->tensor.data = reordered(form, in, w->tensor.data, w->rows, w->columns, in->out_in, d);
    if (w->tensor.data && in->b_qkv.ok && in->b_qkv.count == w->columns)
        in->b_qkv.data = reordered(form, in, in->b_qkv.data, 1, w->columns, false, d);
    return w->tensor.data != NULL;
}

/* w_qkv: the columns of q, then k, then v */
static bool set_packed(api_form *form, attn_mha *m, inputs *in) {
    attn_problem *p = &m->attention;
    if (in->x_known && in->context_known && m->d_context != m->d_model) {
        api_form_fault(form, CONTEXT, API_SHAPE_MISMATCH,
                       "expected the width of x, %zu, because w_qkv projects both; got %zu", m->d_model, m->d_context);
        return false;
    }
    if (p->kind == ATTN_DIFFERENTIAL) {
        api_form_fault(form, W_QKV, API_OUT_OF_RANGE,
                       "has no meaning with \"kind\": \"differential\"; use w_q, w_k and w_v");
        return false;
    }
    const size_t parts = in->heads && in->kv_heads ? in->heads + 2 * in->kv_heads : 0;
    if (!columns_of_head(form, &in->w_qkv, in->x_known ? &m->d_model : NULL, "x", parts, NUM_HEADS, &p->d_k))
        return false;
    if (!check_d_k(form, m, &in->w_qkv) || !reorder(form, in, p->d_k)) return false;
    p->d_v = p->d_k;
    m->w_q = part_of(m, &in->w_qkv, in->out_in, 0);
    m->w_k = part_of(m, &in->w_qkv, in->out_in, in->heads * p->d_k);
    m->w_v = part_of(m, &in->w_qkv, in->out_in, (in->heads + in->kv_heads) * p->d_k);
    return true;
}

/* data of a vector of `count` numbers, or NULL */
static const void *vector_of(api_form *form, const api_tensor *t, size_t count, const char *of) {
    if (!t->ok) return NULL;
    if (t->count == count) return t->data;
    char shape[API_SHAPE_TEXT];
    api_form_fault(form, t->field, API_SHAPE_MISMATCH, "expected a list of %zu numbers, %s, got the shape %s", count,
                   of, api_shape_text(shape, t->rank, t->shape));
    return NULL;
}

static void set_biases(api_form *form, attn_mha *m, const inputs *in) {
    if (in->w_q.known) m->b_q = vector_of(form, &in->b_q, in->w_q.columns, "one for each column of w_q");
    if (in->w_k.known) m->b_k = vector_of(form, &in->b_k, in->w_k.columns, "one for each column of w_k");
    if (in->w_v.known) m->b_v = vector_of(form, &in->b_v, in->w_v.columns, "one for each column of w_v");
    if (in->w_o.known) m->b_o = vector_of(form, &in->b_o, in->w_o.columns, "one for each column of w_o");
    if (in->heads) m->head_mask = vector_of(form, &in->head_mask, in->heads, "one for each head");
    if (!in->w_qkv.known) return;
    const char *b = vector_of(form, &in->b_qkv, in->w_qkv.columns, "one for each column of w_qkv");
    if (!b) return;
    const size_t head = m->attention.d_k * attn_sizeof(form->dtype);
    m->b_q = b;
    m->b_k = b + in->heads * head;
    m->b_v = b + (in->heads + in->kv_heads) * head;
}

static void set_output(api_form *form, api_attention_state *a, const inputs *in) {
    attn_mha *m = &a->mha;
    const attn_problem *p = &m->attention;
    const size_t joined = p->heads * p->d_v;
    size_t width = joined;
    if (in->w_o.known && in->w_o.rows != joined) {
        api_form_fault(form, W_O, API_SHAPE_MISMATCH, "expected %zu rows (%zu heads of d_v = %zu), got %zu", joined,
                       p->heads, p->d_v, in->w_o.rows);
    } else if (in->w_o.known) {
        m->w_o = part_of(m, &in->w_o, in->out_in, 0);
        m->d_out = width = in->w_o.columns;
    }
    a->output = api_shape_of((api_axes){a->axes.batch, false}, p->batch, 1, p->n_q, width);
}

static void set_norms(api_form *form, attn_mha *m, bool known) {
    api_tensor weights[2];
    for (size_t i = 0; i < 2; i++) read_vector(form, i == 0 ? Q_NORM_WEIGHT : K_NORM_WEIGHT, &weights[i]);
    m->norm_eps = 1e-6;
    if (api_form_has(form, NORM_EPS)) {
        const attn_dtype dtype = form->dtype;
        form->dtype = ATTN_F64; /* the norm is computed in double */
        if (api_form_real(form, NORM_EPS, &m->norm_eps) && m->norm_eps < 0)
            api_form_fault(form, NORM_EPS, API_OUT_OF_RANGE, "expected a number of at least 0, got %.9g", m->norm_eps);
        form->dtype = dtype;
    }
    if (!known) return;
    m->q_norm = vector_of(form, &weights[0], m->attention.d_k, "d_k of them");
    m->k_norm = vector_of(form, &weights[1], m->attention.d_k, "d_k of them");
}

static double dot(attn_dtype dtype, const void *x, const void *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += dtype == ATTN_F64 ? ((const double *)x)[i] * ((const double *)y)[i]
                                 : (double)((const float *)x)[i] * (double)((const float *)y)[i];
    return sum;
}

/* lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init */
static void read_lambda(api_form *form, api_attention_state *a, double lambda_init, bool known) {
    const attn_problem *p = &a->mha.attention;
    const void *vectors[4];
    size_t given = 0;
    for (api_field f = LAMBDA_Q1; f <= LAMBDA_K2; f++) given += api_form_has(form, f);
    if (given == 0) return;
    if (is_given(form, "lambda")) api_form_fault(form, LAMBDA_Q1, API_OUT_OF_RANGE, "cannot be combined with lambda");
    for (api_field f = LAMBDA_Q1; f <= LAMBDA_K2; f++) {
        api_tensor t;
        read_vector(form, f, &t);
        if (!t.given) api_form_missing(form, api_form_name(form, f), "with the others of lambda_q1 to lambda_k2");
        vectors[f - LAMBDA_Q1] = known ? vector_of(form, &t, p->d_k, "d_k of them") : NULL;
    }
    for (size_t i = 0; i < 4; i++)
        if (!vectors[i]) return;
    const double lambda = exp(dot(p->dtype, vectors[0], vectors[1], p->d_k)) -
                          exp(dot(p->dtype, vectors[2], vectors[3], p->d_k)) + lambda_init;
    if (!(fabs(lambda) <= (p->dtype == ATTN_F64 ? DBL_MAX : (double)FLT_MAX)))
        api_form_fault(form, LAMBDA_Q1, API_OUT_OF_RANGE, "gives a lambda that does not fit the type");
    else
        a->differential.lambda = api_repeated(form, lambda, p->heads);
}

/* What /mha adds to differential attention: lambda from vectors, and the norm of each head. */
static void set_differential(api_form *form, api_attention_state *a, bool known) {
    attn_mha *m = &a->mha;
    int64_t depth = 0;
    bool norm = true;
    api_tensor own;
    for (api_field f = LAMBDA_Q1; f <= NORM && a->pairs == 1; f++)
        if (api_form_has(form, f))
            api_form_fault(form, f, API_OUT_OF_RANGE, "has a meaning only with \"kind\": \"differential\"");
    if (a->pairs == 1) return;
    if (api_form_integer(form, DEPTH, &depth) && depth < 0)
        api_form_fault(form, DEPTH, API_OUT_OF_RANGE, "expected at least 0, got %lld", (long long)depth);
    const double lambda_init = 0.8 - 0.6 * exp(-0.3 * (double)depth);
    read_lambda(form, a, lambda_init, known);
    api_form_bool(form, NORM, &norm);
    read_vector(form, NORM_WEIGHT, &own);
    if (!norm && own.given) api_form_fault(form, NORM_WEIGHT, API_OUT_OF_RANGE, "has no meaning with \"norm\": false");
    if (!norm || !known) return;
    m->heads_eps = api_form_has(form, NORM_EPS) ? m->norm_eps : 1e-5;
    m->heads_factor = 1 - lambda_init;
    m->heads_norm =
        own.given ? vector_of(form, &own, m->attention.d_v, "d_v of them") : api_repeated(form, 1, m->attention.d_v);
}

static void build(api_job *job) {
    api_form *form = &job->form;
    api_attention_state *a = job->state;
    attn_mha *m = &a->mha;
    inputs in = {0};
    m->attention.dtype = form->dtype;
    api_attention_read_kind(form, a);
    in.differential = a->pairs == 2;
    read_counts(form, &in);
    in.only_cache = is_given(form, "past_k") && is_given(form, "past_v") && !api_form_has(form, CONTEXT) &&
                    !api_form_has(form, W_K) && !api_form_has(form, W_V) && !api_form_has(form, W_QKV);
    read_fields(form, &in);
    check_presence(form, &in);
    check_company(form, &in);
    set_x(a, &in);
    set_context(form, m, &in);
    set_value_context(form, m, &in);
    m->attention.heads = in.heads;
    m->attention.kv_heads = in.kv_heads;
    const bool known = in.w_qkv.tensor.given ? set_packed(form, m, &in)
                       : in.only_cache       ? set_query_alone(form, a, &in)
                                             : set_separate(form, m, &in);
    set_norms(form, m, known);
    set_differential(form, a, known);
    set_biases(form, m, &in);
    if (known || in.w_v.known) set_output(form, a, &in); /* w_o must fit heads and w_v, whatever is wrong elsewhere */
    if (known && in.x_known && in.context_known) api_attention_sized(a, true);
}

static void set_position_encoding(api_form *form, api_field field, void *state) {
    static const char *const kinds[] = {"sinusoidal"};
    size_t choice;
    if (api_form_choice(form, field, kinds, 1, &choice)) ((api_attention_state *)state)->mha.sinusoidal = true;
}

/* true, "per_head" or "average" */
static void set_return_weights(api_form *form, api_field field, void *state) {
    static const char *const forms[] = {"per_head", "average"};
    api_attention_state *a = state;
    bool wanted = false;
    size_t choice;
    if (!json_is_string(form->slots[field].json)) {
        api_form_bool(form, field, &wanted);
    } else if (api_form_choice(form, field, forms, 2, &choice)) {
        wanted = true;
        a->average = choice == 1;
    }
    if (wanted) form->names |= (uint64_t)1 << api_name_find(form->schema, "weights");
}

/* ---- names of `return` ------------------------------------------------------------------------------------------ */

static api_shape projected(const api_attention_state *a, size_t heads, size_t n, size_t d) {
    return api_shape_of(a->axes, a->mha.attention.batch, heads, n, d);
}
static api_shape q_shape(const void *state) {
    const api_attention_state *a = state;
    const attn_problem *p = &a->mha.attention;
    return projected(a, p->heads * a->pairs, p->n_q, p->d_k);
}
static api_shape k_shape(const void *state) {
    const api_attention_state *a = state;
    const attn_problem *p = &a->mha.attention;
    return projected(a, p->kv_heads * a->pairs, p->n_new, p->d_k);
}
static api_shape v_shape(const void *state) {
    const attn_problem *p = &((const api_attention_state *)state)->mha.attention;
    return projected(state, p->kv_heads, p->n_new, p->d_v);
}
static api_shape heads_shape(const void *state) {
    const api_attention_state *a = state;
    const attn_problem *p = &a->mha.attention;
    return api_shape_of((api_axes){a->axes.batch, false}, p->batch, 1, p->n_q, p->heads * p->d_v);
}

#define RESULT(member) offsetof(api_attention_state, results.member)
static const api_name_row output[] = {
    {"output", 3, true, api_attention_output_shape, RESULT(output), api_attention_always, ATTN_STAGE_PROJECTION,
     "number of the output"},
};
static const api_name_table output_name = API_TABLE(output);

static const api_name_row projections[] = {
    {"q", 4, false, q_shape, RESULT(q), api_attention_always, ATTN_STAGE_Q, "projected number of q"},
    {"k", 4, false, k_shape, RESULT(k), api_attention_always, ATTN_STAGE_K, "projected number of k"},
    {"v", 4, false, v_shape, RESULT(v), api_attention_always, ATTN_STAGE_V, "projected number of v"},
    {"heads", 3, false, heads_shape, RESULT(heads), api_attention_always, ATTN_STAGE_HEADS, "number of heads"},
};
static const api_name_table projection_names = API_TABLE(projections);

/* ---- running ---------------------------------------------------------------------------------------------------- */

static double flops(const api_job *job) {
    const api_attention_state *a = job->state;
    return attn_mha_flops(&a->mha);
}

/* The averaged weights stand for `weights`. */
static attn_mha_results results_of(const api_attention_state *a) {
    attn_mha_results results = a->results;
    if (!a->average) return results;
    results.attention.mean_weights = results.attention.weights;
    results.attention.weights = NULL;
    return results;
}

static size_t workspace(const attn_engine *engine, api_job *job) {
    api_attention_state *a = job->state;
    const attn_mha_results results = results_of(a);
    api_attention_shrink(a);
    return attn_mha_workspace(engine, &a->mha, &results);
}

static bool run(const attn_engine *engine, api_job *job, void *scratch, const atomic_bool *cancel) {
    const api_attention_state *a = job->state;
    const attn_mha_results results = results_of(a);
    attn_fault fault = {0};
    return api_attention_done(job, attn_mha_run(engine, &a->mha, &results, scratch, cancel, &fault), &fault);
}

static const api_field_row own[] = {
    [X] = {"x", API_REALS, 2, 3, API_REQUIRED, NULL},
    [CONTEXT] = {"context", API_REALS, 2, 3, 0, NULL},
    [W_Q] = {"w_q", API_REALS, 2, 3, 0, NULL},
    [W_K] = {"w_k", API_REALS, 2, 3, 0, NULL},
    [W_V] = {"w_v", API_REALS, 2, 3, 0, NULL},
    [W_O] = {"w_o", API_REALS, 2, 3, 0, NULL},
    [W_QKV] = {"w_qkv", API_REALS, 2, 2, 0, NULL},
    [B_Q] = {"b_q", API_REALS, 1, 2, 0, NULL},
    [B_K] = {"b_k", API_REALS, 1, 2, 0, NULL},
    [B_V] = {"b_v", API_REALS, 1, 2, 0, NULL},
    [B_O] = {"b_o", API_REALS, 1, 1, 0, NULL},
    [B_QKV] = {"b_qkv", API_REALS, 1, 1, 0, NULL},
    [WEIGHT_LAYOUT] = {"weight_layout", API_WORD, 0, 0, 0, NULL},
    [HEAD_MASK] = {"head_mask", API_REALS, 1, 1, 0, NULL},
    [NUM_HEADS] = {"num_heads", API_INTEGER, 0, 0, API_REQUIRED, NULL},
    [NUM_KV_HEADS] = {"num_kv_heads", API_INTEGER, 0, 0, 0, NULL},
    [VALUE_CONTEXT] = {"value_context", API_REALS, 2, 3, 0, NULL},
    [W_QKV_LAYOUT] = {"w_qkv_layout", API_WORD, 0, 0, 0, NULL},
    [POSITION_ENCODING] = {"position_encoding", API_WORD, 0, 0, 0, set_position_encoding},
    [Q_NORM_WEIGHT] = {"q_norm_weight", API_REALS, 1, 1, 0, NULL},
    [K_NORM_WEIGHT] = {"k_norm_weight", API_REALS, 1, 1, 0, NULL},
    [NORM_EPS] = {"norm_eps", API_NUMBER, 0, 0, 0, NULL},
    [LAMBDA_Q1] = {"lambda_q1", API_REALS, 1, 1, 0, NULL},
    [LAMBDA_K1] = {"lambda_k1", API_REALS, 1, 1, 0, NULL},
    [LAMBDA_Q2] = {"lambda_q2", API_REALS, 1, 1, 0, NULL},
    [LAMBDA_K2] = {"lambda_k2", API_REALS, 1, 1, 0, NULL},
    [DEPTH] = {"depth", API_INTEGER, 0, 0, 0, NULL},
    [NORM_WEIGHT] = {"norm_weight", API_REALS, 1, 1, 0, NULL},
    [NORM] = {"norm", API_BOOLEAN, 0, 0, 0, NULL},
    {"return_weights", API_BOOLEAN | API_WORD, 0, 0, 0, set_return_weights},
};
static const api_field_table own_fields = API_TABLE(own);

const api_operation api_mha = {
    .schema = {"mha",
               {&own_fields, &api_attention_options, &api_attention_patterns, &api_attention_sparse,
                &api_attention_positions, &api_attention_kinds, &api_common_fields},
               {&output_name, &api_attention_names, &api_kind_names, &projection_names}},
    .state_size = sizeof(api_attention_state),
    .build = build,
    .check = api_attention_check,
    .flops = flops,
    .workspace = workspace,
    .run = run,
    .trace = api_attention_trace,
};
