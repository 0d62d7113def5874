/* body.h: the formats that a request's body may be written in (inside api/ only).
 *
 * However a body is written, it ends as what a JSON body ends as: a document whose integers stand for values of a
 * reader (json/reader.h). What comes after, the forms and the endpoints, knows nothing of formats. A format is a row:
 * its media type and three functions. If its body is not JSON text it makes the document itself, an object whose
 * members are fields, with api_reader_add_tensor for tensors that came as bytes. The table of formats is api/formats.c.
 */
#ifndef API_BODY_H
#define API_BODY_H

#include "../json/reader.h"

struct api_reply_format;
struct api_schema; /* fields/fields.h */

typedef struct api_body {
    const struct api_body_format *format;
    api_memory *memory;
    const struct api_schema *schema; /* of the operation whose fields the body holds */
    uint64_t expected;               /* Content-Length, 0 if there is none: a hint, never trusted */
    char *query;                     /* of the request's target, in its memory; NULL: none */
    api_reader *reader;
    void *state;                  /* the format's own, in memory of the request */
    const char *inference_header; /* Inference-Header-Content-Length, during open alone; NULL: not there */
    json_t *draft;                /* of the document, while the body comes; freed with the request */
} api_body;

enum { API_BODY_FIRST = 9 }; /* bytes that tell a format */

typedef struct api_body_format {
    const char *name;                     /* for the log and the metrics */
    const char *type;                     /* the media type; NULL: chosen by the protocol alone */
    const struct api_reply_format *reply; /* of the same format; NULL: the protocol's */
    /* All above `reader` is set. Sets reader. false: no memory. */
    bool (*open)(api_body *body);
    /* Takes the next bytes; faults are kept for finish. */
    void (*push)(api_body *body, const void *bytes, size_t length);
    /* Ends the body. Returns the document (a new reference); NULL: error is set. */
    json_t *(*finish)(api_body *body, api_error *error);
    /* true if a body that begins so can only be of this format; NULL: nothing tells */
    bool (*recognizes)(const uint8_t first[API_BODY_FIRST]);
} api_body_format;

extern const api_body_format api_json_body;

#endif
