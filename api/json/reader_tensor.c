#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reader_internal.h"

/* ---- faults ----------------------------------------------------------------------------------------------------- */

/* The fault's pointer is that of the open array of level `depth`, or with `element` of its newest element. */
__attribute__((format(printf, 5, 6))) static void tensor_fault(api_reader *reader, api_code code, size_t depth,
                                                               bool element, const char *detail, ...) {
    api_value *value = reader->tensor;
    if (value->fault.code) return;
    char pointer[256] = "", text[256];
    for (size_t i = 0; i < depth; i++) api_pointer_add_index(pointer, reader->counts[i] - 1);
    if (element) api_pointer_add_index(pointer, reader->counts[depth]);
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    api_place place = value->place;
    place.element = value->count; /* faults of the elements read before it are earlier, in a ragged row too */
    for (size_t i = 1; i < value->rank; i++) /* what stands before the fault keeps its pointers: api_value_pointer */
        if (!reader->known[i]) value->shape[i] = reader->counts[i] + 1;
    api_error_set(&value->fault, code, place, pointer, "%s", text);
}

static void ragged_row(api_reader *reader, size_t depth, size_t length, bool more) {
    tensor_fault(reader, API_RAGGED, depth, false, "expected %zu elements as in the rows before, got %s%zu",
                 reader->tensor->shape[depth], more ? "at least " : "", length);
}

/* Admits an element to the innermost open array. false: there was a fault, now or before. */
static bool admit(api_reader *reader, bool array) {
    const api_value *value = reader->tensor;
    const size_t depth = reader->level - 1;
    if (value->fault.code) return false;
    if (reader->known[depth] && reader->counts[depth] == value->shape[depth]) {
        ragged_row(reader, depth, reader->counts[depth] + 1, true);
        return false;
    }
    if (reader->rank_known && array != (reader->level < value->rank)) {
        tensor_fault(reader, API_RAGGED, depth, true,
                     array ? "expected a number as before, got an array" : "expected an array as before, got a number");
        return false;
    }
    reader->counts[depth]++;
    return true;
}

/* ---- structure -------------------------------------------------------------------------------------------------- */

void api_tensor_begin(api_reader *reader) {
    const size_t brackets = reader->brackets, rank = brackets < API_MAX_RANK ? brackets : API_MAX_RANK;
    reader->brackets = 0;
    api_value *value = api_reader_new_value(reader, API_ELEMENT_NONE, rank);
    if (!value) return;
    reader->tensor = value;
    reader->tensor_base = reader->depth - brackets;
    reader->mode = API_TO_TENSOR;
    reader->level = brackets;
    reader->rank_known = false;
    memset(reader->known, 0, sizeof reader->known);
    for (size_t i = 0; i < rank; i++) reader->counts[i] = i + 1 < rank;
    if (brackets > API_MAX_RANK) {
        for (size_t i = 0; i < rank; i++) reader->counts[i] = 0;
        tensor_fault(reader, API_TOO_DEEP, 0, false, "more than %d nested arrays", API_MAX_RANK);
        if (reader->tensor_base == 0) api_bound(reader, API_TOO_DEEP, "more than %d nested arrays", API_MAX_RANK);
    }
}

void api_tensor_open(api_reader *reader) {
    const bool admitted = admit(reader, true);
    reader->level++;
    if (admitted) reader->counts[reader->level - 1] = 0; /* level <= rank */
}

static void end_tensor(api_reader *reader) {
    api_value *value = reader->tensor;
    reader->tensor = NULL;
    reader->mode = API_TO_DOCUMENT;
    if (value->data && !value->fault.code) api_value_shrink(value, value->count * api_dtype_size(value->stored));
}

void api_tensor_close(api_reader *reader) {
    api_value *value = reader->tensor;
    if (!value->fault.code) {
        const size_t depth = reader->level - 1;
        if (!reader->rank_known) {
            reader->rank_known = true;
            value->rank = reader->level;
        }
        if (!reader->known[depth])
            value->shape[depth] = reader->counts[depth];
        else if (value->shape[depth] != reader->counts[depth])
            ragged_row(reader, depth, reader->counts[depth], false);
        reader->known[depth] = true;
    }
    if (--reader->level == 0) end_tensor(reader);
}

/* ---- leaves ----------------------------------------------------------------------------------------------------- */

/* Numbers of rows under the top object are rounded to float at once if that is known to be the type. A single row
 * stays as it was written, since it may be a list of integers; so does what has another dtype of its own. */
static api_dtype number_storage(const api_reader *reader) {
    const bool nested = reader->tensor_base == 1 && reader->level > 1;
    const bool own =
        reader->tensor_base == 2 && reader->key == API_KEY_DATA && reader->own_known && reader->own == API_F32;
    const bool is_float = reader->compute_known && reader->compute == ATTN_F32 && (nested || own);
    return is_float ? API_F32 : API_F64;
}

/* Room for another element. false: out of memory, noted. */
static bool make_room(api_reader *reader) {
    api_value *value = reader->tensor;
    if (!api_value_reserve(value, (value->count + 1) * api_dtype_size(value->stored))) reader->exhausted = true;
    return !reader->exhausted;
}

/* Admits a number or a boolean. false: it is not to be stored. */
static bool admit_leaf(api_reader *reader, api_element_type type) {
    api_value *value = reader->tensor;
    if (!admit(reader, false)) return false;
    if (value->type == API_ELEMENT_NONE) {
        value->type = type;
        value->stored = type == API_ELEMENT_BOOLEAN ? API_BOOL : number_storage(reader);
        reader->rank_known = true;
        value->rank = reader->level;
    } else if (value->type != type) {
        reader->counts[reader->level - 1]--;
        tensor_fault(reader, API_WRONG_TYPE, reader->level - 1, true,
                     type == API_ELEMENT_BOOLEAN ? "expected a number as before, got a boolean"
                                                 : "expected a boolean as before, got a number");
        return false;
    }
    return make_room(reader);
}

void api_tensor_wrong(api_reader *reader, const char *leaf) {
    tensor_fault(reader, API_WRONG_TYPE, reader->level - 1, true, "expected %s, got %s",
                 reader->tensor->type == API_ELEMENT_BOOLEAN ? "a boolean" : "a number", leaf);
}

void api_tensor_boolean(api_reader *reader, bool value) {
    if (!admit_leaf(reader, API_ELEMENT_BOOLEAN)) return;
    ((uint8_t *)reader->tensor->data)[reader->tensor->count++] = value;
}

static bool add_residual(api_reader *reader, int sign) {
    api_value *value = reader->tensor;
    if (!api_reader_grow(reader, &value->residuals, &value->residual_capacity, value->residual_count + 1,
                         sizeof *value->residuals))
        return false;
    value->residuals[value->residual_count++] = (uint64_t)value->count * 2 + (sign > 0);
    return true;
}

/* Notes a float that became 0 or 1 only by rounding: an inexact one is not a mask. */
static void note_inexact(api_value *value, size_t index, api_decimal decimal, float x) {
    if (value->inexact == SIZE_MAX && (decimal.value != (double)x || decimal.residual != 0)) value->inexact = index;
}

/* Appends a number, of which x is the nearest float, room for which there is. false: a fault, or out of memory. */
static bool append(api_reader *reader, api_decimal decimal, float x) {
    api_value *value = reader->tensor;
    const bool is_float = value->stored == API_F32;
    if (is_float ? isinf(x) : isinf(decimal.value)) {
        reader->counts[reader->level - 1]--;
        tensor_fault(reader, API_OUT_OF_RANGE, reader->level - 1, true, "expected a number within %s",
                     is_float ? "float32, got a larger one; try \"dtype\": \"float64\"" : "float64, got a larger one");
        return false;
    }
    if (is_float) {
        if (x == 0 || x == 1) note_inexact(value, value->count, decimal, x);
        ((float *)value->data)[value->count++] = x;
        return true;
    }
    if (decimal.residual != 0 && !add_residual(reader, decimal.residual)) return false;
    ((double *)value->data)[value->count++] = decimal.value;
    return true;
}

void api_tensor_decimal(api_reader *reader) {
    if (!admit_leaf(reader, API_ELEMENT_NUMBER)) return;
    append(reader, api_digits_to_double(&reader->digits, false),
           reader->tensor->stored == API_F32 ? api_digits_to_float(&reader->digits) : 0);
}

void api_tensor_special(api_reader *reader, double x) {
    if (!admit_leaf(reader, API_ELEMENT_NUMBER)) return;
    api_value *value = reader->tensor;
    value->special = true;
    if (value->stored == API_F32)
        ((float *)value->data)[value->count++] = (float)x;
    else
        ((double *)value->data)[value->count++] = x;
}

/* Blanks between numbers; at most `end`. */
static inline const uint8_t *skip_blanks(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    for (; p < end && *p <= ' '; p++) {
        if (*p == '\n') {
            api_reader_new_line(reader, p);
        } else if (*p != ' ' && *p != '\r' && *p != '\t') {
            break;
        }
    }
    return p;
}

/* Rounds a short number and stores it as element `index`. false: the slow way must take it. */
static inline bool store_float(api_value *value, size_t index, api_short number) {
    const uint64_t one = 0x3F800000;
    uint64_t bits;
    if (!api_round_quickly(number, API_BINARY32, &bits)) return false;
    const float x = api_float_of_bits(bits, number.negative);
    if (bits == one && number.q != 0) note_inexact(value, index, api_short_to_decimal(number), x);
    ((float *)value->data)[index] = x;
    return true;
}

static inline bool store_double(api_value *value, size_t index, api_short number) {
    uint64_t bits;
    if (!api_round_quickly(number, API_BINARY64, &bits) || api_needs_residual(bits)) return false;
    ((double *)value->data)[index] = api_double_of_bits(bits, number.negative);
    return true;
}

/* Numbers of one digit, as masks have them. Leaves the last one of the row. Not in line: read_row's variables should
 * stay in registers. */
__attribute__((noinline)) static const uint8_t *
read_single_digits(const uint8_t *p, const uint8_t *end, const api_value *value, size_t *count, size_t limit) {
    for (; end - p >= API_SCAN_ROOM && *count < limit && *p - (unsigned)'0' <= 9 && p[1] == ','; ++*count) {
        const int digit = *p - '0';
        if (value->stored == API_F32)
            ((float *)value->data)[*count] = (float)digit;
        else
            ((double *)value->data)[*count] = digit;
        p += p[2] == ' ' ? 3 : 2;
    }
    return p;
}

/* true or false at p, as element `index`. Without a branch on which it is. Returns its end, p if it is neither. */
static inline const uint8_t *read_boolean(const uint8_t *p, api_value *value, size_t index) {
    const uint64_t word = api_load_eight(p), is_true = (uint32_t)word == 0x65757274; /* "true" */
    const uint64_t is_false = (word & 0xFFFFFFFFFF) == 0x65736C6166;                 /* "false" */
    ((uint8_t *)value->data)[index] = (uint8_t)is_true;
    return p + 4 * is_true + 5 * is_false;
}

/* api_tensor_row for a storage that the compiler knows. The count runs ahead of the value's own and the row's, which
 * are set before anything else looks at them. */
__attribute__((always_inline)) static inline const uint8_t *read_row(api_reader *reader, const uint8_t *p,
                                                                     const uint8_t *end, api_dtype stored) {
    api_value *const value = reader->tensor;
    size_t *const row = &reader->counts[reader->level - 1];
    size_t count = value->count, limit = value->capacity / api_dtype_size(stored);
    if (reader->known[reader->level - 1] && value->shape[reader->level - 1] - *row < limit - count)
        limit = count + value->shape[reader->level - 1] - *row;
    if (stored != API_BOOL && p[1] == ',') {
        size_t ahead = count;
        p = read_single_digits(p, end, value, &ahead, limit);
        if (ahead > count) reader->next = API_AT_VALUE;
        count = ahead;
    }
    for (;;) {
        api_short number;
        if (*p == ' ') p++;
        if (p < end && *p <= ' ') p = skip_blanks(reader, p, end);
        if (end - p < API_SCAN_ROOM || count == limit) break;
        const uint8_t *const after = stored == API_BOOL ? read_boolean(p, value, count) : api_scan_number(p, &number);
        if (!after || after == p) break;
        p = after;
        reader->next = API_AFTER_VALUE;
        if (stored == API_BOOL ||
            (stored == API_F32 ? store_float(value, count, number) : store_double(value, count, number))) {
            count++;
        } else {
            *row += count - value->count + 1;
            value->count = count;
            if (!append(reader, api_short_to_decimal(number), stored == API_F32 ? api_short_to_float(number) : 0))
                return p;
            count++;
        }
        if (*p != ',') {
            p = skip_blanks(reader, p, end);
            if (p == end || *p != ',') break;
        }
        reader->next = API_AT_VALUE;
        if (++p == end) break;
    }
    *row += count - value->count;
    value->count = count;
    return p;
}

const uint8_t *api_tensor_row(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    if (!make_room(reader)) return p;
    switch (reader->tensor->stored) {
    case API_F32: return read_row(reader, p, end, API_F32);
    case API_F64: return read_row(reader, p, end, API_F64);
    default: return read_row(reader, p, end, API_BOOL);
    }
}
