/* `kind`: what turns scores into weights, and the fields of each kind but softmax (docs/api.md). */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "attention_fields.h"

static const char *name_of(attn_kind kind) { return attn_kind_name((size_t)kind); }

static api_field field_of(const api_form *form, const char *name) {
    return (api_field)api_field_find(form->schema, name);
}

static bool is_given(const api_form *form, const char *name) {
    const api_field field = field_of(form, name);
    return field < api_field_count(form->schema) && api_form_has(form, field);
}

void api_attention_read_kind(api_form *form, api_attention_state *a) {
    const char *names[8];
    size_t count = 0, choice = 0;
    while (count < 8 && attn_kind_name(count)) names[count] = attn_kind_name(count), count++;
    api_form_choice(form, field_of(form, "kind"), names, count, &choice);
    a->mha.attention.kind = (attn_kind)choice;
    a->pairs = choice == ATTN_DIFFERENTIAL ? 2 : 1;
    if (choice == ATTN_LINEAR) a->mha.attention.linear = &a->linear;
    if (choice == ATTN_LINFORMER) a->mha.attention.linformer = &a->linformer;
    if (choice == ATTN_DIFFERENTIAL) a->mha.attention.differential = &a->differential;
}

/* false, and a fault, if the field is not one of the request's kind */
static bool belongs(api_form *form, api_field field, const api_attention_state *a, attn_kind kind) {
    if (a->mha.attention.kind == kind) return true;
    api_form_fault(form, field, API_OUT_OF_RANGE, "has a meaning only with \"kind\": \"%s\"", name_of(kind));
    return false;
}

static bool has_shape(api_form *form, const api_tensor *t, const api_shape *wanted) {
    char got[API_SHAPE_TEXT], text[API_SHAPE_TEXT];
    if (!t->ok) return false;
    if (t->rank == wanted->rank && memcmp(t->shape, wanted->axes, wanted->rank * sizeof *wanted->axes) == 0)
        return true;
    api_form_fault(form, t->field, API_SHAPE_MISMATCH, "expected the shape %s, got %s",
                   api_shape_text(text, wanted->rank, wanted->axes), api_shape_text(got, t->rank, t->shape));
    return false;
}

/* A number of at least 0 in float64, whatever the compute type is. */
static void read_eps(api_form *form, api_field field, double *eps) {
    const attn_dtype dtype = form->dtype;
    form->dtype = ATTN_F64;
    if (api_form_real(form, field, eps) && *eps < 0)
        api_form_fault(form, field, API_OUT_OF_RANGE, "expected a number of at least 0, got %.9g", *eps);
    form->dtype = dtype;
}

/* ---- linear ----------------------------------------------------------------------------------------------------- */

static void set_feature_map(api_form *form, api_field field, void *state) {
    static const char *const maps[] = {"elu+1", "relu"};
    api_attention_state *a = state;
    size_t choice;
    if (belongs(form, field, a, ATTN_LINEAR) && api_form_choice(form, field, maps, 2, &choice))
        a->linear.feature_map = choice == 0 ? ATTN_ELU_PLUS_1 : ATTN_RELU;
}

static void set_eps(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    if (belongs(form, field, a, ATTN_LINEAR)) read_eps(form, field, &a->linear.eps);
}

/* (batch, kv heads, d_k, d_v) */
static api_shape state_shape(const void *state) {
    const api_attention_state *a = state;
    const attn_problem *p = &a->mha.attention;
    return api_shape_of(a->axes, p->batch, p->kv_heads, p->d_k, p->d_v);
}
static api_shape normalizer_shape(const void *state) {
    api_shape shape = state_shape(state);
    shape.rank--;
    return shape;
}

static const void *read_past(api_form *form, api_field field, const api_attention_state *a, api_shape wanted,
                             const char *other) {
    api_tensor t;
    if (!belongs(form, field, a, ATTN_LINEAR)) return NULL;
    api_form_tensor(form, field, &t);
    api_tensor_require_finite(form, &t);
    if (!is_given(form, other)) {
        char why[40];
        snprintf(why, sizeof why, "with %s", api_form_name(form, field));
        api_form_missing(form, other, why);
    }
    return a->sized && a->knows_v && has_shape(form, &t, &wanted) ? t.data : NULL;
}

static void set_past_state(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    a->linear.past_state = read_past(form, field, a, state_shape(a), "past_normalizer");
}
static void set_past_normalizer(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    a->linear.past_normalizer = read_past(form, field, a, normalizer_shape(a), "past_state");
}

/* ---- linformer -------------------------------------------------------------------------------------------------- */

/* (keys, n_k) or (heads, keys, n_k) */
static void set_projection(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_linformer *l = &a->linformer;
    const attn_problem *p = &a->mha.attention;
    const bool is_e = strcmp(api_form_name(form, field), "e") == 0;
    api_tensor t;
    char got[API_SHAPE_TEXT];
    if (!belongs(form, field, a, ATTN_LINFORMER)) return;
    api_form_tensor(form, field, &t);
    api_tensor_require_finite(form, &t);
    if (!t.ok || !a->sized) return;
    api_shape_text(got, t.rank, t.shape);
    const size_t rows = t.shape[t.rank - 2];
    if (t.shape[t.rank - 1] != p->n_new || (t.rank == 3 && t.shape[0] != p->heads))
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected the shape [any, %zu] or [%zu, any, %zu], got %s",
                       p->n_new, p->heads, p->n_new, got);
    else if (rows == 0)
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected at least 1 row, got the shape %s", got);
    else if (!is_e && l->e && (rows != l->keys || (t.rank == 3) != l->per_head))
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected the shape of e, got %s", got);
    if (is_e) {
        l->e = l->f = t.data;
        l->keys = rows;
        l->per_head = t.rank == 3;
    } else {
        l->f = t.data;
    }
}

/* ---- differential ----------------------------------------------------------------------------------------------- */

/* A number for all heads, or one for each. */
static void set_lambda(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    const json_t *json = form->slots[field].json;
    const api_value *value = api_form_value(form, json);
    double number;
    if (!belongs(form, field, a, ATTN_DIFFERENTIAL)) return;
    if (json_is_object(json) || (value && value->rank > 0)) {
        api_tensor t;
        api_form_tensor(form, field, &t);
        api_tensor_require_finite(form, &t);
        if (api_one_per_head(form, a, &t)) a->differential.lambda = t.data;
    } else if (api_form_real(form, field, &number) && a->sized) {
        a->differential.lambda = api_repeated(form, number, a->mha.attention.heads);
    }
}

const void *api_repeated(api_form *form, double number, size_t count) {
    void *data = api_small(form->memory, api_times_sizes(count + 1, sizeof(double)));
    if (!data) {
        form->broken = true;
        api_error_memory(form->error, form->memory);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (form->dtype == ATTN_F64)
            ((double *)data)[i] = number;
        else
            ((float *)data)[i] = (float)number;
    return data;
}

/* ---- what goes with what ---------------------------------------------------------------------------------------- */

/* Fields and names of `return` that have no meaning with a kind; NULL ends a list. */
static const struct {
    attn_kind kind;
    const char *fields[20], *names[10];
} refused[] = {
    {ATTN_LINEAR,
     {"mask", "bias", "window", "scale", "softcap", "rope", "alibi", "relative_bias", "positions", "key_positions",
      "sinks", "segment_ids", "key_segment_ids", "dilation", "block_sparse", "global_tokens", "past_k", "past_v"},
     {"scores", "scaled", "capped", "masked", "lse", "present_k", "present_v", "q_rotated", "k_rotated"}},
    {ATTN_LINFORMER,
     {"mask", "bias", "window", "causal", "query_offset", "kv_lengths", "key_mask", "rope", "alibi", "relative_bias",
      "positions", "key_positions", "segment_ids", "key_segment_ids", "dilation", "block_sparse", "global_tokens",
      "past_k", "past_v"},
     {"present_k", "present_v", "q_rotated", "k_rotated"}},
    {ATTN_DIFFERENTIAL, {NULL}, {"scores", "scaled", "capped", "masked", "lse", "q_rotated", "k_rotated"}},
};

static void check_company(api_job *job, attn_kind kind) {
    api_form *form = &job->form;
    for (size_t r = 0; r < sizeof refused / sizeof *refused; r++) {
        if (refused[r].kind != kind) continue;
        for (size_t i = 0; refused[r].fields[i]; i++)
            if (is_given(form, refused[r].fields[i]))
                api_form_fault(form, field_of(form, refused[r].fields[i]), API_OUT_OF_RANGE,
                               "has no meaning with \"kind\": \"%s\"", name_of(kind));
        for (size_t i = 0; refused[r].names[i]; i++)
            if (api_form_returns(form, refused[r].names[i]))
                api_form_fault(form, field_of(form, "return"), API_OUT_OF_RANGE,
                               "\"%s\" has no meaning with \"kind\": \"%s\"", refused[r].names[i], name_of(kind));
    }
}

void api_kind_check(api_job *job) {
    static const struct {
        attn_kind kind;
        const char *field;
    } required[] = {{ATTN_LINFORMER, "e"}};
    static const char *const of_linear[] = {"present_state", "present_normalizer"};
    api_form *form = &job->form;
    api_attention_state *a = job->state;
    const attn_kind kind = a->mha.attention.kind;
    a->linear.key_mask = a->mha.attention.key_mask;
    char why[60];
    snprintf(why, sizeof why, "with \"kind\": \"%s\"", name_of(kind));
    check_company(job, kind);
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (kind == required[i].kind && !is_given(form, required[i].field))
            api_form_missing(form, required[i].field, why);
    if (kind == ATTN_DIFFERENTIAL && !is_given(form, "lambda") && !is_given(form, "lambda_q1"))
        api_form_missing(form, "lambda", why);
    for (size_t i = 0; i < 2 && kind != ATTN_LINEAR; i++)
        if (api_form_returns(form, of_linear[i]))
            api_form_fault(form, field_of(form, "return"), API_OUT_OF_RANGE,
                           "\"%s\" has a meaning only with \"kind\": \"linear\"", of_linear[i]);
    if (a->average && kind != ATTN_SOFTMAX && kind != ATTN_LINFORMER)
        api_form_fault(form, field_of(form, "return_weights"), API_OUT_OF_RANGE,
                       "\"average\" has no meaning with \"kind\": \"%s\"", name_of(kind));
}

static bool with_linear(const void *state) {
    return ((const api_attention_state *)state)->mha.attention.kind == ATTN_LINEAR;
}

static const api_field_row rows[] = {
    {"kind", API_WORD, 0, 0, 0, NULL},
    {"feature_map", API_WORD, 0, 0, 0, set_feature_map},
    {"eps", API_NUMBER, 0, 0, 0, set_eps},
    {"past_state", API_REALS, 2, 4, 0, set_past_state},
    {"past_normalizer", API_REALS, 1, 3, 0, set_past_normalizer},
    {"e", API_REALS, 2, 3, 0, set_projection},
    {"f", API_REALS, 2, 3, 0, set_projection},
    {"lambda", API_NUMBER | API_REALS, 1, 1, 0, set_lambda},
};
const api_field_table api_attention_kinds = API_TABLE(rows);

#define RESULT(member) offsetof(api_attention_state, results.attention.member)
static const api_name_row names[] = {
    {"present_state", 4, false, state_shape, RESULT(present_state), with_linear, API_NO_STAGE, NULL},
    {"present_normalizer", 3, false, normalizer_shape, RESULT(present_normalizer), with_linear, API_NO_STAGE, NULL},
};
const api_name_table api_kind_names = API_TABLE(names);
