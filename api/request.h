/* request.h: a request and its life (inside api/ only). */
#ifndef API_REQUEST_H
#define API_REQUEST_H

#include "api.h"
#include "endpoints/body.h"
#include "endpoints/job.h"
#include "negotiation.h"
#include "problem.h"
#include "routes.h"

struct api_request {
    api_service *service;
    const api_route *route; /* NULL: unmatched */
    api_method method;
    bool under_v2; /* the path is of the Open Inference Protocol */
    bool refused;  /* decided before the end of the body: error is set */
    bool prepared; /* the body has ended and was checked; ready: and can be computed */
    bool ready;
    uint64_t received; /* bytes of the body */
    api_memory memory;
    api_body body;                        /* format NULL: not known; reader NULL: the body is of no use */
    api_coding coding;                    /* of the body */
    api_decoder *decoder;                 /* undoes it, while the body comes; NULL: none */
    api_coding_choice accepts;            /* codings of a reply */
    bool varies;                          /* the reply depends on Accept-Encoding */
    json_t *root;                         /* the skeleton */
    const struct api_reply_format *reply; /* of a 200 */
    api_job job;
    atomic_uint_least64_t timeout; /* microseconds that the client grants, 0: no limit */
    double finish_began;           /* when its time began to count */
    atomic_int cancel_reason;
    atomic_bool cancelled;
    api_error error;
    const char *allow, *accept_encoding; /* headers that an error needs; NULL: none */
    char *metrics;                       /* the host's text, malloc'd */
    api_trace trace;
    api_response response;
    char timing[160]; /* Server-Timing */
    char problem[];   /* API_PROBLEM_TEXT bytes, for an error's document or a short reply */
};

/* Answers an info route (GET or HEAD) into request->response; error set where there is no 200. */
void api_info_answer(api_request *request);

/* Seconds of CLOCK_MONOTONIC. */
double api_now(void);

/* Lets the body's bytes and all that was made of them go; it was of no use. */
void api_request_drop_body(api_request *request);

/* The body's coding (request_coding.c): begins to undo it (false: no memory), takes bytes, ends it (false: an error was
 * set). Errors are set by push too, which returns false where no later byte can matter. */
bool api_coding_begin(api_request *request);
bool api_coding_push(api_request *request, const void *bytes, size_t length);
bool api_coding_finish(api_request *request);
/* Codes the 200 in request->response as was asked for; leaves it as it is where there is no memory for that. */
void api_coding_reply(api_request *request);

#endif
