/* expect.c: checks of replies. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "harness.h"

static const struct {
    int status;
    const char *title, *older; /* the phrase of RFC 9110, and that of RFC 7231 or 4918 if it differs */
} titles[] = {
    {400, "Bad Request", NULL},
    {401, "Unauthorized", NULL},
    {404, "Not Found", NULL},
    {405, "Method Not Allowed", NULL},
    {406, "Not Acceptable", NULL},
    {408, "Request Timeout", NULL},
    {413, "Content Too Large", "Payload Too Large"},
    {414, "URI Too Long", NULL},
    {415, "Unsupported Media Type", NULL},
    {422, "Unprocessable Content", "Unprocessable Entity"},
    {429, "Too Many Requests", NULL},
    {431, "Request Header Fields Too Large", NULL},
    {501, "Not Implemented", NULL},
    {503, "Service Unavailable", NULL},
    {504, "Gateway Timeout", NULL},
};

static bool title_right(int status, const char *title) {
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (titles[i].status == status)
            return !strcmp(title, titles[i].title) || (titles[i].older && !strcmp(title, titles[i].older));
    return false;
}

/* a word followed, after spaces, by a number */
static bool word_with_number(const char *text, const char *word) {
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        const char *next = at + strlen(word);
        if (isdigit((unsigned char)next[strspn(next, " :=s")])) return true;
    }
    return false;
}

static bool wrong(char why[512], const char *what) {
    snprintf(why, 512, "%s", what);
    return false;
}

static bool members_valid(const http_reply *reply, const json_t *problem, char why[512]) {
    const char *title = json_string_value(json_object_get(problem, "title"));
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    const char *code = json_string_value(json_object_get(problem, "code"));
    const json_t *pointer = json_object_get(problem, "pointer"), *status = json_object_get(problem, "status");
    if (!title || !title_right(reply->status, title)) return wrong(why, "title is not the status's phrase");
    if (!json_is_integer(status) || json_integer_value(status) != reply->status) return wrong(why, "member status");
    if (!detail || !*detail) return wrong(why, "no detail");
    if (!code || !*code) return wrong(why, "no code");
    if (pointer && (!json_is_string(pointer) || (*json_string_value(pointer) && *json_string_value(pointer) != '/')))
        return wrong(why, "pointer is no JSON pointer");
    if (!strcmp(code, "invalid_json") &&
        !(word_with_number(detail, "line") && word_with_number(detail, "column") && word_with_number(detail, "byte")))
        return wrong(why, "invalid_json without line, column and byte");
    return true;
}

bool problem_valid(const http_reply *reply, char why[512]) {
    char type[512];
    if (!http_header(reply, "Content-Type", type) || strncasecmp(type, "application/problem+json", 24))
        return wrong(why, "content type is not application/problem+json");
    json_t *problem = json_loadb(reply->body, reply->length, JSON_REJECT_DUPLICATES, NULL);
    const bool ok = json_is_object(problem) ? members_valid(reply, problem, why) : wrong(why, "not a JSON object");
    json_decref(problem);
    return ok;
}

bool pointer_agrees(const char *got, const char *want) {
    const size_t length = strlen(got) < strlen(want) ? strlen(got) : strlen(want);
    return !strncmp(got, want, length) && (got[length] == 0 || got[length] == '/') &&
           (want[length] == 0 || want[length] == '/');
}

static bool one_of(const char *word, const char *list) {
    const size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, '|'), at += at != NULL)
        if (!strncmp(at, word, length) && (at[length] == 0 || at[length] == '|')) return true;
    return false;
}

bool expect_problem(const http_reply *reply, int status, const char *codes, const char *pointer, const char *label) {
    char why[512] = "";
    if (!CHECK(reply->status == status, "%s: status %d, expected %d: %.300s", label, reply->status, status,
               reply->body ? reply->body : ""))
        return false;
    if (!CHECK(problem_valid(reply, why), "%s: %s: %.300s", label, why, reply->body)) return false;
    json_t *problem = json_loadb(reply->body, reply->length, 0, NULL);
    const char *code = json_string_value(json_object_get(problem, "code"));
    const char *got = json_string_value(json_object_get(problem, "pointer"));
    bool ok = !codes || CHECK(one_of(code, codes), "%s: code %s, expected %s: %s", label, code, codes, reply->body);
    if (pointer)
        ok &= CHECK(got && !strcmp(got, pointer), "%s: pointer %s, expected %s: %s", label, got ? got : "none", pointer,
                    reply->body);
    json_decref(problem);
    return ok;
}

static double number_of(const json_t *value) {
    if (json_is_null(value)) return -INFINITY;
    return json_is_number(value) ? json_number_value(value) : NAN;
}

bool json_agrees(const json_t *got, const json_t *want, double tolerance, char why[512]) {
    if (json_is_array(want)) {
        if (!json_is_array(got) || json_array_size(got) != json_array_size(want))
            return wrong(why, "an array of another length, or no array");
        for (size_t i = 0; i < json_array_size(want); i++)
            if (!json_agrees(json_array_get(got, i), json_array_get(want, i), tolerance, why)) return false;
        return true;
    }
    const double a = number_of(got), b = number_of(want);
    if (a == b || fabs(a - b) <= tolerance) return true;
    snprintf(why, 512, "%.17g, expected %.17g", a, b);
    return false;
}

double reply_number(const http_reply *reply, const char *path) {
    json_t *root = json_loadb(reply->body, reply->length, JSON_DECODE_ANY, NULL);
    const json_t *at = root;
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *part = strtok_r(copy, "/", &rest); part; part = strtok_r(NULL, "/", &rest))
        at = json_is_array(at) ? json_array_get(at, strtoul(part, NULL, 10)) : json_object_get(at, part);
    const double value = number_of(at);
    json_decref(root);
    return value;
}
