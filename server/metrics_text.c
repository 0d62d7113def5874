/* metrics_text.c: the metrics as Prometheus text, version 0.0.4. */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics_cells.h"

enum { LONGEST_LINE = 1024, LABELS_SIZE = 512 };

typedef struct text {
    char *bytes;
    size_t length, room;
    bool failed;
} text;

__attribute__((format(printf, 2, 3))) static void print(text *out, const char *format, ...) {
    if (out->failed) return;
    if (out->room - out->length < LONGEST_LINE) {
        const size_t room = out->room ? 2 * out->room : 1 << 16;
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
    const int n = vsnprintf(out->bytes + out->length, out->room - out->length, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < out->room - out->length)
        out->length += (size_t)n;
    else
        out->failed = true;
}

static uint64_t get(const srv_word *word) { return atomic_load_explicit(word, memory_order_relaxed); }

/* labels: `a="b",c="d"`, or "" */
static void print_sample(text *out, const srv_metric *row, const char *labels, double value) {
    const bool has = *labels != 0;
    print(out, "%s%s%s%s %.15g\n", row->name, has ? "{" : "", labels, has ? "}" : "", value);
}

static void print_histogram(text *out, const srv_metric *row, const char *labels, const srv_word *cell) {
    const size_t buckets = row->buckets->count;
    const bool has = *labels != 0;
    uint64_t total = 0;
    for (size_t i = 0; i <= buckets; i++) {
        char bound[32] = "+Inf";
        if (i < buckets) snprintf(bound, sizeof bound, "%.10g", row->buckets->bounds[i]);
        total += get(&cell[i]);
        print(out, "%s_bucket{%s%sle=\"%s\"} %llu\n", row->name, labels, has ? "," : "", bound,
              (unsigned long long)total);
    }
    print(out, "%s_sum%s%s%s %.15g\n", row->name, has ? "{" : "", labels, has ? "}" : "",
          (double)get(&cell[buckets + 1]) / row->buckets->unit);
    print(out, "%s_count%s%s%s %llu\n", row->name, has ? "{" : "", labels, has ? "}" : "", (unsigned long long)total);
}

/* The labels of the cell with this index. */
static void write_labels(const srv_metric *row, const srv_metric_cells *cells, size_t index, char *labels) {
    size_t length = 0, rest = cells->cells;
    labels[0] = 0;
    for (size_t l = 0; l < SRV_MOST_LABELS && row->labels[l]; l++) {
        rest /= cells->counts[l];
        const char *value = cells->values[l][index / rest];
        index %= rest;
        length += (size_t)snprintf(labels + length, LABELS_SIZE - length, "%s%s=\"%s\"", l ? "," : "",
                                   row->labels[l]->name, value);
        if (length >= LABELS_SIZE) length = LABELS_SIZE - 1;
    }
}

static bool has_counted(const srv_metric_cells *cells, const srv_word *cell) {
    for (size_t i = 0; i < cells->words_per_cell; i++)
        if (get(&cell[i])) return true;
    return false;
}

static double read(const srv_metric *row, struct srv_server *server, size_t index) {
    if (row->figure) return row->figure();
    return row->read ? row->read(server) : row->read_each(server, index);
}

static void print_row(text *out, const srv_metric *row, const srv_metric_cells *cells, struct srv_server *server) {
    static const char *const types[] = {"counter", "gauge", "histogram"};
    char labels[LABELS_SIZE];
    print(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, types[row->type]);
    if (row->info) {
        row->info(server, labels, sizeof labels);
        print_sample(out, row, labels, 1);
        return;
    }
    for (size_t i = 0; i < cells->cells; i++) {
        const srv_word *cell = cells->words + i * cells->words_per_cell;
        if (row->from_first && !has_counted(cells, cell)) continue;
        write_labels(row, cells, i, labels);
        if (row->buckets) {
            print_histogram(out, row, labels, cell);
            continue;
        }
        const double value = row->count || row->count_each ? (double)get(cell) : read(row, server, i);
        if (!isnan(value)) print_sample(out, row, labels, value);
    }
}

char *srv_metrics_text(const srv_metrics *metrics, struct srv_server *server, size_t *length) {
    text out = {0};
    for (size_t i = 0; metrics->table[i].name; i++) print_row(&out, &metrics->table[i], &metrics->rows[i], server);
    if (out.failed) {
        free(out.bytes);
        return NULL;
    }
    *length = out.length;
    return out.bytes;
}
