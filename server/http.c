#include "http.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "head.h"
#include "log.h"
#include "values.h"

enum {
    SMALL_BODY = 64 << 10,        /* bytes: computed on the I/O thread if the work is small too; read if refused */
    MOST_DROPPED = 64 << 20,      /* bytes of a chunked body past the limit that are read and dropped */
    CONNECTION_MEMORY = 64 << 10, /* a head of the largest size fits; libmicrohttpd zeroes it after each request */
    REPLY_SLACK_SECONDS = 6,
};
static const double small_work = 200e3; /* nanoseconds: less is computed at once by the I/O thread */
static const double work_per_byte = 20; /* nanoseconds: a guess for a body that has not been examined */

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static bool add_headers(struct MHD_Response *response, const srv_exchange *x, const api_response *reply, bool close) {
    bool ok = true;
    for (size_t i = 0; i < sizeof reply->headers / sizeof *reply->headers && reply->headers[i].name; i++)
        ok = ok && MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value) == MHD_YES;
    if (reply->content_type)
        ok = ok && MHD_add_response_header(response, "Content-Type", reply->content_type) == MHD_YES;
    if (x->request_id[0]) ok = ok && MHD_add_response_header(response, "X-Request-Id", x->request_id) == MHD_YES;
    if (x->traceparent[0]) ok = ok && MHD_add_response_header(response, "traceparent", x->traceparent) == MHD_YES;
    if (close) ok = ok && MHD_add_response_header(response, "Connection", "close") == MHD_YES;
    return ok;
}

/* Queues the reply. The exchange owns its bytes until it ends, which is after the last byte was sent. */
static enum MHD_Result answer(srv_connection *connection, const api_response *reply) {
    srv_exchange *x = &connection->exchange;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(reply->length, (void *)(uintptr_t)reply->body, MHD_RESPMEM_PERSISTENT);
    if (!response) return MHD_NO;
    bool close = reply->close || x->lingers || x->closes || atomic_load(&connection->server->closing);
    enum MHD_Result result = MHD_NO;
    if (add_headers(response, x, reply, close)) {
        pthread_mutex_lock(&connection->lock);
        bool lost = connection->phase == SRV_LOST;
        if (!lost) {
            connection->phase = SRV_REPLY;
            x->status = reply->status;
            x->bytes_out = strcmp(x->method, "HEAD") == 0 ? 0 : reply->length;
        }
        pthread_mutex_unlock(&connection->lock);
        if (!lost) result = MHD_queue_response(connection->mhd, (unsigned)reply->status, response);
    }
    MHD_destroy_response(response);
    return result;
}

/* Answers before the body was read: the connection must close, and lingers so that the reply arrives. */
static enum MHD_Result answer_at_once(srv_connection *connection, const api_response *reply) {
    connection->exchange.lingers = connection->exchange.has_body;
    return answer(connection, reply);
}

/* Why api/ refused a request before any work, if it did. */
static srv_reason rejection(const api_response *reply) {
    switch (reply->status) {
    case 413: return SRV_REASON_BODY;
    case 429: return SRV_REASON_MEMORY;
    default: return SRV_NO_REASON;
    }
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */

/* The path of a target in absolute form ("http://host/path", RFC 9112, section 3.2.2), or else the target. */
static const char *path_of(const char *target) {
    if (strncasecmp(target, "http://", 7) != 0) return target;
    const char *slash = strchr(target + 7, '/');
    return slash ? slash : "/";
}

static srv_connection *connection_of(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* Called with the request line, before the library splits the target. */
static void *begin(void *arg, const char *target, struct MHD_Connection *mhd) {
    (void)arg;
    srv_connection *connection = connection_of(mhd);
    if (!connection || !srv_exchange_begin(connection, path_of(target))) return NULL;
    srv_exchange *x = &connection->exchange;
    const char *mark = strchr(target, '?');
    x->target_length = strlen(target);
    x->query = mark && x->target_length <= MOST_URI ? strdup(mark + 1) : NULL;
    x->query_is_lost = mark && !x->query;
    return NULL;
}

static const api_response *begin_request(srv_connection *connection, srv_head *head, const char *target,
                                         const char *method) {
    srv_exchange *x = &connection->exchange;
    const api_head wanted = {
        .method = method, .path = path_of(target), .header = srv_head_value, .context = head, .query = x->query};
    x->request = x->query_is_lost ? NULL : api_begin(&connection->server->service, &wanted);
    if (!x->request)
        return srv_exchange_fail(x, "out_of_memory",
                                 "an allocation failed; nothing was computed, and the request can be sent again",
                                 SRV_NO_REASON);
    const api_response *refused = api_refused(x->request);
    if (refused) x->rejected = rejection(refused);
    return refused;
}

/* Whether the body of a refused request is short enough to be read and dropped, so that the connection can stay. */
static bool is_worth_reading(const srv_exchange *x, const srv_head *head, const api_response *refused) {
    uint64_t length;
    if (refused->close || x->expects_continue || head->encodings) return false;
    return srv_read_count(head->content_length, &length) && length <= SMALL_BODY;
}

static const char *header(struct MHD_Connection *mhd, const char *name) {
    return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

static enum MHD_Result take_head(srv_connection *connection, const char *target, const char *method,
                                 const char *version) {
    srv_exchange *x = &connection->exchange;
    srv_head head;
    if (!srv_exchange_enter(connection, SRV_HEAD)) return MHD_NO;
    srv_head_read(&head, connection->mhd);
    snprintf(x->method, sizeof x->method, "%s", method);
    x->has_body = srv_head_has_body(&head);
    x->closes = !srv_head_is_plain(&head, strlen(method) + 1 + x->target_length + 1 + strlen(version));
    x->expects_continue = head.expects_continue && x->has_body;
    srv_head_fault fault;
    enum MHD_Result result = MHD_YES;
    if (!srv_head_check(&head, method, version, x->target_length, &fault)) {
        const api_response *reply = srv_exchange_fail(x, fault.code, fault.detail, fault.reason);
        x->own.close = true;
        x->has_body = true; /* whatever follows is not a request */
        result = answer_at_once(connection, reply);
    } else {
        srv_request_id(x->request_id, header(connection->mhd, "X-Request-Id"));
        srv_traceparent(x->traceparent, header(connection->mhd, "traceparent"));
        x->reply = begin_request(connection, &head, target, method);
        x->discards = x->reply;
        if (x->reply && x->has_body && !is_worth_reading(x, &head, x->reply))
            result = answer_at_once(connection, x->reply);
        else if (!srv_exchange_enter(connection, SRV_BODY))
            result = MHD_NO;
    }
    srv_head_deinit(&head);
    return result;
}

/* ---- the body ---------------------------------------------------------------------------------------------------- */

static enum MHD_Result take_body(srv_connection *connection, const char *bytes, size_t length) {
    srv_exchange *x = &connection->exchange;
    if (!srv_exchange_enter(connection, SRV_BODY)) return MHD_NO;
    x->bytes_in += length;
    if (x->discards || api_push(x->request, bytes, length)) return MHD_YES;
    x->past_limit += length;
    if (x->past_limit <= MOST_DROPPED) return MHD_YES;
    pthread_mutex_lock(&connection->lock);
    if (connection->phase == SRV_BODY)
        srv_connection_give_up(connection, "body_too_large", "the body is far over the limit", SRV_REASON_BODY);
    pthread_mutex_unlock(&connection->lock);
    return MHD_NO;
}

/* ---- the end of the body ----------------------------------------------------------------------------------------- */

static void compute(srv_ticket *ticket, double waited) {
    srv_exchange *x = (srv_exchange *)ticket;
    srv_connection *connection = x->connection;
    pthread_mutex_lock(&connection->lock);
    x->computing = true;
    pthread_mutex_unlock(&connection->lock);
    const api_response *reply = api_finish(x->request, waited);
    struct MHD_Connection *mhd = connection->mhd;
    pthread_mutex_lock(&connection->lock);
    x->reply = reply;
    x->finished = true;
    srv_watch_remove(connection->server->watch, connection);
    pthread_mutex_unlock(&connection->lock);
    MHD_resume_connection(mhd); /* from here on the exchange belongs to the I/O thread */
}

static enum MHD_Result refuse(srv_connection *connection, srv_admission admission, unsigned retry_after) {
    srv_exchange *x = &connection->exchange;
    const bool is_full = admission == SRV_QUEUE_FULL;
    x->rejected = is_full ? SRV_REASON_QUEUE_FULL : SRV_REASON_WAIT;
    x->reply = api_fail(x->request, "overloaded",
                        is_full ? "the queue is full" : "the predicted wait exceeds the time allowed", retry_after);
    return answer(connection, x->reply);
}

static enum MHD_Result enqueue(srv_connection *connection, double work) {
    srv_exchange *x = &connection->exchange;
    srv_server *server = connection->server;
    unsigned retry_after;
    x->ticket.work = work;
    x->ticket.run = compute;
    srv_admission admission = srv_queue_admit(server->queue, &x->ticket, &retry_after);
    if (admission != SRV_ADMITTED) return refuse(connection, admission, retry_after);
    pthread_mutex_lock(&connection->lock);
    connection->phase = SRV_WORK;
    connection->since = srv_now();
    srv_watch_add(server->watch, connection);
    pthread_mutex_unlock(&connection->lock);
    MHD_suspend_connection(connection->mhd);
    srv_queue_submit(server->queue, &x->ticket);
    return MHD_YES;
}

static enum MHD_Result finish(srv_connection *connection) {
    srv_exchange *x = &connection->exchange;
    if (!srv_exchange_enter(connection, SRV_WORK)) return MHD_NO;
    if (x->reply) return answer(connection, x->reply);
    if (api_trace_of(x->request)->computes) {
        const uint64_t size = api_trace_of(x->request)->body_bytes;
        double work = size < SMALL_BODY ? api_work(x->request) : (double)size * work_per_byte;
        if (size >= SMALL_BODY || work >= small_work) return enqueue(connection, work);
    }
    const api_response *reply = api_finish(x->request, 0);
    pthread_mutex_lock(&connection->lock);
    x->reply = reply;
    x->finished = true;
    pthread_mutex_unlock(&connection->lock);
    if (!x->rejected) x->rejected = rejection(reply);
    return answer(connection, x->reply);
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *mhd, const char *target, const char *method,
                              const char *version, const char *bytes, size_t *length, void **request_context) {
    (void)arg;
    srv_connection *connection = connection_of(mhd);
    if (!connection) return MHD_NO;
    if (!*request_context) {
        *request_context = connection;
        return take_head(connection, target, method, version);
    }
    if (*length) {
        size_t n = *length;
        *length = 0;
        return take_body(connection, bytes, n);
    }
    srv_exchange *x = &connection->exchange;
    if (!x->finished) return finish(connection);
    if (!x->rejected) x->rejected = rejection(x->reply);
    return answer(connection, x->reply); /* resumed */
}

/* ---- connections, and messages of the library ------------------------------------------------------------------- */

static void complete(void *arg, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode how) {
    (void)arg, (void)context;
    srv_connection *connection = connection_of(mhd);
    if (connection) srv_exchange_end(connection, how);
}

static void notice(void *arg, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode what) {
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *context = srv_connection_open(&((srv_server *)arg)->connections, mhd, arg);
    else if (*context)
        srv_connection_close(*context);
}

static size_t leave_escaped(void *arg, struct MHD_Connection *mhd, char *text) {
    (void)arg, (void)mhd;
    return strlen(text);
}

static void log_library(void *arg, const char *format, va_list args) {
    (void)arg;
    char text[512];
    if (!srv_log_enabled(SRV_DEBUG)) return;
    vsnprintf(text, sizeof text, format, args);
    srv_log(SRV_DEBUG, "libmicrohttpd: %s", text);
}

struct MHD_Daemon *srv_http_start(srv_server *server) {
    const srv_settings *settings = server->settings;
    double longest = settings->idle_timeout > settings->body_timeout ? settings->idle_timeout : settings->body_timeout;
    struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)settings->io_threads, NULL},
                                    {MHD_OPTION_END, 0, NULL}};
    if (settings->io_threads < 2) pool[0].option = MHD_OPTION_END; /* the library refuses a pool of one */
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, server,
        MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL, MHD_OPTION_LISTEN_SOCKET, server->listener,
        MHD_OPTION_NOTIFY_CONNECTION, notice, server, MHD_OPTION_NOTIFY_COMPLETED, complete, server,
        MHD_OPTION_URI_LOG_CALLBACK, begin, server, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)settings->max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)longest + REPLY_SLACK_SECONDS, /* after the watch's times: for clients that do not read */
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY, pool, MHD_OPTION_END);
}
