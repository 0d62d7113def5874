/* metrics_table.c: the metrics. A new one is a row of srv_metric_table, and a function for its value. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "container.h"
#include "log.h"
#include "process.h"
#include "server.h"

/* ---- labels ------------------------------------------------------------------------------------------------------ */

static const char *at(const char *const *list, size_t count, size_t index) {
    return index < count ? list[index] : NULL;
}
#define AT(list, index) at(list, sizeof(list) / sizeof *(list), index)

/* The methods that a route may have. */
static const char *method_value(size_t index) {
    static const char *const methods[] = {"GET", "POST", "HEAD", "OPTIONS", "_OTHER"};
    return AT(methods, index);
}
/* A scanner tries every method on every route: those that a route does not have are one. */
static const char *method_of(const srv_record *record) {
    return record->status == 405 || record->status == 501 ? "_OTHER" : record->method;
}
static const srv_label method = {"http_request_method", method_value, method_of, "_OTHER"};

static const char *route_value(size_t index) {
    bool computes;
    return api_route_label(index, &computes);
}
static const char *route_of(const srv_record *record) { return record->route; }
static const srv_label http_route = {"http_route", route_value, route_of, "unmatched"};

static const struct {
    int status;
    const char *text;
} statuses[] = {
#define ROW(status) \
    { status, #status }
    ROW(200), ROW(204), ROW(400), ROW(401), ROW(404), ROW(405), ROW(406), ROW(408), ROW(413), ROW(414),
    ROW(415), ROW(422), ROW(429), ROW(431), ROW(499), ROW(500), ROW(501), ROW(503), ROW(504), ROW(505),
#undef ROW
};
enum { STATUSES = sizeof statuses / sizeof *statuses };
static const char *status_value(size_t index) { return index < STATUSES ? statuses[index].text : NULL; }
static const char *status_of(const srv_record *record) {
    for (size_t i = 0; i < STATUSES; i++)
        if (statuses[i].status == record->status) return statuses[i].text;
    return "other";
}
static const srv_label status = {"http_response_status_code", status_value, status_of, "500"};

/* The routes that compute, and the requests that came as far as to have times. */
static const char *compute_route_value(size_t index) {
    const char *name;
    bool computes;
    for (size_t i = 0; (name = api_route_label(i, &computes)); i++)
        if (computes && index-- == 0) return name;
    return NULL;
}
static bool computes(const srv_record *record) { return record->trace && record->trace->computes; }
static const char *compute_route_of(const srv_record *record) { return computes(record) ? record->route : NULL; }
static const srv_label route = {"route", compute_route_value, compute_route_of, NULL};

static const char *stage_value(size_t index) {
    static const char *const stages[] = {"decode", "queue", "compute", "encode"};
    return AT(stages, index);
}
static const srv_label stage = {"stage", stage_value, NULL, NULL};

static const char *format_of(const srv_record *record) { return computes(record) ? record->trace->format : NULL; }
static const srv_label format = {"format", api_format_label, format_of, NULL};

static const char *reason_value(size_t index) { return AT(srv_reason_names, index + 1); }
static const char *reason_of(const srv_record *record) { return srv_reason_names[record->rejected]; }
static const srv_label reason = {"reason", reason_value, reason_of, NULL};

static const char *code_of(const srv_record *record) { return record->rejected ? NULL : record->code; }
static const srv_label code = {"code", api_code_label, code_of, "internal"};

static const char *cancelled_value(size_t index) { return AT(srv_cancelled_names, index + 1); }
static const char *cancelled_of(const srv_record *record) { return srv_cancelled_names[record->cancelled]; }
static const srv_label cancelled = {"stage", cancelled_value, cancelled_of, NULL};

static const char *lane_value(size_t index) { return AT(srv_lane_names, index); }
static const srv_label lane = {"lane", lane_value, NULL, NULL};

static const char *state_value(size_t index) {
    static const char *const states[] = {"idle", "active"};
    return AT(states, index);
}
static const srv_label state = {"state", state_value, NULL, NULL};

/* ---- buckets ----------------------------------------------------------------------------------------------------- */

#define BUCKETS(unit, ...) \
    { sizeof((const double[]){__VA_ARGS__}) / sizeof(double), (const double[]){__VA_ARGS__}, unit }
#define NANOSECONDS 1e9

/* OpenTelemetry's bounds for http.server.request.duration, with five below and two above. */
static const srv_buckets request_seconds =
    BUCKETS(NANOSECONDS, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75,
            1, 2.5, 5, 7.5, 10, 30, 60);
static const srv_buckets stage_seconds =
    BUCKETS(NANOSECONDS, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1, 3, 10, 30, 60);
static const srv_buckets bytes = BUCKETS(1, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22,
                                         1 << 24, 1 << 26, 1 << 28, 1 << 30);
static const srv_buckets keys = BUCKETS(1, 1, 4, 16, 64, 256, 1024, 4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20);

/* ---- what a request counts --------------------------------------------------------------------------------------- */

static double one(const srv_record *record) {
    (void)record;
    return 1;
}
static double seconds(const srv_record *record) { return record->seconds; }
static double bytes_in(const srv_record *record) { return (double)record->bytes_in; }
static double bytes_out(const srv_record *record) { return (double)record->bytes_out; }
static double n_keys(const srv_record *record) { return record->trace->has_problem ? (double)record->trace->n_k : NAN; }
static double flops(const srv_record *record) { return record->trace->flops; }
static double seconds_of_stage(const srv_record *record, size_t index) {
    const api_times *times = &record->trace->times;
    return (const double[]){times->decode, times->queue, times->compute, times->encode}[index];
}

/* ---- what a scrape reads ----------------------------------------------------------------------------------------- */

static double in_flight(srv_server *s) { return (double)atomic_load(&s->connections.in_flight); }
static double queue_depth(srv_server *s, size_t index) { return (double)srv_queue_depth(s->queue, (int)index); }
static double queue_limit(srv_server *s, size_t index) {
    (void)index; /* one limit for both lanes */
    return (double)srv_queue_limit(s->queue);
}
static double memory_used(srv_server *s) { return (double)atomic_load(&s->service.budget.used); }
static double memory_limit(srv_server *s) { return (double)s->service.budget.limit; }
static double connections_open(srv_server *s, size_t index) {
    return (double)srv_connections_count(&s->connections, index == 1);
}
static double connections_accepted(srv_server *s) { return (double)atomic_load(&s->connections.accepted); }
static double workers(srv_server *s) { return (double)s->settings->threads; }
static double busy_seconds(srv_server *s) { return srv_queue_busy_seconds(s->queue); }
static double ready(srv_server *s) { return atomic_load(&s->readiness) == API_READY; }

static double log_dropped(void) { return (double)srv_log_dropped(); }

static void build_info(srv_server *s, char *labels, size_t size) {
    snprintf(labels, size, "version=\"%s\",revision=\"%s\",kernel=\"%.60s\",blas=\"%.120s\",mhd=\"%.60s\"", api_version,
             api_revision, attn_kernel_name(s->service.engine.kernel), attn_blas_version(), MHD_get_version());
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

const srv_metric srv_metric_table[] = {
    {"http_server_request_duration_seconds",
     "Time from the first byte of a request to the last byte of its reply.",
     SRV_HISTOGRAM,
     {&method, &http_route, &status},
     &request_seconds,
     .from_first = true,
     .count = seconds},
    {"attentiond_stage_duration_seconds",
     "Time of each stage, as in Server-Timing.",
     SRV_HISTOGRAM,
     {&route, &stage},
     &stage_seconds,
     .count_each = seconds_of_stage},
    {"attentiond_request_bytes",
     "Size of request bodies.",
     SRV_HISTOGRAM,
     {&format},
     &bytes,
     .from_first = true,
     .count = bytes_in},
    {"attentiond_response_bytes",
     "Size of response bodies.",
     SRV_HISTOGRAM,
     {&format},
     &bytes,
     .from_first = true,
     .count = bytes_out},
    {"attentiond_keys",
     "Keys of a request, the past included.",
     SRV_HISTOGRAM,
     {&route},
     &keys,
     .from_first = true,
     .count = n_keys},
    {"attentiond_flops_total", "Floating-point operations of open tiles.", SRV_COUNTER, {&route}, .count = flops},
    {"attentiond_rejected_total", "Requests refused before any work.", SRV_COUNTER, {&reason}, .count = one},
    {"attentiond_errors_total", "Other error replies.", SRV_COUNTER, {&code}, .count = one},
    {"attentiond_cancelled_total",
     "Requests whose client left or whose time was up, by what they were doing.",
     SRV_COUNTER,
     {&cancelled},
     .count = one},

    {"attentiond_requests_in_flight", "Requests that have begun and not ended.", SRV_GAUGE, .read = in_flight},
    {"attentiond_queue_depth",
     "Requests that wait for a compute thread.",
     SRV_GAUGE,
     {&lane},
     .read_each = queue_depth},
    {"attentiond_queue_limit",
     "Requests that may wait, both lanes together.",
     SRV_GAUGE,
     {&lane},
     .read_each = queue_limit},
    {"attentiond_memory_in_flight_bytes", "Memory that requests in flight use.", SRV_GAUGE, .read = memory_used},
    {"attentiond_memory_limit_bytes", "Memory that requests in flight may use.", SRV_GAUGE, .read = memory_limit},
    {"attentiond_connections_open", "Open connections.", SRV_GAUGE, {&state}, .read_each = connections_open},
    {"attentiond_connections_accepted_total", "Connections accepted.", SRV_COUNTER, .read = connections_accepted},
    {"attentiond_workers", "Compute threads.", SRV_GAUGE, .read = workers},
    {"attentiond_worker_busy_seconds_total", "Time that compute threads spent on queued requests.", SRV_COUNTER,
     .read = busy_seconds},
    {"attentiond_cpu_throttled_seconds_total", "Time that the cgroup's CPU quota held the process back.", SRV_COUNTER,
     .figure = srv_cpu_throttled},
    {"attentiond_log_dropped_total", "Log lines dropped because standard error was full or closed.", SRV_COUNTER,
     .figure = log_dropped},
    {"attentiond_ready", "1 if new work is accepted.", SRV_GAUGE, .read = ready},
    {"attentiond_build_info", "Version of the program and its libraries; always 1.", SRV_GAUGE, .info = build_info},

    {"process_cpu_seconds_total", "CPU time used.", SRV_COUNTER, .figure = srv_process_cpu_seconds},
    {"process_threads", "Threads.", SRV_GAUGE, .figure = srv_process_threads},
    {"process_start_time_seconds", "Start of the process, seconds since 1970.", SRV_GAUGE,
     .figure = srv_process_start_time},
    {"process_virtual_memory_bytes", "Virtual memory.", SRV_GAUGE, .figure = srv_process_virtual_memory},
    {"process_resident_memory_bytes", "Resident memory.", SRV_GAUGE, .figure = srv_process_resident_memory},
    {"process_open_fds", "Open file descriptors.", SRV_GAUGE, .figure = srv_process_open_files},
    {"process_max_fds", "Largest number of open file descriptors.", SRV_GAUGE, .figure = srv_process_most_files},
    {0},
};
