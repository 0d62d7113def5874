/* clock.h: the clock that times of a request are measured with (inside api/ only). */
#ifndef API_CLOCK_H
#define API_CLOCK_H

#include <time.h>

/* Seconds of CLOCK_MONOTONIC. */
static inline double api_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
