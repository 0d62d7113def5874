/* connection.c: the life of a connection and of the exchange on it. */
#include "connection.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void name_client(srv_connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    socklen_t length =
        address && address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    const char *text = connection->client;
    if (!address ||
        getnameinfo(address, length, connection->client, sizeof connection->client, NULL, 0, NI_NUMERICHOST))
        snprintf(connection->client, sizeof connection->client, "unknown");
    if (strncmp(text, "::ffff:", 7) == 0 && strchr(text, '.'))
        memmove(connection->client, text + 7, strlen(text + 7) + 1);
}

srv_connection *srv_connection_open(srv_server *server, struct MHD_Connection *mhd) {
    srv_connection *connection = calloc(1, sizeof *connection);
    if (!connection) return NULL;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    connection->server = server;
    connection->mhd = mhd;
    connection->fd = info ? info->connect_fd : -1;
    connection->since = srv_now();
    connection->received_is_known = true; /* nothing, on a new connection */
    connection->exchange.connection = connection;
    pthread_mutex_init(&connection->lock, NULL);
    name_client(connection);
    atomic_fetch_add(&server->accepted, 1);
    pthread_mutex_lock(&server->lock);
    connection->serial = ++server->serials;
    connection->next = server->connections;
    connection->link = &server->connections;
    if (connection->next) connection->next->link = &connection->next;
    server->connections = connection;
    pthread_mutex_unlock(&server->lock);
    return connection;
}

void srv_connection_close(srv_connection *connection) {
    srv_server *server = connection->server;
    srv_exchange_end(connection, MHD_REQUEST_TERMINATED_WITH_ERROR);
    pthread_mutex_lock(&server->lock);
    *connection->link = connection->next;
    if (connection->next) connection->next->link = connection->link;
    pthread_mutex_unlock(&server->lock);
    pthread_mutex_destroy(&connection->lock);
    free(connection);
}

/* What is recorded for an exchange that never got a reply from us. */
static void explain(srv_connection *connection, srv_record *record) {
    srv_exchange *x = &connection->exchange;
    const union MHD_ConnectionInfo *info = NULL;
    if (!x->has_body && !x->request) /* libmicrohttpd itself refused the head */
        info = MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    if (info && info->http_status) {
        record->status = (int)info->http_status;
        record->rejected = record->status == 414 || record->status == 431 ? "headers" : "framing";
        record->code = "bad_request";
        return;
    }
    record->status = 499;
    record->cancelled = x->cancelled_at ? x->cancelled_at : "upload";
}

static void record_exchange(srv_connection *connection, bool reply_was_cut) {
    srv_exchange *x = &connection->exchange;
    srv_server *server = connection->server;
    char trace_id[33] = "";
    if (x->traceparent[0]) snprintf(trace_id, sizeof trace_id, "%.32s", x->traceparent + 3);
    const api_trace *trace = x->request ? api_trace_of(x->request) : NULL;
    srv_record record = {
        .method = x->method[0] ? x->method : "_OTHER",
        .route = trace && trace->route ? trace->route : "unmatched",
        .client = connection->client,
        .request_id = x->request_id[0] ? x->request_id : NULL,
        .trace_id = trace_id[0] ? trace_id : NULL,
        .status = x->status,
        .bytes_in = x->bytes_in,
        .bytes_out = x->bytes_out,
        .seconds = (double)(srv_now() - x->begun) * 1e-9,
        .rejected = x->rejected,
        .trace = trace,
        .code = x->code ? x->code
                : trace ? trace->code
                        : NULL,
        .cancelled = x->cancelled_at,
    };
    if (x->gone && x->status != 200) { /* an error that nobody reads is no error */
        record.status = 499;
        record.code = NULL;
    }
    if (!x->status)
        explain(connection, &record);
    else if (reply_was_cut && !record.cancelled)
        record.cancelled = "reply";
    srv_metrics_record(server->metrics, &record);
    srv_metrics_end(server->metrics);
    srv_log_request(&record, attn_kernel_name(server->service.engine.kernel));
}

void srv_exchange_end(srv_connection *connection, enum MHD_RequestTerminationCode how) {
    srv_exchange *x = &connection->exchange;
    if (!x->active) return;
    pthread_mutex_lock(&connection->lock);
    bool reply_was_cut = connection->phase == SRV_REPLY && how != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    if (connection->phase != SRV_LOST) connection->phase = SRV_REPLY; /* the watch keeps off */
    pthread_mutex_unlock(&connection->lock);
    record_exchange(connection, reply_was_cut);
    if (x->lingers) srv_watch_linger(connection->server->watch, connection->fd);
    api_request *request = x->request;
    free(x->query);
    pthread_mutex_lock(&connection->lock);
    memset(x, 0, sizeof *x);
    x->connection = connection;
    if (connection->phase != SRV_LOST) connection->phase = SRV_IDLE;
    connection->since = srv_now();
    connection->head_since = 0;
    connection->received_is_known = false;
    connection->served = true;
    pthread_mutex_unlock(&connection->lock);
    api_request_free(request);
}

void srv_connection_give_up(srv_connection *connection, const char *code, const char *detail) {
    srv_exchange *x = &connection->exchange;
    api_response reply;
    char body[1024], head[512];
    api_fail_static(&reply, body, x->protocol, code, detail, 0);
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                     reply.status, MHD_get_reason_phrase_for((unsigned)reply.status), reply.content_type, reply.length);
    struct iovec parts[2] = {{head, (size_t)n}, {body, reply.length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    sendmsg(connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL); /* lost where the client does not read */
    srv_watch_linger(connection->server->watch, connection->fd);
    if (!x->active) { /* part of a head: libmicrohttpd has not told us of a request yet */
        x->active = true;
        x->begun = connection->head_since ? connection->head_since : connection->since;
        srv_metrics_begin(connection->server->metrics);
    }
    connection->phase = SRV_LOST;
    x->status = reply.status;
    x->bytes_out = reply.length;
    x->code = code;
    x->cancelled_at = "upload";
}

void srv_connection_cancel(srv_connection *connection, int reason) {
    srv_exchange *x = &connection->exchange;
    if (x->cancelled || x->finished || !x->request) return;
    x->cancelled = true;
    x->gone = reason == API_CANCEL_GONE;
    x->cancelled_at = x->computing ? "compute" : "queue";
    api_cancel(x->request, reason);
}

void srv_connections_count(srv_server *server, uint64_t *idle, uint64_t *active) {
    *idle = *active = 0;
    pthread_mutex_lock(&server->lock);
    for (srv_connection *c = server->connections; c; c = c->next) {
        pthread_mutex_lock(&c->lock);
        if (c->phase == SRV_IDLE)
            ++*idle;
        else
            ++*active;
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&server->lock);
}
