/* log.c: a buffer for lines and the thread that writes it to standard error.
 *
 * The thread collects lines for up to 20 ms, or until half a buffer is full. A line that does not fit is dropped and
 * counted.
 */
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "log_sink.h"

enum { BUFFER = 1 << 20, GATHER_NS = 20 * 1000 * 1000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled, written;
    char *filling, *writing; /* BUFFER bytes each */
    size_t used;
    bool stopping, stopped, running;
    pthread_t thread;
    srv_level level;
    bool json;
    atomic_uint_least64_t dropped;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = SRV_INFO};

static uint64_t count_lines(const char *text, size_t length) {
    uint64_t lines = 0;
    for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
    return lines;
}

static void write_out(const char *text, size_t length) {
    while (length) {
        ssize_t n = write(STDERR_FILENO, text, length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) { /* closed */
            atomic_fetch_add(&state.dropped, count_lines(text, length));
            return;
        }
        text += n;
        length -= (size_t)n;
    }
}

static struct timespec after(int64_t nanoseconds) {
    int64_t t = srv_now() + nanoseconds;
    return (struct timespec){.tv_sec = t / 1000000000, .tv_nsec = t % 1000000000};
}

static void *write_lines(void *arg) {
    (void)arg;
    pthread_mutex_lock(&state.lock);
    for (;;) {
        while (!state.used && !state.stopping) pthread_cond_wait(&state.filled, &state.lock);
        if (!state.used) break;
        struct timespec until = after(GATHER_NS);
        while (!state.stopping && state.used < BUFFER / 2)
            if (pthread_cond_timedwait(&state.filled, &state.lock, &until) == ETIMEDOUT) break;
        char *text = state.filling;
        size_t length = state.used;
        state.filling = state.writing;
        state.writing = text;
        state.used = 0;
        pthread_mutex_unlock(&state.lock);
        write_out(text, length);
        pthread_mutex_lock(&state.lock);
    }
    state.stopped = true;
    pthread_cond_signal(&state.written);
    pthread_mutex_unlock(&state.lock);
    return NULL;
}

bool srv_log_start(srv_level level, srv_log_format format) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&state.filled, &monotonic);
    pthread_cond_init(&state.written, &monotonic);
    pthread_condattr_destroy(&monotonic);
    state.level = level;
    state.json = format == SRV_LOG_JSON || (format == SRV_LOG_AUTO && !isatty(STDERR_FILENO));
    state.filling = malloc(BUFFER);
    state.writing = malloc(BUFFER);
    const int error = state.filling && state.writing ? pthread_create(&state.thread, NULL, write_lines, NULL) : ENOMEM;
    state.running = error == 0;
    if (error) errno = error;
    return state.running;
}

void srv_log_stop(void) {
    if (!state.running) return;
    struct timespec until = after(500 * 1000 * 1000);
    pthread_mutex_lock(&state.lock);
    state.stopping = true;
    pthread_cond_signal(&state.filled);
    while (!state.stopped)
        if (pthread_cond_timedwait(&state.written, &state.lock, &until) == ETIMEDOUT) break;
    bool stopped = state.stopped;
    state.running = false;
    pthread_mutex_unlock(&state.lock);
    if (!stopped) return; /* blocked by a full pipe: the thread ends with the process */
    pthread_join(state.thread, NULL);
    free(state.filling);
    free(state.writing);
}

uint64_t srv_log_dropped(void) { return atomic_load(&state.dropped); }
bool srv_log_enabled(srv_level level) { return level <= state.level; }
bool srv_log_is_json(void) { return state.json; }

void srv_log_put(const char *line, size_t length) {
    pthread_mutex_lock(&state.lock);
    if (!state.running || length > BUFFER - state.used) {
        atomic_fetch_add(&state.dropped, 1);
    } else {
        const size_t before = state.used;
        memcpy(state.filling + before, line, length);
        state.used += length;
        if (before == 0 || (before < BUFFER / 2 && state.used >= BUFFER / 2)) pthread_cond_signal(&state.filled);
    }
    pthread_mutex_unlock(&state.lock);
}
