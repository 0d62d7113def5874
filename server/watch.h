/* watch.h: one thread beside libmicrohttpd's that does what the library does not: it notices that the client of a
 * suspended connection has left, enforces the times of heads, bodies and computing, closes connections whose client
 * will send no more, and serves the lingering sockets.
 */
#ifndef SERVER_WATCH_H
#define SERVER_WATCH_H

#include "connection.h"
#include "settings.h"

typedef struct srv_watch srv_watch;

/* Borrows the list (with its lingers) and the settings. NULL: errno says why. */
srv_watch *srv_watch_start(srv_connections *list, const srv_settings *settings);
void srv_watch_stop(srv_watch *watch); /* NULL is allowed */
/* Between these two the connection is suspended, and its exchange is cancelled if its client closes. The caller holds
 * the connection's lock. */
void srv_watch_add(srv_watch *watch, const srv_connection *connection);
void srv_watch_remove(srv_watch *watch, const srv_connection *connection);

#endif
