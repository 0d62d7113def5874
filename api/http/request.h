/* request.h: a request and its life (inside api/ only). */
#ifndef API_REQUEST_H
#define API_REQUEST_H

#include "../endpoints/job.h"
#include "negotiation.h"
#include "problem_details.h"
#include "protocol.h"

typedef enum api_method { API_GET, API_HEAD, API_POST, API_OPTIONS, API_OTHER_METHOD, API_UNKNOWN_METHOD } api_method;

struct api_request {
    api_service *service;
    const api_protocol *protocol;
    const api_route *route;         /* NULL: unmatched */
    const api_operation *operation; /* what is computed, or asked about; NULL: nothing */
    api_method method;
    bool refused;  /* decided before the end of the body: error is set */
    bool prepared; /* the body has ended and was checked; ready: and can be computed */
    bool ready;
    uint64_t received; /* bytes of the body */
    api_memory memory;
    api_body body;                 /* format NULL: not known; reader NULL: the body is of no use, or not begun */
    bool is_vague;                 /* the first bytes of the body may tell another format than its type */
    uint8_t first[API_BODY_FIRST]; /* ... those that came */
    size_t first_count;
    const char *accept;        /* ... the header, kept until then; NULL: none */
    api_coding coding;         /* of the body */
    api_decoder *decoder;      /* undoes it, while the body comes; NULL: none */
    api_coding_choice accepts; /* codings of a reply */
    bool varies;               /* the reply depends on Accept-Encoding */
    const void *found;         /* what begin of a route found for its finish */
    bool unchanged;            /* ... and the client has it already */
    json_t *root;              /* the document */
    api_job job;
    atomic_uint_least64_t timeout; /* microseconds that the client grants, 0: no limit */
    double finish_began;           /* when its time began to count */
    atomic_int cancel_reason;
    atomic_bool cancelled;
    api_error error;
    const char *allow, *accept_encoding; /* headers that an error needs; NULL: none */
    char *host_text;                     /* malloc'd by the host, freed with the request */
    api_trace trace;
    api_response response;
    char timing[160]; /* Server-Timing */
    char text[];      /* API_PROBLEM_TEXT bytes, for an error's document or a short reply */
};

static inline bool api_computes(const api_request *request) {
    return request->route && request->route->operation && request->method == API_POST;
}

/* NULL: no such header */
static inline const char *api_header_of(const api_head *head, const char *name) {
    return head->header ? head->header(head->context, name) : NULL;
}

/* The request's error, whatever was set before, and that its body is of no use. */
__attribute__((format(printf, 3, 4))) void api_refuse(api_request *request, api_code code, const char *detail, ...);
/* The same after an allocation in request->memory that failed. */
void api_refuse_for_memory(api_request *request);

/* The same for a body over the limit; `what` says which length is meant ("Content-Length", ...). */
void api_refuse_length(api_request *request, const char *what);

/* Frees the body's bytes and all that was made of them. */
void api_drop_body(api_request *request);

/* A copy in request->memory; NULL, of NULL too. Refuses if there is no memory. */
char *api_keep(api_request *request, const char *text);
/* Keeps what stands after the '?' of the target in request->body.query; refuses if there is no memory. For `begin` of
 * a route that takes options from it. */
void api_keep_query(api_request *request, const api_head *head);

/* The 200 of a route that computes nothing. `text` must live as long as the request. */
void api_answer(api_request *request, const char *text, size_t length);
/* The same by the state of the host: `ready`, or the error not_ready or shutting_down. */
void api_answer_if_ready(api_request *request, const char *ready);

/* Adds Server-Timing to the response. */
void api_set_timing(api_request *request);

/* How the reply may be coded; refuses if no way is acceptable (codings.c). */
void api_coding_choose(api_request *request, const api_head *head);
/* The body's coding: begins to undo it into a sink (false: no memory), takes bytes, ends it (false: an error was
 * set). Errors are set by push too, which returns false if no later byte can matter. */
bool api_coding_begin(api_request *request, api_sink *sink);
bool api_coding_push(api_request *request, const void *bytes, size_t length);
bool api_coding_finish(api_request *request);
/* Encodes the 200 in request->response as the client asked; leaves it as it is if there is no memory for that. */
void api_coding_reply(api_request *request);

#endif
