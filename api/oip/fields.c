/* From the JSON of an infer request to the fields of an operation, and back for pointers. */
#include <stdio.h>
#include <string.h>

#include "../fields/option_text.h"
#include "infer.h"

/* ---- parameters ------------------------------------------------------------------------------------------------- */

/* Microseconds; what exceeds any wait means no limit. */
static void read_timeout(api_body *body, const json_t *json) {
    api_oip_state *state = body->state;
    double timeout = -1;
    api_error ignored = {0};
    const api_value *value = api_oip_value(body, json);
    if (json_is_null(json)) return;
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
    if (api_oip_is_ignored(key)) return true;
    if (strcmp(key, "binary_data_output") == 0) {
        if (json_is_boolean(value))
            state->binary_default = json_is_true(value);
        else if (!json_is_null(value))
            api_oip_fault(state, "/parameters/binary_data_output", "binary_data_output: expected true or false");
    } else if (strcmp(key, "timeout") == 0) {
        read_timeout(body, value);
    } else if (strcmp(key, "sequence_id") == 0) {
        if (!is_zero(body, value))
            api_oip_fault(state, "/parameters/sequence_id",
                          "sequence_id: expected 0 or none, because the models keep no state between requests");
    } else {
        return strcmp(key, "priority") == 0 || strcmp(key, "sequence_start") == 0 || strcmp(key, "sequence_end") == 0 ||
               strncmp(key, "triton_", 7) == 0;
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
        api_oip_fault(state, "/parameters", "parameters: expected an object");
    json_object_foreach(json, key, value) {
        if (state->fault.code) return;
        if (read_reserved(body, key, value)) continue;
        snprintf(pointer, sizeof pointer, "/parameters");
        api_pointer_add(pointer, key);
        if (json_object_get(body->draft, key) && !json_is_null(value)) {
            api_oip_fault(state, pointer, "\"%.100s\" is both an input and a parameter", key);
        } else if (strcmp(key, "format") == 0 && !json_is_null(value)) {
            api_oip_fault(state, pointer,
                          "format is not supported here: use the parameters binary_data_output and binary_data");
        } else if (!json_object_get(body->draft, key)) {
            add_option(body, key, value);
        }
    }
}

/* ---- the request ------------------------------------------------------------------------------------------------ */

static void read_id(api_body *body, const json_t *json) {
    api_oip_state *state = body->state;
    if (json_is_string(json))
        state->id = api_oip_keep(body, json_string_value(json));
    else if (!json_is_null(json))
        api_oip_fault(state, "/id", "id: expected a string");
}

/* KServe's client names the model in the body too. */
static void check_model(api_body *body, const json_t *json) {
    const char *name = body->schema->name, *given = api_oip_text(json);
    if (json_is_null(json) || (given && strcmp(given, name) == 0)) return;
    if (given)
        api_oip_fault(body->state, "/model_name", "model_name: expected \"%s\" as in the path, got \"%.100s\"", name,
                      given);
    else
        api_oip_fault(body->state, "/model_name", "model_name: expected \"%s\" as in the path, got no string", name);
}

static void read_member(api_body *body, const char *key, json_t *json) {
    char pointer[256] = "";
    if (strcmp(key, "inputs") == 0) {
        api_oip_read_inputs(body, json);
    } else if (strcmp(key, "outputs") == 0) {
        api_oip_read_outputs(body, json);
    } else if (strcmp(key, "parameters") == 0) {
        read_parameters(body, json);
    } else if (strcmp(key, "id") == 0) {
        read_id(body, json);
    } else if (strcmp(key, "model_name") == 0) {
        check_model(body, json);
    } else {
        api_pointer_add(pointer, key);
        api_oip_fault(body->state, pointer,
                      "unknown member \"%.100s\"; a request has id, model_name, parameters, inputs and outputs", key);
    }
}

void api_oip_read(api_body *body, json_t *tree) {
    api_oip_state *state = body->state;
    const char *key;
    json_t *member;
    if (!json_is_object(tree)) {
        api_error_set(&state->fault, API_WRONG_TYPE, (api_place){0}, "", "expected an object at the top level");
        return;
    }
    if (!(body->draft = json_object())) {
        api_oip_no_memory(body);
        return;
    }
    if (!json_object_get(tree, "inputs")) api_oip_fault(state, "", "the request needs inputs, a list of tensors");
    json_object_foreach(tree, key, member) {
        if (!state->fault.code) read_member(body, key, member);
    }
}

/* ---- pointers --------------------------------------------------------------------------------------------------- */

/* What follows the member `name` in a pointer; NULL if it leads elsewhere. */
static const char *behind(const char *pointer, const char *name) {
    char member[256] = "";
    api_pointer_add(member, name);
    const size_t length = strlen(member);
    return strncmp(pointer, member, length) == 0 && (pointer[length] == '/' || pointer[length] == '\0')
               ? pointer + length
               : NULL;
}

void api_oip_locate(api_request *request) {
    const api_oip_state *state = request->body.state;
    api_error *error = &request->error;
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
