#include "attention_fields.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

api_shape api_shape_of(api_axes axes, size_t batch, size_t heads, size_t n, size_t d) {
    api_shape shape = {0};
    if (axes.batch) shape.axes[shape.rank++] = batch;
    if (axes.heads) shape.axes[shape.rank++] = heads;
    shape.axes[shape.rank++] = n;
    shape.axes[shape.rank++] = d;
    return shape;
}

api_shape api_shape_given(const api_tensor *tensor) {
    api_shape shape = {0};
    if (!tensor->ok) return shape; /* it may have more axes than any field takes */
    shape.rank = tensor->rank;
    for (size_t i = 0; i < tensor->rank; i++) shape.axes[i] = tensor->shape[i];
    return shape;
}

static size_t keys_of(const attn_problem *p) { return p->n_past + p->n_new; }

/* ---- the past --------------------------------------------------------------------------------------------------- */

/* an error if the past has not the axes (batch or 1, kv heads, any, d) */
static bool past_fits(api_form *form, const api_attention_state *a, const api_tensor *past, size_t d) {
    const attn_problem *p = &a->mha.attention;
    const size_t heads = past == &a->past_k ? p->kv_heads * a->pairs : p->kv_heads;
    const api_shape wanted = api_shape_of(a->axes, p->batch, heads, 0, d);
    if (!past->ok) return false;
    bool same = past->rank == wanted.rank;
    for (size_t i = 0; same && i < wanted.rank; i++)
        same = i == wanted.rank - 2 || past->shape[i] == wanted.axes[i] ||
               (i == 0 && a->axes.batch && past->shape[i] == 1);
    if (same) return true;
    char got[API_SHAPE_TEXT], leading[API_SHAPE_TEXT];
    api_shape_text(leading, wanted.rank - 2, wanted.axes);
    leading[strlen(leading) - 1] = '\0'; /* the closing bracket */
    api_form_fault(form, past->field, API_SHAPE_MISMATCH, "expected the shape %s%sn_past, %zu]%s, got %s", leading,
                   wanted.rank > 2 ? ", " : "", d, a->axes.batch ? " or that of batch 1" : "",
                   api_shape_text(got, past->rank, past->shape));
    return false;
}

attn_view api_split_pairs(attn_dtype dtype, attn_view *view) {
    attn_view second = *view;
    view->head *= 2;
    second.head = view->head;
    second.data = (const char *)view->data + view->head / 2 * attn_sizeof(dtype);
    return second;
}

/* A past of batch 1 serves every batch. */
static attn_view past_view(const api_tensor *past, const api_attention_state *a, size_t heads, size_t d) {
    const attn_problem *p = &a->mha.attention;
    const bool shared = a->axes.batch && past->shape[0] == 1;
    return (attn_view){past->data, shared ? 0 : heads * p->n_past * d, p->n_past * d, d};
}

static void set_past_k(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_problem *p = &a->mha.attention;
    api_form_tensor(form, field, &a->past_k);
    if (!a->sized) return;
    if (past_fits(form, a, &a->past_k, p->d_k))
        p->n_past = a->past_k.shape[a->past_k.rank - 2];
    else
        a->sized = false;
}

static void set_past_v(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_problem *p = &a->mha.attention;
    const api_tensor *v = &a->past_v;
    if (!v->given) api_form_tensor(form, field, &a->past_v); /* else /mha has read it for d_v */
    const bool fits = a->sized && a->knows_v && past_fits(form, a, v, p->d_v);
    if (!a->past_k.given) a->sized = false;
    if (!fits || !a->sized) return;
    if (v->shape[v->rank - 2] != p->n_past)
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected %zu keys as in past_k, got %zu", p->n_past,
                       v->shape[v->rank - 2]);
    if (p->n_past == 0) return;
    p->past_k = past_view(&a->past_k, a, p->kv_heads * a->pairs, p->d_k);
    p->past_v = past_view(v, a, p->kv_heads, p->d_v);
    if (a->pairs == 2) a->differential.past_k_2 = api_split_pairs(p->dtype, &p->past_k);
}

/* ---- what closes keys ------------------------------------------------------------------------------------------- */

/* NumPy's rule: aligned at the right, each axis of the same length or 1 */
static void broadcast(api_form *form, const api_attention_state *a, const api_tensor *tensor, attn_broadcast *view) {
    const attn_problem *p = &a->mha.attention;
    if (!tensor->ok || !a->sized) return;
    const api_shape scores = api_shape_of(a->axes, p->batch, p->heads, p->n_q, keys_of(p));
    size_t strides[4] = {0}, stride = 1;
    bool fits = tensor->rank <= scores.rank;
    for (size_t i = 0; fits && i < tensor->rank; i++) { /* from the last axis */
        const size_t length = tensor->shape[tensor->rank - 1 - i], wanted = scores.axes[scores.rank - 1 - i];
        fits = length == wanted || length == 1;
        strides[i] = length == 1 ? 0 : stride;
        stride *= length;
    }
    if (!fits) {
        char got[API_SHAPE_TEXT], wanted[API_SHAPE_TEXT];
        api_form_fault(form, tensor->field, API_SHAPE_MISMATCH,
                       "expected a shape that broadcasts to that of the scores, %s (%s%squeries, keys), got %s",
                       api_shape_text(wanted, scores.rank, scores.axes), a->axes.batch ? "batch, " : "",
                       a->axes.heads ? "heads, " : "", api_shape_text(got, tensor->rank, tensor->shape));
        return;
    }
    *view = (attn_broadcast){.data = tensor->data, .key = strides[0], .query = strides[1]};
    if (a->axes.heads) view->head = strides[2];
    if (a->axes.batch) view->batch = strides[a->axes.heads ? 3 : 2];
}

static void set_mask(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    api_tensor mask;
    api_form_tensor(form, field, &mask);
    broadcast(form, a, &mask, &a->mha.attention.mask);
}

/* bias may hold -infinity, which blocks, and nothing else that is not finite */
static void check_bias(api_form *form, const api_tensor *bias) {
    if (!bias->data || bias->finite) return;
    for (size_t i = 0; i < bias->held; i++) {
        const double x =
            form->dtype == ATTN_F64 ? ((const double *)bias->data)[i] : (double)((const float *)bias->data)[i];
        if (!isnan(x) && (isfinite(x) || x < 0)) continue;
        api_tensor_fault(form, bias, i, true, API_NOT_FINITE, "expected finite numbers or -Infinity, got %s",
                         isnan(x) ? "NaN" : "Infinity");
        return;
    }
}

static void set_bias(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    api_tensor bias;
    api_form_tensor(form, field, &bias);
    check_bias(form, &bias);
    broadcast(form, a, &bias, &a->mha.attention.bias);
    a->bias_shape = api_shape_given(&bias);
    a->gradients.bias_count = bias.count;
}

static bool one_per_batch(api_form *form, const api_attention_state *a, const api_tensor *tensor) {
    const size_t batch = a->mha.attention.batch;
    if (!tensor->ok || !a->sized) return false;
    if (tensor->count == batch) return true;
    char got[API_SHAPE_TEXT];
    api_form_fault(form, tensor->field, API_SHAPE_MISMATCH,
                   "expected a list of %zu integers, one for each entry of the batch, got the shape %s", batch,
                   api_shape_text(got, tensor->rank, tensor->shape));
    return false;
}

static void set_kv_lengths(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_problem *p = &a->mha.attention;
    api_tensor tensor;
    api_form_tensor(form, field, &tensor);
    if (!one_per_batch(form, a, &tensor)) return;
    const int64_t *lengths = tensor.data;
    for (size_t b = 0; b < p->batch; b++)
        if (lengths[b] < 0 || (uint64_t)lengths[b] > keys_of(p)) {
            api_tensor_fault(form, &tensor, b, true, API_OUT_OF_RANGE, "expected 0 to %zu (n_past + n_k), got %lld",
                             keys_of(p), (long long)lengths[b]);
            return;
        }
    p->kv_lengths = lengths;
}

static void set_causal(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    api_form_bool(form, field, &a->mha.attention.causal);
}

/* One offset for all of the batch: `offset`, or with `end` the last query at the last key. */
static void spread_offset(api_form *form, api_attention_state *a, bool end, int64_t offset) {
    attn_problem *p = &a->mha.attention;
    if (!a->sized || p->batch == 0 || p->n_q == 0) return;
    int64_t *offsets = api_small(form->memory, api_times_sizes(p->batch, sizeof *offsets));
    if (!offsets) {
        form->broken = true;
        api_error_memory(form->error, form->memory);
        return;
    }
    for (size_t b = 0; b < p->batch; b++)
        offsets[b] = end ? (p->kv_lengths ? p->kv_lengths[b] : (int64_t)keys_of(p)) - (int64_t)p->n_q : offset;
    p->query_offset = offsets;
}

/* After kv_lengths, which "end" depends on. */
static void set_query_offset(api_form *form, api_field field, void *state) {
    static const char *const end[] = {"end"};
    api_attention_state *a = state;
    const json_t *json = form->slots[field].json;
    const api_value *value = api_form_value(form, json);
    api_tensor tensor;
    size_t choice;
    int64_t offset;
    if (json_is_string(json)) {
        if (api_form_choice(form, field, end, 1, &choice)) spread_offset(form, a, true, 0);
    } else if (value && value->rank == 0) {
        if (api_form_integer(form, field, &offset)) spread_offset(form, a, false, offset);
    } else {
        api_form_tensor(form, field, &tensor);
        if (one_per_batch(form, a, &tensor)) a->mha.attention.query_offset = tensor.data;
    }
}

static void set_window(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_problem *p = &a->mha.attention;
    api_tensor window;
    api_form_tensor(form, field, &window);
    if (!window.ok) return;
    if (window.count != 2) {
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected [left, right], got a list of %zu", window.count);
        return;
    }
    const int64_t *sides = window.data;
    for (size_t i = 0; i < 2; i++)
        if (sides[i] < ATTN_OPEN_SIDE)
            api_tensor_fault(form, &window, i, true, API_OUT_OF_RANGE,
                             "expected a length of at least 0, or -1 for open; got %lld", (long long)sides[i]);
    p->has_window = true;
    p->window_left = sides[0];
    p->window_right = sides[1];
}

/* ---- scores ----------------------------------------------------------------------------------------------------- */

static void set_scale(api_form *form, api_field field, void *state) {
    static const char *const forms[] = {"1/sqrt(d_k)", "1/d_k", "1"};
    attn_problem *p = &((api_attention_state *)state)->mha.attention;
    const double values[] = {1 / sqrt((double)p->d_k), 1 / (double)p->d_k, 1};
    const json_t *json = form->slots[field].json;
    const api_value *value = api_form_value(form, json);
    size_t choice;
    if (json_is_string(json)) {
        if (api_form_choice(form, field, forms, 3, &choice)) p->scale = values[choice];
    } else if (json_is_object(json) || (value && value->rank > 0)) {
        api_tensor scales;
        api_form_tensor(form, field, &scales);
        api_tensor_require_finite(form, &scales);
        if (api_one_per_head(form, state, &scales) && scales.finite) p->head_scales = scales.data;
    } else {
        api_form_real(form, field, &p->scale);
    }
}

static void set_softcap(api_form *form, api_field field, void *state) {
    double *softcap = &((api_attention_state *)state)->mha.attention.softcap, exact;
    if (!api_form_real(form, field, softcap)) return;
    if (*softcap < 0) {
        api_form_fault(form, field, API_OUT_OF_RANGE, "expected a number of at least 0, got %.9g", *softcap);
        return;
    }
    /* 0 means off: a cap that only became 0 by rounding must not */
    const api_value *value = api_form_value(form, form->slots[field].json);
    if (*softcap == 0 && api_take_real(value, ATTN_F64, "/softcap", &exact, form->error) && exact != 0)
        api_form_fault(form, field, API_OUT_OF_RANGE,
                       "%.9g is 0 in float32, which would turn it off; try \"dtype\": \"float64\"", exact);
}

/* ---- the reply -------------------------------------------------------------------------------------------------- */

static void set_trace(api_form *form, api_field field, void *state) {
    (void)state;
    api_form_bool(form, field, &form->trace);
}

/* Labels are checked for their number and have no part in the arithmetic. */
static void check_labels(api_form *form, api_field field, const api_attention_state *a, size_t wanted) {
    size_t count;
    if (api_form_strings(form, field, NULL, &count) && a->sized && count != wanted)
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected %zu labels, got %zu", wanted, count);
}

static void set_tokens(api_form *form, api_field field, void *state) {
    const api_attention_state *a = state;
    check_labels(form, field, a, a->mha.attention.n_q);
}

static void set_key_tokens(api_form *form, api_field field, void *state) {
    const api_attention_state *a = state;
    check_labels(form, field, a, keys_of(&a->mha.attention));
}

static const api_field_row options[] = {
    /* the past first: the sizes are known only with it */
    {"past_k", API_REALS, 2, 4, 0, set_past_k},
    {"past_v", API_REALS, 2, 4, 0, set_past_v},
    {"mask", API_MASK, 0, 4, API_CLOSES_KEYS, set_mask},
    {"bias", API_REALS, 0, 4, API_CLOSES_KEYS, set_bias},
    {"kv_lengths", API_INTEGERS, 1, 1, API_CLOSES_KEYS, set_kv_lengths},
    {"causal", API_BOOLEAN, 0, 0, API_CLOSES_KEYS, set_causal},
    {"query_offset", API_INTEGER | API_WORD | API_INTEGERS, 1, 1, 0, set_query_offset},
    {"window", API_INTEGERS, 1, 1, API_CLOSES_KEYS, set_window},
    {"scale", API_NUMBER | API_WORD | API_REALS, 1, 1, 0, set_scale},
    {"softcap", API_NUMBER, 0, 0, 0, set_softcap},
    {"trace", API_BOOLEAN, 0, 0, 0, set_trace},
    {"tokens", API_WORDS, 0, 0, 0, set_tokens},
    {"key_tokens", API_WORDS, 0, 0, 0, set_key_tokens},
};
const api_field_table api_attention_options = API_TABLE(options);

void api_attention_sized(api_attention_state *a, bool knows_v) {
    attn_problem *p = &a->mha.attention;
    a->sized = true;
    a->knows_v = knows_v;
    p->scale = 1 / sqrt((double)p->d_k);
}

/* ---- names of `return` ------------------------------------------------------------------------------------------ */

api_shape api_attention_output_shape(const void *state) { return ((const api_attention_state *)state)->output; }

/* Columns of scores and weights */
static size_t columns_of(const attn_problem *p) {
    return p->kind == ATTN_LINFORMER ? p->linformer->keys : p->n_past + p->n_new;
}

static api_shape cells_shape(const void *state) {
    const api_attention_state *a = state;
    const attn_problem *p = &a->mha.attention;
    return api_shape_of(a->axes, p->batch, p->heads, p->n_q, columns_of(p));
}

static api_shape weights_shape(const void *state) {
    const api_attention_state *a = state;
    const attn_problem *p = &a->mha.attention;
    return a->average ? api_shape_of((api_axes){a->axes.batch, false}, p->batch, 1, p->n_q, columns_of(p))
                      : cells_shape(state);
}

static api_shape lse_shape(const void *state) {
    api_shape shape = cells_shape(state);
    shape.rank--;
    return shape;
}

static api_shape present_shape(const api_attention_state *a, size_t heads, size_t d) {
    const attn_problem *p = &a->mha.attention;
    return api_shape_of(a->axes, p->batch, heads, keys_of(p), d);
}
static api_shape present_k_shape(const void *state) {
    const api_attention_state *a = state;
    return present_shape(a, a->mha.attention.kv_heads * a->pairs, a->mha.attention.d_k);
}
static api_shape present_v_shape(const void *state) {
    const api_attention_state *a = state;
    return present_shape(a, a->mha.attention.kv_heads, a->mha.attention.d_v);
}

static api_shape q_rotated_shape(const void *state) {
    const api_attention_state *a = state;
    const attn_problem *p = &a->mha.attention;
    return api_shape_of(a->axes, p->batch, p->heads, p->n_q, p->d_k);
}
static api_shape k_rotated_shape(const void *state) {
    const api_attention_state *a = state;
    const attn_problem *p = &a->mha.attention;
    return api_shape_of(a->axes, p->batch, p->kv_heads, p->n_new, p->d_k);
}

bool api_attention_always(const void *state) {
    (void)state;
    return true;
}
static bool with_scores(const void *state) {
    const attn_kind kind = ((const api_attention_state *)state)->mha.attention.kind;
    return kind == ATTN_SOFTMAX || kind == ATTN_LINFORMER;
}
static bool with_softcap(const void *state) {
    return with_scores(state) && ((const api_attention_state *)state)->mha.attention.softcap > 0;
}
static bool with_rope(const void *state) {
    return with_scores(state) && ((const api_attention_state *)state)->mha.attention.rope != NULL;
}
static bool with_past(const void *state) { return ((const api_attention_state *)state)->past_k.given; }

#define RESULT(member) offsetof(api_attention_state, results.attention.member)
static const api_name_row names[] = {
    {"weights", 4, false, weights_shape, RESULT(weights), api_attention_always, API_NO_STAGE, NULL},
    {"scores", 4, false, cells_shape, RESULT(scores), with_scores, ATTN_STAGE_SCORES, "score"},
    {"scaled", 4, false, cells_shape, RESULT(scaled), with_scores, ATTN_STAGE_SCALED, "scaled score"},
    {"capped", 4, false, cells_shape, RESULT(capped), with_softcap, ATTN_STAGE_CAPPED, "capped score"},
    {"masked", 4, false, cells_shape, RESULT(masked), with_scores, ATTN_STAGE_MASKED, "biased score"},
    {"lse", 3, false, lse_shape, RESULT(lse), with_scores, API_NO_STAGE, NULL},
    {"present_k", 4, false, present_k_shape, RESULT(present_k), with_past, API_NO_STAGE, NULL},
    {"present_v", 4, false, present_v_shape, RESULT(present_v), with_past, API_NO_STAGE, NULL},
    {"q_rotated", 4, false, q_rotated_shape, RESULT(q_rotated), with_rope, API_NO_STAGE, NULL},
    {"k_rotated", 4, false, k_rotated_shape, RESULT(k_rotated), with_rope, API_NO_STAGE, NULL},
};
const api_name_table api_attention_names = API_TABLE(names);

/* ---- running ---------------------------------------------------------------------------------------------------- */

void api_attention_shrink(api_attention_state *a) {
    attn_problem *p = &a->mha.attention;
    const bool has_state = a->results.attention.present_state || a->results.attention.present_normalizer;
    if (p->n_q == 0 && (keys_of(p) == 0 || p->kv_heads == 0) && !(has_state && p->kv_heads > 0)) p->batch = 0;
    if (p->kv_heads > 0) return;
    p->heads = p->kv_heads = 1;
    p->kind = ATTN_SOFTMAX; /* there are no numbers of head 0 */
    p->sinks = p->alibi = p->head_scales = NULL;
    p->relative_bias = NULL;
    p->pattern = NULL;
}

bool api_all_finite(attn_dtype dtype, const void *data, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (dtype == ATTN_F64 ? !isfinite(((const double *)data)[i]) : !isfinite(((const float *)data)[i]))
            return false;
    return true;
}

/* A rotation may take a number out of the range; what the reply shows of it must be in. */
static bool rotated_fit(api_job *job) {
    const api_attention_state *a = job->state;
    for (size_t i = 0; a->mha.attention.rope && i < job->reply.output_count; i++) {
        const api_output *o = &job->reply.outputs[i];
        const void *data = o->data;
        const attn_results *r = &a->results.attention;
        if (data != r->q_rotated && data != r->k_rotated && data != r->present_k) continue;
        if (api_all_finite(job->form.dtype, data, o->count)) continue;
        api_error_set(job->form.error, API_OVERFLOW, API_PLACE_LAST, NULL, "a number of %s does not fit %s", o->name,
                      job->form.dtype == ATTN_F32 ? "float32; try \"dtype\": \"float64\"" : "float64");
        return false;
    }
    return true;
}

bool api_attention_done(api_job *job, attn_status status, const attn_fault *fault) {
    const char *number = "number of the output";
    const bool f32 = job->form.dtype == ATTN_F32;
    if (status == ATTN_OK) return rotated_fit(job);
    if (status != ATTN_OVERFLOW) return false;
    const api_name_row *row;
    for (size_t i = 0; (row = api_name_at(job->form.schema, i)); i++)
        if (row->stage == (int)fault->stage) number = row->number;
    const bool cell = fault->stage >= ATTN_STAGE_SCORES && fault->stage <= ATTN_STAGE_MASKED;
    api_error_set(job->form.error, API_OVERFLOW, API_PLACE_LAST, NULL,
                  "a %s does not fit %s: batch %zu, head %zu, %s %zu, %s %zu%s", number, f32 ? "float32" : "float64",
                  fault->batch, fault->head, cell ? "query" : "row", fault->query, cell ? "key" : "column", fault->key,
                  f32 ? "; try \"dtype\": \"float64\"" : "");
    return false;
}

void api_attention_trace(const api_job *job, api_trace *trace) {
    const attn_problem *p = &((const api_attention_state *)job->state)->mha.attention;
    trace->has_problem = true;
    trace->batch = p->batch;
    trace->heads = p->heads;
    trace->n_q = p->n_q;
    trace->n_k = keys_of(p);
    trace->d_k = p->d_k;
    trace->d_v = p->d_v;
    trace->dtype = p->dtype;
}
