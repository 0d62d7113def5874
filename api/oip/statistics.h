/* statistics.h: the protocol's extension `statistics` (inside api/oip only). */
#ifndef API_OIP_STATISTICS_H
#define API_OIP_STATISTICS_H

#include "../http/request.h"

/* Counts a request that has been answered, if it computes. */
void api_oip_count(api_request *request);
/* As `finish` of a route: of request->operation, or of all models if that is NULL. */
void api_oip_answer_statistics(api_request *request);

#endif
