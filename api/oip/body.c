/* The body of an infer request: JSON, and after as many bytes of it as the header says, the tensors' bytes, each into
 * memory of its own. */
#include <inttypes.h>
#include <string.h>

#include "infer.h"

/* ---- the header ------------------------------------------------------------------------------------------------- */

static void read_header(api_oip_state *state, const char *text) {
    uint64_t length = 0;
    bool fits = true;
    state->json_length = UINT64_MAX;
    if (!text) return;
    state->has_header = true;
    const size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < digits; i++)
        fits = fits && !__builtin_mul_overflow(length, 10, &length) &&
               !__builtin_add_overflow(length, (uint64_t)(text[i] - '0'), &length);
    if (digits == 0 || text[digits] != '\0' || !fits || length > INT64_MAX)
        api_oip_fault(state, NULL,
                      "Inference-Header-Content-Length: expected the number of bytes of JSON, once, got \"%.100s\"",
                      text);
    else if (length == 0)
        api_oip_fault(state, NULL,
                      "Inference-Header-Content-Length is 0, which means one raw tensor; these models take several, "
                      "so JSON must name them");
    else
        state->json_length = length;
}

static bool open_body(api_body *body) {
    api_oip_state *state = api_small(body->memory, sizeof *state);
    body->reader = api_reader_new(body->memory, body->expected);
    if (!state || !body->reader) return false;
    memset(state, 0, sizeof *state);
    body->state = state;
    state->schema = body->schema;
    read_header(state, body->inference_header);
    return true;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static void end_json(api_body *body) {
    api_oip_state *state = body->state;
    state->json_ended = true;
    json_t *tree = api_reader_finish(body->reader, &state->fault);
    if (tree) api_oip_read(body, tree);
    json_decref(tree);
}

/* Makes room for more bytes of an input: at once for all of it where as many are announced, else as they come, so that
 * a size alone costs no memory. */
static bool reserve(api_body *body, api_oip_input *input, uint64_t bytes) {
    if (bytes <= input->capacity) return true;
    uint64_t room = input->capacity < (64 << 10) ? 64 << 10 : 2 * (uint64_t)input->capacity;
    if (room < bytes) room = bytes;
    if (room > input->size || input->size <= body->expected) room = input->size;
    uint8_t *grown = api_resize(body->memory, input->bytes, (size_t)room);
    if (!grown) {
        api_oip_no_memory(body);
        return false;
    }
    input->bytes = grown;
    input->capacity = (size_t)room;
    return true;
}

static void take_bytes(api_body *body, const uint8_t *bytes, size_t length) {
    api_oip_state *state = body->state;
    while (length > 0 && state->current < state->input_count && !state->fault.code) {
        api_oip_input *input = &state->inputs[state->current];
        const uint64_t left = input->binary ? input->size - input->held : 0;
        const size_t count = length < left ? length : (size_t)left;
        if (count > 0) {
            if (!reserve(body, input, (uint64_t)input->held + count)) return;
            memcpy(input->bytes + input->held, bytes, count);
            input->held += count;
            bytes += count;
            length -= count;
        }
        if (count == left) state->current++;
    }
}

static void push(api_body *body, const void *bytes, size_t length) {
    api_oip_state *state = body->state;
    const uint64_t before = state->received;
    state->received += length;
    if (state->fault.code) return;
    size_t json = 0;
    if (!state->json_ended) {
        const uint64_t left = state->json_length - before;
        json = length < left ? length : (size_t)left;
        api_reader_push(body->reader, bytes, json);
        if (json == left) end_json(body);
    }
    if (json < length) take_bytes(body, (const uint8_t *)bytes + json, length - json);
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

/* JSON and sizes are the whole body: no byte is missing, none is left over. */
static void check_length(api_oip_state *state) {
    uint64_t sizes = 0;
    for (size_t i = 0; i < state->input_count; i++) sizes += state->inputs[i].size; /* each at most 2^53 */
    if (state->json_length + sizes != state->received)
        api_oip_fault(state, NULL,
                      "expected a body of %" PRIu64 " bytes: %" PRIu64 " of JSON (Inference-Header-Content-Length) and "
                      "%" PRIu64 " of tensors (the sum of binary_data_size); got %" PRIu64,
                      state->json_length + sizes, state->json_length, sizes, state->received);
}

static json_t *finish(api_body *body, api_error *error) {
    api_oip_state *state = body->state;
    if (!state->fault.code && !state->json_ended) {
        if (state->has_header)
            api_oip_fault(state, NULL,
                          "Inference-Header-Content-Length is %" PRIu64 ", but the body has only %" PRIu64 " bytes",
                          state->json_length, state->received);
        else
            end_json(body);
    }
    if (!state->fault.code && state->has_header) check_length(state);
    if (!state->fault.code) api_oip_add_bytes(body);
    if (state->fault.code) {
        *error = state->fault;
        return NULL;
    }
    state->root = body->draft;
    body->draft = NULL;
    return (json_t *)state->root;
}

const api_body_format api_oip_body = {.name = "oip", .open = open_body, .push = push, .finish = finish};
