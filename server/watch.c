#include "watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

enum {
    SCAN_MS = 200,
    SETTLED_MS = 100, /* for so long libmicrohttpd may hold bytes that it has read and not passed on */
    EVENTS = 64,
};

/* What an event is of, if not of the connection with this serial number. */
#define STOP UINT64_C(0)
#define LINGER UINT64_MAX

struct srv_watch {
    srv_connections *list;
    const srv_settings *settings;
    pthread_t thread;
    int epoll, wake;
    atomic_bool stopping;
};

/* ---- clients that left ------------------------------------------------------------------------------------------- */

void srv_watch_add(srv_watch *watch, const srv_connection *connection) {
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = connection->serial};
    epoll_ctl(watch->epoll, EPOLL_CTL_ADD, connection->fd, &event);
}

void srv_watch_remove(srv_watch *watch, const srv_connection *connection) {
    epoll_ctl(watch->epoll, EPOLL_CTL_DEL, connection->fd, NULL);
}

/* A client that only closed its sending side looks the same as one that left, and is treated so. */
static void cancel_if_serial(srv_connection *connection, void *arg) {
    if (connection->serial == *(const uint64_t *)arg && connection->phase == SRV_WORK)
        srv_connection_cancel(connection, API_CANCEL_GONE);
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static bool is_past(int64_t now, int64_t since, double seconds) {
    return seconds > 0 && (double)(now - since) > seconds * 1e9; /* 0: no limit */
}

static void time_out(srv_connection *connection, const char *detail) {
    char byte;
    if (recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) return; /* the delay is ours */
    srv_connection_give_up(connection, "timeout", detail, SRV_NO_REASON);
    shutdown(connection->fd, SHUT_RD); /* libmicrohttpd sees the end and closes */
}

/* libmicrohttpd does not notice a client that closes its sending side in the middle of a request, or while a reply is
 * sent. Whatever such a client began will never be complete. */
static bool is_abandoned(const srv_connection *connection, int64_t now, int64_t since) {
    return now - since > SETTLED_MS * INT64_C(1000000) && srv_connection_has_ended(connection);
}

static void close_now(srv_connection *connection) { shutdown(connection->fd, SHUT_RDWR); }

static void check_idle(srv_connection *connection, const srv_settings *settings, int64_t now) {
    if (is_abandoned(connection, now, connection->since)) {
        close_now(connection);
        return;
    }
    if (!connection->head_since && srv_connection_has_input(connection)) connection->head_since = now;
    if (!connection->head_since) {
        if (is_past(now, connection->since, settings->idle_timeout)) close_now(connection);
    } else if (is_past(now, connection->head_since, settings->head_timeout)) {
        time_out(connection, "the head of the request did not arrive in time");
    }
}

typedef struct scan {
    const srv_settings *settings;
    int64_t now;
} scan;

static void check(srv_connection *connection, void *arg) {
    const int64_t now = ((const scan *)arg)->now;
    const srv_settings *settings = ((const scan *)arg)->settings;
    const srv_exchange *x = &connection->exchange;
    switch (connection->phase) {
    case SRV_IDLE: check_idle(connection, settings, now); break;
    case SRV_HEAD:
        if (is_abandoned(connection, now, x->begun))
            close_now(connection);
        else if (is_past(now, x->begun, settings->head_timeout))
            time_out(connection, "the head of the request did not arrive in time");
        break;
    case SRV_BODY:
        if (is_abandoned(connection, now, connection->since))
            close_now(connection);
        else if (is_past(now, connection->since, settings->body_timeout))
            time_out(connection, "the body of the request stopped arriving");
        else if (is_past(now, x->begun, settings->request_timeout))
            time_out(connection, "the body of the request did not arrive in time");
        break;
    case SRV_WORK:
        if (is_past(now, connection->since, settings->compute_timeout) ||
            (x->request && is_past(now, connection->since, api_timeout_of(x->request))))
            srv_connection_cancel(connection, API_CANCEL_TIMEOUT);
        break;
    case SRV_REPLY: /* libmicrohttpd has a time-out for it */
    case SRV_LOST: break;
    }
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void *run(void *arg) {
    srv_watch *watch = arg;
    struct epoll_event events[EVENTS];
    int64_t next_scan = 0;
    while (!atomic_load(&watch->stopping)) {
        scan one = {.settings = watch->settings, .now = srv_now()};
        if (one.now >= next_scan) {
            srv_connections_each(watch->list, check, &one);
            srv_lingers_expire(watch->list->lingers, one.now);
            next_scan = one.now + SCAN_MS * INT64_C(1000000);
        }
        const int n = epoll_wait(watch->epoll, events, EVENTS, (int)((next_scan - one.now) / 1000000) + 1);
        for (int i = 0; i < n; i++) {
            uint64_t mark = events[i].data.u64;
            if (mark == LINGER)
                srv_lingers_read(watch->list->lingers);
            else if (mark != STOP)
                srv_connections_each(watch->list, cancel_if_serial, &mark);
        }
    }
    return NULL;
}

static bool start(srv_watch *watch) {
    struct epoll_event stop = {.events = EPOLLIN, .data.u64 = STOP}, linger = {.events = EPOLLIN, .data.u64 = LINGER};
    if (watch->epoll < 0 || watch->wake < 0 || epoll_ctl(watch->epoll, EPOLL_CTL_ADD, watch->wake, &stop) != 0 ||
        epoll_ctl(watch->epoll, EPOLL_CTL_ADD, srv_lingers_fd(watch->list->lingers), &linger) != 0)
        return false;
    const int error = pthread_create(&watch->thread, NULL, run, watch);
    if (error) errno = error;
    return error == 0;
}

static void release(srv_watch *watch) {
    if (watch->epoll >= 0) close(watch->epoll);
    if (watch->wake >= 0) close(watch->wake);
    free(watch);
}

srv_watch *srv_watch_start(srv_connections *list, const srv_settings *settings) {
    srv_watch *watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    watch->list = list;
    watch->settings = settings;
    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (start(watch)) return watch;
    const int error = errno;
    release(watch);
    errno = error;
    return NULL;
}

void srv_watch_stop(srv_watch *watch) {
    if (!watch) return;
    atomic_store(&watch->stopping, true);
    eventfd_write(watch->wake, 1);
    pthread_join(watch->thread, NULL);
    release(watch);
}
