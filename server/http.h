/* http.h: libmicrohttpd's side of the daemon: heads, bodies and replies, and which thread computes. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server.h"

/* Serves on server->listener, which listens already; everything else of the server must be ready. NULL: failed, errno
 * may say why. */
struct MHD_Daemon *srv_http_start(srv_server *server);

#endif
