/* routes.h: the paths of the service and the methods of each (inside api/ only). */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "api.h"
#include "base/error.h"

typedef enum api_info {
    API_HEALTHZ,
    API_READYZ,
    API_VERSION,
    API_METRICS,
    API_OPENAPI,
    API_OIP_SERVER, /* those of the Open Inference Protocol: oip.h */
    API_OIP_LIVE,
    API_OIP_READY,
    API_OIP_MODEL,
    API_OIP_MODEL_READY,
    API_OIP_CONFIG,
    API_OIP_STATS,
    API_OIP_ALL_STATS,
    API_OIP_INDEX,
    API_OIP_REPOSITORY,
    API_OIP_MEMORY_STATUS,
    API_OIP_MEMORY_REGISTER,
    API_OIP_MEMORY_UNREGISTER,
    API_OIP_LOGGING,
    API_OIP_TRACING,
    API_OIP_INFER,
} api_info;

typedef struct api_route {
    const char *path;
    const char *allow;                     /* the value of Allow */
    bool computes;                         /* POST to an endpoint; else an info */
    const struct api_operation *operation; /* of a POST to an endpoint, and of infos about one */
    api_info info;
    const char *type, *subtype; /* media type of a 200 */
    const char *content_type;
} api_route;

/* NULL: no such path */
const api_route *api_route_find(const char *path);

typedef enum api_method { API_GET, API_HEAD, API_POST, API_OPTIONS, API_OTHER_METHOD, API_UNKNOWN_METHOD } api_method;
api_method api_method_of(const char *name);
/* true for a method that the route answers, OPTIONS included */
bool api_route_allows(const api_route *route, api_method method);

#endif
