/* head.c: the framing rules that libmicrohttpd does not enforce (RFC 9112, sections 3.2, 5.1, 6), and ids. */
#include "connection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Characters of a token, RFC 9110, section 5.6.2. */
static bool is_token(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alphanumeric && (c == 0 || !strchr("!#$%&'*+-.^_`|~", c))) return false;
    }
    return length > 0;
}

static bool is_field_value(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

/* libmicrohttpd 0.9.75 adds the line that continues a value to the name: "Content-Length35". */
static bool is_folded(const char *name, const char *begins) {
    return strncasecmp(name, begins, strlen(begins)) == 0 && name[strlen(begins)] != 0;
}

static enum MHD_Result read_field(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_length,
                                  const char *value, size_t value_length) {
    (void)kind;
    srv_head *head = arg;
    head->count++;
    head->bytes += name_length + value_length + 4;
    if (!is_token(name, name_length) || !is_field_value(value ? value : "", value ? value_length : 0)) {
        head->malformed = true;
        return MHD_YES;
    }
    if (!value) value = "";
    if (strcasecmp(name, "host") == 0) {
        head->hosts++;
        head->host = value;
    }
    if (is_folded(name, "content-length") || is_folded(name, "transfer-encoding")) head->folded = true;
    if (strcasecmp(name, "content-length") == 0) {
        head->lengths++;
        head->content_length = value;
    }
    if (strcasecmp(name, "transfer-encoding") == 0) {
        head->encodings++;
        head->chunked = strcasecmp(value, "chunked") == 0;
    }
    if (strcasecmp(name, "expect") == 0 && strcasecmp(value, "100-continue") == 0) head->expects_continue = true;
    return MHD_YES;
}

void srv_head_read(srv_head *head, struct MHD_Connection *mhd) {
    *head = (srv_head){.mhd = mhd};
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, read_field, head);
}

void srv_head_deinit(srv_head *head) {
    for (size_t i = 0; i < head->joins; i++) free(head->joined[i]);
}

bool srv_head_has_body(const srv_head *head) {
    return head->encodings || (head->lengths && strspn(head->content_length, "0") != strlen(head->content_length));
}

bool srv_head_is_plain(const srv_head *head, size_t line) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(head->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const size_t length = line + 2 + head->bytes + 2; /* with a blank after each colon ... */
    return info && (info->header_size == length || info->header_size == length - head->count); /* ... or none */
}

static const char *framing_fault(const srv_head *head, const char *method, bool is_http11) {
    uint64_t length;
    if (!is_token(method, strlen(method))) return "the method is no token";
    if (head->malformed) return "a header field has a malformed name or value";
    if (head->folded) return "a header field that frames the body goes on in a second line";
    if (is_http11 && head->hosts != 1)
        return head->hosts ? "more than one Host header came" : "HTTP/1.1 wants a Host header, none came";
    if (head->host && strpbrk(head->host, " \t/\\@?#,\"<>^`{|}")) return "the Host header names no host";
    if (head->lengths > 1) return "more than one Content-Length came";
    if (head->lengths && head->encodings) return "Content-Length and Transfer-Encoding exclude each other, both came";
    if (head->encodings > 1 || (head->encodings && !head->chunked))
        return "the only Transfer-Encoding that is read is chunked, once";
    if (head->encodings && !is_http11) return "Transfer-Encoding wants HTTP/1.1";
    if (head->lengths && !srv_read_count(head->content_length, &length))
        return "Content-Length is no whole number below 2^64";
    return NULL;
}

const char *srv_head_fault(const srv_head *head, const char *method, const char *version, size_t target_length,
                           const char **detail, const char **reason) {
    *reason = "headers";
    if (target_length > MOST_URI) {
        *detail = "the request target is longer than 8192 bytes";
        return "uri_too_long";
    }
    if (head->count > MOST_HEADERS || head->bytes > MOST_HEAD) {
        *detail = head->count > MOST_HEADERS ? "more than 100 header fields came" : "the header is longer than 32 KiB";
        return "headers_too_large";
    }
    *reason = "framing";
    *detail = framing_fault(head, method, strcmp(version, "HTTP/1.0") != 0);
    return *detail ? "bad_request" : NULL;
}

/* ---- values, as api_head wants them ------------------------------------------------------------------------------ */

typedef struct collection {
    const char *name, *first;
    size_t count, length;
    char *joined;
} collection;

static enum MHD_Result collect(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_length,
                               const char *value, size_t value_length) {
    (void)kind, (void)name_length;
    collection *all = arg;
    if (strcasecmp(name, all->name) != 0) return MHD_YES;
    if (!value) value = "";
    if (all->joined) {
        if (all->count) all->length += (size_t)sprintf(all->joined + all->length, ", ");
        memcpy(all->joined + all->length, value, value_length);
        all->joined[all->length += value_length] = 0;
    } else {
        all->length += value_length + 2;
        if (!all->count) all->first = value;
    }
    all->count++;
    return MHD_YES;
}

const char *srv_head_value(void *arg, const char *name) {
    srv_head *head = arg;
    collection all = {.name = name};
    MHD_get_connection_values_n(head->mhd, MHD_HEADER_KIND, collect, &all);
    if (all.count < 2) return all.first;
    if (head->joins == sizeof head->joined / sizeof *head->joined) return all.first;
    collection joined = {.name = name, .joined = malloc(all.length + 1)};
    if (!joined.joined) return all.first;
    head->joined[head->joins++] = joined.joined;
    MHD_get_connection_values_n(head->mhd, MHD_HEADER_KIND, collect, &joined);
    return joined.joined;
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

/* 64 bits that no other call returns: a counter from a random start through SplitMix64's mixer (Steele et al., 2014),
 * a bijection. Unique, not secret. */
static uint64_t unique(void) {
    static atomic_uint_least64_t counter;
    static atomic_bool started;
    uint64_t start;
    if (!atomic_exchange(&started, true) && getrandom(&start, sizeof start, GRND_NONBLOCK) == sizeof start)
        atomic_fetch_add(&counter, start);
    uint64_t z = atomic_fetch_add(&counter, 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static bool is_request_id(const char *text) {
    size_t n = strlen(text);
    if (n == 0 || n >= REQUEST_ID_SIZE) return false;
    return strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.:/+=@") == n;
}

/* W3C Trace Context, version 00: 00-<32 hex>-<16 hex>-<2 hex>, lower case, neither id all zeros. */
static bool is_traceparent(const char *text) {
    static const char pattern[] = "00-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";
    if (strlen(text) != sizeof pattern - 1) return false;
    for (size_t i = 0; pattern[i]; i++)
        if (pattern[i] == 'h' ? !strchr("0123456789abcdef", text[i]) : text[i] != pattern[i]) return false;
    return strspn(text + 3, "0") < 32 && strspn(text + 36, "0") < 16;
}

void srv_head_ids(const srv_head *head, char request_id[REQUEST_ID_SIZE], char traceparent[TRACEPARENT_SIZE]) {
    const char *id = MHD_lookup_connection_value(head->mhd, MHD_HEADER_KIND, "X-Request-Id");
    if (id && is_request_id(id))
        snprintf(request_id, REQUEST_ID_SIZE, "%s", id);
    else
        snprintf(request_id, REQUEST_ID_SIZE, "%016llx", (unsigned long long)unique());
    const char *parent = MHD_lookup_connection_value(head->mhd, MHD_HEADER_KIND, "traceparent");
    if (!parent)
        traceparent[0] = 0;
    else if (is_traceparent(parent))
        snprintf(traceparent, TRACEPARENT_SIZE, "%s", parent);
    else
        snprintf(traceparent, TRACEPARENT_SIZE, "00-%016llx%016llx-%016llx-00", (unsigned long long)unique(),
                 (unsigned long long)unique(), (unsigned long long)unique());
}
