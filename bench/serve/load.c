/* load.c: repeats one HTTP request over kept connections, each with its own blocking thread.
 *
 *     load PORT CONNECTIONS SECONDS REQUEST          REQUEST: a file with the bytes of the request
 *
 * Runs for SECONDS, and at least until one reply has come. Prints one line of JSON: requests, seconds, p50 and p99 of
 * the time from the first byte sent to the last received, and the means of that time and of `compute` in Server-Timing.
 * A reply that is not 200, or has no Content-Length, ends it with status 1. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 16 << 10, MOST = 1 << 22 };

static struct {
    int port;
    double seconds, begun;
    char *request;
    size_t length;
} job;

typedef struct connection {
    pthread_t thread;
    double *times, compute;
    size_t count, room;
} connection;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static _Noreturn void fail(const char *what, const char *detail) {
    fprintf(stderr, "load: %s%s\n", what, detail);
    exit(1);
}

static int dial(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)job.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) fail("cannot connect", "");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* One reply; returns the milliseconds of compute in its Server-Timing, or 0. */
static double take_reply(int fd, char *sink, size_t sink_size) {
    char head[HEAD + 1];
    size_t used = 0;
    char *end = NULL;
    while (!end) {
        const ssize_t n = used < HEAD ? read(fd, head + used, HEAD - used) : 0;
        if (n <= 0) fail("the connection ended", "");
        used += (size_t)n;
        head[used] = 0;
        end = strstr(head, "\r\n\r\n");
    }
    if (strncmp(head, "HTTP/1.1 200", 12) != 0) fail("no 200: ", head);
    const char *length = strcasestr(head, "\ncontent-length:"), *timing = strcasestr(head, "\nserver-timing:");
    if (!length || length > end) fail("no Content-Length", "");
    size_t left = strtoul(length + 16, NULL, 10) - (used - (size_t)(end + 4 - head));
    while (left > 0) {
        const ssize_t n = read(fd, sink, left < sink_size ? left : sink_size);
        if (n <= 0) fail("the connection ended", "");
        left -= (size_t)n;
    }
    const char *compute = timing && timing < end ? strstr(timing, "compute;dur=") : NULL;
    return compute ? strtod(compute + 12, NULL) : 0;
}

static void *run(void *argument) {
    connection *self = argument;
    const size_t sink_size = 1 << 20;
    char *sink = malloc(sink_size);
    const int fd = dial();
    double start;
    do {
        start = now();
        for (size_t sent = 0; sent < job.length;) {
            const ssize_t n = send(fd, job.request + sent, job.length - sent, MSG_NOSIGNAL);
            if (n <= 0) fail("the connection ended", "");
            sent += (size_t)n;
        }
        self->compute += 1e-3 * take_reply(fd, sink, sink_size);
        if (self->count == self->room) {
            self->room = self->room ? 2 * self->room : 1024;
            self->times = realloc(self->times, self->room * sizeof *self->times);
        }
        if (!self->times || !sink) fail("no memory", "");
        self->times[self->count++] = now() - start;
    } while (now() - job.begun < job.seconds && self->count < MOST);
    close(fd);
    free(sink);
    return NULL;
}

static void read_request(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail("cannot read ", path);
    fseek(file, 0, SEEK_END);
    job.length = (size_t)ftell(file);
    rewind(file);
    job.request = malloc(job.length + 1);
    if (!job.request || fread(job.request, 1, job.length, file) != job.length) fail("cannot read ", path);
    fclose(file);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 5) fail("usage: load PORT CONNECTIONS SECONDS REQUEST", "");
    job.port = atoi(argv[1]);
    job.seconds = strtod(argv[3], NULL);
    const size_t connections = strtoul(argv[2], NULL, 10);
    read_request(argv[4]);
    connection *all = calloc(connections, sizeof *all);
    if (!all) fail("no memory", "");
    job.begun = now();
    for (size_t i = 0; i < connections; i++) pthread_create(&all[i].thread, NULL, run, &all[i]);
    size_t count = 0;
    double compute = 0, sum = 0;
    for (size_t i = 0; i < connections; i++) {
        pthread_join(all[i].thread, NULL);
        count += all[i].count;
        compute += all[i].compute;
    }
    const double seconds = now() - job.begun;
    double *times = malloc(count * sizeof *times);
    if (!times) fail("no memory", "");
    size_t used = 0;
    for (size_t i = 0; i < connections; i++) {
        memcpy(times + used, all[i].times, all[i].count * sizeof *times);
        used += all[i].count;
        free(all[i].times);
    }
    qsort(times, count, sizeof *times, compare);
    for (size_t i = 0; i < count; i++) sum += times[i];
    printf("{\"requests\": %zu, \"seconds\": %.6f, \"p50\": %.9f, \"p99\": %.9f, \"mean\": %.9f, \"compute\": %.9f}\n",
           count, seconds, times[count / 2], times[count - 1 - count / 100], sum / (double)count,
           compute / (double)count);
    free(times);
    free(all);
    free(job.request);
    return 0;
}
