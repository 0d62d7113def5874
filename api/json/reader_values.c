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

bool api_reader_same(const api_reader *reader, const json_t *a, const json_t *b) {
    const char *key;
    json_t *inner;
    if (json_typeof(a) != json_typeof(b)) return false;
    switch (json_typeof(a)) {
    case JSON_INTEGER:
        return api_value_same(reader->values[json_integer_value(a)], reader->values[json_integer_value(b)]);
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
