#include "job.h"

#include <string.h>

#include "../base/text.h"
#include "../fields/option_text.h"
#include "operation.h"

/* ---- what the reply holds --------------------------------------------------------------------------------------- */

static size_t count_of(api_shape shape) {
    size_t count = 1;
    for (size_t i = 0; i < shape.rank; i++)
        if (shape.axes[i] == 0) return 0;
    for (size_t i = 0; i < shape.rank; i++) count = api_times_sizes(count, shape.axes[i]);
    return count;
}

/* Bytes that an output needs, while it is computed and after. */
static size_t bytes_of(const api_job *job, const api_output *output) {
    return api_times_sizes(output->count, api_reply_element(job->form.dtype, output->dtype));
}

/* false: no memory */
static bool list_outputs(api_job *job) {
    const api_form *form = &job->form;
    api_reply *reply = &job->reply;
    reply->spelling = job->options.format;
    reply->compute = form->dtype;
    reply->memory = form->memory;
    reply->error = form->error;
    reply->outputs = api_small(form->memory, (size_t)__builtin_popcountll(form->names) * sizeof *reply->outputs);
    if (!reply->outputs) {
        api_error_memory(form->error, form->memory);
        return false;
    }
    const api_name_row *row;
    for (size_t i = 0; (row = api_name_at(form->schema, i)); i++) {
        if (!(form->names >> i & 1)) continue;
        api_output *o = &reply->outputs[reply->output_count++];
        *o = (api_output){.name = row->name, .shape = row->shape(job->state), .dtype = job->options.reply_dtype};
        o->count = count_of(o->shape);
        job->result_bytes = api_add_sizes(job->result_bytes, bytes_of(job, o));
    }
    return true;
}

/* Writes into the state where each result that is wanted goes. */
static void set_results(api_job *job, void *(*data_of)(const api_job *job, size_t index)) {
    const api_name_row *row;
    size_t output = 0;
    for (size_t i = 0; (row = api_name_at(job->form.schema, i)); i++) {
        if (!(job->form.names >> i & 1)) continue;
        void *data = data_of(job, output++);
        memcpy((char *)job->state + row->result, &data, sizeof data);
    }
}

/* Any pointer says that a result is wanted. */
static void *wanted(const api_job *job, size_t index) { return (void *)&job->reply.outputs[index]; }
static void *data_of(const api_job *job, size_t index) { return job->reply.outputs[index].data; }

/* ---- preparing -------------------------------------------------------------------------------------------------- */

/* The error that `what` is more than the service could ever give. */
static void say_never_fits(api_job *job, const char *what, size_t needed, api_place place, const char *pointer) {
    const api_memory *memory = job->form.memory;
    char need[API_SIZE_TEXT], held[API_SIZE_TEXT], limit[API_SIZE_TEXT];
    const bool bounded = memory->budget && memory->budget->limit;
    api_error_set(job->form.error, API_OUT_OF_RANGE, place, pointer,
                  "the %s needs %s and the request holds %s already; all requests together may hold %s%s", what,
                  api_size_text(need, needed), api_size_text(held, memory->held),
                  bounded ? api_size_text(limit, memory->budget->limit) : "what the machine can address",
                  bounded ? " (--max-memory)" : "");
}

/* Before anything is done that takes time in proportion to the sizes: beside an axis of length 0 they may be any. */
static bool can_ever_fit(api_job *job, const attn_engine *engine) {
    const api_memory *memory = job->form.memory;
    const size_t limit = memory->budget && memory->budget->limit ? memory->budget->limit : SIZE_MAX / 4;
    const size_t reply = api_add_sizes(job->result_bytes, api_reply_bound(&job->reply));
    if (api_add_sizes(memory->held, reply) > limit) {
        const size_t names = api_field_find(job->form.schema, "return");
        say_never_fits(job, "reply", reply, job->form.slots[names].place, "/return");
        return false;
    }
    set_results(job, wanted);
    job->workspace = job->operation->workspace(engine, job);
    const size_t needed = api_add_sizes(reply, job->workspace);
    if (api_add_sizes(memory->held, needed) <= limit) return true;
    say_never_fits(job, "calculation with its reply", needed, API_PLACE_LAST, NULL);
    return false;
}

static bool make_state(api_job *job) {
    const size_t size = job->operation->state_size;
    job->state = api_small(job->form.memory, size);
    if (!job->state) {
        api_error_memory(job->form.error, job->form.memory);
        return false;
    }
    memset(job->state, 0, size);
    return true;
}

/* Reads all fields. false: they are not known. */
static bool read_fields(api_job *job, json_t *root) {
    api_form *form = &job->form;
    form->randoms = &job->randoms;
    form->schema = &job->operation->schema;
    form->schemas = api_schemas;
    api_form_bind(form, root);
    if (form->broken || !make_state(job)) return false;
    api_query_read(form, root);
    api_form_require(form);
    api_options_read(form, &job->options);
    if (job->operation->build) job->operation->build(job);
    for (size_t t = 0; t < API_MAX_TABLES && form->schema->fields[t]; t++)
        if (form->schema->fields[t] != &api_common_fields) api_form_set(form, form->schema->fields[t], job->state);
    api_options_trace(form, job->state);
    if (job->operation->check) job->operation->check(job);
    return !form->broken;
}

bool api_job_prepare(api_job *job, json_t *root, const attn_engine *engine) {
    const api_error *error = job->form.error;
    const bool ready =
        read_fields(job, root) && error->code == API_NO_ERROR && list_outputs(job) && can_ever_fit(job, engine);
    api_query_locate(job->form.error);
    return ready;
}

double api_job_flops(const api_job *job) { return job->operation->flops(job); }

/* ---- running ---------------------------------------------------------------------------------------------------- */

enum { SMALL = 2048 }; /* bytes up to which the arena serves */

/* aligned to 64 */
static void *get(api_memory *memory, size_t size) {
    if (size > SMALL) return api_large(memory, size);
    char *piece = api_small(memory, size + 64);
    return piece ? piece + (-(uintptr_t)piece & 63) : NULL;
}

bool api_job_run(api_job *job, const attn_engine *engine, const atomic_bool *cancel) {
    api_memory *memory = job->form.memory;
    bool enough = true;
    for (size_t i = 0; enough && i < job->reply.output_count; i++) {
        api_output *o = &job->reply.outputs[i];
        o->data = get(memory, bytes_of(job, o));
        enough = o->data != NULL;
    }
    void *scratch = enough ? get(memory, job->workspace) : NULL;
    if (!scratch) {
        api_error_memory(job->form.error, memory);
        return false;
    }
    set_results(job, data_of);
    api_random_tensors_fill(&job->randoms, engine->pool, cancel);
    const bool done = job->operation->run(engine, job, scratch, cancel);
    if (job->workspace > SMALL) api_release(memory, scratch);
    return done;
}
