#include "fields.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

const api_known_name api_fields[API_FIELD_COUNT] = {
#define ROW(name, field, endpoints) {field, endpoints},
    API_FIELD_LIST(ROW)
#undef ROW
};

const api_known_name api_names[API_NAME_COUNT] = {
#define ROW(name, text, endpoints) {text, endpoints},
    API_NAME_LIST(ROW)
#undef ROW
};

size_t api_known_find(const api_known_name *names, size_t count, api_endpoint endpoint, const char *name) {
    for (size_t i = 0; i < count; i++)
        if ((names[i].endpoints & endpoint) && strcmp(names[i].name, name) == 0) return i;
    return count;
}

enum { LONGEST = 24 }; /* letters that are compared: more than any known name has */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Edit distance with transposition of neighbours (optimal string alignment), of the first LONGEST letters. */
static size_t distance(const char *a, const char *b) {
    const size_t m = strnlen(a, LONGEST), n = strnlen(b, LONGEST);
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= m; i++) d[i][0] = i;
    for (size_t j = 0; j <= n; j++) d[0][j] = j;
    for (size_t i = 1; i <= m; i++)
        for (size_t j = 1; j <= n; j++) {
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[m][n];
}

const char *api_known_nearest(const api_known_name *names, size_t count, api_endpoint endpoint, const char *name) {
    const char *nearest = "";
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (!(names[i].endpoints & endpoint)) continue;
        const size_t d = distance(name, names[i].name);
        if (d < best) {
            best = d;
            nearest = names[i].name;
        }
    }
    return nearest;
}

void api_known_list(const api_known_name *names, size_t count, api_endpoint endpoint, char *text, size_t capacity) {
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && length < capacity; i++)
        if (names[i].endpoints & endpoint)
            length += (size_t)snprintf(text + length, capacity - length, "%s%s", length ? ", " : "", names[i].name);
}
