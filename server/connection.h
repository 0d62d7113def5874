/* connection.h: one connection, the exchange on it, and the server they belong to (inside server/ only).
 *
 * An exchange goes IDLE -> HEAD -> BODY -> WORK -> REPLY -> IDLE. libmicrohttpd's thread of the connection makes every
 * step but two: the compute thread that finishes a suspended exchange (WORK), and the watch, which may end an idle
 * connection or one whose client stopped sending (LOST). A connection's lock guards its phase, its times, and the
 * request's life against the watch; nothing slow happens under it. Order of locks: the server's, then a connection's.
 */
#ifndef SERVER_CONNECTION_H
#define SERVER_CONNECTION_H

#include <microhttpd.h>

#include "server.h"

enum {
    MOST_URI = 8 << 10,   /* bytes of a request target */
    MOST_HEAD = 32 << 10, /* bytes of names and values of headers, with four each for what is around them */
    MOST_HEADERS = 100,
    SMALL_BODY = 64 << 10,  /* finished on the I/O thread where the work is small too; read on where it is refused */
    MOST_UNKEPT = 64 << 20, /* bytes past the limit of a chunked body that are read and forgotten */
    CONNECTION_MEMORY = 64 << 10, /* a head of the sizes above fits; zeroed by libmicrohttpd after each request */
    REQUEST_ID_SIZE = 129,
    TRACEPARENT_SIZE = 56,
};

typedef enum srv_phase { SRV_IDLE, SRV_HEAD, SRV_BODY, SRV_WORK, SRV_REPLY, SRV_LOST } srv_phase;

typedef struct srv_exchange {
    srv_ticket ticket; /* first: the queue hands it back */
    struct srv_connection *connection;
    api_request *request;      /* NULL: refused for its framing, or no memory */
    const api_response *reply; /* decided, perhaps not yet sent */
    api_response own;          /* of a reply without a request */
    char own_body[1024];
    int64_t begun;
    size_t target_length;
    char *query;        /* of the target, malloc'd; NULL: none, */
    bool query_is_lost; /* ... or no memory */
    uint64_t bytes_in, bytes_out, past_limit;
    int status;                   /* sent, 0: none yet */
    const api_protocol *protocol; /* of the path; NULL: not known yet */
    bool active, has_body, expects_continue, discards, lingers, closes, computing, cancelled, gone, finished;
    const char *rejected, *cancelled_at, *code; /* as in srv_record */
    char method[16], request_id[REQUEST_ID_SIZE], traceparent[TRACEPARENT_SIZE];
} srv_exchange;

typedef struct srv_connection {
    struct srv_connection *next, **link; /* the server's list */
    struct srv_server *server;
    struct MHD_Connection *mhd;
    uint64_t serial;
    int fd;
    char client[64]; /* numeric address */
    pthread_mutex_t lock;
    srv_phase phase;
    int64_t since;          /* of IDLE and WORK: when it began; of BODY: the last byte */
    int64_t head_since;     /* while IDLE: when bytes of a head were first seen, or 0 */
    uint64_t received;      /* bytes, when it became idle ... */
    bool received_is_known; /* ... where the watch has looked already */
    bool served;            /* at least one exchange has ended */
    srv_exchange exchange;
} srv_connection;

typedef struct srv_server {
    const srv_config *config;
    api_service service;
    srv_queue *queue;
    srv_metrics *metrics;
    struct MHD_Daemon *mhd;
    int listener;
    atomic_int readiness; /* API_STARTING, ... */
    atomic_bool closing;  /* every reply from now on says Connection: close */
    atomic_uint_least64_t accepted;
    pthread_mutex_t lock; /* of the list */
    srv_connection *connections;
    uint64_t serials;
    struct srv_watch *watch;
} srv_server;

/* ---- head.c ------------------------------------------------------------------------------------------------------ */

typedef struct srv_head { /* what the framing rules need to know of a head */
    struct MHD_Connection *mhd;
    size_t count, bytes, hosts, lengths, encodings;
    bool malformed, folded, chunked, expects_continue;
    const char *host, *content_length;
    char *joined[4]; /* values of repeated fields; srv_head_deinit frees them */
    size_t joins;
} srv_head;

void srv_head_read(srv_head *head, struct MHD_Connection *mhd);
void srv_head_deinit(srv_head *head);
/* Why the head is refused: a code of the contract, with *detail and *reason (of attentiond_rejected_total); or NULL. */
const char *srv_head_fault(const srv_head *head, const char *method, const char *version, size_t target_length,
                           const char **detail, const char **reason);
bool srv_head_has_body(const srv_head *head);
/* Whether the head is as long as its parts, `line` being the request line without its end. libmicrohttpd 0.9.75 drops
 * what follows a NUL, and takes a header line without a name for the end of the head: where a body then begins is
 * doubtful, so that nothing may follow on the connection. Blanks that are legal but unusual have the same effect. */
bool srv_head_is_plain(const srv_head *head, size_t line);
const char *srv_head_value(void *head, const char *name); /* for api_head */
/* The client's id where it is well-formed, else one of ours; likewise its traceparent, "" where it sent none. */
void srv_head_ids(const srv_head *head, char request_id[REQUEST_ID_SIZE], char traceparent[TRACEPARENT_SIZE]);

/* ---- connection.c ------------------------------------------------------------------------------------------------ */

srv_connection *srv_connection_open(srv_server *server, struct MHD_Connection *mhd); /* NULL: out of memory */
void srv_connection_close(srv_connection *connection);
/* Records the exchange in the log and the metrics, frees it, and leaves the connection idle. */
void srv_exchange_end(srv_connection *connection, enum MHD_RequestTerminationCode how);
/* Writes an error straight to the socket, past libmicrohttpd, which refuses to send anything in the middle of a body,
 * and ends the sending side; libmicrohttpd is then to be told to close. Only where it is not sending: phases IDLE,
 * HEAD, BODY. Caller holds the lock. */
void srv_connection_give_up(srv_connection *connection, const char *code, const char *detail);
/* Asks the engine to stop: API_CANCEL_*. Only in phase WORK. Caller holds the lock. */
void srv_connection_cancel(srv_connection *connection, int reason);
void srv_connections_count(srv_server *server, uint64_t *idle, uint64_t *active);

/* ---- watch.c ----------------------------------------------------------------------------------------------------- */

typedef struct srv_watch srv_watch;
srv_watch *srv_watch_start(srv_server *server); /* NULL: no thread, no descriptors, no memory */
void srv_watch_stop(srv_watch *watch);
/* Between these the connection is suspended, and a client that closes cancels its exchange. */
void srv_watch_add(srv_watch *watch, const srv_connection *connection);
void srv_watch_remove(srv_watch *watch, const srv_connection *connection);
/* Reads a connection on for a moment after the reply to a body that was not read, so that the reply is not lost to a
 * reset (RFC 9112, section 9.6). Takes its own descriptor. */
void srv_watch_linger(srv_watch *watch, int fd);
/* Bytes of a head waiting or read, so that the connection is not idle. Caller holds the lock. */
bool srv_connection_is_busy(srv_connection *connection);

/* ---- http.c ------------------------------------------------------------------------------------------------------ */

struct MHD_Daemon *srv_http_start(srv_server *server); /* NULL: logged */

#endif
