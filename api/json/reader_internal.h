/* reader_internal.h: the request reader's state, and what its parts call of each other (inside api/ only).
 *
 * request_reader.c  the grammar: which byte may come next
 * reader_token.c    strings, numbers and words, each of which may be cut anywhere by the end of a chunk
 * reader_tensor.c   arrays of numbers and booleans on their way into memory
 * reader_skeleton.c the text left for jansson
 * reader_values.c   values that come from elsewhere
 */
#ifndef API_READER_INTERNAL_H
#define API_READER_INTERNAL_H

#include "../base/limits.h"
#include "../numbers/decimal_internal.h"
#include "reader.h"

/* How the elements of a value lie in its memory. */
typedef enum api_storage {
    API_STORE_FLOAT,   /* rounded to float32 as they were read */
    API_STORE_DOUBLE,  /* rounded to float64, which is what will be computed in */
    API_STORE_DECIMAL, /* doubles, and a list of residuals that keeps every second rounding possible */
    API_STORE_BOOLEAN, /* bytes 0 or 1 */
    API_STORE_BYTES,   /* decoded base64 */
} api_storage;

struct api_value_state {
    api_storage storage;
    size_t capacity; /* bytes of data */
    bool borrowed;   /* data is no piece of its own: it can't be resized */
    /* Elements whose decimal is not the double, where it matters (decimal.h): index * 2 + (residual > 0), ascending */
    uint64_t *residuals;
    size_t residual_count, residual_capacity;
    bool special;     /* there is a NaN or an infinity: every number stored from digits is finite */
    size_t inexact;   /* API_STORE_FLOAT: the first element that became 0 or 1 only by rounding; SIZE_MAX: none */
    api_decimal bare; /* the number of a value of rank 0 */
};

typedef struct api_text {
    char *data;
    size_t length, capacity;
} api_text;

/* Where an object's key stands in the text given to jansson and in the document. */
typedef struct api_key {
    size_t begin, end; /* in the text, quotes included */
    uint64_t line, column, byte;
} api_key;
typedef struct api_key_list {
    api_key *keys;
    size_t count, capacity;
} api_key_list;

/* What is next in the document. */
typedef enum api_next {
    API_AT_VALUE,
    API_AT_VALUE_OR_END, /* after [ */
    API_AT_KEY,
    API_AT_KEY_OR_END, /* after { */
    API_AT_COLON,
    API_AFTER_VALUE,
    API_IN_STRING,
    API_IN_NUMBER,
    API_IN_WORD,
} api_next;

/* What becomes of what is read. */
typedef enum api_mode {
    API_TO_SKELETON,
    API_TO_TENSOR,
    API_TO_SHADOW, /* content of no use (objects among numbers, too deep): kept as text for its duplicate keys alone */
} api_mode;

typedef enum api_string_use { API_STRING_KEY, API_STRING_TEXT, API_STRING_BASE64, API_STRING_DROPPED } api_string_use;
typedef enum api_key_kind { API_KEY_OTHER, API_KEY_COMPUTE, API_KEY_DTYPE, API_KEY_DATA, API_KEY_BASE64 } api_key_kind;
typedef enum api_number_part {
    API_NUMBER_SIGN,
    API_NUMBER_ZERO,
    API_NUMBER_INTEGER,
    API_NUMBER_POINT,
    API_NUMBER_FRACTION,
    API_NUMBER_EXPONENT,
    API_NUMBER_EXPONENT_SIGN,
    API_NUMBER_EXPONENT_DIGITS,
} api_number_part;

struct api_reader {
    api_memory *memory;
    uint64_t expected; /* bytes of the whole body, a hint */

    /* the place: byte p of this chunk is byte offset + (p - chunk) of the document */
    const uint8_t *chunk;
    uint64_t offset, line, line_start, continuations; /* continuations: bytes of this line that begin no character */

    api_next next;
    uint8_t *levels; /* a bit for each level: 1 = object */
    size_t depth, levels_capacity;

    bool failed;    /* not JSON: error says where */
    bool exhausted; /* an allocation failed */
    bool full;      /* the skeleton is over a bound and no longer whole */
    api_error error, bound;

    api_mode mode;
    size_t brackets;    /* [ read whose use is not known before the first leaf */
    size_t shadow_base; /* depth around what goes to the shadow */
    api_text skeleton, shadow;
    api_key_list skeleton_keys, shadow_keys;
    size_t nodes, key_count;
    api_value **values;
    api_value *surplus; /* stands for all values beyond their bound */
    size_t value_count, values_capacity;

    /* the present member of the top object, and of its object */
    size_t members, sub_members;
    bool has_top_key;
    char top_key[256];
    api_key_kind key;
    bool compute_known, own_known;
    attn_dtype compute;
    api_dtype own; /* "dtype" of the object that is read, below the top */

    /* the string that is read */
    api_string_use use;
    unsigned escape;                 /* 0: none; 1: after the backslash; 2 to 5: hexadecimal digits */
    unsigned code, surrogate;        /* of \u; the first half of a pair */
    unsigned follow;                 /* bytes that the UTF-8 character still needs */
    uint8_t follow_low, follow_high; /* range of the next one */
    char decoded[256];               /* the first bytes of it, decoded */
    size_t decoded_length, string_begin;
    uint64_t string_line, string_column, string_byte;

    /* the number or word */
    api_digits digits;
    api_number_part part;
    const char *word;
    size_t word_index;

    /* the tensor */
    api_value *tensor;
    size_t tensor_base; /* depth around it */
    size_t level;       /* brackets of it that are open */
    bool rank_known, known[API_MAX_RANK];
    size_t counts[API_MAX_RANK]; /* elements begun in the open array of each level */

    /* the base64 string */
    api_value *bytes;
    uint32_t base64_bits;
    unsigned base64_count, base64_padding; /* characters of the group of four; those of them that are = */
};

/* ---- request_reader.c ---- */

/* Ends the reading: the body is not JSON at p. `found` is added: "expected ..., found ...". */
void api_reader_expected(api_reader *reader, const uint8_t *p, const uint8_t *end, const char *expected);
/* The same with a sentence of its own. */
__attribute__((format(printf, 3, 4))) void api_reader_fail(api_reader *reader, uint64_t byte, const char *detail, ...);
void api_reader_exhaust(api_reader *reader);
/* Grows an array to hold `count` elements of `size` bytes. false: out of memory, said. */
bool api_reader_grow(api_reader *reader, void *array, size_t *capacity, size_t count, size_t size);
static inline uint64_t api_reader_byte(const api_reader *reader, const uint8_t *p) {
    return reader->offset + (uint64_t)(p - reader->chunk);
}
static inline uint64_t api_reader_column(const api_reader *reader, uint64_t byte) {
    return byte - reader->line_start - reader->continuations + 1;
}
static inline bool api_reader_in_object(const api_reader *reader) {
    return reader->depth > 0 && (reader->levels[(reader->depth - 1) / 8] >> (reader->depth - 1) % 8 & 1);
}
/* Makes a value and writes its index to the skeleton. NULL: out of memory, said. */
api_value *api_reader_lift(api_reader *reader, api_element_type type, size_t rank);

/* ---- reader_token.c: each reads from p to the end of its token or of the chunk, and returns where it stopped ---- */

void api_string_start(api_reader *reader, const uint8_t *p, bool key);
const uint8_t *api_string_read(api_reader *reader, const uint8_t *p, const uint8_t *end);
void api_number_start(api_reader *reader);
const uint8_t *api_number_read(api_reader *reader, const uint8_t *p, const uint8_t *end);
/* Ends a number at the end of the document, if it is complete. */
void api_number_end(api_reader *reader);
/* false: no word begins with that letter */
bool api_word_start(api_reader *reader, uint8_t letter);
const uint8_t *api_word_read(api_reader *reader, const uint8_t *p, const uint8_t *end);

/* ---- reader_tensor.c ---- */

typedef enum api_leaf { API_LEAF_STRING, API_LEAF_NULL, API_LEAF_OBJECT } api_leaf;
void api_tensor_begin(api_reader *reader); /* with reader->brackets open ones */
void api_tensor_open(api_reader *reader);  /* [ */
void api_tensor_close(api_reader *reader); /* ] */
void api_tensor_boolean(api_reader *reader, bool value);
void api_tensor_decimal(api_reader *reader);               /* reader->digits */
void api_tensor_special(api_reader *reader, double value); /* NaN, infinities */
void api_tensor_wrong(api_reader *reader, api_leaf leaf);
/* Reads numbers of the innermost row as long as they are short and whole; the rest is for the slow way. */
const uint8_t *api_tensor_row(api_reader *reader, const uint8_t *p, const uint8_t *end);
void api_bare_number(api_reader *reader, api_decimal decimal);
void *api_value_reserve(api_reader *reader, api_value *value, size_t bytes);
void api_value_shrink(api_reader *reader, api_value *value, size_t bytes);

/* ---- tensor_base64.c ---- */

void api_base64_start(api_reader *reader);
void api_base64_push(api_reader *reader, const uint8_t *text, size_t length);
void api_base64_end(api_reader *reader);

/* ---- reader_skeleton.c ---- */

/* What the skeleton holds in the place of a value over a bound: present, and of the wrong type for every field, but no
 * earlier in the document than the bound's own error. */
#define API_REFUSED "{}"

/* Appends to the text of the present mode (none for tensors). */
void api_emit(api_reader *reader, const void *bytes, size_t length);
void api_emit_value(api_reader *reader, size_t index);
/* Counts a node of the tree that jansson will make; false: over the bound. */
bool api_count_node(api_reader *reader);
void api_key_begin(api_reader *reader);
void api_key_end(api_reader *reader);
/* A 422 of the document as a whole; the first stays. */
__attribute__((format(printf, 3, 4))) void api_bound(api_reader *reader, api_code code, const char *detail, ...);
void api_shadow_begin(api_reader *reader, size_t base);
json_t *api_skeleton_parse(api_reader *reader, api_error *error);

/* ---- taking: tensor_text.c, tensor_base64.c ---- */

/* Errors at an element of a value, or all over it. */
__attribute__((format(printf, 6, 7))) void api_take_error(const api_value *value, const char *prefix, size_t index,
                                                          api_code code, api_error *error, const char *detail, ...);
void api_take_fault(const api_value *value, const char *prefix, api_error *error);
void api_take_no_memory(const api_reader *reader, api_error *error);
/* What is wrong with a number as an integer of the declared type; API_NO_ERROR: nothing. */
api_code api_integer_fault(api_decimal decimal, api_dtype declared, const char **why);
void api_mask_error(const api_value *value, const char *prefix, size_t index, double number, api_error *error);

/* One element of the bytes of a tensor, exactly. */
api_decimal api_bytes_element(const uint8_t *bytes, api_dtype dtype);
void *api_bytes_to_reals(api_reader *reader, api_value *value, attn_dtype compute, api_dtype declared,
                         const char *prefix, bool *finite, api_error *error);
uint8_t *api_bytes_to_mask(api_reader *reader, api_value *value, api_dtype declared, const char *prefix,
                           api_error *error);
int64_t *api_bytes_to_integers(api_reader *reader, api_value *value, api_dtype declared, const char *prefix,
                               api_error *error);

#endif
