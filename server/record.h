/* record.h: what the log and the metrics learn of a request when it has ended. */
#ifndef SERVER_RECORD_H
#define SERVER_RECORD_H

#include <stdint.h>

#include "../api/api.h"

/* Why a request was refused before any work, as attentiond_rejected_total says it. */
#define SRV_REASON_LIST(ROW)      \
    ROW(QUEUE_FULL, "queue_full") \
    ROW(MEMORY, "memory")         \
    ROW(WAIT, "wait")             \
    ROW(BODY, "body")             \
    ROW(HEADERS, "headers")       \
    ROW(FRAMING, "framing")       \
    ROW(DRAINING, "draining")

/* What a request was doing when it was cancelled: its client left, or its time was up. */
#define SRV_CANCELLED_LIST(ROW) \
    ROW(UPLOAD, "upload")       \
    ROW(QUEUE, "queue")         \
    ROW(COMPUTE, "compute")     \
    ROW(REPLY, "reply")

#define ROW(name, text) SRV_REASON_##name,
typedef enum srv_reason { SRV_NO_REASON, SRV_REASON_LIST(ROW) SRV_REASONS } srv_reason;
#undef ROW
#define ROW(name, text) SRV_CANCELLED_##name,
typedef enum srv_cancelled { SRV_NOT_CANCELLED, SRV_CANCELLED_LIST(ROW) SRV_CANCELLED } srv_cancelled;
#undef ROW

extern const char *const srv_reason_names[SRV_REASONS];      /* NULL for SRV_NO_REASON */
extern const char *const srv_cancelled_names[SRV_CANCELLED]; /* NULL for SRV_NOT_CANCELLED */

typedef struct srv_record { /* strings live during the call only; NULL: unknown, or none */
    const char *method, *route, *client, *request_id, *trace_id;
    int status; /* 499: the client left before its reply */
    uint64_t bytes_in, bytes_out;
    double seconds; /* first byte of the head to last byte of the reply */
    srv_reason rejected;
    srv_cancelled cancelled;
    const api_trace *trace; /* NULL: the head was refused before it became a request */
    const char *code;       /* of the error */
} srv_record;

#endif
