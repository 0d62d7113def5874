/* corpus_of_cases.c: writes the body of each case as an input of the fuzz target.
 * usage: corpus_of_cases FOLDER CASE.json... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../http/case.h"

static void write_input(const char *folder, int number, int route, const text_buffer *body) {
    char path[4096];
    snprintf(path, sizeof path, "%s/case-%03d", folder, number);
    FILE *file = fopen(path, "wb");
    if (!file || fputc(route, file) == EOF || fputc(number % 251, file) == EOF ||
        fwrite(body->bytes, 1, body->length, file) != body->length || fclose(file)) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        json_t *document = json_load_file(argv[i], JSON_ALLOW_NUL, NULL);
        const json_t *request = json_object_get(document, "request");
        const char *path = json_string_value(json_object_get(request, "path"));
        if (!document) {
            fprintf(stderr, "%s is no JSON\n", argv[i]);
            return 1;
        }
        text_buffer body = json_object_get(document, "op") ? onnx_body(document, i % 2) : case_body(request);
        if (body.length && body.length < 60000) write_input(argv[1], i - 2, path && !strcmp(path, "/mha"), &body);
        text_free(&body);
        json_decref(document);
    }
    return 0;
}
