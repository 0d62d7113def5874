/* attention_patterns.c: options that say by token or by head who attends, and how much of it. */
#include "attention_fields.h"

static size_t keys_of(const attn_problem *p) { return p->n_past + p->n_new; }

/* Checks the shape (batch, n) of a tensor, or (n) if the request has no batch. */
static bool one_per_key(api_form *form, const api_attention_state *a, const api_tensor *tensor) {
    const attn_problem *p = &a->mha.attention;
    const size_t axes[2] = {p->batch, keys_of(p)}, rank = a->axes.batch ? 2 : 1, *wanted = axes + (2 - rank);
    if (!tensor->ok || !a->sized) return false;
    bool fits = tensor->rank == rank;
    for (size_t i = 0; fits && i < rank; i++) fits = tensor->shape[i] == wanted[i];
    if (fits) return true;
    char got[API_SHAPE_TEXT], text[API_SHAPE_TEXT];
    api_form_fault(form, tensor->field, API_SHAPE_MISMATCH, "expected the shape %s (%sn_past + n_k), got %s",
                   api_shape_text(text, rank, wanted), a->axes.batch ? "batch, " : "",
                   api_shape_text(got, tensor->rank, tensor->shape));
    return false;
}

static void set_key_mask(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_problem *p = &a->mha.attention;
    api_tensor mask;
    api_form_tensor(form, field, &mask);
    if (!one_per_key(form, a, &mask)) return;
    p->key_mask = mask.data;
    p->key_mask_batch = keys_of(p);
}

bool api_one_per_head(api_form *form, const api_attention_state *a, const api_tensor *tensor) {
    const size_t heads = a->mha.attention.heads;
    if (!tensor->ok || !a->sized) return false;
    if (tensor->count == heads) return true;
    char got[API_SHAPE_TEXT];
    api_form_fault(form, tensor->field, API_SHAPE_MISMATCH,
                   "expected a list of %zu numbers, one for each head, got the shape %s", heads,
                   api_shape_text(got, tensor->rank, tensor->shape));
    return false;
}

static void set_sinks(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    api_tensor sinks;
    api_form_tensor(form, field, &sinks);
    api_tensor_require_finite(form, &sinks);
    if (api_one_per_head(form, a, &sinks) && sinks.finite) a->mha.attention.sinks = sinks.data;
}

static const api_field_row patterns[] = {
    {"key_mask", API_MASK, 1, 2, API_CLOSES_KEYS, set_key_mask},
    {"sinks", API_REALS, 1, 1, 0, set_sinks},
};
const api_field_table api_attention_patterns = API_TABLE(patterns);
