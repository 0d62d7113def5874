/* oip_fields.c: from the JSON of an infer request to the fields of an endpoint, and back for pointers. */
#include <stdio.h>
#include <string.h>

#include "oip.h"
#include "option_text.h"

static const char *text_of(const json_t *json) { return json_is_string(json) ? json_string_value(json) : NULL; }

static const char *keep(api_body *body, const char *text) {
    char *copy = api_small(body->memory, strlen(text) + 1);
    if (copy) return strcpy(copy, text);
    api_error_set(&((api_oip_state *)body->state)->fault,
                  body->memory->over_budget ? API_OVERLOADED : API_OUT_OF_MEMORY, API_PLACE_LAST, NULL,
                  "no memory for the names of the request");
    return NULL;
}

static api_place next_place(const api_body *body, size_t sub) {
    return (api_place){json_object_size(body->draft), sub, 0};
}

static api_value *value_of(const api_body *body, const json_t *json) {
    return json_is_integer(json) ? api_reader_value(body->reader, json_integer_value(json)) : NULL;
}

/* All values below a node of the tree stand at `place` of the skeleton. */
static void set_places(const api_body *body, json_t *json, api_place place) {
    api_value *value = value_of(body, json);
    if (value) value->place = value->fault.place = place;
    const char *key;
    json_t *inner;
    size_t i;
    json_array_foreach(json, i, inner) set_places(body, inner, place);
    json_object_foreach(json, key, inner) set_places(body, inner, place);
}

static bool add_member(api_body *body, json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) == 0) return true;
    api_error_set(&((api_oip_state *)body->state)->fault, API_OUT_OF_MEMORY, API_PLACE_LAST, NULL,
                  "an allocation failed");
    return false;
}

/* "/inputs/3" and, where they are not NULL, "/parameters/name" behind it */
static void point(char pointer[256], const char *list, size_t index, const char *inner, const char *name) {
    pointer[0] = '\0';
    api_pointer_add(pointer, list);
    api_pointer_add_index(pointer, index);
    if (inner) api_pointer_add(pointer, inner);
    if (name) api_pointer_add(pointer, name);
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

typedef struct described { /* the members of an input */
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
        point(pointer, "inputs", index, key, NULL);
        if (slot)
            *slot = member;
        else
            api_oip_fault(state, pointer, "an input has name, shape, datatype, data and parameters, got \"%.100s\"",
                          key);
    }
}

/* binary_data_size; any other parameter of an input is a fault */
static void read_input_parameters(api_body *body, size_t index, json_t *json, api_oip_input *input) {
    api_oip_state *state = body->state;
    char pointer[256];
    const char *key;
    json_t *member;
    point(pointer, "inputs", index, "parameters", NULL);
    if (json && !json_is_object(json) && !json_is_null(json))
        api_oip_fault(state, pointer, "the parameters of an input: expected an object");
    json_object_foreach(json, key, member) {
        int64_t size = -1;
        api_error ignored = {0};
        point(pointer, "inputs", index, "parameters", key);
        if (strncmp(key, "shared_memory", 13) == 0) {
            api_oip_fault(state, pointer, "shared memory is not read: send the numbers as data, or after the JSON");
        } else if (strcmp(key, "binary_data_size") != 0) {
            api_oip_fault(state, pointer, "an input knows the parameter binary_data_size, got \"%.100s\"", key);
        } else if (!value_of(body, member) || !api_take_integer(value_of(body, member), pointer, &size, &ignored) ||
                   size < 0) {
            api_oip_fault(state, pointer, "binary_data_size: expected a number of bytes from 0 to 2^53");
        } else if (!state->has_header && size > 0) {
            api_oip_fault(state, pointer,
                          "binary_data_size promises bytes after the JSON, but no Inference-Header-Content-Length says "
                          "where the JSON ends");
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
    point(pointer, "inputs", index, "shape", NULL);
    api_value *value = value_of(body, json);
    const int64_t *lengths = NULL;
    if (value->count > 0 && !(lengths = api_take_integers(body->reader, value, API_DTYPE_NONE, pointer, &state->fault)))
        return false;
    if (value->count > API_MAX_RANK) {
        api_error_set(&state->fault, API_SHAPE_MISMATCH, value->place, pointer, "%s: expected at most 4 axes, got %zu",
                      input->name, value->count);
        return false;
    }
    size_t count = 1, nonzero = 1;
    input->rank = value->count;
    for (size_t i = 0; i < input->rank; i++) {
        if (lengths[i] < 0) {
            api_pointer_add_index(pointer, i);
            api_error_set(&state->fault, API_OUT_OF_RANGE, value->place, pointer,
                          "%s: expected an axis length of at least 0, got %lld", input->name, (long long)lengths[i]);
            return false;
        }
        input->shape[i] = (size_t)lengths[i];
        count = api_times_sizes(count, input->shape[i]);
        if (lengths[i] > 0) nonzero = api_times_sizes(nonzero, input->shape[i]);
    }
    if (nonzero > (size_t)1 << 53) {
        api_error_set(&state->fault, API_OUT_OF_RANGE, value->place, pointer,
                      "%s: expected a shape of at most 2^53 elements, got more", input->name);
        return false;
    }
    const size_t wanted = api_times_sizes(count, api_dtype_size(input->dtype));
    if (wanted == input->size) return true;
    point(pointer, "inputs", index, "parameters", "binary_data_size");
    api_error_set(&state->fault, API_SHAPE_MISMATCH, value->place, pointer,
                  "%s: expected %zu bytes for the shape %s of %zu bytes each, got binary_data_size %llu", input->name,
                  wanted, api_shape_text(text, input->rank, input->shape), api_dtype_size(input->dtype),
                  (unsigned long long)input->size);
    return false;
}

static bool is_list_of_numbers(const api_body *body, const json_t *json) {
    const api_value *value = json ? value_of(body, json) : NULL;
    return value && value->rank == 1 && value->type != API_ELEMENT_BYTES && value->type != API_ELEMENT_BOOLEAN;
}

/* What the form reads as a tensor of the spelling {shape, dtype, data}, its members in the order they came. */
static json_t *make_tensor(api_body *body, json_t *json, const described *d) {
    const char *key;
    json_t *member, *object = json_object();
    json_object_foreach(json, key, member) {
        const api_place place = next_place(body, json_object_size(object));
        bool ok = true;
        if (member == d->shape || member == d->data) {
            set_places(body, member, place);
            ok = add_member(body, object, key, json_incref(member));
        } else if (member == d->datatype) {
            ok = add_member(body, object, "dtype", json_string(api_dtype_name(api_oip_datatype(text_of(member)))));
        }
        if (!ok) break;
    }
    return object;
}

static void read_input(api_body *body, size_t index, json_t *json) {
    api_oip_state *state = body->state;
    api_oip_input *input = &state->inputs[state->input_count];
    described d = {0};
    char pointer[256];
    point(pointer, "inputs", index, NULL, NULL);
    if (!json_is_object(json)) {
        api_oip_fault(state, pointer, "expected an object with name, shape, datatype and data");
        return;
    }
    describe(state, index, json, &d);
    if (!text_of(d.name) || !text_of(d.datatype) || !is_list_of_numbers(body, d.shape)) {
        api_oip_fault(state, pointer,
                      "an input needs name and datatype, which are strings, and shape, a list of axis lengths");
        return;
    }
    if (!(input->name = keep(body, text_of(d.name)))) return;
    input->dtype = api_oip_datatype(text_of(d.datatype));
    read_input_parameters(body, index, d.parameters, input);
    if (json_object_get(body->draft, input->name)) {
        api_oip_fault(state, pointer, "the input \"%.100s\" is there twice", input->name);
    } else if (input->dtype == API_DTYPE_NONE) {
        point(pointer, "inputs", index, "datatype", NULL);
        api_oip_fault(state, pointer, "%.100s: expected a datatype of " API_OIP_DATATYPES ", got \"%.40s\"",
                      input->name, text_of(d.datatype));
    } else if (input->binary == (d.data != NULL)) {
        api_oip_fault(state, pointer, "%.100s: expected data or the parameter binary_data_size, got %s", input->name,
                      d.data ? "both" : "neither");
    }
    if (state->fault.code) return;
    if (input->binary) {
        set_places(body, d.shape, next_place(body, 0));
        if (!read_shape(body, index, d.shape, input)) return;
        add_member(body, body->draft, input->name, json_null()); /* until its bytes have come */
    } else {
        add_member(body, body->draft, input->name, make_tensor(body, json, &d));
    }
    state->input_count++;
}

/* [] was lifted out as a tensor without elements. */
static bool is_empty_list(const api_body *body, const json_t *json) {
    const api_value *value = value_of(body, json);
    return value && value->rank == 1 && value->type == API_ELEMENT_NONE;
}

static void read_inputs(api_body *body, json_t *json) {
    api_oip_state *state = body->state;
    size_t i;
    json_t *input;
    if (is_empty_list(body, json)) return;
    if (!json_is_array(json)) {
        api_oip_fault(state, "/inputs", "expected a list of inputs");
        return;
    }
    if (json_array_size(json) > API_OIP_MAX_INPUTS)
        api_oip_fault(state, "/inputs", "more inputs than any model has: %zu", json_array_size(json));
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
        if (!value || !add_member(body, body->draft, input->name, value)) return;
    }
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

static void read_output_parameters(api_body *body, size_t index, json_t *json, bool *given, bool *binary) {
    api_oip_state *state = body->state;
    char pointer[256];
    const char *key;
    json_t *member;
    point(pointer, "outputs", index, "parameters", NULL);
    if (json && !json_is_object(json) && !json_is_null(json))
        api_oip_fault(state, pointer, "the parameters of an output: expected an object");
    json_object_foreach(json, key, member) {
        point(pointer, "outputs", index, "parameters", key);
        if (strncmp(key, "shared_memory", 13) == 0)
            api_oip_fault(state, pointer, "shared memory is not written: take the numbers from the reply");
        else if (strcmp(key, "classification") == 0)
            api_oip_fault(state, pointer, "outputs are tensors of numbers, there are no classes to name");
        else if (strcmp(key, "binary_data") != 0)
            api_oip_fault(state, pointer, "an output knows the parameter binary_data, got \"%.100s\"", key);
        else if (!json_is_boolean(member))
            api_oip_fault(state, pointer, "binary_data: expected true or false");
        else
            *given = true, *binary = json_is_true(member);
    }
}

static void read_output(api_body *body, size_t index, json_t *json) {
    api_oip_state *state = body->state;
    char pointer[256], known[200];
    const char *key, *name = text_of(json_object_get(json, "name"));
    json_t *member;
    json_object_foreach(json, key, member) {
        point(pointer, "outputs", index, key, NULL);
        if (strcmp(key, "name") != 0 && strcmp(key, "parameters") != 0)
            api_oip_fault(state, pointer, "an output that is asked for has name and parameters, got \"%.100s\"", key);
    }
    point(pointer, "outputs", index, name ? "name" : NULL, NULL);
    const size_t found = name ? api_known_find(api_names, API_NAME_COUNT, body->endpoint, name) : API_NAME_COUNT;
    if (found == API_NAME_COUNT) {
        api_known_list(api_names, API_NAME_COUNT, body->endpoint, known, sizeof known);
        api_oip_fault(state, pointer, "expected the name of an output out of %s; got \"%.100s\"", known,
                      name ? name : "");
        return;
    }
    size_t place = 0;
    while (place < state->wanted_count && state->wanted[place].name != found) place++;
    if (place == state->wanted_count) state->wanted_count++;
    api_oip_wanted *wanted = &state->wanted[place];
    wanted->name = (api_name)found;
    read_output_parameters(body, index, json_object_get(json, "parameters"), &wanted->is_given, &wanted->binary);
}

static void read_outputs(api_body *body, json_t *json) {
    api_oip_state *state = body->state;
    size_t i;
    json_t *output;
    if (json_is_array(json))
        json_array_foreach(json, i, output) read_output(body, i, output);
    else if (!json_is_null(json) && !is_empty_list(body, json))
        api_oip_fault(state, "/outputs", "expected a list of outputs");
}

/* ---- parameters ------------------------------------------------------------------------------------------------- */

/* Microseconds; what is more than any wait is no limit. */
static void read_timeout(api_body *body, const json_t *json) {
    api_oip_state *state = body->state;
    double timeout = -1;
    api_error ignored = {0};
    const api_value *value = value_of(body, json);
    if (!value || !api_take_real(value, ATTN_F64, "", &timeout, &ignored) || timeout < 0)
        api_oip_fault(state, "/parameters/timeout", "timeout: expected a number of microseconds of at least 0");
    else
        state->timeout = timeout < 0x1p53 ? (uint64_t)timeout : 0;
}

static bool is_zero(const api_body *body, const json_t *json) {
    int64_t number = 1;
    api_error ignored = {0};
    const api_value *value = value_of(body, json);
    if (json_is_string(json)) return json_string_length(json) == 0;
    return json_is_null(json) || (value && api_take_integer(value, "", &number, &ignored) && number == 0);
}

/* Names that belong to the protocol. false: none of them. */
static bool read_reserved(api_body *body, const char *key, json_t *value) {
    api_oip_state *state = body->state;
    if (strcmp(key, "binary_data_output") == 0) {
        if (json_is_boolean(value))
            state->binary_default = json_is_true(value);
        else
            api_oip_fault(state, "/parameters/binary_data_output", "binary_data_output: expected true or false");
    } else if (strcmp(key, "timeout") == 0) {
        read_timeout(body, value);
    } else if (strcmp(key, "sequence_id") == 0) {
        if (!is_zero(body, value))
            api_oip_fault(state, "/parameters/sequence_id",
                          "the models keep no state between requests: expected no sequence_id, or 0");
    } else {
        return strcmp(key, "priority") == 0 || strcmp(key, "headers") == 0 || strcmp(key, "sequence_start") == 0 ||
               strcmp(key, "sequence_end") == 0 || strncmp(key, "triton_", 7) == 0;
    }
    return true;
}

/* A string stands for the JSON value that it holds, as far as it holds one. */
static void add_option(api_body *body, const char *key, json_t *value) {
    api_oip_state *state = body->state;
    const size_t field = api_known_find(api_fields, API_FIELD_COUNT, body->endpoint, key);
    if (!json_is_string(value)) {
        set_places(body, value, next_place(body, 0));
        add_member(body, body->draft, key, json_incref(value));
        return;
    }
    if (field < API_FIELD_COUNT) state->is_text[field] = true;
    if (!api_option_add(body, body->draft, key, json_string_value(value), &state->fault) && state->fault.has_pointer) {
        strcpy(state->fault.pointer, "/parameters");
        api_pointer_add(state->fault.pointer, key);
    }
}

static void read_parameters(api_body *body, json_t *json) {
    api_oip_state *state = body->state;
    char pointer[256];
    const char *key;
    json_t *value;
    if (!json_is_object(json) && !json_is_null(json))
        api_oip_fault(state, "/parameters", "the parameters of the request: expected an object");
    json_object_foreach(json, key, value) {
        if (state->fault.code) return;
        if (read_reserved(body, key, value)) continue;
        snprintf(pointer, sizeof pointer, "/parameters");
        api_pointer_add(pointer, key);
        if (json_object_get(body->draft, key)) {
            api_oip_fault(state, pointer, "\"%.100s\" is both an input and a parameter", key);
        } else if (strcmp(key, "format") == 0) {
            api_oip_fault(state, pointer,
                          "the parameters binary_data_output and binary_data say how numbers come back, format has no "
                          "part in it");
        } else {
            add_option(body, key, value);
        }
    }
}

/* ---- the request ------------------------------------------------------------------------------------------------ */

void api_oip_read(api_body *body, json_t *tree) {
    api_oip_state *state = body->state;
    const char *key;
    json_t *member;
    char pointer[256];
    if (!json_is_object(tree)) {
        api_error_set(&state->fault, API_WRONG_TYPE, (api_place){0}, "", "expected an object at the top level");
        return;
    }
    if (!(body->draft = json_object())) {
        api_error_set(&state->fault, API_OUT_OF_MEMORY, API_PLACE_LAST, NULL, "an allocation failed");
        return;
    }
    if (!json_object_get(tree, "inputs")) api_oip_fault(state, "", "the request needs inputs, a list of tensors");
    json_object_foreach(tree, key, member) {
        if (state->fault.code) return;
        if (strcmp(key, "inputs") == 0) {
            read_inputs(body, member);
        } else if (strcmp(key, "outputs") == 0) {
            read_outputs(body, member);
        } else if (strcmp(key, "parameters") == 0) {
            read_parameters(body, member);
        } else if (strcmp(key, "id") == 0 && json_is_string(member)) {
            state->id = keep(body, json_string_value(member));
        } else {
            pointer[0] = '\0';
            api_pointer_add(pointer, key);
            api_oip_fault(state, pointer,
                          strcmp(key, "id") == 0 ? "id: expected a string%.0s"
                                                 : "a request has id, parameters, inputs and outputs, got \"%.100s\"",
                          key);
        }
    }
}

/* ---- pointers --------------------------------------------------------------------------------------------------- */

/* What follows the member `name` in a pointer; NULL where it leads elsewhere. */
static const char *behind(const char *pointer, const char *name) {
    char member[256] = "";
    api_pointer_add(member, name);
    const size_t length = strlen(member);
    return strncmp(pointer, member, length) == 0 && (pointer[length] == '/' || pointer[length] == '\0')
               ? pointer + length
               : NULL;
}

void api_oip_locate(const api_oip_state *state, api_error *error) {
    char pointer[256];
    const char *key, *rest;
    json_t *value;
    if (!error->has_pointer || error->pointer[0] == '\0' || !state->root) return;
    for (size_t i = 0; i < state->input_count; i++) {
        if (!(rest = behind(error->pointer, state->inputs[i].name))) continue;
        point(pointer, "inputs", i, NULL, NULL);
        if (strcmp(rest, "/dtype") == 0) rest = "/datatype";
        snprintf(pointer + strlen(pointer), sizeof pointer - strlen(pointer), "%s", rest);
        strcpy(error->pointer, pointer);
        return;
    }
    json_object_foreach((json_t *)state->root, key, value) {
        if (!(rest = behind(error->pointer, key))) continue;
        const size_t field = api_known_find(api_fields, API_FIELD_COUNT, state->endpoint, key);
        if (field < API_FIELD_COUNT && state->is_text[field]) error->pointer[rest - error->pointer] = '\0';
        snprintf(pointer, sizeof pointer, "/parameters%.240s", error->pointer);
        strcpy(error->pointer, pointer);
        return;
    }
    strcpy(error->pointer, state->wanted_count > 0 ? "/outputs" : ""); /* `return`, which is not there */
}
