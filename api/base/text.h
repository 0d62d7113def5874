/* text.h: JSON text in a bounded buffer (inside api/ only). */
#ifndef API_TEXT_H
#define API_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A buffer that is not owned. What does not fit is left out, and `full` set. */
typedef struct api_short_text {
    char *start;
    size_t length, capacity;
    bool full;
} api_short_text;

void api_text_init(api_short_text *text, char *buffer, size_t capacity);
void api_text_add(api_short_text *text, const char *string);
/* A JSON string with its quotes, escaped (RFC 8259, section 7). What does not fit is cut before a whole character, the
 * closing quote still written. The source must be UTF-8. */
void api_text_add_string(api_short_text *text, const char *string);
void api_text_add_unsigned(api_short_text *text, unsigned long long number);

/* Replaces bytes that are not part of a well-formed UTF-8 character by '?', and drops a character that was cut off at
 * the end. */
void api_text_make_utf8(char *string);

/* A number of bytes for a reader: "48.0 MiB (50,331,648 bytes)". SIZE_MAX stands for more than fits. */
enum { API_SIZE_TEXT = 64 };
const char *api_size_text(char text[API_SIZE_TEXT], size_t bytes);

#endif
