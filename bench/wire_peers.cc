// wire_peers.cc: simdjson and std::to_chars behind C functions.
#include "wire_peers.h"

#include <charconv>
#include <simdjson.h>

static_assert(PEER_PADDING >= simdjson::SIMDJSON_PADDING, "padding of a text");

template <typename real> static size_t read_rows(simdjson::ondemand::array rows, real *array) {
    size_t count = 0;
    for (simdjson::ondemand::array row : rows)
        for (double number : row) array[count++] = static_cast<real>(number);
    return count;
}

size_t peer_simdjson(const char *text, size_t length, bool f64, void *array) {
    static simdjson::ondemand::parser parser; // kept, as its documentation advises
    try {
        simdjson::ondemand::document document = parser.iterate(text, length, length + PEER_PADDING);
        simdjson::ondemand::array rows = document["k"];
        return f64 ? read_rows(rows, static_cast<double *>(array)) : read_rows(rows, static_cast<float *>(array));
    } catch (const simdjson::simdjson_error &) {
        return 0;
    }
}

size_t peer_to_chars(const float *array, size_t rows, size_t columns, char *text) {
    char *p = text;
    *p++ = '[';
    for (size_t i = 0; i < rows; i++) {
        if (i > 0) *p++ = ',';
        *p++ = '[';
        for (size_t j = 0; j < columns; j++) {
            if (j > 0) *p++ = ',';
            p = std::to_chars(p, p + 16, array[i * columns + j]).ptr;
        }
        *p++ = ']';
    }
    *p++ = ']';
    return static_cast<size_t>(p - text);
}

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
const char *peer_simdjson_version(void) { return TEXT_OF(SIMDJSON_VERSION); }
