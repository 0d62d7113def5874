/* tensors.h: the numbers and tensors of a request, and their elements as one type (inside api/ only).
 *
 * A value is a number or tensor that is kept outside the document. While it is read its elements are stored as they
 * arrive: numbers as doubles (or floats, if the type that will be computed in is known), booleans as bytes, base64
 * decoded. The api_take_ functions then make one type of them, in place.
 */
#ifndef API_TENSORS_H
#define API_TENSORS_H

#include "../../core/attention.h"
#include "../base/error.h"
#include "../base/memory.h"
#include "../numbers/dtype.h"

#define API_MAX_RANK 8 /* of a nested tensor; deeper is too_deep */

typedef enum api_element_type {
    API_ELEMENT_NONE, /* an empty tensor */
    API_ELEMENT_NUMBER,
    API_ELEMENT_BOOLEAN,
    API_ELEMENT_BYTES, /* `count` bytes in `data`: base64, or a tensor that came as bytes */
} api_element_type;

typedef struct api_value {
    api_element_type type;
    api_dtype dtype; /* of a tensor that came as bytes with its shape; API_DTYPE_NONE for all others */
    api_place place; /* of its first byte: member and sub-member in document order, element 0 */
    size_t rank;     /* 0 bare number, 1 [..], 2 [[..],..] */
    size_t shape[API_MAX_RANK];
    size_t count;    /* elements, or bytes */
    void *data;      /* read elements with the api_take_ functions */
    api_error fault; /* first fault inside (wrong_type, ragged, too_deep ...); its pointer is relative to the value */

    /* ---- for the functions of this folder and the reader ---- */
    api_memory *memory;
    api_dtype stored; /* how elements lie in data; of API_ELEMENT_BYTES known when it is taken */
    size_t capacity;  /* bytes of data */
    bool borrowed;    /* data cannot be resized: it is part of a larger piece */
    bool special;     /* there is a NaN or an infinity: every number stored from digits is finite */
    size_t inexact;   /* of floats: the first element that became 0 or 1 only by rounding; SIZE_MAX: none */
    /* Elements whose decimal is not the double, where that matters (decimal.h): index * 2 + (residual > 0), ascending
     */
    uint64_t *residuals;
    size_t residual_count, residual_capacity;
    api_decimal bare; /* the number of a value of rank 0 */
} api_value;

/* In `memory`, which the value keeps. NULL: no memory. */
api_value *api_value_new(api_memory *memory, api_element_type type, size_t rank, api_place place);
/* Makes room for `bytes` of elements; returns data, aligned to 64. NULL: no memory, and all is as before. */
void *api_value_reserve(api_value *value, size_t bytes);
/* Gives back what is more than `bytes`. */
void api_value_shrink(api_value *value, size_t bytes);
/* Element `index` of a value without faults as a number, true being 1; declared: dtype of bytes, or that digits are
 * rounded to. */
api_decimal api_value_number(const api_value *value, api_dtype declared, size_t index);
/* JSON pointer of element `index`, appended to prefix: nested values by their shape ("/q/0/3"). */
void api_value_pointer(const api_value *value, const char *prefix, size_t index, char pointer[256]);
/* Sets an error at element `index` of a value. */
__attribute__((format(printf, 6, 7))) void api_value_error(const api_value *value, const char *prefix, size_t index,
                                                           api_code code, api_error *error, const char *detail, ...);
/* Whether a fault was found while the value was read; then error is set to it. */
bool api_value_has_fault(const api_value *value, const char *prefix, api_error *error);
/* The error of an allocation that failed: out_of_memory, or overloaded if the budget refused it. */
void api_no_memory(const api_memory *memory, api_error *error);

/* ---- base64 on its way into a value ----------------------------------------------------------------------------- */

typedef struct api_base64 {
    api_value *value;
    uint32_t bits;
    unsigned count, padding; /* characters of the group of four; how many of them are = */
} api_base64;

/* Decodes the next characters, in pieces of any length. Broken base64 is a fault of the value. false: no memory. */
bool api_base64_push(api_base64 *base64, const uint8_t *text, size_t length);
void api_base64_end(api_base64 *base64);

/* ---- taking: each value once; on failure *error is set (pointer = prefix + place inside) and NULL or false returned
 */

/* Elements as numbers of the compute type, rounded correctly from the decimal: once to `declared` if that is given
 * (text), then to the compute type. base64 bytes are numbers of `declared`. Errors: wrong_type (booleans, bytes that
 * are not whole numbers), out_of_range (the rounded value is infinite). NaN and infinities of tokens or bits pass, NaN
 * as the canonical quiet one; *finite: there were none. On an error *finite is false if value->data holds value->count
 * elements that stand before it, converted, among which there may be a NaN or an infinity: an earlier error, unless it
 * is blocked. value->count stays as it was (bytes for base64). Whether it fits a shape is for the caller to check.
 * prefix: "/q", "/q/data", "/q/base64". */
void *api_value_reals(api_value *value, attn_dtype compute, api_dtype declared, const char *prefix, bool *finite,
                      api_error *error);
/* Elements as bytes 0 or 1: all booleans, or all numbers 0 or 1 (another number: out_of_range, and the detail names
 * `bias`; booleans mixed with numbers: wrong_type). */
uint8_t *api_value_mask(api_value *value, api_dtype declared, const char *prefix, api_error *error);
/* Elements as integers: any number with an integral value; another is wrong_type, beyond 2^53 out_of_range. */
int64_t *api_value_integers(api_value *value, api_dtype declared, const char *prefix, api_error *error);

/* A list of axis lengths. Errors: as integers; wrong_type (not a flat list), shape_mismatch (more than API_MAX_RANK),
 * out_of_range (negative; the product of the lengths other than 0 exceeds 2^53, so that no stride overflows). *count:
 * the product of all. `name` begins the detail. */
bool api_value_axes(api_value *value, const char *prefix, const char *name, size_t *rank, size_t shape[API_MAX_RANK],
                    size_t *count, api_error *error);

/* A number without axes: bare in JSON, or a tensor of rank 0 that came as bytes */
static inline bool api_is_bare_number(const api_value *value) {
    return value->rank == 0 &&
           (value->type == API_ELEMENT_NUMBER || (value->dtype != API_DTYPE_NONE && value->dtype != API_BOOL));
}
/* A bare number as an integer, likewise, or as a number of the compute type (NaN and infinities: not_finite). */
bool api_take_integer(const api_value *value, const char *pointer, int64_t *result, api_error *error);
bool api_take_real(const api_value *value, attn_dtype compute, const char *pointer, double *result, api_error *error);

#endif
