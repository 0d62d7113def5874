/* call.c: `attentiond call attention < request.json`: one request without a socket, by the same code. */
#include "server.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* true: all of stdin has been pushed. */
static bool push_stdin(api_request *request) {
    char bytes[1 << 16];
    for (;;) {
        ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            fprintf(stderr, "attentiond: cannot read stdin: %s\n", strerror(errno));
            return false;
        }
        if (n == 0) return true;
        if (!api_push(request, bytes, (size_t)n)) return true; /* too long: finish says so */
    }
}

static int print(const api_response *reply) {
    bool ok = fwrite(reply->body, 1, reply->length, stdout) == reply->length;
    if (reply->length && reply->body[reply->length - 1] != '\n') ok = putchar('\n') != EOF && ok;
    if (fflush(stdout) != 0 || !ok) {
        fprintf(stderr, "attentiond: cannot write to stdout: %s\n", strerror(errno));
        return 1;
    }
    return reply->status == 200 ? 0 : 1;
}

int srv_call(const srv_config *config, const char *endpoint) {
    char path[32];
    snprintf(path, sizeof path, "/%s", endpoint);
    api_service service;
    if (!srv_service_init(&service, config, true)) return 1;
    const api_head head = {.method = "POST", .path = path};
    api_request *request = api_begin(&service, &head);
    int status = 1;
    if (!request)
        status = print(api_out_of_memory());
    else if (push_stdin(request))
        status = print(api_finish(request, 0));
    api_request_free(request);
    srv_service_deinit(&service);
    return status;
}
