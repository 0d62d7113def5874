/* connection.h: the connections, and the exchange (a request and its reply) on each.
 *
 * An exchange goes IDLE -> HEAD -> BODY -> WORK -> REPLY -> IDLE. The I/O thread of the connection makes every step,
 * except that the compute thread finishes a suspended exchange (WORK), and that the watch may end a connection (LOST)
 * whose client is idle or stopped sending. The lock of a connection guards its phase, its times, and what the watch and
 * the compute thread share with the I/O thread; nothing slow happens under it. Order of locks: the list's, then a
 * connection's.
 */
#ifndef SERVER_CONNECTION_H
#define SERVER_CONNECTION_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "ids.h"
#include "linger.h"
#include "metrics.h"
#include "queue.h"
#include "record.h"

typedef enum srv_phase { SRV_IDLE, SRV_HEAD, SRV_BODY, SRV_WORK, SRV_REPLY, SRV_LOST } srv_phase;

typedef struct srv_lost { /* the reply that srv_connection_give_up sent */
    int status;
    size_t length;
    const char *code;
    srv_reason reason;
} srv_lost;

typedef struct srv_exchange {
    srv_ticket ticket; /* must be first: the queue hands it back */
    struct srv_connection *connection;
    api_request *request;      /* NULL: refused for its framing, or out of memory */
    const api_response *reply; /* decided, perhaps not sent yet */
    api_response own;          /* of a reply without a request */
    char own_body[1024];
    int64_t begun;
    size_t target_length;
    char *query;        /* of the target, malloc'd; NULL: none, */
    bool query_is_lost; /* ... or out of memory */
    uint64_t bytes_in, bytes_out, past_limit;
    int status;                                /* of the reply that was queued; 0: none yet */
    const api_protocol *protocol;              /* of the path; NULL: not known yet */
    bool active;                               /* begun and not ended; under the lock */
    bool has_body;                             /* the head announces one */
    bool expects_continue;                     /* the client waits for 100 */
    bool discards;                             /* decided: the body is read and dropped */
    bool lingers;                              /* the body is not read to its end */
    bool closes;                               /* the head is doubtful: nothing may follow */
    bool computing, cancelled, gone, finished; /* of WORK; under the lock */
    srv_reason rejected;
    srv_cancelled cancelled_at;
    const char *code; /* of a reply without a request */
    srv_lost lost;    /* of LOST; under the lock */
    char method[16], request_id[REQUEST_ID_SIZE], traceparent[TRACEPARENT_SIZE];
} srv_exchange;

typedef struct srv_connection {
    struct srv_connection *next, **link; /* of the list */
    struct srv_connections *list;
    struct srv_server *server; /* for http.c */
    struct MHD_Connection *mhd;
    uint64_t serial; /* never 0 */
    int fd;
    char client[64]; /* numeric address */
    pthread_mutex_t lock;
    srv_phase phase;
    int64_t since;          /* of IDLE and WORK: when it began; of BODY: the last byte */
    int64_t head_since;     /* of IDLE: when bytes of a head were first seen, or 0 */
    uint64_t received;      /* bytes when it became idle, */
    bool received_is_known; /* ... if the watch has looked already */
    bool served;            /* at least one exchange has ended */
    srv_exchange exchange;
} srv_connection;

typedef struct srv_connections {
    pthread_mutex_t lock;
    srv_connection *first;
    uint64_t serials;
    atomic_uint_least64_t accepted, in_flight; /* connections; requests */
    srv_metrics *metrics;
    srv_lingers *lingers;
    const char *kernel; /* for the log */
} srv_connections;

/* ---- the list: safe from any thread ------------------------------------------------------------------------------ */

/* Calls visit for each connection, with both locks held. Returns the number of connections. */
size_t srv_connections_each(srv_connections *list, void (*visit)(srv_connection *connection, void *arg), void *arg);
size_t srv_connections_count(srv_connections *list, bool active); /* those that are not IDLE, or those that are */

/* ---- one connection: its I/O thread ------------------------------------------------------------------------------ */

/* NULL: out of memory */
srv_connection *srv_connection_open(srv_connections *list, struct MHD_Connection *mhd, struct srv_server *server);
void srv_connection_close(srv_connection *connection);
/* Begins an exchange for this path. false: one has begun already, or the connection is lost. */
bool srv_exchange_begin(srv_connection *connection, const char *path);
/* Puts the exchange into the phase and notes the time. false: the connection is lost. */
bool srv_exchange_enter(srv_connection *connection, srv_phase phase);
/* Makes the reply of an exchange that has no request. */
const api_response *srv_exchange_fail(srv_exchange *x, const char *code, const char *detail, srv_reason reason);
/* Records the exchange in the log and the metrics, frees it, and leaves the connection idle. Does nothing if none has
 * begun. */
void srv_exchange_end(srv_connection *connection, enum MHD_RequestTerminationCode how);

/* ---- one connection: any thread that holds its lock -------------------------------------------------------------- */

/* Writes an error to the socket directly, as libmicrohttpd sends nothing in the middle of a body, and ends the sending
 * side. The caller then makes the library close the connection. Only in phases IDLE, HEAD, BODY. */
void srv_connection_give_up(srv_connection *connection, const char *code, const char *detail, srv_reason reason);
/* Asks the engine to stop: API_CANCEL_*. Only in phase WORK. */
void srv_connection_cancel(srv_connection *connection, int reason);
/* Whether bytes of a head wait or were read since the connection became idle. */
bool srv_connection_has_input(srv_connection *connection);
/* Whether the client has closed its sending side and all that it sent has been read. */
bool srv_connection_has_ended(const srv_connection *connection);

#endif
