/* metrics_text.c: the counters as Prometheus text, version 0.0.4. */
#include "metrics.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct text {
    char *bytes;
    size_t length, room;
    bool failed;
} text;

__attribute__((format(printf, 2, 3))) static void say(text *out, const char *format, ...) {
    if (out->failed) return;
    if (out->room - out->length < 1024) {
        size_t room = out->room ? 2 * out->room : 1 << 16;
        char *bytes = realloc(out->bytes, room);
        if (!bytes) {
            out->failed = true;
            return;
        }
        out->bytes = bytes;
        out->room = room;
    }
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->bytes + out->length, out->room - out->length, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < out->room - out->length)
        out->length += (size_t)n;
    else
        out->failed = true; /* no line of ours is near 1 KiB */
}

static void family(text *out, const char *name, const char *type, const char *help) {
    say(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static uint64_t get(const atomic_uint_least64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* labels: `a="b"` or "", never with a closing comma. unit: what one of the sum is worth. */
static void histogram_lines(text *out, const char *name, const char *labels, const histogram *h, const double *bounds,
                            size_t count, double unit) {
    uint64_t total = 0;
    const char *comma = *labels ? "," : "";
    for (size_t i = 0; i < count; i++) {
        total += get(&h->counts[i]);
        say(out, "%s_bucket{%s%sle=\"%.10g\"} %llu\n", name, labels, comma, bounds[i], (unsigned long long)total);
    }
    total += get(&h->counts[count]);
    say(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma, (unsigned long long)total);
    say(out, "%s_sum%s%s%s %.15g\n", name, *labels ? "{" : "", labels, *labels ? "}" : "", (double)get(&h->sum) * unit);
    say(out, "%s_count%s%s%s %llu\n", name, *labels ? "{" : "", labels, *labels ? "}" : "", (unsigned long long)total);
}

static bool is_empty(const histogram *h) {
    for (size_t i = 0; i <= MOST_BOUNDS; i++)
        if (get(&h->counts[i])) return false;
    return true;
}

/* Only the combinations that have been seen: at most 8 methods x 20 routes x 19 statuses, each 24 lines. */
static void requests(text *out, const srv_metrics *metrics) {
    const char *name = "http_server_request_duration_seconds";
    family(out, name, "histogram", "Time from the first byte of a request to the last of its reply.");
    for (size_t m = 0; m < METHODS; m++)
        for (size_t r = 0; r < ROUTES; r++)
            for (size_t s = 0; metrics_statuses[s]; s++) {
                const histogram *h = &metrics->requests[m][r][s];
                if (is_empty(h)) continue;
                char labels[160];
                snprintf(labels, sizeof labels,
                         "http_request_method=\"%s\",http_route=\"%s\",http_response_status_code=\"%d\"",
                         metrics_methods[m], metrics_routes[r], metrics_statuses[s]);
                histogram_lines(out, name, labels, h, metrics_seconds_bounds, SECONDS_BOUNDS, 1e-9);
            }
}

static void stages_and_sizes(text *out, const srv_metrics *metrics) {
    char labels[160];
    family(out, "attentiond_stage_duration_seconds", "histogram", "Time of each stage, as in Server-Timing.");
    for (size_t r = 0; r < COMPUTE_ROUTES; r++)
        for (size_t s = 0; s < STAGES; s++) {
            snprintf(labels, sizeof labels, "route=\"%s\",stage=\"%s\"", metrics_routes[r], metrics_stages[s]);
            histogram_lines(out, "attentiond_stage_duration_seconds", labels, &metrics->stages[r][s],
                            metrics_stage_bounds, STAGE_BOUNDS, 1e-9);
        }
    const struct {
        const char *name, *help;
        const histogram *histograms;
    } sizes[] = {{"attentiond_request_bytes", "Bytes of a request's body.", metrics->bytes_in},
                 {"attentiond_response_bytes", "Bytes of a reply's body.", metrics->bytes_out}};
    for (size_t i = 0; i < 2; i++) {
        family(out, sizes[i].name, "histogram", sizes[i].help);
        for (size_t f = 0; f < FORMATS; f++) {
            snprintf(labels, sizeof labels, "format=\"%s\"", metrics_formats[f]);
            histogram_lines(out, sizes[i].name, labels, &sizes[i].histograms[f], metrics_bytes_bounds, BYTES_BOUNDS, 1);
        }
    }
    family(out, "attentiond_keys", "histogram", "Keys of a request, the past counted.");
    for (size_t r = 0; r < COMPUTE_ROUTES; r++) {
        snprintf(labels, sizeof labels, "route=\"%s\"", metrics_routes[r]);
        histogram_lines(out, "attentiond_keys", labels, &metrics->keys[r], metrics_keys_bounds, KEYS_BOUNDS, 1);
    }
}

static void counters(text *out, const char *name, const char *help, const char *label, const char *const *values,
                     const atomic_uint_least64_t *counts, size_t count) {
    family(out, name, "counter", help);
    for (size_t i = 0; i < count && values[i]; i++)
        say(out, "%s{%s=\"%s\"} %llu\n", name, label, values[i], (unsigned long long)get(&counts[i]));
}

static void one(text *out, const char *name, const char *type, const char *help, double value) {
    family(out, name, type, help);
    say(out, "%s %.15g\n", name, value);
}

static void queue_and_connections(text *out, const srv_metrics *metrics, const srv_gauges *gauges) {
    one(out, "attentiond_requests_in_flight", "gauge", "Requests begun and not yet answered.",
        (double)srv_metrics_in_flight(metrics));
    family(out, "attentiond_queue_depth", "gauge", "Requests waiting for a compute thread.");
    for (int i = 0; i < SRV_LANES; i++)
        say(out, "attentiond_queue_depth{lane=\"%s\"} %llu\n", srv_lane_names[i],
            (unsigned long long)gauges->queue_depth[i]);
    family(out, "attentiond_queue_limit", "gauge", "Requests that may wait, both lanes together.");
    for (int i = 0; i < SRV_LANES; i++)
        say(out, "attentiond_queue_limit{lane=\"%s\"} %llu\n", srv_lane_names[i],
            (unsigned long long)gauges->queue_limit);
    one(out, "attentiond_memory_in_flight_bytes", "gauge", "Bytes held by requests in flight.",
        (double)gauges->memory_used);
    one(out, "attentiond_memory_limit_bytes", "gauge", "Bytes that requests in flight may hold.",
        (double)gauges->memory_limit);
    family(out, "attentiond_connections_open", "gauge", "Connections open.");
    say(out, "attentiond_connections_open{state=\"idle\"} %llu\nattentiond_connections_open{state=\"active\"} %llu\n",
        (unsigned long long)gauges->connections_idle, (unsigned long long)gauges->connections_active);
    one(out, "attentiond_connections_accepted_total", "counter", "Connections accepted.",
        (double)gauges->connections_accepted);
    one(out, "attentiond_workers", "gauge", "Compute threads.", (double)gauges->workers);
    one(out, "attentiond_worker_busy_seconds_total", "counter", "Time that queued requests held a compute thread.",
        gauges->busy_seconds);
    one(out, "attentiond_cpu_throttled_seconds_total", "counter", "Time that the cgroup's CPU quota held us back.",
        gauges->throttled_seconds);
    one(out, "attentiond_log_dropped_total", "counter", "Log lines dropped because nobody read them in time.",
        (double)gauges->log_dropped);
    one(out, "attentiond_ready", "gauge", "1 while accepting work.", gauges->ready);
    family(out, "attentiond_build_info", "gauge", "What runs; always 1.");
    say(out,
        "attentiond_build_info{version=\"" ATTENTIOND_VERSION "\",revision=\"" ATTENTIOND_REVISION
        "\",kernel=\"%.60s\",blas=\"%.120s\",mhd=\"%.60s\"} 1\n",
        gauges->kernel, gauges->blas, gauges->mhd);
}

/* Fields of /proc/self/stat after the name in parentheses; [0] is the state, field 3 of proc(5). */
static bool read_stat(unsigned long long fields[22]) {
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file) return false;
    size_t n = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[n] = 0;
    char *at = strrchr(line, ')');
    if (!at || !at[1]) return false;
    at += 3; /* ") S" */
    for (size_t i = 1; i < 22; i++) {
        at = strchr(at, ' ');
        if (!at) return false;
        fields[i] = strtoull(++at, NULL, 10);
    }
    return true;
}

static double boot_time(void) { /* seconds since the epoch */
    char line[256];
    double seconds = 0;
    FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "btime %lf", &seconds) == 1) break;
    if (file) fclose(file);
    return seconds;
}

static double open_files(void) {
    DIR *directory = opendir("/proc/self/fd");
    if (!directory) return 0;
    double count = -1; /* the directory itself */
    for (struct dirent *entry; (entry = readdir(directory));) count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void process(text *out) {
    unsigned long long stat[22] = {0};
    struct rlimit files = {0};
    double ticks = (double)sysconf(_SC_CLK_TCK);
    getrlimit(RLIMIT_NOFILE, &files);
    one(out, "process_open_fds", "gauge", "Open file descriptors.", open_files());
    one(out, "process_max_fds", "gauge", "Most file descriptors that may be open.", (double)files.rlim_cur);
    if (!read_stat(stat)) return;
    one(out, "process_cpu_seconds_total", "counter", "CPU time used.", (double)(stat[11] + stat[12]) / ticks);
    one(out, "process_threads", "gauge", "Threads.", (double)stat[17]);
    one(out, "process_start_time_seconds", "gauge", "When the process started, since the epoch.",
        boot_time() + (double)stat[19] / ticks);
    one(out, "process_virtual_memory_bytes", "gauge", "Virtual memory.", (double)stat[20]);
    one(out, "process_resident_memory_bytes", "gauge", "Memory resident.",
        (double)stat[21] * (double)sysconf(_SC_PAGESIZE));
}

char *srv_metrics_text(const srv_metrics *metrics, const srv_gauges *gauges, size_t *length) {
    text out = {0};
    requests(&out, metrics);
    stages_and_sizes(&out, metrics);
    counters(&out, "attentiond_flops_total", "Useful floating-point operations done; blocked tiles are not counted.",
             "route", metrics_routes, metrics->flops, COMPUTE_ROUTES);
    counters(&out, "attentiond_rejected_total", "Requests refused before work.", "reason", metrics_reasons,
             metrics->rejected, REASONS);
    counters(&out, "attentiond_errors_total", "Error replies after admission.", "code", metrics_codes, metrics->errors,
             CODES);
    counters(&out, "attentiond_cancelled_total", "Requests given up, by the stage they were in.", "stage",
             metrics_cancel_stages, metrics->cancelled, CANCEL_STAGES);
    queue_and_connections(&out, metrics, gauges);
    process(&out);
    if (out.failed) {
        free(out.bytes);
        return NULL;
    }
    *length = out.length;
    return out.bytes;
}
