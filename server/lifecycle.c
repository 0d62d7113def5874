/* lifecycle.c: starting, waiting for a signal, draining, stopping. */
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    FRESH_MS = 300, /* a connection accepted this short ago may still send its first request */
    POLL_MS = 5,
    LAST_MS = 2000, /* for replies to get out after drain-timeout */
};

/* ---- signals ----------------------------------------------------------------------------------------------------- */

/* Handlers and a pipe, not a mask: OpenBLAS starts threads before main that would not inherit one. */
static int signal_pipe[2];
static atomic_int signals_seen;

static void on_signal(int number) {
    int error = errno;
    if (atomic_fetch_add(&signals_seen, 1) > 0) _exit(128 + number);
    char byte = (char)number;
    ssize_t written = write(signal_pipe[1], &byte, 1);
    (void)written;
    errno = error;
}

static bool catch_signals(void) {
    if (pipe2(signal_pipe, O_CLOEXEC) != 0) return false;
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: under TSan a handler waits for read to end */
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (!isatty(STDERR_FILENO)) action.sa_handler = SIG_IGN; /* nothing to reload; a terminal that goes ends us */
    sigaction(SIGHUP, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    return true;
}

static int wait_for_signal(void) {
    char number;
    ssize_t n;
    do n = read(signal_pipe[0], &number, 1);
    while (n < 0 && errno == EINTR);
    return n == 1 ? number : SIGTERM;
}

/* ---- the outside ------------------------------------------------------------------------------------------------- */

/* sd_notify(3) without its library. */
static void notify_systemd(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path) return;
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@') address.sun_path[0] = 0; /* abstract */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
    close(fd);
}

static void raise_file_limit(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static void pause_ms(int64_t milliseconds) {
    struct timespec t = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

static int readiness(void *context) { return atomic_load(&((srv_server *)context)->readiness); }

static char *metrics(void *context, size_t *length) {
    srv_server *server = context;
    srv_gauges gauges = {
        .queue_limit = srv_queue_limit(server->queue),
        .memory_used = atomic_load(&server->service.budget.used),
        .memory_limit = server->service.budget.limit,
        .connections_accepted = atomic_load(&server->accepted),
        .workers = server->config->threads,
        .log_dropped = srv_log_dropped(),
        .busy_seconds = srv_queue_busy_seconds(server->queue),
        .throttled_seconds = srv_cpu_throttled(),
        .ready = atomic_load(&server->readiness) == API_READY,
        .kernel = attn_kernel_name(server->service.engine.kernel),
        .blas = attn_blas_version(),
        .mhd = srv_mhd_version(),
    };
    for (int lane = 0; lane < SRV_LANES; lane++) gauges.queue_depth[lane] = srv_queue_depth(server->queue, lane);
    srv_connections_count(server, &gauges.connections_idle, &gauges.connections_active);
    return srv_metrics_text(server->metrics, &gauges, length);
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

static void log_start(const srv_server *server, const char *url) {
    const srv_config *config = server->config;
    srv_line line;
    if (!srv_log_enabled(SRV_INFO)) return;
    srv_line_begin(&line, SRV_INFO, "attentiond starts");
    srv_line_string(&line, "url", url);
    srv_line_string(&line, "version", api_version);
    srv_line_string(&line, "revision", ATTENTIOND_REVISION);
    srv_line_string(&line, "kernel", attn_kernel_name(server->service.engine.kernel));
    srv_line_count(&line, "threads", config->threads);
    srv_line_count(&line, "blas_threads", 1);
    srv_line_count(&line, "io_threads", config->io_threads);
    srv_line_count(&line, "max_body", config->max_body);
    srv_line_count(&line, "max_memory", config->max_memory);
    srv_line_count(&line, "max_connections", config->max_connections);
    srv_line_count(&line, "queue", config->queue);
    srv_line_string(&line, "libmicrohttpd", srv_mhd_version());
    srv_line_string(&line, "jansson", api_jansson_version);
    srv_line_string(&line, "blas", attn_blas_version());
    srv_line_end(&line);
}

/* Everything but the sockets. false: a line on stderr was written. */
static bool prepare(srv_server *server) {
    const srv_config *config = server->config;
    if (!srv_log_start((srv_level)config->log_level, (srv_log_format)config->log_format) ||
        !srv_service_init(&server->service, config, true))
        return false;
    static api_library libraries[2]; /* what api/ does not know of itself; name NULL ends it */
    libraries[0] = (api_library){"libmicrohttpd", srv_mhd_version()};
    server->service.host = (api_host){server, readiness, metrics, libraries};
    double longest_wait = config->compute_timeout > 0 ? config->compute_timeout : 1e9;
    server->queue = srv_queue_new(server->service.engine.pool, config->threads, config->queue, longest_wait);
    server->metrics = srv_metrics_new();
    server->watch = srv_watch_start(server);
    if (server->queue && server->metrics && server->watch && catch_signals()) return true;
    fprintf(stderr, "attentiond: cannot start: %s\n", strerror(errno));
    return false;
}

static void release(srv_server *server) {
    srv_service_deinit(&server->service);
    srv_queue_free(server->queue);
    if (server->watch) srv_watch_stop(server->watch);
    srv_metrics_free(server->metrics);
    srv_log_stop();
}

/* ---- draining ---------------------------------------------------------------------------------------------------- */

/* No connection may be left in the kernel's queue to be reset: the library lets go of the socket, what has come is
 * handed over, and then the socket refuses. */
static void stop_listening(srv_server *server) {
    MHD_quiesce_daemon(server->mhd);
    for (;;) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        int fd = accept4(server->listener, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (fd < 0) break;
        MHD_add_connection(server->mhd, fd, (struct sockaddr *)&address, length);
    }
    shutdown(server->listener, SHUT_RDWR);
}

/* Closes what is idle; counts what is left. */
static size_t close_idle(srv_server *server) {
    size_t left = 0;
    int64_t now = srv_now();
    pthread_mutex_lock(&server->lock);
    for (srv_connection *c = server->connections; c; c = c->next) {
        pthread_mutex_lock(&c->lock);
        bool fresh = !c->served && now - c->since < FRESH_MS * INT64_C(1000000);
        if (c->phase == SRV_IDLE && !fresh && !srv_connection_is_busy(c)) shutdown(c->fd, SHUT_RDWR);
        left++;
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&server->lock);
    return left;
}

/* At the end of patience: computing is cancelled, uploads are answered, the rest is cut. Returns their number. */
static size_t give_up_all(srv_server *server) {
    size_t count = 0;
    pthread_mutex_lock(&server->lock);
    for (srv_connection *c = server->connections; c; c = c->next) {
        pthread_mutex_lock(&c->lock);
        count += c->phase != SRV_LOST;
        if (c->phase == SRV_WORK) {
            srv_connection_cancel(c, API_CANCEL_SHUTDOWN);
        } else if (c->phase == SRV_IDLE || c->phase == SRV_HEAD || c->phase == SRV_BODY) {
            srv_connection_give_up(c, "shutting_down", "the service is stopping; send the request again elsewhere");
            shutdown(c->fd, SHUT_RD);
        }
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&server->lock);
    return count;
}

static bool wait_until_closed(srv_server *server, int64_t until) {
    while (close_idle(server)) {
        if (srv_now() >= until) return false;
        pause_ms(POLL_MS);
    }
    return true;
}

static void drain(srv_server *server, int number) {
    const srv_config *config = server->config;
    atomic_store(&server->readiness, API_DRAINING);
    atomic_store(&server->closing, true);
    notify_systemd("STOPPING=1");
    srv_log(SRV_INFO, "SIG%s: draining, %llu requests in flight", sigabbrev_np(number),
            (unsigned long long)srv_metrics_in_flight(server->metrics));
    pause_ms((int64_t)(config->drain_delay * 1e3));
    stop_listening(server);
    size_t given_up = 0;
    if (!wait_until_closed(server, srv_now() + (int64_t)(config->drain_timeout * 1e9))) {
        given_up = give_up_all(server);
        wait_until_closed(server, srv_now() + LAST_MS * INT64_C(1000000));
    }
    /* No connection may be suspended when the library stops (its rule): all compute tasks have to end first. */
    for (int64_t until = srv_now() + LAST_MS * INT64_C(1000000); srv_queue_held(server->queue);) {
        if (srv_now() >= until) {
            srv_log(SRV_ERROR, "a compute thread did not stop in time");
            srv_log_stop();
            _exit(0);
        }
        pause_ms(POLL_MS);
    }
    if (given_up) srv_log(SRV_WARN, "drain-timeout: %zu connections were cut short", given_up);
    MHD_stop_daemon(server->mhd);
    close(server->listener);
    srv_log(SRV_INFO, "attentiond ends");
}

int srv_run(const srv_config *config) {
    static srv_server server = {.lock = PTHREAD_MUTEX_INITIALIZER, .readiness = API_STARTING};
    char url[128], message[256];
    server.config = config;
    server.listener = srv_listen(config, url, message);
    if (server.listener < 0) {
        fprintf(stderr, "attentiond: %s\n", message);
        return server.listener == -2 ? 2 : 1;
    }
    raise_file_limit();
    if (!prepare(&server)) return 1;
    log_start(&server, url);
    server.mhd = srv_http_start(&server);
    if (!server.mhd) {
        fprintf(stderr, "attentiond: cannot start the HTTP server: %s\n", strerror(errno));
        release(&server);
        return 1;
    }
    atomic_store(&server.readiness, API_READY);
    if (printf("listening on %s\n", url) < 0 || fflush(stdout) != 0)
        srv_log(SRV_ERROR, "the line that says where it listens could not be written: %s", strerror(errno));
    notify_systemd("READY=1");
    drain(&server, wait_for_signal());
    release(&server);
    return 0;
}
