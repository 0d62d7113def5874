/* attention_patterns.c: options that say by token or by head who attends, and how much of it. */
#include <stdio.h>

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

/* Checks that a tensor of ids is (n) or (batch, n). */
static bool one_per_token(api_form *form, const api_attention_state *a, const api_tensor *ids, size_t n) {
    const attn_problem *p = &a->mha.attention;
    if (!ids->ok || !a->sized) return false;
    if (ids->shape[ids->rank - 1] == n && (ids->rank == 1 || ids->shape[0] == p->batch)) return true;
    char got[API_SHAPE_TEXT];
    api_form_fault(form, ids->field, API_SHAPE_MISMATCH, "expected the shape [%zu] or [%zu, %zu], got %s", n, p->batch,
                   n, api_shape_text(got, ids->rank, ids->shape));
    return false;
}

/* The ids are known: finds where the keys of each query's segment stand. */
static void find_segments(api_form *form, api_attention_state *a) {
    attn_problem *p = &a->mha.attention;
    attn_segments *s = &a->segments;
    const size_t n_k = keys_of(p), rows = s->of_query_batch || s->of_key_batch ? p->batch : 1;
    size_t *spans = api_small(form->memory, api_times_sizes(api_times_sizes(rows, p->n_q + 1), 2 * sizeof *spans));
    attn_segment_run *runs = api_small(form->memory, api_times_sizes(n_k + 1, sizeof *runs));
    if (!spans || !runs) {
        form->broken = true;
        api_error_memory(form->error, form->memory);
        return;
    }
    s->spans = spans;
    s->spans_batch = rows > 1 ? 2 * p->n_q : 0;
    for (size_t b = 0; b < rows; b++)
        s->gaps |= attn_segment_spans(p->n_q, s->of_query + b * s->of_query_batch, n_k, s->of_key + b * s->of_key_batch,
                                      runs, spans + b * 2 * p->n_q);
    p->segments = s;
}

static void set_segment_ids(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    const attn_problem *p = &a->mha.attention;
    const size_t n_k = keys_of(p);
    api_tensor ids;
    api_form_tensor(form, field, &ids);
    if (!one_per_token(form, a, &ids, p->n_q)) return;
    a->segments.of_query = ids.data;
    a->segments.of_query_batch = ids.rank == 2 ? p->n_q : 0;
    if (api_form_has(form, (api_field)api_field_find(form->schema, "key_segment_ids"))) return; /* its setter goes on */
    if (p->n_q != n_k) {
        char why[120];
        snprintf(why, sizeof why, "with segment_ids if there are not as many keys as queries: %zu and %zu", n_k,
                 p->n_q);
        api_form_missing(form, "key_segment_ids", why);
        return;
    }
    a->segments.of_key = ids.data;
    a->segments.of_key_batch = a->segments.of_query_batch;
    find_segments(form, a);
}

/* After segment_ids. */
static void set_key_segment_ids(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    const size_t n_k = keys_of(&a->mha.attention);
    api_tensor ids;
    api_form_tensor(form, field, &ids);
    if (!api_form_has(form, (api_field)api_field_find(form->schema, "segment_ids"))) {
        api_form_fault(form, field, API_OUT_OF_RANGE, "has a meaning only with segment_ids, which is not there");
        return;
    }
    if (!one_per_token(form, a, &ids, n_k) || !a->segments.of_query) return;
    a->segments.of_key = ids.data;
    a->segments.of_key_batch = ids.rank == 2 ? n_k : 0;
    find_segments(form, a);
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
    {"segment_ids", API_INTEGERS, 1, 2, API_CLOSES_KEYS, set_segment_ids},
    {"key_segment_ids", API_INTEGERS, 1, 2, API_CLOSES_KEYS, set_key_segment_ids},
    {"sinks", API_REALS, 1, 1, 0, set_sinks},
};
const api_field_table api_attention_patterns = API_TABLE(patterns);
