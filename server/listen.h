/* listen.h: the listening socket. It is bound early, so that a taken port is reported at once, and listens when the
 * daemon can answer. Called by the main thread. */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include <stdbool.h>

#include "settings.h"

enum { SRV_URL_SIZE = 128, SRV_MESSAGE_SIZE = 256 };

/* The bound socket; -1: it cannot be bound, -2: bad host, and message says why in one line. */
int srv_bind(const srv_settings *settings, char message[SRV_MESSAGE_SIZE]);
/* false: message says why. */
bool srv_listen(int fd, const srv_settings *settings, char message[SRV_MESSAGE_SIZE]);
/* The host as it was set, and the port that was bound: "http://[::1]:8080". */
void srv_url(int fd, const srv_settings *settings, char url[SRV_URL_SIZE]);

#endif
