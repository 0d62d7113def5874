/* oip_request.c: an infer request as one of many: the time that it may take, and what is counted of it. */
#include <time.h>

#include "oip.h"

double api_timeout_of(const api_request *request) { return 1e-6 * (double)atomic_load(&request->timeout); }

bool api_oip_is_late(api_request *request) {
    const double timeout = api_timeout_of(request);
    if (timeout <= 0 || api_now() - request->finish_began < timeout) return false;
    request->error = (api_error){0};
    api_error_set(&request->error, API_COMPUTE_TIMEOUT, API_PLACE_LAST, NULL,
                  "the request took longer than its own timeout of %.9g microseconds", timeout * 1e6);
    return true;
}

static void add(api_tally *tally, double seconds) {
    atomic_fetch_add_explicit(&tally->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&tally->ns, (uint64_t)(seconds * 1e9), memory_order_relaxed);
}

void api_oip_count(api_request *request) {
    if (!request->trace.computes) return;
    api_statistics *s = &request->service->statistics[api_operation_index(request->route->operation)];
    const api_times *t = &request->trace.times;
    const double all = t->decode + t->queue + t->compute + t->encode;
    if (request->error.code) {
        add(&s->fail, all);
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    atomic_store_explicit(&s->last_inference, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
                          memory_order_relaxed);
    add(&s->queue, t->queue);
    add(&s->compute_input, t->decode);
    add(&s->compute_infer, t->compute);
    add(&s->compute_output, t->encode);
    add(&s->success, all);
}
