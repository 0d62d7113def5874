/* The table of formats of bodies and replies. A new one is a file that defines its row, and its name here. */
#include "formats.h"

#include <stdio.h>
#include <string.h>

#include "http/negotiation.h"

#define BODY_LIST(ROW) ROW(json) ROW(safetensors) /* the first reads what has no type */
#define REPLY_LIST(ROW) ROW(json) ROW(safetensors)

#define ROW(name) extern const api_body_format api_##name##_body;
BODY_LIST(ROW)
#undef ROW
#define ROW(name) extern const api_reply_format api_##name##_reply;
REPLY_LIST(ROW)
#undef ROW

#define ROW(name) &api_##name##_body,
static const api_body_format *const bodies[] = {BODY_LIST(ROW)};
#undef ROW
#define ROW(name) &api_##name##_reply,
static const api_reply_format *const replies[] = {REPLY_LIST(ROW)};
#undef ROW
enum { BODIES = sizeof bodies / sizeof *bodies, REPLIES = sizeof replies / sizeof *replies };

const api_body_format *api_body_format_at(size_t index) { return index < BODIES ? bodies[index] : NULL; }

const api_body_format *api_body_format_of(const char *content_type, bool *is_vague) {
    const bool is_untyped = api_is_untyped(content_type);
    *is_vague = is_untyped || api_is_type(content_type, "application/octet-stream");
    if (is_untyped) return bodies[0];
    for (size_t i = 0; i < BODIES; i++)
        if (api_is_type(content_type, bodies[i]->type)) return bodies[i];
    return NULL;
}

const api_body_format *api_body_format_seen(const uint8_t *first, size_t count) {
    for (size_t i = 0; i < BODIES && count >= API_BODY_FIRST; i++)
        if (bodies[i]->recognizes && bodies[i]->recognizes(first)) return bodies[i];
    return NULL;
}

const api_reply_format *api_reply_format_of(const char *accept, const api_body_format *body) {
    const api_reply_format *best = NULL;
    api_acceptance most = {0, 0};
    for (size_t i = 0; i < REPLIES; i++) {
        const api_reply_format *format = replies[i];
        const bool same = body->reply == format;
        const api_acceptance a = api_acceptance_of(accept, format->content_type);
        if (a.quality == 0 || (!same && a.closeness < format->least_closeness)) continue;
        const int better = a.quality != most.quality ? a.quality - most.quality : a.closeness - most.closeness;
        if (best && (better < 0 || (better == 0 && !same))) continue;
        best = format;
        most = a;
    }
    return best;
}

bool api_reply_is_possible(const char *accept) {
    for (size_t i = 0; i < BODIES; i++)
        if (api_reply_format_of(accept, bodies[i])) return true;
    return false;
}

/* Appends a media type without its parameters, as number `index` of `count` in a list. */
static void add_type(char text[API_TYPES_TEXT], const char *type, size_t index, size_t count) {
    const char *separator = index == 0 ? "" : index + 1 == count ? " or " : ", ";
    const size_t length = strlen(text);
    snprintf(text + length, API_TYPES_TEXT - length, "%s%.*s", separator, (int)strcspn(type, ";"), type);
}

const char *api_body_types(char text[API_TYPES_TEXT]) {
    text[0] = '\0';
    for (size_t i = 0; i < BODIES; i++) add_type(text, bodies[i]->type, i, BODIES);
    return text;
}

const char *api_reply_types(char text[API_TYPES_TEXT]) {
    text[0] = '\0';
    for (size_t i = 0; i < REPLIES; i++) add_type(text, replies[i]->content_type, i, REPLIES);
    return text;
}
