/* drain.h: from a signal to the end of the last request. */
#ifndef SERVER_DRAIN_H
#define SERVER_DRAIN_H

#include "server.h"

/* Serves on for drain-delay, stops listening, waits up to drain-timeout for requests in flight, gives up the rest, and
 * stops the HTTP server. For the main thread. */
void srv_drain(srv_server *server, int signal);

#endif
