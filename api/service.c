#include "request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "endpoints/operation.h"
#include "endpoints/reply_writer.h"
#include "negotiation.h"
#include "oip/oip.h"

#define SAFETENSORS "application/vnd.safetensors"

double api_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- begin ------------------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void refuse(api_request *request, api_code code, const char *detail, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    request->error = (api_error){0};
    api_error_set(&request->error, code, API_PLACE_LAST, NULL, "%s", text);
    request->refused = true;
}

/* Content-Length, 0 where there is none; the largest number where it is over it */
static uint64_t content_length(const char *value) {
    uint64_t length = 0;
    for (; value && *value >= '0' && *value <= '9'; value++)
        if (__builtin_mul_overflow(length, 10, &length) ||
            __builtin_add_overflow(length, (uint64_t)(*value - '0'), &length))
            return UINT64_MAX;
    return length;
}

static void check_route(api_request *request, const api_head *head) {
    const bool everything = request->method == API_OPTIONS && strcmp(head->path, "*") == 0;
    if (everything) return;
    if (!request->route && request->under_v2) {
        char text[512];
        api_oip_not_found(head->path, text, sizeof text);
        refuse(request, API_NOT_FOUND, "%s", text);
    } else if (!request->route ||
               (request->route->info == API_METRICS && !request->route->computes && !request->service->host.metrics)) {
        refuse(request, API_NOT_FOUND,
               "nothing is at %.200s; there are POST /attention and /mha, GET /healthz, /readyz, "
               "/version, /metrics and /openapi.json",
               head->path);
    } else if (!api_route_allows(request->route, request->method)) {
        request->allow = request->route->allow;
        refuse(request, request->method == API_UNKNOWN_METHOD ? API_NOT_IMPLEMENTED : API_METHOD_NOT_ALLOWED,
               "%s knows the methods %s, got %.40s", request->route->path, request->route->allow, head->method);
    }
}

static const char *header_of(const api_head *head, const char *name) {
    return head->header ? head->header(head->context, name) : NULL;
}

/* What reads a Content-Type; NULL: nothing does. */
static const api_body_format *body_format(const char *type) {
    if (api_is_type(type, SAFETENSORS)) return &api_safetensors_body;
    return api_reads_type(type) ? &api_json_body : NULL;
}

/* The reply is in the format that Accept prefers: by quality, then by how closely it is named, then that of the body.
 * Who sends JSON gets safetensors only by name. NULL: neither will do. */
static const api_reply_format *reply_format(const api_request *request, const char *accept) {
    const bool same = request->body.format == &api_safetensors_body;
    const api_acceptance json = api_acceptance_of(accept, "application", "json");
    api_acceptance binary = api_acceptance_of(accept, "application", "vnd.safetensors");
    if (!same && binary.closeness < 3) binary.quality = 0;
    if (json.quality == 0 && binary.quality == 0) return NULL;
    const int by_quality = binary.quality - json.quality, by_closeness = binary.closeness - json.closeness;
    const bool is_binary = by_quality ? by_quality > 0 : by_closeness ? by_closeness > 0 : same;
    return is_binary ? &api_safetensors_reply : &api_json_reply;
}

static void check_compute_headers(api_request *request, const api_head *head, uint64_t length) {
    const char *type = header_of(head, "content-type"), *encoding = header_of(head, "content-encoding");
    const api_host *host = &request->service->host;
    if (length > request->service->max_body) {
        refuse(request, API_BODY_TOO_LARGE, "the body may have at most %zu bytes, Content-Length says %llu",
               request->service->max_body, (unsigned long long)length);
    } else if (!(request->body.format = request->under_v2 ? &api_oip_body : body_format(type))) {
        refuse(request, API_UNSUPPORTED_MEDIA_TYPE,
               "expected Content-Type: application/json or " SAFETENSORS ", got %.100s", type);
    } else if (!api_content_coding(encoding, &request->coding)) {
        request->accept_encoding = api_codings_read;
        refuse(request, API_UNSUPPORTED_MEDIA_TYPE, "expected one of the codings %s, got Content-Encoding: %.100s",
               api_codings_read, encoding);
    } else if (host->readiness && host->readiness(host->context) == API_STARTING) {
        refuse(request, API_NOT_READY, "the service is starting");
    }
}

static void begin_body(api_request *request, uint64_t length, const char *query) {
    api_body *body = &request->body;
    body->memory = &request->memory;
    body->schema = &request->route->operation->schema;
    body->expected = request->coding == API_IDENTITY ? length : 0;
    request->trace.format = body->format->name;
    const size_t room = query ? strlen(query) + 1 : 0;
    char *copy = query ? api_small(&request->memory, room) : NULL;
    if (copy) body->query = memcpy(copy, query, room);
    if ((copy || !query) && api_coding_begin(request) && body->format->open(body)) return;
    body->reader = NULL;
    if (request->memory.over_budget)
        refuse(request, API_OVERLOADED, "the memory for requests in flight is full");
    else
        refuse(request, API_OUT_OF_MEMORY, "an allocation failed");
}

/* How the reply may be coded. */
static void check_codings(api_request *request, const api_head *head) {
    const char *accept = header_of(head, "accept-encoding");
    const bool info_of_v2 = request->under_v2 && request->route->info != API_OIP_INFER;
    request->varies = !info_of_v2;
    request->accepts = info_of_v2          ? (api_coding_choice){API_IDENTITY, true}
                       : request->under_v2 ? api_choose_coding_of_client(accept)
                                           : api_choose_coding(accept);
    if (request->accepts.coding == API_IDENTITY && !request->accepts.plain)
        refuse(request, API_NOT_ACCEPTABLE, "a reply is coded as %s, all of which Accept-Encoding: %.200s leaves out",
               api_codings_read, accept);
}

api_request *api_begin(api_service *service, const api_head *head) {
    api_request *request = malloc(sizeof *request + API_PROBLEM_TEXT);
    if (!request) return NULL;
    memset(request, 0, sizeof *request);
    request->service = service;
    request->route = api_route_find(head->path);
    request->under_v2 = api_under_v2(head->path);
    request->method = api_method_of(head->method);
    request->trace.route = request->route ? request->route->path : "unmatched";
    request->trace.format = "json";
    api_memory_init(&request->memory, &service->budget);
    check_route(request, head);
    if (request->refused || !request->route) return request;
    const bool computes = request->route->computes && request->method == API_POST;
    const uint64_t length = content_length(header_of(head, "content-length"));
    request->body.inference_header = header_of(head, "inference-header-content-length");
    const char *accept = header_of(head, "accept");
    request->trace.computes = computes;
    if (computes) check_compute_headers(request, head, length);
    if (computes && !request->refused && !request->under_v2 && !(request->reply = reply_format(request, accept)))
        refuse(request, API_NOT_ACCEPTABLE,
               "the reply is application/json or " SAFETENSORS ", both of which Accept: %.200s leaves out", accept);
    if (!computes && !request->refused && request->method != API_OPTIONS && !request->under_v2 &&
        !api_accepts(accept, request->route->type, request->route->subtype))
        refuse(request, API_NOT_ACCEPTABLE, "the reply is %s/%s, which Accept: %.200s leaves out", request->route->type,
               request->route->subtype, accept);
    if (!request->refused && request->method != API_OPTIONS) check_codings(request, head);
    if (computes && !request->refused) begin_body(request, length, head->query);
    return request;
}

/* ---- replies ---------------------------------------------------------------------------------------------------- */

/* "name;dur=12.3456" with four decimals of a millisecond: printf of doubles would be a seventh of a small request. */
static void add_time(api_short_text *text, const char *name, double seconds) {
    const unsigned long long ticks = (unsigned long long)(seconds * 1e7 + 0.5);
    char decimals[] = ".0000";
    unsigned rest = (unsigned)(ticks % 10000);
    for (size_t i = 4; i > 0; i--, rest /= 10) decimals[i] = (char)('0' + rest % 10);
    api_text_add(text, name);
    api_text_add(text, ";dur=");
    api_text_add_unsigned(text, ticks / 10000);
    api_text_add(text, decimals);
}

static void set_timing(api_request *request) {
    if (!request->trace.computes) return;
    const api_times *t = &request->trace.times;
    api_short_text text;
    api_text_init(&text, request->timing, sizeof request->timing - 1);
    add_time(&text, "decode", t->decode);
    add_time(&text, ", queue", t->queue);
    add_time(&text, ", compute", t->compute);
    add_time(&text, ", encode", t->encode);
    text.start[text.length] = '\0';
    api_response_header(&request->response, "Server-Timing", request->timing);
}

static const api_response *respond_error(api_request *request) {
    api_problem_response(&request->error, &request->response, request->problem, API_PROBLEM_TEXT, request->under_v2);
    if (request->under_v2 && request->prepared && request->error.code == API_BAD_REQUEST)
        request->response.close = false; /* a fault of the protocol in a body that was read: the framing is whole */
    if (request->allow) api_response_header(&request->response, "Allow", request->allow);
    if (request->accept_encoding) api_response_header(&request->response, "Accept-Encoding", request->accept_encoding);
    request->trace.code = api_codes[request->error.code].code;
    request->trace.pointer = request->error.has_pointer ? request->error.pointer : NULL;
    set_timing(request);
    return &request->response;
}

const api_response *api_refused(const api_request *request) {
    /* the reply is made from what is settled already: the request itself does not change by being asked */
    return request->refused ? respond_error((api_request *)request) : NULL;
}

const api_response *api_fail(api_request *request, const char *code, const char *detail, unsigned retry_after) {
    request->allow = request->accept_encoding = NULL;
    refuse(request, api_code_of(code), "%s", detail);
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

void api_request_drop_body(api_request *request) {
    request->body.reader = NULL;
    api_decoder_free(request->decoder);
    request->decoder = NULL;
    api_memory_deinit(&request->memory);
}

bool api_push(api_request *request, const void *bytes, size_t length) {
    request->received += length;
    if (request->refused) return request->error.code != API_BODY_TOO_LARGE;
    if (request->received > request->service->max_body) {
        refuse(request, API_BODY_TOO_LARGE, "the body may have at most %zu bytes", request->service->max_body);
        api_request_drop_body(request);
        return false;
    }
    if (!request->body.reader) return true;
    const double start = api_now();
    bool more = true;
    if (request->decoder)
        more = api_coding_push(request, bytes, length);
    else
        request->body.format->push(&request->body, bytes, length);
    request->trace.body_bytes = request->decoder ? request->decoder->length : request->received;
    request->trace.times.decode += api_now() - start;
    return more;
}

/* Memory that all requests in flight lack now may come free; what is more than all of it never will. */
static void say_never_fits(api_request *request) {
    if (request->error.code != API_OVERLOADED || !request->memory.never_fits) return;
    request->error = (api_error){0};
    api_error_set(&request->error, API_OUT_OF_RANGE, API_PLACE_LAST, NULL,
                  "the request needs more memory than the %zu bytes that all requests together may hold",
                  request->service->budget.limit);
}

/* Ends the body and checks it, once. */
static void prepare(api_request *request) {
    if (request->prepared || request->refused || !request->body.reader) return;
    const double start = api_now();
    request->prepared = true;
    if (!api_coding_finish(request)) return;
    request->root = request->body.format->finish(&request->body, &request->error);
    if (request->root) {
        request->job.operation = request->route->operation;
        request->job.reply = request->reply;
        request->job.form = (api_form){.memory = &request->memory,
                                       .reader = request->body.reader,
                                       .error = &request->error,
                                       .query = request->body.query};
        if (request->under_v2) api_oip_prepare(request);
        request->ready = api_job_prepare(&request->job, request->root, &request->service->engine);
        if (request->under_v2) api_oip_locate(request->body.state, &request->error);
    }
    if (!request->ready)
        say_never_fits(request);
    else if (request->job.operation->trace)
        request->job.operation->trace(&request->job, &request->trace);
    request->trace.times.decode += api_now() - start;
}

/* Rough costs of one thread: they only decide where the work is done and in what order. */
#define FLOPS_PER_NS 20.0
#define NS_PER_REPLY_BYTE 4.0

double api_work(api_request *request) {
    prepare(request);
    if (!request->ready) return 0;
    return api_job_flops(&request->job) / FLOPS_PER_NS + NS_PER_REPLY_BYTE * (double)api_reply_bound(&request->job);
}

/* an error where the host wants the work to end */
static bool is_cancelled(api_request *request) {
    if (request->under_v2 && api_oip_is_late(request)) return true;
    if (!atomic_load(&request->cancelled)) return false;
    switch (atomic_load(&request->cancel_reason)) {
    case API_CANCEL_TIMEOUT:
        refuse(request, API_COMPUTE_TIMEOUT, "the calculation took longer than the service allows");
        break;
    case API_CANCEL_SHUTDOWN: refuse(request, API_SHUTTING_DOWN, "the service is stopping; nothing was done"); break;
    default: refuse(request, API_TIMEOUT, "the client is gone"); break;
    }
    return true;
}

static void compute(api_request *request) {
    const double start = api_now();
    api_job *job = &request->job;
    const bool done = api_job_run(job, &request->service->engine, &request->cancelled);
    const double computed = api_now();
    request->trace.times.compute = computed - start;
    if (!done) {
        if (!is_cancelled(request)) say_never_fits(request);
        if (request->under_v2) api_oip_locate(request->body.state, &request->error);
        return;
    }
    request->trace.flops = api_job_flops(job);
    size_t length;
    const char *reply = api_reply_write(job, request->service->engine.pool, &length);
    if (reply) {
        request->response =
            (api_response){.status = 200, .content_type = job->reply->content_type, .body = reply, .length = length};
        if (request->under_v2) api_oip_decorate(request);
        api_coding_reply(request);
    } else if (request->under_v2) {
        api_oip_locate(request->body.state, &request->error);
    }
    request->trace.times.encode = api_now() - computed;
    if (!reply || is_cancelled(request)) return;
    set_timing(request);
    api_response_header(&request->response, "Vary", "Accept");
}

const api_response *api_finish(api_request *request, double queued) {
    request->trace.times.queue = queued;
    request->finish_began = api_now() - queued;
    if (!request->refused) {
        if (request->method == API_OPTIONS) return respond_options(request);
        prepare(request);
        if (request->ready && !is_cancelled(request)) compute(request);
        if (!request->route->computes) {
            api_info_answer(request);
            if (request->error.code == API_NO_ERROR) api_coding_reply(request);
        }
        if (request->under_v2) api_oip_count(request);
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
    free(request->metrics);
    free(request);
}
