#include "values.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

bool srv_read_count(const char *text, uint64_t *value) {
    uint64_t result = 0;
    if (!*text) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (result > (UINT64_MAX - digit) / 10) return false;
        result = result * 10 + digit;
    }
    *value = result;
    return true;
}

/* Reads digits with at most one point, without sign or exponent; *end is what follows. */
static bool read_decimal(const char *text, double *value, const char **end) {
    double result = 0, unit = 1;
    bool digits = false, point = false;
    for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        digits = true;
        result = result * 10 + (*text - '0');
        if (point) unit *= 10;
    }
    *value = result / unit;
    *end = text;
    return digits && isfinite(*value);
}

bool srv_read_size(const char *text, uint64_t *bytes) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {
        {"", 1},         {"B", 1},       {"K", 0x1p10},   {"KB", 0x1p10}, {"KiB", 0x1p10},
        {"M", 0x1p20},   {"MB", 0x1p20}, {"MiB", 0x1p20}, {"G", 0x1p30},  {"GB", 0x1p30},
        {"GiB", 0x1p30}, {"T", 0x1p40},  {"TiB", 0x1p40},
    };
    double value;
    const char *unit;
    if (!read_decimal(text, &value, &unit)) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(unit, units[i].name) == 0) {
            value *= units[i].bytes;
            if (!(value < 0x1p62)) return false;
            *bytes = (uint64_t)value;
            return true;
        }
    return false;
}

bool srv_read_time(const char *text, double *seconds) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"min", 60}, {"h", 3600}};
    double value;
    const char *unit;
    if (!read_decimal(text, &value, &unit)) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0) {
            *seconds = value * units[i].seconds;
            return *seconds <= 1e6;
        }
    return false;
}
