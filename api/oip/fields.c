/* oip_fields.c: from the JSON of an infer request to the fields of an endpoint, and back for pointers. */
#include <stdio.h>
#include <string.h>

#include "../fields/option_text.h"
#include "oip.h"

const char *api_oip_text(const json_t *json) { return json_is_string(json) ? json_string_value(json) : NULL; }

const char *api_oip_keep(api_body *body, const char *text) {
    const size_t size = strlen(text) + 1;
    char *copy = api_small(body->memory, size);
    if (copy) return memcpy(copy, text, size);
    api_error_set(&((api_oip_state *)body->state)->fault,
                  body->memory->over_budget ? API_OVERLOADED : API_OUT_OF_MEMORY, API_PLACE_LAST, NULL,
                  "no memory for the names of the request");
    return NULL;
}

api_place api_oip_next_place(const api_body *body, size_t sub) {
    return (api_place){json_object_size(body->draft), sub, 0};
}

api_value *api_oip_value(const api_body *body, const json_t *json) {
    return json_is_integer(json) ? api_reader_value(body->reader, json_integer_value(json)) : NULL;
}

/* All values below a node of the tree stand at `place` of the skeleton. */
void api_oip_set_places(const api_body *body, json_t *json, api_place place) {
    api_value *value = api_oip_value(body, json);
    if (value) value->place = value->fault.place = place;
    const char *key;
    json_t *inner;
    size_t i;
    json_array_foreach(json, i, inner) { api_oip_set_places(body, inner, place); }
    json_object_foreach(json, key, inner) { api_oip_set_places(body, inner, place); }
}

bool api_oip_add_member(api_body *body, json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) == 0) return true;
    api_error_set(&((api_oip_state *)body->state)->fault, API_OUT_OF_MEMORY, API_PLACE_LAST, NULL,
                  "an allocation failed");
    return false;
}

/* "/inputs/3" and, where they are not NULL, "/parameters/name" behind it */
void api_oip_point(char pointer[256], const char *list, size_t index, const char *inner, const char *name) {
    pointer[0] = '\0';
    api_pointer_add(pointer, list);
    api_pointer_add_index(pointer, index);
    if (inner) api_pointer_add(pointer, inner);
    if (name) api_pointer_add(pointer, name);
}

/* [] was lifted out as a tensor without elements. */
bool api_oip_is_empty_list(const api_body *body, const json_t *json) {
    const api_value *value = api_oip_value(body, json);
    return value && value->rank == 1 && value->type == API_ELEMENT_NONE;
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

static void read_output_parameters(api_body *body, size_t index, json_t *json, bool *given, bool *binary) {
    api_oip_state *state = body->state;
    char pointer[256];
    const char *key;
    json_t *member;
    api_oip_point(pointer, "outputs", index, "parameters", NULL);
    if (json && !json_is_object(json) && !json_is_null(json))
        api_oip_fault(state, pointer, "the parameters of an output: expected an object");
    json_object_foreach(json, key, member) {
        api_oip_point(pointer, "outputs", index, "parameters", key);
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
    const char *key, *name = api_oip_text(json_object_get(json, "name"));
    json_t *member;
    json_object_foreach(json, key, member) {
        api_oip_point(pointer, "outputs", index, key, NULL);
        if (strcmp(key, "name") != 0 && strcmp(key, "parameters") != 0)
            api_oip_fault(state, pointer, "an output that is asked for has name and parameters, got \"%.100s\"", key);
    }
    api_oip_point(pointer, "outputs", index, name ? "name" : NULL, NULL);
    const api_name_row *row = name ? api_name_at(body->schema, api_name_find(body->schema, name)) : NULL;
    if (!row) {
        api_name_list(body->schema, known, sizeof known);
        api_oip_fault(state, pointer, "expected the name of an output out of %s; got \"%.100s\"", known,
                      name ? name : "");
        return;
    }
    size_t place = 0;
    while (place < state->wanted_count && state->wanted[place].name != row->name) place++;
    if (place == state->wanted_count) state->wanted_count++;
    api_oip_wanted *wanted = &state->wanted[place];
    wanted->name = row->name;
    read_output_parameters(body, index, json_object_get(json, "parameters"), &wanted->is_given, &wanted->binary);
}

static void read_outputs(api_body *body, json_t *json) {
    api_oip_state *state = body->state;
    size_t i;
    json_t *output;
    if (json_is_array(json)) {
        json_array_foreach(json, i, output) { read_output(body, i, output); }
    } else if (!json_is_null(json) && !api_oip_is_empty_list(body, json)) {
        api_oip_fault(state, "/outputs", "expected a list of outputs");
    }
}

/* ---- parameters ------------------------------------------------------------------------------------------------- */

/* Microseconds; what is more than any wait is no limit. */
static void read_timeout(api_body *body, const json_t *json) {
    api_oip_state *state = body->state;
    double timeout = -1;
    api_error ignored = {0};
    const api_value *value = api_oip_value(body, json);
    if (!value || !api_take_real(value, ATTN_F64, "", &timeout, &ignored) || timeout < 0)
        api_oip_fault(state, "/parameters/timeout", "timeout: expected a number of microseconds of at least 0");
    else
        state->timeout = timeout < 0x1p53 ? (uint64_t)timeout : 0;
}

static bool is_zero(const api_body *body, const json_t *json) {
    int64_t number = 1;
    api_error ignored = {0};
    const api_value *value = api_oip_value(body, json);
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
    const size_t field = api_field_find(body->schema, key);
    if (!json_is_string(value)) {
        api_oip_set_places(body, value, api_oip_next_place(body, 0));
        api_oip_add_member(body, body->draft, key, json_incref(value));
        return;
    }
    if (field < api_field_count(body->schema)) state->is_text[field] = true;
    if (!api_option_add(body, body->draft, key, json_string_value(value), &state->fault) && state->fault.has_pointer) {
        snprintf(state->fault.pointer, sizeof state->fault.pointer, "/parameters");
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
            api_oip_read_inputs(body, member);
        } else if (strcmp(key, "outputs") == 0) {
            read_outputs(body, member);
        } else if (strcmp(key, "parameters") == 0) {
            read_parameters(body, member);
        } else if (strcmp(key, "id") == 0 && json_is_string(member)) {
            state->id = api_oip_keep(body, json_string_value(member));
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
        api_oip_point(pointer, "inputs", i, NULL, NULL);
        if (strcmp(rest, "/dtype") == 0) rest = "/datatype";
        snprintf(pointer + strlen(pointer), sizeof pointer - strlen(pointer), "%s", rest);
        memcpy(error->pointer, pointer, sizeof pointer);
        return;
    }
    json_object_foreach((json_t *)state->root, key, value) {
        if (!(rest = behind(error->pointer, key))) continue;
        const size_t field = api_field_find(state->schema, key);
        if (field < api_field_count(state->schema) && state->is_text[field])
            error->pointer[rest - error->pointer] = '\0';
        snprintf(pointer, sizeof pointer, "/parameters%.240s", error->pointer);
        memcpy(error->pointer, pointer, sizeof pointer);
        return;
    }
    /* `return`, which is not there */
    snprintf(error->pointer, sizeof error->pointer, "%s", state->wanted_count > 0 ? "/outputs" : "");
}
