/* api_lists.h: the lists of api.h until they are there. */
#ifndef SERVER_API_LISTS_H
#define SERVER_API_LISTS_H

#include <stdbool.h>
#include <stddef.h>

static inline const char *api_route_label(size_t index, bool *computes) {
    static const char *const names[] = {"/attention",
                                        "/mha",
                                        "/v2/models/attention/infer",
                                        "/v2/models/mha/infer",
                                        "/healthz",
                                        "/readyz",
                                        "/version",
                                        "/metrics",
                                        "/openapi.json",
                                        "/v2",
                                        "/v2/health/live",
                                        "/v2/health/ready",
                                        "/v2/models/{model}",
                                        "/v2/models/{model}/ready",
                                        "/v2/models/{model}/config",
                                        "/v2/models/{model}/stats",
                                        "/v2/models/stats",
                                        "/v2/repository/index",
                                        "/v2/{extension}",
                                        "unmatched"};
    *computes = index < 4;
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

static inline const char *api_format_label(size_t index) {
    static const char *const names[] = {"json", "safetensors", "oip"};
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

static inline const char *api_code_label(size_t index) {
    static const char *const names[] = {
        "invalid_json",      "bad_request",     "unauthorized",   "not_found",     "method_not_allowed",
        "not_acceptable",    "timeout",         "body_too_large", "uri_too_long",  "unsupported_media_type",
        "missing_field",     "unknown_field",   "wrong_type",     "ragged",        "shape_mismatch",
        "too_deep",          "out_of_range",    "not_finite",     "overflow",      "overloaded",
        "headers_too_large", "not_implemented", "not_ready",      "shutting_down", "out_of_memory",
        "compute_timeout",   "internal"};
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

static inline const char *api_operation_label(size_t index) {
    static const char *const names[] = {"attention", "mha"};
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

#endif
