#include "compute.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "formats.h"

/* ---- the head --------------------------------------------------------------------------------------------------- */

/* Content-Length, 0 if there is none; the largest number if it exceeds that */
static uint64_t content_length(const char *value) {
    uint64_t length = 0;
    for (; value && *value >= '0' && *value <= '9'; value++)
        if (__builtin_mul_overflow(length, 10, &length) ||
            __builtin_add_overflow(length, (uint64_t)(*value - '0'), &length))
            return UINT64_MAX;
    return length;
}

static void refuse_type(api_request *request, const char *type) {
    char types[API_TYPES_TEXT];
    api_refuse(request, API_UNSUPPORTED_MEDIA_TYPE, "Content-Type must be %s, got %.100s", api_body_types(types), type);
}

static void refuse_accept(api_request *request, const char *accept) {
    char types[API_TYPES_TEXT];
    api_refuse(request, API_NOT_ACCEPTABLE, "Accept must admit %s, got %.200s", api_reply_types(types), accept);
}

static void set_format(api_request *request, const api_body_format *format) {
    request->body.format = format;
    request->trace.format = format->name;
}

/* true if the body's format and coding are read */
static bool check_body(api_request *request, const char *type, const char *encoding) {
    const api_body_format *format = request->protocol->body;
    if (!format) format = api_body_format_of(type, &request->is_vague);
    if (format) set_format(request, format);
    if (!format && !request->is_vague) {
        refuse_type(request, type);
        return false;
    }
    if (api_content_coding(encoding, &request->coding)) return true;
    request->accept_encoding = api_codings_read;
    api_refuse(request, API_UNSUPPORTED_MEDIA_TYPE, "Content-Encoding must be one of %s, got %.100s", api_codings_read,
               encoding);
    return false;
}

/* Chooses the format of the reply, which depends on that of the body. */
static void choose_reply(api_request *request, const char *accept) {
    request->job.reply.format = api_reply_format_of(accept, request->body.format);
    if (!request->job.reply.format) refuse_accept(request, accept);
}

static void check_accept(api_request *request, const char *accept) {
    if (request->protocol->body) return; /* its replies are of one format */
    if (!request->is_vague)
        choose_reply(request, accept);
    else if (api_reply_is_possible(accept))
        request->accept = api_keep(request, accept);
    else
        refuse_accept(request, accept);
}

static void refuse_length(api_request *request, uint64_t length) {
    char size[API_SIZE_TEXT], what[API_SIZE_TEXT + 32];
    snprintf(what, sizeof what, "Content-Length says %s",
             api_size_text(size, length < SIZE_MAX ? (size_t)length : SIZE_MAX));
    api_refuse_length(request, what);
}

static void check_head(api_request *request, const api_head *head, uint64_t length) {
    const api_host *host = &request->service->host;
    if (length > request->service->max_body)
        refuse_length(request, length);
    else if (!check_body(request, api_header_of(head, "content-type"), api_header_of(head, "content-encoding")))
        return;
    else if (host->readiness && host->readiness(host->context) == API_STARTING)
        api_refuse(request, API_NOT_READY, "the service is starting");
    else
        check_accept(request, api_header_of(head, "accept"));
}

static void open_body(api_request *request) {
    if (request->body.format->open(&request->body)) return;
    request->body.reader = NULL;
    api_refuse_for_memory(request);
}

/* The first bytes of a vague body, or all if it is shorter, have come: its format is settled. */
static void settle_format(api_request *request) {
    const api_body_format *seen = api_body_format_seen(request->first, request->first_count);
    request->is_vague = false;
    if (seen) set_format(request, seen);
    if (!request->body.format) {
        refuse_type(request, "application/octet-stream");
        return;
    }
    choose_reply(request, request->accept);
    if (!request->refused) open_body(request);
    if (!request->refused) request->body.format->push(&request->body, request->first, request->first_count);
}

/* Bytes of the body whose coding is undone. */
static void take_bytes(void *context, const void *bytes, size_t length) {
    api_request *request = context;
    if (request->is_vague) {
        const size_t room = API_BODY_FIRST - request->first_count, count = length < room ? length : room;
        memcpy(request->first + request->first_count, bytes, count);
        request->first_count += count;
        bytes = (const char *)bytes + count;
        length -= count;
        if (request->first_count == API_BODY_FIRST) settle_format(request);
    }
    if (length > 0 && !request->refused) request->body.format->push(&request->body, bytes, length);
}

void api_compute_begin(api_request *request, const api_head *head) {
    const uint64_t length = content_length(api_header_of(head, "content-length"));
    api_body *body = &request->body;
    request->trace.computes = true;
    check_head(request, head, length);
    if (!request->refused) api_coding_choose(request, head);
    if (request->refused) return;
    body->memory = &request->memory;
    body->schema = &request->operation->schema;
    body->expected = request->coding == API_IDENTITY ? length : 0;
    api_keep_query(request, head);
    if (request->refused) return;
    if (!api_coding_begin(request, take_bytes)) {
        api_refuse_for_memory(request);
    } else if (!request->is_vague) {
        body->inference_header = api_header_of(head, "inference-header-content-length");
        open_body(request);
    }
}

/* ---- the body --------------------------------------------------------------------------------------------------- */

bool api_compute_push(api_request *request, const void *bytes, size_t length) {
    if (!request->body.reader && !request->is_vague) return true;
    const double start = api_now();
    bool more = true;
    if (request->decoder)
        more = api_coding_push(request, bytes, length);
    else
        take_bytes(request, bytes, length);
    request->trace.body_bytes = request->decoder ? request->decoder->length : request->received;
    if (request->refused) api_drop_body(request);
    request->trace.times.decode += api_now() - start;
    return more;
}

/* Memory that all requests in flight lack now may come free; what is more than all of it never will. */
static void say_never_fits(api_request *request) {
    if (request->error.code != API_OVERLOADED || !request->memory.never_fits) return;
    char need[API_SIZE_TEXT], limit[API_SIZE_TEXT];
    request->error = (api_error){0};
    api_error_set(&request->error, API_OUT_OF_RANGE, API_PLACE_LAST, NULL,
                  "the request needs at least %s; all requests together may hold %s (--max-memory)",
                  api_size_text(need, request->memory.never_fits),
                  api_size_text(limit, request->service->budget.limit));
}

static void locate(api_request *request) {
    if (request->protocol->locate) request->protocol->locate(request);
}

static void prepare_job(api_request *request) {
    api_job *job = &request->job;
    job->operation = request->operation;
    job->form = (api_form){.memory = &request->memory,
                           .reader = request->body.reader,
                           .error = &request->error,
                           .query = request->body.query};
    job->reply.cancel = &request->cancelled;
    if (request->protocol->prepare) request->protocol->prepare(request);
    request->ready = api_job_prepare(job, request->root, &request->service->engine);
    locate(request);
}

void api_compute_prepare(api_request *request) {
    if (request->prepared || request->refused || (!request->body.reader && !request->is_vague)) return;
    const double start = api_now();
    request->prepared = true;
    if (!api_coding_finish(request)) return;
    if (request->is_vague) settle_format(request);
    if (request->refused) return;
    request->root = request->body.format->finish(&request->body, &request->error);
    if (request->root) prepare_job(request);
    if (!request->ready)
        say_never_fits(request);
    else if (request->operation->trace)
        request->operation->trace(&request->job, &request->trace);
    request->trace.times.decode += api_now() - start;
}

/* Rough costs of one thread: they only decide where the work is done and in what order. */
#define FLOPS_PER_NS 20.0
#define NS_PER_REPLY_BYTE 4.0
#define NS_PER_RANDOM 20.0

double api_work(api_request *request) {
    api_compute_prepare(request);
    if (!request->ready) return 0;
    const double bound = (double)api_reply_bound(&request->job.reply);
    return api_job_flops(&request->job) / FLOPS_PER_NS + NS_PER_REPLY_BYTE * bound +
           NS_PER_RANDOM * (double)request->job.randoms.count;
}

/* ---- the reply -------------------------------------------------------------------------------------------------- */

double api_timeout_of(const api_request *request) { return 1e-6 * (double)atomic_load(&request->timeout); }

/* true if the time that the client itself granted is over */
static bool is_late(api_request *request) {
    const double timeout = api_timeout_of(request);
    if (timeout <= 0 || api_now() - request->finish_began < timeout) return false;
    api_refuse(request, API_COMPUTE_TIMEOUT, "the request took longer than its own timeout of %.9g microseconds",
               timeout * 1e6);
    return true;
}

/* true, and an error set, if the work is to end */
static bool is_cancelled(api_request *request) {
    if (is_late(request)) return true;
    if (!atomic_load(&request->cancelled)) return false;
    switch (atomic_load(&request->cancel_reason)) {
    case API_CANCEL_TIMEOUT:
        api_refuse(request, API_COMPUTE_TIMEOUT, "the request took longer than --compute-timeout");
        break;
    case API_CANCEL_SHUTDOWN:
        api_refuse(request, API_SHUTTING_DOWN, "the service is stopping; nothing was done");
        break;
    default: api_refuse(request, API_TIMEOUT, "the client is gone"); break;
    }
    return true;
}

static bool run(api_request *request) {
    const double start = api_now();
    const bool done = api_job_run(&request->job, &request->service->engine, &request->cancelled);
    request->trace.times.compute = api_now() - start;
    if (done)
        request->trace.flops = api_job_flops(&request->job);
    else if (!is_cancelled(request))
        say_never_fits(request);
    return done;
}

static bool encode(api_request *request) {
    const double start = api_now();
    const api_reply *reply = &request->job.reply;
    size_t length;
    const char *text = api_reply_write(reply, request->service->engine.pool, &length);
    if (text) {
        request->response =
            (api_response){.status = 200, .content_type = reply->format->content_type, .body = text, .length = length};
        if (request->protocol->finish) request->protocol->finish(request);
        api_coding_reply(request);
    }
    request->trace.times.encode = api_now() - start;
    return text && !is_cancelled(request);
}

void api_compute_finish(api_request *request) {
    api_compute_prepare(request);
    if (!request->ready || is_cancelled(request)) return;
    if (run(request) && encode(request)) {
        api_set_timing(request);
        api_response_header(&request->response, "Vary", "Accept");
    } else {
        locate(request);
    }
}
