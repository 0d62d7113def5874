/* health.c: `attentiond health` asks /readyz of the daemon that runs here. It is the image's health check. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "address.h"
#include "commands.h"

enum { PATIENCE_SECONDS = 3, MOST_DAEMONS = 16 };

/* The address to which a client here connects if the daemon listens on every address. */
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

/* The status of the reply; 0: none came. */
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

static int no_choice(const srv_address *all, size_t count) {
    fprintf(stderr, "attentiond: %zu daemons run here; choose one with --port:", count);
    for (size_t i = 0; i < count && i < MOST_DAEMONS; i++) {
        char text[SRV_ADDRESS_SIZE];
        srv_address_join(text, all[i].host, all[i].port);
        fprintf(stderr, " %s", text);
    }
    fputc('\n', stderr);
    return 1;
}

static int ask_daemon(const char *host, unsigned number) {
    char port[16], where[SRV_ADDRESS_SIZE];
    host = reachable(host);
    snprintf(port, sizeof port, "%u", number);
    srv_address_join(where, host, number);
    const int fd = connect_to(host, port);
    const int status = fd >= 0 ? ask(fd, strchr(host, ':') ? "localhost" : host) : 0;
    if (fd >= 0) close(fd);
    if (status == 200) return 0;
    if (status)
        fprintf(stderr, "attentiond: not ready: /readyz at %s answers %d\n", where, status);
    else
        fprintf(stderr, "attentiond: no answer from %s\n", where);
    return 1;
}

/* A port that is set decides, and so does a host that is set by a flag (the image sets one for all its commands).
 * Otherwise the daemon that runs here is asked, as it may have got its port by a flag that this process cannot see. */
int srv_health(const srv_settings *settings) {
    srv_address all[MOST_DAEMONS];
    const bool is_told =
        settings->origin[SRV_SETTING_port] != SRV_FROM_DEFAULT || settings->origin[SRV_SETTING_host] == SRV_FROM_FLAG;
    const size_t count = is_told ? 0 : srv_address_find(all, MOST_DAEMONS);
    if (count == 1) return ask_daemon(all[0].host, all[0].port);
    bool is_among = false;
    for (size_t i = 0; i < count && i < MOST_DAEMONS; i++) is_among |= all[i].port == settings->port;
    if (count && !is_among) return no_choice(all, count);
    return ask_daemon(settings->host, (unsigned)settings->port);
}
