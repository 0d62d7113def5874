/* http.c: libmicrohttpd's callbacks: heads, bodies, replies, and who computes where. */
#include "connection.h"

#include <stdarg.h>
#include <string.h>

static const double small_work = 200e3;  /* nanoseconds: less is done at once by the I/O thread */
static const double work_of_a_byte = 20; /* nanoseconds: guess for a body that has not been looked at */

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

/* Queues the reply; the exchange owns its bytes until it ends, which is after the last of them has been sent. */
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

/* Answers before the body has been read: the connection must close, and lingers so that the reply gets through. */
static enum MHD_Result answer_at_once(srv_connection *connection, const api_response *reply) {
    connection->exchange.lingers = connection->exchange.has_body;
    return answer(connection, reply);
}

static const api_response *fail(srv_exchange *x, const char *code, const char *detail, const char *rejected) {
    api_fail_static(&x->own, x->own_body, x->protocol, code, detail, 0);
    x->code = code;
    x->rejected = rejected;
    return &x->own;
}

/* Why a refused request never came to work, for attentiond_rejected_total; NULL for other errors. */
static const char *rejection(const api_response *reply) {
    switch (reply->status) {
    case 401: return "auth";
    case 413: return "body";
    case 429: return "memory";
    default: return NULL;
    }
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */

/* The path of a target in absolute form ("http://host/path", RFC 9112, section 3.2.2), or the target itself. */
static const char *path_of(const char *target) {
    if (strncasecmp(target, "http://", 7) != 0) return target;
    const char *slash = strchr(target + 7, '/');
    return slash ? slash : "/";
}

static void *begin(void *arg, const char *target, struct MHD_Connection *mhd) {
    (void)arg;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    srv_connection *connection = info ? info->socket_context : NULL;
    if (!connection) return NULL;
    srv_exchange *x = &connection->exchange;
    pthread_mutex_lock(&connection->lock);
    if (connection->phase == SRV_IDLE) {
        connection->phase = SRV_HEAD;
        x->active = true;
        x->begun = srv_now();
        x->target_length = strlen(target);
        x->protocol = api_protocol_of(path_of(target));
        const char *mark = strchr(target, '?'); /* libmicrohttpd takes what follows apart */
        x->query = mark && x->target_length <= MOST_URI ? strdup(mark + 1) : NULL;
        x->query_is_lost = mark && !x->query;
        srv_metrics_begin(connection->server->metrics);
    }
    pthread_mutex_unlock(&connection->lock);
    return NULL;
}

static const api_response *begin_request(srv_connection *connection, srv_head *head, const char *target,
                                         const char *method) {
    srv_exchange *x = &connection->exchange;
    const api_head wanted = {
        .method = method, .path = path_of(target), .header = srv_head_value, .context = head, .query = x->query};
    x->request = x->query_is_lost ? NULL : api_begin(&connection->server->service, &wanted);
    if (!x->request)
        return fail(x, "out_of_memory", "an allocation failed; nothing was done, the request can be sent again", NULL);
    const api_response *refused = api_refused(x->request);
    if (refused) x->rejected = rejection(refused);
    return refused;
}

/* Whether the body of a refused request is short enough to be read and forgotten, so that the connection stays. */
static bool is_worth_reading(const srv_exchange *x, const srv_head *head, const api_response *refused) {
    uint64_t length;
    if (refused->close || x->expects_continue || head->encodings) return false;
    return srv_read_count(head->content_length, &length) && length <= SMALL_BODY;
}

static enum MHD_Result take_head(srv_connection *connection, const char *target, const char *method,
                                 const char *version) {
    srv_exchange *x = &connection->exchange;
    srv_head head;
    srv_head_read(&head, connection->mhd);
    snprintf(x->method, sizeof x->method, "%s", method);
    x->has_body = srv_head_has_body(&head);
    x->closes = !srv_head_is_plain(&head, strlen(method) + 1 + x->target_length + 1 + strlen(version));
    x->expects_continue = head.expects_continue && x->has_body;
    const char *detail, *reason;
    const char *code = srv_head_fault(&head, method, version, x->target_length, &detail, &reason);
    enum MHD_Result result = MHD_YES;
    if (code) {
        const api_response *reply = fail(x, code, detail, reason);
        x->own.close = true;
        x->has_body = true; /* whatever follows is not a request */
        result = answer_at_once(connection, reply);
    } else {
        srv_head_ids(&head, x->request_id, x->traceparent);
        x->reply = begin_request(connection, &head, target, method);
        x->discards = x->reply;
        if (x->reply && x->has_body && !is_worth_reading(x, &head, x->reply))
            result = answer_at_once(connection, x->reply);
    }
    srv_head_deinit(&head);
    pthread_mutex_lock(&connection->lock);
    if (connection->phase == SRV_HEAD) connection->phase = SRV_BODY;
    connection->since = srv_now();
    pthread_mutex_unlock(&connection->lock);
    return result;
}

/* ---- the body ---------------------------------------------------------------------------------------------------- */

static enum MHD_Result take_body(srv_connection *connection, const char *bytes, size_t length) {
    srv_exchange *x = &connection->exchange;
    pthread_mutex_lock(&connection->lock);
    bool lost = connection->phase == SRV_LOST;
    connection->since = srv_now();
    pthread_mutex_unlock(&connection->lock);
    if (lost) return MHD_NO;
    x->bytes_in += length;
    if (x->discards || api_push(x->request, bytes, length)) return MHD_YES;
    x->past_limit += length;
    if (x->past_limit <= MOST_UNKEPT) return MHD_YES;
    pthread_mutex_lock(&connection->lock);
    if (connection->phase == SRV_BODY) {
        srv_connection_give_up(connection, "body_too_large", "the body is far over the limit");
        x->rejected = "body";
    }
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
    MHD_resume_connection(mhd); /* from here on the exchange is the I/O thread's */
}

static enum MHD_Result refuse(srv_connection *connection, srv_admission admission, unsigned retry_after) {
    srv_exchange *x = &connection->exchange;
    bool full = admission == SRV_QUEUE_FULL;
    x->rejected = full ? "queue_full" : "wait";
    x->reply = api_fail(x->request, "overloaded",
                        full ? "as many requests as may wait are waiting" : "the wait would exceed the time allowed",
                        retry_after);
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
    pthread_mutex_lock(&connection->lock);
    bool lost = connection->phase == SRV_LOST;
    if (!lost) connection->phase = SRV_WORK; /* no watch on the body any more */
    connection->since = srv_now();
    pthread_mutex_unlock(&connection->lock);
    if (lost) return MHD_NO;
    if (x->reply) return answer(connection, x->reply);
    if (api_trace_of(x->request)->computes) {
        const uint64_t size = api_trace_of(x->request)->body_bytes;
        double work = size < SMALL_BODY ? api_work(x->request) : (double)size * work_of_a_byte;
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
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    srv_connection *connection = info ? info->socket_context : NULL;
    if (!connection || !connection->exchange.active) return MHD_NO;
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

/* ---- ends, starts, and the library's own lines ------------------------------------------------------------------- */

static void complete(void *arg, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode how) {
    (void)arg, (void)context;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info && info->socket_context) srv_exchange_end(info->socket_context, how);
}

static void notice(void *arg, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode what) {
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *context = srv_connection_open(arg, mhd);
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
    const srv_config *config = server->config;
    double longest = config->idle_timeout > config->body_timeout ? config->idle_timeout : config->body_timeout;
    struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)config->io_threads, NULL},
                                    {MHD_OPTION_END, 0, NULL}};
    if (config->io_threads < 2) pool[0].option = MHD_OPTION_END; /* the library takes no pool of one */
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, server,
        MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL, MHD_OPTION_LISTEN_SOCKET, server->listener,
        MHD_OPTION_NOTIFY_CONNECTION, notice, server, MHD_OPTION_NOTIFY_COMPLETED, complete, server,
        MHD_OPTION_URI_LOG_CALLBACK, begin, server, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)config->max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(longest + 6), /* past the watch's own times: it is left with clients that do not read */
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY, pool, MHD_OPTION_END);
}
