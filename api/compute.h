/* compute.h: requests that compute: head, body, job, reply (inside api/ only). */
#ifndef API_COMPUTE_H
#define API_COMPUTE_H

#include "http/request.h"

/* Checks the headers and makes ready for the body; refuses what they rule out. */
void api_compute_begin(api_request *request, const api_head *head);
/* Takes bytes of the body. Returns false if no later byte can matter. */
bool api_compute_push(api_request *request, const void *bytes, size_t length);
/* Ends the body and checks it, once. */
void api_compute_prepare(api_request *request);
/* The rest: request->response is the 200, or request->error is set. */
void api_compute_finish(api_request *request);

#endif
