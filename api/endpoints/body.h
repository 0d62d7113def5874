/* body.h: the formats that a request's body may be written in (inside api/ only).
 *
 * However a body is written, it ends as what a JSON body ends as: a skeleton whose integers stand for values of a
 * reader (request_reader.h). What comes after, the forms and the endpoints, knows nothing of formats. A format is a row
 * of three functions; where its body is no JSON text it makes the skeleton itself, an object whose members are fields,
 * with api_reader_add_tensor for tensors that came as bytes.
 */
#ifndef API_BODY_H
#define API_BODY_H

#include "../fields/fields.h"
#include "../json/reader.h"

typedef struct api_body {
    const struct api_body_format *format;
    api_memory *memory;
    const api_schema *schema; /* of the endpoint */
    uint64_t expected;        /* Content-Length, 0 where there is none: a hint, never trusted */
    char *query;              /* of the request's target, in its memory; NULL: none */
    api_reader *reader;
    void *state;                  /* the format's own, in memory of the request */
    const char *inference_header; /* Inference-Header-Content-Length, during open alone; NULL: not there */
    json_t *draft;                /* of the skeleton, while the body comes; freed with the request */
} api_body;

typedef struct api_body_format {
    const char *name; /* for the log and the metrics */
    /* All above `reader` is set. Sets reader. false: no memory. */
    bool (*open)(api_body *body);
    /* Takes the next bytes; faults are kept for finish. */
    void (*push)(api_body *body, const void *bytes, size_t length);
    /* Ends the body. Returns the skeleton (a new reference); NULL: error is set. */
    json_t *(*finish)(api_body *body, api_error *error);
} api_body_format;

extern const api_body_format api_json_body, api_safetensors_body;

#endif
