#include "negotiation.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* a piece of a header, not ended by a zero */
typedef struct span {
    const char *start;
    size_t length;
} span;

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static span trim(span s) {
    while (s.length && is_blank(s.start[0])) s.start++, s.length--;
    while (s.length && is_blank(s.start[s.length - 1])) s.length--;
    return s;
}

static bool is(span s, const char *word) {
    return s.length == strlen(word) && strncasecmp(s.start, word, s.length) == 0;
}

/* Cuts what stands before the first `separator` outside of quotes off *rest. */
static span next(span *rest, char separator) {
    size_t i = 0;
    for (bool quoted = false; i < rest->length && (quoted || rest->start[i] != separator); i++) {
        if (rest->start[i] == '"')
            quoted = !quoted;
        else if (rest->start[i] == '\\' && quoted && i + 1 < rest->length)
            i++;
    }
    const span piece = {rest->start, i};
    const size_t used = i < rest->length ? i + 1 : i;
    rest->start += used;
    rest->length -= used;
    return trim(piece);
}

bool api_reads_type(const char *content_type) {
    if (!content_type) return true;
    span rest = {content_type, strlen(content_type)};
    const span type = next(&rest, ';');
    if (type.length == 0 && rest.length == 0) return true;
    if (is(type, "application/json") || is(type, "application/x-www-form-urlencoded")) return true;
    return type.length > 17 && strncasecmp(type.start, "application/", 12) == 0 &&
           strncasecmp(type.start + type.length - 5, "+json", 5) == 0 && !memchr(type.start, ',', type.length);
}

bool api_reads_encoding(const char *content_encoding) {
    if (!content_encoding) return true;
    span rest = {content_encoding, strlen(content_encoding)};
    while (rest.length) {
        const span coding = next(&rest, ',');
        if (coding.length && !is(coding, "identity")) return false;
    }
    return true;
}

/* q=0, q=0.000 */
static bool is_zero_quality(span value) {
    if (value.length == 0 || value.start[0] != '0') return false;
    for (size_t i = 1; i < value.length; i++)
        if (value.start[i] != '0' && !(i == 1 && value.start[i] == '.')) return false;
    return true;
}

/* How closely a media range matches: 3 type/subtype, 2 type/any, 1 anything, 0 not at all. */
static int closeness(span range, const char *type, const char *subtype) {
    span rest = range;
    const span left = next(&rest, '/'), right = trim(rest);
    if (is(left, "*")) return is(right, "*") ? 1 : 0;
    if (!is(left, type)) return 0;
    return is(right, "*") ? 2 : is(right, subtype) ? 3 : 0;
}

bool api_accepts(const char *accept, const char *type, const char *subtype) {
    if (!accept) return true;
    span rest = {accept, strlen(accept)};
    int best = 0;
    bool admitted = false, any = false;
    while (rest.length) {
        span element = next(&rest, ',');
        if (element.length == 0) continue;
        any = true;
        const int close = closeness(next(&element, ';'), type, subtype);
        bool excluded = false;
        while (element.length) {
            span value = next(&element, ';');
            const span name = next(&value, '=');
            if (is(name, "q")) excluded = is_zero_quality(trim(value));
        }
        if (close > best) {
            best = close;
            admitted = !excluded;
        } else if (close && close == best) {
            admitted |= !excluded; /* application/json;v=1;q=0, application/json: one of them admits */
        }
    }
    return !any || admitted;
}
