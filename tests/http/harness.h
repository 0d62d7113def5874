/* harness.h: the base of the integration tests: a daemon of their own, an HTTP client, bare sockets, and checks of
 * replies. Each program starts its daemon on a free port and ends it; ATTENTIOND names the binary. */
#ifndef HARNESS_H
#define HARNESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../support/check.h"

/* ---- the daemon -------------------------------------------------------------------------------------------------- */

typedef struct daemon_process {
    pid_t pid;
    int port;
    int log;        /* a file without a name that holds its stderr */
    int output;     /* its stdout, after the first line */
    char line[256]; /* the first line of stdout, without the newline */
} daemon_process;

/* Path of the binary under test. */
const char *daemon_binary(void);
/* Starts the daemon with --port 0 and the flags (NULL ends them) and waits until it listens, at most 20 s. */
bool daemon_start(daemon_process *daemon, const char *const *flags);
/* Sends the signal (0: none) and waits; returns the exit status, 128 + n for a signal n, -1 if it had to be killed
 * after 20 s. seconds may be NULL. */
int daemon_stop(daemon_process *daemon, int signal, double *seconds);
/* Everything it has logged so far; the caller frees it. */
char *daemon_log(const daemon_process *daemon);
/* The program's shared daemon, started by shared_main and ended after the tests. */
extern daemon_process shared;
/* check_main between start and stop of `shared`; a daemon that does not start or ends badly is a failure. */
int shared_main(int argc, char **argv, const check_test *tests, size_t count, const char *const *flags);

typedef struct command_result {
    int status;            /* exit status, 128 + n for a signal, -1: did not end within 20 s */
    char *output, *errors; /* command_free frees them */
    size_t length;
} command_result;
/* Runs the binary with the arguments (NULL ends them) and `input` on stdin. */
command_result command_run(const char *const *arguments, const void *input, size_t length);
void command_free(command_result *result);

/* ---- HTTP -------------------------------------------------------------------------------------------------------- */

typedef struct http_reply {
    int status; /* 0: none came */
    char *head; /* status line and headers, the last block only */
    char *body; /* ends with a NUL that is not counted */
    size_t length;
} http_reply;

typedef struct http_request {
    const char *method, *path;
    const char *const *headers; /* "Name: value", NULL ends them; NULL: none. Only Host and Content-Length are added */
    const void *body;           /* NULL: none */
    size_t length;
    bool chunked;
} http_request;

/* One exchange on a new connection, or on `handle` (a CURL handle, kept alive) if it is not NULL. */
http_reply http_send(void *handle, int port, const http_request *request);
http_reply http_get(const char *path);                    /* of `shared` */
http_reply http_post(const char *path, const char *json); /* as application/json, to `shared` */
http_reply http_post_to(int port, const char *path, const char *json);
void http_free(http_reply *reply);
/* Value of a header, whatever the case of its name; false if there is none. */
bool http_header(const http_reply *reply, const char *name, char value[512]);

/* ---- bare sockets ------------------------------------------------------------------------------------------------ */

typedef struct wire_link {
    int fd;
    char *bytes; /* received and not taken yet */
    size_t used, room;
    bool ended; /* the other side has closed */
} wire_link;

bool wire_open(wire_link *wire, int port);
void wire_close(wire_link *wire);
/* false if the other side no longer takes the bytes, which it may do after a reply */
bool wire_send(wire_link *wire, const void *bytes, size_t length);
bool wire_print(wire_link *wire, const char *text);
/* Times in seconds, which patient() lengthens.
 * Reads the next reply; `head_only`: of a HEAD request. status 0 if no complete one came within the time. */
http_reply wire_reply(wire_link *wire, double seconds, bool head_only);
/* true if the other side closes (or resets) within the time */
bool wire_ends(wire_link *wire, double seconds);
/* The status of the first line that comes within the time, without taking it; 0: none. */
int wire_peek_status(wire_link *wire, double seconds);

/* ---- checks ------------------------------------------------------------------------------------------------------ */

double now(void); /* seconds, monotonic */
/* The most that something may take: ten times the `seconds` of an idle machine, or CHECK_PATIENCE times. No test
 * may fail because a machine is busy. */
double patient(double seconds);
void sleep_seconds(double seconds);
/* Whether the reply is a problem document of the contract's section 4. `why` says what is wrong. */
bool problem_valid(const http_reply *reply, char why[512]);
/* Equal, or one is a prefix of the other. */
bool pointer_agrees(const char *got, const char *want);
/* Checks status, the problem document and, unless NULL, the code ("a|b": one of them) and pointer. */
bool expect_problem(const http_reply *reply, int status, const char *codes, const char *pointer, const char *label);
/* Whether `got` has the nested shape and the numbers of `want`, null for -infinity. */
bool json_agrees(const json_t *got, const json_t *want, double tolerance, char why[512]);
/* The number at a path such as "output/0/1" of a reply; NaN if there is none, -infinity for null. */
double reply_number(const http_reply *reply, const char *path);
/* Whether GET /healthz answers 200. */
bool healthy(int port);
/* The whole file; NULL if it cannot be read. Ends with a NUL that is not counted. */
char *file_read(const char *path, size_t *length);

#endif
