/* The outputs that an infer request lists. */
#include <string.h>

#include "infer.h"

static void read_output_parameters(api_body *body, size_t index, json_t *json, bool *given, bool *binary) {
    api_oip_state *state = body->state;
    char pointer[256];
    const char *key;
    json_t *member;
    api_oip_point(pointer, "outputs", index, "parameters", NULL);
    if (json && !json_is_object(json) && !json_is_null(json))
        api_oip_fault(state, pointer, "parameters: expected an object");
    json_object_foreach(json, key, member) {
        api_oip_point(pointer, "outputs", index, "parameters", key);
        if (api_oip_is_ignored(key)) continue;
        if (strncmp(key, "shared_memory", 13) == 0)
            api_oip_fault(state, pointer, "shared memory is not supported: take the numbers from the reply");
        else if (strcmp(key, "classification") == 0)
            api_oip_fault(state, pointer, "classification is not supported: outputs are tensors of numbers");
        else if (strcmp(key, "binary_data") != 0)
            api_oip_fault(state, pointer, "unknown parameter \"%.100s\"; an output has binary_data", key);
        else if (json_is_null(member))
            continue;
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
            api_oip_fault(state, pointer, "unknown member \"%.100s\"; an output has name and parameters", key);
    }
    api_oip_point(pointer, "outputs", index, name ? "name" : NULL, NULL);
    const api_name_row *row = name ? api_name_at(body->schema, api_name_find(body->schema, name)) : NULL;
    if (!row) {
        api_name_list(body->schema, known, sizeof known);
        api_oip_fault(state, pointer, "unknown output \"%.100s\"; available: %s", name ? name : "", known);
        return;
    }
    size_t place = 0;
    while (place < state->wanted_count && state->wanted[place].name != row->name) place++;
    if (place == state->wanted_count) state->wanted_count++;
    api_oip_wanted *wanted = &state->wanted[place];
    wanted->name = row->name;
    read_output_parameters(body, index, json_object_get(json, "parameters"), &wanted->is_given, &wanted->binary);
}

void api_oip_read_outputs(api_body *body, json_t *json) {
    api_oip_state *state = body->state;
    size_t i;
    json_t *output;
    if (json_is_array(json)) {
        json_array_foreach(json, i, output) { read_output(body, i, output); }
    } else if (!json_is_null(json) && !api_oip_is_empty_list(body, json)) {
        api_oip_fault(state, "/outputs", "expected a list of outputs");
    }
}
