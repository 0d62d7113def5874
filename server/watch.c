/* watch.c: one thread outside libmicrohttpd's, for what that library does not do: notice that the client of a suspended
 * connection has gone, keep the times of heads, bodies and computing, and let a refused upload end without a reset.
 */
#include "connection.h"

#include <errno.h>
#include <linux/tcp.h> /* the C library's tcp_info has no tcpi_bytes_received */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LINGERS = 256, /* at once; beyond, connections are closed without lingering */
    LINGER_MS = 2000,
    LINGER_BYTES = 256 << 20,
    SCAN_MS = 200,
    EVENTS = 64,
};
#define LINGER_MARK                                                                                  \
    (UINT64_C(1) << 63) /* in an event: the rest is an index; else a connection's serial, or 0: stop \
                         */

typedef struct lingering {
    int fd; /* -1: free */
    int64_t until;
    uint64_t bytes;
} lingering;

struct srv_watch {
    srv_server *server;
    pthread_t thread;
    int epoll, wake;
    atomic_bool stopping;
    pthread_mutex_t lock; /* of the lingers */
    lingering lingers[LINGERS];
};

/* ---- clients gone ------------------------------------------------------------------------------------------------ */

void srv_watch_add(srv_watch *watch, const srv_connection *connection) {
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = connection->serial};
    epoll_ctl(watch->epoll, EPOLL_CTL_ADD, connection->fd, &event);
}

void srv_watch_remove(srv_watch *watch, const srv_connection *connection) {
    epoll_ctl(watch->epoll, EPOLL_CTL_DEL, connection->fd, NULL);
}

/* The end of file of a client that only closed its sending side looks the same: it is taken for gone, too. */
static void client_gone(srv_server *server, uint64_t serial) {
    pthread_mutex_lock(&server->lock);
    srv_connection *connection = server->connections;
    while (connection && connection->serial != serial) connection = connection->next;
    if (connection) {
        pthread_mutex_lock(&connection->lock);
        if (connection->phase == SRV_WORK) srv_connection_cancel(connection, API_CANCEL_GONE);
        pthread_mutex_unlock(&connection->lock);
    }
    pthread_mutex_unlock(&server->lock);
}

/* ---- lingering --------------------------------------------------------------------------------------------------- */

void srv_watch_linger(srv_watch *watch, int fd) {
    pthread_mutex_lock(&watch->lock);
    size_t i = 0;
    while (i < LINGERS && watch->lingers[i].fd >= 0) i++;
    int copy = i < LINGERS ? dup(fd) : -1;
    if (copy >= 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = LINGER_MARK | i};
        watch->lingers[i] = (lingering){.fd = copy, .until = srv_now() + LINGER_MS * INT64_C(1000000)};
        epoll_ctl(watch->epoll, EPOLL_CTL_ADD, copy, &event);
        shutdown(copy, SHUT_WR);
    }
    pthread_mutex_unlock(&watch->lock);
}

static void end_linger(srv_watch *watch, lingering *held) {
    epoll_ctl(watch->epoll, EPOLL_CTL_DEL, held->fd, NULL);
    close(held->fd);
    held->fd = -1;
}

static void read_on(srv_watch *watch, lingering *held) {
    static char unkept[1 << 16]; /* of the watch's thread alone */
    pthread_mutex_lock(&watch->lock);
    for (int rounds = 0; held->fd >= 0 && rounds < 16; rounds++) {
        ssize_t n = recv(held->fd, unkept, sizeof unkept, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
        held->bytes += n > 0 ? (uint64_t)n : 0;
        if (n <= 0 || held->bytes > LINGER_BYTES) end_linger(watch, held);
    }
    pthread_mutex_unlock(&watch->lock);
}

static void end_lingers(srv_watch *watch, int64_t now) {
    pthread_mutex_lock(&watch->lock);
    for (size_t i = 0; i < LINGERS; i++)
        if (watch->lingers[i].fd >= 0 && watch->lingers[i].until <= now) end_linger(watch, &watch->lingers[i]);
    pthread_mutex_unlock(&watch->lock);
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static bool is_past(int64_t now, int64_t since, double seconds) {
    return seconds > 0 && (double)(now - since) > seconds * 1e9; /* 0: no limit */
}

bool srv_connection_is_busy(srv_connection *connection) {
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

static void give_up(srv_connection *connection, const char *detail) {
    char byte;
    if (recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) return; /* it is we who are slow to read */
    srv_connection_give_up(connection, "timeout", detail);
    shutdown(connection->fd, SHUT_RD); /* libmicrohttpd sees the end, and closes */
}

/* The client closed its sending side and everything it sent is read: a body under way will never be complete. */
static bool sends_no_more(const srv_connection *connection) {
    char byte;
    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void look_at(srv_connection *connection, int64_t now) {
    const srv_config *config = connection->server->config;
    const srv_exchange *x = &connection->exchange;
    switch (connection->phase) {
    case SRV_IDLE:
        if (!connection->head_since && srv_connection_is_busy(connection)) connection->head_since = now;
        if (connection->head_since) {
            if (is_past(now, connection->head_since, config->head_timeout))
                give_up(connection, "the head of the request did not arrive in time");
        } else if (is_past(now, connection->since, config->idle_timeout)) {
            shutdown(connection->fd, SHUT_RDWR);
        }
        break;
    case SRV_HEAD:
        if (is_past(now, x->begun, config->head_timeout))
            give_up(connection, "the head of the request did not arrive in time");
        break;
    case SRV_BODY:
        if (sends_no_more(connection))
            shutdown(connection->fd, SHUT_RDWR); /* which libmicrohttpd notices, where it does not a half-close */
        else if (is_past(now, connection->since, config->body_timeout))
            give_up(connection, "the body of the request stopped arriving");
        else if (is_past(now, x->begun, config->request_timeout))
            give_up(connection, "the body of the request took too long to arrive");
        break;
    case SRV_WORK:
        if (is_past(now, connection->since, config->compute_timeout) ||
            (x->request && is_past(now, connection->since, api_timeout_of(x->request))))
            srv_connection_cancel(connection, API_CANCEL_TIMEOUT);
        break;
    case SRV_REPLY: /* libmicrohttpd's own time-out */
    case SRV_LOST: break;
    }
}

static void scan(srv_watch *watch, int64_t now) {
    srv_server *server = watch->server;
    pthread_mutex_lock(&server->lock);
    for (srv_connection *c = server->connections; c; c = c->next) {
        pthread_mutex_lock(&c->lock);
        look_at(c, now);
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&server->lock);
    end_lingers(watch, now);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void *run(void *arg) {
    srv_watch *watch = arg;
    struct epoll_event events[EVENTS];
    int64_t next_scan = 0;
    while (!atomic_load(&watch->stopping)) {
        int64_t now = srv_now();
        if (now >= next_scan) {
            scan(watch, now);
            next_scan = now + SCAN_MS * INT64_C(1000000);
        }
        int n = epoll_wait(watch->epoll, events, EVENTS, (int)((next_scan - now) / 1000000) + 1);
        for (int i = 0; i < n; i++) {
            uint64_t mark = events[i].data.u64;
            if (mark & LINGER_MARK)
                read_on(watch, &watch->lingers[mark & ~LINGER_MARK]);
            else if (mark)
                client_gone(watch->server, mark);
        }
    }
    return NULL;
}

srv_watch *srv_watch_start(srv_server *server) {
    srv_watch *watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    for (size_t i = 0; i < LINGERS; i++) watch->lingers[i].fd = -1;
    watch->server = server;
    pthread_mutex_init(&watch->lock, NULL);
    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    if (watch->epoll >= 0 && watch->wake >= 0 && epoll_ctl(watch->epoll, EPOLL_CTL_ADD, watch->wake, &event) == 0 &&
        pthread_create(&watch->thread, NULL, run, watch) == 0)
        return watch;
    if (watch->epoll >= 0) close(watch->epoll);
    if (watch->wake >= 0) close(watch->wake);
    free(watch);
    return NULL;
}

void srv_watch_stop(srv_watch *watch) {
    atomic_store(&watch->stopping, true);
    eventfd_write(watch->wake, 1);
    pthread_join(watch->thread, NULL);
    end_lingers(watch, INT64_MAX);
    close(watch->epoll);
    close(watch->wake);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}
