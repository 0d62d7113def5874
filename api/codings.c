/* Content codings of a request's body and of its reply. */
#include <stdarg.h>
#include <stdio.h>

#include "negotiation.h"
#include "request.h"

enum { LEAST_CODED = 256 }; /* bytes of a reply; what is shorter hardly shrinks */

static void hand_to_format(void *context, const void *bytes, size_t length) {
    api_body *body = context;
    body->format->push(body, bytes, length);
}

bool api_coding_begin(api_request *request) {
    if (request->coding == API_IDENTITY) return true;
    request->decoder = api_decoder_new(&request->memory, request->coding, request->service->max_body);
    if (!request->decoder) return false;
    request->decoder->sink = hand_to_format;
    request->decoder->context = &request->body;
    return true;
}

/* The error replaces any other: what was decoded is of no use. */
__attribute__((format(printf, 3, 4))) static void refuse(api_request *request, api_code code, const char *detail, ...) {
    char text[sizeof request->error.detail];
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    request->error = (api_error){0};
    api_error_set(&request->error, code, API_PLACE_LAST, NULL, "%s", text);
    request->refused = true;
    api_request_drop_body(request);
}

static void refuse_corrupt(api_request *request, const char *fault, const char *message) {
    refuse(request, API_BAD_REQUEST, "expected one whole %s stream, as Content-Encoding says, got one that %s%s%s",
           api_coding_names[request->coding], fault, message ? ": " : "", message ? message : "");
}

bool api_coding_push(api_request *request, const void *bytes, size_t length) {
    api_decoder *decoder = request->decoder;
    switch (api_decoder_push(decoder, bytes, length)) {
    case API_DECODED: break;
    case API_DECODED_CORRUPT: refuse_corrupt(request, decoder->fault, decoder->message); break;
    case API_DECODED_TOO_LONG:
        refuse(request, API_BODY_TOO_LARGE,
               "the body may have at most %zu bytes, got more out of its Content-Encoding %s",
               request->service->max_body, api_coding_names[request->coding]);
        return false;
    case API_DECODED_NO_MEMORY:
        if (request->memory.over_budget)
            refuse(request, API_OVERLOADED, "the memory for requests in flight is full");
        else
            refuse(request, API_OUT_OF_MEMORY, "an allocation failed");
        break;
    }
    return true;
}

bool api_coding_finish(api_request *request) {
    api_decoder *decoder = request->decoder;
    if (!decoder) return true;
    if (!decoder->ended) {
        refuse_corrupt(request, decoder->started ? "is cut short" : "is empty", NULL);
        return false;
    }
    request->decoder = NULL;
    api_decoder_free(decoder);
    return true;
}

void api_coding_reply(api_request *request) {
    api_response *response = &request->response;
    const api_coding_choice accepts = request->accepts;
    if (!response->body || (response->length < LEAST_CODED && accepts.plain)) return;
    if (request->varies) api_response_header(response, "Vary", "Accept-Encoding");
    if (accepts.coding == API_IDENTITY) return;
    size_t length;
    const void *coded =
        api_encode(&request->memory, accepts.coding, response->body, response->length, &length, &request->cancelled);
    if (!coded) return; /* it goes as it is, or the cancellation is noticed */
    api_response_header(response, "Content-Encoding", api_coding_names[accepts.coding]);
    response->body = coded;
    response->length = length;
}
