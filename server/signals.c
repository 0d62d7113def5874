#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* Handlers and a pipe, not a signal mask: OpenBLAS starts threads before main, which would not inherit the mask. */
static int signal_pipe[2];
static atomic_int signals_seen;

static void on_signal(int number) {
    int error = errno;
    if (atomic_fetch_add(&signals_seen, 1) > 0) _exit(128 + number);
    char byte = (char)number;
    ssize_t written = write(signal_pipe[1], &byte, 1);
    (void)written;
    errno = error;
}

bool srv_signals_catch(void) {
    if (pipe2(signal_pipe, O_CLOEXEC) != 0) return false;
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: TSan delays handlers until read returns */
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (!isatty(STDERR_FILENO))
        action.sa_handler = SIG_IGN; /* there is nothing to reload; a closed terminal stops us */
    sigaction(SIGHUP, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    return true;
}

int srv_signals_wait(void) {
    char number;
    ssize_t n;
    do n = read(signal_pipe[0], &number, 1);
    while (n < 0 && errno == EINTR);
    return n == 1 ? number : SIGTERM;
}
