/* log_line.c: the fields of a line as text or JSON. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "log_sink.h"

enum { END_SIZE = 4 }; /* bytes that are kept free for "}" and the newline */

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static void put(srv_line *line, const char *text, size_t length) {
    if (line->full || length > sizeof line->text - END_SIZE - line->length) {
        line->full = true;
        return;
    }
    memcpy(line->text + line->length, text, length);
    line->length += length;
}

static void put_text(srv_line *line, const char *text) { put(line, text, strlen(text)); }

static void put_quoted(srv_line *line, const char *text) {
    const size_t room = sizeof line->text - END_SIZE - line->length;
    const size_t length = line->full ? 0 : api_json_string(line->text + line->length, room, text);
    line->full = length == 0;
    line->length += length;
}

/* value / 10^decimals. printf's floating point takes longer than the rest of the line. */
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

/* Removes a field that did not fit. */
static void end_field(srv_line *line) {
    if (line->full) line->length = line->mark;
}

/* Printable ASCII without blanks, quotes, backslashes and '=': needs no quotes in a text line. */
static bool is_plain(const char *text) {
    const char *at = text;
    while (*at > ' ' && *at <= '~' && !strchr("\"\\=", *at)) at++;
    return *text && !*at;
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

/* "2026-11-30T21:05:00". Formatted once per second and thread. */
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
    line->json = srv_log_is_json();
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
    srv_log_put(line->text, line->length);
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
