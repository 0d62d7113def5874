/* test_lifecycle.c: start, command line, `call`, `health`, stop. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "exposition.h"

#define SMALL "{\"q\":[[0]],\"k\":[[0]],\"v\":[[1]]}"

/* A thread of its own writes the log: waits some seconds for the word. */
static void expect_logged(const daemon_process *daemon, const char *word) {
    for (const double end = now() + patient(5);; sleep_seconds(0.01)) {
        char *log = daemon_log(daemon);
        const bool found = strstr(log, word) != NULL, late = now() > end;
        if (late) CHECK(found, "%s is not in the log: %.500s", word, log);
        free(log);
        if (found || late) return;
    }
}

/* Waits until `count` requests to /attention are under way or answered. */
static void await_arrivals(int port, double count) {
    double arrived = 0;
    for (const double end = now() + patient(10); arrived < count && now() < end; sleep_seconds(0.01)) {
        http_reply reply = http_send(NULL, port, &(http_request){.method = "GET", .path = "/metrics"});
        const double answered =
            exposition_value(reply.body, "http_server_request_duration_seconds_count", "/attention\"");
        arrived = exposition_value(reply.body, "attentiond_requests_in_flight", NULL) - 1; /* but for this one */
        if (answered > 0) arrived += answered;
        http_free(&reply);
    }
    CHECK(arrived >= count, "%g requests of %g have arrived", arrived, count);
}

static void test_the_ready_line(void) {
    char want[64];
    snprintf(want, sizeof want, "listening on http://127.0.0.1:%d", shared.port);
    CHECK(!strcmp(shared.line, want), "\"%s\", expected \"%s\"", shared.line, want);
    expect_logged(&shared, "kernel");
}

static size_t lines_of(const char *text) {
    size_t lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

static void test_bad_values_exit_2(void) {
    static const char *const rows[][4] = {
        {"--port", "99999"},
        {"--port", "x"},
        {"--port", "-1"},
        {"--port"},
        {"--threads", "0"},
        {"--threads", "two"},
        {"--max-body", "many"},
        {"--max-body", "-5"},
        {"--kernel", "no-such-kernel"},
        {"--log-level", "loud"},
        {"--prot", "0"},
        {"--no-such-flag"},
        {"nonsense"},
        {"call"},
        {"call", "nothing"},
        {"--io-threads", "0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        command_result result = command_run(rows[i], "", 0);
        CHECK(result.status == 2, "%s %s: status %d", rows[i][0], rows[i][1] ? rows[i][1] : "", result.status);
        CHECK(!*result.output, "%s: stdout %.100s", rows[i][0], result.output);
        CHECK(lines_of(result.errors) == 1 && !strncmp(result.errors, "attentiond: ", 12), "%s: stderr %.300s",
              rows[i][0], result.errors);
        command_free(&result);
    }
    command_result result = command_run((const char *const[]){"--prot", "0", NULL}, "", 0);
    CHECK(strstr(result.errors, "--port"), "the nearest flag is not named: %s", result.errors);
    command_free(&result);
}

static void test_environment(void) {
    setenv("ATTENTIOND_MAX_BODY", "10", 1);
    daemon_process daemon;
    if (CHECK(daemon_start(&daemon, NULL), "no daemon")) {
        http_reply reply = http_post_to(daemon.port, "/attention", SMALL);
        CHECK(reply.status == 413, "the environment was not read: %d", reply.status);
        http_free(&reply);
        daemon_stop(&daemon, SIGTERM, NULL);
    }
    if (CHECK(daemon_start(&daemon, (const char *const[]){"--max-body", "1KiB", NULL}), "no daemon")) {
        http_reply reply = http_post_to(daemon.port, "/attention", SMALL);
        CHECK(reply.status == 200, "the flag does not win: %d", reply.status);
        http_free(&reply);
        daemon_stop(&daemon, SIGTERM, NULL);
    }
    setenv("ATTENTIOND_MAX_BODY", "many", 1);
    command_result result = command_run((const char *const[]){"--port", "0", NULL}, "", 0);
    CHECK(result.status == 2 && strstr(result.errors, "ATTENTIOND_MAX_BODY"), "status %d: %s", result.status,
          result.errors);
    command_free(&result);
    unsetenv("ATTENTIOND_MAX_BODY");
}

static void test_unknown_variables_are_logged(void) {
    daemon_process daemon;
    setenv("ATTENTIOND_MAX_BODYS", "secret", 1);
    CHECK_FATAL(daemon_start(&daemon, NULL), "no daemon");
    expect_logged(&daemon, "unknown environment variable ATTENTIOND_MAX_BODYS; did you mean ATTENTIOND_MAX_BODY");
    char *log = daemon_log(&daemon);
    CHECK(!strstr(log, "secret"), "the log has the value: %s", log);
    free(log);
    CHECK(daemon_stop(&daemon, SIGTERM, NULL) == 0, "exit status");
    unsetenv("ATTENTIOND_MAX_BODYS");
}

static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool ok =
        fd >= 0 && !bind(fd, (const void *)&address, sizeof address) && !getsockname(fd, (void *)&address, &length);
    close(fd);
    return ok ? ntohs(address.sin_port) : 0;
}

/* Starts a program; its standard output goes to `output`, or nowhere if that is -1. */
static pid_t launch(const char *const *arguments, int output) {
    fflush(NULL);
    const pid_t pid = fork();
    if (pid) return pid;
    const int null = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 0; fd < 3; fd++) dup2(fd == 1 && output >= 0 ? output : null, fd);
    execv(arguments[0], (char *const *)(void *)arguments);
    _exit(127);
}

/* Whoever gets a connection gets an answer: the socket does not listen before the daemon is ready. */
static void test_the_first_request_is_answered(void) {
    char port[16];
    const int number = free_port();
    snprintf(port, sizeof port, "%d", number);
    for (int i = 0; i < 20; i++) {
        const pid_t pid = launch((const char *const[]){daemon_binary(), "--port", port, NULL}, -1);
        wire_link wire;
        bool open = false;
        for (const double end = now() + patient(10); !open && now() < end;) open = wire_open(&wire, number);
        CHECK_FATAL(open, "no daemon");
        wire_print(&wire, "POST /attention HTTP/1.1\r\nHost: x\r\nContent-Length: 31\r\n\r\n" SMALL);
        http_reply reply = wire_reply(&wire, 10, false);
        CHECK(reply.status == 200, "start %d: %d %s", i, reply.status, reply.body ? reply.body : "");
        http_free(&reply);
        wire_close(&wire);
        int status = -1;
        kill(pid, SIGTERM);
        waitpid(pid, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "start %d: ended with %x", i, (unsigned)status);
    }
}

static void test_a_port_that_is_taken_exits_1(void) {
    char port[16];
    snprintf(port, sizeof port, "%d", shared.port);
    command_result result = command_run((const char *const[]){"--port", port, NULL}, "", 0);
    CHECK(result.status == 1, "status %d", result.status);
    CHECK(strstr(result.errors, port), "stderr does not name the port: %s", result.errors);
    CHECK(!*result.output, "stdout: %s", result.output);
    command_free(&result);
}

static void test_help_and_version(void) {
    static const char *const words[] = {"--host",          "--port",   "--threads",   "--io-threads",
                                        "--max-body",      "--kernel", "--log-level", "--max-memory",
                                        "ATTENTIOND_PORT", "8080",     "127.0.0.1",   "256"};
    command_result help = command_run((const char *const[]){"--help", NULL}, "", 0);
    CHECK(help.status == 0 && !*help.errors, "--help: %d %s", help.status, help.errors);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        CHECK(strstr(help.output, words[i]), "%s is not in --help", words[i]);
    command_free(&help);
    command_result version = command_run((const char *const[]){"--version", NULL}, "", 0);
    char *number = file_read("VERSION", NULL);
    CHECK(version.status == 0 && !*version.errors, "--version: %d %s", version.status, version.errors);
    if (number) number[strcspn(number, "\n")] = 0;
    static const char *const parts[] = {"microhttpd", "jansson", "OpenBLAS"};
    CHECK(number && strstr(version.output, number), "--version: %s", version.output);
    for (size_t i = 0; i < 3; i++) CHECK(strcasestr(version.output, parts[i]), "--version lacks %s", parts[i]);
    free(number);
    command_free(&version);
}

static void test_call(void) {
    static const struct {
        const char *endpoint, *body, *code;
        int status;
    } rows[] = {
        {"attention", SMALL, NULL, 0},
        {"mha", "{\"x\":[[1]],\"w_q\":[[1]],\"w_k\":[[1]],\"w_v\":[[1]],\"num_heads\":1}", NULL, 0},
        {"attention", "", "invalid_json", 1},
        {"attention", "{}", "missing_field", 1},
        {"mha", SMALL, "unknown_field", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        command_result result =
            command_run((const char *const[]){"call", rows[i].endpoint, NULL}, rows[i].body, strlen(rows[i].body));
        json_t *json = json_loadb(result.output, result.length, 0, NULL);
        CHECK(result.status == rows[i].status, "call %zu: status %d: %s", i, result.status, result.errors);
        CHECK(json_is_object(json), "call %zu: %.200s", i, result.output);
        if (rows[i].code) {
            const char *code = json_string_value(json_object_get(json, "code"));
            CHECK(code && !strcmp(code, rows[i].code), "call %zu: %.200s", i, result.output);
            CHECK(!strstr(result.errors, "docker run: use -i") == !!*rows[i].body, "call %zu: stderr %s", i,
                  result.errors);
        } else
            CHECK(json_object_get(json, "output"), "call %zu: %.200s", i, result.output);
        json_decref(json);
        command_free(&result);
    }
}

/* The service and `call` give the same numbers. */
static void test_call_gives_the_numbers_of_the_service(void) {
    static const char body[] = "{\"q\":[[0.1,2],[3,0.7]],\"k\":[[1,2],[0.3,4]],\"v\":[[1,0.9],[0.2,1]],\"trace\":true}";
    http_reply reply = http_post("/attention", body);
    command_result result = command_run((const char *const[]){"call", "attention", NULL}, body, strlen(body));
    json_t *a = json_loadb(reply.body, reply.length, 0, NULL), *b = json_loadb(result.output, result.length, 0, NULL);
    CHECK(a && json_equal(a, b), "service %.300s, call %.300s", reply.body, result.output);
    json_decref(a);
    json_decref(b);
    command_free(&result);
    http_free(&reply);
}

static void test_health(void) {
    char port[16];
    snprintf(port, sizeof port, "%d", shared.port);
    command_result result = command_run((const char *const[]){"health", "--port", port, NULL}, "", 0);
    CHECK(result.status == 0, "health of a running daemon: %d %s", result.status, result.errors);
    command_free(&result);
    daemon_process daemon;
    CHECK_FATAL(daemon_start(&daemon, NULL), "no daemon");
    snprintf(port, sizeof port, "%d", daemon.port);
    daemon_stop(&daemon, SIGTERM, NULL);
    result = command_run((const char *const[]){"health", "--port", port, NULL}, "", 0);
    CHECK(result.status == 1, "health of no daemon: %d", result.status);
    command_free(&result);
}

/* In namespaces of its own, as in a container: a process that starts the program, then `health`. */
typedef struct namespace_run {
    const char *const *daemons[3]; /* arguments of each; NULL ends them */
    const char *const *health;
    const char *variable, *value; /* of the environment of `health` */
} namespace_run;

static void bring_loopback_up(void) {
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
}

/* Starts a daemon and waits until it says that it listens. */
static void launch_ready(const char *const *arguments) {
    int ends[2];
    char byte = 0;
    if (pipe(ends)) _exit(81);
    launch(arguments, ends[1]);
    close(ends[1]);
    while (byte != '\n')
        if (read(ends[0], &byte, 1) != 1) _exit(82);
}

/* Exit status of the health command; 77: namespaces are not allowed here. */
static int run_in_namespaces(const namespace_run *run) {
    fflush(NULL);
    const pid_t outer = fork();
    if (outer == 0) {
        if (unshare(CLONE_NEWNET | CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID)) _exit(77);
        const pid_t first = fork(); /* process 1 of the namespace: all others end with it */
        if (first == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            bring_loopback_up();
            for (size_t i = 0; i < 3 && run->daemons[i]; i++) launch_ready(run->daemons[i]);
            if (run->variable) setenv(run->variable, run->value, 1);
            int status = -1;
            waitpid(launch(run->health, -1), &status, 0);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 79);
        }
        int status = -1;
        waitpid(first, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 80);
    }
    int status = -1;
    waitpid(outer, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_health_finds_the_daemon(void) {
    const char *const any[] = {daemon_binary(), "--port", "0", NULL};
    const char *const other[] = {daemon_binary(), "--port", "9000", NULL};
    const char *const every[] = {daemon_binary(), "--host", "::", "--port", "9000", NULL};
    const char *const usual[] = {daemon_binary(), NULL};
    const char *const health[] = {daemon_binary(), "health", NULL};
    const char *const told[] = {daemon_binary(), "health", "--port", "9000", NULL};
    const char *const wrong[] = {daemon_binary(), "health", "--port", "9001", NULL};
    const struct {
        const char *name;
        namespace_run run;
        int status;
    } rows[] = {
        {"none", {{NULL}, health, NULL, NULL}, 1},
        {"port 0", {{any}, health, NULL, NULL}, 0},
        {"port 9000", {{other}, health, NULL, NULL}, 0},
        {"port 9000, as in the image", {{other}, health, "ATTENTIOND_HOST", "0.0.0.0"}, 0},
        {"every address", {{every}, health, NULL, NULL}, 0},
        {"several, one on the usual port", {{usual, other}, health, NULL, NULL}, 0},
        {"several, none on the usual port", {{any, other}, health, NULL, NULL}, 1},
        {"several, a flag decides", {{any, other}, told, NULL, NULL}, 0},
        {"several, a variable decides", {{any, other}, health, "ATTENTIOND_PORT", "9000"}, 0},
        {"one, but a flag says another port", {{other}, wrong, NULL, NULL}, 1},
        {"one, but a variable says another port", {{other}, health, "ATTENTIOND_PORT", "9001"}, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int status = run_in_namespaces(&rows[i].run);
        if (status == 77) {
            check_skip("namespaces are not allowed here");
            return;
        }
        CHECK(status == rows[i].status, "%s: status %d", rows[i].name, status);
    }
}

static void test_an_idle_daemon_stops_at_once(void) {
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < 2; i++) {
        daemon_process daemon;
        wire_link wire;
        double seconds;
        CHECK_FATAL(daemon_start(&daemon, NULL), "no daemon");
        CHECK_FATAL(wire_open(&wire, daemon.port), "cannot connect"); /* an idle connection must not delay the stop */
        wire_print(&wire, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        http_reply reply = wire_reply(&wire, 5, false);
        CHECK(reply.status == 200, "status %d", reply.status);
        http_free(&reply);
        const int status = daemon_stop(&daemon, signals[i], &seconds);
        CHECK(status == 0, "signal %d: exit status %d", signals[i], status);
        CHECK(seconds < patient(2), "signal %d: stopped after %g s", signals[i], seconds);
        wire_close(&wire);
    }
}

static void test_a_drain_answers_what_is_in_flight(void) {
    enum { POSTS = 12 };
    static const char *const flags[] = {"--drain-timeout", "10m", "--compute-timeout", "10m", NULL};
    daemon_process daemon;
    wire_link wires[POSTS], probe, upload, late;
    text_buffer text = heavy_post(15000);
    CHECK_FATAL(daemon_start(&daemon, flags), "no daemon");
    CHECK_FATAL(wire_open(&probe, daemon.port) && wire_open(&upload, daemon.port), "cannot connect");
    wire_print(&upload, "POST /attention HTTP/1.1\r\nHost: x\r\nContent-Length: 31\r\n\r\n{");
    for (size_t i = 0; i < POSTS; i++) {
        CHECK_FATAL(wire_open(&wires[i], daemon.port), "cannot connect");
        wire_send(&wires[i], text.bytes, text.length);
    }
    wire_print(&probe, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    http_reply reply = wire_reply(&probe, 5, false);
    CHECK(reply.status == 200, "healthz %d", reply.status);
    http_free(&reply);
    await_arrivals(daemon.port, POSTS + 1);
    kill(daemon.pid, SIGTERM);
    bool refused = false;
    for (const double end = now() + patient(10); !refused && now() < end; sleep_seconds(0.01)) {
        refused = !wire_open(&late, daemon.port);
        wire_close(&late);
    }
    CHECK(refused, "new connections are accepted");
    size_t answered = 0; /* at the time of the signal: these cannot say Connection: close */
    bool early[POSTS];
    for (size_t i = 0; i < POSTS; i++) {
        char byte;
        early[i] = recv(wires[i].fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
        answered += early[i];
    }
    if (answered == POSTS) check_skip("all was answered before the signal");
    wire_print(&upload, &SMALL[1]);
    reply = wire_reply(&upload, 30, false);
    CHECK(reply.status == 200, "an upload under way: %d", reply.status);
    http_free(&reply);
    for (size_t i = 0; i < POSTS; i++) {
        char value[512];
        reply = wire_reply(&wires[i], 60, false);
        CHECK(reply.status == 200, "request %zu: %d %.200s", i, reply.status, reply.body ? reply.body : "");
        const bool closes = http_header(&reply, "Connection", value) && !strcasecmp(value, "close");
        CHECK(reply.status == 0 || early[i] || closes, "request %zu lacks Connection: close", i);
        http_free(&reply);
        wire_close(&wires[i]);
    }
    const int status = daemon_stop(&daemon, 0, NULL);
    CHECK(status == 0, "exit status %d", status);
    wire_close(&upload);
    wire_close(&probe);
    text_free(&text);
}

static void test_unready_during_the_drain_delay(void) {
    static const char *const flags[] = {"--drain-delay", "3s", NULL};
    daemon_process daemon;
    CHECK_FATAL(daemon_start(&daemon, flags), "no daemon");
    kill(daemon.pid, SIGTERM);
    http_reply ready = {0};
    for (const double end = now() + patient(2); ready.status != 503 && now() < end; sleep_seconds(0.01)) {
        http_free(&ready);
        ready = http_send(NULL, daemon.port, &(http_request){.method = "GET", .path = "/readyz"});
    }
    expect_problem(&ready, 503, "shutting_down|not_ready", NULL, "readyz while draining");
    CHECK(healthy(daemon.port), "healthz must stay 200");
    http_reply post = http_post_to(daemon.port, "/attention", SMALL);
    CHECK(post.status == 200, "requests must be served as before: %d", post.status);
    http_free(&ready);
    http_free(&post);
    CHECK(daemon_stop(&daemon, 0, NULL) == 0, "exit status");
}

static void test_the_drain_time_out(void) {
    static const char *const flags[] = {"--drain-timeout", "500ms", NULL};
    daemon_process daemon;
    wire_link wire;
    double seconds;
    text_buffer text = heavy_post(400000);
    CHECK_FATAL(daemon_start(&daemon, flags), "no daemon");
    CHECK_FATAL(wire_open(&wire, daemon.port), "cannot connect");
    wire_send(&wire, text.bytes, text.length);
    await_arrivals(daemon.port, 1);
    sleep_seconds(0.3);
    kill(daemon.pid, SIGTERM);
    http_reply reply = wire_reply(&wire, 10, false);
    expect_problem(&reply, 503, "shutting_down", NULL, "cancelled by the drain");
    http_free(&reply);
    CHECK(daemon_stop(&daemon, 0, &seconds) == 0, "exit status");
    CHECK(seconds < patient(5), "stopped %g s later", seconds);
    wire_close(&wire);
    text_free(&text);
}

static void test_a_second_signal_ends_at_once(void) {
    daemon_process daemon;
    wire_link wire;
    text_buffer text = heavy_post(400000);
    CHECK_FATAL(daemon_start(&daemon, NULL), "no daemon");
    CHECK_FATAL(wire_open(&wire, daemon.port), "cannot connect");
    wire_send(&wire, text.bytes, text.length);
    await_arrivals(daemon.port, 1);
    sleep_seconds(0.3);
    kill(daemon.pid, SIGTERM);
    expect_logged(&daemon, "draining");
    double seconds;
    const int status = daemon_stop(&daemon, SIGTERM, &seconds);
    CHECK(status == 128 + SIGTERM && seconds < patient(1), "status %d after %g s", status, seconds);
    wire_close(&wire);
    text_free(&text);
}

static void test_every_supported_kernel_can_be_forced(void) {
    daemon_process daemon;
    CHECK_FATAL(daemon_start(&daemon, (const char *const[]){"--kernel", "portable", NULL}), "no daemon");
    http_reply reply = http_send(NULL, daemon.port, &(http_request){.method = "GET", .path = "/version"});
    CHECK(reply.body && strstr(reply.body, "\"portable\""), "%s", reply.body);
    http_free(&reply);
    expect_logged(&daemon, "portable");
    CHECK(daemon_stop(&daemon, SIGTERM, NULL) == 0, "exit status");
}

int main(int argc, char **argv) {
    static const check_test tests[] = {
        CHECK_TEST(test_the_ready_line),
        CHECK_TEST(test_bad_values_exit_2),
        CHECK_TEST(test_environment),
        CHECK_TEST(test_unknown_variables_are_logged),
        CHECK_TEST(test_the_first_request_is_answered),
        CHECK_TEST(test_a_port_that_is_taken_exits_1),
        CHECK_TEST(test_help_and_version),
        CHECK_TEST(test_call),
        CHECK_TEST(test_call_gives_the_numbers_of_the_service),
        CHECK_TEST(test_health),
        CHECK_TEST(test_health_finds_the_daemon),
        CHECK_TEST(test_an_idle_daemon_stops_at_once),
        CHECK_TEST(test_a_drain_answers_what_is_in_flight),
        CHECK_TEST(test_unready_during_the_drain_delay),
        CHECK_TEST(test_the_drain_time_out),
        CHECK_TEST(test_a_second_signal_ends_at_once),
        CHECK_TEST(test_every_supported_kernel_can_be_forced),
    };
    return shared_main(argc, argv, tests, sizeof tests / sizeof *tests, NULL);
}
