#include "form.h"

#include <stdio.h>
#include <string.h>

#include "hints.h"

enum { FIELD_PATH = 100 }; /* characters of the names down to a field */

/* "rope.scaling.factor" */
static const char *path_of(const api_form *form, api_field field, char path[FIELD_PATH]) {
    size_t length = 0;
    if (form->outer) {
        path_of(form->outer, form->outer_field, path);
        length = strlen(path);
    }
    snprintf(path + length, FIELD_PATH - length, "%s%s", length ? "." : "", api_form_name(form, field));
    return path;
}

void api_form_pointer(const api_form *form, api_field field, char pointer[256]) {
    pointer[0] = '\0';
    if (form->outer) api_form_pointer(form->outer, form->outer_field, pointer);
    api_pointer_add(pointer, api_form_name(form, field));
}

/* Of what is said of the members as a whole: the object, or the document. */
static void pointer_of_all(const api_form *form, char pointer[256]) {
    pointer[0] = '\0';
    if (form->outer) api_form_pointer(form->outer, form->outer_field, pointer);
}

static void unknown(api_form *form, const char *key, api_place place) {
    char pointer[256], text[API_HINT_TEXT], path[FIELD_PATH];
    pointer_of_all(form, pointer);
    api_pointer_add(pointer, key);
    api_hint(form->schema, form->schemas, key, text);
    if (form->outer)
        api_error_set(form->error, API_UNKNOWN_FIELD, place, pointer, "%s: %s",
                      path_of(form->outer, form->outer_field, path), text);
    else
        api_error_set(form->error, API_UNKNOWN_FIELD, place, pointer, "%s", text);
}

/* The slots without their values. false: no memory. */
static bool make_slots(api_form *form) {
    const size_t count = api_field_count(form->schema);
    form->slots = api_small(form->memory, count * sizeof *form->slots);
    if (!form->slots) return false;
    api_slot *slot = form->slots;
    for (size_t t = 0; t < API_MAX_TABLES && form->schema->fields[t]; t++)
        for (size_t i = 0; i < form->schema->fields[t]->count; i++)
            *slot++ = (api_slot){.row = &form->schema->fields[t]->rows[i]};
    return true;
}

/* Where member number `index` stands. */
static api_place place_of(const api_form *form, size_t index) {
    if (!form->outer) return api_reader_place(form->reader, index, 0);
    api_place place = form->outer->slots[form->outer_field].place;
    if (form->outer->outer)
        place.element = index;
    else
        place.sub = index;
    return place;
}

static void bind_members(api_form *form, json_t *object) {
    const char *key;
    json_t *member;
    size_t index = 0;
    const size_t count = api_field_count(form->schema);
    json_object_foreach(object, key, member) {
        const api_place place = place_of(form, index++);
        const size_t field = api_field_find(form->schema, key);
        if (field == count) {
            unknown(form, key, place);
        } else {
            form->slots[field].json = json_is_null(member) ? NULL : member;
            form->slots[field].place = place;
        }
    }
}

void api_form_bind(api_form *form, json_t *root) {
    if (!make_slots(form)) {
        form->broken = true;
        api_error_memory(form->error, form->memory);
    } else if (!json_is_object(root)) {
        form->broken = true;
        api_error_set(form->error, API_WRONG_TYPE, (api_place){0}, "", "expected an object at the top level, got %s",
                      api_form_kind(form, root));
    } else {
        bind_members(form, root);
    }
}

bool api_form_open(api_form *form, api_field field, const api_schema *members, api_form *inner) {
    json_t *json = form->slots[field].json;
    *inner = *form;
    inner->schema = members;
    inner->schemas = NULL;
    inner->broken = false;
    inner->outer = form;
    inner->outer_field = field;
    if (!json_is_object(json)) {
        api_form_wrong_type(form, field, "an object");
        return false;
    }
    if (!make_slots(inner)) {
        form->broken = true;
        api_error_memory(form->error, form->memory);
        return false;
    }
    bind_members(inner, json);
    return true;
}

bool api_form_object(api_form *form, api_field field, const api_schema *members, void *state) {
    api_form inner;
    if (!api_form_open(form, field, members, &inner)) return false;
    api_form_require(&inner);
    for (size_t t = 0; t < API_MAX_TABLES && members->fields[t]; t++) api_form_set(&inner, members->fields[t], state);
    form->broken |= inner.broken;
    return !inner.broken;
}

void api_form_require(api_form *form) {
    for (api_field field = 0; field < api_field_count(form->schema); field++)
        if (form->slots[field].row->flags & API_REQUIRED && !api_form_has(form, field))
            api_form_missing(form, api_form_name(form, field), "");
}

void api_form_set(api_form *form, const api_field_table *table, void *state) {
    api_field field = 0;
    for (size_t t = 0; form->schema->fields[t] != table; t++) field += (api_field)form->schema->fields[t]->count;
    for (size_t i = 0; i < table->count; i++, field++)
        if (table->rows[i].set && api_form_has(form, field)) table->rows[i].set(form, field, state);
}

bool api_form_returns(const api_form *form, const char *name) {
    const size_t index = api_name_find(form->schema, name);
    return index < API_MAX_NAMES && form->names >> index & 1;
}

/* ---- faults ----------------------------------------------------------------------------------------------------- */

void api_form_faultv(api_form *form, api_field field, api_place place, const char *pointer, bool breaks, api_code code,
                     const char *detail, va_list arguments) {
    char text[512], path[FIELD_PATH];
    vsnprintf(text, sizeof text, detail, arguments);
    if (breaks) form->broken = true;
    api_error_set(form->error, code, place, pointer, "%s: %s", path_of(form, field, path), text);
}

void api_form_fault(api_form *form, api_field field, api_code code, const char *detail, ...) {
    char pointer[256];
    api_form_pointer(form, field, pointer);
    va_list arguments;
    va_start(arguments, detail);
    api_form_faultv(form, field, form->slots[field].place, pointer, true, code, detail, arguments);
    va_end(arguments);
}

void api_form_missing(api_form *form, const char *name, const char *why) {
    char pointer[256], path[FIELD_PATH] = "";
    pointer_of_all(form, pointer);
    if (form->outer) path_of(form->outer, form->outer_field, path);
    form->broken = true;
    api_error_set(form->error, API_MISSING_FIELD, API_PLACE_LAST, pointer, "the field \"%s%s%s\" is required%s%s", path,
                  *path ? "." : "", name, *why ? " " : "", why);
}

void api_form_wrong_type(api_form *form, api_field field, const char *wanted) {
    api_form_fault(form, field, API_WRONG_TYPE, "expected %s, got %s", wanted,
                   api_form_kind(form, form->slots[field].json));
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

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

/* A JSON boolean, or a tensor of one that has no axes. false: it is neither. */
static bool read_bool(const api_form *form, const json_t *json, bool *result) {
    const api_value *value = api_form_value(form, json);
    const bool tensor = value && value->rank == 0 && value->dtype == API_BOOL && *(const uint8_t *)value->data <= 1;
    *result = tensor ? *(const uint8_t *)value->data : json_is_true(json);
    return tensor || json_is_boolean(json);
}

bool api_form_bool(api_form *form, api_field field, bool *result) {
    const json_t *json = form->slots[field].json;
    if (!json) return false;
    bool value;
    if (!read_bool(form, json, &value)) {
        api_form_wrong_type(form, field, "true or false");
        return false;
    }
    *result = value;
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
    api_form_pointer(form, field, pointer);
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

bool api_form_count(api_form *form, api_field field, size_t *result) {
    int64_t count;
    if (!api_form_integer(form, field, &count)) return false;
    if (count < 1)
        api_form_fault(form, field, API_OUT_OF_RANGE, "expected at least 1, got %lld", (long long)count);
    else
        *result = (size_t)count;
    return count >= 1;
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
    api_form_fault(form, field, API_OUT_OF_RANGE, "expected one of %s, got \"%.100s\"", list, string);
    return false;
}

static void wrong_element(api_form *form, api_field field, size_t index, const char *kind) {
    char pointer[256];
    api_form_pointer(form, field, pointer);
    api_pointer_add_index(pointer, index);
    api_place place = form->slots[field].place;
    place.element = index;
    form->broken = true;
    char path[FIELD_PATH];
    api_error_set(form->error, API_WRONG_TYPE, place, pointer, "%s: expected a list of strings, got %s in it",
                  path_of(form, field, path), kind);
}

bool api_form_strings(api_form *form, api_field field,
                      void (*each)(api_form *form, api_field field, const char *string, size_t index), size_t *count) {
    const json_t *json = form->slots[field].json;
    if (!json) return false;
    const api_value *value = api_form_value(form, json);
    if (value && value->rank > 0) { /* an array of numbers or booleans, or one without elements */
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
        if (each) each(form, field, json_string_value(element), i);
    }
    return true;
}
