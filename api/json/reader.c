#include <string.h>

#include "reader_internal.h"

/* ---- values ----------------------------------------------------------------------------------------------------- */

api_value *api_reader_value(api_reader *reader, json_int_t index) {
    return index >= 0 && (size_t)index < reader->value_count ? reader->values[index] : NULL;
}

api_place api_reader_place(const api_reader *reader, size_t member_index, size_t sub_index) {
    (void)reader;
    return (api_place){member_index, sub_index, 0};
}

/* ---- structure -------------------------------------------------------------------------------------------------- */

static bool push_level(api_reader *reader, bool object) {
    const size_t byte = reader->depth / 8;
    if (!api_reader_grow(reader, &reader->levels, &reader->levels_capacity, byte + 1, 1)) return false;
    const unsigned bit = 1u << reader->depth % 8, old = reader->levels[byte];
    reader->levels[byte] = (uint8_t)(object ? old | bit : old & ~bit);
    reader->depth++;
    return true;
}

/* The brackets read so far turn out to be arrays of the document. */
static void flush_brackets(api_reader *reader) {
    const size_t count = reader->brackets;
    if (count == 0) return;
    reader->brackets = 0;
    if (reader->depth > API_MAX_DEPTH) {
        api_bound(reader, API_TOO_DEEP, "nested deeper than %d levels", API_MAX_DEPTH);
        api_tree_refuse(reader, reader->depth - count);
    }
    for (size_t i = 0; i < count && reader->mode == API_TO_DOCUMENT; i++) api_tree_open(reader, false);
}

static void open_array(api_reader *reader) {
    if (!push_level(reader, false)) return;
    reader->next = API_AT_VALUE_OR_END;
    if (reader->mode == API_TO_TENSOR)
        api_tensor_open(reader);
    else if (reader->mode == API_TO_DOCUMENT && ++reader->brackets > API_MAX_RANK)
        api_tensor_begin(reader);
}

static void open_object(api_reader *reader) {
    flush_brackets(reader);
    if (reader->mode == API_TO_TENSOR) {
        api_tensor_wrong(reader, "an object");
        api_tree_refuse(reader, reader->depth);
    } else if (reader->mode == API_TO_DOCUMENT && reader->depth >= API_MAX_DEPTH) {
        api_bound(reader, API_TOO_DEEP, "nested deeper than %d levels", API_MAX_DEPTH);
        api_tree_refuse(reader, reader->depth);
    }
    if (!push_level(reader, true)) return;
    reader->next = API_AT_KEY_OR_END;
    if (reader->depth == 2) {
        reader->sub_members = 0;
        reader->own_known = false;
    }
    if (api_count_key(reader)) api_tree_open(reader, true);
}

static void close_container(api_reader *reader, uint8_t bracket) {
    if (reader->brackets > 0) api_tensor_begin(reader); /* [] at the end of nothing but brackets */
    if (reader->exhausted) return;
    reader->depth--;
    reader->next = API_AFTER_VALUE;
    if (reader->mode == API_TO_TENSOR) {
        api_tensor_close(reader);
        return;
    }
    if (reader->mode == API_TO_DOCUMENT || bracket == '}') api_tree_close(reader);
    if (reader->mode == API_TO_NOTHING && reader->depth == reader->refused_base)
        reader->mode = reader->tensor ? API_TO_TENSOR : API_TO_DOCUMENT;
}

/* ---- one byte of structure -------------------------------------------------------------------------------------- */

static void at_value(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    const uint8_t c = *p;
    if (c == '"') {
        flush_brackets(reader);
        api_string_start(reader, p, false);
    } else if (c == '[') {
        open_array(reader);
    } else if (c == '{') {
        open_object(reader);
    } else if (c == ']' && reader->next == API_AT_VALUE_OR_END) {
        close_container(reader, c);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        if (reader->brackets > 0) api_tensor_begin(reader);
        api_number_start(reader);
    } else if (api_word_start(reader, c)) {
        if (c == 'n' && !api_null_is_number(reader))
            flush_brackets(reader);
        else if (reader->brackets > 0)
            api_tensor_begin(reader);
    } else if (api_reader_byte(reader, p) == 0 && c >= 0xEF) {
        api_reader_fail(reader, 0, 1,
                        c == 0xEF ? "expected a value, found the byte 0x%02X: remove the byte order mark"
                                  : "expected a value, found the byte 0x%02X: JSON is UTF-8, without a byte order mark",
                        c);
    } else {
        api_reader_expected(reader, p, end, reader->next == API_AT_VALUE_OR_END ? "a value or ']'" : "a value");
    }
}

static void after_value(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    const bool object = api_reader_in_object(reader);
    if (reader->depth == 0) {
        api_reader_expected(reader, p, end, "the end of the body");
    } else if (*p == ',') {
        reader->next = object ? API_AT_KEY : API_AT_VALUE;
    } else if (*p == (object ? '}' : ']')) {
        close_container(reader, *p);
    } else {
        api_reader_expected(reader, p, end, object ? "',' or '}'" : "',' or ']'");
    }
}

static void at_structure(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    switch (reader->next) {
    case API_AT_VALUE:
    case API_AT_VALUE_OR_END: at_value(reader, p, end); break;
    case API_AT_KEY:
    case API_AT_KEY_OR_END:
        if (*p == '"')
            api_string_start(reader, p, true);
        else if (*p == '}' && reader->next == API_AT_KEY_OR_END)
            close_container(reader, *p);
        else
            api_reader_expected(reader, p, end,
                                reader->next == API_AT_KEY ? "a key in quotes" : "a key in quotes or '}'");
        break;
    case API_AT_COLON:
        if (*p == ':')
            reader->next = API_AT_VALUE;
        else
            api_reader_expected(reader, p, end, "':'");
        break;
    default: after_value(reader, p, end); break;
    }
}

/* ---- the calls -------------------------------------------------------------------------------------------------- */

api_reader *api_reader_new(api_memory *memory, uint64_t expected_bytes) {
    api_reader *reader = api_small(memory, sizeof *reader);
    if (!reader) return NULL;
    memset(reader, 0, sizeof *reader);
    reader->memory = memory;
    reader->expected = expected_bytes;
    reader->line = 1;
    reader->next = API_AT_VALUE;
    reader->cleanup = (api_cleanup){.run = api_tree_drop, .argument = reader};
    api_at_end(memory, &reader->cleanup);
    return reader;
}

/* A row that can be read the quick way may begin. */
static bool is_row(const api_reader *reader) {
    return reader->mode == API_TO_TENSOR && (reader->next == API_AT_VALUE || reader->next == API_AT_VALUE_OR_END) &&
           reader->tensor->type != API_ELEMENT_NONE && reader->level == reader->tensor->rank &&
           reader->tensor->fault.code == API_NO_ERROR;
}

/* Reads a byte of structure or blank at p. Returns where to go on. */
static const uint8_t *read_structure(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    if (*p == '\n') {
        api_reader_new_line(reader, p);
        return p + 1;
    }
    if (*p == ' ' || *p == '\t' || *p == '\r') return p + 1;
    at_structure(reader, p, end);
    /* numbers and words read their own first byte */
    return reader->next == API_IN_NUMBER || reader->next == API_IN_WORD ? p : p + 1;
}

bool api_reader_push(api_reader *reader, const void *bytes, size_t length) {
    const uint8_t *p = bytes, *const end = p + length;
    reader->chunk = p;
    while (p < end && !reader->failed && !reader->exhausted) {
        const uint8_t *const begin = p;
        if (end - p >= API_SCAN_ROOM && is_row(reader)) p = api_tensor_row(reader, p, end);
        if (p > begin) continue;
        if (reader->next == API_IN_STRING)
            p = api_string_read(reader, p, end);
        else if (reader->next == API_IN_NUMBER)
            p = api_number_read(reader, p, end);
        else if (reader->next == API_IN_WORD)
            p = api_word_read(reader, p, end);
        else
            p = read_structure(reader, p, end);
    }
    reader->offset += length;
    return !reader->failed && !reader->exhausted;
}

/* What the body may not end before; NULL: it is complete. */
static const char *missing(const api_reader *reader) {
    switch (reader->next) {
    case API_AT_VALUE: return "a value";
    case API_AT_VALUE_OR_END: return "a value or ']'";
    case API_AT_KEY: return "a key in quotes";
    case API_AT_KEY_OR_END: return "a key in quotes or '}'";
    case API_AT_COLON: return "':'";
    case API_IN_STRING: return "the rest of a string";
    case API_IN_WORD: return "the rest of a word";
    case API_IN_NUMBER: return "the rest of a number";
    default: return reader->depth == 0 ? NULL : api_reader_in_object(reader) ? "',' or '}'" : "',' or ']'";
    }
}

static void check_end(api_reader *reader) {
    const uint8_t *end = reader->chunk = (const uint8_t *)"";
    if (reader->next == API_IN_NUMBER) api_number_end(reader);
    const char *const expected = missing(reader);
    if (reader->offset == 0)
        api_reader_fail(reader, 0, 1, "the body is empty, expected a JSON value");
    else if (expected)
        api_reader_expected(reader, end, end, expected);
}

json_t *api_reader_finish(api_reader *reader, api_error *error) {
    if (!reader->failed && !reader->exhausted) check_end(reader);
    json_t *const root = reader->failed || reader->exhausted ? NULL : json_incref(reader->root);
    api_tree_drop(reader);
    if (reader->exhausted)
        api_no_memory(reader->memory, error);
    else if (reader->failed)
        *error = reader->error;
    else if (reader->bound.code)
        *error = reader->bound;
    return root;
}
