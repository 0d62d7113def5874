#include "metrics.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "metrics_cells.h"

static void read_labels(const srv_metric *row, srv_metric_cells *cells) {
    cells->cells = 1;
    for (size_t l = 0; l < SRV_MOST_LABELS; l++) {
        const srv_label *label = row->labels[l];
        size_t n = 0;
        while (label && n < SRV_MOST_VALUES && (cells->values[l][n] = label->value(n))) n++;
        cells->counts[l] = label ? n : 1;
        cells->cells *= cells->counts[l];
    }
}

srv_metrics *srv_metrics_new(const srv_metric *table) {
    size_t rows = 0, words = 0;
    while (table[rows].name) rows++;
    srv_metrics *metrics = calloc(1, sizeof *metrics + rows * sizeof *metrics->rows);
    if (!metrics) return NULL;
    metrics->table = table;
    for (size_t i = 0; i < rows; i++) {
        srv_metric_cells *row = &metrics->rows[i];
        read_labels(&table[i], row);
        row->words_per_cell = !table[i].count && !table[i].count_each ? 0
                              : table[i].buckets                      ? table[i].buckets->count + 2
                                                                      : 1;
        words += row->cells * row->words_per_cell;
    }
    metrics->words = calloc(words ? words : 1, sizeof *metrics->words);
    if (!metrics->words) {
        free(metrics);
        return NULL;
    }
    srv_word *next = metrics->words;
    for (size_t i = 0; i < rows; i++) {
        metrics->rows[i].words = next;
        next += metrics->rows[i].cells * metrics->rows[i].words_per_cell;
    }
    return metrics;
}

void srv_metrics_free(srv_metrics *metrics) {
    if (!metrics) return;
    free(metrics->words);
    free(metrics);
}

static void add(srv_word *word, uint64_t amount) { atomic_fetch_add_explicit(word, amount, memory_order_relaxed); }

static void count(const srv_metric *row, srv_word *cell, double value) {
    if (isnan(value)) return;
    const double whole = value * srv_metric_unit(row);
    const uint64_t amount = whole > 0 && whole < 0x1p63 ? (uint64_t)whole : 0;
    if (!row->buckets) {
        add(cell, amount);
        return;
    }
    size_t i = 0;
    while (i < row->buckets->count && value > row->buckets->bounds[i]) i++;
    add(&cell[i], 1);
    add(&cell[row->buckets->count + 1], amount);
}

/* The index of a value, or that of `other`; the number of values: neither is one. */
static size_t index_of(const char *const *values, size_t count, const char *value, const char *other) {
    size_t at_other = count;
    for (size_t i = 0; i < count && value; i++) {
        if (values[i] == value || strcmp(values[i], value) == 0) return i;
        if (other && strcmp(values[i], other) == 0) at_other = i;
    }
    return at_other;
}

static void record_row(const srv_metric *row, const srv_metric_cells *cells, const srv_record *record) {
    size_t index = 0, each = 1;
    for (size_t l = 0; l < SRV_MOST_LABELS && row->labels[l]; l++) {
        const srv_label *label = row->labels[l];
        const size_t count = cells->counts[l];
        const size_t value = label->of ? index_of(cells->values[l], count, label->of(record), label->other) : 0;
        if (value == count) return;
        if (!label->of) each = count;
        index = index * count + value;
    }
    for (size_t i = 0; i < each; i++)
        count(row, cells->words + (index + i) * cells->words_per_cell,
              row->count ? row->count(record) : row->count_each(record, i));
}

void srv_metrics_record(srv_metrics *metrics, const srv_record *record) {
    for (size_t i = 0; metrics->table[i].name; i++)
        if (metrics->rows[i].words_per_cell) record_row(&metrics->table[i], &metrics->rows[i], record);
}

size_t srv_metrics_most_samples(const srv_metrics *metrics) {
    size_t samples = 0;
    for (size_t i = 0; metrics->table[i].name; i++) /* of a histogram: buckets, +Inf, _sum and _count */
        samples += metrics->rows[i].cells * (metrics->table[i].buckets ? metrics->table[i].buckets->count + 3 : 1);
    return samples;
}
