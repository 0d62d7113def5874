/* wire_peers.h: the same JSON read and written by other libraries (bench only). */
#ifndef WIRE_PEERS_H
#define WIRE_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PEER_PADDING = 64 }; /* bytes that must be readable after a text */

/* The rows of member "k" of the object into the array, as doubles or rounded to floats. Returns the number of numbers;
 * 0: an error. simdjson is its on-demand API, a number at a time. */
size_t peer_simdjson(const char *text, size_t length, bool f64, void *array);
size_t peer_jansson(const char *text, size_t length, bool f64, void *array);

/* `rows` rows of `columns` floats as nested arrays. Returns the length; room as for the longest float, 16 bytes each,
 * and 4 for each row. */
size_t peer_to_chars(const float *array, size_t rows, size_t columns, char *text);

const char *peer_simdjson_version(void);

#ifdef __cplusplus
}
#endif

#endif
