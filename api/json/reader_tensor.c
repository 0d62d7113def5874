#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reader_internal.h"

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static size_t element_size(api_storage storage) {
    switch (storage) {
    case API_STORE_FLOAT: return sizeof(float);
    case API_STORE_DOUBLE:
    case API_STORE_DECIMAL: return sizeof(double);
    default: return 1;
    }
}

/* Makes room for `bytes`. NULL: out of memory, said. */
void *api_value_reserve(api_reader *reader, api_value *value, size_t bytes) {
    struct api_value_state *state = value->state;
    if (value->data && bytes <= state->capacity) return value->data;
    const size_t room = api_grown_size(state->capacity, bytes);
    void *data = api_resize(reader->memory, state->borrowed ? NULL : value->data, room);
    if (!data) {
        api_reader_exhaust(reader);
        return NULL;
    }
    if (state->borrowed && value->data) memcpy(data, value->data, state->capacity);
    state->borrowed = false;
    value->data = data;
    state->capacity = room;
    return data;
}

void api_value_shrink(api_reader *reader, api_value *value, size_t bytes) {
    if (value->state->borrowed || value->state->capacity - bytes < 4096) return;
    void *data = api_resize(reader->memory, value->data, bytes);
    if (!data) return; /* a smaller piece cannot be had: the larger one does */
    value->data = data;
    value->state->capacity = bytes;
}

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
    api_value *value = api_reader_lift(reader, API_ELEMENT_NONE, rank);
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
    reader->mode = API_TO_SKELETON;
    if (value->data && !value->fault.code)
        api_value_shrink(reader, value, value->count * element_size(value->state->storage));
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

/* Numbers of rows under the top object are rounded at once where the type is known. A single row stays as it was
 * written, since it may be a list of integers; so does what has a dtype of its own, unless both are the same. */
static api_storage choose_storage(const api_reader *reader) {
    const bool nested = reader->tensor_base == 1 && reader->level > 1;
    const bool same = reader->tensor_base == 2 && reader->key == API_KEY_DATA && reader->own_known &&
                      reader->own == (reader->compute == ATTN_F64 ? API_F64 : API_F32);
    if (!reader->compute_known || !(nested || same)) return API_STORE_DECIMAL;
    return reader->compute == ATTN_F64 ? API_STORE_DOUBLE : API_STORE_FLOAT;
}

/* Admits a number or a boolean. false: it is not to be stored. */
static bool admit_leaf(api_reader *reader, api_element_type type) {
    api_value *value = reader->tensor;
    if (!admit(reader, false)) return false;
    if (value->type == API_ELEMENT_NONE) {
        value->type = type;
        value->state->storage = type == API_ELEMENT_BOOLEAN ? API_STORE_BOOLEAN : choose_storage(reader);
        reader->rank_known = true;
        value->rank = reader->level;
    } else if (value->type != type) {
        reader->counts[reader->level - 1]--;
        tensor_fault(reader, API_WRONG_TYPE, reader->level - 1, true,
                     type == API_ELEMENT_BOOLEAN ? "expected a number as before, got a boolean"
                                                 : "expected a boolean as before, got a number");
        return false;
    }
    const size_t size = element_size(value->state->storage);
    return api_value_reserve(reader, value, (value->count + 1) * size) != NULL;
}

void api_tensor_wrong(api_reader *reader, api_leaf leaf) {
    static const char *const names[] = {"a string", "null", "an object"};
    tensor_fault(reader, API_WRONG_TYPE, reader->level - 1, true, "expected %s, got %s",
                 reader->tensor->type == API_ELEMENT_BOOLEAN ? "a boolean" : "a number", names[leaf]);
}

void api_tensor_boolean(api_reader *reader, bool value) {
    if (!admit_leaf(reader, API_ELEMENT_BOOLEAN)) return;
    ((uint8_t *)reader->tensor->data)[reader->tensor->count++] = value;
}

static bool add_residual(api_reader *reader, int sign) {
    const api_value *value = reader->tensor;
    struct api_value_state *state = value->state;
    if (!api_reader_grow(reader, &state->residuals, &state->residual_capacity, state->residual_count + 1,
                         sizeof *state->residuals))
        return false;
    state->residuals[state->residual_count++] = (uint64_t)value->count * 2 + (sign > 0);
    return true;
}

static void too_large(api_reader *reader, bool float32) {
    reader->counts[reader->level - 1]--;
    tensor_fault(reader, API_OUT_OF_RANGE, reader->level - 1, true, "expected a number within %s, got a larger one",
                 float32 ? "float32 (\"dtype\": \"float64\" holds more)" : "float64");
}

/* Notes a float that became 0 or 1 only by rounding: an inexact one is no mask. */
static void note_inexact(struct api_value_state *state, size_t index, api_decimal decimal, float x) {
    if (state->inexact == SIZE_MAX && (decimal.value != (double)x || decimal.residual != 0)) state->inexact = index;
}

/* Appends the number of reader->digits, room for which there is. */
static void append(api_reader *reader) {
    api_value *value = reader->tensor;
    struct api_value_state *state = value->state;
    const api_decimal decimal = api_digits_to_double(&reader->digits, false);
    if (state->storage == API_STORE_FLOAT) {
        const float x = api_digits_to_float(&reader->digits);
        if (isinf(x)) {
            too_large(reader, true);
            return;
        }
        if (x == 0 || x == 1) note_inexact(state, value->count, decimal, x);
        ((float *)value->data)[value->count++] = x;
        return;
    }
    if (isinf(decimal.value)) {
        too_large(reader, false);
        return;
    }
    if (decimal.residual != 0 && !add_residual(reader, decimal.residual)) return;
    ((double *)value->data)[value->count++] = decimal.value;
}

void api_tensor_decimal(api_reader *reader) {
    if (admit_leaf(reader, API_ELEMENT_NUMBER)) append(reader);
}

void api_tensor_special(api_reader *reader, double x) {
    if (!admit_leaf(reader, API_ELEMENT_NUMBER)) return;
    api_value *value = reader->tensor;
    value->state->special = true;
    if (value->state->storage == API_STORE_FLOAT)
        ((float *)value->data)[value->count++] = (float)x;
    else
        ((double *)value->data)[value->count++] = x;
}

/* Blanks between numbers; at most `end`. */
static inline const uint8_t *skip_blanks(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    for (; p < end && *p <= ' '; p++) {
        if (*p == '\n') {
            reader->line++;
            reader->line_start = api_reader_byte(reader, p) + 1;
            reader->continuations = 0;
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
    if (bits == one && number.q != 0) note_inexact(value->state, index, api_short_to_decimal(number), x);
    ((float *)value->data)[index] = x;
    return true;
}

static inline bool store_double(api_value *value, size_t index, api_short number) {
    uint64_t bits;
    if (!api_round_quickly(number, API_BINARY64, &bits) || api_needs_residual(bits)) return false;
    ((double *)value->data)[index] = api_double_of_bits(bits, number.negative);
    return true;
}

/* The same for any number, and with it the counts of the value. false: a fault, or out of memory. */
static bool append_short(api_reader *reader, api_short number) {
    api_value *value = reader->tensor;
    struct api_value_state *state = value->state;
    const api_decimal decimal = api_short_to_decimal(number);
    if (state->storage == API_STORE_FLOAT) {
        const float x = api_short_to_float(number);
        if (isinf(x)) return too_large(reader, true), false;
        if (x == 0 || x == 1) note_inexact(state, value->count, decimal, x);
        ((float *)value->data)[value->count++] = x;
        return true;
    }
    if (isinf(decimal.value)) return too_large(reader, false), false;
    if (decimal.residual != 0 && !add_residual(reader, decimal.residual)) return false;
    ((double *)value->data)[value->count++] = decimal.value;
    return true;
}

/* api_tensor_row for a storage that the compiler knows. The count runs ahead of the value's own and the row's, which
 * are set before anything else looks at them. */
__attribute__((always_inline)) static inline const uint8_t *read_row(api_reader *reader, const uint8_t *p,
                                                                     const uint8_t *end, bool is_float) {
    api_value *const value = reader->tensor;
    size_t *const row = &reader->counts[reader->level - 1];
    size_t count = value->count, limit = value->state->capacity / (is_float ? sizeof(float) : sizeof(double));
    if (reader->known[reader->level - 1] && value->shape[reader->level - 1] - *row < limit - count)
        limit = count + value->shape[reader->level - 1] - *row;
    for (;;) {
        api_short number;
        if (*p == ' ') p++;
        if (p < end && *p <= ' ') p = skip_blanks(reader, p, end);
        if (end - p < API_SCAN_ROOM || count == limit) break;
        const uint8_t *const after = api_scan(p, &number);
        if (!after) break;
        p = after;
        reader->next = API_AFTER_VALUE;
        if (is_float ? store_float(value, count, number) : store_double(value, count, number)) {
            count++;
        } else {
            *row += count - value->count + 1;
            value->count = count;
            if (!append_short(reader, number)) return p;
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
    api_value *const value = reader->tensor;
    if (!api_value_reserve(reader, value, (value->count + 1) * element_size(value->state->storage))) return p;
    return value->state->storage == API_STORE_FLOAT ? read_row(reader, p, end, true) : read_row(reader, p, end, false);
}

/* ---- numbers outside of arrays ---------------------------------------------------------------------------------- */

void api_bare_number(api_reader *reader, api_decimal decimal) {
    api_value *value = api_reader_lift(reader, API_ELEMENT_NUMBER, 0);
    if (!value) return;
    value->count = 1;
    value->state->bare = decimal;
}
