/* metrics.c: counters and histograms: atomics without locks, fixed label sets, nothing allocated while counting. */
#include "metrics.h"

#include <stdlib.h>
#include <string.h>

const char *const metrics_methods[METHODS + 1] = {"GET",    "POST",  "HEAD",   "OPTIONS", "PUT",
                                                  "DELETE", "PATCH", "_OTHER", NULL};
const char *const metrics_routes[ROUTES + 1] = {"/attention",
                                                "/mha",
                                                "/v2/models/attention/infer",
                                                "/v2/models/mha/infer",
                                                "/healthz",
                                                "/readyz",
                                                "/version",
                                                "/metrics",
                                                "/openapi.json",
                                                "/v2",
                                                "/v2/health/live",
                                                "/v2/health/ready",
                                                "/v2/models/{model}",
                                                "/v2/models/{model}/ready",
                                                "/v2/models/{model}/config",
                                                "/v2/models/{model}/stats",
                                                "/v2/models/stats",
                                                "/v2/repository/index",
                                                "/v2/{extension}",
                                                "unmatched",
                                                NULL};
/* 499: the client went before its reply. The last one that is not 0 stands for any other. */
const int metrics_statuses[STATUSES] = {200, 204, 400, 401, 404, 405, 406, 408, 413, 414,
                                        415, 422, 429, 431, 499, 501, 503, 504, 500};
const char *const metrics_stages[STAGES + 1] = {"decode", "queue", "compute", "encode", NULL};
const char *const metrics_formats[FORMATS + 1] = {"json", "safetensors", "oip", NULL};
const char *const metrics_reasons[REASONS + 1] = {"queue_full",  "memory", "wait",    "body",     "headers",
                                                  "connections", "auth",   "framing", "draining", NULL};
const char *const metrics_codes[CODES + 1] = {
    "invalid_json",      "bad_request",     "unauthorized",   "not_found",     "method_not_allowed",
    "not_acceptable",    "timeout",         "body_too_large", "uri_too_long",  "unsupported_media_type",
    "missing_field",     "unknown_field",   "wrong_type",     "ragged",        "shape_mismatch",
    "too_deep",          "out_of_range",    "not_finite",     "overflow",      "overloaded",
    "headers_too_large", "not_implemented", "not_ready",      "shutting_down", "out_of_memory",
    "compute_timeout",   "internal",
};
const char *const metrics_cancel_stages[CANCEL_STAGES + 1] = {"upload", "queue", "compute", "reply", NULL};

/* OpenTelemetry's bounds for http.server.request.duration, five below and two above. */
const double metrics_seconds_bounds[SECONDS_BOUNDS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                       0.025,  0.05,    0.075,  0.1,   0.25,   0.5,   0.75,
                                                       1,      2.5,     5,      7.5,   10,     30,    60};
const double metrics_stage_bounds[STAGE_BOUNDS] = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2,
                                                   1e-1, 3e-1, 1,    3,    10,   30,   60};
const double metrics_bytes_bounds[BYTES_BOUNDS] = {256,     1024,    4096,    16384,   65536,   262144,
                                                   1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30};
const double metrics_keys_bounds[KEYS_BOUNDS] = {1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 1 << 18, 1 << 20};

srv_metrics *srv_metrics_new(void) { return calloc(1, sizeof(srv_metrics)); }
void srv_metrics_free(srv_metrics *metrics) { free(metrics); }

static void add(atomic_uint_least64_t *counter, uint64_t amount) {
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

/* unit: of the sum; value * unit is added to it */
static void observe(histogram *h, const double *bounds, size_t count, double value, double unit) {
    size_t i = 0;
    while (i < count && value > bounds[i]) i++;
    add(&h->counts[i], 1);
    add(&h->sum, value > 0 ? (uint64_t)(value * unit) : 0);
}

/* The index of name in list, or `other` where it is not there. */
static size_t index_of(const char *const *list, const char *name, size_t other) {
    for (size_t i = 0; name && list[i]; i++)
        if (strcmp(list[i], name) == 0) return i;
    return other;
}

static size_t status_index(int status) {
    size_t i = 0;
    while (metrics_statuses[i] != status && metrics_statuses[i + 1]) i++;
    return i;
}

void srv_metrics_begin(srv_metrics *metrics) {
    atomic_fetch_add_explicit(&metrics->in_flight, 1, memory_order_relaxed);
}
void srv_metrics_end(srv_metrics *metrics) { atomic_fetch_sub_explicit(&metrics->in_flight, 1, memory_order_relaxed); }

uint64_t srv_metrics_in_flight(const srv_metrics *metrics) {
    int64_t value = atomic_load_explicit(&metrics->in_flight, memory_order_relaxed);
    return value > 0 ? (uint64_t)value : 0;
}

static void record_compute(srv_metrics *metrics, const srv_record *record, size_t route) {
    const api_trace *trace = record->trace;
    const double stages[STAGES] = {trace->times.decode, trace->times.queue, trace->times.compute, trace->times.encode};
    for (size_t i = 0; i < STAGES; i++)
        observe(&metrics->stages[route][i], metrics_stage_bounds, STAGE_BOUNDS, stages[i], 1e9);
    size_t format = index_of(metrics_formats, trace->format, 0);
    observe(&metrics->bytes_in[format], metrics_bytes_bounds, BYTES_BOUNDS, (double)record->bytes_in, 1);
    observe(&metrics->bytes_out[format], metrics_bytes_bounds, BYTES_BOUNDS, (double)record->bytes_out, 1);
    if (trace->has_problem) observe(&metrics->keys[route], metrics_keys_bounds, KEYS_BOUNDS, (double)trace->n_k, 1);
    if (trace->flops > 0 && trace->flops < 0x1p63) add(&metrics->flops[route], (uint64_t)trace->flops);
}

void srv_metrics_record(srv_metrics *metrics, const srv_record *record) {
    size_t method = index_of(metrics_methods, record->method, METHODS - 1);
    size_t route = index_of(metrics_routes, record->route, ROUTES - 1);
    observe(&metrics->requests[method][route][status_index(record->status)], metrics_seconds_bounds, SECONDS_BOUNDS,
            record->seconds, 1e9);
    size_t reason = index_of(metrics_reasons, record->rejected, REASONS);
    if (reason < REASONS)
        add(&metrics->rejected[reason], 1);
    else if (record->code)
        add(&metrics->errors[index_of(metrics_codes, record->code, index_of(metrics_codes, "internal", 0))], 1);
    size_t stage = index_of(metrics_cancel_stages, record->cancelled, CANCEL_STAGES);
    if (stage < CANCEL_STAGES) add(&metrics->cancelled[stage], 1);
    if (record->trace && record->trace->computes && route < COMPUTE_ROUTES) record_compute(metrics, record, route);
}
