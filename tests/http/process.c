/* process.c: the daemon under test, and commands of the binary. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#define MAX_ARGUMENTS 32
#define LONGEST 20.0 /* seconds for anything a process has to do, if patient() says nothing else */

double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double patient(double seconds) {
    const char *text = getenv("CHECK_PATIENCE");
    const double factor = text ? strtod(text, NULL) : 10;
    return seconds * (factor > 1 ? factor : 1);
}

void sleep_seconds(double seconds) {
    const struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

const char *daemon_binary(void) {
    const char *path = getenv("ATTENTIOND");
    return path ? path : "build/attentiond";
}

/* A file without a name for what a process writes: it never blocks the writer. */
static int nameless_file(void) { return memfd_create("attentiond-test", MFD_CLOEXEC); }

static char *read_all(int fd, size_t *length) {
    const off_t size = lseek(fd, 0, SEEK_END);
    char *text = malloc(size > 0 ? (size_t)size + 1 : 1);
    const ssize_t got = text ? pread(fd, text, size > 0 ? (size_t)size : 0, 0) : -1;
    if (!text) abort();
    text[got > 0 ? got : 0] = 0;
    if (length) *length = got > 0 ? (size_t)got : 0;
    return text;
}

static pid_t spawn(const char *const *arguments, int input, int output, int errors) {
    const char *full[MAX_ARGUMENTS + 2] = {daemon_binary()};
    size_t count = 1;
    for (; arguments && arguments[count - 1] && count <= MAX_ARGUMENTS; count++) full[count] = arguments[count - 1];
    fflush(NULL);
    const pid_t parent = getpid(), pid = fork();
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    signal(SIGPIPE, SIG_DFL);
    if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0) _exit(127);
    execv(full[0], (char *const *)(void *)full);
    _exit(127);
}

static int decode_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

static int wait_for_exit(pid_t pid) {
    int status = 0;
    for (const double end = now() + patient(LONGEST); now() < end; sleep_seconds(0.002))
        if (waitpid(pid, &status, WNOHANG) == pid) return decode_status(status);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

/* Reads the first line of the daemon's stdout, byte by byte: what follows stays in the pipe. */
static bool read_line(int fd, char line[256]) {
    size_t used = 0;
    for (const double end = now() + patient(LONGEST); used < 255;) {
        struct pollfd ready = {fd, POLLIN, 0};
        const double left = end - now();
        if (left <= 0 || poll(&ready, 1, (int)(left * 1000) + 1) <= 0) break;
        if (read(fd, line + used, 1) != 1) break;
        if (line[used] == '\n') {
            line[used] = 0;
            return true;
        }
        used++;
    }
    line[used] = 0;
    return false;
}

bool daemon_start(daemon_process *daemon, const char *const *flags) {
    const char *arguments[MAX_ARGUMENTS] = {"--port", "0"};
    size_t count = 2;
    for (; flags && flags[count - 2] && count < MAX_ARGUMENTS - 1; count++) arguments[count] = flags[count - 2];
    int pipes[2];
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    *daemon = (daemon_process){.pid = -1, .log = nameless_file()};
    if (null < 0 || daemon->log < 0 || pipe2(pipes, O_CLOEXEC)) return false;
    daemon->pid = spawn(arguments, null, pipes[1], daemon->log);
    close(null);
    close(pipes[1]);
    daemon->output = pipes[0];
    char host[64];
    if (daemon->pid > 0 && read_line(pipes[0], daemon->line) &&
        sscanf(daemon->line, "listening on http://%63[^:]:%d", host, &daemon->port) == 2)
        return true;
    char *log = daemon_log(daemon);
    printf("the daemon %s did not start: \"%s\" %s\n", daemon_binary(), daemon->line, log);
    free(log);
    if (daemon->pid > 0) daemon_stop(daemon, SIGKILL, NULL);
    return false;
}

int daemon_stop(daemon_process *daemon, int signal, double *seconds) {
    const double start = now();
    if (signal) kill(daemon->pid, signal);
    const int status = wait_for_exit(daemon->pid);
    if (seconds) *seconds = now() - start;
    close(daemon->output);
    close(daemon->log);
    daemon->pid = -1;
    return status;
}

char *daemon_log(const daemon_process *daemon) { return read_all(daemon->log, NULL); }

daemon_process shared;

static bool shared_started;

static void test_the_daemon_starts(void) { CHECK(shared_started, "no daemon"); }

static void test_the_daemon_stops_cleanly(void) {
    CHECK_FATAL(shared_started, "no daemon");
    char *log = daemon_log(&shared);
    const int status = daemon_stop(&shared, SIGTERM, NULL);
    CHECK(status == 0, "exit status %d; its log ends: %s", status, strlen(log) > 2000 ? log + strlen(log) - 2000 : log);
    free(log);
}

int shared_main(int argc, char **argv, const check_test *tests, size_t count, const char *const *flags) {
    signal(SIGPIPE, SIG_IGN);
    shared_started = daemon_start(&shared, flags);
    check_test *all = calloc(count + 2, sizeof *all);
    if (!all) abort();
    size_t used = 0;
    all[used++] = (check_test)CHECK_TEST(test_the_daemon_starts);
    for (size_t i = 0; shared_started && i < count; i++)
        if (argc < 2 || strstr(tests[i].name, argv[1])) all[used++] = tests[i];
    all[used++] = (check_test)CHECK_TEST(test_the_daemon_stops_cleanly);
    const int status = check_main(1, argv, all, used);
    free(all);
    return status;
}

command_result command_run(const char *const *arguments, const void *input, size_t length) {
    command_result result = {.status = -1};
    const int in = nameless_file(), out = nameless_file(), errors = nameless_file();
    if (in < 0 || out < 0 || errors < 0) abort();
    for (size_t sent = 0; sent < length;) {
        const ssize_t n = write(in, (const char *)input + sent, length - sent);
        if (n <= 0) abort();
        sent += (size_t)n;
    }
    lseek(in, 0, SEEK_SET);
    const pid_t pid = spawn(arguments, in, out, errors);
    if (pid > 0) result.status = wait_for_exit(pid);
    result.output = read_all(out, &result.length);
    result.errors = read_all(errors, NULL);
    close(in);
    close(out);
    close(errors);
    return result;
}

void command_free(command_result *result) {
    free(result->output);
    free(result->errors);
    *result = (command_result){0};
}

char *file_read(const char *path, size_t *length) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    char *text = read_all(fd, length);
    close(fd);
    return text;
}
