#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reader_internal.h"

void api_reader_fail(api_reader *reader, uint64_t byte, uint64_t column, const char *detail, ...) {
    if (reader->failed) return;
    reader->failed = true;
    char text[400];
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    api_error_set(&reader->error, API_INVALID_JSON, (api_place){0}, NULL,
                  "line %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64 "): %s", reader->line, column, byte, text);
}

void api_reader_expected(api_reader *reader, const uint8_t *p, const uint8_t *end, const char *expected) {
    const uint64_t byte = api_reader_byte(reader, p), column = api_reader_column(reader, byte);
    if (p == end)
        api_reader_fail(reader, byte, column, "expected %s, found the end of the body", expected);
    else if (*p > ' ' && *p < 0x7F)
        api_reader_fail(reader, byte, column, "expected %s, found '%c'", expected, *p);
    else
        api_reader_fail(reader, byte, column, "expected %s, found the byte 0x%02X", expected, *p);
}

bool api_reader_grow(api_reader *reader, void *array, size_t *capacity, size_t count, size_t size) {
    if (count <= *capacity) return true;
    size_t room = *capacity < 32 ? 64 : *capacity * 2;
    if (room < count) room = count;
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    grown = api_resize(reader->memory, old, room * size);
    if (!grown) {
        reader->exhausted = true;
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *capacity = room;
    return true;
}
