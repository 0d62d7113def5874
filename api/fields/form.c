#include "form.h"

#include <stdio.h>
#include <string.h>

void api_form_bind(api_form *form, json_t *root) {
    if (!json_is_object(root)) {
        form->broken = true;
        api_error_set(form->error, API_WRONG_TYPE, (api_place){0}, "", "expected an object at the top level, got %s",
                      api_form_kind(form, root));
        return;
    }
    const char *key;
    json_t *member;
    size_t index = 0;
    json_object_foreach(root, key, member) {
        const api_place place = api_reader_place(form->reader, index++, 0);
        const size_t field = api_known_find(api_fields, API_FIELD_COUNT, form->endpoint, key);
        if (field == API_FIELD_COUNT) {
            char pointer[256] = "";
            api_pointer_add(pointer, key);
            api_error_set(form->error, API_UNKNOWN_FIELD, place, pointer,
                          "unknown field \"%.100s\"; the nearest known one is \"%s\"", key,
                          api_known_nearest(api_fields, API_FIELD_COUNT, form->endpoint, key));
        } else {
            form->slots[field] = (api_slot){json_is_null(member) ? NULL : member, place};
        }
    }
}

static void field_pointer(api_field field, char pointer[256]) {
    pointer[0] = '\0';
    api_pointer_add(pointer, api_fields[field].name);
}

void api_form_fault(api_form *form, api_field field, api_code code, const char *detail, ...) {
    char pointer[256];
    field_pointer(field, pointer);
    form->broken = true;
    va_list arguments;
    va_start(arguments, detail);
    api_error_setv(form->error, code, form->slots[field].place, pointer, detail, arguments);
    va_end(arguments);
}

void api_form_missing(api_form *form, api_field field, const char *why) {
    form->broken = true;
    api_error_set(form->error, API_MISSING_FIELD, API_PLACE_LAST, "", "the field \"%s\" is required%s%s",
                  api_fields[field].name, *why ? " " : "", why);
}

void api_form_wrong_type(api_form *form, api_field field, const char *wanted) {
    api_form_fault(form, field, API_WRONG_TYPE, "%s: expected %s, got %s", api_fields[field].name, wanted,
                   api_form_kind(form, form->slots[field].json));
}

api_value *api_form_value(const api_form *form, const json_t *json) {
    return json_is_integer(json) ? api_reader_value(form->reader, json_integer_value(json)) : NULL;
}

const char *api_form_kind(const api_form *form, const json_t *json) {
    const api_value *value = api_form_value(form, json);
    if (value && value->dtype != API_DTYPE_NONE) return "a tensor";
    if (value) return value->type == API_ELEMENT_BYTES ? "a string" : value->rank == 0 ? "a number" : "an array";
    switch (json_typeof(json)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    default: return "a number";
    }
}

bool api_form_bool(api_form *form, api_field field, bool *result) {
    const json_t *json = form->slots[field].json;
    if (!json) return false;
    const api_value *value = api_form_value(form, json);
    if (value && value->rank == 0 && value->dtype == API_BOOL && *(const uint8_t *)value->data <= 1) {
        *result = *(const uint8_t *)value->data;
        return true;
    }
    if (!json_is_boolean(json)) {
        api_form_wrong_type(form, field, "true or false");
        return false;
    }
    *result = json_is_true(json);
    return true;
}

/* the bare number of a field, NULL after a fault */
static const api_value *bare_number(api_form *form, api_field field, const char *wanted, char pointer[256]) {
    const json_t *json = form->slots[field].json;
    const api_value *value = json ? api_form_value(form, json) : NULL;
    if (!json) return NULL;
    if (!value || !api_is_bare_number(value)) {
        api_form_wrong_type(form, field, wanted);
        return NULL;
    }
    field_pointer(field, pointer);
    return value;
}

bool api_form_integer(api_form *form, api_field field, int64_t *result) {
    char pointer[256];
    const api_value *value = bare_number(form, field, "an integer", pointer);
    if (!value) return false;
    if (api_take_integer(value, pointer, result, form->error)) return true;
    form->broken = true;
    return false;
}

bool api_form_real(api_form *form, api_field field, double *result) {
    char pointer[256];
    const api_value *value = bare_number(form, field, "a number", pointer);
    if (!value) return false;
    if (api_take_real(value, form->dtype, pointer, result, form->error)) return true;
    form->broken = true;
    return false;
}

bool api_form_choice(api_form *form, api_field field, const char *const *choices, size_t count, size_t *result) {
    const json_t *json = form->slots[field].json;
    if (!json) return false;
    if (!json_is_string(json)) {
        api_form_wrong_type(form, field, "a string");
        return false;
    }
    const char *string = json_string_value(json);
    char list[256] = "";
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(string, choices[i]) == 0) {
            *result = i;
            return true;
        }
        length += (size_t)snprintf(list + length, sizeof list - length, "%s\"%s\"", i ? ", " : "", choices[i]);
    }
    api_form_fault(form, field, API_OUT_OF_RANGE, "%s: expected one of %s, got \"%.100s\"", api_fields[field].name,
                   list, string);
    return false;
}

static void wrong_element(api_form *form, api_field field, size_t index, const char *kind) {
    char pointer[256];
    field_pointer(field, pointer);
    api_pointer_add_index(pointer, index);
    api_place place = form->slots[field].place;
    place.element = index;
    form->broken = true;
    api_error_set(form->error, API_WRONG_TYPE, place, pointer, "%s: expected a list of strings, got %s in it",
                  api_fields[field].name, kind);
}

bool api_form_strings(api_form *form, api_field field,
                      void (*each)(api_form *form, const char *string, size_t index, void *context), void *context,
                      size_t *count) {
    const json_t *json = form->slots[field].json;
    if (!json) return false;
    const api_value *value = api_form_value(form, json);
    if (value && value->rank > 0) { /* the reader lifted it: it holds no string, or is empty */
        *count = 0;
        if (value->rank == 1 && value->type == API_ELEMENT_NONE && value->fault.code == API_NO_ERROR) return true;
        wrong_element(form, field, 0,
                      value->rank > 1                      ? "an array"
                      : value->type == API_ELEMENT_BOOLEAN ? "a boolean"
                                                           : "a number");
        return false;
    }
    if (!json_is_array(json)) {
        api_form_wrong_type(form, field, "a list of strings");
        return false;
    }
    *count = json_array_size(json);
    for (size_t i = 0; i < *count; i++) {
        const json_t *element = json_array_get(json, i);
        if (!json_is_string(element)) {
            wrong_element(form, field, i, api_form_kind(form, element));
            return false;
        }
        if (each) each(form, json_string_value(element), i, context);
    }
    return true;
}
