#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensors.h"

api_value *api_value_new(api_memory *memory, api_element_type type, size_t rank, api_place place) {
    api_value *value = api_small(memory, sizeof *value);
    if (!value) return NULL;
    memset(value, 0, sizeof *value);
    value->type = type;
    value->rank = rank;
    value->place = value->fault.place = place;
    value->memory = memory;
    value->inexact = SIZE_MAX;
    return value;
}

void *api_value_reserve(api_value *value, size_t bytes) {
    if (value->data && bytes <= value->capacity) return value->data;
    const size_t room = api_grown_size(value->capacity, bytes);
    void *data = api_resize(value->memory, value->borrowed ? NULL : value->data, room);
    if (!data) return NULL;
    if (value->borrowed && value->data) memcpy(data, value->data, value->capacity);
    value->borrowed = false;
    value->data = data;
    value->capacity = room;
    return data;
}

void api_value_shrink(api_value *value, size_t bytes) {
    if (value->borrowed || value->capacity - bytes < 4096) return;
    void *data = api_resize(value->memory, value->data, bytes);
    if (!data) return; /* no smaller piece: keep the larger one */
    value->data = data;
    value->capacity = bytes;
}

void api_value_pointer(const api_value *value, const char *prefix, size_t index, char pointer[256]) {
    snprintf(pointer, 256, "%s", prefix);
    if (value->type == API_ELEMENT_BYTES) return;
    size_t inner[API_MAX_RANK], product = 1; /* elements that a step along each axis passes */
    for (size_t i = value->rank; i-- > 0;) {
        inner[i] = product;
        product *= i > 0 && value->shape[i] ? value->shape[i] : 1;
    }
    for (size_t i = 0; i < value->rank; i++) {
        api_pointer_add_index(pointer, index / inner[i]);
        index %= inner[i];
    }
}

void api_value_error(const api_value *value, const char *prefix, size_t index, api_code code, api_error *error,
                     const char *detail, ...) {
    char pointer[256], text[384];
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    api_value_pointer(value, prefix, index, pointer);
    api_place place = value->place;
    place.element = index;
    api_error_set(error, code, place, pointer, "%s", text);
}

bool api_value_has_fault(const api_value *value, const char *prefix, api_error *error) {
    if (value->fault.code == API_NO_ERROR) return false;
    char pointer[512];
    snprintf(pointer, sizeof pointer, "%s%s", prefix, value->fault.pointer);
    api_error_set(error, value->fault.code, value->fault.place, pointer, "%s", value->fault.detail);
    return true;
}

void api_no_memory(const api_memory *memory, api_error *error) {
    api_error_set(error, memory->over_budget ? API_OVERLOADED : API_OUT_OF_MEMORY, API_PLACE_LAST, NULL, "%s",
                  memory->over_budget ? "the memory for requests in flight is full" : "an allocation failed");
}
