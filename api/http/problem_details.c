#include "problem_details.h"

#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "protocol.h"

enum { CLOSING = 4 }; /* bytes that are kept free for what ends the document */
enum { RETRY = 16 };  /* bytes at the end of the body's buffer that hold Retry-After */

/* Adds a member that is cut where it would leave less than `spare` bytes free. */
static void add_cut(api_short_text *text, const char *member, const char *string, size_t spare) {
    api_text_add(text, member);
    text->capacity -= spare;
    api_text_add_string(text, string);
    text->capacity += spare;
    text->full = false;
}

size_t api_problem_write(const api_error *error, const char *repeat, char *body, size_t capacity) {
    const api_code_info *info = &api_codes[error->code];
    api_short_text text;
    api_text_init(&text, body, capacity - CLOSING);
    api_text_add(&text, "{\"title\":");
    api_text_add_string(&text, info->title);
    api_text_add(&text, ",\"status\":");
    api_text_add_unsigned(&text, (unsigned)info->status);
    api_text_add(&text, ",\"code\":");
    api_text_add_string(&text, info->code);
    if (error->has_pointer) {
        api_text_add(&text, ",\"pointer\":");
        api_text_add_string(&text, error->pointer);
    }
    const size_t room = text.capacity - text.length; /* for the detail, once or twice */
    add_cut(&text, ",\"detail\":", error->detail, repeat ? room / 2 : 0);
    if (repeat) {
        api_text_add(&text, ",");
        api_text_add_string(&text, repeat);
        add_cut(&text, ":", error->detail, 0);
    }
    memcpy(body + text.length, "}\n", 2);
    return text.length + 2;
}

api_code api_code_of(const char *name) {
    for (int code = API_NO_ERROR + 1; code < API_CODE_COUNT; code++)
        if (strcmp(api_codes[code].code, name) == 0) return (api_code)code;
    return API_INTERNAL;
}

void api_response_header(api_response *response, const char *name, const char *value) {
    size_t i = 0;
    while (response->headers[i].name) i++;
    if (i + 1 < sizeof response->headers / sizeof *response->headers) response->headers[i] = (api_header){name, value};
}

/* Headers and connection that belong to an error whoever makes it; `retry` is room for a number. */
static void decorate(api_response *response, api_code code, unsigned retry_after, char *retry, size_t room) {
    response->close = code == API_BAD_REQUEST || code == API_TIMEOUT || code == API_BODY_TOO_LARGE ||
                      code == API_URI_TOO_LONG || code == API_HEADERS_TOO_LARGE;
    if (code == API_UNAUTHORIZED) api_response_header(response, "WWW-Authenticate", "Bearer");
    if (retry_after == 0) return;
    snprintf(retry, room, "%u", retry_after);
    api_response_header(response, "Retry-After", retry);
}

void api_problem_response(const api_error *error, const api_protocol *protocol, api_response *response, char *text,
                          size_t capacity) {
    const size_t room = capacity - RETRY;
    const bool plain = !protocol || !protocol->write_error;
    *response = (api_response){.status = api_codes[error->code].status,
                               .content_type = plain ? "application/problem+json" : protocol->error_type,
                               .body = text,
                               .length = plain ? api_problem_write(error, NULL, text, room)
                                               : protocol->write_error(error, text, room)};
    decorate(response, error->code, error->retry_after, text + room, RETRY);
}

void api_fail_static(api_response *response, char body[1024], const api_protocol *protocol, const char *code,
                     const char *detail, unsigned retry_after) {
    api_error error = {0};
    api_error_set(&error, api_code_of(code), API_PLACE_LAST, NULL, "%s", detail);
    error.retry_after = retry_after;
    api_problem_response(&error, protocol, response, body, 1024);
}

const api_response *api_out_of_memory(void) {
    static const char body[] =
        "{\"title\":\"Service Unavailable\",\"status\":503,\"code\":\"out_of_memory\","
        "\"detail\":\"an allocation failed; nothing was done, the request can be sent again\"}\n";
    static const api_response response = {
        .status = 503, .content_type = "application/problem+json", .body = body, .length = sizeof body - 1};
    return &response;
}
