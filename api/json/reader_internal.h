/* reader_internal.h: the reader's state, and what its parts call of each other (api/json only).
 *
 * reader.c         the grammar: which byte may come next
 * reader_token.c   strings, numbers and words, each of which may be cut anywhere by the end of a chunk
 * reader_tensor.c  arrays of numbers and booleans on their way into memory
 * reader_tree.c    the document: everything else as jansson's values
 * reader_values.c  values that come from elsewhere
 */
#ifndef API_READER_INTERNAL_H
#define API_READER_INTERNAL_H

#include "../base/limits.h"
#include "../numbers/decimal_internal.h"
#include "reader.h"

/* What is next in the body. */
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

/* Where what is read goes. */
typedef enum api_mode {
    API_TO_DOCUMENT,
    API_TO_TENSOR,
    API_TO_NOTHING, /* it was refused (an object among numbers, too deep): only its keys are kept, for duplicates */
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
    api_cleanup cleanup; /* frees the document of a body that never ended */
    uint64_t expected;   /* bytes of the whole body, a hint */

    /* the place: byte p of this chunk is byte offset + (p - chunk) of the body */
    const uint8_t *chunk;
    uint64_t offset, line, line_start, continuations; /* continuations: bytes of this line that begin no character */

    api_next next;
    uint8_t *levels; /* a bit for each level: 1 = object */
    size_t depth, levels_capacity;

    bool failed;    /* not JSON: error says where */
    bool exhausted; /* an allocation failed */
    bool full;      /* the document is over a bound and given up */
    api_error error, bound;

    api_mode mode;
    size_t brackets;     /* [ read whose use is not known before the first leaf */
    size_t refused_base; /* depth around what is refused */

    /* the document */
    json_t *root;
    json_t **open; /* containers of it, and refused objects, that are not closed; each is a reference */
    size_t open_count, open_capacity;
    void *slot; /* jansson's iterator at the newest key of the innermost object, where its value goes */
    size_t nodes, key_count, text_bytes, prepaid;
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
    char *string;                    /* decoded */
    size_t string_length, string_capacity;
    uint64_t string_byte, string_column;
    api_base64 base64;

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
};

/* ---- reader_state.c ---- */

/* Ends the reading: the body is not JSON at p. `found` is added: "expected ..., found ...". */
void api_reader_expected(api_reader *reader, const uint8_t *p, const uint8_t *end, const char *expected);
/* The same with a sentence of its own, at a byte and column of this line. */
__attribute__((format(printf, 4, 5))) void api_reader_fail(api_reader *reader, uint64_t byte, uint64_t column,
                                                           const char *detail, ...);
/* Grows an array to hold `count` elements of `size` bytes. false: out of memory, noted. */
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
static inline void api_reader_new_line(api_reader *reader, const uint8_t *p) {
    reader->line++;
    reader->line_start = api_reader_byte(reader, p) + 1;
    reader->continuations = 0;
}

/* In `lse` a null stands for -infinity, as it does in replies. */
static inline bool api_null_is_number(const api_reader *reader) {
    return reader->depth > 1 && reader->has_top_key && strcmp(reader->top_key, "lse") == 0;
}

/* ---- reader_values.c ---- */

/* A new value, as the next index in the document. NULL: out of memory, noted. */
api_value *api_reader_new_value(api_reader *reader, api_element_type type, size_t rank);

/* ---- reader_token.c ---- */

void api_string_start(api_reader *reader, const uint8_t *p, bool key);
void api_number_start(api_reader *reader);
bool api_word_start(api_reader *reader, uint8_t letter); /* false: it begins no word */
/* Each reads on from p and returns the first byte that it left. */
const uint8_t *api_string_read(api_reader *reader, const uint8_t *p, const uint8_t *end);
const uint8_t *api_number_read(api_reader *reader, const uint8_t *p, const uint8_t *end);
const uint8_t *api_word_read(api_reader *reader, const uint8_t *p, const uint8_t *end);
/* Ends a number that the end of the body may end. */
void api_number_end(api_reader *reader);

/* ---- reader_tensor.c ---- */

void api_tensor_begin(api_reader *reader); /* with reader->brackets open arrays */
void api_tensor_open(api_reader *reader);
void api_tensor_close(api_reader *reader);
void api_tensor_wrong(api_reader *reader, const char *leaf); /* "a string" or other leaf that no tensor holds */
void api_tensor_boolean(api_reader *reader, bool value);
void api_tensor_decimal(api_reader *reader);           /* reader->digits */
void api_tensor_special(api_reader *reader, double x); /* NaN or an infinity */
/* Reads numbers of a row the quick way, as many as it can; returns where to go on, p if none. */
const uint8_t *api_tensor_row(api_reader *reader, const uint8_t *p, const uint8_t *end);

/* ---- reader_tree.c: each does nothing once the document is given up ---- */

/* Adds a node where the document is; steals it. NULL: out of memory, noted. */
void api_tree_add(api_reader *reader, json_t *json, size_t bytes);
/* Begins an array or object there; in what is refused, an object of its own. */
void api_tree_open(api_reader *reader, bool object);
void api_tree_close(api_reader *reader);
/* The key that was read, and the string value. */
void api_tree_key(api_reader *reader);
void api_tree_string(api_reader *reader);
void api_tree_index(api_reader *reader, size_t index);
/* Adds what stands for a value over a bound: it is of the wrong type for every field, but no earlier in the document
 * than the bound's own error. */
void api_tree_add_refused(api_reader *reader);
/* All up to the end of the container that stands at depth `base` is refused. */
void api_tree_refuse(api_reader *reader, size_t base);
/* A 422 of the document as a whole; the first stays. */
__attribute__((format(printf, 3, 4))) void api_bound(api_reader *reader, api_code code, const char *detail, ...);
/* Counts an object or a member. false: there are too many, and the document is given up. */
bool api_count_key(api_reader *reader);
/* The document is not whole, and of no use. */
void api_tree_give_up(api_reader *reader);
void api_tree_drop(void *reader); /* frees it */

#endif
