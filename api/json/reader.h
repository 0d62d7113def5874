/* request_reader.h: a push parser for JSON bodies that lifts numbers and tensors out while bytes arrive
 * (inside api/ only).
 *
 * It checks the grammar of RFC 8259 itself (plus the bare tokens NaN, Infinity, -Infinity as numbers), UTF-8, escapes
 * (no \u0000, no lone surrogate), to any depth, and knows line, column and byte of every fault. All numbers, arrays
 * whose first leaf is a number or a boolean (or that are empty or hold nothing but such arrays), and strings under the
 * key "base64" of an object below the top are lifted out as values; what is left is a small skeleton text in which each
 * value stands as its index (an integer), parsed at the end by jansson, duplicates rejected. So in the skeleton every
 * JSON integer is a value's index, and there are no other numbers.
 *
 *     {"q": [[1,2]], "v": {"shape": [1,2], "base64": "AAA="}, "causal": true, "scale": 0.5, "return": ["lse"]}
 *     {"q": 0,       "v": {"shape": 1,     "base64": 2},      "causal": true, "scale": 3,   "return": ["lse"]}
 */
#ifndef API_REQUEST_READER_H
#define API_REQUEST_READER_H

#include <jansson.h>

#include "../../core/attention.h"
#include "../base/error.h"
#include "../base/memory.h"

#define API_MAX_RANK 8 /* of a nested tensor; deeper is too_deep */

typedef enum api_element_type {
    API_ELEMENT_NONE, /* an empty tensor */
    API_ELEMENT_NUMBER,
    API_ELEMENT_BOOLEAN,
    API_ELEMENT_BYTES, /* a base64 string: `count` decoded bytes in `data` */
} api_element_type;

/* declared types of a tensor: names of safetensors */
typedef enum api_dtype { API_DTYPE_NONE, API_F64, API_F32, API_F16, API_BF16, API_BOOL, API_I64, API_I32 } api_dtype;

/* A value that was lifted out: a bare number (rank 0), an array of numbers or booleans, or base64 bytes; or a tensor
 * that came as bytes with its shape (api_reader_add_tensor). */
typedef struct api_value {
    api_element_type type;
    api_dtype dtype; /* of a tensor that came with its shape; API_DTYPE_NONE for all others */
    api_place place; /* of its first byte: member and sub-member in document order, element 0 */
    size_t rank;     /* nested depth: 0 bare number, 1 [..], 2 [[..],..]; axes of a tensor with its shape */
    size_t shape[API_MAX_RANK];
    size_t count;    /* elements (or bytes) */
    void *data;      /* type-erased elements, the reader's; see the api_take_ functions */
    api_error fault; /* first fault inside (wrong_type, ragged, too_deep ...), code API_NO_ERROR where none;
                      * its pointer is relative to the value ("/0/3") until the taker prefixes it */
    struct api_value_state *state; /* the reader's own */
} api_value;

typedef struct api_reader api_reader;

/* Small and fixed allocation; NULL: out of memory. The reader and its values live in `memory`. `expected_bytes` is
 * Content-Length, or 0: a hint for sizes, never trusted. */
api_reader *api_reader_new(api_memory *memory, uint64_t expected_bytes);

/* Takes the next bytes. After a fault of grammar, further bytes cost nothing. Returns false on a fault. */
bool api_reader_push(api_reader *reader, const void *bytes, size_t length);

/* Ends the document. On success returns the skeleton (a new reference: the caller decrefs), whatever its JSON type.
 * NULL: error is set to invalid_json (with line, column and byte in the detail; duplicates name the key),
 * out_of_memory, overloaded (budget), or a 422 for bounds (number of values, length of strings, depth), in
 * which case the well-formedness of the whole was still checked. Where the skeleton is whole in spite of such a 422,
 * both come: what stands before the error's place can still be looked at for an earlier one. */
json_t *api_reader_finish(api_reader *reader, api_error *error);

/* The value that skeleton integer `index` stands for; NULL where there is none (never in a skeleton of the reader). */
api_value *api_reader_value(api_reader *reader, json_int_t index);

/* The place of a member of the top object, or of a member of its object: both counted from 0 in document order, which
 * is the order of iteration of a jansson object; sub_index 0 where there is none. Places of values are counted alike.
 */
api_place api_reader_place(const api_reader *reader, size_t member_index, size_t sub_index);

/* ---- documents that did not come as one JSON text: their values come from elsewhere -------------------------------
 */

/* Adds a tensor of `rank` axes (at most API_MAX_RANK) whose elements came as bytes: row-major, little-endian, exactly
 * as many as the shape has. `place` is its member of the top object. The bytes stand in memory of the request, which
 * must live as long as the reader; they stay where they are and are converted there as far as size and alignment allow,
 * so nothing else may use them. Returns what stands for the value in a skeleton (a new reference); NULL: no memory,
 * error is set. */
json_t *api_reader_add_tensor(api_reader *reader, api_place place, api_dtype dtype, size_t rank, const size_t *shape,
                              void *bytes, api_error *error);

/* Moves all values of `other`, whose document `tree` was, to `reader`, and makes the tree a skeleton of it: each
 * value's index in it is changed. `place` becomes the place of the values. Returns the tree; NULL: no memory, error is
 * set, and the tree was given back. */
json_t *api_reader_adopt(api_reader *reader, api_place place, api_reader *other, json_t *tree, api_error *error);

/* true where two nodes of skeletons of this reader stand for the same JSON value: numbers as written, not rounded */
bool api_reader_same(const api_reader *reader, const json_t *a, const json_t *b);

/* ---- taking values: each once; on failure sets *error (pointer = prefix + place inside) and returns NULL/false -----
 */

api_dtype api_dtype_of_name(const char *name); /* API_DTYPE_NONE: unknown */
size_t api_dtype_size(api_dtype dtype);
const char *api_dtype_name(api_dtype dtype);

/* Elements as numbers of the compute type, rounded correctly from the decimal, once to `declared` where that is given
 * (text) and then to the compute type; base64 bytes are `count` numbers of `declared`, little-endian. In place: the
 * array is the value's own memory, aligned to 64. Errors: wrong_type (booleans), out_of_range (a decimal, or F64 bits,
 * whose rounded value is infinite). NaN and infinities of tokens or bits pass; *finite tells whether there were none.
 * base64 bytes that are no whole numbers are wrong_type; whether the count fits a shape is for the caller to check.
 * On an error *finite is false where value->data holds value->count elements that stand before it, converted, and a NaN
 * or an infinity may be among them: an earlier error, if it is none that a block hides.
 * A NaN is canonical quiet. `compute` is what the document's own "dtype" says, float32 without one; value->count stays
 * as it was (bytes for base64). prefix: "/q", "/q/data", "/q/base64". */
void *api_take_reals(api_reader *reader, api_value *value, attn_dtype compute, api_dtype declared, const char *prefix,
                     bool *finite, api_error *error);
/* Elements as bytes 0 or 1: all booleans, or all numbers 0 or 1 (another number: out_of_range, its detail names
 * `bias`; booleans mixed with numbers: wrong_type). */
uint8_t *api_take_mask(api_reader *reader, api_value *value, api_dtype declared, const char *prefix, api_error *error);
/* Elements as integers: any number with an integral value; another is wrong_type, beyond 2^53 out_of_range. */
int64_t *api_take_integers(api_reader *reader, api_value *value, api_dtype declared, const char *prefix,
                           api_error *error);
/* A number without axes: bare in JSON, or a tensor that came so */
static inline bool api_is_bare_number(const api_value *value) {
    return value->rank == 0 &&
           (value->type == API_ELEMENT_NUMBER || (value->dtype != API_DTYPE_NONE && value->dtype != API_BOOL));
}
/* A bare number as an integer, likewise, or as a number of the compute type (NaN and infinities: not_finite). */
bool api_take_integer(const api_value *value, const char *pointer, int64_t *result, api_error *error);
bool api_take_real(const api_value *value, attn_dtype compute, const char *pointer, double *result, api_error *error);

/* JSON pointer of element `index` of a value, appended to prefix: nested values by their shape ("/q/0/3"). */
void api_value_pointer(const api_value *value, const char *prefix, size_t index, char pointer[256]);

#endif
