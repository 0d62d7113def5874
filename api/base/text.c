#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../api.h"

void api_text_init(api_short_text *text, char *buffer, size_t capacity) {
    *text = (api_short_text){.start = buffer, .capacity = capacity};
}

static bool add_bytes(api_short_text *text, const char *bytes, size_t length, size_t spare) {
    if (text->full || text->length + length + spare > text->capacity) {
        text->full = true;
        return false;
    }
    memcpy(text->start + text->length, bytes, length);
    text->length += length;
    return true;
}

void api_text_add(api_short_text *text, const char *string) { add_bytes(text, string, strlen(string), 0); }

void api_text_add_unsigned(api_short_text *text, unsigned long long number) {
    char digits[24], *first = digits + sizeof digits - 1;
    *first = '\0';
    do *--first = (char)('0' + number % 10);
    while (number /= 10);
    api_text_add(text, first);
}

/* Bytes of the well-formed UTF-8 character at `s` (RFC 3629, section 4), 0 where there is none. */
static size_t utf8_length(const unsigned char *s) {
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    const size_t length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    unsigned char low = 0x80, high = 0xbf;
    if (s[0] == 0xe0) low = 0xa0;
    if (s[0] == 0xed) high = 0x9f;
    if (s[0] == 0xf0) low = 0x90;
    if (s[0] == 0xf4) high = 0x8f;
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return length;
}

/* Bytes at the start of the string that stand for themselves in JSON. */
static size_t plain_length(const char *string) {
    size_t length = 0;
    while (string[length] >= ' ' && string[length] < 0x7f && string[length] != '"' && string[length] != '\\') length++;
    return length;
}

void api_text_add_string(api_short_text *text, const char *string) {
    if (!add_bytes(text, "\"", 1, 1)) return;
    while (*string) {
        char escaped[8];
        const size_t plain = plain_length(string), room = text->capacity - text->length - 1;
        if (plain > 0) {
            if (!add_bytes(text, string, plain < room ? plain : room, 1)) break;
            text->full = plain > room;
            if (text->full) break;
            string += plain;
            continue;
        }
        const unsigned char c = (unsigned char)*string, next = (unsigned char)string[1];
        size_t length = utf8_length((const unsigned char *)string), wide = length;
        if (length == 0) {
            length = wide = 1;
            escaped[0] = '?';
        } else if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
            wide = 2;
        } else if (c < 0x20 || c == 0x7f || (c == 0xc2 && next < 0xa0)) { /* control characters, for a log's terminal */
            wide = (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c == 0xc2 ? next : c);
        } else {
            memcpy(escaped, string, length);
        }
        if (!add_bytes(text, escaped, wide, 1)) break;
        string += length;
    }
    text->start[text->length++] = '"'; /* its place was kept free */
}

size_t api_json_string(char *text, size_t capacity, const char *string) {
    api_short_text out;
    api_text_init(&out, text, capacity);
    api_text_add_string(&out, string);
    return out.full ? 0 : out.length;
}

void api_text_make_utf8(char *string) {
    for (char *s = string; *s;) {
        const size_t length = utf8_length((const unsigned char *)s);
        if (length != 0) {
            s += length;
            continue;
        }
        /* a lead byte whose continuation bytes end with the string was cut */
        const char *rest = s + 1;
        while (((unsigned char)*rest & 0xc0) == 0x80) rest++;
        if (*rest == '\0' && (unsigned char)*s >= 0xc2 && rest - s < 4) {
            *s = '\0';
            return;
        }
        *s++ = '?';
    }
}

/* "50,331,648" */
static void group_digits(char *text, size_t capacity, size_t number) {
    char digits[24];
    const size_t count = (size_t)snprintf(digits, sizeof digits, "%zu", number);
    size_t length = 0;
    for (size_t i = 0; i < count && length + 2 < capacity; i++) {
        if (i > 0 && (count - i) % 3 == 0) text[length++] = ',';
        text[length++] = digits[i];
    }
    text[length] = '\0';
}

const char *api_size_text(char text[API_SIZE_TEXT], size_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char grouped[32];
    double size = (double)bytes;
    size_t unit = 0;
    group_digits(grouped, sizeof grouped, bytes);
    for (; size >= 1024 * 1023.95 && unit + 1 < sizeof units / sizeof *units; unit++) size /= 1024;
    if (bytes == SIZE_MAX)
        snprintf(text, API_SIZE_TEXT, "more than 16 EiB (2^64 bytes)");
    else if (bytes < 1024)
        snprintf(text, API_SIZE_TEXT, "%zu bytes", bytes);
    else
        snprintf(text, API_SIZE_TEXT, "%.1f %s (%s bytes)", size / 1024, units[unit], grouped);
    return text;
}
