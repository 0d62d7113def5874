#include "field_tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST = 4 }; /* nested arrays of a tensor: (batch, heads, n, d); a field may take more */

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
    va_list arguments;
    va_start(arguments, detail);
    api_form_faultv(form, tensor->field, place, pointer, breaks, code, detail, arguments);
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
    const double x =
        form->dtype == ATTN_F64 ? ((const double *)tensor->data)[i] : (double)((const float *)tensor->data)[i];
    api_tensor_fault(form, tensor, i, false, API_NOT_FINITE, "expected finite numbers, got %s",
                     isnan(x) ? "NaN" : "an infinity");
}

__attribute__((format(printf, 6, 7))) static void fault_at(api_form *form, api_field field, api_place place,
                                                           const char *pointer, api_code code, const char *detail,
                                                           ...) {
    va_list arguments;
    va_start(arguments, detail);
    api_form_faultv(form, field, place, pointer, true, code, detail, arguments);
    va_end(arguments);
}

/* An array whose first leaf is neither number nor boolean: the reader left it in the document. The fault is at that
 * leaf. */
static void fault_at_first_leaf(api_form *form, api_field field, const json_t *json) {
    char pointer[256];
    api_form_pointer(form, field, pointer);
    while (json_is_array(json) && json_array_size(json) > 0) {
        size_t i = 0; /* empty arrays before the leaf are passed over */
        while (i + 1 < json_array_size(json) && api_form_value(form, json_array_get(json, i))) i++;
        json = json_array_get(json, i);
        api_pointer_add_index(pointer, i);
    }
    fault_at(form, field, form->slots[field].place, pointer, API_WRONG_TYPE, "expected numbers, got %s",
             api_form_kind(form, json));
}

/* ---- an object {shape, dtype, data or base64}, or {shape, random, seed} ----------------------------------------- */

enum { SHAPE, DTYPE, DATA, BASE64, RANDOM, SEED };
static const api_field_row rows[] = {
    [SHAPE] = {"shape", API_INTEGERS, 1, 1, 0, NULL}, [DTYPE] = {"dtype", API_WORD, 0, 0, 0, NULL},
    [DATA] = {"data", API_TENSOR, 1, 1, 0, NULL},     [BASE64] = {"base64", API_WORD, 0, 0, 0, NULL},
    [RANDOM] = {"random", API_WORD, 0, 0, 0, NULL},   [SEED] = {"seed", API_INTEGER, 0, 0, 0, NULL},
};
static const api_field_table table = API_TABLE(rows);
static const api_schema members = {"tensor", {&table}, {NULL}};

typedef struct object {
    api_form form; /* of the members */
    api_tensor *tensor;
    api_dtype dtype;
} object;

/* Reads a value as elements of `kind`. false: fault; if numbers before it are not finite, those are in the tensor. */
static bool take(api_form *form, api_value *value, unsigned kind, api_dtype declared, api_tensor *t) {
    t->value = value;
    t->finite = true;
    if (kind == API_REALS)
        t->data = api_take_reals(form->reader, value, form->dtype, declared, t->prefix, &t->finite, form->error);
    else if (kind == API_MASK)
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

/* The list of numbers or booleans that a member is; NULL after a fault. `list` gets its prefix. */
static api_value *object_list(object *o, api_field member, const char *wanted, api_tensor *list) {
    char pointer[256];
    const json_t *json = o->form.slots[member].json;
    api_value *value = api_form_value(&o->form, json);
    api_form_pointer(&o->form, member, pointer);
    snprintf(list->prefix, sizeof list->prefix, "%.79s", pointer);
    if (value && value->rank > 0 && value->type != API_ELEMENT_BYTES) return value;
    if (json_is_array(json))
        fault_at_first_leaf(&o->form, member, json);
    else
        api_form_wrong_type(&o->form, member, wanted);
    return NULL;
}

static void object_read_shape(object *o) {
    api_tensor *t = o->tensor;
    const json_t *json = o->form.slots[SHAPE].json;
    if (!json) {
        api_form_missing(&o->form, "shape", "in a tensor that is an object");
        return;
    }
    api_tensor axes = {.field = SHAPE};
    api_value *value = object_list(o, SHAPE, "a list of axis lengths", &axes);
    if (!value) return;
    if (!take(&o->form, value, API_INTEGERS, API_DTYPE_NONE, &axes)) return;
    if (value->rank != 1) {
        api_form_fault(&o->form, SHAPE, API_WRONG_TYPE, "expected a list of axis lengths, got nested lists");
        return;
    }
    if (value->count > API_MAX_RANK) {
        api_form_fault(&o->form, SHAPE, API_SHAPE_MISMATCH,
                       "expected a list of at most 4 axis lengths, got %zu of them", value->count);
        return;
    }
    const int64_t *lengths = axes.data;
    size_t nonzero = 1; /* product of the axes that are not empty: no stride may overflow */
    t->rank = value->count;
    t->count = 1;
    for (size_t i = 0; i < t->rank; i++) {
        if (lengths[i] < 0) {
            api_tensor_fault(&o->form, &axes, i, true, API_OUT_OF_RANGE,
                             "expected an axis length of at least 0, got %lld", (long long)lengths[i]);
            return;
        }
        t->shape[i] = (size_t)lengths[i];
        t->count = api_times_sizes(t->count, t->shape[i]);
        if (t->shape[i] != 0) nonzero = api_times_sizes(nonzero, t->shape[i]);
    }
    if (nonzero > (size_t)1 << 53)
        api_form_fault(&o->form, SHAPE, API_OUT_OF_RANGE, "expected a shape of at most 2^53 elements, got more");
}

/* The kinds of tensor whose elements may come as a dtype. */
static unsigned kinds_of(api_dtype dtype) {
    switch (dtype) {
    case API_F64:
    case API_F32:
    case API_F16:
    case API_BF16: return API_REALS | API_MASK;
    case API_BOOL: return API_MASK;
    case API_I64:
    case API_I32: return API_INTEGERS | API_MASK;
    default: return 0;
    }
}

static const char *fitting_dtypes(unsigned kind) {
    return kind == API_REALS  ? "F64, F32, F16, BF16"
           : kind == API_MASK ? "BOOL, F64, F32, F16, BF16, I64, I32"
                              : "I64, I32";
}

static void object_read_dtype(object *o, unsigned kind) {
    const json_t *json = o->form.slots[DTYPE].json;
    if (!json) return;
    if (!json_is_string(json)) {
        api_form_wrong_type(&o->form, DTYPE, "the name of a dtype");
        return;
    }
    o->dtype = api_dtype_of_name(json_string_value(json));
    if (!(kinds_of(o->dtype) & kind))
        api_form_fault(&o->form, DTYPE, API_OUT_OF_RANGE, "expected a dtype of %s, got \"%.40s\"", fitting_dtypes(kind),
                       json_string_value(json));
}

/* the elements as numbers in a list */
static void object_take_data(object *o, unsigned kind) {
    api_tensor *t = o->tensor;
    api_value *value = object_list(o, DATA, "a flat list of numbers", t);
    if (!value) return;
    if (!take(&o->form, value, kind, o->dtype, t)) return;
    const bool nested = o->form.any_data_shape && value->rank == t->rank &&
                        memcmp(value->shape, t->shape, t->rank * sizeof *t->shape) == 0;
    if (value->rank != 1 && !nested)
        api_form_fault(&o->form, DATA, API_WRONG_TYPE, "expected a flat list of numbers, got nested arrays");
    else if (!o->form.broken && value->count != t->count) {
        char shape[API_SHAPE_TEXT];
        api_form_fault(&o->form, DATA, API_SHAPE_MISMATCH, "expected %zu numbers for the shape %s, got %zu", t->count,
                       api_shape_text(shape, t->rank, t->shape), value->count);
    }
}

/* the elements as little-endian bytes */
static void object_take_base64(object *o, unsigned kind) {
    api_tensor *t = o->tensor;
    const json_t *json = o->form.slots[BASE64].json;
    api_value *value = api_form_value(&o->form, json);
    if (!value || value->type != API_ELEMENT_BYTES) {
        api_form_wrong_type(&o->form, BASE64, "a string");
        return;
    }
    if (!o->form.slots[DTYPE].json) {
        api_form_missing(&o->form, "dtype", "beside base64");
        return;
    }
    strncat(t->prefix, "/base64", sizeof t->prefix - 1 - strlen(t->prefix));
    const size_t bytes = value->count, size = api_dtype_size(o->dtype);
    if (!o->form.broken && value->fault.code == API_NO_ERROR && bytes != api_times_sizes(t->count, size)) {
        char shape[API_SHAPE_TEXT];
        api_form_fault(&o->form, BASE64, API_SHAPE_MISMATCH, "expected %zu bytes for the shape %s of %s, got %zu",
                       api_times_sizes(t->count, size), api_shape_text(shape, t->rank, t->shape),
                       api_dtype_name(o->dtype), bytes);
        return;
    }
    if (o->dtype != API_DTYPE_NONE) take(&o->form, value, kind, o->dtype, t);
}

enum { AT_ONCE = 1 << 14, CHUNK = 1 << 14 }; /* random numbers: up to so many are made while the request is read */

/* Numbers that are not sent. Only the reader's memory is taken now; many numbers are made when the job runs. */
static void make_random(object *o, api_distribution distribution, int64_t seed) {
    api_tensor *t = o->tensor;
    api_form *form = &o->form;
    const api_dtype dtype = form->dtype == ATTN_F64 ? API_F64 : API_F32;
    api_value *value = api_value_new(form->memory, API_ELEMENT_NUMBER, 1, form->slots[SHAPE].place);
    api_random_tensor *random = value ? api_small(form->memory, sizeof *random) : NULL;
    if (!random || (t->count > 0 && !api_value_reserve(value, api_times_sizes(t->count, api_dtype_size(dtype))))) {
        api_error_memory(form->error, form->memory);
        form->broken = true;
        return;
    }
    value->shape[0] = value->count = t->held = t->count;
    value->stored = dtype;
    t->value = value;
    t->data = t->count > 0 ? value->data : no_elements;
    *random = (api_random_tensor){form->randoms->first, distribution, (uint64_t)seed, t->count, dtype, t->data};
    if (t->count <= AT_ONCE) {
        api_random_fill(distribution, random->seed, 0, t->count, dtype, t->data);
        return;
    }
    form->randoms->first = random;
    form->randoms->count += t->count;
}

static void object_take_random(object *o, unsigned kind) {
    static const char *const distributions[] = {[API_NORMAL] = "normal", [API_UNIFORM] = "uniform"};
    api_form *form = &o->form;
    size_t distribution;
    int64_t seed;
    if (kind != API_REALS)
        api_form_fault(form, RANDOM, API_OUT_OF_RANGE, "has a meaning only in a tensor of real numbers");
    if (api_form_has(form, DTYPE)) api_form_fault(form, DTYPE, API_OUT_OF_RANGE, "has no meaning beside \"random\"");
    if (!api_form_has(form, SEED)) api_form_missing(form, "seed", "beside \"random\"");
    if (!api_form_choice(form, RANDOM, distributions, 2, &distribution) || !api_form_integer(form, SEED, &seed)) return;
    if (seed < 0)
        api_form_fault(form, SEED, API_OUT_OF_RANGE, "expected an integer of at least 0, got %lld", (long long)seed);
    if (!form->broken) make_random(o, (api_distribution)distribution, seed);
}

typedef struct filling {
    const api_random_tensor *random;
    const atomic_bool *cancel;
} filling;

static void fill_chunk(void *arg, size_t item, size_t slot) {
    const filling *f = arg;
    const api_random_tensor *r = f->random;
    const size_t first = item * CHUNK, end = r->count - first < CHUNK ? r->count : first + CHUNK;
    (void)slot;
    if (!atomic_load_explicit(f->cancel, memory_order_relaxed))
        api_random_fill(r->distribution, r->seed, first, end, r->dtype,
                        (char *)r->data + first * api_dtype_size(r->dtype));
}

void api_random_tensors_fill(const api_random_tensors *randoms, attn_pool *pool, const atomic_bool *cancel) {
    for (const api_random_tensor *r = randoms->first; r; r = r->next) {
        filling f = {r, cancel};
        attn_pool_for(pool, (r->count + CHUNK - 1) / CHUNK, fill_chunk, &f);
    }
}

/* The one of DATA, BASE64 and RANDOM that is there. false: none, or two. */
static bool find_elements(object *o, api_field *found) {
    static const api_field ways[] = {DATA, BASE64, RANDOM};
    const api_slot *slots = o->form.slots;
    size_t count = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const api_field way = ways[i];
        if (!api_form_has(&o->form, way)) continue;
        if (count++ > 0)
            api_form_fault(&o->form, slots[*found].place.sub > slots[way].place.sub ? *found : way, API_OUT_OF_RANGE,
                           "expected \"%s\" or \"%s\", got both", rows[*found].name, rows[way].name);
        *found = way;
    }
    if (count == 0) api_form_missing(&o->form, "data", "or \"base64\" in a tensor that is an object");
    return count == 1;
}

static void read_object(api_form *form, unsigned kind, api_tensor *t) {
    object o = {.tensor = t};
    api_field way;
    if (!api_form_open(form, t->field, &members, &o.form)) return;
    object_read_shape(&o);
    object_read_dtype(&o, kind);
    if (find_elements(&o, &way)) {
        if (way != RANDOM && api_form_has(&o.form, SEED))
            api_form_fault(&o.form, SEED, API_OUT_OF_RANGE, "has a meaning only beside \"random\"");
        if (way == DATA) object_take_data(&o, kind);
        if (way == BASE64) object_take_base64(&o, kind);
        if (way == RANDOM) object_take_random(&o, kind);
    }
    t->ok = !o.form.broken;
    form->broken |= o.form.broken;
}

/* ---- nested arrays ---------------------------------------------------------------------------------------------- */

static void read_nested(api_form *form, api_value *value, unsigned kind, api_tensor *t) {
    if (!take(form, value, kind, API_DTYPE_NONE, t)) return;
    t->rank = value->rank;
    t->count = value->count;
    memcpy(t->shape, value->shape, sizeof t->shape);
    const unsigned most = form->slots[t->field].row->max_rank;
    const size_t deepest = most > DEEPEST ? most : DEEPEST;
    if (t->rank > deepest)
        api_form_fault(form, t->field, API_TOO_DEEP, "expected at most %zu nested arrays, got %zu", deepest, t->rank);
    else
        t->ok = true;
}

/* ---- bytes with their shape ------------------------------------------------------------------------------------- */

static void read_bytes(api_form *form, api_value *value, unsigned kind, api_tensor *t) {
    if (!(kinds_of(value->dtype) & kind)) {
        api_form_fault(form, t->field, API_OUT_OF_RANGE, "expected a dtype of %s, got %s", fitting_dtypes(kind),
                       api_dtype_name(value->dtype));
        return;
    }
    if (!take(form, value, kind, value->dtype, t)) return;
    t->rank = value->rank;
    t->count = value->count / api_dtype_size(value->dtype);
    memcpy(t->shape, value->shape, sizeof t->shape);
    t->ok = true;
}

/* ---- any spelling ----------------------------------------------------------------------------------------------- */

static void check_rank(api_form *form, api_tensor *t) {
    const api_field_row *row = form->slots[t->field].row;
    char shape[API_SHAPE_TEXT], axes[40];
    if (!t->ok || (t->rank >= row->min_rank && t->rank <= row->max_rank)) return;
    t->ok = false;
    if (row->min_rank == row->max_rank)
        snprintf(axes, sizeof axes, row->max_rank == 1 ? "%u axis" : "%u axes", row->max_rank);
    else
        snprintf(axes, sizeof axes, "%u %s %u axes", row->min_rank, row->max_rank - row->min_rank == 1 ? "or" : "to",
                 row->max_rank);
    api_form_fault(form, t->field, API_SHAPE_MISMATCH, "expected %s, got %zu: %s", axes, t->rank,
                   api_shape_text(shape, t->rank, t->shape));
}

void api_form_tensor(api_form *form, api_field field, api_tensor *tensor) {
    json_t *json = form->slots[field].json;
    const unsigned kind = form->slots[field].row->kinds & API_TENSOR;
    *tensor = (api_tensor){.field = field, .given = json != NULL, .finite = true};
    if (!json) return;
    char pointer[256];
    api_form_pointer(form, field, pointer);
    snprintf(tensor->prefix, sizeof tensor->prefix, "%.79s", pointer);
    api_value *value = api_form_value(form, json);
    if (value && value->dtype != API_DTYPE_NONE)
        read_bytes(form, value, kind, tensor);
    else if (value && value->rank > 0 && value->type != API_ELEMENT_BYTES)
        read_nested(form, value, kind, tensor);
    else if (json_is_object(json))
        read_object(form, kind, tensor);
    else if (json_is_array(json))
        fault_at_first_leaf(form, field, json);
    else
        api_form_wrong_type(form, field, "nested arrays or a tensor object");
    check_rank(form, tensor);
}
