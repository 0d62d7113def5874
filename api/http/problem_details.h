/* problem_details.h: errors as documents, RFC 9457 (inside api/ only). */
#ifndef API_PROBLEM_DETAILS_H
#define API_PROBLEM_DETAILS_H

#include "../api.h"
#include "../base/error.h"

/* Bytes that the document of any error fits: an escaped character is up to six bytes. */
#define API_PROBLEM_TEXT (6 * (2 * sizeof((api_error *)0)->detail + sizeof((api_error *)0)->pointer) + 256)

/* Writes the document, with the detail a second time as member `repeat` (NULL: once), to `text` (at least 256 bytes),
 * without a zero; returns its length. The detail is cut if it does not fit. */
size_t api_problem_write(const api_error *error, const char *repeat, char *text, size_t capacity);

/* Fills the response with the document of an error as the protocol writes it, in `text` (at least 256 bytes, which must
 * live as long as the response). Retry-After, WWW-Authenticate and the end of the connection come with the codes they
 * belong to. */
void api_problem_response(const api_error *error, const api_protocol *protocol, api_response *response, char *text,
                          size_t capacity);

/* The code of the contract's name of an error; internal if there is none of that name. */
api_code api_code_of(const char *name);

/* Appends a header to a response; there is room for 7. */
void api_response_header(api_response *response, const char *name, const char *value);

#endif
