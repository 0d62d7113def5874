#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reader_internal.h"

/* ---- faults ----------------------------------------------------------------------------------------------------- */

void api_reader_fail(api_reader *reader, uint64_t byte, const char *detail, ...) {
    if (reader->failed) return;
    reader->failed = true;
    char text[400];
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    api_error_set(&reader->error, API_INVALID_JSON, (api_place){0}, NULL,
                  "line %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64 "): %s", reader->line,
                  api_reader_column(reader, byte), byte, text);
}

void api_reader_expected(api_reader *reader, const uint8_t *p, const uint8_t *end, const char *expected) {
    const uint64_t byte = api_reader_byte(reader, p);
    if (p == end)
        api_reader_fail(reader, byte, "expected %s, found the end of the body", expected);
    else if (*p > ' ' && *p < 0x7F)
        api_reader_fail(reader, byte, "expected %s, found '%c'", expected, *p);
    else
        api_reader_fail(reader, byte, "expected %s, found the byte 0x%02X", expected, *p);
}

void api_reader_exhaust(api_reader *reader) { reader->exhausted = true; }

bool api_reader_grow(api_reader *reader, void *array, size_t *capacity, size_t count, size_t size) {
    if (count <= *capacity) return true;
    size_t room = *capacity < 32 ? 64 : *capacity * 2;
    if (room < count) room = count;
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    grown = api_resize(reader->memory, old, room * size);
    if (!grown) {
        api_reader_exhaust(reader);
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *capacity = room;
    return true;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static api_value *new_value(api_reader *reader, api_element_type type, size_t rank) {
    api_value *value = api_small(reader->memory, sizeof *value);
    struct api_value_state *state = api_small(reader->memory, sizeof *state);
    if (!value || !state) {
        api_reader_exhaust(reader);
        return NULL;
    }
    memset(value, 0, sizeof *value);
    *state = (struct api_value_state){.storage = API_STORE_DECIMAL, .inexact = SIZE_MAX};
    value->type = type;
    value->rank = rank;
    value->state = state;
    value->place =
        (api_place){reader->members ? reader->members - 1 : 0, reader->sub_members ? reader->sub_members - 1 : 0, 0};
    return value;
}

api_value *api_reader_lift(api_reader *reader, api_element_type type, size_t rank) {
    const size_t index = reader->value_count;
    if (index < API_MAX_VALUES) {
        if (!api_reader_grow(reader, &reader->values, &reader->values_capacity, index + 1, sizeof(api_value *)))
            return NULL;
        api_value *value = new_value(reader, type, rank);
        if (!value) return NULL;
        reader->values[reader->value_count++] = value;
        api_emit_value(reader, index);
        return value;
    }
    if (reader->depth > 0 && !api_reader_in_object(reader))
        api_bound(reader, API_WRONG_TYPE, "more than %d numbers in lists that began with something else",
                  API_MAX_VALUES);
    else
        api_bound(reader, API_OUT_OF_RANGE, "more than %d numbers and tensors", API_MAX_VALUES);
    if (api_count_node(reader)) api_emit(reader, API_REFUSED, sizeof API_REFUSED - 1);
    if (!reader->surplus) reader->surplus = new_value(reader, type, rank);
    if (reader->surplus) reader->surplus->fault.code = API_OUT_OF_RANGE; /* so that nothing is kept in it */
    return reader->surplus;
}

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

/* The brackets read so far turn out to belong to an array that jansson gets. */
static void flush_brackets(api_reader *reader) {
    size_t count = reader->brackets;
    if (count == 0) return;
    reader->brackets = 0;
    if (reader->depth > API_MAX_DEPTH) {
        api_bound(reader, API_TOO_DEEP, "nested deeper than %d levels", API_MAX_DEPTH);
        api_shadow_begin(reader, reader->depth - count);
    }
    for (; count > 0; count--)
        if (api_count_node(reader)) api_emit(reader, "[", 1);
}

static void value_ended(api_reader *reader) { reader->next = API_AFTER_VALUE; }

static void open_array(api_reader *reader) {
    if (!push_level(reader, false)) return;
    reader->next = API_AT_VALUE_OR_END;
    if (reader->mode == API_TO_TENSOR) {
        api_tensor_open(reader);
    } else if (reader->mode == API_TO_SHADOW) {
        if (api_count_node(reader)) api_emit(reader, "[", 1);
    } else if (++reader->brackets > API_MAX_RANK) {
        api_tensor_begin(reader);
    }
}

static void open_object(api_reader *reader) {
    flush_brackets(reader);
    if (reader->mode == API_TO_TENSOR) {
        api_tensor_wrong(reader, API_LEAF_OBJECT);
        api_shadow_begin(reader, reader->depth);
    } else if (reader->mode == API_TO_SKELETON && reader->depth >= API_MAX_DEPTH) {
        api_bound(reader, API_TOO_DEEP, "nested deeper than %d levels", API_MAX_DEPTH);
        api_shadow_begin(reader, reader->depth);
    }
    if (!push_level(reader, true)) return;
    reader->next = API_AT_KEY_OR_END;
    if (reader->depth == 2) {
        reader->sub_members = 0;
        reader->own_known = false;
    }
    if (++reader->key_count > API_MAX_KEYS) {
        api_bound(reader, API_OUT_OF_RANGE, "more than %d objects and members of objects", API_MAX_KEYS);
        reader->full = true;
    }
    if (api_count_node(reader)) api_emit(reader, "{", 1);
}

static void close_container(api_reader *reader, uint8_t bracket) {
    if (reader->brackets > 0) api_tensor_begin(reader); /* [] at the end of nothing but brackets */
    if (reader->exhausted) return;
    reader->depth--;
    value_ended(reader);
    if (reader->mode == API_TO_TENSOR) {
        api_tensor_close(reader);
        return;
    }
    api_emit(reader, &bracket, 1);
    if (reader->mode == API_TO_SHADOW && reader->depth == reader->shadow_base)
        reader->mode = reader->tensor ? API_TO_TENSOR : API_TO_SKELETON;
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
        if (c == 'n')
            flush_brackets(reader);
        else if (reader->brackets > 0)
            api_tensor_begin(reader);
    } else if (api_reader_byte(reader, p) == 0 && (c == 0xEF || c == 0xFE || c == 0xFF)) {
        api_reader_fail(reader, 0, "expected a value, found the byte 0x%02X, as of a byte order mark: leave it out", c);
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
        api_emit(reader, ",", 1);
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
        if (*p == ':') {
            reader->next = API_AT_VALUE;
            api_emit(reader, ":", 1);
        } else {
            api_reader_expected(reader, p, end, "':'");
        }
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
    return reader;
}

/* A row of numbers that can be read the quick way may begin at p. */
static bool is_row(const api_reader *reader) {
    return reader->mode == API_TO_TENSOR && (reader->next == API_AT_VALUE || reader->next == API_AT_VALUE_OR_END) &&
           reader->tensor->type == API_ELEMENT_NUMBER && reader->level == reader->tensor->rank &&
           reader->tensor->fault.code == API_NO_ERROR;
}

/* Reads a byte of structure or blank at p. Returns where to go on. */
static const uint8_t *read_structure(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    if (*p == '\n') {
        reader->line++;
        reader->line_start = api_reader_byte(reader, p) + 1;
        reader->continuations = 0;
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

static void check_end(api_reader *reader) {
    const uint8_t *end = reader->chunk = (const uint8_t *)"";
    if (reader->next == API_IN_NUMBER) api_number_end(reader);
    if (reader->next == API_AFTER_VALUE && reader->depth == 0) return;
    if (reader->offset == 0) {
        api_reader_fail(reader, 0, "the body is empty, expected a JSON value");
        return;
    }
    switch (reader->next) {
    case API_AT_VALUE: api_reader_expected(reader, end, end, "a value"); break;
    case API_AT_VALUE_OR_END: api_reader_expected(reader, end, end, "a value or ']'"); break;
    case API_AT_KEY: api_reader_expected(reader, end, end, "a key in quotes"); break;
    case API_AT_KEY_OR_END: api_reader_expected(reader, end, end, "a key in quotes or '}'"); break;
    case API_AT_COLON: api_reader_expected(reader, end, end, "':'"); break;
    case API_IN_STRING: api_reader_expected(reader, end, end, "the rest of a string"); break;
    case API_IN_WORD: api_reader_expected(reader, end, end, "the rest of a word"); break;
    case API_IN_NUMBER: api_reader_expected(reader, end, end, "the rest of a number"); break;
    case API_AFTER_VALUE:
        api_reader_expected(reader, end, end, api_reader_in_object(reader) ? "',' or '}'" : "',' or ']'");
        break;
    }
}

json_t *api_reader_finish(api_reader *reader, api_error *error) {
    if (!reader->failed && !reader->exhausted) check_end(reader);
    json_t *skeleton = NULL;
    if (!reader->failed && !reader->exhausted) skeleton = api_skeleton_parse(reader, &reader->error);
    if (reader->exhausted)
        api_error_set(error, reader->memory->over_budget ? API_OVERLOADED : API_OUT_OF_MEMORY, API_PLACE_LAST, NULL,
                      reader->memory->over_budget ? "the requests in flight hold all memory that they may"
                                                  : "an allocation failed while the body was read");
    else if (reader->error.code)
        *error = reader->error;
    else {
        if (reader->bound.code) *error = reader->bound;
        return skeleton;
    }
    json_decref(skeleton);
    return NULL;
}
