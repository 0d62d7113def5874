/* A body that is one JSON text. */
#include "body.h"
#include "reply.h"

static bool open_reader(api_body *body) {
    body->reader = api_reader_new(body->memory, body->expected);
    return body->reader != NULL;
}

static void push(api_body *body, const void *bytes, size_t length) { api_reader_push(body->reader, bytes, length); }

static json_t *finish(api_body *body, api_error *error) { return api_reader_finish(body->reader, error); }

const api_body_format api_json_body = {.name = "json",
                                       .type = "application/json",
                                       .reply = &api_json_reply,
                                       .open = open_reader,
                                       .push = push,
                                       .finish = finish};
