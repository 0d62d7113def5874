/* The lists of api.h: what the tables of routes, formats and errors hold. */
#include <string.h>

#include "formats.h"
#include "protocols.h"

/* Route number `index` of all protocols; NULL: there are fewer. */
static const api_route *route_at(size_t index) {
    const api_protocol *protocol;
    for (size_t p = 0; (protocol = api_protocol_at(p)); p++) {
        const api_route *route;
        size_t i = 0;
        for (; (route = protocol->route_at(i)); i++)
            if (i == index) return route;
        index -= i;
    }
    return NULL;
}

static bool is_repeated(size_t index) {
    const char *path = route_at(index)->path;
    for (size_t i = 0; i < index; i++)
        if (strcmp(route_at(i)->path, path) == 0) return true;
    return false;
}

const char *api_route_label(size_t index, bool *computes) {
    const api_route *route;
    *computes = false;
    for (size_t i = 0; (route = route_at(i)); i++) {
        if (is_repeated(i) || index-- > 0) continue;
        *computes = route->operation != NULL;
        return route->path;
    }
    return index == 0 ? "unmatched" : NULL;
}

const char *api_format_label(size_t index) {
    const api_body_format *body;
    size_t i = 0;
    for (; (body = api_body_format_at(i)); i++)
        if (i == index) return body->name;
    const api_protocol *protocol;
    for (size_t p = 0; (protocol = api_protocol_at(p)); p++)
        if (protocol->body && i++ == index) return protocol->body->name;
    return NULL;
}

const char *api_code_label(size_t index) {
    return index < API_CODE_COUNT - 1 ? api_codes[API_NO_ERROR + 1 + index].code : NULL;
}

const char *api_operation_label(size_t index) {
    size_t count = 0;
    while (api_operations[count]) count++;
    return index < count ? api_operations[index]->schema.name : NULL;
}
