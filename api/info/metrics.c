/* GET /metrics: the host's text. */
#include "info.h"

bool api_has_metrics(const api_service *service) { return service->host.metrics != NULL; }

void api_answer_metrics(api_request *request) {
    const api_host *host = &request->service->host;
    size_t length = 0;
    request->host_text = host->metrics(host->context, &length);
    if (request->host_text)
        api_answer(request, request->host_text, length);
    else
        api_refuse_for_memory(request);
}
