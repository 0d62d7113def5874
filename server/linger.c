#include "linger.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

enum {
    MOST = 256,
    LINGER_MS = 2000,
    MOST_BYTES = 256 << 20, /* read from one socket */
    EVENTS = 64,
};

typedef struct lingering {
    int fd; /* -1: free */
    int64_t until;
    uint64_t bytes;
} lingering;

struct srv_lingers {
    int epoll; /* data.u64 is an index of `all` */
    pthread_mutex_t lock;
    lingering all[MOST];
};

srv_lingers *srv_lingers_new(void) {
    srv_lingers *lingers = calloc(1, sizeof *lingers);
    if (!lingers) return NULL;
    for (size_t i = 0; i < MOST; i++) lingers->all[i].fd = -1;
    pthread_mutex_init(&lingers->lock, NULL);
    lingers->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (lingers->epoll >= 0) return lingers;
    const int error = errno;
    srv_lingers_free(lingers);
    errno = error;
    return NULL;
}

void srv_lingers_free(srv_lingers *lingers) {
    if (!lingers) return;
    srv_lingers_expire(lingers, INT64_MAX);
    if (lingers->epoll >= 0) close(lingers->epoll);
    pthread_mutex_destroy(&lingers->lock);
    free(lingers);
}

int srv_lingers_fd(const srv_lingers *lingers) { return lingers->epoll; }

void srv_linger(srv_lingers *lingers, int fd) {
    pthread_mutex_lock(&lingers->lock);
    size_t i = 0;
    while (i < MOST && lingers->all[i].fd >= 0) i++;
    const int copy = i < MOST ? dup(fd) : -1;
    if (copy >= 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
        lingers->all[i] = (lingering){.fd = copy, .until = srv_now() + LINGER_MS * INT64_C(1000000)};
        epoll_ctl(lingers->epoll, EPOLL_CTL_ADD, copy, &event);
        shutdown(copy, SHUT_WR);
    }
    pthread_mutex_unlock(&lingers->lock);
}

static void end(srv_lingers *lingers, lingering *held) {
    epoll_ctl(lingers->epoll, EPOLL_CTL_DEL, held->fd, NULL); /* the duplicate's close does not do it */
    close(held->fd);
    held->fd = -1;
}

static void read_one(srv_lingers *lingers, lingering *held) {
    static char dropped[1 << 16]; /* used under the lock */
    for (int rounds = 0; held->fd >= 0 && rounds < 16; rounds++) {
        const ssize_t n = recv(held->fd, dropped, sizeof dropped, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
        held->bytes += n > 0 ? (uint64_t)n : 0;
        if (n <= 0 || held->bytes > MOST_BYTES) end(lingers, held);
    }
}

void srv_lingers_read(srv_lingers *lingers) {
    struct epoll_event events[EVENTS];
    pthread_mutex_lock(&lingers->lock);
    const int n = epoll_wait(lingers->epoll, events, EVENTS, 0);
    for (int i = 0; i < n; i++) read_one(lingers, &lingers->all[events[i].data.u64]);
    pthread_mutex_unlock(&lingers->lock);
}

void srv_lingers_expire(srv_lingers *lingers, int64_t now) {
    pthread_mutex_lock(&lingers->lock);
    for (size_t i = 0; i < MOST; i++)
        if (lingers->all[i].fd >= 0 && lingers->all[i].until <= now) end(lingers, &lingers->all[i]);
    pthread_mutex_unlock(&lingers->lock);
}
