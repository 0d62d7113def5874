/* A daemon that cannot start a thread says so in one line and exits with 1, whichever thread it is. */
#include "../support/check.h"

#include "../../server/commands.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

static int calls_before_failure = -1; /* -1: no call fails */

/* Every pthread_create of the program and of its libraries is this one. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg) {
    typedef int creator(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    creator *real;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (calls_before_failure == 0) return EAGAIN;
    if (calls_before_failure > 0) calls_before_failure--;
    return real(thread, attributes, run, arg);
}

typedef struct outcome {
    bool listens;
    int status;
    char errors[4096];
} outcome;

/* Reads until the end, or until a newline has come and `line` is set. */
static void read_text(int fd, char *text, size_t size, bool line) {
    size_t length = 0;
    for (ssize_t n; length < size - 1 && (n = read(fd, text + length, size - 1 - length)) > 0;) {
        length += (size_t)n;
        if (line && memchr(text, '\n', length)) break;
    }
    text[length] = 0;
}

/* Runs a daemon whose thread number `failing` cannot be created, and stops it if it listens. */
static outcome start(int failing) {
    static char *argv[] = {"attentiond",   "--port", "0",           "--threads", "2",
                           "--io-threads", "2",      "--log-level", "error",     NULL};
    outcome result = {0};
    int output[2], errors[2], status = -1;
    char line[256];
    if (!CHECK(pipe(output) == 0 && pipe(errors) == 0, "no pipes")) return result;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        srv_settings settings;
        srv_command command;
        dup2(output[1], STDOUT_FILENO);
        dup2(errors[1], STDERR_FILENO);
        for (int i = 0; i < 2; i++) close(output[i]), close(errors[i]);
        if (srv_settings_read(&settings, &command, 9, argv) != SRV_RUN) _exit(99);
        srv_settings_resolve(&settings);
        calls_before_failure = failing;
        status = srv_run(&settings);
        fflush(NULL);
        _exit(status);
    }
    close(output[1]);
    close(errors[1]);
    read_text(output[0], line, sizeof line, true);
    result.listens = strncmp(line, "listening on ", 13) == 0;
    if (result.listens) kill(pid, SIGTERM);
    read_text(errors[0], result.errors, sizeof result.errors, false);
    close(output[0]);
    close(errors[0]);
    waitpid(pid, &status, 0);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

static size_t lines_of(const char *text) {
    size_t lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

static void test_each_thread_that_cannot_be_created(void) {
    int failing = 0;
    for (; failing < 32; failing++) {
        const outcome result = start(failing);
        if (result.listens) {
            CHECK(result.status == 0, "no thread failed, but the status is %d: %s", result.status, result.errors);
            break;
        }
        CHECK(result.status == 1, "thread %d: status %d", failing, result.status);
        /* libmicrohttpd 1.0 leaves another errno behind when a thread of its own fails */
        CHECK(lines_of(result.errors) == 1 && strncmp(result.errors, "attentiond: cannot start ", 25) == 0 &&
                  (strstr(result.errors, "temporarily unavailable") || strstr(result.errors, "the HTTP server")),
              "thread %d: %s", failing, result.errors);
    }
    /* the log, two compute threads, the watch, two I/O threads */
    CHECK(failing >= 6 && failing < 32, "%d threads were needed", failing);
}

/* libmicrohttpd's threads may remove one socket twice while the daemon drains (server/epoll_ctl.c). */
static void test_removing_a_socket_twice_is_no_error(void) {
#ifdef __SANITIZE_THREAD__
    check_skip("the thread sanitizer's build has libc's epoll_ctl");
#else
    int ends[2];
    struct epoll_event event = {.events = EPOLLIN};
    const int set = epoll_create1(0);
    CHECK_FATAL(set >= 0 && pipe(ends) == 0, "no set");
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) == 0, "cannot be added");
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL) == 0, "cannot be removed");
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL) == 0, "cannot be removed again");
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event) != 0 && errno == ENOENT, "what is not there was changed");
    close(set), close(ends[0]), close(ends[1]);
#endif
}

int main(int argc, char **argv) {
    for (char **at = environ; *at;) { /* the settings of whoever runs the tests */
        char name[64] = "";
        if (strncmp(*at, "ATTENTIOND_", 11) == 0 && sscanf(*at, "%63[^=]", name) == 1 && unsetenv(name) == 0)
            at = environ;
        else
            at++;
    }
    const check_test tests[] = {CHECK_TEST(test_removing_a_socket_twice_is_no_error),
                                CHECK_TEST(test_each_thread_that_cannot_be_created)};
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
