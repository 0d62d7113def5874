#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reader_internal.h"

/* What jansson 2.14 takes of malloc for each, at most; a member includes its bucket, a node its place in an array. */
enum { NODE_BYTES = 64, STRING_BYTES = 96, CONTAINER_BYTES = 256, MEMBER_BYTES = 128 };
enum { PREPAID = 4096 }; /* is charged at a time: charging is atomic */

void api_bound(api_reader *reader, api_code code, const char *detail, ...) {
    if (reader->bound.code) return;
    char pointer[256] = "", text[256];
    if (reader->has_top_key) api_pointer_add(pointer, reader->top_key);
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    const size_t member = reader->members ? reader->members - 1 : 0;
    api_error_set(&reader->bound, code, (api_place){member, 0, 0}, pointer, "%s", text);
}

void api_tree_drop(void *argument) {
    api_reader *reader = argument;
    while (reader->open_count > 0) json_decref(reader->open[--reader->open_count]);
    json_decref(reader->root);
    reader->root = NULL;
}

void api_tree_give_up(api_reader *reader) {
    reader->full = true;
    api_tree_drop(reader);
}

bool api_count_key(api_reader *reader) {
    if (++reader->key_count <= API_MAX_KEYS) return true;
    api_bound(reader, API_OUT_OF_RANGE, "more than %d objects and members of objects", API_MAX_KEYS);
    api_tree_give_up(reader);
    return false;
}

/* Charges what jansson takes. false: over budget, noted. */
static bool charge(api_reader *reader, size_t bytes) {
    if (reader->prepaid < bytes) {
        if (!api_charge(reader->memory, bytes + PREPAID)) {
            reader->exhausted = true;
            return false;
        }
        reader->prepaid += bytes + PREPAID;
    }
    reader->prepaid -= bytes;
    return true;
}

static bool count_node(api_reader *reader, size_t bytes) {
    if (++reader->nodes <= API_MAX_NODES) return charge(reader, bytes);
    api_bound(reader, API_OUT_OF_RANGE, "more than %zu values besides numbers and tensors", API_MAX_NODES);
    api_tree_give_up(reader);
    return false;
}

/* Strings and keys. false: over the bound. */
static bool count_text(api_reader *reader) {
    reader->text_bytes += reader->string_length;
    if (reader->text_bytes <= API_MAX_TEXT) return true;
    api_bound(reader, API_OUT_OF_RANGE, "more than %zu bytes of strings and keys", API_MAX_TEXT);
    api_tree_give_up(reader);
    return false;
}

void api_tree_add(api_reader *reader, json_t *json, size_t bytes) {
    if (reader->full || reader->exhausted || !count_node(reader, NODE_BYTES + bytes)) {
        json_decref(json);
        return;
    }
    json_t *const parent = reader->open_count ? reader->open[reader->open_count - 1] : NULL;
    if (!parent)
        reader->root = json;
    else if (json_is_object(parent))
        reader->exhausted = json_object_iter_set_new(parent, reader->slot, json) != 0;
    else
        reader->exhausted = json_array_append_new(parent, json) != 0;
    if (!json) reader->exhausted = true;
}

void api_tree_open(api_reader *reader, bool object) {
    if (reader->full || reader->exhausted) return;
    if (!api_reader_grow(reader, &reader->open, &reader->open_capacity, reader->open_count + 1, sizeof(json_t *)))
        return;
    json_t *json = object ? json_object() : json_array();
    if (!json) {
        reader->exhausted = true;
        return;
    }
    if (reader->mode == API_TO_DOCUMENT) api_tree_add(reader, json_incref(json), CONTAINER_BYTES);
    if (reader->mode == API_TO_NOTHING) charge(reader, CONTAINER_BYTES);
    if (reader->full)
        json_decref(json);
    else
        reader->open[reader->open_count++] = json;
}

void api_tree_close(api_reader *reader) {
    if (reader->open_count > 0) json_decref(reader->open[--reader->open_count]);
}

void api_tree_key(api_reader *reader) {
    if (reader->full || reader->exhausted || !count_text(reader)) return;
    if (!charge(reader, MEMBER_BYTES + reader->string_length)) return;
    json_t *const object = reader->open[reader->open_count - 1];
    const size_t before = json_object_size(object);
    if (json_object_set_new_nocheck(object, reader->string, json_null()) != 0)
        reader->exhausted = true;
    else if (json_object_size(object) == before)
        api_reader_fail(reader, reader->string_byte, reader->string_column, "duplicate key \"%.100s\"", reader->string);
    else
        reader->slot = json_object_iter_at(object, reader->string);
}

void api_tree_string(api_reader *reader) {
    if (reader->full || reader->exhausted || !count_text(reader)) return;
    api_tree_add(reader, json_stringn_nocheck(reader->string, reader->string_length),
                 STRING_BYTES + reader->string_length);
}

void api_tree_index(api_reader *reader, size_t index) { api_tree_add(reader, json_integer((json_int_t)index), 0); }

void api_tree_add_refused(api_reader *reader) { api_tree_add(reader, json_object(), CONTAINER_BYTES); }

void api_tree_refuse(api_reader *reader, size_t base) {
    if (reader->mode == API_TO_DOCUMENT) api_tree_add_refused(reader);
    reader->mode = API_TO_NOTHING;
    reader->refused_base = base;
}
