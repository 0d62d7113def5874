#include "job.h"

#include <math.h>
#include <string.h>

#include "operation.h"

/* ---- numbers that are not finite at blocked keys ---------------------------------------------------------------- */

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

static bool asks(const api_job *job, unsigned names) { return (job->options.names & names) != 0; }

/* Where k, v or the past hold numbers that are not finite: an error at the first that is open to a query, or that the
 * reply would show. */
static void check_open_keys(api_job *job) {
    const attn_problem *p = &job->mha.attention;
    const unsigned cells = 1u << API_NAME_SCORES | 1u << API_NAME_SCALED | 1u << API_NAME_CAPPED;
    const bool k_asked = asks(job, 1u << API_NAME_PRESENT_K) || (asks(job, cells) && p->n_q > 0 && p->heads > 0);
    const bool v_asked = asks(job, 1u << API_NAME_PRESENT_V);
    keyed all[] = {
        {&job->k, p->k, p->n_past, p->n_new, p->d_k, k_asked, SIZE_MAX},
        {&job->v, p->v, p->n_past, p->n_new, p->d_v, v_asked, SIZE_MAX},
        {&job->options.past_k, p->past_k, 0, p->n_past, p->d_k, k_asked, SIZE_MAX},
        {&job->options.past_v, p->past_v, 0, p->n_past, p->d_v, v_asked, SIZE_MAX},
    };
    bool finite = true;
    for (size_t i = 0; i < 4; i++) finite &= !all[i].tensor->ok || all[i].tensor->finite;
    if (finite) return;
    uint8_t *open = api_small(job->form.memory, p->n_past + p->n_new);
    if (!open) {
        api_error_memory(job->form.error, job->form.memory);
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
                             "%s: expected finite numbers at a key that %s, got NaN or an infinity",
                             api_fields[all[i].tensor->field].name,
                             all[i].asked ? "the reply shows" : "is open to a query");
}

/* After another error the blocks may not be known: then such numbers are errors only where no field blocks. */
static void check_unblocked(api_job *job) {
    static const api_field blocking[] = {API_FIELD_MASK, API_FIELD_BIAS, API_FIELD_KV_LENGTHS, API_FIELD_CAUSAL,
                                         API_FIELD_WINDOW};
    for (size_t i = 0; i < sizeof blocking / sizeof *blocking; i++)
        if (api_form_has(&job->form, blocking[i])) return;
    api_tensor_require_finite(&job->form, &job->k);
    api_tensor_require_finite(&job->form, &job->v);
    api_tensor_require_finite(&job->form, &job->options.past_k);
    api_tensor_require_finite(&job->form, &job->options.past_v);
}

/* ---- what the reply holds --------------------------------------------------------------------------------------- */

static size_t count_of(api_shape shape) {
    size_t count = 1;
    for (size_t i = 0; i < shape.rank; i++)
        if (shape.axes[i] == 0) return 0;
    for (size_t i = 0; i < shape.rank; i++) count = api_times_sizes(count, shape.axes[i]);
    return count;
}

static api_shape shape_of_name(const api_job *job, api_name name) {
    const attn_problem *p = &job->mha.attention;
    const api_axes axes = job->axes, joined = {axes.batch, false};
    const size_t n_k = p->n_past + p->n_new;
    api_shape shape;
    switch (name) {
    case API_NAME_OUTPUT: return job->output;
    case API_NAME_LSE:
        shape = api_shape_of(axes, p->batch, p->heads, p->n_q, 1);
        shape.rank--;
        return shape;
    case API_NAME_PRESENT_K: return api_shape_of(axes, p->batch, p->kv_heads, n_k, p->d_k);
    case API_NAME_PRESENT_V: return api_shape_of(axes, p->batch, p->kv_heads, n_k, p->d_v);
    case API_NAME_Q: return api_shape_of(axes, p->batch, p->heads, p->n_q, p->d_k);
    case API_NAME_K: return api_shape_of(axes, p->batch, p->kv_heads, p->n_new, p->d_k);
    case API_NAME_V: return api_shape_of(axes, p->batch, p->kv_heads, p->n_new, p->d_v);
    case API_NAME_HEADS: return api_shape_of(joined, p->batch, 1, p->n_q, p->heads * p->d_v);
    case API_NAME_WEIGHTS:
        if (job->options.average) return api_shape_of(joined, p->batch, 1, p->n_q, n_k);
        break;
    default: break;
    }
    return api_shape_of(axes, p->batch, p->heads, p->n_q, n_k);
}

static void list_outputs(api_job *job) {
    api_reply *reply = &job->reply;
    for (size_t name = 0; name < API_NAME_COUNT; name++) {
        if (!(job->options.names & 1u << name)) continue;
        api_output *o = &job->outputs[reply->output_count];
        job->names[reply->output_count++] = (api_name)name;
        o->name = api_names[name].name;
        o->shape = shape_of_name(job, (api_name)name);
        o->count = count_of(o->shape);
        o->dtype = job->options.reply_dtype;
        const size_t element = api_reply_element(job->form.dtype, o->dtype);
        job->result_bytes = api_add_sizes(job->result_bytes, api_times_sizes(o->count, element));
    }
    reply->outputs = job->outputs;
    reply->spelling = job->options.format;
    reply->compute = job->form.dtype;
    reply->memory = job->form.memory;
    reply->error = job->form.error;
}

/* Axes of length 0 leave axes beside them that no number of the request stands behind: the loops of the core must not
 * count through those. The shapes of the reply are set before. */
static void shrink_empty(api_job *job) {
    attn_problem *p = &job->mha.attention;
    if (job->form.endpoint == API_ATTENTION) {
        if (p->heads == 0) p->n_q = 0;
        if (p->n_q == 0) p->heads = p->kv_heads;
    }
    if (p->n_q == 0 && (p->n_past + p->n_new == 0 || p->kv_heads == 0)) p->batch = 0;
    if (p->kv_heads == 0) p->heads = p->kv_heads = 1;
}

double api_job_flops(const api_job *job) { return job->operation->flops(job); }

/* ---- running ---------------------------------------------------------------------------------------------------- */

static void set_result(api_job *job, api_name name, void *data) {
    attn_mha_results *r = &job->results;
    switch (name) {
    case API_NAME_OUTPUT:
        r->output = data;
        r->attention.output = job->output_strides;
        r->attention.output.data = data;
        break;
    case API_NAME_WEIGHTS: *(job->options.average ? &r->attention.mean_weights : &r->attention.weights) = data; break;
    case API_NAME_SCORES: r->attention.scores = data; break;
    case API_NAME_SCALED: r->attention.scaled = data; break;
    case API_NAME_CAPPED: r->attention.capped = data; break;
    case API_NAME_MASKED: r->attention.masked = data; break;
    case API_NAME_LSE: r->attention.lse = data; break;
    case API_NAME_PRESENT_K: r->attention.present_k = data; break;
    case API_NAME_PRESENT_V: r->attention.present_v = data; break;
    case API_NAME_Q: r->q = data; break;
    case API_NAME_K: r->k = data; break;
    case API_NAME_V: r->v = data; break;
    case API_NAME_HEADS: r->heads = data; break;
    case API_NAME_COUNT: break;
    }
}

enum { SMALL = 2048 }; /* bytes up to which the arena serves */

/* aligned to 64 */
static void *get(api_memory *memory, size_t size) {
    if (size > SMALL) return api_large(memory, size);
    char *piece = api_small(memory, size + 64);
    return piece ? piece + (-(uintptr_t)piece & 63) : NULL;
}

/* An error where all that is needed is more than the service could ever give. Before anything is done that takes time
 * in proportion to the sizes: behind an axis of length 0 they may be any. */
static bool can_ever_fit(api_job *job, const attn_engine *engine) {
    const api_memory *memory = job->form.memory;
    const size_t limit = memory->budget && memory->budget->limit ? memory->budget->limit : SIZE_MAX / 4;
    const size_t reply = api_add_sizes(job->result_bytes, api_reply_bound(&job->reply));
    if (api_add_sizes(memory->held, reply) > limit) {
        api_error_set(job->form.error, API_OUT_OF_RANGE, job->form.slots[API_FIELD_RETURN].place, "/return",
                      "the reply would need about %.3g bytes; all requests together may hold %.3g", (double)reply,
                      (double)limit);
        return false;
    }
    /* any pointer says that a result is wanted, which the workspace depends on */
    for (size_t i = 0; i < job->reply.output_count; i++) set_result(job, job->names[i], job);
    job->workspace = job->operation->workspace(engine, job);
    if (api_add_sizes(memory->held, api_add_sizes(reply, job->workspace)) <= limit) return true;
    api_error_set(job->form.error, API_OUT_OF_RANGE, API_PLACE_LAST, NULL,
                  "the calculation would need about %.3g bytes; all requests together may hold %.3g",
                  (double)memory->held + (double)reply + (double)job->workspace, (double)limit);
    return false;
}

bool api_job_prepare(api_job *job, json_t *root, const attn_engine *engine) {
    api_form *form = &job->form;
    api_form_bind(form, root);
    if (!json_is_object(root)) return false;
    api_options_dtype(form);
    job->mha.attention.dtype = form->dtype;
    api_options_parse(form, &job->options);
    job->operation->build(job);
    if (form->broken)
        check_unblocked(job);
    else
        check_open_keys(job);
    if (form->broken || form->error->code != API_NO_ERROR) return false;
    list_outputs(job);
    shrink_empty(job);
    return can_ever_fit(job, engine);
}

static void say_overflow(api_job *job, const attn_fault *fault) {
    static const char *const stages[] = {
        [ATTN_STAGE_Q] = "projected number of q", [ATTN_STAGE_K] = "projected number of k",
        [ATTN_STAGE_V] = "projected number of v", [ATTN_STAGE_SCORES] = "score",
        [ATTN_STAGE_SCALED] = "scaled score",     [ATTN_STAGE_CAPPED] = "capped score",
        [ATTN_STAGE_MASKED] = "biased score",     [ATTN_STAGE_OUTPUT] = "number of the output",
        [ATTN_STAGE_HEADS] = "number of heads",   [ATTN_STAGE_PROJECTION] = "number of the output",
    };
    const bool cell = fault->stage >= ATTN_STAGE_SCORES && fault->stage <= ATTN_STAGE_MASKED;
    const bool f32 = job->form.dtype == ATTN_F32;
    api_error_set(job->form.error, API_OVERFLOW, API_PLACE_LAST, NULL,
                  "a %s does not fit %s: batch %zu, head %zu, %s %zu, %s %zu%s", stages[fault->stage],
                  f32 ? "float32" : "float64", fault->batch, fault->head, cell ? "query" : "row", fault->query,
                  cell ? "key" : "column", fault->key, f32 ? "; try \"dtype\": \"float64\"" : "");
}

bool api_job_run(api_job *job, const attn_engine *engine, const atomic_bool *cancel) {
    api_memory *memory = job->form.memory;
    bool enough = true;
    for (size_t i = 0; enough && i < job->reply.output_count; i++) {
        api_output *o = &job->outputs[i];
        o->data = get(memory, o->count * api_reply_element(job->form.dtype, o->dtype));
        set_result(job, job->names[i], o->data);
        enough = o->data != NULL;
    }
    void *scratch = enough ? get(memory, job->workspace) : NULL;
    if (!scratch) {
        api_error_memory(job->form.error, memory);
        return false;
    }
    attn_fault fault = {0};
    const attn_status status = job->operation->run(engine, job, scratch, cancel, &fault);
    if (job->workspace > SMALL) api_release(memory, scratch);
    if (status == ATTN_OVERFLOW) say_overflow(job, &fault);
    return status == ATTN_OK;
}
