/* routes.h: the plain protocol: the service's own paths, JSON or safetensors, problem details (inside api/ only). */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "http/protocol.h"

extern const api_protocol api_plain;

#endif
