/* metrics.h: metrics as rows of a table: what is counted, with which labels, and where the values come from.
 *
 * The table is in metrics_table.c; storage, counting and the Prometheus text (version 0.0.4) follow from it. Label
 * values are fixed lists, so the number of series is bounded. Counting neither locks nor allocates. All functions but
 * new and free are safe from any thread.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"

typedef enum srv_metric_type { SRV_COUNTER, SRV_GAUGE, SRV_HISTOGRAM } srv_metric_type;

typedef struct srv_label {
    const char *name;
    const char *(*value)(size_t index); /* the values by index from 0 on, NULL after the last; called by new only */
    /* The value of a record. NULL as a function, for the last label of a row with count_each: the record counts once
     * for each value. */
    const char *(*of)(const srv_record *record);
    const char *other; /* stands for what is not a value; NULL: the record does not count */
} srv_label;

typedef struct srv_buckets {
    size_t count;
    const double *bounds; /* ascending; +Inf is added */
    double unit;          /* the sum is kept as a whole number of units */
} srv_buckets;

enum { SRV_MOST_LABELS = 3, SRV_MOST_VALUES = 64 };

struct srv_server;

/* A row has exactly one source: count or count_each, read, read_each or figure, or info. NaN from any of them: nothing
 * to count, or a series that is left out of the text. */
typedef struct srv_metric {
    const char *name, *help;
    srv_metric_type type;
    const srv_label *labels[SRV_MOST_LABELS];
    const srv_buckets *buckets; /* of a histogram */
    bool from_first;            /* a series appears when it has counted, not at 0 from the start */
    /* What a request that has ended adds to a counter or shows to a histogram; count_each: for the value with this
     * index of the last label. */
    double (*count)(const srv_record *record);
    double (*count_each)(const srv_record *record, size_t index);
    /* The value at a scrape; read_each: for the value with this index of the only label. */
    double (*read)(struct srv_server *server);
    double (*read_each)(struct srv_server *server, size_t index);
    double (*figure)(void); /* the same of a value that is not the server's */
    /* Writes the labels of a series that is always 1. */
    void (*info)(struct srv_server *server, char *labels, size_t size);
} srv_metric;

extern const srv_metric srv_metric_table[]; /* ends with a row without a name */

typedef struct srv_metrics srv_metrics;
srv_metrics *srv_metrics_new(const srv_metric *table); /* borrows the table; NULL: out of memory */
void srv_metrics_free(srv_metrics *metrics);           /* NULL is allowed */
void srv_metrics_record(srv_metrics *metrics, const srv_record *record);
/* The text, malloc'd, not NUL-terminated. NULL: out of memory. */
char *srv_metrics_text(const srv_metrics *metrics, struct srv_server *server, size_t *length);
/* The largest number of samples that the text can have. */
size_t srv_metrics_most_samples(const srv_metrics *metrics);

#endif
