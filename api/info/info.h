/* info.h: endpoints that compute nothing (inside api/ only). A new one is a file with its function and a row here. */
#ifndef API_INFO_H
#define API_INFO_H

#include "../http/request.h"

#define API_TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8" /* Prometheus */

/*      name, path, methods, type of the 200, whether Accept is ignored, exists, begin; finish is api_answer_NAME */
#define API_INFO_LIST(ROW)                                                                  \
    ROW(healthz, "/healthz", API_ALLOW_GET, API_TYPE_JSON, true, NULL, NULL)                \
    ROW(readyz, "/readyz", API_ALLOW_GET, API_TYPE_JSON, true, NULL, NULL)                  \
    ROW(version, "/version", API_ALLOW_GET, API_TYPE_JSON, false, NULL, NULL)               \
    ROW(metrics, "/metrics", API_ALLOW_GET, API_TYPE_METRICS, false, api_has_metrics, NULL) \
    ROW(openapi, "/openapi.json", API_ALLOW_GET, API_TYPE_JSON, false, NULL, NULL)          \
    ROW(estimate, "/estimate", API_ALLOW_GET, API_TYPE_JSON, false, NULL, api_estimate_begin)

#define ROW(name, path, allow, type, ignored, exists, begin) void api_answer_##name(api_request *request);
API_INFO_LIST(ROW)
#undef ROW

void api_estimate_begin(api_request *request, const api_head *head);
bool api_has_metrics(const api_service *service);

#endif
