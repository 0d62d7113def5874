/* Numbers that are not finite among keys and values: they may stand only at keys that nothing looks at. */
#include <math.h>

#include "attention_fields.h"

/* A tensor of keys or values in the (batch, kv heads, n, d) terms of the problem, its keys counted from `first`. */
typedef struct keyed {
    const api_tensor *tensor;
    attn_view view;
    size_t first, n, d;
    bool asked;   /* the reply shows blocked keys too */
    size_t worst; /* first element that is an error; SIZE_MAX: none */
} keyed;

static bool is_finite_at(const api_job *job, const void *data, size_t i) {
    return job->form.dtype == ATTN_F64 ? isfinite(((const double *)data)[i]) : isfinite(((const float *)data)[i]);
}

static void look_at_keys(const api_job *job, keyed *t, size_t batch, size_t head, const uint8_t *open) {
    for (size_t j = 0; j < t->n; j++) {
        if (!t->asked && !open[t->first + j]) continue;
        const size_t row = batch * t->view.batch + head * t->view.head + j * t->view.row;
        for (size_t c = 0; c < t->d; c++)
            if (!is_finite_at(job, t->view.data, row + c)) {
                if (row + c < t->worst) t->worst = row + c;
                break;
            }
    }
}

static void check_open_keys(api_job *job) {
    const api_form *form = &job->form;
    const api_attention_state *a = job->state;
    const attn_problem *p = &a->mha.attention;
    const bool cells =
        api_form_returns(form, "scores") || api_form_returns(form, "scaled") || api_form_returns(form, "capped");
    const bool k_asked = api_form_returns(form, "present_k") || api_form_returns(form, "k_rotated") ||
                         (cells && p->n_q > 0 && p->heads > 0);
    const bool v_asked = api_form_returns(form, "present_v");
    keyed all[] = {
        {&a->k, p->k, p->n_past, p->n_new, p->d_k, k_asked, SIZE_MAX},
        {&a->v, p->v, p->n_past, p->n_new, p->d_v, v_asked, SIZE_MAX},
        {&a->past_k, p->past_k, 0, p->n_past, p->d_k, k_asked, SIZE_MAX},
        {&a->past_v, p->past_v, 0, p->n_past, p->d_v, v_asked, SIZE_MAX},
    };
    bool finite = true;
    for (size_t i = 0; i < 4; i++) finite &= !all[i].tensor->ok || all[i].tensor->finite;
    if (finite) return;
    uint8_t *open = api_small(form->memory, p->n_past + p->n_new);
    if (!open) {
        api_error_memory(form->error, form->memory);
        return;
    }
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->kv_heads; h++) {
            attn_open_keys(p, b, h, open);
            for (size_t i = 0; i < 4; i++)
                if (all[i].tensor->ok && !all[i].tensor->finite) look_at_keys(job, &all[i], b, h, open);
        }
    for (size_t i = 0; i < 4; i++)
        if (all[i].worst != SIZE_MAX)
            api_tensor_fault(&job->form, all[i].tensor, all[i].worst, false, API_NOT_FINITE,
                             "expected finite numbers at a key that %s, got NaN or an infinity",
                             all[i].asked ? "the reply shows" : "is open to a query");
}

static void check_unblocked(api_job *job) {
    api_form *form = &job->form;
    const api_attention_state *a = job->state;
    for (api_field field = 0; field < api_field_count(form->schema); field++)
        if (form->slots[field].row->flags & API_CLOSES_KEYS && api_form_has(form, field)) return;
    api_tensor_require_finite(form, &a->k);
    api_tensor_require_finite(form, &a->v);
    api_tensor_require_finite(form, &a->past_k);
    api_tensor_require_finite(form, &a->past_v);
}

void api_attention_check(api_job *job) {
    const api_attention_state *a = job->state;
    if (a->past_k.given != a->past_v.given)
        api_form_missing(&job->form, a->past_k.given ? "past_v" : "past_k",
                         a->past_k.given ? "with past_k" : "with past_v");
    const char *const rotated[] = {"q_rotated", "k_rotated"};
    for (size_t i = 0; i < 2; i++)
        if (!a->mha.attention.rope && api_form_returns(&job->form, rotated[i]))
            api_form_fault(&job->form, (api_field)api_field_find(job->form.schema, "return"), API_OUT_OF_RANGE,
                           "\"%s\" has a meaning only with rope, which is not there", rotated[i]);
    api_kind_check(job);
    if (a->pairs == 2) { /* what is open is not asked head by head */
        api_tensor_require_finite(&job->form, &a->k);
        api_tensor_require_finite(&job->form, &a->past_k);
    }
    if (job->form.broken)
        check_unblocked(job);
    else
        check_open_keys(job);
}
