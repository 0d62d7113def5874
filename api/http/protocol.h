/* protocol.h: a route, and a protocol as a row of functions (inside api/ only).
 *
 * A protocol is a set of paths with a way of its own to write requests, replies and errors. The service's own routes
 * are the plain protocol (api/routes.c), whose functions are NULL; the table of protocols is api/protocols.c.
 */
#ifndef API_PROTOCOL_H
#define API_PROTOCOL_H

#include "../endpoints/operation.h"
#include "../formats/body.h"

/* One endpoint. A POST that computes has an operation and needs neither begin nor finish; any other has finish. */
typedef struct api_route {
    const char *path;  /* and label of the log and the metrics; names in braces stand for any */
    const char *allow; /* the value of Allow */
    const api_operation *operation;
    const char *content_type; /* of its 200, if nothing is computed */
    bool accept_is_ignored;   /* it answers whatever Accept says */
    /* true if the service has the path; NULL: always */
    bool (*exists)(const api_service *service);
    /* Looks at the head; NULL: nothing to look at. Refuses with api_refuse. */
    void (*begin)(api_request *request, const api_head *head);
    /* Answers with api_answer, or sets request->error. */
    void (*finish)(api_request *request);
} api_route;

#define API_ALLOW_GET "GET, HEAD, OPTIONS"
#define API_ALLOW_POST "POST, OPTIONS"
#define API_TYPE_JSON "application/json"

/* Any function and body may be NULL: then it is as on the plain protocol. */
struct api_protocol {
    const char *root; /* "/v2": the paths of the protocol are this one and those below it; "": all that are left */
    /* NULL: no such path */
    const api_route *(*find)(const char *path);
    /* The routes one by one; NULL after the last. Paths, which are labels, may repeat. */
    const api_route *(*route_at)(size_t index);
    /* Writes what is wrong with a path that find does not know, as the detail of a 404. */
    void (*explain_absence)(const char *path, char *text, size_t capacity);
    /* Writes the document of an error to `text` (at least 256 bytes), without a zero; returns its length. */
    size_t (*write_error)(const api_error *error, char *text, size_t capacity);
    const char *error_type; /* its media type */
    bool faults_in_bodies;  /* bad_request is also what is wrong in a body; the connection stays after that */
    /* Sets request->accepts and request->varies. */
    void (*choose_coding)(api_request *request, const char *accept_encoding);

    /* ---- requests that compute ---- */
    const api_body_format *body; /* of every request, and prepare sets the reply's format; NULL: by the headers */
    void (*prepare)(api_request *request); /* the document is there, the job not yet read */
    void (*locate)(api_request *request);  /* makes request->error point into the body that was sent */
    void (*finish)(api_request *request);  /* adds headers to the 200 */
    void (*count)(api_request *request);   /* of any route, answered */
};

#endif
