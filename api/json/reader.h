/* reader.h: a push parser for JSON bodies that builds the document while bytes arrive (inside api/ only).
 *
 * It checks the grammar of RFC 8259 (plus the bare tokens NaN, Infinity, -Infinity as numbers), UTF-8, escapes (no
 * \u0000, no unpaired surrogate) and duplicate keys, to any depth, and knows line, column and byte of every fault. All
 * numbers, arrays whose first leaf is a number or a boolean (or that are empty or hold only such arrays), and strings
 * under the key "base64" of an object below the top become values outside the document (tensors.h). In the document
 * each stands as its index, an integer: so every JSON integer of it is a value's index, and there are no other numbers.
 *
 *     {"q": [[1,2]], "v": {"shape": [1,2], "base64": "AAA="}, "causal": true, "scale": 0.5, "return": ["lse"]}
 *     {"q": 0,       "v": {"shape": 1,     "base64": 2},      "causal": true, "scale": 3,   "return": ["lse"]}
 */
#ifndef API_READER_H
#define API_READER_H

#include <jansson.h>

#include "../tensors/tensors.h"

typedef struct api_reader api_reader;

/* Small and fixed allocation; NULL: out of memory. The reader and its values live in `memory`. `expected_bytes` is
 * Content-Length, or 0: a hint for sizes, never trusted. */
api_reader *api_reader_new(api_memory *memory, uint64_t expected_bytes);

/* Takes the next bytes. After a fault of grammar, further bytes cost nothing. Returns false on a fault. */
bool api_reader_push(api_reader *reader, const void *bytes, size_t length);

/* Ends the document and returns it (a new reference: the caller decrefs), whatever its JSON type.
 * NULL: error is set to invalid_json (the detail begins with line, column and byte), out_of_memory, overloaded
 * (budget), or a 422 for bounds (number of values, length of strings, depth), in which case the whole was still checked
 * for being JSON. If the document is whole in spite of such a 422, both come: what stands before the error's place can
 * still be searched for an earlier one. */
json_t *api_reader_finish(api_reader *reader, api_error *error);

/* The value that integer `index` of the document stands for; NULL: none (never in a document of the reader). */
api_value *api_reader_value(api_reader *reader, json_int_t index);

/* The place of a member of the top object, or of a member of its object: both counted from 0 in document order, which
 * is the order of iteration of a jansson object; sub_index 0 if there is none. Places of values are counted alike. */
api_place api_reader_place(const api_reader *reader, size_t member_index, size_t sub_index);

/* ---- documents that did not come as one JSON text: their values come from elsewhere ----------------------------- */

/* Adds a tensor of `rank` axes (at most API_MAX_RANK) whose elements came as bytes: row-major, little-endian, exactly
 * as many as the shape has. `place` is its member of the top object. The bytes stand in memory of the request, which
 * must live as long as the reader; they stay where they are and are converted there as far as size and alignment allow,
 * so nothing else may use them. Returns what stands for the value in a document (a new reference); NULL: no memory,
 * error is set. */
json_t *api_reader_add_tensor(api_reader *reader, api_place place, api_dtype dtype, size_t rank, const size_t *shape,
                              void *bytes, api_error *error);

/* Moves all values of `other`, whose document is `tree`, to `reader`: each value's index in the tree is changed.
 * `place` becomes the place of the values. Returns the tree; NULL: no memory, error is set, and the tree is freed. */
json_t *api_reader_adopt(api_reader *reader, api_place place, api_reader *other, json_t *tree, api_error *error);

/* Whether two nodes of documents of this reader stand for the same value: numbers as written, not rounded,
 * in any spelling of a tensor; true and false are 1 and 0, a string that is a number is that number. */
bool api_reader_same(const api_reader *reader, const json_t *a, const json_t *b);

/* ---- values by their former names: those of tensors.h are the same without the reader --------------------------- */

static inline void *api_take_reals(api_reader *reader, api_value *value, attn_dtype compute, api_dtype declared,
                                   const char *prefix, bool *finite, api_error *error) {
    (void)reader;
    return api_value_reals(value, compute, declared, prefix, finite, error);
}
static inline uint8_t *api_take_mask(api_reader *reader, api_value *value, api_dtype declared, const char *prefix,
                                     api_error *error) {
    (void)reader;
    return api_value_mask(value, declared, prefix, error);
}
static inline int64_t *api_take_integers(api_reader *reader, api_value *value, api_dtype declared, const char *prefix,
                                         api_error *error) {
    (void)reader;
    return api_value_integers(value, declared, prefix, error);
}

#endif
