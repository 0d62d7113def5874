#include <stdlib.h>
#include <string.h>

#include "reader_internal.h"

api_value *api_reader_new_value(api_reader *reader, api_element_type type, size_t rank) {
    const size_t index = reader->value_count;
    const api_place place = {reader->members ? reader->members - 1 : 0,
                             reader->sub_members ? reader->sub_members - 1 : 0, 0};
    const bool surplus = index >= API_MAX_VALUES;
    if (!surplus && !api_reader_grow(reader, &reader->values, &reader->values_capacity, index + 1, sizeof(api_value *)))
        return NULL;
    api_value *value = surplus && reader->surplus ? reader->surplus : api_value_new(reader->memory, type, rank, place);
    if (!value) {
        reader->exhausted = true;
    } else if (!surplus) {
        reader->values[reader->value_count++] = value;
        api_tree_index(reader, index);
    } else {
        if (reader->depth > 0 && !api_reader_in_object(reader))
            api_bound(reader, API_WRONG_TYPE, "more than %d numbers in lists that do not begin with a number",
                      API_MAX_VALUES);
        else
            api_bound(reader, API_OUT_OF_RANGE, "more than %d numbers and tensors", API_MAX_VALUES);
        api_tree_add_refused(reader);
        reader->surplus = value;
        value->fault.code = API_OUT_OF_RANGE; /* so that nothing is kept in it */
    }
    return value;
}

/* Elements are used where they stand only if they stand as their type wants it. */
static bool place_bytes(api_value *value, void *bytes) {
    if (value->count == 0) return true;
    if ((uintptr_t)bytes % api_dtype_size(value->dtype) == 0) {
        value->data = bytes;
        value->capacity = value->count;
        value->borrowed = true;
        return true;
    }
    if (!api_value_reserve(value, value->count)) return false;
    memcpy(value->data, bytes, value->count);
    return true;
}

json_t *api_reader_add_tensor(api_reader *reader, api_place place, api_dtype dtype, size_t rank, const size_t *shape,
                              void *bytes, api_error *error) {
    reader->memory->over_budget = false;
    api_value *value = api_value_new(reader->memory, API_ELEMENT_BYTES, rank, place);
    json_t *index = json_integer((json_int_t)reader->value_count);
    bool ok = value && index;
    if (ok) {
        value->dtype = value->stored = dtype;
        value->count = api_dtype_size(dtype);
        for (size_t i = 0; i < rank; i++) value->count *= value->shape[i] = shape[i];
        if (rank == 0) value->bare = api_dtypes[dtype].read(bytes);
        ok = place_bytes(value, bytes) && api_reader_grow(reader, &reader->values, &reader->values_capacity,
                                                          reader->value_count + 1, sizeof(api_value *));
    }
    if (ok) {
        reader->values[reader->value_count++] = value;
        return index;
    }
    json_decref(index);
    api_no_memory(reader->memory, error);
    return NULL;
}

/* Changes each index of a document. */
static void shift_indices(json_t *tree, size_t by) {
    const char *key;
    json_t *inner;
    size_t i;
    if (json_is_integer(tree)) json_integer_set(tree, json_integer_value(tree) + (json_int_t)by);
    json_array_foreach(tree, i, inner) { shift_indices(inner, by); }
    json_object_foreach(tree, key, inner) { shift_indices(inner, by); }
}

json_t *api_reader_adopt(api_reader *reader, api_place place, api_reader *other, json_t *tree, api_error *error) {
    const size_t count = reader->value_count + other->value_count;
    reader->memory->over_budget = false;
    if (!api_reader_grow(reader, &reader->values, &reader->values_capacity, count, sizeof(api_value *))) {
        api_no_memory(reader->memory, error);
        json_decref(tree);
        return NULL;
    }
    shift_indices(tree, reader->value_count);
    for (size_t i = 0; i < other->value_count; i++) {
        api_value *value = reader->values[reader->value_count++] = other->values[i];
        value->place = value->fault.place = place;
    }
    other->value_count = 0;
    return tree;
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

/* Numbers of the document in any of their spellings, as they are before anything is taken. */
typedef struct numbers {
    const api_value *value; /* NULL: `bare` alone */
    api_dtype declared;
    size_t rank, count;
    double shape[API_MAX_RANK];
    api_decimal bare;
} numbers;

static const api_value *value_at(const api_reader *reader, const json_t *json) {
    const api_value *value = json_is_integer(json) ? reader->values[json_integer_value(json)] : NULL;
    return value && value->fault.code == API_NO_ERROR ? value : NULL;
}

static bool is_bytes(const api_value *value) { return value->type == API_ELEMENT_BYTES; }

static bool bare_numbers(double x, numbers *n) {
    *n = (numbers){.count = 1, .bare = {x, 0}};
    return true;
}

static bool value_numbers(const api_value *value, api_dtype declared, numbers *n) {
    const size_t size = is_bytes(value) ? api_dtype_size(declared) : 1;
    if (size == 0 || value->count % size != 0) return false;
    *n = (numbers){.value = value, .declared = declared, .rank = value->rank};
    n->count = value->rank == 0 ? 1 : value->count / size;
    for (size_t i = 0; i < value->rank; i++) n->shape[i] = (double)value->shape[i];
    return true;
}

/* {"shape", "data"} or {"shape", "dtype", "base64"} */
static bool object_numbers(const api_reader *reader, const json_t *json, numbers *n) {
    const json_t *base64 = json_object_get(json, "base64"), *dtype = json_object_get(json, "dtype");
    const api_value *shape = value_at(reader, json_object_get(json, "shape"));
    const api_value *value = value_at(reader, base64 ? base64 : json_object_get(json, "data"));
    const api_dtype declared = json_is_string(dtype) ? api_dtype_of_name(json_string_value(dtype)) : API_DTYPE_NONE;
    if (!shape || is_bytes(shape) || shape->rank != 1 || shape->count > API_MAX_RANK) return false;
    if (!value || is_bytes(value) != (base64 != NULL) || !value_numbers(value, declared, n)) return false;
    double count = 1;
    n->rank = shape->count;
    for (size_t i = 0; i < n->rank; i++) count *= n->shape[i] = api_value_number(shape, API_DTYPE_NONE, i).value;
    return count == (double)n->count;
}

/* false: these are no numbers */
static bool find_numbers(const api_reader *reader, const json_t *json, numbers *n) {
    const api_value *value = value_at(reader, json);
    if (value && is_bytes(value) && value->dtype == API_DTYPE_NONE) return false; /* a string */
    if (value) return value_numbers(value, value->dtype, n);
    if (json_is_boolean(json)) return bare_numbers(json_is_true(json), n);
    if (json_is_object(json)) return object_numbers(reader, json, n);
    if (!json_is_string(json) || json_string_length(json) == 0) return false;
    char *end;
    const double x = strtod(json_string_value(json), &end); /* "1" is a scale */
    return *end == '\0' && bare_numbers(x, n);
}

static api_decimal number_at(const numbers *n, size_t i) {
    return n->value ? api_value_number(n->value, n->declared, i) : n->bare;
}

static bool same_numbers(const numbers *a, const numbers *b) {
    if (a->rank != b->rank || a->count != b->count) return false;
    for (size_t i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i]) return false;
    for (size_t i = 0; i < a->count; i++) {
        const api_decimal x = number_at(a, i), y = number_at(b, i);
        if (x.value != y.value || x.residual != y.residual) return false;
    }
    return true;
}

static bool same_strings(const api_value *a, const api_value *b) {
    return a && b && is_bytes(a) && is_bytes(b) && a->count == b->count &&
           (a->count == 0 || memcmp(a->data, b->data, a->count) == 0);
}

bool api_reader_same(const api_reader *reader, const json_t *a, const json_t *b) {
    const char *key;
    json_t *inner;
    numbers x, y;
    if (find_numbers(reader, a, &x) && find_numbers(reader, b, &y)) return same_numbers(&x, &y);
    if (json_typeof(a) != json_typeof(b)) return false;
    switch (json_typeof(a)) {
    case JSON_INTEGER: return same_strings(value_at(reader, a), value_at(reader, b));
    case JSON_ARRAY:
        if (json_array_size(a) != json_array_size(b)) return false;
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!api_reader_same(reader, json_array_get(a, i), json_array_get(b, i))) return false;
        return true;
    case JSON_OBJECT:
        if (json_object_size(a) != json_object_size(b)) return false;
        json_object_foreach((json_t *)a, key, inner) {
            const json_t *other = json_object_get(b, key);
            if (!other || !api_reader_same(reader, inner, other)) return false;
        }
        return true;
    default: return json_equal(a, b);
    }
}
