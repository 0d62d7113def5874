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

static bool equals(span a, span b) { return a.length == b.length && strncasecmp(a.start, b.start, a.length) == 0; }

static bool is(span s, const char *word) { return equals(s, (span){word, strlen(word)}); }

static const span any = {"*", 1};

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
    if (used) rest->start += used; /* an empty text may be NULL */
    rest->length -= used;
    return trim(piece);
}

/* true for "application/vnd.api+json" if wanted is "application/json" */
static bool has_suffix(span type, const char *wanted) {
    const char *subtype = strchr(wanted, '/') + 1;
    const size_t length = strlen(subtype), prefix = (size_t)(subtype - wanted);
    return type.length > prefix + length + 1 && strncasecmp(type.start, wanted, prefix) == 0 &&
           type.start[type.length - length - 1] == '+' &&
           strncasecmp(type.start + type.length - length, subtype, length) == 0 &&
           !memchr(type.start, ',', type.length);
}

bool api_is_type(const char *content_type, const char *wanted) {
    span rest = {content_type, content_type ? strlen(content_type) : 0};
    const span type = next(&rest, ';');
    return is(type, wanted) || has_suffix(type, wanted);
}

bool api_is_untyped(const char *content_type) {
    span rest = {content_type, content_type ? strlen(content_type) : 0};
    const span type = next(&rest, ';');
    return (type.length == 0 && rest.length == 0) || is(type, "application/x-www-form-urlencoded");
}

/* API_CODING_COUNT: not one of ours. x-gzip is an old name of gzip (RFC 9110, section 8.4.1.3). */
static api_coding coding_of(span name) {
    if (is(name, "x-gzip")) return API_GZIP;
    size_t coding = API_IDENTITY;
    while (coding < API_CODING_COUNT && !is(name, api_coding_names[coding])) coding++;
    return (api_coding)coding;
}

bool api_content_coding(const char *content_encoding, api_coding *coding) {
    *coding = API_IDENTITY;
    if (!content_encoding) return true;
    span rest = {content_encoding, strlen(content_encoding)};
    while (rest.length) {
        const span name = next(&rest, ',');
        if (name.length == 0 || is(name, "identity")) continue;
        if (*coding != API_IDENTITY) return false;
        *coding = coding_of(name);
        if (*coding == API_CODING_COUNT) return false;
    }
    return true;
}

/* 0 to 1000; an invalid quality counts as none given */
static int thousandths(span value) {
    if (value.length == 0 || value.start[0] != '0') return 1000;
    int sum = 0, unit = 100;
    for (size_t i = 2; i < value.length && value.start[i] >= '0' && value.start[i] <= '9'; i++, unit /= 10)
        sum += unit * (value.start[i] - '0');
    return sum;
}

/* How closely a media range matches: 3 type/subtype, 2 type/any, 1 anything, 0 not at all. */
static int closeness(span range, span type) {
    const span left = next(&range, '/'), right = trim(range), wanted = next(&type, '/'), sub = trim(type);
    if (equals(left, any)) return equals(right, any) ? 1 : 0;
    if (!equals(left, wanted)) return 0;
    return equals(right, any) ? 2 : equals(right, sub) ? 3 : 0;
}

api_acceptance api_acceptance_of(const char *accept, const char *type) {
    span rest = {accept, accept ? strlen(accept) : 0}, parameters = {type, strlen(type)};
    const span wanted = next(&parameters, ';');
    api_acceptance best = {0, 0};
    bool empty = true;
    while (rest.length) {
        span element = next(&rest, ',');
        if (element.length == 0) continue;
        empty = false;
        const int close = closeness(next(&element, ';'), wanted);
        int quality = 1000;
        while (element.length) {
            span value = next(&element, ';');
            if (is(next(&value, '='), "q")) quality = thousandths(trim(value));
        }
        /* application/json;v=1;q=0, application/json: of equally close ones the best counts */
        if (close > best.closeness || (close && close == best.closeness && quality > best.quality))
            best = (api_acceptance){quality, close};
    }
    return empty ? (api_acceptance){1000, 0} : best;
}

/* ---- Accept-Encoding -------------------------------------------------------------------------------------------- */

enum { UNNAMED = -1 };

/* what a header says of each coding: its quality in thousandths, or UNNAMED */
typedef struct qualities {
    int of[API_CODING_COUNT], others; /* others: of "*" */
} qualities;

static qualities read_qualities(const char *accept_encoding) {
    qualities q = {.others = UNNAMED};
    for (size_t i = 0; i < API_CODING_COUNT; i++) q.of[i] = UNNAMED;
    span rest = {accept_encoding, accept_encoding ? strlen(accept_encoding) : 0};
    while (rest.length) {
        span element = next(&rest, ',');
        const span name = next(&element, ';');
        const api_coding coding = coding_of(name);
        int quality = 1000;
        while (element.length) {
            span value = next(&element, ';');
            if (is(next(&value, '='), "q")) quality = thousandths(trim(value));
        }
        if (is(name, "*"))
            q.others = quality;
        else if (coding != API_CODING_COUNT)
            q.of[coding] = quality;
    }
    return q;
}

api_coding_choice api_choose_coding(const char *accept_encoding) {
    /* equal ones in the order of their speed; zstd must be named, as "*" often means whatever was known long ago */
    static const api_coding order[] = {API_ZSTD, API_GZIP, API_DEFLATE};
    const qualities q = read_qualities(accept_encoding);
    const int others = q.others == UNNAMED ? 0 : q.others;
    const int identity = q.of[API_IDENTITY] != UNNAMED ? q.of[API_IDENTITY] : q.others;
    api_coding_choice choice = {API_IDENTITY, identity != 0};
    int best = identity > 0 ? identity - 1 : 0; /* a coding that is as welcome as identity is used */
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const int quality = q.of[order[i]] != UNNAMED ? q.of[order[i]] : order[i] == API_ZSTD ? 0 : others;
        if (quality <= best) continue;
        best = quality;
        choice.coding = order[i];
    }
    return choice;
}

api_coding_choice api_choose_coding_of_client(const char *accept_encoding) {
    const qualities q = read_qualities(accept_encoding);
    const bool gzip = q.of[API_GZIP] > 0, deflate = q.of[API_DEFLATE] > 0;
    const api_coding coding = gzip == deflate ? API_IDENTITY : gzip ? API_GZIP : API_DEFLATE;
    return (api_coding_choice){coding, true};
}
