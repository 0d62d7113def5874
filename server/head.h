/* head.h: the head of a request as libmicrohttpd read it, and whether its framing can be trusted.
 *
 * For the I/O thread of the connection, within one call of the library.
 */
#ifndef SERVER_HEAD_H
#define SERVER_HEAD_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "record.h"

enum {
    MOST_URI = 8 << 10,   /* bytes of a request target */
    MOST_HEAD = 32 << 10, /* bytes of all header fields: name, value, and four for colon, blank and line end */
    MOST_HEADERS = 100,
};

typedef struct srv_head {
    struct MHD_Connection *mhd;
    size_t count, bytes, hosts, lengths, encodings;
    bool malformed, folded, chunked, expects_continue;
    const char *host, *content_length;
    char *joined[4]; /* values of repeated fields, malloc'd */
    size_t joins;
} srv_head;

void srv_head_read(srv_head *head, struct MHD_Connection *mhd);
void srv_head_deinit(srv_head *head);

typedef struct srv_head_fault {
    const char *code, *detail; /* of the error; static */
    srv_reason reason;
} srv_head_fault;

/* false: the request must be refused, and *fault says why. */
bool srv_head_check(const srv_head *head, const char *method, const char *version, size_t target_length,
                    srv_head_fault *fault);
bool srv_head_has_body(const srv_head *head);
/* Whether the head is exactly as long as its parts; `line` is the length of the request line without its end.
 * libmicrohttpd 0.9.75 drops what follows a NUL, and takes a header line without a name for the end of the head. The
 * place at which a body then begins is doubtful, so nothing may follow on the connection. Unusual but legal blanks have
 * the same effect. */
bool srv_head_is_plain(const srv_head *head, size_t line);
/* A value by its lower-case name, for api_head. It lives as long as the head. */
const char *srv_head_value(void *head, const char *name);

#endif
