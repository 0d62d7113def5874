#include "option_text.h"

#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "hints.h"

/* What the values of an option need. */
typedef struct reading {
    api_memory *memory;
    api_reader *reader;
    api_place place; /* of the values */
    api_error *error;
} reading;

/* {"name": text} as a document, its member; the values are the reader's. NULL: the text is not JSON, or error is set.
 */
static json_t *read_json(const reading *r, const char *name, const char *before, const char *text, const char *after) {
    api_error fault = {0};
    api_reader *reader = api_reader_new(r->memory, 0);
    if (!reader) {
        api_error_memory(r->error, r->memory);
        return NULL;
    }
    const char *const pieces[] = {"{\"", name, "\":", before, text, after, "}"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) api_reader_push(reader, pieces[i], strlen(pieces[i]));
    json_t *document = api_reader_finish(reader, &fault);
    if (fault.code == API_INVALID_JSON) return NULL;
    if (!document) {
        *r->error = fault;
        if (fault.place.member != SIZE_MAX) r->error->place = r->place;
        return NULL;
    }
    json_t *value = json_object_size(document) == 1 ? json_incref(json_object_get(document, name)) : NULL;
    json_decref(document);
    return value ? api_reader_adopt(r->reader, r->place, reader, value, r->error) : NULL;
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

/* A boolean as Python's clients write it; NULL: it is none. */
static json_t *read_boolean(const char *text) {
    if (strcmp(text, "True") == 0 || strcmp(text, "1") == 0) return json_true();
    return strcmp(text, "False") == 0 || strcmp(text, "0") == 0 ? json_false() : NULL;
}

/* The value of a text by the kinds of its field. NULL: error is set. */
static json_t *read_text(const reading *r, const api_field_row *row, const char *text) {
    const char first = text[strspn(text, " \t\r\n")];
    const bool bare = first != '\0' && strchr("[{\"", first) == NULL && strcmp(text, "null") != 0;
    const bool words = row->kinds & API_WORDS, list = row->kinds & API_TENSOR;
    const bool only_list = list && (row->kinds & ~(unsigned)API_TENSOR) == 0;
    json_t *value = row->kinds & API_BOOLEAN ? read_boolean(text) : NULL;
    if (!value && !(bare && (words || only_list))) value = read_json(r, row->name, "", text, "");
    if (!value && !r->error->code && bare && list) value = read_json(r, row->name, "[", text, "]");
    if (value || r->error->code) return value;
    value = words ? read_words(text) : json_string(text);
    if (!value) api_error_memory(r->error, r->memory);
    return value;
}

/* ---- beside a body ---------------------------------------------------------------------------------------------- */

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
    const api_field_row *row = api_field_at(body->schema, api_field_find(body->schema, name));
    const reading r = {body->memory, body->reader, {json_object_size(root), 0, 0}, error};
    json_t *const before = json_object_get(root, name);
    json_t *value = row ? read_text(&r, row, text) : json_null(); /* an unknown one is left to the form */
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

/* ---- in a query string ------------------------------------------------------------------------------------------ */

/* Places of options in a query string come after all of the body; what is missing is said after them. */
#define QUERY_MEMBER (SIZE_MAX - 1)

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decodes in place; what is not UTF-8 becomes question marks, which no option has. */
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

/* Whether an option of this name cannot stand in the query string; the text says why. */
static bool is_refused(const api_form *form, const api_field_row *row, const char *name, char text[API_HINT_TEXT]) {
    if (!row)
        api_hint(form->schema, form->schemas, name, text);
    else if (form->has_parameters)
        snprintf(text, API_HINT_TEXT, "\"%s\" is an option; here options belong in \"parameters\" of the body", name);
    else if (!api_field_in_query(row))
        snprintf(text, API_HINT_TEXT, "\"%s\" is a tensor; tensors belong in the body", name);
    else
        return false;
    return true;
}

static void read_option(api_form *form, json_t *root, api_place place, const char *name, const char *text) {
    char hint[API_HINT_TEXT];
    const api_field field = (api_field)api_field_find(form->schema, name);
    const api_field_row *row = api_field_at(form->schema, field);
    if (!row && form->has_parameters) return; /* not ours */
    if (is_refused(form, row, name, hint) || !row) {
        api_error_set(form->error, API_UNKNOWN_FIELD, place, NULL, "%s", hint);
        return;
    }
    api_error fault = {0};
    api_slot *slot = &form->slots[field];
    json_t *value = read_text(&(reading){form->memory, form->reader, place, &fault}, row, text);
    if (!value) {
        api_error_set(form->error, fault.code, fault.place, NULL, "%s", fault.detail);
    } else if (json_is_null(value) || (slot->json && api_reader_same(form->reader, slot->json, value))) {
        json_decref(value);
    } else if (slot->json) {
        json_decref(value);
        api_error_set(form->error, API_OUT_OF_RANGE, place, NULL, "%s: expected one value, got two that differ", name);
    } else if (json_object_set_new(root, name, value) == 0) {
        slot->json = value;
        slot->place = place;
    } else {
        api_error_memory(form->error, form->memory);
    }
}

void api_query_read(api_form *form, json_t *root) {
    size_t count = 0;
    for (char *rest = form->query, *pair; (pair = strsep(&rest, "&"));) {
        char *text = strchr(pair, '=');
        if (!*pair) continue;
        if (text) *text++ = '\0';
        decode(pair);
        if (text) decode(text);
        read_option(form, root, (api_place){QUERY_MEMBER, count++, 0}, pair, text ? text : "");
    }
}

void api_query_locate(api_error *error) {
    if (error->code == API_NO_ERROR || error->place.member != QUERY_MEMBER) return;
    char detail[sizeof error->detail];
    const char *name = error->pointer[0] ? error->pointer + 1 : "";
    const int length = (int)strcspn(name, "/");
    const bool named = strncmp(error->detail, name, (size_t)length) == 0;
    memcpy(detail, error->detail, sizeof detail);
    snprintf(error->detail, sizeof error->detail, "query string: %.*s%s%.400s", named ? 0 : length, name,
             named ? "" : ": ", detail);
    api_text_make_utf8(error->detail);
    error->has_pointer = false;
}
