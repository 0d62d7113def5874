/* ids.h: X-Request-Id and traceparent (W3C Trace Context, version 00). Safe from any thread. */
#ifndef SERVER_IDS_H
#define SERVER_IDS_H

enum { REQUEST_ID_SIZE = 129, TRACEPARENT_SIZE = 56 };

/* The client's id if it is well-formed, else a new one. NULL: the client sent none. */
void srv_request_id(char id[REQUEST_ID_SIZE], const char *sent);
/* The same, but "" if the client sent none. */
void srv_traceparent(char parent[TRACEPARENT_SIZE], const char *sent);

#endif
