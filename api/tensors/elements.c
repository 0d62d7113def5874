#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../numbers/half.h"
#include "tensors.h"

/* ---- elements --------------------------------------------------------------------------------------------------- */

/* Walks the elements as decimals, from the first on. */
typedef struct walk {
    const api_value *value;
    const api_dtype_row *stored, *rounded; /* rounded: the type that a decimal is rounded to first; NULL: none */
    size_t residual;                       /* the next one of the list */
} walk;

static walk walk_of(const api_value *value, api_dtype declared) {
    const bool rounds = value->type != API_ELEMENT_BYTES && api_dtypes[declared].round;
    return (walk){value, &api_dtypes[value->stored], rounds ? &api_dtypes[declared] : NULL, 0};
}

/* Element i, whose bytes are given; each call with a larger i than before. */
static api_decimal read_at(walk *w, size_t i, const void *bytes) {
    const api_value *value = w->value;
    api_decimal decimal = w->stored->read(bytes);
    if (w->residual < value->residual_count && value->residuals[w->residual] / 2 == i)
        decimal.residual = value->residuals[w->residual++] & 1 ? 1 : -1;
    return w->rounded ? (api_decimal){w->rounded->round(decimal), 0} : decimal;
}

static api_decimal element(walk *w, size_t i) {
    return read_at(w, i, (const char *)w->value->data + i * w->stored->size);
}

api_decimal api_value_number(const api_value *value, api_dtype declared, size_t index) {
    if (!value->data) return value->bare;
    walk w = walk_of(value, declared);
    if (value->type == API_ELEMENT_BYTES) w.stored = &api_dtypes[declared];
    while (w.residual < value->residual_count && value->residuals[w.residual] / 2 < index) w.residual++;
    return element(&w, index);
}

/* A bare number becomes a tensor of one element, an empty tensor gets memory. false: error is set. */
static bool have_data(api_value *value, const char *prefix, api_error *error) {
    if (value->data) return true;
    if (!api_value_reserve(value, sizeof(double))) {
        api_no_memory(value->memory, error);
        return false;
    }
    if (value->stored == API_DTYPE_NONE) value->stored = API_F64;
    if (value->type == API_ELEMENT_BYTES || value->rank > 0) return true;
    *(double *)value->data = value->bare.value;
    value->special = !isfinite(value->bare.value);
    if (value->bare.residual == 0) return true;
    if (value->special) { /* digits, not a token */
        api_value_error(value, prefix, 0, API_OUT_OF_RANGE, error,
                        "expected a number within float64, got a larger one");
        return false;
    }
    value->residuals = api_small(value->memory, sizeof *value->residuals);
    if (!value->residuals) {
        api_no_memory(value->memory, error);
        return false;
    }
    value->residuals[0] = value->bare.residual > 0;
    value->residual_count = 1;
    return true;
}

/* Makes the elements ready to be looked at; *count of them. false: error is set. */
static bool begin(api_value *value, api_dtype declared, const char *prefix, size_t *count, api_error *error) {
    *count = value->count;
    if (value->type == API_ELEMENT_BYTES) {
        const size_t size = api_dtype_size(declared);
        if (api_value_has_fault(value, prefix, error)) return false;
        if (size == 0 || value->count % size != 0) {
            api_value_error(value, prefix, 0, API_WRONG_TYPE, error,
                            "expected a multiple of %zu bytes, the size of %s, got %zu bytes", size,
                            api_dtype_name(declared), value->count);
            return false;
        }
        *count /= size;
        value->stored = declared;
    }
    return have_data(value, prefix, error);
}

static bool is_boolean(const api_value *value, api_dtype declared, const char *wanted, const char *prefix,
                       api_error *error) {
    if (value->type != API_ELEMENT_BOOLEAN && declared != API_BOOL) return false;
    api_value_error(value, prefix, 0, API_WRONG_TYPE, error, "expected %s, got booleans", wanted);
    return true;
}

/* What is wrong with a number as an integer of the declared type; API_NO_ERROR: nothing. */
static api_code integer_fault(api_decimal decimal, api_dtype declared, const char **why) {
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

/* false: an element is not an integer of the declared type, error is set */
static bool are_integers(const api_value *value, size_t count, api_dtype declared, const char *prefix,
                         api_error *error) {
    walk w = walk_of(value, declared);
    for (size_t i = 0; i < count; i++) {
        const char *why;
        const api_code code = integer_fault(element(&w, i), declared, &why);
        if (code == API_NO_ERROR) continue;
        api_value_error(value, prefix, i, code, error, "%s", why);
        return false;
    }
    return true;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* Elements are converted in place, a block at a time by way of the stack: their sizes differ. */
enum { BLOCK = API_DTYPE_BLOCK };

/* Makes every NaN the quiet one. false: a number is not finite. count <= BLOCK; inlined, since the loop is vectorized
 * only for a count that is constant. */
__attribute__((always_inline)) static inline bool settle_floats(float *x, size_t count) {
    uint32_t infinite = 0;
    for (size_t i = 0; i < count; i++) infinite |= (uint32_t)((api_bits_of_float(x[i]) & 0x7F800000) == 0x7F800000);
    for (size_t i = 0; infinite && i < count; i++)
        if (isnan(x[i])) x[i] = NAN;
    return !infinite;
}
static bool settle_doubles(double *x, size_t count) {
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        finite &= isfinite(x[i]) != 0;
        if (isnan(x[i])) x[i] = (double)NAN;
    }
    return finite;
}

static bool has_residual(const walk *w, size_t end) {
    return w->residual < w->value->residual_count && w->value->residuals[w->residual] / 2 < end;
}

/* The elements [first, first + count) that lie in `in` as floats, or as doubles. */
static void to_floats(walk *w, size_t first, size_t count, const uint8_t *in, float *out) {
    if (!w->rounded && w->stored->to_floats && !has_residual(w, first + count)) {
        w->stored->to_floats(in, out);
        return;
    }
    for (size_t i = 0; i < count; i++) out[i] = api_decimal_round_f32(read_at(w, first + i, in + i * w->stored->size));
}
static void to_doubles(walk *w, size_t first, size_t count, const uint8_t *in, double *out) {
    float narrow[BLOCK];
    if (w->rounded || !w->stored->to_floats || w->stored->size == sizeof *out) {
        for (size_t i = 0; i < count; i++) out[i] = read_at(w, first + i, in + i * w->stored->size).value;
        return;
    }
    w->stored->to_floats(in, narrow);
    for (size_t i = 0; i < BLOCK; i++) out[i] = (double)narrow[i];
}

/* Converts the elements [first, first + count), count <= BLOCK. Returns the first of them that is finite, but does not
 * fit; SIZE_MAX: all fit. */
static size_t convert(walk *w, size_t first, size_t count, attn_dtype compute, bool *finite) {
    uint8_t in[BLOCK * sizeof(double)] = {0};
    float floats[BLOCK] = {0};
    double doubles[BLOCK] = {0};
    const size_t size = w->stored->size, wide = attn_sizeof(compute);
    char *const data = w->value->data;
    memcpy(in, data + first * size, count * size);
    bool all;
    if (compute == ATTN_F32) {
        to_floats(w, first, count, in, floats);
        all = settle_floats(floats, BLOCK);
    } else {
        to_doubles(w, first, count, in, doubles);
        all = settle_doubles(doubles, BLOCK);
    }
    memcpy(data + first * wide, compute == ATTN_F32 ? (void *)floats : (void *)doubles, count * wide);
    *finite &= all;
    for (size_t i = 0; !all && i < count; i++)
        if (isinf(compute == ATTN_F32 ? (double)floats[i] : doubles[i]) &&
            isfinite(w->stored->read(in + i * size).value))
            return first + i;
    return SIZE_MAX;
}

static void too_large(const api_value *value, size_t index, api_dtype declared, const char *prefix, api_error *error) {
    const bool rounds = value->type != API_ELEMENT_BYTES && declared != API_DTYPE_NONE && declared != API_F64;
    char where[40] = ""; /* a pointer to base64 says nothing of the element */
    if (value->type == API_ELEMENT_BYTES) snprintf(where, sizeof where, "element %zu: ", index);
    api_value_error(value, prefix, index, API_OUT_OF_RANGE, error, "%sexpected a number within %s, got a larger one%s",
                    where, rounds ? api_dtype_name(declared) : "float32", rounds ? "" : "; try \"dtype\": \"float64\"");
}

/* Converts all elements. false: one does not fit, error is set, and value->count is the number of those before it. */
static bool convert_all(api_value *value, size_t count, attn_dtype compute, api_dtype declared, const char *prefix,
                        bool *finite, api_error *error) {
    walk w = walk_of(value, declared);
    const size_t blocks = (count + BLOCK - 1) / BLOCK;
    const bool backwards = attn_sizeof(compute) > w.stored->size; /* wider elements must not overtake; no residuals */
    for (size_t i = 0; i < blocks; i++) {
        const size_t first = (backwards ? blocks - 1 - i : i) * BLOCK;
        const size_t beyond = convert(&w, first, count - first < BLOCK ? count - first : BLOCK, compute, finite);
        if (beyond == SIZE_MAX) continue;
        too_large(value, beyond, declared, prefix, error);
        value->count = beyond;
        return false;
    }
    return true;
}

/* Bytes that are of the compute type already. */
static void settle_all(void *data, size_t count, attn_dtype compute, bool *finite) {
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t part = count - first < BLOCK ? count - first : BLOCK;
        if (compute == ATTN_F64)
            *finite &= settle_doubles((double *)data + first, part);
        else
            *finite &= part == BLOCK ? settle_floats((float *)data + first, BLOCK)
                                     : settle_floats((float *)data + first, part);
    }
}

void *api_value_reals(api_value *value, attn_dtype compute, api_dtype declared, const char *prefix, bool *finite,
                      api_error *error) {
    size_t count;
    const size_t wide = attn_sizeof(compute);
    if (is_boolean(value, declared, "numbers", prefix, error)) return NULL;
    if (!begin(value, declared, prefix, &count, error)) return NULL;
    const bool text = value->type != API_ELEMENT_BYTES;
    if (text && api_dtypes[declared].kind == API_KIND_INTEGER && !are_integers(value, count, declared, prefix, error))
        return NULL;
    if (!api_value_reserve(value, count * wide)) {
        api_no_memory(value->memory, error);
        return NULL;
    }
    *finite = true;
    const bool same = value->stored == (compute == ATTN_F32 ? API_F32 : API_F64);
    if (!same || (text && declared != API_DTYPE_NONE && declared != value->stored)) {
        if (!convert_all(value, count, compute, declared, prefix, finite, error)) return NULL;
    } else if (text) {
        *finite = !value->special;
    } else {
        settle_all(value->data, count, compute, finite);
    }
    if (api_value_has_fault(value, prefix, error)) return NULL;
    api_value_shrink(value, count * wide);
    return value->data;
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

/* A block of elements that are all exactly 0 or 1 as bytes. false: one is not, or the type is a rare one. */
static bool make_mask_block(api_dtype stored, const void *in, uint8_t *out) {
    bool all = true;
    if (stored == API_BOOL) {
        const uint8_t *const x = in;
        for (size_t i = 0; i < BLOCK; i++) all &= (out[i] = x[i]) <= 1;
    } else if (stored == API_F32) {
        const float *const x = in;
        for (size_t i = 0; i < BLOCK; i++) all &= (x[i] == 0) | (out[i] = x[i] == 1);
    } else if (stored == API_F64) {
        const double *const x = in;
        for (size_t i = 0; i < BLOCK; i++) all &= (x[i] == 0) | (out[i] = x[i] == 1);
    }
    return all && (stored == API_BOOL || stored == API_F32 || stored == API_F64);
}

/* The first element that is neither 0 nor 1, all before it made bytes; count: there is none. */
static size_t make_mask(api_value *value, size_t count, api_dtype declared, double *number) {
    walk w = walk_of(value, declared);
    uint8_t *const mask = value->data;
    const bool exact = !w.rounded && value->residual_count == 0 && value->inexact == SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        _Alignas(64) uint8_t in[BLOCK * sizeof(double)], out[BLOCK];
        if (exact && i % BLOCK == 0 && count - i >= BLOCK) {
            memcpy(in, mask + i * w.stored->size, BLOCK * w.stored->size);
            if (make_mask_block(value->stored, in, out)) {
                memcpy(mask + i, out, BLOCK);
                i += BLOCK - 1;
                continue;
            }
        }
        const api_decimal decimal = element(&w, i);
        const bool inexact = decimal.residual != 0 || (i == value->inexact && declared == API_DTYPE_NONE);
        *number = decimal.value;
        if (inexact || (decimal.value != 0 && decimal.value != 1)) return i;
        mask[i] = decimal.value != 0;
    }
    return count;
}

uint8_t *api_value_mask(api_value *value, api_dtype declared, const char *prefix, api_error *error) {
    size_t count;
    double number;
    if (!begin(value, declared, prefix, &count, error)) return NULL;
    if (value->type == API_ELEMENT_BOOLEAN && declared != API_DTYPE_NONE && declared != API_BOOL) {
        api_value_error(value, prefix, 0, API_WRONG_TYPE, error, "expected numbers of the dtype %s, got booleans",
                        api_dtype_name(declared));
        return NULL;
    }
    const size_t reached = value->type == API_ELEMENT_BOOLEAN ? count : make_mask(value, count, declared, &number);
    if (reached < count) {
        char got[32] = "a number near 0"; /* that was rounded to it */
        if (number != 0) snprintf(got, sizeof got, "%.9g", number);
        api_value_error(value, prefix, reached, API_OUT_OF_RANGE, error,
                        "expected booleans, or numbers 0 and 1, got %s; use \"bias\" for numbers to add to the scores",
                        got);
        return NULL;
    }
    if (api_value_has_fault(value, prefix, error)) return NULL;
    api_value_shrink(value, count);
    return value->data;
}

/* ---- integers --------------------------------------------------------------------------------------------------- */

int64_t *api_value_integers(api_value *value, api_dtype declared, const char *prefix, api_error *error) {
    size_t count;
    if (is_boolean(value, declared, "integers", prefix, error)) return NULL;
    if (!begin(value, declared, prefix, &count, error)) return NULL;
    if (!are_integers(value, count, declared, prefix, error) || api_value_has_fault(value, prefix, error)) return NULL;
    if (!api_value_reserve(value, count * sizeof(int64_t))) {
        api_no_memory(value->memory, error);
        return NULL;
    }
    const api_dtype_row *stored = &api_dtypes[value->stored];
    for (size_t i = count; i-- > 0;) { /* backwards: elements may become wider */
        const double x = stored->read((const char *)value->data + i * stored->size).value;
        const int64_t integer =
            (int64_t)(api_dtypes[declared].round ? api_dtypes[declared].round((api_decimal){x, 0}) : x);
        memcpy((char *)value->data + i * sizeof integer, &integer, sizeof integer);
    }
    return value->data;
}

bool api_value_axes(api_value *value, const char *prefix, const char *name, size_t *rank, size_t shape[API_MAX_RANK],
                    size_t *count, api_error *error) {
    const int64_t *lengths = api_value_integers(value, API_DTYPE_NONE, prefix, error);
    if (!lengths) return false;
    if (value->rank != 1) {
        api_error_set(error, API_WRONG_TYPE, value->place, prefix,
                      "%s: expected a list of axis lengths, got nested lists", name);
        return false;
    }
    if (value->count > API_MAX_RANK) {
        api_error_set(error, API_SHAPE_MISMATCH, value->place, prefix, "%s: expected at most 4 axes, got %zu", name,
                      value->count);
        return false;
    }
    size_t product = 1; /* of the lengths other than 0 */
    *rank = value->count;
    *count = 1;
    for (size_t i = 0; i < *rank; i++) {
        if (lengths[i] < 0) {
            api_value_error(value, prefix, i, API_OUT_OF_RANGE, error,
                            "%s: expected an axis length of at least 0, got %lld", name, (long long)lengths[i]);
            return false;
        }
        shape[i] = (size_t)lengths[i];
        if (shape[i] && __builtin_mul_overflow(product, shape[i], &product)) product = SIZE_MAX / 2 + 1;
        if (product > (size_t)1 << 53) {
            api_error_set(error, API_OUT_OF_RANGE, value->place, prefix,
                          "%s: expected a shape of at most 2^53 elements", name);
            return false;
        }
        *count = shape[i] ? *count : 0;
    }
    if (*count) *count = product;
    return true;
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
    const api_code code = integer_fault(value->bare, API_DTYPE_NONE, &why);
    if (code != API_NO_ERROR) {
        api_error_set(error, code, value->place, pointer, "%s", why);
        return false;
    }
    *result = (int64_t)value->bare.value;
    return true;
}

bool api_take_real(const api_value *value, attn_dtype compute, const char *pointer, double *result, api_error *error) {
    if (!is_bare(value, pointer, "a number", error)) return false;
    const double x = compute == ATTN_F64 ? value->bare.value : (double)api_decimal_round_f32(value->bare);
    if (!isfinite(value->bare.value) && value->bare.residual == 0) {
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
