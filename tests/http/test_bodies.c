/* test_bodies.c: every row of tests/cases/bodies.tsv is refused with the status, code and pointer given there.
 * All go over one connection, which must survive them; every other one goes chunked. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define FILE_NAME "tests/cases/bodies.tsv"

typedef struct body_row {
    char name[32];
    char *path, *codes, *pointer, *body;
    int status;
    size_t length;
} body_row;

static body_row *rows;
static size_t row_count, next_row;
static CURL *connection;

/* In place; returns the length. */
static size_t decode(char *text) {
    char *out = text;
    for (const char *at = text; *at; at++) {
        unsigned byte;
        if (*at == '%' && sscanf(at + 1, "%2x", &byte) == 1) {
            *out++ = (char)byte;
            at += 2;
        } else
            *out++ = *at;
    }
    *out = 0;
    return (size_t)(out - text);
}

/* Takes the field before the next tab. */
static char *field(char **rest) { return strsep(rest, "\t"); }

static bool read_rows(char *text) {
    size_t number = 0;
    for (char *line; (line = strsep(&text, "\n"));) {
        number++;
        if (!*line || *line == '#') continue;
        body_row *grown = realloc(rows, (row_count + 1) * sizeof *rows);
        if (!grown) abort();
        rows = grown;
        body_row *row = &rows[row_count++];
        snprintf(row->name, sizeof row->name, "bodies.tsv:%zu", number);
        row->path = field(&line);
        const char *status = field(&line);
        row->status = status ? atoi(status) : 0;
        row->codes = field(&line);
        row->pointer = field(&line);
        row->body = field(&line);
        if (!row->body || line) return false;
        row->length = decode(row->body);
    }
    return row_count > 0;
}

static void check_pointer(const body_row *row, const http_reply *reply) {
    json_t *problem = json_loadb(reply->body, reply->length, 0, NULL);
    const char *got = json_string_value(json_object_get(problem, "pointer"));
    const bool loose = *row->pointer == '~';
    CHECK((loose && !row->pointer[1]) ||
              (got && (loose ? pointer_agrees(got, row->pointer + 1) : !strcmp(got, row->pointer))),
          "%s: pointer %s, expected %s: %.200s -> %s", row->name, got ? got : "none", row->pointer, row->body,
          reply->body);
    json_decref(problem);
}

static void run_next(void) {
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    const body_row *row = &rows[next_row++];
    http_reply reply = http_send(connection, shared.port,
                                 &(http_request){"POST", row->path, headers, row->body, row->length, next_row % 2});
    char label[400];
    snprintf(label, sizeof label, "%s: %.300s", row->name, row->body);
    if (expect_problem(&reply, row->status, row->codes, NULL, label)) check_pointer(row, &reply);
    http_free(&reply);
    if (next_row % 16 == 0) CHECK(healthy(shared.port), "%s: not healthy afterwards", row->name);
}

/* argv[1] may name some of the lines. */
int main(int argc, char **argv) {
    char *text = file_read(FILE_NAME, NULL);
    if (!text || !read_rows(text)) {
        printf("%s cannot be read after %zu rows\n", FILE_NAME, row_count);
        return 1;
    }
    size_t kept = 0;
    for (size_t i = 0; i < row_count; i++)
        if (argc < 2 || strstr(rows[i].name, argv[1])) rows[kept++] = rows[i];
    check_test *tests = calloc(kept + 1, sizeof *tests);
    connection = curl_easy_init();
    if (!tests || !connection) abort();
    for (size_t i = 0; i < kept; i++) tests[i] = (check_test){rows[i].name, run_next};
    const int status = shared_main(1, argv, tests, kept, NULL);
    curl_easy_cleanup(connection);
    free(tests);
    free(rows);
    free(text);
    return status;
}
