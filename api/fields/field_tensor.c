#include "field_tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST = 4 }; /* nested arrays of any tensor of the contract: (batch, heads, n, d) */

/* what `data` of a tensor without elements points to */
static _Alignas(64) double no_elements[8];

void api_tensor_fault(api_form *form, const api_tensor *tensor, size_t element, bool breaks, api_code code,
                      const char *detail, ...) {
    char pointer[256];
    if (tensor->value->type == API_ELEMENT_BYTES)
        snprintf(pointer, sizeof pointer, "%s", tensor->prefix);
    else
        api_value_pointer(tensor->value, tensor->prefix, element, pointer);
    api_place place = tensor->value->place;
    place.element = element;
    if (breaks) form->broken = true;
    va_list arguments;
    va_start(arguments, detail);
    api_error_setv(form->error, code, place, pointer, detail, arguments);
    va_end(arguments);
}

/* x - x is 0 only for a finite x */
static size_t first_not_finite(const api_tensor *tensor, attn_dtype dtype) {
    size_t i = 0;
    if (dtype == ATTN_F64)
        for (const double *x = tensor->data; i < tensor->held && isfinite(x[i]); i++) {
        }
    else
        for (const float *x = tensor->data; i < tensor->held && isfinite(x[i]); i++) {
        }
    return i;
}

void api_tensor_require_finite(api_form *form, const api_tensor *tensor) {
    if (!tensor->data || tensor->finite) return;
    const size_t i = first_not_finite(tensor, form->dtype);
    if (i == tensor->held) return; /* it stands behind another fault */
    api_tensor_fault(
        form, tensor, i, false, API_NOT_FINITE, "%s: expected finite numbers, got %s", api_fields[tensor->field].name,
        isnan(form->dtype == ATTN_F64 ? ((const double *)tensor->data)[i] : ((const float *)tensor->data)[i])
            ? "NaN"
            : "an infinity");
}

/* An array whose first leaf is neither number nor boolean: the reader left it in the skeleton. The fault is at that
 * leaf. */
static void fault_at_first_leaf(api_form *form, api_field field, const json_t *json, api_place place,
                                const char *prefix) {
    char pointer[256];
    snprintf(pointer, sizeof pointer, "%s", prefix);
    while (json_is_array(json) && json_array_size(json) > 0) {
        size_t i = 0; /* empty arrays before the leaf are passed over */
        while (i + 1 < json_array_size(json) && api_form_value(form, json_array_get(json, i))) i++;
        json = json_array_get(json, i);
        api_pointer_add_index(pointer, i);
    }
    form->broken = true;
    api_error_set(form->error, API_WRONG_TYPE, place, pointer, "%s: expected numbers, got %s", api_fields[field].name,
                  api_form_kind(form, json));
}

/* ---- an object {shape, dtype, data or base64} ------------------------------------------------------------------- */

static const api_known_name members[] = {{"shape", ~0u}, {"dtype", ~0u}, {"data", ~0u}, {"base64", ~0u}};
enum { SHAPE, DTYPE, DATA, BASE64, MEMBER_COUNT };

typedef struct object {
    api_form *form;
    api_tensor *tensor;
    api_slot slots[MEMBER_COUNT];
    api_dtype dtype;
    bool ok;
} object;

__attribute__((format(printf, 4, 5))) static void object_fault(object *o, int member, api_code code, const char *detail,
                                                               ...) {
    char text[512], pointer[256] = "";
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    api_pointer_add(pointer, api_fields[o->tensor->field].name);
    if (member != MEMBER_COUNT) api_pointer_add(pointer, members[member].name);
    o->ok = false;
    o->form->broken = true;
    const api_place place = code == API_MISSING_FIELD ? API_PLACE_LAST
                            : member == MEMBER_COUNT  ? o->form->slots[o->tensor->field].place
                                                      : o->slots[member].place;
    api_error_set(o->form->error, code, place, pointer, "%s: %s", api_fields[o->tensor->field].name, text);
}

/* Reads a lifted value as `elements`. false: fault; where numbers before it are not finite, those are in the tensor. */
static bool take(api_form *form, api_value *value, api_elements elements, api_dtype declared, api_tensor *t) {
    t->value = value;
    t->finite = true;
    if (elements == API_REALS)
        t->data = api_take_reals(form->reader, value, form->dtype, declared, t->prefix, &t->finite, form->error);
    else if (elements == API_MASK)
        t->data = api_take_mask(form->reader, value, declared, t->prefix, form->error);
    else
        t->data = api_take_integers(form->reader, value, declared, t->prefix, form->error);
    t->held = value->count;
    if (t->data == NULL && value->count == 0 && value->fault.code == API_NO_ERROR) t->data = no_elements;
    if (t->data != NULL) {
        if (value->type == API_ELEMENT_BYTES) t->held /= api_dtype_size(declared);
        return true;
    }
    form->broken = true;
    if (!t->finite) t->data = value->data;
    return false;
}

static void object_sort_members(object *o, json_t *json) {
    const char *key;
    json_t *member;
    size_t index = 0;
    const size_t parent = o->form->slots[o->tensor->field].place.member;
    json_object_foreach(json, key, member) {
        const api_place place = api_reader_place(o->form->reader, parent, index++);
        const size_t known = api_known_find(members, MEMBER_COUNT, o->form->endpoint, key);
        if (known < MEMBER_COUNT) {
            o->slots[known] = (api_slot){json_is_null(member) ? NULL : member, place};
            continue;
        }
        char pointer[256] = "";
        api_pointer_add(pointer, api_fields[o->tensor->field].name);
        api_pointer_add(pointer, key);
        api_error_set(o->form->error, API_UNKNOWN_FIELD, place, pointer,
                      "unknown member \"%.100s\" of a tensor; the nearest known one is \"%s\"", key,
                      api_known_nearest(members, MEMBER_COUNT, o->form->endpoint, key));
    }
}

/* The list of numbers or booleans that a member is; NULL after a fault. `list` gets its prefix and, of the tensor,
 * its field. */
static api_value *object_list(object *o, int member, const char *wanted, api_tensor *list) {
    const json_t *json = o->slots[member].json;
    api_value *value = api_form_value(o->form, json);
    list->field = o->tensor->field;
    snprintf(list->prefix, sizeof list->prefix, "/%s/%s", api_fields[list->field].name, members[member].name);
    if (value && value->rank > 0 && value->type != API_ELEMENT_BYTES) return value;
    o->ok = false;
    if (json_is_array(json))
        fault_at_first_leaf(o->form, list->field, json, o->slots[member].place, list->prefix);
    else
        object_fault(o, member, API_WRONG_TYPE, "expected %s, got %s", wanted, api_form_kind(o->form, json));
    return NULL;
}

static void object_read_shape(object *o) {
    api_tensor *t = o->tensor;
    const json_t *json = o->slots[SHAPE].json;
    if (!json) {
        object_fault(o, MEMBER_COUNT, API_MISSING_FIELD, "a tensor written as an object needs \"shape\"");
        return;
    }
    api_tensor axes = {0};
    api_value *value = object_list(o, SHAPE, "a list of axis lengths", &axes);
    if (!value) return;
    if (!take(o->form, value, API_INTEGERS, API_DTYPE_NONE, &axes)) {
        o->ok = false;
        return;
    }
    if (value->rank != 1) {
        object_fault(o, SHAPE, API_WRONG_TYPE, "expected a list of axis lengths, got lists within a list");
        return;
    }
    if (value->count > API_MAX_RANK) {
        object_fault(o, SHAPE, API_SHAPE_MISMATCH, "expected a list of at most 4 axis lengths, got %zu of them",
                     value->count);
        return;
    }
    const int64_t *lengths = axes.data;
    size_t nonzero = 1; /* product of the axes that are not empty: no stride may overflow */
    t->rank = value->count;
    t->count = 1;
    for (size_t i = 0; i < t->rank; i++) {
        if (lengths[i] < 0) {
            o->ok = false;
            api_tensor_fault(o->form, &axes, i, true, API_OUT_OF_RANGE,
                             "%s: expected an axis length of at least 0, got %lld", api_fields[t->field].name,
                             (long long)lengths[i]);
            return;
        }
        t->shape[i] = (size_t)lengths[i];
        t->count = api_times_sizes(t->count, t->shape[i]);
        if (t->shape[i] != 0) nonzero = api_times_sizes(nonzero, t->shape[i]);
    }
    if (nonzero > (size_t)1 << 53)
        object_fault(o, SHAPE, API_OUT_OF_RANGE, "expected a shape of at most 2^53 elements, got more");
}

static bool dtype_fits(api_elements elements, api_dtype dtype) {
    switch (dtype) {
    case API_F64:
    case API_F32:
    case API_F16:
    case API_BF16: return elements != API_INTEGERS;
    case API_BOOL: return elements == API_MASK;
    case API_I64:
    case API_I32: return elements != API_REALS;
    default: return false;
    }
}

static const char *const fitting_dtypes[] = {[API_REALS] = "F64, F32, F16, BF16",
                                             [API_MASK] = "BOOL, F64, F32, F16, BF16, I64, I32",
                                             [API_INTEGERS] = "I64, I32"};

static void object_read_dtype(object *o, api_elements elements) {
    const json_t *json = o->slots[DTYPE].json;
    if (!json) return;
    if (!json_is_string(json)) {
        object_fault(o, DTYPE, API_WRONG_TYPE, "expected the name of a dtype, got %s", api_form_kind(o->form, json));
        return;
    }
    o->dtype = api_dtype_of_name(json_string_value(json));
    if (!dtype_fits(elements, o->dtype))
        object_fault(o, DTYPE, API_OUT_OF_RANGE, "expected a dtype of %s, got \"%.40s\"", fitting_dtypes[elements],
                     json_string_value(json));
}

/* the elements as numbers in a list */
static void object_take_data(object *o, api_elements elements) {
    api_tensor *t = o->tensor;
    api_value *value = object_list(o, DATA, "a flat list of numbers", t);
    if (!value) return;
    if (!take(o->form, value, elements, o->dtype, t)) {
        o->ok = false;
        return;
    }
    const bool nested = o->form->any_data_shape && value->rank == t->rank &&
                        memcmp(value->shape, t->shape, t->rank * sizeof *t->shape) == 0;
    if (value->rank != 1 && !nested)
        object_fault(o, DATA, API_WRONG_TYPE, "expected a flat list of numbers, got nested arrays");
    else if (o->ok && value->count != t->count) {
        char shape[API_SHAPE_TEXT];
        object_fault(o, DATA, API_SHAPE_MISMATCH, "expected %zu numbers for the shape %s, got %zu", t->count,
                     api_shape_text(shape, t->rank, t->shape), value->count);
    }
}

/* the elements as little-endian bytes */
static void object_take_base64(object *o, api_elements elements) {
    api_tensor *t = o->tensor;
    const json_t *json = o->slots[BASE64].json;
    api_value *value = api_form_value(o->form, json);
    if (!value || value->type != API_ELEMENT_BYTES) {
        object_fault(o, BASE64, API_WRONG_TYPE, "expected a string, got %s", api_form_kind(o->form, json));
        return;
    }
    if (!o->slots[DTYPE].json) {
        object_fault(o, MEMBER_COUNT, API_MISSING_FIELD, "base64 needs \"dtype\" beside it");
        return;
    }
    snprintf(t->prefix, sizeof t->prefix, "/%s/base64", api_fields[t->field].name);
    const size_t bytes = value->count, size = api_dtype_size(o->dtype);
    if (o->ok && value->fault.code == API_NO_ERROR && bytes != api_times_sizes(t->count, size)) {
        char shape[API_SHAPE_TEXT];
        object_fault(o, BASE64, API_SHAPE_MISMATCH, "expected %zu bytes for the shape %s of %s, got %zu",
                     api_times_sizes(t->count, size), api_shape_text(shape, t->rank, t->shape),
                     api_dtype_name(o->dtype), bytes);
        return;
    }
    if (o->dtype != API_DTYPE_NONE && !take(o->form, value, elements, o->dtype, t)) o->ok = false;
}

static void read_object(api_form *form, json_t *json, api_elements elements, api_tensor *t) {
    object o = {.form = form, .tensor = t, .ok = true};
    object_sort_members(&o, json);
    object_read_shape(&o);
    object_read_dtype(&o, elements);
    const bool data = o.slots[DATA].json, base64 = o.slots[BASE64].json;
    if (data && base64)
        object_fault(&o, o.slots[DATA].place.sub > o.slots[BASE64].place.sub ? DATA : BASE64, API_OUT_OF_RANGE,
                     "expected \"data\" or \"base64\", got both");
    else if (data)
        object_take_data(&o, elements);
    else if (base64)
        object_take_base64(&o, elements);
    else
        object_fault(&o, MEMBER_COUNT, API_MISSING_FIELD, "a tensor written as an object needs \"data\" or \"base64\"");
    t->ok = o.ok;
}

/* ---- nested arrays ---------------------------------------------------------------------------------------------- */

static void read_nested(api_form *form, api_value *value, api_elements elements, api_tensor *t) {
    if (!take(form, value, elements, API_DTYPE_NONE, t)) return;
    t->rank = value->rank;
    t->count = value->count;
    memcpy(t->shape, value->shape, sizeof t->shape);
    if (t->rank > DEEPEST)
        api_form_fault(form, t->field, API_TOO_DEEP, "%s: expected at most %d nested arrays, got %zu",
                       api_fields[t->field].name, DEEPEST, t->rank);
    else
        t->ok = true;
}

/* ---- bytes with their shape ------------------------------------------------------------------------------------- */

static void read_bytes(api_form *form, api_value *value, api_elements elements, api_tensor *t) {
    snprintf(t->prefix, sizeof t->prefix, "/%s", api_fields[t->field].name);
    if (!dtype_fits(elements, value->dtype)) {
        api_form_fault(form, t->field, API_OUT_OF_RANGE, "%s: expected a dtype of %s, got %s",
                       api_fields[t->field].name, fitting_dtypes[elements], api_dtype_name(value->dtype));
        return;
    }
    if (!take(form, value, elements, value->dtype, t)) return;
    t->rank = value->rank;
    t->count = value->count / api_dtype_size(value->dtype);
    memcpy(t->shape, value->shape, sizeof t->shape);
    t->ok = true;
}

void api_form_tensor(api_form *form, api_field field, api_elements elements, api_tensor *tensor) {
    json_t *json = form->slots[field].json;
    *tensor = (api_tensor){.field = field, .given = json != NULL, .finite = true};
    if (!json) return;
    snprintf(tensor->prefix, sizeof tensor->prefix, "/%s", api_fields[field].name);
    api_value *value = api_form_value(form, json);
    if (value && value->dtype != API_DTYPE_NONE)
        read_bytes(form, value, elements, tensor);
    else if (value && value->rank > 0 && value->type != API_ELEMENT_BYTES)
        read_nested(form, value, elements, tensor);
    else if (json_is_object(json))
        read_object(form, json, elements, tensor);
    else if (json_is_array(json))
        fault_at_first_leaf(form, field, json, form->slots[field].place, tensor->prefix);
    else
        api_form_wrong_type(form, field, "nested arrays or a tensor object");
}
