#include "drain.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "systemd.h"

enum {
    FRESH_MS = 300, /* a connection that was accepted so recently may still send its first request */
    POLL_MS = 5,
    LAST_MS = 2000, /* for the last replies after drain-timeout */
};

static void pause_ms(int64_t milliseconds) {
    struct timespec t = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

static int64_t after_ms(int64_t milliseconds) { return srv_now() + milliseconds * INT64_C(1000000); }

/* The kernel would reset connections that are left in its queue. So the library lets go of the socket, what has been
 * accepted by the kernel is handed to the library, and only then the socket refuses. */
static void stop_listening(srv_server *server) {
    MHD_quiesce_daemon(server->mhd);
    for (;;) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        const int fd = accept4(server->listener, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (fd < 0) break;
        MHD_add_connection(server->mhd, fd, (struct sockaddr *)&address, length);
    }
    shutdown(server->listener, SHUT_RDWR);
}

static void close_if_idle(srv_connection *connection, void *arg) {
    const int64_t now = *(const int64_t *)arg;
    const bool is_fresh = !connection->served && now - connection->since < FRESH_MS * INT64_C(1000000);
    if (connection->phase == SRV_IDLE && !is_fresh && !srv_connection_has_input(connection))
        shutdown(connection->fd, SHUT_RDWR);
}

static bool wait_until_closed(srv_server *server, int64_t until) {
    int64_t now = srv_now();
    while (srv_connections_each(&server->connections, close_if_idle, &now)) {
        if (now >= until) return false;
        pause_ms(POLL_MS);
        now = srv_now();
    }
    return true;
}

/* Cancels what computes and answers uploads; replies that are being sent are left to end. */
static void give_up(srv_connection *connection, void *arg) {
    *(size_t *)arg += connection->phase != SRV_LOST;
    if (connection->phase == SRV_WORK) {
        srv_connection_cancel(connection, API_CANCEL_SHUTDOWN);
    } else if (connection->phase == SRV_IDLE || connection->phase == SRV_HEAD || connection->phase == SRV_BODY) {
        srv_connection_give_up(connection, "shutting_down", "the service is stopping; send the request again elsewhere",
                               SRV_REASON_DRAINING);
        shutdown(connection->fd, SHUT_RD);
    }
}

/* libmicrohttpd must not be stopped while a connection is suspended: all compute tasks have to end first. */
static void wait_for_workers(srv_server *server) {
    for (const int64_t until = after_ms(LAST_MS); srv_queue_unfinished(server->queue);) {
        if (srv_now() >= until) {
            srv_log(SRV_ERROR, "a compute thread did not stop in time");
            srv_log_stop();
            _exit(0);
        }
        pause_ms(POLL_MS);
    }
}

void srv_drain(srv_server *server, int signal) {
    const srv_settings *settings = server->settings;
    atomic_store(&server->readiness, API_DRAINING);
    atomic_store(&server->closing, true);
    srv_systemd_notify("STOPPING=1");
    srv_log(SRV_INFO, "SIG%s: draining, %llu requests in flight", sigabbrev_np(signal),
            (unsigned long long)atomic_load(&server->connections.in_flight));
    pause_ms((int64_t)(settings->drain_delay * 1e3));
    stop_listening(server);
    size_t given_up = 0;
    if (!wait_until_closed(server, after_ms((int64_t)(settings->drain_timeout * 1e3)))) {
        srv_connections_each(&server->connections, give_up, &given_up);
        wait_until_closed(server, after_ms(LAST_MS));
    }
    wait_for_workers(server);
    if (given_up) srv_log(SRV_WARN, "drain-timeout: gave up %zu connections", given_up);
    MHD_stop_daemon(server->mhd);
    close(server->listener);
    srv_log(SRV_INFO, "attentiond has stopped");
}
