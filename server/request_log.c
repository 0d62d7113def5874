#include "log.h"

#include <string.h>

static void put_problem(srv_line *line, const api_trace *trace) {
    srv_line_count(line, "batch", trace->batch);
    srv_line_count(line, "heads", trace->heads);
    srv_line_count(line, "n_q", trace->n_q);
    srv_line_count(line, "n_k", trace->n_k);
    srv_line_count(line, "d_k", trace->d_k);
    srv_line_count(line, "d_v", trace->d_v);
    srv_line_string(line, "dtype", trace->dtype == ATTN_F64 ? "float64" : "float32");
}

static bool is_skipped(const char *route) {
    return strcmp(route, "/healthz") == 0 || strcmp(route, "/readyz") == 0 || strcmp(route, "/metrics") == 0;
}

void srv_log_request(const srv_record *record, const char *kernel) {
    srv_level level = record->status >= 500 && record->status != 503 ? SRV_WARN : SRV_INFO;
    if (!srv_log_enabled(level) || is_skipped(record->route)) return;
    const api_trace *trace = record->trace;
    srv_line line;
    srv_line_begin(&line, level, "request");
    srv_line_string(&line, "request_id", record->request_id);
    srv_line_string(&line, "trace_id", record->trace_id);
    srv_line_string(&line, "client.address", record->client);
    srv_line_string(&line, "http.request.method", record->method);
    srv_line_string(&line, "http.route", record->route);
    srv_line_count(&line, "status", (uint64_t)record->status);
    srv_line_milliseconds(&line, "duration_ms", record->seconds);
    srv_line_count(&line, "bytes_in", record->bytes_in);
    srv_line_count(&line, "bytes_out", record->bytes_out);
    if (trace && trace->computes) {
        srv_line_string(&line, "format", trace->format);
        if (trace->has_problem) put_problem(&line, trace);
        srv_line_string(&line, "kernel", kernel);
        srv_line_milliseconds(&line, "decode_ms", trace->times.decode);
        srv_line_milliseconds(&line, "queue_ms", trace->times.queue);
        srv_line_milliseconds(&line, "compute_ms", trace->times.compute);
        srv_line_milliseconds(&line, "encode_ms", trace->times.encode);
    }
    srv_line_string(&line, "code", record->code);
    srv_line_string(&line, "pointer", trace && record->code ? trace->pointer : NULL);
    srv_line_string(&line, "cancelled", srv_cancelled_names[record->cancelled]);
    srv_line_end(&line);
}
