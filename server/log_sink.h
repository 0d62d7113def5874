/* log_sink.h: what log.c gives to log_line.c. */
#ifndef SERVER_LOG_SINK_H
#define SERVER_LOG_SINK_H

#include <stdbool.h>
#include <stddef.h>

bool srv_log_is_json(void);
void srv_log_put(const char *line, size_t length); /* a whole line with its newline; never blocks */

#endif
