/* A body in the format of safetensors (https://github.com/huggingface/safetensors#format): eight
 * bytes with the length of the header, little-endian; the header, a JSON object that gives each tensor's dtype, shape
 * and place among the data; the data.
 *
 * The header is read as it arrives; the data go into one piece of memory, where the tensors stay and are converted.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/limits.h"
#include "../fields/option_text.h"
#include "safetensors.h"

enum { PREFIX = 8 };
static const char metadata[] = "__metadata__";

typedef struct safetensors {
    uint64_t received;      /* bytes of the body */
    uint64_t header_length; /* known after the prefix */
    uint8_t first;          /* byte of the header */
    bool exhausted;
    uint8_t *data;
    size_t length, capacity;
} safetensors;

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool open_reader(api_body *body) {
    safetensors *s = body->state = api_small(body->memory, sizeof *s);
    if (!s) return false;
    *s = (safetensors){0};
    body->reader = api_reader_new(body->memory, 0);
    return body->reader != NULL;
}

/* The data grow into what Content-Length promises by doubling, which moves page tables and no bytes: so a body that is
 * announced and never sent holds no memory. */
static bool reserve(api_body *body, safetensors *s, size_t length) {
    if (length <= s->capacity) return true;
    const uint64_t head = PREFIX + s->header_length, promised = body->expected > head ? body->expected - head : 0;
    size_t room = s->capacity < ((size_t)512 << 10) ? (size_t)1 << 20 : 2 * s->capacity;
    if (room > promised && promised >= length) room = promised;
    if (room < length) room = length;
    uint8_t *data = api_resize(body->memory, s->data, room);
    if (!data) {
        s->exhausted = true;
        return false;
    }
    s->data = data;
    s->capacity = room;
    return true;
}

static void push(api_body *body, const void *bytes, size_t length) {
    safetensors *s = body->state;
    const uint8_t *p = bytes, *const end = p + length;
    for (; p < end && s->received < PREFIX; p++) s->header_length |= (uint64_t)*p << 8 * s->received++;
    if (p == end || s->header_length > API_MAX_HEADER || s->exhausted) return;
    const uint64_t header_left = s->header_length + PREFIX - s->received;
    if (s->received < PREFIX + s->header_length) {
        const size_t count = (size_t)(end - p) < header_left ? (size_t)(end - p) : (size_t)header_left;
        if (s->received == PREFIX) s->first = *p;
        api_reader_push(body->reader, p, count);
        s->received += count;
        p += count;
    }
    if (p == end || !reserve(body, s, s->length + (size_t)(end - p))) return;
    memcpy(s->data + s->length, p, (size_t)(end - p));
    s->length += (size_t)(end - p);
    s->received += (size_t)(end - p);
}

/* ---- the header's entries --------------------------------------------------------------------------------------- */

typedef struct entry {
    const char *name;
    api_place place; /* in the header */
    api_dtype dtype;
    size_t rank, shape[API_MAX_RANK], bytes, begin, end;
} entry;

__attribute__((format(printf, 4, 5))) static bool entry_fault(const entry *e, api_error *error, api_code code,
                                                              const char *detail, ...) {
    char text[400], pointer[256] = "";
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    api_pointer_add(pointer, e->name);
    api_error_set(error, code, e->place, pointer, "%.60s: %s", e->name, text);
    return false;
}

/* The value of a flat list of numbers, with the pointer to the entry; NULL: fault. */
static api_value *find_list(api_body *body, const entry *e, const json_t *json, const char *what, char pointer[256],
                            api_error *error) {
    api_value *value = json_is_integer(json) ? api_reader_value(body->reader, json_integer_value(json)) : NULL;
    if (!value || value->rank != 1 || value->type == API_ELEMENT_BOOLEAN) {
        entry_fault(e, error, API_WRONG_TYPE, "expected \"%s\" as a list of integers", what);
        return NULL;
    }
    pointer[0] = '\0';
    api_pointer_add(pointer, e->name);
    value->place = value->fault.place = e->place;
    return value;
}

static bool read_shape(api_body *body, entry *e, const json_t *json, api_error *error) {
    char pointer[256];
    size_t count;
    api_value *value = find_list(body, e, json, "shape", pointer, error);
    if (!value || !api_value_axes(value, pointer, e->name, &e->rank, e->shape, &count, error)) return false;
    e->bytes = count * api_dtype_size(e->dtype); /* count is at most 2^53 */
    return true;
}

static bool read_offsets(api_body *body, entry *e, const json_t *json, api_error *error) {
    char pointer[256];
    api_value *value = find_list(body, e, json, "data_offsets", pointer, error);
    const int64_t *range = value ? api_value_integers(value, API_DTYPE_NONE, pointer, error) : NULL;
    if (!range) return false;
    if (value->count != 2 || range[0] < 0 || range[0] > range[1])
        return entry_fault(e, error, API_OUT_OF_RANGE, "expected data_offsets [begin, end], 0 <= begin <= end");
    e->begin = (size_t)range[0];
    e->end = (size_t)range[1];
    if (e->end - e->begin == e->bytes) return true;
    return entry_fault(e, error, API_SHAPE_MISMATCH, "expected %zu bytes for its shape of %s, data_offsets give %zu",
                       e->bytes, api_dtype_name(e->dtype), e->end - e->begin);
}

static bool read_entry(api_body *body, entry *e, const json_t *json, api_error *error) {
    const char *key;
    json_t *member;
    char list[API_DTYPE_LIST];
    if (!json_is_object(json)) return entry_fault(e, error, API_WRONG_TYPE, "expected an object for each tensor");
    json_object_foreach((json_t *)json, key, member) {
        if (strcmp(key, "dtype") == 0 || strcmp(key, "shape") == 0 || strcmp(key, "data_offsets") == 0) continue;
        return entry_fault(e, error, API_UNKNOWN_FIELD,
                           "unknown member \"%.100s\"; a tensor has dtype, shape and data_offsets", key);
    }
    const json_t *dtype = json_object_get(json, "dtype"), *shape = json_object_get(json, "shape");
    const json_t *offsets = json_object_get(json, "data_offsets");
    if (!dtype || !shape || !offsets)
        return entry_fault(e, error, API_MISSING_FIELD, "a tensor needs dtype, shape and data_offsets");
    if (!json_is_string(dtype)) return entry_fault(e, error, API_WRONG_TYPE, "expected the name of a dtype");
    e->dtype = api_dtype_of_name(json_string_value(dtype));
    if (e->dtype == API_DTYPE_NONE)
        return entry_fault(e, error, API_OUT_OF_RANGE, "expected a dtype of %s, got \"%.40s\"",
                           api_dtype_list(list, false), json_string_value(dtype));
    return read_shape(body, e, shape, error) && read_offsets(body, e, offsets, error);
}

static int by_offsets(const void *left, const void *right) {
    const entry *a = *(const entry *const *)left, *b = *(const entry *const *)right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/* The tensors cover the data from the first byte to the last, each once. `order` is theirs to sort. */
static bool check_cover(const entry *entries, const entry **order, size_t count, size_t length, api_error *error) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) order[i] = &entries[i];
    if (count) qsort(order, count, sizeof(const entry *), by_offsets);
    for (size_t i = 0; i < count; i++) {
        if (order[i]->begin != at)
            return entry_fault(order[i], error, API_OUT_OF_RANGE,
                               "expected data_offsets from %zu on, where the tensor before it ends, got %zu", at,
                               order[i]->begin);
        at = order[i]->end;
        if (at > length)
            return entry_fault(order[i], error, API_SHAPE_MISMATCH,
                               "its data ends at byte %zu, the data of the body at %zu", at, length);
    }
    if (at == length) return true;
    api_error_set(error, API_SHAPE_MISMATCH, API_PLACE_LAST, "", "expected %zu bytes of data, got %zu", at, length);
    return false;
}

/* ---- the document ----------------------------------------------------------------------------------------------- */

/* Programs that save models note here which library did: no option of ours. */
static bool is_library(const char *key, const char *text) {
    static const char *const libraries[] = {"pt", "np", "tf", "flax", "mlx", "paddle"};
    if (strcmp(key, "format") != 0) return false;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (strcmp(text, libraries[i]) == 0) return true;
    return false;
}

static bool add_metadata(api_body *body, json_t *root, const json_t *texts, api_error *error) {
    const char *key;
    json_t *text;
    char pointer[256] = "";
    api_pointer_add(pointer, metadata);
    if (!json_is_object(texts)) {
        api_error_set(error, API_WRONG_TYPE, (api_place){0}, pointer, "%s: expected an object of strings", metadata);
        return false;
    }
    json_object_foreach((json_t *)texts, key, text) {
        if (!json_is_string(text)) {
            api_pointer_add(pointer, key);
            api_error_set(error, API_WRONG_TYPE, (api_place){0}, pointer, "%s: expected strings that hold JSON values",
                          metadata);
            return false;
        }
        if (is_library(key, json_string_value(text))) continue;
        if (!api_option_add(body, root, key, json_string_value(text), error)) return false;
    }
    return true;
}

static bool add_tensor(api_body *body, json_t *root, const entry *e, api_error *error) {
    safetensors *s = body->state;
    const json_t *before = json_object_get(root, e->name);
    if (before && !json_is_null(before))
        return entry_fault(e, error, API_OUT_OF_RANGE, "expected a tensor or an option of this name, got both");
    uint8_t *bytes = e->bytes ? s->data + e->begin : NULL;
    json_t *value = api_reader_add_tensor(body->reader, (api_place){json_object_size(root), 0, 0}, e->dtype, e->rank,
                                          e->shape, bytes, error);
    if (!value) return false;
    if (json_object_set_new(root, e->name, value) == 0) return true;
    api_error_memory(error, body->memory);
    return false;
}

/* Options of the header, then the tensors in its order. */
static bool fill(api_body *body, json_t *root, const json_t *header, const entry *entries, size_t count,
                 api_error *error) {
    const json_t *texts = json_object_get(header, metadata);
    if (texts && !add_metadata(body, root, texts, error)) return false;
    for (size_t i = 0; i < count; i++)
        if (!add_tensor(body, root, &entries[i], error)) return false;
    return true;
}

static json_t *make_document(api_body *body, const json_t *header, api_error *error) {
    const safetensors *s = body->state;
    const char *key;
    json_t *member;
    const size_t most = json_object_size(header);
    entry *entries = api_small(body->memory, (most + 1) * sizeof *entries);
    const entry **order = api_small(body->memory, (most + 1) * sizeof(const entry *));
    json_t *root = json_object();
    if (!entries || !order || !root) {
        api_error_memory(error, body->memory);
        json_decref(root);
        return NULL;
    }
    size_t count = 0, index = 0;
    bool ok = true;
    json_object_foreach((json_t *)header, key, member) {
        const api_place place = {index++, 0, 0};
        if (strcmp(key, metadata) == 0) continue;
        entries[count] = (entry){.name = key, .place = place};
        ok &= read_entry(body, &entries[count++], member, error);
    }
    if (ok && check_cover(entries, order, count, s->length, error) && fill(body, root, header, entries, count, error))
        return root;
    json_decref(root);
    return NULL;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static json_t *read_header(api_body *body, api_error *error) {
    const safetensors *s = body->state;
    const api_place place = {0};
    const uint64_t at = s->received; /* the byte that is not there */
    if (s->received < PREFIX) {
        api_error_set(error, API_INVALID_JSON, place, NULL,
                      "line 1, column %" PRIu64 " (byte %" PRIu64
                      "): expected 8 bytes with the length of the safetensors header, but the body ends after %" PRIu64,
                      at + 1, at, at);
        return NULL;
    }
    if (s->header_length > API_MAX_HEADER) {
        api_error_set(error, API_OUT_OF_RANGE, place, "",
                      "the safetensors header may have at most %zu bytes, its length says %" PRIu64 "%s",
                      API_MAX_HEADER, s->header_length, (s->header_length & 0xFF) == '{' ? "; is the body JSON?" : "");
        return NULL;
    }
    if (s->received < PREFIX + s->header_length) {
        api_error_set(error, API_INVALID_JSON, place, NULL,
                      "line 1, column %" PRIu64 " (byte %" PRIu64 "): expected a header of %" PRIu64
                      " bytes, but the body ends after %" PRIu64 " of them",
                      at + 1, at, s->header_length, at - PREFIX);
        return NULL;
    }
    json_t *header = api_reader_finish(body->reader, error);
    if (!header) {
        if (error->code == API_INVALID_JSON) {
            char detail[sizeof error->detail];
            memcpy(detail, error->detail, sizeof detail);
            snprintf(error->detail, sizeof error->detail, "header: %.480s", detail);
        }
        return NULL;
    }
    if (json_is_object(header) && s->first == '{') return header;
    api_error_set(error, API_WRONG_TYPE, place, "", "expected a header that is an object and begins with {");
    json_decref(header);
    return NULL;
}

static json_t *finish(api_body *body, api_error *error) {
    const safetensors *s = body->state;
    if (s->exhausted) {
        api_error_memory(error, body->memory);
        return NULL;
    }
    json_t *header = read_header(body, error);
    if (!header) return NULL;
    json_t *root = make_document(body, header, error);
    json_decref(header);
    return root;
}

/* The length of a header is far below 2^56, so that its last byte is 0, which JSON text never has. */
static bool recognizes(const uint8_t first[API_BODY_FIRST]) { return first[PREFIX - 1] == 0 && first[PREFIX] == '{'; }

const api_body_format api_safetensors_body = {.name = "safetensors",
                                              .type = "application/vnd.safetensors",
                                              .reply = &api_safetensors_reply,
                                              .open = open_reader,
                                              .push = push,
                                              .finish = finish,
                                              .recognizes = recognizes};
