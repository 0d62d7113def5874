/* health.c: `attentiond health`: asks /readyz of the daemon that runs with the same settings. For HEALTHCHECK. */
#include "server.h"

#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 3 };

/* Where a daemon that listens on every address is to be reached from here. */
static const char *reachable(const char *host) {
    if (strcmp(host, "0.0.0.0") == 0) return "127.0.0.1";
    return strcmp(host, "::") == 0 ? "::1" : host;
}

static int connect_to(const char *host, const char *port) {
    const struct addrinfo wanted = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    struct addrinfo *found;
    if (getaddrinfo(host, port, &wanted, &found) != 0) return -1;
    int fd = -1;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) break;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* The status of the answer, or 0. */
static int ask(int fd, const char *host) {
    char text[512];
    int n = snprintf(text, sizeof text, "GET /readyz HTTP/1.1\r\nHost: %.200s\r\nConnection: close\r\n\r\n", host);
    if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n) return 0;
    size_t length = 0;
    while (length < 12) { /* "HTTP/1.1 200" */
        ssize_t got = recv(fd, text + length, sizeof text - 1 - length, 0);
        if (got <= 0) return 0;
        length += (size_t)got;
    }
    text[length] = 0;
    int status = 0;
    return sscanf(text, "HTTP/1.%*1d %3d", &status) == 1 ? status : 0;
}

int srv_health(const srv_config *config) {
    char port[16];
    const char *host = reachable(config->host);
    snprintf(port, sizeof port, "%u", (unsigned)config->port);
    int fd = connect_to(host, port);
    int status = fd >= 0 ? ask(fd, strchr(host, ':') ? "localhost" : host) : 0;
    if (fd >= 0) close(fd);
    if (status == 200) return 0;
    if (status)
        fprintf(stderr, "attentiond: not ready: /readyz says %d\n", status);
    else
        fprintf(stderr, "attentiond: no answer from %s port %s\n", host, port);
    return 1;
}
