/* metrics_cells.h: the storage of the metrics (inside metrics*.c only).
 *
 * Of a row that counts requests there is a cell for each combination of label values, the last label's varying fastest.
 * A cell of a counter is one word; of a histogram, a word for each bucket (values in (bounds[i-1], bounds[i]]), one for
 * what is beyond the last bound, and one for the sum.
 */
#ifndef SERVER_METRICS_CELLS_H
#define SERVER_METRICS_CELLS_H

#include <stdatomic.h>

#include "metrics.h"

typedef atomic_uint_least64_t srv_word;

typedef struct srv_metric_cells {
    srv_word *words;
    const char *values[SRV_MOST_LABELS][SRV_MOST_VALUES];
    size_t counts[SRV_MOST_LABELS]; /* of values; 1 if there is no label */
    size_t cells, words_per_cell;   /* no words if the row does not count requests */
} srv_metric_cells;

struct srv_metrics {
    const srv_metric *table;
    srv_word *words;
    srv_metric_cells rows[]; /* one for each row of the table */
};

static inline double srv_metric_unit(const srv_metric *row) { return row->buckets ? row->buckets->unit : 1; }

#endif
