/* The table of protocols. A new one is a folder that defines its row, and its name here. */
#include "protocols.h"

#include <stdio.h>
#include <string.h>

#define PROTOCOL_LIST(ROW) ROW(oip) ROW(plain) /* the last has the paths that are left */

#define ROW(name) extern const api_protocol api_##name;
PROTOCOL_LIST(ROW)
#undef ROW
#define ROW(name) &api_##name,
static const api_protocol *const protocols[] = {PROTOCOL_LIST(ROW)};
#undef ROW
enum { PROTOCOLS = sizeof protocols / sizeof *protocols };

const api_protocol *api_protocol_at(size_t index) { return index < PROTOCOLS ? protocols[index] : NULL; }

const api_protocol *api_protocol_of(const char *path) {
    size_t i = 0;
    for (; i + 1 < PROTOCOLS; i++) {
        const size_t length = strlen(protocols[i]->root);
        if (strncmp(path, protocols[i]->root, length) == 0 && strchr("/?", path[length]) != NULL) break;
    }
    return protocols[i];
}

static void add(char text[API_ABSENCE_TEXT], const char *before, const char *name) {
    const size_t length = strlen(text);
    snprintf(text + length, API_ABSENCE_TEXT - length, "%s%s", before, name);
}

/* "; GET /version, /v2": what `method` is for */
static void add_paths(char text[API_ABSENCE_TEXT], const api_service *service, const char *method) {
    bool first = true;
    const api_route *route;
    for (size_t i = 0; (route = api_plain.route_at(i)); i++) {
        if (strncmp(route->allow, method, strlen(method)) != 0 || (route->exists && !route->exists(service))) continue;
        if (strchr(route->path, '{')) continue; /* no path itself */
        if (first) add(text, text[strlen(text) - 1] == ':' ? " " : "; ", method);
        add(text, first ? " " : ", ", route->path);
        first = false;
    }
}

void api_explain_absence(const api_service *service, const api_protocol *protocol, const char *path,
                         char text[API_ABSENCE_TEXT]) {
    if (protocol->explain_absence) {
        protocol->explain_absence(path, text, API_ABSENCE_TEXT);
        return;
    }
    snprintf(text, API_ABSENCE_TEXT, "no such path: %.200s; available:", path);
    add_paths(text, service, "POST");
    add_paths(text, service, "GET");
    for (size_t i = 0; i + 1 < PROTOCOLS; i++) add(text, ", ", protocols[i]->root);
}
