#include "listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"

enum { BACKLOG = 1024 };

static int open_socket(const struct addrinfo *address) {
    const int on = 1, off = 0;
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted sockets inherit it */
    if (address->ai_family == AF_INET6) {
        const struct in6_addr *host = &((const struct sockaddr_in6 *)(const void *)address->ai_addr)->sin6_addr;
        const int *only6 = IN6_IS_ADDR_UNSPECIFIED(host) ? &off : &on;
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, only6, sizeof *only6);
    }
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static void cannot_listen(const srv_settings *settings, char message[SRV_MESSAGE_SIZE]) {
    const int error = errno;
    char where[SRV_ADDRESS_SIZE];
    srv_address_join(where, settings->host, (unsigned)settings->port);
    snprintf(message, SRV_MESSAGE_SIZE, "cannot listen on %s: %s", where, strerror(error));
}

int srv_bind(const srv_settings *settings, char message[SRV_MESSAGE_SIZE]) {
    char port[16];
    snprintf(port, sizeof port, "%u", (unsigned)settings->port);
    const struct addrinfo wanted = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    const int failed = getaddrinfo(settings->host, port, &wanted, &found);
    if (failed) {
        snprintf(message, SRV_MESSAGE_SIZE, "--host %.100s: %s", settings->host, gai_strerror(failed));
        return -2;
    }
    int fd = -1;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) fd = open_socket(a);
    if (fd < 0) cannot_listen(settings, message);
    freeaddrinfo(found);
    return fd;
}

bool srv_listen(int fd, const srv_settings *settings, char message[SRV_MESSAGE_SIZE]) {
    if (listen(fd, BACKLOG) == 0) return true; /* it fails if another socket listened on the port since bind */
    cannot_listen(settings, message);
    return false;
}

void srv_url(int fd, const srv_settings *settings, char url[SRV_URL_SIZE]) {
    srv_address bound = {0};
    char where[SRV_ADDRESS_SIZE];
    srv_address_of(fd, &bound);
    srv_address_join(where, settings->host, bound.port);
    snprintf(url, SRV_URL_SIZE, "http://%s", where);
}
