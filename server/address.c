#include "address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PREFIX "attentiond/"

void srv_address_join(char text[SRV_ADDRESS_SIZE], const char *host, unsigned port) {
    const bool is6 = strchr(host, ':');
    snprintf(text, SRV_ADDRESS_SIZE, "%s%.100s%s:%u", is6 ? "[" : "", host, is6 ? "]" : "", port);
}

bool srv_address_of(int fd, srv_address *address) {
    struct sockaddr_storage bound = {0};
    socklen_t length = sizeof bound;
    char port[16];
    if (getsockname(fd, (struct sockaddr *)&bound, &length) != 0) return false;
    if (getnameinfo((struct sockaddr *)&bound, length, address->host, sizeof address->host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    address->port = (unsigned)strtoul(port, NULL, 10);
    return true;
}

/* The number of our PID namespace, "0" if it cannot be read. */
static void read_space(char space[32]) {
    char link[64] = "";
    const ssize_t n = readlink("/proc/self/ns/pid", link, sizeof link - 1); /* "pid:[4026531836]" */
    if (n <= 0 || sscanf(link, "pid:[%31[0-9]]", space) != 1) snprintf(space, 32, "0");
}

int srv_address_publish(const srv_address *address) {
    struct sockaddr_un name = {.sun_family = AF_UNIX}; /* sun_path[0] == 0: abstract */
    char space[32], where[SRV_ADDRESS_SIZE];
    read_space(space);
    srv_address_join(where, address->host, address->port);
    const int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, PREFIX "%s/%s", space, where);
    if (n >= (int)sizeof name.sun_path - 1) {
        errno = ENAMETOOLONG;
        return -1;
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&name, length) == 0) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* "[::1]:8080" or "127.0.0.1:8080" */
static bool split(char *text, srv_address *address) {
    char *colon = strrchr(text, ':'), *end;
    if (!colon) return false;
    *colon = 0;
    const unsigned long port = strtoul(colon + 1, &end, 10);
    size_t length = strlen(text);
    if (text[0] == '[' && length > 1 && text[length - 1] == ']') {
        text[length - 1] = 0;
        text++;
        length -= 2;
    }
    if (end == colon + 1 || *end || port == 0 || port > 65535 || length == 0 || length >= SRV_HOST_SIZE) return false;
    memcpy(address->host, text, length + 1);
    address->port = (unsigned)port;
    return true;
}

size_t srv_address_find_in(FILE *file, const char *space, srv_address *found, size_t most) {
    char line[512], mark[64];
    size_t count = 0;
    snprintf(mark, sizeof mark, " @" PREFIX "%s/", space);
    while (fgets(line, sizeof line, file)) {
        srv_address address;
        char *at = strstr(line, mark);
        line[strcspn(line, "\n")] = 0;
        if (!at || !split(at + strlen(mark), &address)) continue;
        if (count < most) found[count] = address;
        count++;
    }
    return count;
}

size_t srv_address_find(srv_address *found, size_t most) {
    char space[32];
    FILE *file = fopen("/proc/net/unix", "re");
    if (!file) return 0;
    read_space(space);
    const size_t count = srv_address_find_in(file, space, found, most);
    fclose(file);
    return count;
}
