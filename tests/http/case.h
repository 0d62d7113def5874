/* case.h: a request with its answer, read from a file of tests/cases (tests/cases/README.md describes the files). */
#ifndef CASE_H
#define CASE_H

#include "harness.h"

typedef struct text_buffer {
    char *bytes;
    size_t length, room;
} text_buffer;

__attribute__((format(printf, 2, 3))) void text_print(text_buffer *text, const char *format, ...);
void text_append(text_buffer *text, const char *bytes, size_t length);
void text_free(text_buffer *text);

/* [text, times] pairs, joined; `latin1`: one byte for each code point, else UTF-8. */
text_buffer parts_joined(const json_t *parts, bool latin1);
text_buffer base64_decoded(const char *base64);

/* ---- reports: one exchange a file ---- */

/* The body that `request` of a case carries. */
text_buffer case_body(const json_t *request);
/* Whether the reply is what `expect` says; why: what is not. closed: -1 unknown, else whether the connection was
 * closed; interim: the first status that came when only the head was sent, -1 not looked at. */
bool case_expects(const json_t *expect, const json_t *request, const http_reply *reply, int closed, int interim,
                  char why[512]);

/* ---- onnx: a node test ---- */

/* The node test as a body of POST /attention, with nested or flat tensors. */
text_buffer onnx_body(const json_t *node, bool nested);
/* Whether the reply holds the outputs of the node test and nothing else. */
bool onnx_expects(const json_t *node, const http_reply *reply, char why[512]);

/* A POST, head and body, of n queries and n keys of one column each: n * n exponentials from 6 n bytes. */
text_buffer heavy_post(size_t n);

#endif
