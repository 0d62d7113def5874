/* error.h: the one list of errors, and the first error of a request (inside api/ only).
 *
 * The enum, the texts, the table in docs/api.md and a test over every row come from API_ERROR_LIST.
 */
#ifndef API_ERROR_H
#define API_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*      enum name, code, status, title (the status's own phrase), when */
#define API_ERROR_LIST(ROW)                                                                                            \
    ROW(INVALID_JSON, "invalid_json", 400, "Bad Request", "the body is not JSON")                                      \
    ROW(BAD_REQUEST, "bad_request", 400, "Bad Request", "invalid or ambiguous HTTP")                                   \
    ROW(UNAUTHORIZED, "unauthorized", 401, "Unauthorized", "no valid key, if keys are required")                       \
    ROW(NOT_FOUND, "not_found", 404, "Not Found", "unknown path")                                                      \
    ROW(METHOD_NOT_ALLOWED, "method_not_allowed", 405, "Method Not Allowed", "the path does not support the method")   \
    ROW(NOT_ACCEPTABLE, "not_acceptable", 406, "Not Acceptable", "Accept excludes every reply format")                 \
    ROW(TIMEOUT, "timeout", 408, "Request Timeout", "the client stopped sending")                                      \
    ROW(BODY_TOO_LARGE, "body_too_large", 413, "Content Too Large", "the body exceeds the limit")                      \
    ROW(URI_TOO_LONG, "uri_too_long", 414, "URI Too Long", "the request target exceeds the limit")                     \
    ROW(UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", 415, "Unsupported Media Type", "unsupported type or coding") \
    ROW(MISSING_FIELD, "missing_field", 422, "Unprocessable Content", "a required field is missing")                   \
    ROW(UNKNOWN_FIELD, "unknown_field", 422, "Unprocessable Content", "an unknown field")                              \
    ROW(WRONG_TYPE, "wrong_type", 422, "Unprocessable Content", "another JSON type than expected")                     \
    ROW(RAGGED, "ragged", 422, "Unprocessable Content", "rows of unequal length")                                      \
    ROW(SHAPE_MISMATCH, "shape_mismatch", 422, "Unprocessable Content", "shapes or counts that do not match")          \
    ROW(TOO_DEEP, "too_deep", 422, "Unprocessable Content", "nested deeper than any request needs")                    \
    ROW(OUT_OF_RANGE, "out_of_range", 422, "Unprocessable Content", "a value outside its list or range")               \
    ROW(NOT_FINITE, "not_finite", 422, "Unprocessable Content", "NaN or infinity instead of a number")                 \
    ROW(OVERFLOW, "overflow", 422, "Unprocessable Content", "a result does not fit the compute type")                  \
    ROW(OVERLOADED, "overloaded", 429, "Too Many Requests", "queue or memory in flight is full")                       \
    ROW(HEADERS_TOO_LARGE, "headers_too_large", 431, "Request Header Fields Too Large",                                \
        "the header fields exceed the limit")                                                                          \
    ROW(INTERNAL, "internal", 500, "Internal Server Error", "a bug in the service")                                    \
    ROW(NOT_IMPLEMENTED, "not_implemented", 501, "Not Implemented", "unknown method")                                  \
    ROW(NOT_READY, "not_ready", 503, "Service Unavailable", "the service is starting")                                 \
    ROW(SHUTTING_DOWN, "shutting_down", 503, "Service Unavailable", "the service is stopping")                         \
    ROW(OUT_OF_MEMORY, "out_of_memory", 503, "Service Unavailable", "an allocation failed")                            \
    ROW(COMPUTE_TIMEOUT, "compute_timeout", 504, "Gateway Timeout", "took longer than the service allows")

typedef enum api_code {
    API_NO_ERROR,
#define ROW(name, code, status, title, when) API_##name,
    API_ERROR_LIST(ROW)
#undef ROW
        API_CODE_COUNT
} api_code;

typedef struct api_code_info {
    const char *code;
    int status;
    const char *title, *when;
} api_code_info;
extern const api_code_info api_codes[API_CODE_COUNT];

/* Where in the document an error stands: member of the top object, member of that member's object (0 else), element
 * of a tensor. Compared in this order; a smaller place is earlier. Errors with no place of their own come last. */
typedef struct api_place {
    size_t member, sub, element;
} api_place;
#define API_PLACE_LAST ((api_place){SIZE_MAX, SIZE_MAX, SIZE_MAX})

/* The first error of a request. Fixed buffers: failing allocates nothing. */
typedef struct api_error {
    api_code code; /* API_NO_ERROR: none yet */
    api_place place;
    bool has_pointer;
    char pointer[256]; /* RFC 6901, cut at a boundary of a token if longer */
    char detail[512];
    unsigned retry_after;
} api_error;

/* Keeps the error if it is the first, or earlier in the document than the one kept. A 400 beats every 422 whatever its
 * place; out_of_memory beats all. pointer NULL: no place in the body. The detail is printf-like; it is cut at a
 * UTF-8 boundary if too long. */
__attribute__((format(printf, 5, 6))) void api_error_set(api_error *error, api_code code, api_place place,
                                                         const char *pointer, const char *detail, ...);
__attribute__((format(printf, 5, 0))) void api_error_setv(api_error *error, api_code code, api_place place,
                                                          const char *pointer, const char *detail, va_list arguments);

/* The error after an allocation that failed: overloaded if `memory` is over its budget, else out_of_memory. */
struct api_memory;
void api_error_memory(api_error *error, const struct api_memory *memory);

/* Appends "/token" to a pointer, escaping ~ and / (RFC 6901, section 3) and leaving valid UTF-8; cuts where it is full.
 */
void api_pointer_add(char pointer[256], const char *token);
void api_pointer_add_index(char pointer[256], size_t index);

#endif
