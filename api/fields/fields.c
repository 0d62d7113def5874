#include "fields.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../api.h"

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

const char *api_known_nearest(const api_known_name *names, size_t count, api_endpoint endpoint, const char *name) {
    const char *nearest = "";
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (!(names[i].endpoints & endpoint)) continue;
        const size_t d = api_edit_distance(name, names[i].name);
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
