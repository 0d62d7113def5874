/* info.h: endpoints that compute nothing: each is a function that answers (inside api/ only). */
#ifndef API_INFO_H
#define API_INFO_H

#include "../http/request.h"

#define API_TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8" /* Prometheus */

void api_answer_healthz(api_request *request); /* health.c */
void api_answer_readyz(api_request *request);
void api_answer_version(api_request *request); /* version.c */
void api_answer_metrics(api_request *request); /* metrics.c */
bool api_has_metrics(const api_service *service);
void api_answer_openapi(api_request *request); /* openapi.c */

#endif
