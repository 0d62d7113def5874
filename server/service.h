/* service.h: the engine and the memory budget that all requests share, for the daemon and for `attentiond call`. */
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include <stdbool.h>

#include "../api/api.h"
#include "settings.h"

/* Called by the main thread before it starts threads of its own. false: a line on stderr was written. */
bool srv_service_init(api_service *service, const srv_settings *settings);
void srv_service_deinit(api_service *service); /* waits for what the pool still runs */
/* The kernel of this name, "" being the best. NULL: unknown, or this CPU does not support it. */
const attn_kernel *srv_kernel(const char *name);

#endif
