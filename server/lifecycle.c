/* lifecycle.c: starts the daemon, waits for a signal, and stops it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "address.h"
#include "commands.h"
#include "drain.h"
#include "http.h"
#include "listen.h"
#include "log.h"
#include "service.h"
#include "signals.h"
#include "systemd.h"

static void raise_file_limit(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

/* ---- what the service asks its host ------------------------------------------------------------------------------ */

static int readiness(void *context) { return atomic_load(&((srv_server *)context)->readiness); }

static char *metrics(void *context, size_t *length) {
    srv_server *server = context;
    return srv_metrics_text(server->connections.metrics, server, length);
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static bool cannot_start(const char *what) {
    fprintf(stderr, "attentiond: cannot start %s: %s\n", what, strerror(errno ? errno : EAGAIN));
    return false;
}

/* Makes everything but the sockets. false: a line on stderr was written. */
static bool prepare(srv_server *server) {
    const srv_settings *settings = server->settings;
    static api_library libraries[2]; /* those that api/ does not know; a name of NULL ends the list */
    if (!srv_log_start((srv_level)settings->log_level, (srv_log_format)settings->log_format))
        return cannot_start("the log");
    if (!srv_service_init(&server->service, settings)) return false;
    libraries[0] = (api_library){"libmicrohttpd", MHD_get_version()};
    server->service.host = (api_host){server, readiness, metrics, libraries};
    const double longest_wait = settings->compute_timeout > 0 ? settings->compute_timeout : 1e9;
    server->queue = srv_queue_new(server->service.engine.pool, settings->threads, settings->queue, longest_wait);
    if (!server->queue) return cannot_start("the queue");
    server->connections.kernel = attn_kernel_name(server->service.engine.kernel);
    server->connections.metrics = srv_metrics_new(srv_metric_table);
    if (!server->connections.metrics) return cannot_start("the metrics");
    server->connections.lingers = srv_lingers_new();
    if (!server->connections.lingers) return cannot_start("the watch");
    server->watch = srv_watch_start(&server->connections, settings);
    if (!server->watch) return cannot_start("the watch");
    return srv_signals_catch() || cannot_start("the signal handlers");
}

static void release(srv_server *server) {
    srv_service_deinit(&server->service); /* compute threads first: they use all the rest */
    srv_queue_free(server->queue);
    srv_watch_stop(server->watch);
    srv_lingers_free(server->connections.lingers);
    srv_metrics_free(server->connections.metrics);
    srv_log_stop();
}

static void log_start(const srv_server *server, const char *url) {
    const srv_settings *settings = server->settings;
    srv_line line;
    if (!srv_log_enabled(SRV_INFO)) return;
    srv_line_begin(&line, SRV_INFO, "attentiond starts");
    srv_line_string(&line, "url", url);
    srv_line_string(&line, "version", api_version);
    srv_line_string(&line, "revision", api_revision);
    srv_line_string(&line, "kernel", server->connections.kernel);
    srv_line_count(&line, "threads", settings->threads);
    srv_line_count(&line, "blas_threads", 1);
    srv_line_count(&line, "io_threads", settings->io_threads);
    srv_line_count(&line, "max_body", settings->max_body);
    srv_line_count(&line, "max_memory", settings->max_memory);
    srv_line_count(&line, "max_connections", settings->max_connections);
    srv_line_count(&line, "queue", settings->queue);
    srv_line_string(&line, "libmicrohttpd", MHD_get_version());
    srv_line_string(&line, "jansson", api_jansson_version);
    srv_line_string(&line, "blas", attn_blas_version());
    srv_line_end(&line);
}

/* The value of an unknown variable may be a secret, so it is not logged. */
static void warn_of_variable(const char *name, const char *nearest, void *arg) {
    (void)arg;
    srv_log(SRV_WARN, "unknown environment variable %s%s%s", name, nearest ? "; did you mean " : "",
            nearest ? nearest : "");
}

/* Listens and serves. The server is ready before the socket listens, so that the first request finds it so. */
static bool open_door(srv_server *server) {
    char message[SRV_MESSAGE_SIZE];
    atomic_store(&server->readiness, API_READY);
    if (!srv_listen(server->listener, server->settings, message)) {
        fprintf(stderr, "attentiond: %s\n", message);
        return false;
    }
    errno = 0;
    server->mhd = srv_http_start(server);
    return server->mhd || cannot_start("the HTTP server");
}

static int publish(const srv_server *server) {
    srv_address address;
    const int fd = srv_address_of(server->listener, &address) ? srv_address_publish(&address) : -1;
    if (fd < 0) srv_log(SRV_WARN, "the address cannot be published for `attentiond health`: %s", strerror(errno));
    return fd;
}

int srv_run(const srv_settings *settings) {
    static srv_server server = {.connections = {.lock = PTHREAD_MUTEX_INITIALIZER}, .readiness = API_STARTING};
    char url[SRV_URL_SIZE], message[SRV_MESSAGE_SIZE];
    server.settings = settings;
    server.listener = srv_bind(settings, message);
    if (server.listener < 0) {
        fprintf(stderr, "attentiond: %s\n", message);
        return server.listener == -2 ? 2 : 1;
    }
    srv_url(server.listener, settings, url);
    raise_file_limit();
    if (!prepare(&server)) {
        release(&server);
        return 1;
    }
    log_start(&server, url);
    srv_settings_unknown(warn_of_variable, NULL);
    if (!open_door(&server)) {
        release(&server);
        return 1;
    }
    const int published = publish(&server);
    if (printf("listening on %s\n", url) < 0 || fflush(stdout) != 0)
        srv_log(SRV_ERROR, "cannot write \"listening on %s\" to standard output: %s", url, strerror(errno));
    srv_systemd_notify("READY=1");
    srv_drain(&server, srv_signals_wait());
    if (published >= 0) close(published);
    release(&server);
    return 0;
}
