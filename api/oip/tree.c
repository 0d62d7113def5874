#include <stdarg.h>
#include <string.h>

#include "infer.h"

void api_oip_fault(api_oip_state *state, const char *pointer, const char *detail, ...) {
    if (state->fault.code) return;
    va_list arguments;
    va_start(arguments, detail);
    api_error_setv(&state->fault, API_BAD_REQUEST, (api_place){0}, pointer, detail, arguments);
    va_end(arguments);
}

void api_oip_no_memory(api_body *body) { api_error_memory(&((api_oip_state *)body->state)->fault, body->memory); }

const char *api_oip_text(const json_t *json) { return json_is_string(json) ? json_string_value(json) : NULL; }

bool api_oip_is_ignored(const char *parameter) {
    return strcmp(parameter, "content_type") == 0 || strcmp(parameter, "headers") == 0;
}

const char *api_oip_keep(api_body *body, const char *text) {
    const size_t size = strlen(text) + 1;
    char *copy = api_small(body->memory, size);
    if (copy) return memcpy(copy, text, size);
    api_oip_no_memory(body);
    return NULL;
}

api_place api_oip_next_place(const api_body *body, size_t sub) {
    return (api_place){json_object_size(body->draft), sub, 0};
}

api_value *api_oip_value(const api_body *body, const json_t *json) {
    return json_is_integer(json) ? api_reader_value(body->reader, json_integer_value(json)) : NULL;
}

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
    api_oip_no_memory(body);
    return false;
}

void api_oip_point(char pointer[256], const char *list, size_t index, const char *inner, const char *name) {
    pointer[0] = '\0';
    api_pointer_add(pointer, list);
    api_pointer_add_index(pointer, index);
    if (inner) api_pointer_add(pointer, inner);
    if (name) api_pointer_add(pointer, name);
}

bool api_oip_is_empty_list(const api_body *body, const json_t *json) {
    const api_value *value = api_oip_value(body, json);
    return value && value->rank == 1 && value->type == API_ELEMENT_NONE;
}
