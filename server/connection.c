#include "connection.h"

#include <linux/tcp.h> /* the C library's tcp_info lacks tcpi_bytes_received */
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "log.h"

/* ---- the list ---------------------------------------------------------------------------------------------------- */

size_t srv_connections_each(srv_connections *list, void (*visit)(srv_connection *connection, void *arg), void *arg) {
    size_t count = 0;
    pthread_mutex_lock(&list->lock);
    for (srv_connection *c = list->first; c; c = c->next, count++) {
        pthread_mutex_lock(&c->lock);
        visit(c, arg);
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&list->lock);
    return count;
}

static void count_idle(srv_connection *connection, void *arg) { *(size_t *)arg += connection->phase == SRV_IDLE; }

size_t srv_connections_count(srv_connections *list, bool active) {
    size_t idle = 0;
    const size_t all = srv_connections_each(list, count_idle, &idle);
    return active ? all - idle : idle;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void name_client(srv_connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    const socklen_t length =
        address && address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    const char *text = connection->client;
    if (!address ||
        getnameinfo(address, length, connection->client, sizeof connection->client, NULL, 0, NI_NUMERICHOST))
        snprintf(connection->client, sizeof connection->client, "unknown");
    if (strncmp(text, "::ffff:", 7) == 0 && strchr(text, '.'))
        memmove(connection->client, text + 7, strlen(text + 7) + 1);
}

srv_connection *srv_connection_open(srv_connections *list, struct MHD_Connection *mhd, struct srv_server *server) {
    srv_connection *connection = calloc(1, sizeof *connection);
    if (!connection) return NULL;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    connection->list = list;
    connection->server = server;
    connection->mhd = mhd;
    connection->fd = info ? info->connect_fd : -1;
    connection->since = srv_now();
    connection->received_is_known = true; /* 0 on a new connection */
    connection->exchange.connection = connection;
    pthread_mutex_init(&connection->lock, NULL);
    name_client(connection);
    atomic_fetch_add(&list->accepted, 1);
    pthread_mutex_lock(&list->lock);
    connection->serial = ++list->serials;
    connection->next = list->first;
    connection->link = &list->first;
    if (connection->next) connection->next->link = &connection->next;
    list->first = connection;
    pthread_mutex_unlock(&list->lock);
    return connection;
}

void srv_connection_close(srv_connection *connection) {
    srv_connections *list = connection->list;
    srv_exchange_end(connection, MHD_REQUEST_TERMINATED_WITH_ERROR);
    pthread_mutex_lock(&list->lock);
    *connection->link = connection->next;
    if (connection->next) connection->next->link = connection->link;
    pthread_mutex_unlock(&list->lock);
    pthread_mutex_destroy(&connection->lock);
    free(connection);
}

/* ---- the exchange ------------------------------------------------------------------------------------------------ */

/* Under the lock. */
static void activate(srv_connection *connection, int64_t begun) {
    connection->exchange.active = true;
    connection->exchange.begun = begun;
    atomic_fetch_add(&connection->list->in_flight, 1);
}

bool srv_exchange_begin(srv_connection *connection, const char *path) {
    pthread_mutex_lock(&connection->lock);
    const bool is_idle = connection->phase == SRV_IDLE;
    if (is_idle) {
        connection->phase = SRV_HEAD;
        connection->exchange.protocol = api_protocol_of(path);
        activate(connection, srv_now());
    }
    pthread_mutex_unlock(&connection->lock);
    return is_idle;
}

bool srv_exchange_enter(srv_connection *connection, srv_phase phase) {
    pthread_mutex_lock(&connection->lock);
    const bool is_lost = connection->phase == SRV_LOST;
    if (!is_lost) connection->phase = phase;
    connection->since = srv_now();
    pthread_mutex_unlock(&connection->lock);
    return !is_lost;
}

const api_response *srv_exchange_fail(srv_exchange *x, const char *code, const char *detail, srv_reason reason) {
    api_fail_static(&x->own, x->own_body, x->protocol, code, detail, 0);
    x->code = code;
    x->rejected = reason;
    return &x->own;
}

/* Completes the record of an exchange that got no reply from us. */
static void explain(srv_connection *connection, srv_record *record) {
    srv_exchange *x = &connection->exchange;
    const union MHD_ConnectionInfo *info = NULL;
    if (!x->has_body && !x->request) /* libmicrohttpd itself refused the head */
        info = MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    if (info && info->http_status) {
        record->status = (int)info->http_status;
        record->rejected = record->status == 414 || record->status == 431 ? SRV_REASON_HEADERS : SRV_REASON_FRAMING;
        record->code = "bad_request";
        return;
    }
    record->status = 499;
    record->cancelled = x->cancelled_at ? x->cancelled_at : SRV_CANCELLED_UPLOAD;
}

static void record_exchange(srv_connection *connection, bool is_lost, bool reply_was_cut) {
    srv_exchange *x = &connection->exchange;
    const api_trace *trace = x->request ? api_trace_of(x->request) : NULL;
    char trace_id[33] = "";
    if (x->traceparent[0]) snprintf(trace_id, sizeof trace_id, "%.32s", x->traceparent + 3);
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
        .cancelled = x->cancelled_at,
        .trace = trace,
        .code = x->code || !trace ? x->code : trace->code,
    };
    if (is_lost) {
        record.status = x->lost.status;
        record.bytes_out = x->lost.length;
        record.code = x->lost.code;
        record.rejected = x->lost.reason;
        record.cancelled = SRV_CANCELLED_UPLOAD;
    } else if (!x->status) {
        explain(connection, &record);
    } else if (x->gone && x->status != 200) { /* nobody reads this error */
        record.status = 499;
        record.code = NULL;
    } else if (reply_was_cut && !record.cancelled) {
        record.cancelled = SRV_CANCELLED_REPLY;
    }
    srv_metrics_record(connection->list->metrics, &record);
    srv_log_request(&record, connection->list->kernel);
}

void srv_exchange_end(srv_connection *connection, enum MHD_RequestTerminationCode how) {
    srv_exchange *x = &connection->exchange;
    pthread_mutex_lock(&connection->lock);
    const bool is_active = x->active, is_lost = connection->phase == SRV_LOST;
    const bool reply_was_cut = connection->phase == SRV_REPLY && how != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    if (is_active && !is_lost) connection->phase = SRV_REPLY; /* the watch and the drain leave it alone from here on */
    pthread_mutex_unlock(&connection->lock);
    if (!is_active) return;
    record_exchange(connection, is_lost, reply_was_cut);
    if (x->lingers) srv_linger(connection->list->lingers, connection->fd);
    api_request *request = x->request;
    free(x->query);
    pthread_mutex_lock(&connection->lock);
    memset(x, 0, sizeof *x);
    x->connection = connection;
    if (!is_lost) connection->phase = SRV_IDLE;
    connection->since = srv_now();
    connection->head_since = 0;
    connection->received_is_known = false;
    connection->served = true;
    pthread_mutex_unlock(&connection->lock);
    atomic_fetch_sub(&connection->list->in_flight, 1);
    api_request_free(request);
}

/* ---- under the lock ---------------------------------------------------------------------------------------------- */

void srv_connection_give_up(srv_connection *connection, const char *code, const char *detail, srv_reason reason) {
    srv_exchange *x = &connection->exchange;
    api_response reply;
    char body[1024], head[512];
    api_fail_static(&reply, body, x->protocol, code, detail, 0);
    const int n = snprintf(
        head, sizeof head, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
        reply.status, MHD_get_reason_phrase_for((unsigned)reply.status), reply.content_type, reply.length);
    struct iovec parts[2] = {{head, (size_t)n}, {body, reply.length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    sendmsg(connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL); /* lost if the client does not read */
    srv_linger(connection->list->lingers, connection->fd);
    if (!x->active) /* part of a head: libmicrohttpd has not begun a request yet */
        activate(connection, connection->head_since ? connection->head_since : connection->since);
    connection->phase = SRV_LOST;
    x->lost = (srv_lost){.status = reply.status, .length = reply.length, .code = code, .reason = reason};
}

void srv_connection_cancel(srv_connection *connection, int reason) {
    srv_exchange *x = &connection->exchange;
    if (x->cancelled || x->finished || !x->request) return;
    x->cancelled = true;
    x->gone = reason == API_CANCEL_GONE;
    x->cancelled_at = x->computing ? SRV_CANCELLED_COMPUTE : SRV_CANCELLED_QUEUE;
    api_cancel(x->request, reason);
}

bool srv_connection_has_input(srv_connection *connection) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    char byte;
    if (recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) return true;
    if (getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
    uint64_t received = connection->received;
    if (!connection->received_is_known) connection->received = received = info.tcpi_bytes_received;
    connection->received_is_known = true;
    return info.tcpi_bytes_received > received;
}

bool srv_connection_has_ended(const srv_connection *connection) {
    char byte;
    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}
