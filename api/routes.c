#include "routes.h"

#include <string.h>

#include "info/info.h"

static const api_route routes[] = {
#define ROW(name) {.path = "/" #name, .allow = API_ALLOW_POST, .operation = &api_##name},
    API_OPERATION_LIST(ROW)
#undef ROW
        {"/healthz", API_ALLOW_GET, NULL, API_TYPE_JSON, false, NULL, NULL, api_answer_healthz},
    {"/readyz", API_ALLOW_GET, NULL, API_TYPE_JSON, false, NULL, NULL, api_answer_readyz},
    {"/version", API_ALLOW_GET, NULL, API_TYPE_JSON, false, NULL, NULL, api_answer_version},
    {"/metrics", API_ALLOW_GET, NULL, API_TYPE_METRICS, false, api_has_metrics, NULL, api_answer_metrics},
    {"/openapi.json", API_ALLOW_GET, NULL, API_TYPE_JSON, false, NULL, NULL, api_answer_openapi},
};
enum { ROUTES = sizeof routes / sizeof *routes };

static const api_route *route_at(size_t index) { return index < ROUTES ? &routes[index] : NULL; }

static const api_route *find(const char *path) {
    for (size_t i = 0; i < ROUTES; i++)
        if (strcmp(routes[i].path, path) == 0) return &routes[i];
    return NULL;
}

const api_protocol api_plain = {.root = "", .find = find, .route_at = route_at};
