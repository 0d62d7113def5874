/* call.c: `attentiond call attention < request.json` answers one request without a socket, by the code of the daemon.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "service.h"

/* Pushes standard input into the request. false: it could not be read, and a line on stderr was written. */
static bool push_input(api_request *request, size_t *total) {
    char bytes[1 << 16];
    for (*total = 0;;) {
        const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            fprintf(stderr, "attentiond: cannot read standard input: %s\n", strerror(errno));
            return false;
        }
        if (n == 0) return true;
        *total += (size_t)n;
        if (!api_push(request, bytes, (size_t)n)) return true; /* too long: api_finish says so */
    }
}

static int print(const api_response *reply) {
    bool ok = fwrite(reply->body, 1, reply->length, stdout) == reply->length;
    if (reply->length && reply->body[reply->length - 1] != '\n') ok = putchar('\n') != EOF && ok;
    if (fflush(stdout) != 0 || !ok) {
        fprintf(stderr, "attentiond: cannot write to standard output: %s\n", strerror(errno));
        return 1;
    }
    return reply->status == 200 ? 0 : 1;
}

int srv_call(const srv_settings *settings, const char *operation) {
    char path[64];
    snprintf(path, sizeof path, "/%s", operation);
    api_service service;
    if (!srv_service_init(&service, settings)) return 1;
    const api_head head = {.method = "POST", .path = path};
    api_request *request = api_begin(&service, &head);
    int status = 1;
    size_t total;
    if (!request) {
        status = print(api_out_of_memory());
    } else if (push_input(request, &total)) {
        if (total == 0)
            fprintf(stderr,
                    "attentiond: standard input is empty; redirect a request into it (with docker run: use -i)\n");
        status = print(api_finish(request, 0));
    }
    api_request_free(request);
    srv_service_deinit(&service);
    return status;
}
