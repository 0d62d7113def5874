#include "request.h"

#include <stdarg.h>
#include <string.h>

#include "../base/text.h"

void api_refuse(api_request *request, api_code code, const char *detail, ...) {
    va_list arguments;
    va_start(arguments, detail);
    request->error = (api_error){0};
    api_error_setv(&request->error, code, API_PLACE_LAST, NULL, detail, arguments);
    va_end(arguments);
    request->refused = true;
}

void api_refuse_for_memory(api_request *request) {
    request->error = (api_error){0};
    api_error_memory(&request->error, &request->memory);
    request->refused = true;
}

void api_refuse_length(api_request *request, const char *what) {
    char limit[API_SIZE_TEXT];
    api_refuse(request, API_BODY_TOO_LARGE, "the body may have at most %s (--max-body); %s",
               api_size_text(limit, request->service->max_body), what);
}

void api_drop_body(api_request *request) {
    request->body.reader = NULL;
    api_decoder_free(request->decoder);
    request->decoder = NULL;
    api_memory_deinit(&request->memory);
}

char *api_keep(api_request *request, const char *text) {
    if (!text) return NULL;
    const size_t size = strlen(text) + 1;
    char *copy = api_small(&request->memory, size);
    if (copy) return memcpy(copy, text, size);
    api_refuse_for_memory(request);
    return NULL;
}

void api_keep_query(api_request *request, const api_head *head) {
    request->body.query = api_keep(request, head->query);
}

void api_answer(api_request *request, const char *text, size_t length) {
    request->response =
        (api_response){.status = 200, .content_type = request->route->content_type, .body = text, .length = length};
}

void api_answer_if_ready(api_request *request, const char *ready) {
    const api_host *host = &request->service->host;
    switch (host->readiness ? host->readiness(host->context) : API_READY) {
    case API_READY: api_answer(request, ready, strlen(ready)); break;
    case API_STARTING:
        api_error_set(&request->error, API_NOT_READY, API_PLACE_LAST, NULL, "the service is starting");
        break;
    default: api_error_set(&request->error, API_SHUTTING_DOWN, API_PLACE_LAST, NULL, "the service is stopping"); break;
    }
}

/* "name;dur=12.3456" with four decimals of a millisecond: printf of doubles would be a seventh of a small request. */
static void add_time(api_short_text *text, const char *name, double seconds) {
    const unsigned long long ticks = (unsigned long long)(seconds * 1e7 + 0.5);
    char decimals[] = ".0000";
    unsigned rest = (unsigned)(ticks % 10000);
    for (size_t i = 4; i > 0; i--, rest /= 10) decimals[i] = (char)('0' + rest % 10);
    api_text_add(text, name);
    api_text_add(text, ";dur=");
    api_text_add_unsigned(text, ticks / 10000);
    api_text_add(text, decimals);
}

void api_set_timing(api_request *request) {
    if (!request->trace.computes) return;
    const api_times *t = &request->trace.times;
    api_short_text text;
    api_text_init(&text, request->timing, sizeof request->timing - 1);
    add_time(&text, "decode", t->decode);
    add_time(&text, ", queue", t->queue);
    add_time(&text, ", compute", t->compute);
    add_time(&text, ", encode", t->encode);
    text.start[text.length] = '\0';
    api_response_header(&request->response, "Server-Timing", request->timing);
}
