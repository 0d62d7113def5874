/* begin, push and finish: what every request goes through. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "compute.h"
#include "protocols.h"

/* ---- begin ------------------------------------------------------------------------------------------------------ */

static api_method method_of(const char *name) {
    static const struct {
        const char *name;
        api_method method;
    } methods[] = {
        {"POST", API_POST},
        {"GET", API_GET},
        {"HEAD", API_HEAD},
        {"OPTIONS", API_OPTIONS},
        {"PUT", API_OTHER_METHOD},
        {"DELETE", API_OTHER_METHOD},
        {"PATCH", API_OTHER_METHOD},
        {"TRACE", API_OTHER_METHOD},
        {"CONNECT", API_OTHER_METHOD},
        {"QUERY", API_OTHER_METHOD},
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0) return methods[i].method;
    return API_UNKNOWN_METHOD;
}

static bool allows(const api_route *route, api_method method) {
    if (method == API_OPTIONS) return true;
    if (method == API_POST) return strstr(route->allow, "POST") != NULL;
    return (method == API_GET || method == API_HEAD) && strstr(route->allow, "GET") != NULL;
}

static void check_route(api_request *request, const api_head *head) {
    const api_route *route = request->route;
    if (request->method == API_OPTIONS && strcmp(head->path, "*") == 0) return;
    if (!route || (route->exists && !route->exists(request->service))) {
        char text[API_ABSENCE_TEXT];
        api_explain_absence(request->service, request->protocol, head->path, text);
        api_refuse(request, API_NOT_FOUND, "%s", text);
    } else if (!allows(route, request->method)) {
        request->allow = route->allow;
        api_refuse(request, request->method == API_UNKNOWN_METHOD ? API_NOT_IMPLEMENTED : API_METHOD_NOT_ALLOWED,
                   "%.200s supports %s, got %.40s", head->path, route->allow, head->method);
    }
}

/* The head of a route that computes nothing. */
static void begin_info(api_request *request, const api_head *head) {
    const char *type = request->route->content_type, *accept = api_header_of(head, "accept");
    if (!request->route->accept_is_ignored && api_acceptance_of(accept, type).quality == 0)
        api_refuse(request, API_NOT_ACCEPTABLE, "Accept must admit %.*s, got %.200s", (int)strcspn(type, ";"), type,
                   accept);
    if (!request->refused) api_coding_choose(request, head);
    if (!request->refused && request->route->begin) request->route->begin(request, head);
}

api_request *api_begin(api_service *service, const api_head *head) {
    api_request *request = malloc(sizeof *request + API_PROBLEM_TEXT);
    if (!request) return NULL;
    memset(request, 0, sizeof *request);
    request->service = service;
    request->protocol = api_protocol_of(head->path);
    request->route = request->protocol->find(head->path);
    request->operation = request->route ? request->route->operation : NULL;
    request->method = method_of(head->method);
    request->trace.route = request->route ? request->route->path : "unmatched";
    request->trace.format = "json";
    api_memory_init(&request->memory, &service->budget);
    check_route(request, head);
    if (request->refused || !request->route || request->method == API_OPTIONS) return request;
    if (api_computes(request))
        api_compute_begin(request, head);
    else
        begin_info(request, head);
    return request;
}

/* ---- replies ---------------------------------------------------------------------------------------------------- */

static const api_response *respond_error(api_request *request) {
    api_problem_response(&request->error, request->protocol, &request->response, request->text, API_PROBLEM_TEXT);
    if (request->protocol->faults_in_bodies && request->prepared && request->error.code == API_BAD_REQUEST)
        request->response.close = false; /* the body was read to its end */
    if (request->allow) api_response_header(&request->response, "Allow", request->allow);
    if (request->accept_encoding) api_response_header(&request->response, "Accept-Encoding", request->accept_encoding);
    request->trace.code = api_codes[request->error.code].code;
    request->trace.pointer = request->error.has_pointer ? request->error.pointer : NULL;
    api_set_timing(request);
    return &request->response;
}

const api_response *api_refused(const api_request *request) {
    /* the reply is made from what is settled already: the request itself does not change by being asked */
    return request->refused ? respond_error((api_request *)request) : NULL;
}

const api_response *api_fail(api_request *request, const char *code, const char *detail, unsigned retry_after) {
    request->allow = request->accept_encoding = NULL;
    api_refuse(request, api_code_of(code), "%s", detail);
    request->error.retry_after = retry_after;
    return respond_error(request);
}

static const api_response *respond_options(api_request *request) {
    request->response = (api_response){.status = 204};
    api_response_header(&request->response, "Allow",
                        request->route ? request->route->allow : "GET, HEAD, POST, OPTIONS");
    return &request->response;
}

/* ---- body and answer -------------------------------------------------------------------------------------------- */

bool api_push(api_request *request, const void *bytes, size_t length) {
    request->received += length;
    if (request->refused) return request->error.code != API_BODY_TOO_LARGE;
    if (request->received > request->service->max_body) {
        api_refuse_length(request, "it has more");
        api_drop_body(request);
        return false;
    }
    return api_compute_push(request, bytes, length);
}

const api_response *api_finish(api_request *request, double queued) {
    request->trace.times.queue = queued;
    request->finish_began = api_now() - queued;
    if (!request->refused) {
        if (request->method == API_OPTIONS) return respond_options(request);
        if (api_computes(request)) {
            api_compute_finish(request);
        } else {
            request->route->finish(request);
            if (request->error.code == API_NO_ERROR) api_coding_reply(request);
        }
        if (request->protocol->count) request->protocol->count(request);
    }
    return request->error.code == API_NO_ERROR ? &request->response : respond_error(request);
}

void api_cancel(api_request *request, int reason) {
    atomic_store(&request->cancel_reason, reason);
    atomic_store(&request->cancelled, true);
}

const api_trace *api_trace_of(const api_request *request) { return &request->trace; }

void api_request_free(api_request *request) {
    if (!request) return;
    json_decref(request->root);
    json_decref(request->body.draft);
    api_decoder_free(request->decoder);
    api_memory_deinit(&request->memory);
    free(request->host_text);
    free(request);
}
