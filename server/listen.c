/* listen.c: the listening socket, made by us so that backlog, dual stack and messages are as we want them. */
#include "server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static int open_socket(const struct addrinfo *address) {
    int on = 1, off = 0;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* inherited by what is accepted */
    if (address->ai_family == AF_INET6) {
        const struct in6_addr *host = &((const struct sockaddr_in6 *)(const void *)address->ai_addr)->sin6_addr;
        int *only6 = IN6_IS_ADDR_UNSPECIFIED(host) ? &off : &on;
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, only6, sizeof *only6);
    }
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static unsigned bound_port(int fd) {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, &address.any, &length) != 0) return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.six.sin6_port : address.four.sin_port);
}

int srv_listen(const srv_config *config, char url[128], char message[256]) {
    char port[16];
    snprintf(port, sizeof port, "%u", (unsigned)config->port);
    const struct addrinfo wanted = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int failed = getaddrinfo(config->host, port, &wanted, &found);
    if (failed) {
        snprintf(message, 256, "--host %.100s: %s", config->host, gai_strerror(failed));
        return -2;
    }
    int fd = -1;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) fd = open_socket(a);
    int error = errno;
    freeaddrinfo(found);
    bool is6 = strchr(config->host, ':');
    if (fd < 0)
        snprintf(message, 256, "cannot listen on %s%.100s%s:%s: %s", is6 ? "[" : "", config->host, is6 ? "]" : "", port,
                 strerror(error));
    else
        snprintf(url, 128, "http://%s%.100s%s:%u", is6 ? "[" : "", config->host, is6 ? "]" : "", bound_port(fd));
    return fd;
}
