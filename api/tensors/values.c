/* reader_values.c: values of a reader that it did not read itself: tensors that came as bytes, and those of another
 * reader. */
#include <string.h>

#include "../json/reader_internal.h"

/* What stands for a new value in a skeleton; NULL: no memory. */
static json_t *list_value(api_reader *reader, api_value *value, api_place place) {
    if (!api_reader_grow(reader, &reader->values, &reader->values_capacity, reader->value_count + 1,
                         sizeof(api_value *)))
        return NULL;
    json_t *index = json_integer((json_int_t)reader->value_count);
    if (!index) return NULL;
    value->place = value->fault.place = place;
    reader->values[reader->value_count++] = value;
    return index;
}

static api_value *new_value(api_reader *reader) {
    api_value *value = api_small(reader->memory, sizeof *value);
    struct api_value_state *state = api_small(reader->memory, sizeof *state);
    if (!value || !state) return NULL;
    memset(value, 0, sizeof *value);
    *state = (struct api_value_state){.inexact = SIZE_MAX};
    value->state = state;
    return value;
}

/* Elements are used where they stand only if they stand as their type wants it. */
static bool place_bytes(api_reader *reader, api_value *value, void *bytes) {
    const size_t size = api_dtype_size(value->dtype);
    if (value->count == 0 || (uintptr_t)bytes % size == 0) {
        value->data = value->count ? bytes : NULL;
        value->state->capacity = value->count;
        value->state->borrowed = value->count > 0;
        return true;
    }
    if (!api_value_reserve(reader, value, value->count)) return false;
    memcpy(value->data, bytes, value->count);
    return true;
}

json_t *api_reader_add_tensor(api_reader *reader, api_place place, api_dtype dtype, size_t rank, const size_t *shape,
                              void *bytes, api_error *error) {
    reader->memory->over_budget = false;
    api_value *value = new_value(reader);
    if (value) {
        value->type = API_ELEMENT_BYTES;
        value->dtype = dtype;
        value->rank = rank;
        value->count = api_dtype_size(dtype);
        for (size_t i = 0; i < rank; i++) value->count *= value->shape[i] = shape[i];
        value->state->storage = API_STORE_BYTES;
    }
    if (value && rank == 0) value->state->bare = api_bytes_element(bytes, dtype);
    json_t *index = value && place_bytes(reader, value, bytes) ? list_value(reader, value, place) : NULL;
    if (!index) api_take_no_memory(reader, error);
    return index;
}

/* Changes each index of a skeleton. */
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
        api_take_no_memory(reader, error);
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

static bool same_elements(const api_value *a, const api_value *b) {
    const struct api_value_state *s = a->state, *t = b->state;
    if (a->type != b->type || a->dtype != b->dtype || a->rank != b->rank || a->count != b->count) return false;
    if (a->fault.code || b->fault.code || s->storage != t->storage) return false;
    if (a->rank > 0 && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0) return false;
    if (a->rank == 0 && a->type == API_ELEMENT_NUMBER)
        return s->bare.value == t->bare.value && s->bare.residual == t->bare.residual;
    const size_t size = s->storage == API_STORE_FLOAT                                       ? sizeof(float)
                        : s->storage == API_STORE_DOUBLE || s->storage == API_STORE_DECIMAL ? sizeof(double)
                                                                                            : 1;
    if (s->residual_count != t->residual_count) return false;
    if (s->residual_count && memcmp(s->residuals, t->residuals, s->residual_count * sizeof *s->residuals) != 0)
        return false;
    return a->count == 0 || memcmp(a->data, b->data, a->count * size) == 0;
}

bool api_reader_same(const api_reader *reader, const json_t *a, const json_t *b) {
    const char *key;
    json_t *inner;
    if (json_typeof(a) != json_typeof(b)) return false;
    switch (json_typeof(a)) {
    case JSON_INTEGER:
        return same_elements(reader->values[json_integer_value(a)], reader->values[json_integer_value(b)]);
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
