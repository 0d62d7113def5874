/* systemd.h: what sd_notify(3) does, without its library. */
#ifndef SERVER_SYSTEMD_H
#define SERVER_SYSTEMD_H

void srv_systemd_notify(const char *state); /* "READY=1"; does nothing without NOTIFY_SOCKET */

#endif
