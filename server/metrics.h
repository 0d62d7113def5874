/* metrics.h: what metrics.c counts and metrics_text.c prints. Every label is one of a fixed list. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "server.h"

enum {
    METHODS = 8,
    ROUTES = 20,
    COMPUTE_ROUTES = 4, /* the first of ROUTES */
    STATUSES = 24,
    STAGES = 4,
    FORMATS = 3,
    REASONS = 9,
    CODES = 32,
    CANCEL_STAGES = 4,
    SECONDS_BOUNDS = 21,
    STAGE_BOUNDS = 15,
    BYTES_BOUNDS = 12,
    KEYS_BOUNDS = 11,
    MOST_BOUNDS = 21,
};

typedef struct histogram { /* counts[i]: values in (bounds[i-1], bounds[i]]; one more beyond the last */
    atomic_uint_least64_t counts[MOST_BOUNDS + 1];
    atomic_uint_least64_t sum; /* nanoseconds, bytes or keys */
} histogram;

struct srv_metrics {
    histogram requests[METHODS][ROUTES][STATUSES];
    histogram stages[COMPUTE_ROUTES][STAGES];
    histogram bytes_in[FORMATS], bytes_out[FORMATS];
    histogram keys[COMPUTE_ROUTES];
    atomic_uint_least64_t flops[COMPUTE_ROUTES];
    atomic_uint_least64_t rejected[REASONS], errors[CODES], cancelled[CANCEL_STAGES];
    atomic_int_least64_t in_flight;
};

/* Each list ends with NULL; where a last name stands for "any other" it says so. */
extern const char *const metrics_methods[METHODS + 1]; /* _OTHER last */
extern const char *const metrics_routes[ROUTES + 1];   /* unmatched last */
extern const int metrics_statuses[STATUSES];           /* ascending, 0: no more */
extern const char *const metrics_stages[STAGES + 1];
extern const char *const metrics_formats[FORMATS + 1];
extern const char *const metrics_reasons[REASONS + 1];
extern const char *const metrics_codes[CODES + 1]; /* internal last */
extern const char *const metrics_cancel_stages[CANCEL_STAGES + 1];
extern const double metrics_seconds_bounds[SECONDS_BOUNDS], metrics_stage_bounds[STAGE_BOUNDS];
extern const double metrics_bytes_bounds[BYTES_BOUNDS], metrics_keys_bounds[KEYS_BOUNDS];

#endif
