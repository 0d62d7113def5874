#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "json_parse.h"
#include "reader_internal.h"

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

void api_emit(api_reader *reader, const void *bytes, size_t length) {
    if (reader->mode == API_TO_TENSOR || reader->full || reader->exhausted) return;
    api_text *text = reader->mode == API_TO_SHADOW ? &reader->shadow : &reader->skeleton;
    if (reader->skeleton.length + reader->shadow.length + length > API_MAX_SKELETON) {
        api_bound(reader, API_OUT_OF_RANGE, "more than %zu bytes besides tensors", API_MAX_SKELETON);
        reader->full = true;
        return;
    }
    if (!api_reader_grow(reader, &text->data, &text->capacity, text->length + length, 1)) return;
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
}

bool api_count_node(api_reader *reader) {
    if (++reader->nodes <= API_MAX_NODES) return true;
    api_bound(reader, API_OUT_OF_RANGE, "more than %zu values besides numbers and tensors", API_MAX_NODES);
    reader->full = true;
    return false;
}

void api_emit_value(api_reader *reader, size_t index) {
    char text[24];
    if (api_count_node(reader)) api_emit(reader, text, (size_t)snprintf(text, sizeof text, "%zu", index));
}

/* The shadow is one array of what had to go there. */
void api_shadow_begin(api_reader *reader, size_t base) {
    if (reader->mode == API_TO_SKELETON) api_emit(reader, API_REFUSED, sizeof API_REFUSED - 1);
    reader->mode = API_TO_SHADOW;
    reader->shadow_base = base;
    api_emit(reader, reader->shadow.length ? "," : "[", 1);
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

void api_key_begin(api_reader *reader) {
    const bool shadow = reader->mode == API_TO_SHADOW;
    if (reader->depth == 1) reader->has_top_key = false;
    if (++reader->key_count > API_MAX_KEYS) {
        api_bound(reader, API_OUT_OF_RANGE, "more than %d objects and members of objects", API_MAX_KEYS);
        reader->full = true;
        return;
    }
    api_key_list *list = shadow ? &reader->shadow_keys : &reader->skeleton_keys;
    if (!api_reader_grow(reader, &list->keys, &list->capacity, list->count + 1, sizeof *list->keys)) return;
    reader->string_begin = shadow ? reader->shadow.length : reader->skeleton.length;
    list->keys[list->count++] =
        (api_key){reader->string_begin, 0, reader->string_line, reader->string_column, reader->string_byte};
    if (api_count_node(reader)) api_emit(reader, "\"", 1);
}

void api_key_end(api_reader *reader) {
    const bool shadow = reader->mode == API_TO_SHADOW;
    const api_key_list *list = shadow ? &reader->shadow_keys : &reader->skeleton_keys;
    api_emit(reader, "\"", 1);
    if (!reader->full && list->count > 0)
        list->keys[list->count - 1].end = shadow ? reader->shadow.length : reader->skeleton.length;
}

/* ---- jansson ---------------------------------------------------------------------------------------------------- */

/* jansson stops right after the key that is there twice. */
static void say_duplicate(const api_text *text, const api_key_list *list, size_t position, api_error *error) {
    size_t i = 0;
    while (i + 1 < list->count && list->keys[i].end < position) i++;
    const api_key *key = &list->keys[i];
    const size_t length = key->end - key->begin;
    api_error_set(error, API_INVALID_JSON, (api_place){0}, NULL,
                  "line %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64 "): the key %.*s%s is in its object twice",
                  key->line, key->column, key->byte, (int)(length < 100 ? length : 100), text->data + key->begin,
                  length < 100 ? "" : "...");
}

/* NULL: error says of a duplicate, or the reader is exhausted: the grammar was checked before, so that the tree fails
 * otherwise only for want of memory. */
static json_t *parse(api_reader *reader, api_text *text, const api_key_list *list, api_error *error) {
    json_error_t fault;
    json_t *tree = api_json_parse(reader->memory, text->data, text->length, &fault);
    if (tree) {
        api_release(reader->memory, text->data);
        *text = (api_text){0};
    } else if (json_error_code(&fault) == json_error_duplicate_key)
        say_duplicate(text, list, (size_t)(fault.position > 0 ? fault.position : 0), error);
    else if (json_error_code(&fault) != json_error_stack_overflow)
        api_reader_exhaust(reader); /* only the shadow may be deeper than jansson goes: so deep nobody looks further */
    return tree;
}

json_t *api_skeleton_parse(api_reader *reader, api_error *error) {
    if (reader->full) return NULL;
    json_t *skeleton = parse(reader, &reader->skeleton, &reader->skeleton_keys, error);
    if (reader->shadow.length > 0 && !reader->exhausted && !error->code) {
        reader->mode = API_TO_SHADOW;
        api_emit(reader, "]", 1);
        if (!reader->full && !reader->exhausted)
            json_decref(parse(reader, &reader->shadow, &reader->shadow_keys, error));
    }
    if (error->code || reader->exhausted) {
        json_decref(skeleton);
        return NULL;
    }
    return skeleton;
}
