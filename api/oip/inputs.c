/* The inputs of an infer request, numbers in the JSON or bytes behind it, as fields of the document. */
#include <string.h>

#include "infer.h"
#include "model.h"

typedef struct described { /* the members of an input; NULL: absent, or null */
    json_t *name, *shape, *datatype, *data, *parameters;
} described;

static void describe(api_oip_state *state, size_t index, json_t *json, described *d) {
    const char *key;
    json_t *member;
    char pointer[256];
    json_object_foreach(json, key, member) {
        json_t **slot = strcmp(key, "name") == 0         ? &d->name
                        : strcmp(key, "shape") == 0      ? &d->shape
                        : strcmp(key, "datatype") == 0   ? &d->datatype
                        : strcmp(key, "data") == 0       ? &d->data
                        : strcmp(key, "parameters") == 0 ? &d->parameters
                                                         : NULL;
        api_oip_point(pointer, "inputs", index, key, NULL);
        if (slot)
            *slot = json_is_null(member) ? NULL : member;
        else
            api_oip_fault(state, pointer,
                          "unknown member \"%.100s\"; an input has name, shape, datatype, data and parameters", key);
    }
}

static void read_input_parameters(api_body *body, size_t index, json_t *json, api_oip_input *input) {
    api_oip_state *state = body->state;
    char pointer[256];
    const char *key;
    json_t *member;
    api_oip_point(pointer, "inputs", index, "parameters", NULL);
    if (json && !json_is_object(json)) api_oip_fault(state, pointer, "parameters: expected an object");
    json_object_foreach(json, key, member) {
        int64_t size = -1;
        api_error ignored = {0};
        api_oip_point(pointer, "inputs", index, "parameters", key);
        if (api_oip_is_ignored(key)) continue;
        if (strncmp(key, "shared_memory", 13) == 0) {
            api_oip_fault(state, pointer,
                          "shared memory is not supported: send the numbers as data, or after the JSON");
        } else if (strcmp(key, "binary_data_size") != 0) {
            api_oip_fault(state, pointer, "unknown parameter \"%.100s\"; an input has binary_data_size", key);
        } else if (json_is_null(member)) {
            continue;
        } else if (!api_oip_value(body, member) ||
                   !api_take_integer(api_oip_value(body, member), pointer, &size, &ignored) || size < 0) {
            api_oip_fault(state, pointer, "binary_data_size: expected a number of bytes from 0 to 2^53");
        } else if (!state->has_header && size > 0) {
            api_oip_fault(
                state, pointer,
                "binary_data_size needs the header Inference-Header-Content-Length, which says where the JSON "
                "ends");
        } else {
            input->binary = true;
            input->size = (uint64_t)size;
        }
    }
}

/* The shape of an input whose numbers come as bytes; errors are those of a flat tensor. false: fault. */
static bool read_shape(api_body *body, size_t index, json_t *json, api_oip_input *input) {
    api_oip_state *state = body->state;
    char pointer[256], text[API_SHAPE_TEXT];
    api_value *value = api_oip_value(body, json);
    size_t count;
    api_oip_point(pointer, "inputs", index, "shape", NULL);
    if (!api_value_axes(value, pointer, input->name, &input->rank, input->shape, &count, &state->fault)) return false;
    const size_t size = api_dtype_size(input->dtype), wanted = count * size; /* count is at most 2^53 */
    if (wanted == input->size) return true;
    api_oip_point(pointer, "inputs", index, "parameters", "binary_data_size");
    api_error_set(&state->fault, API_SHAPE_MISMATCH, value->place, pointer,
                  "%s: expected %zu bytes for the shape %s of %zu bytes each, got binary_data_size %llu", input->name,
                  wanted, api_shape_text(text, input->rank, input->shape), size, (unsigned long long)input->size);
    return false;
}

static bool is_list_of_numbers(const api_body *body, const json_t *json) {
    const api_value *value = json ? api_oip_value(body, json) : NULL;
    return value && value->rank == 1 && value->type != API_ELEMENT_BYTES && value->type != API_ELEMENT_BOOLEAN;
}

/* What the form reads as a tensor of the spelling {shape, dtype, data}, its members in the order they came. */
static json_t *make_tensor(api_body *body, json_t *json, const described *d) {
    const char *key;
    json_t *member, *object = json_object();
    json_object_foreach(json, key, member) {
        const api_place place = api_oip_next_place(body, json_object_size(object));
        bool ok = true;
        if (member == d->shape || member == d->data) {
            api_oip_set_places(body, member, place);
            ok = api_oip_add_member(body, object, key, json_incref(member));
        } else if (member == d->datatype) {
            ok = api_oip_add_member(body, object, "dtype",
                                    json_string(api_dtype_name(api_dtype_of_datatype(api_oip_text(member)))));
        }
        if (!ok) break;
    }
    return object;
}

static void read_input(api_body *body, size_t index, json_t *json) {
    api_oip_state *state = body->state;
    api_oip_input *input = &state->inputs[state->input_count];
    described d = {0};
    char pointer[256], list[API_DTYPE_LIST];
    api_oip_point(pointer, "inputs", index, NULL, NULL);
    if (!json_is_object(json)) {
        api_oip_fault(state, pointer, "expected an object with name, shape, datatype and data");
        return;
    }
    describe(state, index, json, &d);
    if (!api_oip_text(d.name) || !api_oip_text(d.datatype) || !is_list_of_numbers(body, d.shape)) {
        api_oip_fault(state, pointer,
                      "an input needs name and datatype, which are strings, and shape, a list of axis lengths");
        return;
    }
    if (!(input->name = api_oip_keep(body, api_oip_text(d.name)))) return;
    input->dtype = api_dtype_of_datatype(api_oip_text(d.datatype));
    read_input_parameters(body, index, d.parameters, input);
    if (json_object_get(body->draft, input->name)) {
        api_oip_fault(state, pointer, "duplicate input \"%.100s\"", input->name);
    } else if (input->dtype == API_DTYPE_NONE) {
        api_oip_point(pointer, "inputs", index, "datatype", NULL);
        api_oip_fault(state, pointer, "%.100s: expected a datatype of %s, got \"%.40s\"", input->name,
                      api_dtype_list(list, true), api_oip_text(d.datatype));
    } else if (input->binary == (d.data != NULL)) {
        api_oip_fault(state, pointer, "%.100s: expected data or the parameter binary_data_size, got %s", input->name,
                      d.data ? "both" : "neither");
    }
    if (state->fault.code) return;
    if (input->binary) {
        api_oip_set_places(body, d.shape, api_oip_next_place(body, 0));
        if (!read_shape(body, index, d.shape, input)) return;
        api_oip_add_member(body, body->draft, input->name, json_null()); /* until its bytes have come */
    } else {
        api_oip_add_member(body, body->draft, input->name, make_tensor(body, json, &d));
    }
    state->input_count++;
}

void api_oip_read_inputs(api_body *body, json_t *json) {
    api_oip_state *state = body->state;
    size_t i;
    json_t *input;
    if (api_oip_is_empty_list(body, json)) return;
    if (!json_is_array(json)) {
        api_oip_fault(state, "/inputs", "expected a list of inputs");
        return;
    }
    if (json_array_size(json) > API_OIP_MAX_INPUTS)
        api_oip_fault(state, "/inputs", "too many inputs: %zu", json_array_size(json));
    json_array_foreach(json, i, input) {
        if (!state->fault.code) read_input(body, i, input);
    }
}

void api_oip_add_bytes(api_body *body) {
    api_oip_state *state = body->state;
    for (size_t i = 0; i < state->input_count; i++) {
        const api_oip_input *input = &state->inputs[i];
        if (!input->binary) continue;
        size_t member = 0;
        const char *key;
        json_t *value;
        json_object_foreach(body->draft, key, value) {
            if (strcmp(key, input->name) == 0) break;
            member++;
        }
        value = api_reader_add_tensor(body->reader, (api_place){member, 0, 0}, input->dtype, input->rank, input->shape,
                                      input->bytes, &state->fault);
        if (!value || !api_oip_add_member(body, body->draft, input->name, value)) return;
    }
}
