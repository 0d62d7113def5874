/* head.c: the framing rules of RFC 9112, sections 3.2, 5.1 and 6, that libmicrohttpd does not enforce. */
#include "head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

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

/* libmicrohttpd 0.9.75 appends a continuation line of a value to the name: "Content-Length35". */
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
    const size_t length = line + 2 + head->bytes + 2; /* with a blank after each colon, */
    return info && (info->header_size == length || info->header_size == length - head->count); /* or with none */
}

static const char *framing_fault(const srv_head *head, const char *method, bool is_http11) {
    uint64_t length;
    if (!is_token(method, strlen(method))) return "the method is not a valid token";
    if (head->malformed) return "invalid name or value of a header field";
    if (head->folded) return "Content-Length and Transfer-Encoding must not continue on a second line";
    if (is_http11 && head->hosts != 1) return head->hosts ? "more than one Host header" : "missing Host header";
    if (head->host && strpbrk(head->host, " \t/\\@?#,\"<>^`{|}")) return "invalid Host header";
    if (head->lengths > 1) return "more than one Content-Length header";
    if (head->lengths && head->encodings) return "Content-Length and Transfer-Encoding must not be sent together";
    if (head->encodings > 1 || (head->encodings && !head->chunked))
        return "Transfer-Encoding must be chunked and nothing else";
    if (head->encodings && !is_http11) return "Transfer-Encoding requires HTTP/1.1";
    if (head->lengths && !srv_read_count(head->content_length, &length))
        return "Content-Length must be a whole number below 2^64";
    return NULL;
}

bool srv_head_check(const srv_head *head, const char *method, const char *version, size_t target_length,
                    srv_head_fault *fault) {
    *fault = (srv_head_fault){.reason = SRV_REASON_HEADERS};
    if (target_length > MOST_URI) {
        fault->code = "uri_too_long";
        fault->detail = "the request target exceeds 8192 bytes";
    } else if (head->count > MOST_HEADERS || head->bytes > MOST_HEAD) {
        fault->code = "headers_too_large";
        fault->detail = head->count > MOST_HEADERS ? "more than 100 header fields" : "the header fields exceed 32 KiB";
    } else if ((fault->detail = framing_fault(head, method, strcmp(version, "HTTP/1.0") != 0))) {
        fault->code = "bad_request";
        fault->reason = SRV_REASON_FRAMING;
    }
    return !fault->code;
}

/* ---- values for api_head ------------------------------------------------------------------------------ */

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
