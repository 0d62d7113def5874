/* values.h: numbers, sizes and times as text. Each function returns false, and leaves the result alone, if the text is
 * not exactly one such value. Safe from any thread. */
#ifndef SERVER_VALUES_H
#define SERVER_VALUES_H

#include <stdbool.h>
#include <stdint.h>

bool srv_read_count(const char *text, uint64_t *value); /* decimal digits, below 2^64 */
bool srv_read_size(const char *text, uint64_t *bytes);  /* "256MiB", "64K", "1.5GiB", "4096" */
bool srv_read_time(const char *text, double *seconds);  /* "50s", "500ms", "2m", "1h", "50" */

#endif
