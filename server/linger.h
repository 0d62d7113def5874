/* linger.h: sockets that stay open for a moment after a reply to a body that was not read.
 *
 * A close with unread bytes resets the connection, and the client may lose the reply (RFC 9112, section 9.6). So the
 * bytes are read and dropped for up to 2 s first. Beyond 256 such sockets a connection is closed without this.
 */
#ifndef SERVER_LINGER_H
#define SERVER_LINGER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct srv_lingers srv_lingers;

srv_lingers *srv_lingers_new(void);          /* NULL: errno says why */
void srv_lingers_free(srv_lingers *lingers); /* closes all; NULL is allowed */
/* Ends the sending side of a socket and keeps a duplicate of its descriptor. Safe from any thread. */
void srv_linger(srv_lingers *lingers, int fd);
/* Readable while srv_lingers_read has something to do; for the epoll set of the thread that calls it. */
int srv_lingers_fd(const srv_lingers *lingers);
void srv_lingers_read(srv_lingers *lingers);
void srv_lingers_expire(srv_lingers *lingers, int64_t now); /* closes those whose time has passed */

#endif
