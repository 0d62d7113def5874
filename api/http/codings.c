/* Content codings of a request's body and of its reply. */
#include "request.h"

enum { LEAST_CODED = 256 }; /* bytes of a reply; what is shorter hardly shrinks */

void api_coding_choose(api_request *request, const api_head *head) {
    const char *accept_encoding = api_header_of(head, "accept-encoding");
    request->varies = true;
    if (request->protocol->choose_coding)
        request->protocol->choose_coding(request, accept_encoding);
    else
        request->accepts = api_choose_coding(accept_encoding);
    if (request->accepts.coding == API_IDENTITY && !request->accepts.plain)
        api_refuse(request, API_NOT_ACCEPTABLE, "Accept-Encoding must admit one of %s, got %.200s", api_codings_read,
                   accept_encoding);
}

bool api_coding_begin(api_request *request, api_sink *sink) {
    if (request->coding == API_IDENTITY) return true;
    request->decoder = api_decoder_new(&request->memory, request->coding, request->service->max_body);
    if (!request->decoder) return false;
    request->decoder->sink = sink;
    request->decoder->context = request;
    return true;
}

/* What was decoded is of no use. */
static void refuse_corrupt(api_request *request, const char *fault, const char *message) {
    api_refuse(request, API_BAD_REQUEST, "Content-Encoding says %s: expected one whole stream, got one that %s%s%s",
               api_coding_names[request->coding], fault, message ? ": " : "", message ? message : "");
    api_drop_body(request);
}

bool api_coding_push(api_request *request, const void *bytes, size_t length) {
    api_decoder *decoder = request->decoder;
    switch (api_decoder_push(decoder, bytes, length)) {
    case API_DECODED: return true;
    case API_DECODED_CORRUPT: refuse_corrupt(request, decoder->fault, decoder->message); return true;
    case API_DECODED_TOO_LONG: api_refuse_length(request, "it has more once its Content-Encoding is undone"); break;
    case API_DECODED_NO_MEMORY: api_refuse_for_memory(request); break;
    }
    const bool more = request->error.code != API_BODY_TOO_LARGE;
    api_drop_body(request);
    return more;
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
