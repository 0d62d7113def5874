/* log.h: the log on standard error, one line an event.
 *
 * One log for the process. srv_log_start and srv_log_stop belong to the main thread; the rest is safe from any thread,
 * never blocks, and drops (and counts) lines that standard error does not take in time.
 */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"
#include "settings.h"

bool srv_log_start(srv_level level, srv_log_format format); /* false: no thread or no memory; errno says which */
void srv_log_stop(void);                                    /* writes what is held, for at most half a second */
uint64_t srv_log_dropped(void);                             /* lines */
bool srv_log_enabled(srv_level level);

/* A line of a message alone; what follows a line break in it is cut. */
__attribute__((format(printf, 2, 3))) void srv_log(srv_level level, const char *format, ...);

/* A line with fields, built by its thread: begin, fields, end. A field that does not fit is left out. */
typedef struct srv_line {
    char text[3072];
    size_t length, mark;
    bool json, full;
} srv_line;
void srv_line_begin(srv_line *line, srv_level level, const char *message);
void srv_line_string(srv_line *line, const char *name, const char *value); /* NULL: left out */
void srv_line_count(srv_line *line, const char *name, uint64_t value);
void srv_line_milliseconds(srv_line *line, const char *name, double seconds); /* with three decimals */
void srv_line_end(srv_line *line);                                            /* hands the line over */

/* The line of a request. Never numbers of a tensor, never a query string. Health checks and scrapes are left out. */
void srv_log_request(const srv_record *record, const char *kernel);

#endif
