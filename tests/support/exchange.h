/* exchange.h: whole requests through api_begin, api_push, api_finish, and what is expected of their answers.
 *
 * Bodies and expected replies are written with ' for ". Bodies are pushed in pieces of random length. After each
 * exchange the service must have no memory charged to it.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <jansson.h>

#include "../../api/api.h"
#include "check.h"

/* 1 MiB of body, 64 MiB of memory; ready unless exchange_readiness says otherwise */
extern api_service exchange_service;
extern int exchange_readiness;
/* call this first: picks a kernel */
void exchange_init(void);

/* An answer. It owns its memory; exchange_free frees it. */
typedef struct exchange {
    int status;
    char *content_type, *body, *headers; /* headers as "Name: value\n" */
    json_t *json;                        /* of the body; NULL if it is not JSON */
} exchange;

/* name, value, ... , NULL */
typedef struct exchange_headers {
    const char *pairs[16];
} exchange_headers;

char *exchange_quoted(const char *body); /* with " for ', malloc'd */
exchange exchange_keep(const api_response *response);
void exchange_free(exchange *answer);
/* `path` may have a query string behind it */
exchange exchange_send(const char *method, const char *path, exchange_headers headers, const char *body);
/* a string member of the answer's object, "(none)" if it is missing */
const char *exchange_member(const exchange *answer, const char *name);

/* A 422 or 400 of a compute route. pointer NULL: there must be none. detail contains `detail`; NULL: anything. */
void expect_error(const char *path, const char *body, int status, const char *code, const char *pointer,
                  const char *detail);
/* A 200 whose object has the members of `reply` and no others, numbers within 1e-5. */
void expect_reply(const char *path, const char *body, const char *reply);

#endif
