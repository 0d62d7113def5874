/* api.h: bytes of a request in, bytes of a reply out (docs/api.md is the contract it keeps).
 *
 * The only public header of api/. It knows nothing of sockets: begin, push, finish are all that a server, a test or a
 * fuzzer needs. A request object is used by one thread at a time, but may move between threads.
 *
 *     api_request *r = api_begin(service, &head);     // routes by method and path, checks headers
 *     while (bytes come) api_push(r, bytes, n);       // decodes tensors as they arrive
 *     double work = api_work(r);                      // optional: how much finish will have to do
 *     const api_response *a = api_finish(r);          // computes and encodes
 *     ... send a ...; api_request_free(r);
 */
#ifndef ATTENTIOND_API_H
#define ATTENTIOND_API_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../core/attention.h"

/* ---- the service: what all requests share ----------------------------------------------------------------------- */

/* Bytes that requests in flight hold together. limit 0: unbounded. */
typedef struct api_budget {
    atomic_size_t used;
    size_t limit;
} api_budget;

/* A library that the host uses, for /version. */
typedef struct api_library {
    const char *name, *version;
} api_library;

/* What the host (the server) answers for; any function may be NULL: ready, and no metrics (404). */
typedef struct api_host {
    void *context;
    /* API_READY, or why the service takes no work: 503 not_ready or shutting_down */
    int (*readiness)(void *context);
    /* Prometheus text, malloc'd, length in *length; NULL: out of memory */
    char *(*metrics)(void *context, size_t *length);
    const api_library *libraries; /* name NULL ends the list; NULL: none */
} api_host;
enum { API_READY, API_STARTING, API_DRAINING };

/* What the requests of an operation came to, on a protocol that tells its clients: how many, and nanoseconds of all of
 * them. */
typedef struct api_tally {
    atomic_uint_least64_t count, ns;
} api_tally;
typedef struct api_statistics {
    api_tally success, fail, queue, compute_input, compute_infer, compute_output;
    atomic_uint_least64_t last_inference; /* milliseconds since 1970 */
} api_statistics;
enum { API_MOST_OPERATIONS = 16 };

typedef struct api_service {
    attn_engine engine;
    size_t max_body;   /* bytes; a longer body is 413 */
    bool no_page;      /* 404 at / and for the files of the page */
    api_budget budget; /* --max-memory */
    api_host host;
    api_statistics statistics[API_MOST_OPERATIONS];
} api_service;

extern const char api_version[];         /* of the program, "1.0.0" */
extern const char api_revision[];        /* of the source it was built from */
extern const char api_jansson_version[]; /* of the library that is linked */

/* ---- one request ------------------------------------------------------------------------------------------------ */

typedef struct api_request api_request;

typedef struct api_head {
    const char *method; /* "POST" */
    const char *path;   /* "/attention", without the query string, as it stood on the wire */
    /* Value of a header by its name in lower case, or NULL: content-type, content-encoding, content-length, accept,
     * accept-encoding, if-none-match, inference-header-content-length. Several fields of one name come joined by ", ".
     * NULL as a function: no headers. */
    const char *(*header)(void *context, const char *name);
    void *context;
    const char *query; /* what follows the first '?' of the target, as it stood on the wire; NULL: nothing */
} api_head;

typedef struct api_header {
    const char *name, *value;
} api_header;

typedef struct api_times { /* seconds */
    double decode, queue, compute, encode;
} api_times;

/* What happened, for the log and the metrics. Strings are static or live as long as the request. */
typedef struct api_trace {
    const char *route;   /* "/attention", or "unmatched" */
    const char *format;  /* "json" */
    const char *code;    /* of the error, or NULL */
    const char *pointer; /* JSON pointer of the error, or NULL */
    uint64_t body_bytes; /* of the body so far, its content coding undone */
    bool computes;       /* a compute route: its times are meant */
    bool has_problem;    /* the sizes below are known */
    size_t batch, heads, n_q, n_k, d_k, d_v;
    attn_dtype dtype;
    double flops; /* done */
    api_times times;
} api_trace;

typedef struct api_response {
    int status;
    const char *content_type; /* NULL where there is no body */
    const char *body;         /* owned by the request */
    size_t length;
    api_header headers[8]; /* Allow, Retry-After, Server-Timing ...; name NULL ends the list */
    bool close;            /* the connection should end after this reply */
} api_response;

/* Starts a request. Everything that headers alone can tell is checked (method, path, Content-Type, Content-Encoding,
 * Accept, Content-Length over max_body): api_refused says whether it is decided already. Reads what head points to only
 * during the call. NULL: out of memory; send api_out_of_memory(). */
api_request *api_begin(api_service *service, const api_head *head);

/* The reply, where it is decided before the body has ended so that reading the body is of no use; else NULL.
 * Pushing more bytes is harmless and costs nothing. */
const api_response *api_refused(const api_request *request);

/* Takes the next bytes of the body. Errors are kept for finish. Returns false once the answer is sure not to depend
 * on any later byte for its status class (body over the limit), true otherwise. */
bool api_push(api_request *request, const void *bytes, size_t length);

/* Ends the body, checks the request, and estimates the work left: about the nanoseconds of one thread (0 for an
 * error). Optional, once, before finish; takes time itself in proportion to the body (validation). */
double api_work(api_request *request);

/* Ends the body (where api_work has not), computes, encodes. May be called once. The reply is owned by the request.
 * `queued` (seconds) is reported as `queue` in Server-Timing. Never NULL. */
const api_response *api_finish(api_request *request, double queued);

/* Makes api_finish answer as soon as it can: safe from any thread while the request lives, and before finish. The
 * reply is then the error named: API_CANCEL_TIMEOUT 504, API_CANCEL_SHUTDOWN 503; API_CANCEL_GONE: nobody reads it. */
enum { API_CANCEL_NONE, API_CANCEL_TIMEOUT, API_CANCEL_SHUTDOWN, API_CANCEL_GONE };
void api_cancel(api_request *request, int reason);

const api_trace *api_trace_of(const api_request *request);
void api_request_free(api_request *request); /* NULL is allowed */

/* An error reply that is made by the host: queue full, framing, time-outs. code is the contract's name of the error
 * ("overloaded"), detail one sentence; retry_after in seconds, 0: none. Replaces whatever the request would answer.
 * The reply is owned by the request. */
const api_response *api_fail(api_request *request, const char *code, const char *detail, unsigned retry_after);
/* The protocol of a path or target, which decides how an error is written. Never NULL. */
typedef struct api_protocol api_protocol;
const api_protocol *api_protocol_of(const char *path);
/* The same as api_fail without a request: writes the document to `body` (truncated never: at most 1024 bytes) and fills
 * `response` from it. protocol NULL: the path is not known. */
void api_fail_static(api_response *response, char body[1024], const api_protocol *protocol, const char *code,
                     const char *detail, unsigned retry_after);
/* Seconds that the client itself grants for queueing and computing; 0: no limit. Safe from any thread. */
double api_timeout_of(const api_request *request);
/* A constant 503 out_of_memory reply. */
const api_response *api_out_of_memory(void);

/* ---- lists by index from 0 on: each name once, NULL after the last ------------------------------------------------
 */

/* What api_trace.route may be. computes: requests to it may have times and sizes. */
const char *api_route_label(size_t index, bool *computes);
/* What api_trace.format may be. */
const char *api_format_label(size_t index);
/* What api_trace.code may be. */
const char *api_code_label(size_t index);
/* The operations, as POST paths without the slash. */
const char *api_operation_label(size_t index);

/* ---- texts ------------------------------------------------------------------------------------------------------ */

/* Writes `string` as a JSON string with its quotes, escaped, without a zero; bytes that are not UTF-8 become '?'.
 * Returns its length; 0 if that exceeds `capacity`. */
size_t api_json_string(char *text, size_t capacity, const char *string);

/* The least number of letters inserted, left out, changed or swapped with their neighbour that turns a into b.
 * SIZE_MAX if one of them is longer than 63 bytes. */
size_t api_edit_distance(const char *a, const char *b);
/* true if `given` is so near to `known` that it is most likely meant: at most a third of the letters of the longer one
 * differ, or nothing but upper and lower case. */
bool api_is_near(const char *given, const char *known);

#endif
