/* GET /healthz: the process lives. GET /readyz: it accepts work. */
#include "info.h"

static const char ok[] = "{\"status\":\"ok\"}\n";

void api_answer_healthz(api_request *request) { api_answer(request, ok, sizeof ok - 1); }
void api_answer_readyz(api_request *request) { api_answer_if_ready(request, ok); }
