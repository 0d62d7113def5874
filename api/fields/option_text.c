#include "option_text.h"

#include <string.h>

#include "../base/text.h"

/* {"name": text} as a document, its member; the values are the reader's. NULL: the text is no JSON value, or error is
 * set. */
static json_t *read_json(api_body *body, api_place place, const char *name, const char *before, const char *text,
                         const char *after, api_error *error) {
    api_error fault = {0};
    api_reader *reader = api_reader_new(body->memory, 0);
    if (!reader) {
        api_error_memory(error, body->memory);
        return NULL;
    }
    const char *const pieces[] = {"{\"", name, "\":", before, text, after, "}"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) api_reader_push(reader, pieces[i], strlen(pieces[i]));
    json_t *document = api_reader_finish(reader, &fault);
    if (fault.code == API_INVALID_JSON) return NULL;
    if (!document) {
        *error = fault;
        return NULL;
    }
    json_t *value = json_object_size(document) == 1 ? json_incref(json_object_get(document, name)) : NULL;
    json_decref(document);
    return value ? api_reader_adopt(body->reader, place, reader, value, error) : NULL;
}

static json_t *read_words(const char *text) {
    json_t *list = json_array();
    for (const char *end; list && text; text = end ? end + 1 : NULL) {
        end = strchr(text, ',');
        if (json_array_append_new(list, json_stringn(text, end ? (size_t)(end - text) : strlen(text))) == 0) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *read_text(api_body *body, api_place place, api_field field, const char *text, api_error *error) {
    const char *name = api_fields[field].name;
    json_t *value = read_json(body, place, name, "", text, "", error);
    if (value || error->code) return value;
    const bool words = field == API_FIELD_RETURN || field == API_FIELD_TOKENS || field == API_FIELD_KEY_TOKENS;
    if (!words && strchr(text, ',')) value = read_json(body, place, name, "[", text, "]", error);
    if (value || error->code) return value;
    value = words ? read_words(text) : json_string(text);
    if (!value) api_error_memory(error, body->memory);
    return value;
}

/* A member's place is its number. */
static void say_contradiction(const json_t *root, const char *name, api_error *error) {
    char pointer[256] = "";
    api_pointer_add(pointer, name);
    size_t member = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)root, key, value) {
        if (strcmp(key, name) == 0) break;
        member++;
    }
    api_error_set(error, API_OUT_OF_RANGE, (api_place){member, 0, 0}, pointer,
                  "%.100s: expected one value, got two that differ", name);
}

bool api_option_add(api_body *body, json_t *root, const char *name, const char *text, api_error *error) {
    const size_t field = api_known_find(api_fields, API_FIELD_COUNT, body->endpoint, name);
    const api_place place = {json_object_size(root), 0, 0};
    json_t *const before = json_object_get(root, name);
    json_t *value = field < API_FIELD_COUNT ? read_text(body, place, (api_field)field, text, error) : json_null();
    if (!value) return false;
    if (before && !json_is_null(before) && !json_is_null(value)) {
        const bool same = api_reader_same(body->reader, before, value);
        json_decref(value);
        if (!same) say_contradiction(root, name, error);
        return same;
    }
    if (before && json_is_null(value)) return true;
    if (json_object_set_new(root, name, value) == 0) return true;
    api_error_memory(error, body->memory);
    return false;
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decodes in place; what is no UTF-8 text becomes question marks, which no option has. */
static void decode(char *text) {
    char *out = text;
    for (const char *in = text; *in; in++) {
        const int high = *in == '%' ? hex(in[1]) : -1, low = high >= 0 ? hex(in[2]) : -1;
        if (low >= 0) {
            *out++ = (char)(high + low ? high << 4 | low : '?');
            in += 2;
        } else {
            *out++ = (char)(*in == '+' ? ' ' : *in);
        }
    }
    *out = '\0';
    api_text_make_utf8(text);
}

bool api_option_add_query(api_body *body, json_t *root, char *query, api_error *error) {
    for (char *pair; (pair = strsep(&query, "&"));) {
        char *text = strchr(pair, '=');
        if (!*pair) continue;
        if (text) *text++ = '\0';
        decode(pair);
        if (text) decode(text);
        if (!api_option_add(body, root, pair, text ? text : "", error)) return false;
    }
    return true;
}
