/* settings.h: what can be set by a flag or by an environment variable.
 *
 * A setting is one row of SRV_SETTING_LIST. Its member of srv_settings, flag, environment variable, --help and the
 * tables of docs/operating.md and docs/attentiond.1 follow from the row: `io_threads` is --io-threads and
 * ATTENTIOND_IO_THREADS. A flag wins over the environment, which wins over the default.
 *
 * The functions are called by main before there are other threads.
 */
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum srv_level { SRV_ERROR, SRV_WARN, SRV_INFO, SRV_DEBUG } srv_level;
typedef enum srv_log_format { SRV_LOG_AUTO, SRV_LOG_TEXT, SRV_LOG_JSON } srv_log_format;

/* Kinds and the type of their member. COUNT and SIZE (bytes) lie between `least` and `most`, TIME (seconds, 0: no
 * limit) between 0 and `most`. CHOICE is the index of a word in the list that `words` holds. FLAG is true or false, and
 * a flag without a value is true; it has no value's name. Of other kinds `words` says what the default is if it depends
 * on the machine (the default then is ""). */
typedef const char *srv_setting_TEXT;
typedef uint64_t srv_setting_COUNT, srv_setting_SIZE;
typedef double srv_setting_TIME;
typedef int srv_setting_CHOICE;
typedef bool srv_setting_FLAG;

/*      kind, member, value's name, least, most, default, words, meaning */
#define SRV_SETTING_LIST(ROW)                                                                                         \
    ROW(TEXT, host, "ADDRESS", 0, 0, "127.0.0.1", "", "address to listen on; :: accepts IPv4 too")                    \
    ROW(COUNT, port, "PORT", 0, 65535, "8080", "", "port to listen on; 0 picks a free one")                           \
    ROW(COUNT, threads, "N", 1, 1024, "", "the CPUs that affinity and the cgroup's quota allow", "compute threads")   \
    ROW(COUNT, io_threads, "N", 1, 64, "", "2, or 1 on one CPU", "threads that read requests and send replies")       \
    ROW(SIZE, max_body, "SIZE", 1, 1ull << 50, "256MiB", "", "largest request body; larger ones get 413")             \
    ROW(SIZE, max_memory, "SIZE", 1 << 20, 1ull << 50, "",                                                            \
        "75% of the cgroup's memory limit, or of available memory if that is less",                                   \
        "memory that all requests in flight may use together")                                                        \
    ROW(COUNT, max_connections, "N", 1, 1000000, "8192", "", "most connections open at once")                         \
    ROW(COUNT, queue, "N", 1, 1000000, "256", "", "most requests waiting at once; others get 429")                    \
    ROW(TEXT, kernel, "NAME", 0, 0, "", "the fastest that this CPU supports", "compute kernel")                       \
    ROW(TIME, compute_timeout, "TIME", 0, 86400, "50s", "", "longest time to wait and compute together; then 504")    \
    ROW(TIME, request_timeout, "TIME", 0, 86400, "300s", "", "longest time to receive a request; then 408")           \
    ROW(TIME, head_timeout, "TIME", 0, 86400, "10s", "", "longest time to receive a request's head; then 408")        \
    ROW(TIME, body_timeout, "TIME", 0, 86400, "30s", "", "longest pause while receiving a body; then 408")            \
    ROW(TIME, idle_timeout, "TIME", 0, 86400, "75s", "", "how long an idle connection stays open")                    \
    ROW(TIME, drain_delay, "TIME", 0, 3600, "0s", "", "on SIGTERM: how long to serve as before while /readyz is 503") \
    ROW(TIME, drain_timeout, "TIME", 0, 3600, "8s", "", "after that: how long requests in flight may take")           \
    ROW(CHOICE, log_level, "LEVEL", 0, 0, "info", "error warn info debug",                                            \
        "least severe lines to log: error, warn, info or debug")                                                      \
    ROW(CHOICE, log_format, "FORMAT", 0, 0, "auto", "auto text json",                                                 \
        "format of the log: text, json, or auto (text on a terminal, else json)")                                     \
    ROW(FLAG, no_page, "", 0, 0, "false", "", "do not serve the page at /")

typedef enum srv_setting_id {
#define ROW(kind, member, value, least, most, fallback, words, meaning) SRV_SETTING_##member,
    SRV_SETTING_LIST(ROW)
#undef ROW
        SRV_SETTINGS
} srv_setting_id;

typedef enum srv_origin { SRV_FROM_DEFAULT, SRV_FROM_ENVIRONMENT, SRV_FROM_FLAG } srv_origin;

/* Strings point into argv and the environment. host has no brackets; kernel "" is the best. */
typedef struct srv_settings {
#define ROW(kind, member, value, least, most, fallback, words, meaning) srv_setting_##kind member;
    SRV_SETTING_LIST(ROW)
#undef ROW
    srv_origin origin[SRV_SETTINGS];
} srv_settings;

typedef enum srv_action { SRV_RUN, SRV_HELP, SRV_VERSION, SRV_BAD } srv_action;

typedef struct srv_command { /* the rest of the command line */
    const char *words[2];    /* "call" "attention", "health", or NULL */
    const char *help_form;   /* of --help=FORM: "text", "man", "markdown" */
    char message[384];       /* of SRV_BAD: one line */
} srv_command;

srv_action srv_settings_read(srv_settings *settings, srv_command *command, int argc, char **argv);
/* Fills in the defaults that depend on the machine: threads, io_threads, max_memory. */
void srv_settings_resolve(srv_settings *settings);
/* Calls visit with the name of each environment variable that begins with ATTENTIOND_ and is not a setting, and with
 * the setting's variable that is probably meant, or NULL. Skips what Kubernetes sets for a Service named attentiond. */
void srv_settings_unknown(void (*visit)(const char *name, const char *nearest, void *arg), void *arg);
/* Prints the settings for --help ("text"), as a section of the man page ("man"), or as a table ("markdown"). */
void srv_settings_print(FILE *file, const char *form);

#endif
