/* The answers of /healthz, /readyz, /version, /metrics and /openapi.json. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "oip/oip.h"

const char api_version[] = ATTENTIOND_VERSION;
const char api_revision[] = ATTENTIOND_REVISION;
const char api_jansson_version[] = JANSSON_VERSION;

extern const unsigned char api_openapi_json[];
extern const size_t api_openapi_json_length;

static void body(api_request *request, const char *text, size_t length) {
    request->response =
        (api_response){.status = 200, .content_type = request->route->content_type, .body = text, .length = length};
}

static void answer_readiness(api_request *request) {
    static const char ok[] = "{\"status\":\"ok\"}\n";
    const api_host *host = &request->service->host;
    const int state =
        host->readiness && request->route->info == API_READYZ ? host->readiness(host->context) : API_READY;
    if (state == API_READY)
        body(request, ok, sizeof ok - 1);
    else if (state == API_STARTING)
        api_error_set(&request->error, API_NOT_READY, API_PLACE_LAST, NULL, "the service is starting");
    else
        api_error_set(&request->error, API_SHUTTING_DOWN, API_PLACE_LAST, NULL, "the service is stopping");
}

static void add_library(api_short_text *text, const char *name, const char *version, bool first) {
    if (!first) api_text_add(text, ",");
    api_text_add_string(text, name);
    api_text_add(text, ":");
    api_text_add_string(text, version);
}

static void answer_version(api_request *request) {
    static const char blas_name[] = "OpenBLAS ";
    const char *blas = attn_blas_version();
    if (strncmp(blas, blas_name, sizeof blas_name - 1) == 0) blas += sizeof blas_name - 1;
    api_short_text text;
    api_text_init(&text, request->problem, API_PROBLEM_TEXT);
    api_text_add(&text, "{\"version\":");
    api_text_add_string(&text, api_version);
    api_text_add(&text, ",\"kernel\":");
    api_text_add_string(&text, attn_kernel_name(request->service->engine.kernel));
    api_text_add(&text, ",\"libraries\":{");
    add_library(&text, "jansson", jansson_version_str(), true);
    add_library(&text, "openblas", blas, false);
    const api_library *library = request->service->host.libraries;
    for (; library && library->name; library++) add_library(&text, library->name, library->version, false);
    api_text_add(&text, "}}\n");
    body(request, text.start, text.length);
}

static void answer_metrics(api_request *request) {
    const api_host *host = &request->service->host;
    size_t length = 0;
    request->metrics = host->metrics(host->context, &length);
    if (request->metrics)
        body(request, request->metrics, length);
    else
        api_error_set(&request->error, API_OUT_OF_MEMORY, API_PLACE_LAST, NULL, "an allocation failed");
}

void api_info_answer(api_request *request) {
    switch (request->route->info) {
    case API_HEALTHZ:
    case API_READYZ: answer_readiness(request); break;
    case API_VERSION: answer_version(request); break;
    case API_METRICS: answer_metrics(request); break;
    case API_OPENAPI: body(request, (const char *)api_openapi_json, api_openapi_json_length); break;
    default: api_oip_answer(request); break;
    }
}
