/* A reply as one JSON object. */
#include "json_reply.h"

#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "base64 tensors are little-endian");

/* Characters of a shortest decimal at most, with a comma: a sign and 17 digits (a float's padded with zeros, as in
 * 10000000000000000), for a double a point and an exponent too (-2.2250738585072014e-308). */
enum { FLOAT_TEXT = 19, DOUBLE_TEXT = 25 };
enum {
    SLICE = 16384,             /* numbers that one thread formats at a time */
    NAME_TEXT = 8,             /* quotes, colon and comma of a name */
    SHAPE_TEXT = 128,          /* {"shape":[...4 axes...],"dtype":"F32","base64":" and what closes it */
    TAIL = API_DECIMAL_MAX + 8 /* formatting scratches past the end of a number */
};

/* A tensor as nested arrays. An axis of length 0 ends the shape: what is inside it is not seen in the text. */
typedef struct nested {
    api_dtype dtype;
    size_t size; /* of a number */
    size_t (*write)(char text[API_DECIMAL_MAX], const void *number);
    const void *data;
    size_t rank, row, rows; /* numbers in a row, rows in all */
    size_t span[4];         /* numbers (rows where row is 0) that one array of each level holds */
    size_t slot;            /* bytes that a slice needs at most */
    char *text;
    const atomic_bool *cancel;
} nested;

static size_t number_text(api_dtype dtype) { return dtype == API_F64 ? DOUBLE_TEXT : FLOAT_TEXT; }

static nested nested_of(const api_output *o, api_shape shape) {
    const api_dtype_row *row = &api_dtypes[o->dtype];
    nested t = {.dtype = o->dtype, .size = row->size, .write = row->text, .data = o->data, .rows = 1};
    while (t.rank < shape.rank) {
        t.row = shape.axes[t.rank++];
        if (t.row == 0) break;
        if (t.rank < shape.rank) t.rows = api_times_sizes(t.rows, t.row);
    }
    size_t span = t.row == 0 ? 1 : t.row;
    for (size_t level = t.rank; level-- > 0;) {
        t.span[level] = span;
        if (level > 0) span = api_times_sizes(span, shape.axes[level - 1]);
    }
    return t;
}

/* bytes of `numbers` numbers and the brackets of the rows they touch */
static size_t nested_bound(const nested *t, size_t numbers, size_t rows) {
    return api_add_sizes(api_times_sizes(numbers, number_text(t->dtype)), api_times_sizes(rows, 2 * t->rank + 1));
}

static char *brackets(const nested *t, size_t place, char bracket, char *text) {
    for (size_t level = 0; level < t->rank; level++)
        if (place % t->span[level] == 0) *text++ = bracket;
    return text;
}

static char *number(const nested *t, size_t i, char *text) {
    const size_t length = t->write(text, (const char *)t->data + i * t->size);
    if (length) return text + length;
    memcpy(text, "null", 4); /* -infinity, the only one that the contract lets into a reply */
    return text + 4;
}

/* numbers [first, last) with the commas before them and the brackets around them */
static char *write_numbers(const nested *t, size_t first, size_t last, char *text) {
    while (first < last) {
        const size_t row_end = (first / t->row + 1) * t->row, end = row_end < last ? row_end : last;
        if (first > 0) *text++ = ',';
        if (first % t->row == 0) text = brackets(t, first, '[', text);
        text = number(t, first, text);
        while (++first < end) {
            *text++ = ',';
            text = number(t, first, text);
        }
        if (end == row_end) text = brackets(t, end, ']', text);
    }
    return text;
}

static char *write_empty_rows(const nested *t, char *text) {
    for (size_t i = 0; i < t->rows; i++) {
        if (i > 0) *text++ = ',';
        text = brackets(t, i, '[', text);
        text = brackets(t, i + 1, ']', text);
    }
    return text;
}

static bool is_cancelled(const nested *t) { return t->cancel && atomic_load_explicit(t->cancel, memory_order_relaxed); }

static void write_slice(void *argument, size_t slice, size_t pool_slot) {
    (void)pool_slot;
    const nested *t = argument;
    const size_t first = slice * SLICE, count = t->rows * t->row;
    char *start = t->text + slice * t->slot, *text = start + sizeof(size_t);
    const size_t last = is_cancelled(t) ? first : count - first < SLICE ? count : first + SLICE;
    const size_t length = (size_t)(write_numbers(t, first, last, text) - text);
    memcpy(start, &length, sizeof length);
}

static size_t slice_slot(const nested *t) {
    return sizeof(size_t) + TAIL + nested_bound(t, SLICE, SLICE / (t->row ? t->row : 1) + 2);
}

/* Slices are formatted each at its own place, then moved together. */
static char *write_nested(nested *t, attn_pool *pool, char *text) {
    if (t->row == 0) return write_empty_rows(t, text);
    const size_t count = t->rows * t->row, slices = (count + SLICE - 1) / SLICE;
    if (slices == 1 || !pool) return write_numbers(t, 0, count, text);
    t->slot = slice_slot(t);
    t->text = text;
    attn_pool_for(pool, slices, write_slice, t);
    for (size_t i = 0; i < slices; i++) {
        size_t length;
        memcpy(&length, t->text + i * t->slot, sizeof length);
        memmove(text, t->text + i * t->slot + sizeof length, length);
        text += length;
    }
    return text;
}

/* ---- base64 (RFC 4648, section 4) ------------------------------------------------------------------------------- */

static char *write_base64(const unsigned char *bytes, size_t length, char *text) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t i = 0;
    for (; i + 3 <= length; i += 3, text += 4) {
        const unsigned bits = (unsigned)bytes[i] << 16 | (unsigned)bytes[i + 1] << 8 | bytes[i + 2];
        text[0] = letters[bits >> 18];
        text[1] = letters[bits >> 12 & 63];
        text[2] = letters[bits >> 6 & 63];
        text[3] = letters[bits & 63];
    }
    if (i == length) return text;
    const bool two = length - i == 2;
    const unsigned bits = (unsigned)bytes[i] << 16 | (two ? (unsigned)bytes[i + 1] << 8 : 0);
    text[0] = letters[bits >> 18];
    text[1] = letters[bits >> 12 & 63];
    text[2] = two ? letters[bits >> 6 & 63] : '=';
    text[3] = '=';
    return text + 4;
}

/* ---- the object ------------------------------------------------------------------------------------------------- */

static api_shape flat_shape(const api_output *o) { return (api_shape){1, {o->count}}; }

static api_shape text_shape(const api_reply *reply, const api_output *o) {
    return reply->spelling == API_FLAT ? flat_shape(o) : o->shape;
}

/* bytes of an output of so many numbers, besides what is `fixed` */
static size_t numbers_bound(const api_output *o, const nested *t, size_t fixed) {
    if (o->count <= SLICE) return api_add_sizes(nested_bound(t, o->count, t->rows), fixed);
    return api_add_sizes(api_times_sizes(o->count / SLICE + 1, slice_slot(t)), fixed);
}

static size_t output_bound(const api_reply *reply, const api_output *o) {
    const size_t fixed = strlen(o->name) + NAME_TEXT + SHAPE_TEXT + TAIL;
    if (o->count == SIZE_MAX) return SIZE_MAX;
    if (reply->spelling == API_BASE64)
        return api_add_sizes(api_times_sizes(api_times_sizes(o->count, api_dtype_size(o->dtype)) / 3 + 1, 4), fixed);
    const nested t = nested_of(o, text_shape(reply, o));
    return numbers_bound(o, &t, fixed);
}

static size_t json_bound(const api_reply *reply) {
    size_t bound = 4;
    for (size_t i = 0; i < reply->output_count; i++)
        bound = api_add_sizes(bound, output_bound(reply, &reply->outputs[i]));
    return bound;
}

static char *write_output(const api_reply *reply, const api_output *o, attn_pool *pool, char *text) {
    text += sprintf(text, "\"%s\":", o->name);
    if (reply->spelling != API_NESTED) {
        char shape[API_SHAPE_TEXT];
        text += sprintf(text, "{\"shape\":%s,", api_shape_text(shape, o->shape.rank, o->shape.axes));
    }
    if (reply->spelling == API_BASE64) {
        text += sprintf(text, "\"dtype\":\"%s\",\"base64\":\"", api_dtype_name(o->dtype));
        text = write_base64(o->data, o->count * api_dtype_size(o->dtype), text);
        *text++ = '"';
    } else {
        if (reply->spelling == API_FLAT) text += sprintf(text, "\"data\":");
        nested t = nested_of(o, text_shape(reply, o));
        t.cancel = reply->cancel;
        text = write_nested(&t, pool, text);
    }
    if (reply->spelling != API_NESTED) *text++ = '}';
    return text;
}

static char *write_json(const api_reply *reply, attn_pool *pool, char *text) {
    *text++ = '{';
    for (size_t i = 0; i < reply->output_count; i++) {
        if (i > 0) *text++ = ',';
        text = write_output(reply, &reply->outputs[i], pool, text);
    }
    *text++ = '}';
    *text++ = '\n';
    return text;
}

const api_reply_format api_json_reply = {"application/json", 0, json_bound, write_json};

/* ---- the numbers alone ------------------------------------------------------------------------------------------ */

size_t api_json_flat_bound(const api_output *o) {
    if (o->count == SIZE_MAX) return SIZE_MAX;
    const nested t = nested_of(o, flat_shape(o));
    return numbers_bound(o, &t, TAIL);
}

char *api_json_flat_write(const api_output *o, attn_pool *pool, const atomic_bool *cancel, char *text) {
    nested t = nested_of(o, flat_shape(o));
    t.cancel = cancel;
    return write_nested(&t, pool, text);
}
