/* service.c: the engine and the budget that all requests share, and names of libraries. */
#include "server.h"

#include <jansson.h>
#include <microhttpd.h>
#include <time.h>

int64_t srv_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

const char *srv_mhd_version(void) { return MHD_get_version(); }

bool srv_service_init(api_service *service, const srv_config *config, bool with_pool) {
    *service = (api_service){0};
    json_object_seed(0); /* once, before any other thread may hash */
    service->engine.kernel = attn_kernel_find(config->kernel);
    service->max_body = config->max_body;
    service->budget.limit = config->max_memory;
    if (with_pool && !(service->engine.pool = attn_pool_new(config->threads))) {
        fprintf(stderr, "attentiond: cannot start %llu compute threads\n", (unsigned long long)config->threads);
        return false;
    }
    return true;
}

void srv_service_deinit(api_service *service) { attn_pool_free(service->engine.pool); }
