#include "routes.h"

#include <string.h>

#include "info/info.h"
#include "page/page.h"

static const api_route routes[] = {
#define ROW(name) {.path = "/" #name, .allow = API_ALLOW_POST, .operation = &api_##name},
    API_OPERATION_LIST(ROW)
#undef ROW
#define ROW(name, path, allow, type, ignored, exists, begin) \
    {path, allow, NULL, type, ignored, exists, begin, api_answer_##name},
        API_INFO_LIST(ROW)
#undef ROW
            {"/", API_ALLOW_GET, NULL, NULL, true, api_has_page, api_page_begin, api_page_answer},
    {"/page/{file}", API_ALLOW_GET, NULL, NULL, true, api_has_page, api_page_begin, api_page_answer},
};
enum { ROUTES = sizeof routes / sizeof *routes };

static const api_route *route_at(size_t index) { return index < ROUTES ? &routes[index] : NULL; }

/* true for the path itself; a name in braces at its end stands for any one segment */
static bool is_path(const char *route, const char *path) {
    const size_t fixed = strcspn(route, "{");
    if (strncmp(route, path, fixed) != 0) return false;
    return route[fixed] ? path[fixed] && !strchr(path + fixed, '/') : !path[fixed];
}

static const api_route *find(const char *path) {
    for (size_t i = 0; i < ROUTES; i++)
        if (is_path(routes[i].path, path)) return &routes[i];
    return NULL;
}

const api_protocol api_plain = {.root = "", .find = find, .route_at = route_at};
