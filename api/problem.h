/* problem.h: errors as problem documents, RFC 9457 (inside api/ only). */
#ifndef API_PROBLEM_H
#define API_PROBLEM_H

#include "api.h"
#include "base/error.h"

/* Bytes that the document of any error fits: an escaped character is up to six bytes. */
#define API_PROBLEM_TEXT (6 * (2 * sizeof((api_error *)0)->detail + sizeof((api_error *)0)->pointer) + 256)

/* Fills the response with the document of an error, written to body (at least 256 bytes, which must live as long as the
 * response); the detail is cut where it does not fit, and under /v2 stands in the member `error` too. Retry-After,
 * WWW-Authenticate and the end of the connection come with the codes they belong to. */
void api_problem_response(const api_error *error, api_response *response, char *body, size_t capacity, bool under_v2);

/* The code of the contract's name of an error; internal where there is none of that name. */
api_code api_code_of(const char *name);

/* Appends a header to a response; there is room for 7. */
void api_response_header(api_response *response, const char *name, const char *value);

#endif
