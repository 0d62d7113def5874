/* server.h: the parts of a running daemon, put together by lifecycle.c. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "connection.h"
#include "metrics.h"
#include "queue.h"
#include "settings.h"
#include "watch.h"

typedef struct srv_server {
    const srv_settings *settings;
    api_service service;
    srv_connections connections; /* with metrics and lingers */
    srv_queue *queue;
    srv_watch *watch;
    struct MHD_Daemon *mhd;
    int listener;
    atomic_int readiness; /* API_STARTING, ... */
    atomic_bool closing;  /* every reply from now on says Connection: close */
} srv_server;

#endif
