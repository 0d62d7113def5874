/* The reply of an infer request: JSON, and after it the bytes of the outputs that are wanted so. */
#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "../formats/json_reply.h"
#include "infer.h"
#include "model.h"

enum {
    FIXED = 160,       /* {"model_name":"","model_version":"1","id":,"outputs":[]} */
    OUTPUT_FIXED = 160 /* {"name":"","datatype":"FP32","shape":,"parameters":{"binary_data_size":}} */
};

typedef struct listed { /* an output of the job, in the order of the reply */
    const api_output *output;
    bool binary;
} listed;

static listed output_at(const api_reply *reply, size_t index) {
    const api_oip_state *state = reply->state;
    if (state->wanted_count == 0) return (listed){&reply->outputs[index], state->binary_default};
    const api_oip_wanted *wanted = &state->wanted[index];
    const api_output *output = reply->outputs;
    while (strcmp(output->name, wanted->name) != 0) output++;
    return (listed){output, wanted->is_given ? wanted->binary : state->binary_default};
}

static size_t output_count(const api_reply *reply) {
    const api_oip_state *state = reply->state;
    return state->wanted_count ? state->wanted_count : reply->output_count;
}

static size_t byte_count(const api_output *output) {
    return api_times_sizes(output->count, api_dtype_size(output->dtype));
}

static bool is_binary(const api_oip_state *state) {
    bool binary = state->wanted_count == 0 && state->binary_default;
    for (size_t i = 0; i < state->wanted_count; i++)
        binary |= state->wanted[i].is_given ? state->wanted[i].binary : state->binary_default;
    return binary;
}

static size_t id_bound(const api_oip_state *state) { return state->id ? 6 * strlen(state->id) + 3 : 0; }

static size_t reply_bound(const api_reply *reply) {
    const api_oip_state *state = reply->state;
    size_t bound = FIXED + strlen(state->schema->name) + id_bound(state);
    for (size_t i = 0; i < output_count(reply); i++) {
        const listed o = output_at(reply, i);
        bound = api_add_sizes(bound, OUTPUT_FIXED + API_SHAPE_TEXT + strlen(o.output->name));
        bound = api_add_sizes(bound, o.binary ? byte_count(o.output) : api_json_flat_bound(o.output));
    }
    return bound;
}

static char *write_head(const api_reply *reply, char *text) {
    const api_oip_state *state = reply->state;
    text += sprintf(text, "{\"model_name\":\"%s\",\"model_version\":\"" API_OIP_VERSION "\",", state->schema->name);
    if (!state->id) return text;
    api_short_text id;
    api_text_init(&id, text, id_bound(state) + 8);
    api_text_add(&id, "\"id\":");
    api_text_add_string(&id, state->id);
    api_text_add(&id, ",");
    return text + id.length;
}

static char *write_output(const api_reply *reply, listed o, attn_pool *pool, char *text) {
    char shape[API_SHAPE_TEXT];
    text += sprintf(text, "{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":%s,", o.output->name,
                    api_dtypes[o.output->dtype].datatype,
                    api_shape_text(shape, o.output->shape.rank, o.output->shape.axes));
    if (o.binary)
        text += sprintf(text, "\"parameters\":{\"binary_data_size\":%zu}", byte_count(o.output));
    else
        text = api_json_flat_write(o.output, pool, reply->cancel, text + sprintf(text, "\"data\":"));
    *text++ = '}';
    return text;
}

static char *write_reply(const api_reply *reply, attn_pool *pool, char *text) {
    api_oip_state *state = reply->state;
    char *const start = text;
    text = write_head(reply, text);
    text += sprintf(text, "\"outputs\":[");
    for (size_t i = 0; i < output_count(reply); i++) {
        if (i > 0) *text++ = ',';
        text = write_output(reply, output_at(reply, i), pool, text);
    }
    text += sprintf(text, "]}");
    sprintf(state->reply_json_length, "%zu", (size_t)(text - start));
    for (size_t i = 0; i < output_count(reply); i++) {
        const listed o = output_at(reply, i);
        const size_t size = o.binary ? byte_count(o.output) : 0;
        if (size > 0) memcpy(text, o.output->data, size);
        text += size;
    }
    return text;
}

static const api_reply_format json_reply = {"application/json", 0, reply_bound, write_reply};
static const api_reply_format binary_reply = {"application/octet-stream", 0, reply_bound, write_reply};

void api_oip_prepare(api_request *request) {
    api_oip_state *state = request->body.state;
    api_job *job = &request->job;
    atomic_store(&request->timeout, state->timeout);
    job->reply.format = is_binary(state) ? &binary_reply : &json_reply;
    job->reply.state = state;
    job->form.any_data_shape = true;
    job->form.always_output = true;
    job->form.has_parameters = true;
    for (size_t i = 0; i < state->wanted_count; i++)
        job->form.only_names |= (uint64_t)1 << api_name_find(state->schema, state->wanted[i].name);
}

/* The header that a reply with bytes in it needs. */
void api_oip_finish(api_request *request) {
    const api_oip_state *state = request->body.state;
    if (request->job.reply.format == &binary_reply)
        api_response_header(&request->response, "Inference-Header-Content-Length", state->reply_json_length);
}
