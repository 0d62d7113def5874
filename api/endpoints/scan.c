/* POST /scan: the selective scan of Mamba and Mamba-2 (docs/api.md). */
#include <stddef.h>
#include <stdio.h>

#include "operation.h"

enum { U, DELTA, A, B, C }; /* the first fields of the schema: rows of `fields` */

typedef struct scan_state {
    attn_scan scan;
    attn_scan_results results;
    bool batched; /* the request has an axis for the batch */
    bool heads;   /* Mamba-2: `a` is one number for each head, u has an axis for the heads */
    bool sized;   /* sizes are known, but for groups */
} scan_state;

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static api_shape with_batch(const scan_state *s, size_t rank, const size_t *axes) {
    api_shape shape = {0};
    if (s->batched) shape.axes[shape.rank++] = s->scan.batch;
    for (size_t i = 0; i < rank; i++) shape.axes[shape.rank++] = axes[i];
    return shape;
}

static api_shape u_shape(const void *state) {
    const scan_state *s = state;
    return with_batch(s, s->heads ? 3 : 2, (const size_t[]){s->scan.n, s->scan.channels, s->scan.width});
}

static api_shape delta_shape(const void *state) {
    const scan_state *s = state;
    return with_batch(s, 2, (const size_t[]){s->scan.n, s->scan.channels});
}

static api_shape state_shape(const void *state) {
    const scan_state *s = state;
    const size_t mamba[] = {s->scan.channels, s->scan.state};
    const size_t mamba_2[] = {s->scan.channels, s->scan.width, s->scan.state};
    return s->heads ? with_batch(s, 3, mamba_2) : with_batch(s, 2, mamba);
}

static api_shape matrix_shape(const void *state) {
    const scan_state *s = state;
    return with_batch(s, 3, (const size_t[]){s->scan.channels, s->scan.n, s->scan.n});
}

/* A tensor that must have one shape. NULL: a fault. */
static const void *read_as(api_form *form, api_field field, const scan_state *s, api_shape wanted) {
    api_tensor tensor;
    api_form_tensor(form, field, &tensor);
    api_tensor_require_finite(form, &tensor);
    if (!tensor.ok || !s->sized) return NULL;
    bool same = tensor.rank == wanted.rank;
    for (size_t i = 0; same && i < wanted.rank; i++) same = tensor.shape[i] == wanted.axes[i];
    if (same) return tensor.data;
    char got[API_SHAPE_TEXT], expected[API_SHAPE_TEXT];
    api_form_fault(form, field, API_SHAPE_MISMATCH, "expected the shape %s, got %s",
                   api_shape_text(expected, wanted.rank, wanted.axes), api_shape_text(got, tensor.rank, tensor.shape));
    return NULL;
}

/* ---- the sizes -------------------------------------------------------------------------------------------------- */

static bool at_least_one(api_form *form, api_field field, const char *what, size_t got) {
    if (got > 0) return true;
    api_form_fault(form, field, API_OUT_OF_RANGE, "expected %s of at least 1, got 0", what);
    return false;
}

/* u and a have all sizes; only the state's of Mamba-2 is that of b. */
static void read_sizes(api_form *form, scan_state *s, const api_tensor *u, const api_tensor *a) {
    if (!u->ok || !a->ok) return;
    s->heads = a->rank == 1;
    const size_t rank = s->heads ? 3 : 2;
    if (u->rank != rank && u->rank != rank + 1) {
        api_form_fault(form, A, API_SHAPE_MISMATCH, "expected %s because u has %zu axes, got %zu",
                       s->heads ? "2 axes (d, state)" : "1 axis (heads)", u->rank, a->rank);
        return;
    }
    s->batched = u->rank > rank;
    const size_t *axes = u->shape + s->batched;
    s->scan.batch = s->batched ? u->shape[0] : 1;
    s->scan.n = axes[0];
    s->scan.channels = axes[1];
    s->scan.width = s->heads ? axes[2] : 1;
    s->scan.scalar_a = s->heads;
    s->sized =
        at_least_one(form, U, s->heads ? "heads" : "d", s->scan.channels) && at_least_one(form, U, "p", s->scan.width);
    if (s->sized && a->shape[0] != s->scan.channels) {
        api_form_fault(form, A, API_SHAPE_MISMATCH, "expected %s %zu as in u, got %zu",
                       s->heads ? "heads =" : "d =", s->scan.channels, a->shape[0]);
        s->sized = false;
    }
    if (!s->heads) {
        s->scan.state = a->shape[1];
        s->sized = s->sized && at_least_one(form, A, "state", s->scan.state);
    }
}

/* b or c: (n, state) or (n, groups, state). false: a fault, or the sizes are not known. */
static bool read_projection(api_form *form, api_field field, const scan_state *s, const void **data, size_t *groups,
                            size_t *state) {
    api_tensor tensor;
    api_form_tensor(form, field, &tensor);
    api_tensor_require_finite(form, &tensor);
    if (!tensor.ok || !s->sized) return false;
    const size_t ahead = s->batched;
    bool fits = tensor.rank == ahead + 2 || tensor.rank == ahead + 3;
    fits = fits && (!s->batched || tensor.shape[0] == s->scan.batch) && tensor.shape[ahead] == s->scan.n;
    const size_t last = tensor.shape[tensor.rank - 1];
    fits = fits && (*state == 0 || last == *state);
    if (!fits) {
        char got[API_SHAPE_TEXT], batch[40] = "", length[24] = "state";
        if (s->batched) snprintf(batch, sizeof batch, "%zu, ", s->scan.batch);
        if (*state > 0) snprintf(length, sizeof length, "%zu", *state);
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected the shape [%s%zu, %s] or [%s%zu, groups, %s], got %s",
                       batch, s->scan.n, length, batch, s->scan.n, length,
                       api_shape_text(got, tensor.rank, tensor.shape));
        return false;
    }
    *data = tensor.data;
    *state = last;
    *groups = tensor.rank == ahead + 3 ? tensor.shape[ahead + 1] : 1;
    return at_least_one(form, field, "state", last) && at_least_one(form, field, "groups", *groups);
}

static void read_projections(api_form *form, scan_state *s) {
    size_t of_c = 0;
    const bool has_b = read_projection(form, B, s, &s->scan.b, &s->scan.groups, &s->scan.state);
    const bool has_c = read_projection(form, C, s, &s->scan.c, &of_c, &s->scan.state);
    if (has_b && s->scan.channels % s->scan.groups != 0)
        api_form_fault(form, B, API_OUT_OF_RANGE, "its %zu groups do not divide the %zu %s of u", s->scan.groups,
                       s->scan.channels, s->heads ? "heads" : "channels");
    if (has_b && has_c && of_c != s->scan.groups)
        api_form_fault(form, C, API_SHAPE_MISMATCH, "expected %zu groups as in b, got %zu", s->scan.groups, of_c);
    s->sized = s->sized && has_b;
}

static void build(api_job *job) {
    api_form *form = &job->form;
    scan_state *s = job->state;
    api_tensor u, a;
    s->scan.dtype = form->dtype;
    s->scan.softplus = true;
    api_form_tensor(form, U, &u);
    api_tensor_require_finite(form, &u);
    api_form_tensor(form, A, &a);
    api_tensor_require_finite(form, &a);
    read_sizes(form, s, &u, &a);
    s->scan.u = u.data;
    s->scan.a = a.data;
    s->scan.delta = read_as(form, DELTA, s, delta_shape(s));
    read_projections(form, s);
}

/* ---- the other fields ------------------------------------------------------------------------------------------- */

static api_shape channels_shape(const scan_state *s) { return (api_shape){1, {s->scan.channels}}; }

static void set_d(api_form *form, api_field field, void *state) {
    scan_state *s = state;
    s->scan.d = read_as(form, field, s, channels_shape(s));
}

static void set_z(api_form *form, api_field field, void *state) {
    scan_state *s = state;
    s->scan.z = read_as(form, field, s, u_shape(s));
}

static void set_delta_bias(api_form *form, api_field field, void *state) {
    scan_state *s = state;
    s->scan.delta_bias = read_as(form, field, s, channels_shape(s));
}

static void set_delta_softplus(api_form *form, api_field field, void *state) {
    api_form_bool(form, field, &((scan_state *)state)->scan.softplus);
}

static void set_initial_state(api_form *form, api_field field, void *state) {
    scan_state *s = state;
    s->scan.initial_state = read_as(form, field, s, state_shape(s));
}

static const api_field_row fields[] = {
    [U] = {"u", API_REALS, 2, 4, API_REQUIRED, NULL},
    [DELTA] = {"delta", API_REALS, 2, 3, API_REQUIRED, NULL},
    [A] = {"a", API_REALS, 1, 2, API_REQUIRED, NULL},
    [B] = {"b", API_REALS, 2, 4, API_REQUIRED, NULL},
    [C] = {"c", API_REALS, 2, 4, API_REQUIRED, NULL},
    {"d", API_REALS, 1, 1, 0, set_d},
    {"z", API_REALS, 2, 4, 0, set_z},
    {"delta_bias", API_REALS, 1, 1, 0, set_delta_bias},
    {"delta_softplus", API_BOOLEAN, 0, 0, 0, set_delta_softplus},
    {"initial_state", API_REALS, 2, 4, 0, set_initial_state},
};
static const api_field_table own_fields = API_TABLE(fields);

#define RESULT(member) offsetof(scan_state, results.member)
static const api_name_row names[] = {
    {"output", 4, true, u_shape, RESULT(output), NULL, API_NO_STAGE, NULL},
    {"final_state", 4, false, state_shape, RESULT(final_state), NULL, API_NO_STAGE, NULL},
    {"delta", 3, false, delta_shape, RESULT(delta), NULL, API_NO_STAGE, NULL},
    {"matrix", 4, false, matrix_shape, RESULT(matrix), NULL, API_NO_STAGE, NULL},
};
static const api_name_table own_names = API_TABLE(names);

/* ---- running ---------------------------------------------------------------------------------------------------- */

static double flops(const api_job *job) { return attn_scan_flops(&((const scan_state *)job->state)->scan); }

static size_t workspace(const attn_engine *engine, api_job *job) {
    scan_state *s = job->state;
    attn_scan *scan = &s->scan;
    /* Beside an axis of length 0 no number of the request stands behind the others: nothing must count through them. */
    if (scan->n == 0 && !s->results.final_state) scan->batch = 0;
    if (scan->batch == 0) {
        scan->n = 0;
        scan->channels = scan->width = scan->state = scan->groups = 1;
    }
    return attn_scan_workspace(engine, scan);
}

static bool run(const attn_engine *engine, api_job *job, void *scratch, const atomic_bool *cancel) {
    const scan_state *s = job->state;
    const attn_status status = attn_scan_run(engine, &s->scan, &s->results, scratch, cancel, NULL);
    if (status == ATTN_OVERFLOW)
        api_error_set(job->form.error, API_OVERFLOW, API_PLACE_LAST, NULL, "a number of the scan does not fit %s",
                      job->form.dtype == ATTN_F32 ? "float32; try \"dtype\": \"float64\"" : "float64");
    return status == ATTN_OK;
}

const api_operation api_scan = {
    .schema = {"scan", {&own_fields, &api_common_fields}, {&own_names}},
    .state_size = sizeof(scan_state),
    .build = build,
    .flops = flops,
    .workspace = workspace,
    .run = run,
};
