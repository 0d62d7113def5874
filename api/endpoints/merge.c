/* POST /merge: attention over shards of the keys, joined (docs/api.md). */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "operation.h"

typedef struct merge_state {
    api_tensor output, lse; /* (shards, ..., n_q, d_v), (shards, ..., n_q) */
    size_t shards, rows, d;
    void *joined_output, *joined_lse; /* set if they are wanted */
} merge_state;

static double number_at(const api_form *form, const api_tensor *tensor, size_t i) {
    return form->dtype == ATTN_F64 ? ((const double *)tensor->data)[i] : (double)((const float *)tensor->data)[i];
}

static void set_output(api_form *form, api_field field, void *state) {
    merge_state *m = state;
    api_form_tensor(form, field, &m->output);
    if (!m->output.ok || m->output.shape[0] > 0) return;
    api_form_fault(form, field, API_OUT_OF_RANGE, "expected at least 1 shard, got 0");
    m->output.ok = false;
}

static void check_lse(api_form *form, const api_tensor *lse) {
    if (!lse->data || lse->finite) return;
    for (size_t i = 0; i < lse->held; i++) {
        const double x = number_at(form, lse, i);
        if (x <= HUGE_VAL && x != HUGE_VAL) continue;
        api_tensor_fault(form, lse, i, true, API_NOT_FINITE, "expected finite numbers, -Infinity or null, got %s",
                         isnan(x) ? "NaN" : "Infinity");
        return;
    }
}

static void set_lse(api_form *form, api_field field, void *state) {
    merge_state *m = state;
    const api_tensor *output = &m->output, *lse = &m->lse;
    api_form_tensor(form, field, &m->lse);
    check_lse(form, lse);
    if (!output->ok || !lse->ok) return;
    if (lse->rank == output->rank - 1 && memcmp(lse->shape, output->shape, lse->rank * sizeof *lse->shape) == 0) {
        m->shards = output->shape[0];
        m->rows = lse->count / m->shards;
        m->d = output->shape[output->rank - 1];
        return;
    }
    char wanted[API_SHAPE_TEXT], got[API_SHAPE_TEXT];
    api_form_fault(form, field, API_SHAPE_MISMATCH, "expected the shape of output without its last axis, %s, got %s",
                   api_shape_text(wanted, output->rank - 1, output->shape), api_shape_text(got, lse->rank, lse->shape));
}

/* The output of a shard whose lse is -infinity may hold anything. */
static void check(api_job *job) {
    api_form *form = &job->form;
    const merge_state *m = job->state;
    if (m->output.finite || form->broken) return;
    for (size_t i = 0; i < m->output.count; i++) {
        const double x = number_at(form, &m->output, i);
        if (isfinite(x) || isinf(number_at(form, &m->lse, i / m->d))) continue;
        api_tensor_fault(form, &m->output, i, true, API_NOT_FINITE,
                         "expected finite numbers where lse is not -Infinity, got %s",
                         isnan(x) ? "NaN" : "an infinity");
        return;
    }
}

static const api_field_row fields[] = {
    {"output", API_REALS, 3, 5, API_REQUIRED, set_output},
    {"lse", API_REALS, 2, 4, API_REQUIRED, set_lse}, /* after output, whose shape it checks */
};
static const api_field_table own_fields = API_TABLE(fields);

static api_shape output_shape(const void *state) {
    const api_tensor *output = &((const merge_state *)state)->output;
    api_shape shape = {.rank = output->rank - 1};
    memcpy(shape.axes, output->shape + 1, shape.rank * sizeof *shape.axes);
    return shape;
}

static api_shape lse_shape(const void *state) {
    api_shape shape = output_shape(state);
    shape.rank--;
    return shape;
}

static const api_name_row names[] = {
    {"output", 4, true, output_shape, offsetof(merge_state, joined_output), NULL, API_NO_STAGE, NULL},
    {"lse", 3, true, lse_shape, offsetof(merge_state, joined_lse), NULL, API_NO_STAGE, NULL},
};
static const api_name_table own_names = API_TABLE(names);

static double flops(const api_job *job) {
    const merge_state *m = job->state;
    return 2.0 * (double)m->shards * (double)m->rows * (double)m->d;
}

static size_t workspace(const attn_engine *engine, api_job *job) {
    (void)engine;
    (void)job;
    return 0;
}

/* A mean of numbers at the end of the range may round to more than the greatest of them. */
static bool fits(const api_job *job) {
    const merge_state *m = job->state;
    const api_tensor joined = {.data = m->joined_output};
    for (size_t i = 0; m->joined_output && i < m->rows * m->d; i++)
        if (!isfinite(number_at(&job->form, &joined, i))) return false;
    return true;
}

static bool run(const attn_engine *engine, api_job *job, void *scratch, const atomic_bool *cancel) {
    const merge_state *m = job->state;
    const attn_dtype dtype = job->form.dtype;
    (void)engine;
    (void)scratch;
    (void)cancel;
    attn_merge(dtype, m->shards, m->rows, m->d, m->output.data, m->lse.data, m->joined_output, m->joined_lse);
    if (fits(job)) return true;
    api_error_set(job->form.error, API_OVERFLOW, API_PLACE_LAST, NULL, "a number of the output does not fit %s",
                  dtype == ATTN_F32 ? "float32; try \"dtype\": \"float64\"" : "float64");
    return false;
}

const api_operation api_merge = {
    .schema = {"merge", {&own_fields, &api_common_fields}, {&own_names}},
    .state_size = sizeof(merge_state),
    .check = check,
    .flops = flops,
    .workspace = workspace,
    .run = run,
};
