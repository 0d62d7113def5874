/* protocols.h: the protocols that the service speaks (inside api/ only). */
#ifndef API_PROTOCOLS_H
#define API_PROTOCOLS_H

#include "http/request.h"

/* NULL after the last, which is the plain one */
const api_protocol *api_protocol_at(size_t index);

/* Writes what is wrong with a path that the protocol does not have, and what there is. */
enum { API_ABSENCE_TEXT = 512 };
void api_explain_absence(const api_service *service, const api_protocol *protocol, const char *path,
                         char text[API_ABSENCE_TEXT]);

#endif
