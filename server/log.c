/* log.c: lines on stderr, through a buffer and one thread that writes it, so that no request ever waits for a reader.
 *
 * The writer gathers for up to 20 ms, or until half a buffer is full; a line that finds no room is dropped and counted.
 */
#include "server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static uint64_t count_lines(const char *text, size_t length) {
    uint64_t lines = 0;
    for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
    return lines;
}

static void write_out(const char *text, size_t length) {
    while (length) {
        ssize_t n = write(STDERR_FILENO, text, length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) { /* closed: nobody will read it */
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
    state.running = state.filling && state.writing && pthread_create(&state.thread, NULL, write_lines, NULL) == 0;
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
    if (!stopped) return; /* stuck behind a full pipe: the end of the process takes the thread along */
    pthread_join(state.thread, NULL);
    free(state.filling);
    free(state.writing);
}

uint64_t srv_log_dropped(void) { return atomic_load(&state.dropped); }
bool srv_log_enabled(srv_level level) { return level <= state.level; }

/* ---- a line ------------------------------------------------------------------------------------------------------ */

static void put(srv_line *line, const char *text, size_t length) {
    if (line->full || length > sizeof line->text - 4 - line->length) { /* room for the end: }, newline */
        line->full = true;
        return;
    }
    memcpy(line->text + line->length, text, length);
    line->length += length;
}

static void put_text(srv_line *line, const char *text) { put(line, text, strlen(text)); }

static bool is_printable(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

/* In quotes as JSON has them; bytes that are no printable ASCII become \u00XX, so a line stays one line. */
static void put_quoted(srv_line *line, const char *text) {
    put(line, "\"", 1);
    while (*text) {
        size_t span = 0;
        while (is_printable(text[span])) span++;
        put(line, text, span);
        text += span;
        if (!*text) break;
        char escaped[8];
        int n = *text == '"' || *text == '\\' ? snprintf(escaped, sizeof escaped, "\\%c", *text)
                                              : snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*text);
        put(line, escaped, (size_t)n);
        text++;
    }
    put(line, "\"", 1);
}

/* value / 10^decimals: printf's floating point costs more than the rest of a line */
static void put_decimal(srv_line *line, uint64_t value, int decimals) {
    char text[32], *at = text + sizeof text;
    for (int digits = 0; value || digits <= decimals; digits++, value /= 10) {
        if (digits && digits == decimals) *--at = '.';
        *--at = (char)('0' + value % 10);
    }
    put(line, at, (size_t)(text + sizeof text - at));
}

static void put_name(srv_line *line, const char *name) {
    line->mark = line->length;
    if (line->json) {
        put(line, line->length > 1 ? ",\"" : "\"", line->length > 1 ? 2 : 1);
        put_text(line, name);
        put(line, "\":", 2);
    } else {
        put(line, " ", 1);
        put_text(line, name);
        put(line, "=", 1);
    }
}

/* A field that did not fit is taken away whole. */
static void end_field(srv_line *line) {
    if (line->full) line->length = line->mark;
}

static bool is_plain(const char *text) {
    if (!*text) return false;
    for (; *text; text++)
        if (!is_printable(*text) || *text == ' ' || *text == '=') return false;
    return true;
}

void srv_line_string(srv_line *line, const char *name, const char *value) {
    if (!value || line->full) return;
    put_name(line, name);
    if (!line->json && is_plain(value))
        put_text(line, value);
    else
        put_quoted(line, value);
    end_field(line);
}

void srv_line_count(srv_line *line, const char *name, uint64_t value) {
    if (line->full) return;
    put_name(line, name);
    put_decimal(line, value, 0);
    end_field(line);
}

void srv_line_milliseconds(srv_line *line, const char *name, double seconds) {
    if (line->full || !(seconds >= 0 && seconds < 1e9)) return;
    put_name(line, name);
    put_decimal(line, (uint64_t)(seconds * 1e6 + 0.5), 3);
    end_field(line);
}

/* "2026-11-30T21:05:00", formatted once a second and thread. */
static const char *stamp_of(time_t second) {
    static _Thread_local char stamp[40];
    static _Thread_local time_t stamped;
    struct tm parts;
    if (!stamp[0] || second != stamped) {
        gmtime_r(&second, &parts);
        strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
        stamped = second;
    }
    return stamp;
}

void srv_line_begin(srv_line *line, srv_level level, const char *message) {
    struct timespec now;
    char full[72];
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(full, sizeof full, "%s.%03uZ", stamp_of(now.tv_sec), (unsigned)(now.tv_nsec / 1000000));
    line->length = line->mark = 0;
    line->full = false;
    line->json = state.json;
    if (line->json) {
        put(line, "{", 1);
        srv_line_string(line, "ts", full);
        srv_line_string(line, "level", level_names[level]);
        srv_line_string(line, "msg", message);
        return;
    }
    put_text(line, full);
    put(line, " ", 1);
    put_text(line, level_names[level]);
    put(line, " ", 1);
    put_text(line, message);
}

void srv_line_end(srv_line *line) {
    if (line->json) line->text[line->length++] = '}';
    line->text[line->length++] = '\n';
    pthread_mutex_lock(&state.lock);
    if (!state.running || line->length > BUFFER - state.used) {
        atomic_fetch_add(&state.dropped, 1);
    } else {
        size_t before = state.used;
        memcpy(state.filling + before, line->text, line->length);
        state.used += line->length;
        if (before == 0 || (before < BUFFER / 2 && state.used >= BUFFER / 2)) pthread_cond_signal(&state.filled);
    }
    pthread_mutex_unlock(&state.lock);
}

void srv_log(srv_level level, const char *format, ...) {
    if (!srv_log_enabled(level)) return;
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    message[strcspn(message, "\r\n")] = 0;
    srv_line line;
    srv_line_begin(&line, level, message);
    srv_line_end(&line);
}
