/* routes.h: the paths under /v2 (inside api/oip only). */
#ifndef API_OIP_ROUTES_H
#define API_OIP_ROUTES_H

#include "../http/protocol.h"

/* As in api_protocol. */
const api_route *api_oip_find(const char *path);
const api_route *api_oip_route_at(size_t index);
void api_oip_explain_absence(const char *path, char *text, size_t capacity);

#endif
