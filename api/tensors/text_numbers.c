/* tensor_text.c: taking values that were written as numbers and booleans. */
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../json/reader_internal.h"

/* ---- dtypes ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {[API_DTYPE_NONE] = {"", 0}, [API_F64] = {"F64", 8},   [API_F32] = {"F32", 4}, [API_F16] = {"F16", 2},
              [API_BF16] = {"BF16", 2},   [API_BOOL] = {"BOOL", 1}, [API_I64] = {"I64", 8}, [API_I32] = {"I32", 4}};

api_dtype api_dtype_of_name(const char *name) {
    for (api_dtype dtype = API_F64; dtype <= API_I32; dtype++)
        if (strcmp(name, dtypes[dtype].name) == 0) return dtype;
    return API_DTYPE_NONE;
}

size_t api_dtype_size(api_dtype dtype) { return dtypes[dtype].size; }
const char *api_dtype_name(api_dtype dtype) { return dtypes[dtype].name; }

/* ---- errors ----------------------------------------------------------------------------------------------------- */

void api_value_pointer(const api_value *value, const char *prefix, size_t index, char pointer[256]) {
    snprintf(pointer, 256, "%s", prefix);
    if (value->type == API_ELEMENT_BYTES) return;
    size_t inner[API_MAX_RANK], product = 1; /* elements below one step of each axis */
    for (size_t i = value->rank; i-- > 0;) {
        inner[i] = product;
        product *= i > 0 && value->shape[i] ? value->shape[i] : 1;
    }
    for (size_t i = 0; i < value->rank; i++) {
        api_pointer_add_index(pointer, index / inner[i]);
        index %= inner[i];
    }
}

void api_take_error(const api_value *value, const char *prefix, size_t index, api_code code, api_error *error,
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

void api_take_fault(const api_value *value, const char *prefix, api_error *error) {
    char pointer[512];
    snprintf(pointer, sizeof pointer, "%s%s", prefix, value->fault.pointer);
    api_error_set(error, value->fault.code, value->fault.place, pointer, "%s", value->fault.detail);
}

void api_take_no_memory(const api_reader *reader, api_error *error) {
    const bool budget = reader->memory->over_budget;
    api_error_set(error, budget ? API_OVERLOADED : API_OUT_OF_MEMORY, API_PLACE_LAST, NULL,
                  budget ? "the requests in flight hold all memory that they may"
                         : "an allocation failed while tensors were converted");
}

void api_mask_error(const api_value *value, const char *prefix, size_t index, double number, api_error *error) {
    char got[32] = "a number near 0"; /* that rounded to it */
    if (number != 0) snprintf(got, sizeof got, "%.9g", number);
    api_take_error(value, prefix, index, API_OUT_OF_RANGE, error,
                   "expected booleans, or numbers 0 and 1, got %s; numbers to add to the scores belong in \"bias\"",
                   got);
}

/* ---- elements --------------------------------------------------------------------------------------------------- */

/* Walks the elements as decimals. */
typedef struct walk {
    const api_value *value;
    size_t residual; /* the next one of the list */
} walk;

/* Element i; each call with a larger i than before. */
static api_decimal element(walk *w, size_t i) {
    const struct api_value_state *state = w->value->state;
    if (state->storage == API_STORE_FLOAT) return (api_decimal){((const float *)w->value->data)[i], 0};
    api_decimal decimal = {((const double *)w->value->data)[i], 0};
    if (w->residual < state->residual_count && state->residuals[w->residual] / 2 == i)
        decimal.residual = state->residuals[w->residual++] & 1 ? 1 : -1;
    return decimal;
}

static api_decimal rounded_to(api_decimal decimal, api_dtype declared) {
    switch (declared) {
    case API_F64: return (api_decimal){decimal.value, 0};
    case API_F32: return (api_decimal){api_decimal_round_f32(decimal), 0};
    case API_F16: return (api_decimal){api_decimal_round_f16(decimal), 0};
    case API_BF16: return (api_decimal){api_decimal_round_bf16(decimal), 0};
    default: return decimal;
    }
}

/* A bare number becomes a tensor of one element; an empty tensor gets memory. false: error is set. */
static bool have_data(api_reader *reader, api_value *value, const char *prefix, api_error *error) {
    struct api_value_state *state = value->state;
    if (value->data) return true;
    if (!api_value_reserve(reader, value, sizeof(double))) {
        api_take_no_memory(reader, error);
        return false;
    }
    if (value->rank > 0) return true;
    *(double *)value->data = state->bare.value;
    state->special = !isfinite(state->bare.value);
    if (state->bare.residual == 0) return true;
    if (state->special) { /* digits, not a token */
        api_take_error(value, prefix, 0, API_OUT_OF_RANGE, error, "expected a number within float64, got a larger one");
        return false;
    }
    state->residuals = api_small(reader->memory, sizeof *state->residuals);
    if (!state->residuals) {
        api_take_no_memory(reader, error);
        return false;
    }
    state->residuals[0] = state->bare.residual > 0;
    state->residual_count = 1;
    return true;
}

/* true where the value was broken; what stands before the fault was looked at already */
static bool is_broken(const api_value *value, const char *prefix, api_error *error) {
    if (value->fault.code == API_NO_ERROR) return false;
    api_take_fault(value, prefix, error);
    return true;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* Doubles to floats in place, where no residual lies between `from` and `to`. Returns the first that overflows, or to.
 * By way of a small copy, since the compiler cannot know that the floats never overtake the doubles. */
static size_t narrow(api_value *value, size_t from, size_t to) {
    enum { STEP = 64 };
    const double *const in = value->data;
    float *const out = value->data;
    for (size_t i = from; i < to; i += STEP) {
        double part[STEP];
        const size_t count = to - i < STEP ? to - i : STEP;
        memcpy(part, in + i, count * sizeof *part);
        for (size_t j = 0; j < count; j++) {
            const float x = (float)part[j];
            if (isinf(x) && !isinf(part[j])) return i + j;
            memcpy(out + i + j, &x, sizeof x);
        }
    }
    return to;
}

/* The same for any declared type, one by one. */
static size_t convert(api_value *value, size_t count, attn_dtype compute, api_dtype declared) {
    walk w = {value, 0};
    for (size_t i = 0; i < count; i++) {
        api_decimal decimal = element(&w, i);
        const bool finite = isfinite(decimal.value);
        decimal = rounded_to(decimal, declared);
        if (compute == ATTN_F64) {
            memcpy((double *)value->data + i, &decimal.value, sizeof(double));
        } else {
            const float x = api_decimal_round_f32(decimal);
            if (isinf(x)) decimal.value = (double)x;
            memcpy((float *)value->data + i, &x, sizeof x);
        }
        if (finite && isinf(decimal.value)) return i;
    }
    return count;
}

/* Without a declared type to float: the residuals are few, and what is between them goes fast. */
static size_t convert_to_float(api_value *value) {
    const struct api_value_state *state = value->state;
    size_t from = 0;
    for (size_t r = 0; r < state->residual_count; r++) {
        const size_t at = (size_t)(state->residuals[r] / 2);
        const size_t reached = narrow(value, from, at);
        if (reached < at) return reached;
        const float x =
            api_decimal_round_f32((api_decimal){((const double *)value->data)[at], state->residuals[r] & 1 ? 1 : -1});
        if (isinf(x)) return at;
        memcpy((float *)value->data + at, &x, sizeof x);
        from = at + 1;
    }
    return narrow(value, from, value->count);
}

void *api_take_reals(api_reader *reader, api_value *value, attn_dtype compute, api_dtype declared, const char *prefix,
                     bool *finite, api_error *error) {
    const struct api_value_state *state = value->state;
    if (value->type == API_ELEMENT_BYTES)
        return api_bytes_to_reals(reader, value, compute, declared, prefix, finite, error);
    if (!have_data(reader, value, prefix, error)) return NULL;
    if (value->type == API_ELEMENT_BOOLEAN || declared == API_BOOL) {
        api_take_error(value, prefix, 0, API_WRONG_TYPE, error, "expected numbers, got booleans");
        return NULL;
    }
    *finite = true;
    size_t reached = value->count;
    const bool integers = declared == API_I64 || declared == API_I32;
    if (state->storage == API_STORE_DECIMAL) {
        const char *why;
        walk w = {value, 0};
        for (size_t i = 0; integers && i < value->count; i++) {
            const api_code code = api_integer_fault(element(&w, i), declared, &why);
            if (code == API_NO_ERROR) continue;
            api_take_error(value, prefix, i, code, error, "%s", why);
            return NULL;
        }
        if (declared != API_DTYPE_NONE)
            reached = convert(value, value->count, compute, declared);
        else if (compute == ATTN_F32)
            reached = convert_to_float(value);
        if (reached < value->count) {
            api_take_error(value, prefix, reached, API_OUT_OF_RANGE, error,
                           "expected a number within %s, got a larger one%s",
                           declared == API_F16    ? "F16"
                           : declared == API_BF16 ? "BF16"
                           : declared == API_F32  ? "F32"
                                                  : "float32",
                           declared == API_DTYPE_NONE ? " (\"dtype\": \"float64\" holds more)" : "");
            value->count = reached;
            *finite = !state->special;
            return NULL;
        }
    } else {
        assert(state->storage == (compute == ATTN_F64 ? API_STORE_DOUBLE : API_STORE_FLOAT));
    }
    *finite = !state->special;
    if (is_broken(value, prefix, error)) return NULL;
    if (state->storage == API_STORE_DECIMAL && compute == ATTN_F32)
        api_value_shrink(reader, value, value->count * sizeof(float));
    return value->data;
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

uint8_t *api_take_mask(api_reader *reader, api_value *value, api_dtype declared, const char *prefix, api_error *error) {
    const struct api_value_state *state = value->state;
    if (value->type == API_ELEMENT_BYTES) return api_bytes_to_mask(reader, value, declared, prefix, error);
    if (!have_data(reader, value, prefix, error)) return NULL;
    if (value->type == API_ELEMENT_BOOLEAN) {
        if (declared == API_DTYPE_NONE || declared == API_BOOL)
            return is_broken(value, prefix, error) ? NULL : (uint8_t *)value->data;
        api_take_error(value, prefix, 0, API_WRONG_TYPE, error, "expected numbers of the dtype %s, got booleans",
                       api_dtype_name(declared));
        return NULL;
    }
    walk w = {value, 0};
    for (size_t i = 0; i < value->count; i++) {
        const api_decimal decimal = rounded_to(element(&w, i), declared);
        const bool inexact = decimal.residual != 0 || (i == state->inexact && declared == API_DTYPE_NONE);
        if (inexact || (decimal.value != 0 && decimal.value != 1)) {
            api_mask_error(value, prefix, i, decimal.value, error);
            return NULL;
        }
        ((uint8_t *)value->data)[i] = decimal.value != 0;
    }
    if (is_broken(value, prefix, error)) return NULL;
    api_value_shrink(reader, value, value->count);
    return value->data;
}

/* ---- integers --------------------------------------------------------------------------------------------------- */

api_code api_integer_fault(api_decimal decimal, api_dtype declared, const char **why) {
    const double limit = declared == API_I32 ? 0x1p31 : 0x1p53, x = decimal.value;
    const int outward = x < 0 ? -decimal.residual : decimal.residual;
    if (!isfinite(x) && decimal.residual == 0) {
        *why = "expected an integer, got NaN or an infinity";
        return API_NOT_FINITE;
    }
    if (fabs(x) > limit || (fabs(x) == limit && (outward > 0 || (declared == API_I32 && x > 0)))) {
        *why = declared == API_I32 ? "expected an integer of 32 bits, got a larger one"
                                   : "expected an integer up to 2^53, got a larger one";
        return API_OUT_OF_RANGE;
    }
    if (x != floor(x) || decimal.residual != 0) {
        *why = "expected an integer, got another number";
        return API_WRONG_TYPE;
    }
    return API_NO_ERROR;
}

int64_t *api_take_integers(api_reader *reader, api_value *value, api_dtype declared, const char *prefix,
                           api_error *error) {
    if (value->type == API_ELEMENT_BYTES) return api_bytes_to_integers(reader, value, declared, prefix, error);
    if (!have_data(reader, value, prefix, error)) return NULL;
    if (value->type == API_ELEMENT_BOOLEAN || declared == API_BOOL) {
        api_take_error(value, prefix, 0, API_WRONG_TYPE, error, "expected integers, got booleans");
        return NULL;
    }
    walk w = {value, 0};
    for (size_t i = 0; i < value->count; i++) {
        const char *why;
        const api_code code = api_integer_fault(rounded_to(element(&w, i), declared), declared, &why);
        if (code == API_NO_ERROR) continue;
        api_take_error(value, prefix, i, code, error, "%s", why);
        return NULL;
    }
    if (is_broken(value, prefix, error)) return NULL;
    if (!api_value_reserve(reader, value, value->count * sizeof(int64_t))) {
        api_take_no_memory(reader, error);
        return NULL;
    }
    for (size_t i = value->count; i-- > 0;) { /* backwards: floats become wider */
        const double x = value->state->storage == API_STORE_FLOAT ? (double)((const float *)value->data)[i]
                                                                  : ((const double *)value->data)[i];
        const int64_t integer = (int64_t)rounded_to((api_decimal){x, 0}, declared).value;
        memcpy((char *)value->data + i * sizeof integer, &integer, sizeof integer);
    }
    return value->data;
}

/* ---- bare numbers ----------------------------------------------------------------------------------------------- */

static bool is_bare(const api_value *value, const char *pointer, const char *wanted, api_error *error) {
    if (api_is_bare_number(value)) return true;
    api_error_set(error, API_WRONG_TYPE, value->place, pointer, "expected %s, got %s", wanted,
                  value->type == API_ELEMENT_BYTES ? "a string" : "an array");
    return false;
}

bool api_take_integer(const api_value *value, const char *pointer, int64_t *result, api_error *error) {
    if (!is_bare(value, pointer, "an integer", error)) return false;
    const char *why;
    const api_code code = api_integer_fault(value->state->bare, API_DTYPE_NONE, &why);
    if (code != API_NO_ERROR) {
        api_error_set(error, code, value->place, pointer, "%s", why);
        return false;
    }
    *result = (int64_t)value->state->bare.value;
    return true;
}

bool api_take_real(const api_value *value, attn_dtype compute, const char *pointer, double *result, api_error *error) {
    if (!is_bare(value, pointer, "a number", error)) return false;
    const api_decimal bare = value->state->bare;
    const double x = compute == ATTN_F64 ? bare.value : (double)api_decimal_round_f32(bare);
    if (!isfinite(bare.value) && bare.residual == 0) {
        api_error_set(error, API_NOT_FINITE, value->place, pointer, "expected a finite number, got NaN or an infinity");
        return false;
    }
    if (isinf(x)) {
        api_error_set(error, API_OUT_OF_RANGE, value->place, pointer, "expected a number within %s, got a larger one",
                      compute == ATTN_F64 ? "float64" : "float32");
        return false;
    }
    *result = x;
    return true;
}
