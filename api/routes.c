#include "routes.h"

#include <string.h>

#include "endpoints/operation.h"
#include "oip/oip.h"

#define JSON "application", "json", "application/json"
#define PLAIN "text", "plain", "text/plain; version=0.0.4; charset=utf-8"

static const api_route routes[] = {
    {"/attention", "POST, OPTIONS", true, &api_attention, 0, JSON},
    {"/mha", "POST, OPTIONS", true, &api_mha, 0, JSON},
    {"/healthz", "GET, HEAD, OPTIONS", false, NULL, API_HEALTHZ, JSON},
    {"/readyz", "GET, HEAD, OPTIONS", false, NULL, API_READYZ, JSON},
    {"/version", "GET, HEAD, OPTIONS", false, NULL, API_VERSION, JSON},
    {"/metrics", "GET, HEAD, OPTIONS", false, NULL, API_METRICS, PLAIN},
    {"/openapi.json", "GET, HEAD, OPTIONS", false, NULL, API_OPENAPI, JSON},
};

const api_route *api_route_find(const char *path) {
    if (api_under_v2(path)) return api_oip_route(path);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (strcmp(routes[i].path, path) == 0) return &routes[i];
    return NULL;
}

api_method api_method_of(const char *name) {
    static const struct {
        const char *name;
        api_method method;
    } methods[] = {
        {"POST", API_POST},
        {"GET", API_GET},
        {"HEAD", API_HEAD},
        {"OPTIONS", API_OPTIONS},
        {"PUT", API_OTHER_METHOD},
        {"DELETE", API_OTHER_METHOD},
        {"PATCH", API_OTHER_METHOD},
        {"TRACE", API_OTHER_METHOD},
        {"CONNECT", API_OTHER_METHOD},
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0) return methods[i].method;
    return API_UNKNOWN_METHOD;
}

bool api_route_allows(const api_route *route, api_method method) {
    if (method == API_OPTIONS) return true;
    if (method == API_POST) return strstr(route->allow, "POST") != NULL;
    return (method == API_GET || method == API_HEAD) && strstr(route->allow, "GET") != NULL;
}
