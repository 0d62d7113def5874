/* wire.c: HTTP on a bare socket, for bytes that a library would not send. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

bool wire_open(wire_link *wire, int port) {
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *wire = (struct wire_link){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (wire->fd < 0) return false;
    const int on = 1;
    setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!connect(wire->fd, (const void *)&address, sizeof address)) return true;
    wire_close(wire);
    return false;
}

void wire_close(wire_link *wire) {
    if (wire->fd >= 0) close(wire->fd);
    free(wire->bytes);
    *wire = (struct wire_link){.fd = -1};
}

bool wire_send(wire_link *wire, const void *bytes, size_t length) {
    for (size_t sent = 0; sent < length;) {
        const ssize_t n = send(wire->fd, (const char *)bytes + sent, length - sent, MSG_NOSIGNAL);
        if (n <= 0) return false;
        sent += (size_t)n;
    }
    return true;
}

bool wire_print(wire_link *wire, const char *text) { return wire_send(wire, text, strlen(text)); }

/* Waits for more bytes until `end`; false at the end of the time or of the stream. */
static bool more(wire_link *wire, double end) {
    struct pollfd ready = {wire->fd, POLLIN, 0};
    const double left = end - now();
    if (wire->ended || left <= 0 || poll(&ready, 1, (int)(left * 1000) + 1) <= 0) return false;
    if (wire->room - wire->used < 65536) {
        char *grown = realloc(wire->bytes, wire->room + 131072);
        if (!grown) abort();
        wire->bytes = grown;
        wire->room += 131072;
    }
    const ssize_t n = recv(wire->fd, wire->bytes + wire->used, wire->room - wire->used - 1, 0);
    if (n > 0)
        wire->used += (size_t)n;
    else
        wire->ended = true;
    wire->bytes[wire->used] = 0;
    return n > 0;
}

static void drop(wire_link *wire, size_t length) {
    memmove(wire->bytes, wire->bytes + length, wire->used - length + 1);
    wire->used -= length;
}

static char *copy(const char *bytes, size_t length) {
    char *text = malloc(length + 1);
    if (!text) abort();
    if (length) memcpy(text, bytes, length);
    text[length] = 0;
    return text;
}

int wire_peek_status(wire_link *wire, double seconds) {
    const double end = now() + patient(seconds);
    int status = 0;
    while (wire->used < 12 && more(wire, end)) {
    }
    return wire->used >= 12 && sscanf(wire->bytes, "HTTP/1.%*1d %3d", &status) == 1 ? status : 0;
}

http_reply wire_reply(wire_link *wire, double seconds, bool head_only) {
    http_reply reply = {0};
    const double end = now() + patient(seconds);
    char *stop = NULL, value[512];
    while (!(wire->used && (stop = strstr(wire->bytes, "\r\n\r\n"))))
        if (!more(wire, end)) return reply;
    const size_t head = (size_t)(stop - wire->bytes) + 4;
    reply.head = copy(wire->bytes, head);
    drop(wire, head);
    int status = 0;
    if (sscanf(reply.head, "HTTP/1.%*1d %3d", &status) != 1) return reply;
    size_t length = 0;
    if (head_only || status / 100 == 1 || status == 204)
        length = 0;
    else if (http_header(&reply, "Content-Length", value)) {
        length = strtoul(value, NULL, 10);
        while (wire->used < length)
            if (!more(wire, end)) return reply;
    } else {
        while (more(wire, end)) {
        }
        if (!wire->ended) return reply;
        length = wire->used;
    }
    reply.body = copy(wire->bytes, length);
    reply.length = length;
    if (length) drop(wire, length);
    reply.status = status;
    return reply;
}

bool wire_ends(wire_link *wire, double seconds) {
    for (const double end = now() + patient(seconds); !wire->ended && now() < end;) more(wire, end);
    return wire->ended;
}
