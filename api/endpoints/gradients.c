/* The gradients of POST /attention (docs/api.md, section 2): grad_output, and grad_... in `return`. */
#include <stddef.h>
#include <string.h>

#include "attention_fields.h"

static bool same_shape(const api_shape *a, const api_tensor *b) {
    bool same = a->rank == b->rank;
    for (size_t i = 0; same && i < a->rank; i++) same = a->axes[i] == b->shape[i];
    return same;
}

static void set_grad_output(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    api_tensor *grad = &a->grad_output;
    char wanted[API_SHAPE_TEXT], got[API_SHAPE_TEXT];
    api_form_tensor(form, field, grad);
    api_tensor_require_finite(form, grad);
    if (a->mha.attention.kind != ATTN_SOFTMAX)
        api_form_fault(form, field, API_OUT_OF_RANGE, "has a meaning only with \"kind\": \"softmax\"");
    if (!grad->ok || !a->sized || !a->knows_v) return;
    if (!same_shape(&a->output, grad))
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected the shape of output, %s, got %s",
                       api_shape_text(wanted, a->output.rank, a->output.axes),
                       api_shape_text(got, grad->rank, grad->shape));
    a->gradients.grad_output.data = grad->data;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static api_shape q_shape(const void *state) { return ((const api_attention_state *)state)->q_shape; }
static api_shape k_shape(const void *state) { return ((const api_attention_state *)state)->k_shape; }
static api_shape v_shape(const void *state) { return ((const api_attention_state *)state)->v_shape; }
static api_shape bias_shape(const void *state) { return ((const api_attention_state *)state)->bias_shape; }
static api_shape sinks_shape(const void *state) {
    return (api_shape){1, {((const api_attention_state *)state)->mha.attention.heads}};
}

static const api_field_row fields[] = {{"grad_output", API_REALS, 2, 4, 0, set_grad_output}};
const api_field_table api_gradient_fields = API_TABLE(fields);

#define RESULT(member) offsetof(api_attention_state, gradients.member)
static const api_name_row names[] = {
    {"grad_q", 4, false, q_shape, RESULT(q.data), NULL, API_NO_STAGE, NULL},
    {"grad_k", 4, false, k_shape, RESULT(k.data), NULL, API_NO_STAGE, NULL},
    {"grad_v", 4, false, v_shape, RESULT(v.data), NULL, API_NO_STAGE, NULL},
    {"grad_bias", 4, false, bias_shape, RESULT(bias), NULL, API_NO_STAGE, NULL},
    {"grad_sinks", 1, false, sinks_shape, RESULT(sinks), NULL, API_NO_STAGE, NULL},
};
const api_name_table api_gradient_names = API_TABLE(names);
enum { NAMES = sizeof names / sizeof *names };

/* ---- checks ----------------------------------------------------------------------------------------------------- */

/* The field without which a name has no meaning, if it is not there */
static const char *lacking(const api_attention_state *a, const api_form *form, const char *name) {
    if (!a->grad_output.given) return "grad_output";
    const char *const needs[][2] = {{"grad_bias", "bias"}, {"grad_sinks", "sinks"}};
    for (size_t i = 0; i < 2; i++)
        if (strcmp(name, needs[i][0]) == 0 && !api_form_has(form, (api_field)api_field_find(form->schema, needs[i][1])))
            return needs[i][1];
    return NULL;
}

void api_gradients_check(api_job *job) {
    api_form *form = &job->form;
    const api_attention_state *a = job->state;
    bool wanted = false;
    for (size_t i = 0; i < NAMES; i++) {
        if (!api_form_returns(form, names[i].name)) continue;
        const char *field = lacking(a, form, names[i].name);
        wanted = true;
        if (field)
            api_form_fault(form, (api_field)api_field_find(form->schema, "return"), API_OUT_OF_RANGE,
                           "\"%s\" has a meaning only with %s, which is not there", names[i].name, field);
    }
    if (a->grad_output.given && !wanted)
        api_form_fault(form, a->grad_output.field, API_OUT_OF_RANGE,
                       "has a meaning only if return names a gradient: grad_q, grad_k, grad_v, grad_bias, grad_sinks");
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

bool api_gradients_wanted(const api_attention_state *a) {
    const attn_gradients *g = &a->gradients;
    return g->q.data || g->k.data || g->v.data || g->bias || g->sinks;
}

static bool is_empty(api_shape shape) {
    for (size_t i = 0; i < shape.rank; i++)
        if (shape.axes[i] == 0) return true;
    return false;
}

/* Gradients without a number are left to the reply: api_attention_shrink has changed the sizes that they had. */
static void drop_empty(api_attention_state *a) {
    attn_gradients *g = &a->gradients;
    if (is_empty(a->q_shape)) g->q.data = NULL;
    if (is_empty(a->k_shape)) g->k.data = NULL;
    if (is_empty(a->v_shape)) g->v.data = NULL;
    if (is_empty(a->bias_shape)) g->bias = NULL;
    if (!a->mha.attention.sinks) g->sinks = NULL;
}

size_t api_gradients_workspace(const attn_engine *engine, api_attention_state *a) {
    drop_empty(a);
    return api_gradients_wanted(a) ? attn_gradients_workspace(engine, &a->mha.attention, &a->gradients) : 0;
}

static bool is_gradient(const attn_gradients *g, const void *data) {
    return data == g->q.data || data == g->k.data || data == g->v.data || data == g->bias || data == g->sinks;
}

static bool fit(api_job *job) {
    const attn_gradients *gradients = &((const api_attention_state *)job->state)->gradients;
    const bool f32 = job->form.dtype == ATTN_F32;
    for (size_t i = 0; i < job->reply.output_count; i++) {
        const api_output *o = &job->reply.outputs[i];
        if (!is_gradient(gradients, o->data) || api_all_finite(job->form.dtype, o->data, o->count)) continue;
        api_error_set(job->form.error, API_OVERFLOW, API_PLACE_LAST, NULL, "a number of %s does not fit %s", o->name,
                      f32 ? "float32; try \"dtype\": \"float64\"" : "float64");
        return false;
    }
    return true;
}

/* Without queries the core sees fewer heads than there are sinks: what it does not reach is zero. */
static void clear_sinks(const api_job *job) {
    const void *sinks = ((const api_attention_state *)job->state)->gradients.sinks;
    for (size_t i = 0; i < job->reply.output_count && sinks; i++)
        if (job->reply.outputs[i].data == sinks)
            memset(job->reply.outputs[i].data, 0, job->reply.outputs[i].count * attn_sizeof(job->form.dtype));
}

bool api_gradients_run(const attn_engine *engine, api_job *job, void *scratch, const atomic_bool *cancel) {
    const api_attention_state *a = job->state;
    clear_sinks(job);
    const attn_status status = attn_gradients_run(engine, &a->mha.attention, &a->gradients, scratch, cancel);
    if (status == ATTN_OK) return fit(job);
    if (status == ATTN_OVERFLOW)
        api_error_set(job->form.error, API_OVERFLOW, API_PLACE_LAST, NULL,
                      "q, k, scale or a bias is too large for gradients in %s",
                      job->form.dtype == ATTN_F32 ? "float32; try \"dtype\": \"float64\"" : "float64");
    return false;
}
