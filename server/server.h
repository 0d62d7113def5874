/* server.h: the daemon around api/: settings, sockets, queue, metrics, log, life and death (the room's only header).
 *
 *     main.c       which command                  connection.c  one connection, its exchange, its phases
 *     config.c     the one table of settings      watch.c       the clock and the client gone, outside libmicrohttpd
 *     cgroup.c     what the container grants      queue.c       bounded, two lanes, predicted wait
 *     listen.c     the listening socket           metrics.c     counters; metrics_text.c: their exposition
 *     http.c       libmicrohttpd's callbacks      log.c         lines; request_log.c: one line a request
 *     head.c       framing, ids                   lifecycle.c   start, drain, stop
 *
 * Times are nanoseconds of CLOCK_MONOTONIC as int64_t, or seconds as double, as the names say.
 */
#ifndef ATTENTIOND_SERVER_H
#define ATTENTIOND_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../api/api.h"

int64_t srv_now(void); /* CLOCK_MONOTONIC, nanoseconds */

/* ---- settings (config.c) ----------------------------------------------------------------------------------------- */

typedef enum srv_level { SRV_ERROR, SRV_WARN, SRV_INFO, SRV_DEBUG } srv_level;
typedef enum srv_log_format { SRV_LOG_AUTO, SRV_LOG_TEXT, SRV_LOG_JSON } srv_log_format;

typedef struct srv_config {
    const char *host;   /* without brackets */
    const char *kernel; /* NULL: the best */
    uint64_t port;
    uint64_t threads, io_threads; /* 0: not set, until srv_config_resolve */
    uint64_t max_body, max_memory, max_connections, queue;
    double compute_timeout, request_timeout, idle_timeout, head_timeout, body_timeout; /* seconds */
    double drain_delay, drain_timeout;
    int log_level, log_format;
} srv_config;

typedef enum srv_action { SRV_RUN, SRV_HELP, SRV_VERSION, SRV_BAD } srv_action;

typedef struct srv_command { /* what stands on the command line beside settings */
    const char *words[2];    /* "call" "attention", "health", or NULL */
    const char *help_form;   /* of --help=FORM: "text", "man", "markdown" */
    char message[384];       /* of SRV_BAD: one line */
} srv_command;

/* Reads flags over environment over defaults. Strings point into argv and the environment. */
srv_action srv_config_read(srv_config *config, srv_command *command, int argc, char **argv);
/* Fills in what depends on the machine: threads, io_threads, max_memory. */
void srv_config_resolve(srv_config *config);
/* Prints the table of settings as --help does, as a section of the man page ("man"), or as a table ("markdown"). */
void srv_config_print(FILE *file, const char *form);

/* Values (values.c): each returns false for what it does not read. */
bool srv_read_count(const char *text, uint64_t *value); /* decimal digits */
bool srv_read_size(const char *text, uint64_t *bytes);  /* "256MiB", "64K", "1.5GiB", "4096" */
bool srv_read_time(const char *text, double *seconds);  /* "50s", "500ms", "2m", "1h", "50" */
/* Levenshtein's distance, for naming the nearest flag. Strings past 63 bytes are cut. */
size_t srv_distance(const char *a, const char *b);

/* ---- what the container grants (cgroup.c) ------------------------------------------------------------------------ */

size_t srv_cpus(void);          /* least of affinity and cgroup quota, rounded up; at least 1 */
uint64_t srv_memory(void);      /* least of the cgroup limit and of memory available, bytes */
double srv_cpu_throttled(void); /* seconds; 0 where the kernel does not tell */

/* ---- log (log.c, request_log.c) ---------------------------------------------------------------------------------- */

typedef struct srv_record { /* one request, for the log and the metrics; strings live during the call only */
    const char *method, *route, *client, *request_id, *trace_id;
    int status;
    uint64_t bytes_in, bytes_out;
    double seconds;         /* first byte of the head to last byte of the reply */
    const char *rejected;   /* reason, where it was refused before work; else NULL */
    const api_trace *trace; /* NULL: no request object */
    const char *code;       /* of the error, or NULL */
    const char *cancelled;  /* stage at which the client went or time was up; else NULL */
} srv_record;

bool srv_log_start(srv_level level, srv_log_format format); /* false: no thread, no memory */
void srv_log_stop(void);                                    /* writes what is held, waiting at most half a second */
uint64_t srv_log_dropped(void);
bool srv_log_enabled(srv_level level);

typedef struct srv_line { /* a line under way; too long is cut between fields */
    char text[3072];
    size_t length, mark;
    bool json, full;
} srv_line;
void srv_line_begin(srv_line *line, srv_level level, const char *message);
void srv_line_string(srv_line *line, const char *name, const char *value); /* NULL: left out */
void srv_line_count(srv_line *line, const char *name, uint64_t value);
void srv_line_milliseconds(srv_line *line, const char *name, double seconds); /* with three decimals */
void srv_line_end(srv_line *line); /* hands it over; never blocks, drops and counts where the reader is slow */
/* a line of a message alone */
__attribute__((format(printf, 2, 3))) void srv_log(srv_level level, const char *format, ...);
void srv_log_request(const srv_record *record, const char *kernel);

/* ---- queue (queue.c) --------------------------------------------------------------------------------------------- */

enum { SRV_LANE_SHORT, SRV_LANE_LONG, SRV_LANES };
extern const char *const srv_lane_names[SRV_LANES];

typedef struct srv_ticket { /* a waiting request; owned by the caller until run has been called */
    struct srv_ticket *next;
    double work; /* estimated nanoseconds of one thread */
    int lane;
    int64_t queued;                                        /* when */
    struct srv_turn *turn;                                 /* the queue's */
    void (*run)(struct srv_ticket *ticket, double waited); /* seconds; the ticket may be gone when it returns */
} srv_ticket;

typedef struct srv_queue srv_queue;
typedef enum srv_admission { SRV_ADMITTED, SRV_QUEUE_FULL, SRV_QUEUE_WAIT } srv_admission;

srv_queue *srv_queue_new(attn_pool *pool, size_t workers, size_t limit, double longest_wait);
void srv_queue_free(srv_queue *queue); /* after the pool has been freed; NULL is allowed */
/* Keeps a place for a ticket (work and run filled in), to be submitted soon; or refuses it. *retry_after is 1 to 30
 * seconds, from the wait predicted by the work ahead and the measured rate of draining. */
srv_admission srv_queue_admit(srv_queue *queue, srv_ticket *ticket, unsigned *retry_after);
/* Hands an admitted ticket to the pool; it may have run when this returns. */
void srv_queue_submit(srv_queue *queue, srv_ticket *ticket);
size_t srv_queue_depth(srv_queue *queue, int lane); /* waiting, not running */
size_t srv_queue_held(srv_queue *queue);            /* waiting and running */
size_t srv_queue_limit(const srv_queue *queue);
double srv_queue_busy_seconds(srv_queue *queue);

/* ---- metrics (metrics.c, metrics_text.c) ------------------------------------------------------------------------- */

typedef struct srv_metrics srv_metrics;

typedef struct srv_gauges { /* read at the time of the scrape */
    uint64_t queue_depth[SRV_LANES], queue_limit, memory_used, memory_limit;
    uint64_t connections_idle, connections_active, connections_accepted, workers, log_dropped;
    double busy_seconds, throttled_seconds;
    bool ready;
    const char *kernel, *blas, *mhd;
} srv_gauges;

srv_metrics *srv_metrics_new(void); /* NULL: out of memory */
void srv_metrics_free(srv_metrics *metrics);
void srv_metrics_begin(srv_metrics *metrics); /* a request is in flight ... */
void srv_metrics_end(srv_metrics *metrics);   /* ... no longer */
uint64_t srv_metrics_in_flight(const srv_metrics *metrics);
void srv_metrics_record(srv_metrics *metrics, const srv_record *record);
/* Prometheus text, malloc'd. NULL: out of memory. */
char *srv_metrics_text(const srv_metrics *metrics, const srv_gauges *gauges, size_t *length);

/* ---- the server (lifecycle.c, http.c, connection.c, watch.c) ----------------------------------------------------- */

int srv_listen(const srv_config *config, char url[128], char message[256]); /* the socket; -1: message, -2: bad host */

int srv_run(const srv_config *config);                        /* the daemon; exit status */
int srv_call(const srv_config *config, const char *endpoint); /* stdin to stdout; exit status */
int srv_health(const srv_config *config);                     /* asks /readyz; exit status */
/* Starts engine and budget of a service. false: a line on stderr was written. */
bool srv_service_init(api_service *service, const srv_config *config, bool with_pool);
void srv_service_deinit(api_service *service);
const char *srv_mhd_version(void);

#endif
