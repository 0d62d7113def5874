/* case_report.c: one exchange, and whether its reply is the one expected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "case.h"

/* ---- the request ------------------------------------------------------------------------------------------------- */

/* UTF-8 of code points up to 255 as one byte each */
static void append_latin1(text_buffer *text, const char *utf8) {
    for (const unsigned char *at = (const unsigned char *)utf8; *at; at++) {
        unsigned char byte = *at;
        if (byte >= 0xc0) {
            byte = (unsigned char)((byte & 3) << 6 | (at[1] & 0x3f));
            at++;
        }
        text_append(text, (const char *)&byte, 1);
    }
}

text_buffer parts_joined(const json_t *parts, bool latin1) {
    text_buffer joined = {0};
    text_append(&joined, "", 0);
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *pair = json_array_get(parts, i), *part = json_array_get(pair, 0);
        for (json_int_t times = json_integer_value(json_array_get(pair, 1)); times > 0; times--) {
            if (latin1)
                append_latin1(&joined, json_string_value(part));
            else
                text_append(&joined, json_string_value(part), json_string_length(part));
        }
    }
    return joined;
}

text_buffer base64_decoded(const char *base64) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    text_buffer bytes = {0};
    unsigned long bits = 0;
    int count = 0;
    text_append(&bytes, "", 0);
    for (const char *at = base64, *digit; *at && (digit = strchr(digits, *at)); at++) {
        bits = (bits << 6 | (unsigned long)(digit - digits)) & 0xffffff;
        count += 6;
        if (count < 8) continue;
        count -= 8;
        const char byte = (char)(bits >> count & 0xff);
        text_append(&bytes, &byte, 1);
    }
    return bytes;
}

text_buffer case_body(const json_t *request) {
    const json_t *parts = json_object_get(request, "raw_parts"), *base64 = json_object_get(request, "raw_base64");
    const json_t *body = json_object_get(request, "body");
    text_buffer bytes = {0};
    if (parts) return parts_joined(parts, false);
    if (base64) return base64_decoded(json_string_value(base64));
    char *dumped = body ? json_dumps(body, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (dumped) text_append(&bytes, dumped, strlen(dumped));
    free(dumped);
    return bytes;
}

/* ---- what is expected -------------------------------------------------------------------------------------------- */

static bool found(const char *bytes, size_t length, const char *word) {
    return memmem(bytes, length, word, strlen(word)) != NULL;
}

static bool status_right(const json_t *expect, int status) {
    const json_t *one = json_object_get(expect, "status"), *several = json_object_get(expect, "status_in");
    if (one && json_integer_value(one) != status) return false;
    for (size_t i = 0; i < json_array_size(several); i++)
        if (json_integer_value(json_array_get(several, i)) == status) return true;
    return !several;
}

static void add_name(json_t *names, const char *name) { json_object_set_new(names, name, json_null()); }

/* The names that a body asks for; NULL if it cannot be read, has a trace, or does not compute. */
static json_t *names_asked(const json_t *request) {
    const text_buffer bytes = case_body(request);
    json_t *body = bytes.length ? json_loadb(bytes.bytes, bytes.length, 0, NULL) : NULL;
    const json_t *wanted = json_object_get(body, "return"), *weights = json_object_get(body, "return_weights");
    json_t *names = NULL;
    if (body && !json_object_get(body, "trace")) {
        names = json_object();
        if (!wanted) add_name(names, "output");
        for (size_t i = 0; i < json_array_size(wanted); i++)
            add_name(names, json_string_value(json_array_get(wanted, i)));
        if (json_is_true(weights) || json_is_string(weights)) add_name(names, "weights");
    }
    json_decref(body);
    free(bytes.bytes);
    return names;
}

static bool tensors_right(const json_t *expect, const json_t *request, const http_reply *reply, char why[512]) {
    json_t *want = json_object_get(expect, "json"), *value;
    const double tolerance = json_number_value(json_object_get(expect, "tolerance"));
    const char *name;
    json_t *got = json_loadb(reply->body, reply->length, JSON_REJECT_DUPLICATES, NULL);
    json_t *names = reply->status == 200 ? names_asked(request) : NULL;
    bool ok = json_is_object(got);
    if (!ok) snprintf(why, 512, "the reply is no JSON object");
    if (ok) json_object_foreach(want, name, value) {
            char inner[512] = "";
            if (json_agrees(json_object_get(got, name), value, tolerance, inner)) continue;
            snprintf(why, 512, "%s: %.400s", name, inner);
            ok = false;
        }
    if (ok && names) json_object_foreach(got, name, value) if (!json_object_get(names, name)) {
            snprintf(why, 512, "%s was not asked for", name);
            ok = false;
        }
    json_decref(names);
    json_decref(got);
    return ok;
}

static bool problem_right(const json_t *expect, const http_reply *reply, char why[512]) {
    json_t *problem = json_loadb(reply->body, reply->length, 0, NULL);
    const char *code = json_string_value(json_object_get(problem, "code"));
    const char *pointer = json_string_value(json_object_get(problem, "pointer"));
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    const char *want_code = json_string_value(json_object_get(expect, "code"));
    const char *want_pointer = json_string_value(json_object_get(expect, "pointer"));
    const json_t *codes = json_object_get(expect, "code_in"), *words = json_object_get(expect, "detail_contains");
    bool ok = !want_code || (code && !strcmp(code, want_code)), any = !codes;
    for (size_t i = 0; i < json_array_size(codes); i++)
        any |= code && !strcmp(code, json_string_value(json_array_get(codes, i)));
    ok &= any;
    ok &= !want_pointer || (pointer && pointer_agrees(pointer, want_pointer));
    for (size_t i = 0; i < json_array_size(words); i++)
        ok &= detail && strstr(detail, json_string_value(json_array_get(words, i)));
    if (!ok) snprintf(why, 512, "another code, pointer or detail: %.400s", reply->body);
    json_decref(problem);
    return ok;
}

static bool headers_right(json_t *headers, const http_reply *reply, char why[512]) {
    const char *name;
    json_t *rule;
    json_object_foreach(headers, name, rule) {
        const char *part = json_string_value(json_object_get(rule, "contains"));
        const char *start = json_string_value(json_object_get(rule, "starts"));
        char value[512];
        if (http_header(reply, name, value) && (!part || strcasestr(value, part)) &&
            (!start || !strncasecmp(value, start, strlen(start))))
            continue;
        snprintf(why, 512, "header %.100s: %.300s", name, value);
        return false;
    }
    return true;
}

static bool bytes_right(const json_t *expect, const http_reply *reply, char why[512]) {
    const json_t *has = json_object_get(expect, "body_contains"), *lacks = json_object_get(expect, "body_lacks");
    bool ok = true;
    for (size_t i = 0; i < json_array_size(has); i++)
        ok &= found(reply->body, reply->length, json_string_value(json_array_get(has, i)));
    for (size_t i = 0; i < json_array_size(lacks); i++)
        ok &= !found(reply->body, reply->length, json_string_value(json_array_get(lacks, i)));
    if (json_is_true(json_object_get(expect, "body_empty"))) ok &= reply->length == 0;
    if (json_is_true(json_object_get(expect, "ends_with_newline")))
        ok &= reply->length && reply->body[reply->length - 1] == '\n';
    if (!ok) snprintf(why, 512, "the body's bytes: %.400s", reply->body);
    return ok;
}

bool case_expects(const json_t *expect, const json_t *request, const http_reply *reply, int closed, int interim,
                  char why[512]) {
    const json_t *any = json_object_get(expect, "any_of"), *want_interim = json_object_get(expect, "interim");
    bool one = !any;
    for (size_t i = 0; !one && i < json_array_size(any); i++)
        one = case_expects(json_array_get(any, i), request, reply, closed, interim, why);
    if (!one) return false;
    if (!status_right(expect, reply->status)) {
        snprintf(why, 512, "status %d: %.400s", reply->status, reply->body ? reply->body : "");
        return false;
    }
    if (want_interim && interim >= 0 && json_integer_value(want_interim) != (interim / 100 == 1 ? interim : 0)) {
        snprintf(why, 512, "interim status %d", interim);
        return false;
    }
    if (json_is_true(json_object_get(expect, "closed")) && closed == 0) {
        snprintf(why, 512, "the connection was not closed");
        return false;
    }
    const char *method = json_string_value(json_object_get(request, "method"));
    if (reply->status >= 400 && !json_is_false(json_object_get(expect, "problem")) && !any &&
        !(method && !strcmp(method, "HEAD")) && !problem_valid(reply, why))
        return false;
    return (!json_object_get(expect, "json") || tensors_right(expect, request, reply, why)) &&
           problem_right(expect, reply, why) && headers_right(json_object_get(expect, "headers"), reply, why) &&
           bytes_right(expect, reply, why);
}
