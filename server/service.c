#include "service.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

const attn_kernel *srv_kernel(const char *name) { return attn_kernel_find(*name ? name : NULL); }

bool srv_service_init(api_service *service, const srv_settings *settings) {
    *service = (api_service){0};
    json_object_seed(0); /* before any other thread may hash */
    service->engine.kernel = srv_kernel(settings->kernel);
    service->max_body = settings->max_body;
    service->no_page = settings->no_page;
    service->budget.limit = settings->max_memory;
    errno = 0;
    service->engine.pool = attn_pool_new(settings->threads);
    if (service->engine.pool) return true;
    fprintf(stderr, "attentiond: cannot start %llu compute threads: %s\n", (unsigned long long)settings->threads,
            strerror(errno ? errno : EAGAIN));
    return false;
}

void srv_service_deinit(api_service *service) { attn_pool_free(service->engine.pool); }
