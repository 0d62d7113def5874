/* config.c: the one table of settings. Flags, environment, --help and the documentation come from it. */
#include "server.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { TEXT, COUNT, SIZE, TIME, CHOICE } kind;

typedef struct setting {
    const char *name, *value_name;
    kind kind;
    size_t offset;          /* in srv_config: const char *, uint64_t, uint64_t, double, int */
    uint64_t least, most;   /* of COUNT, SIZE, and (in seconds) TIME */
    const char *choices[5]; /* of CHOICE, in the order of the enum */
    const char *fallback;   /* default, NULL: none, and `shown` says what happens */
    const char *shown;
    const char *help;
} setting;

#define AT(member) offsetof(srv_config, member)

static const setting settings[] = {
    {"host", "ADDRESS", TEXT, AT(host), 0, 0, {0}, "127.0.0.1", NULL, "address to listen on; :: takes IPv4 too"},
    {"port", "PORT", COUNT, AT(port), 0, 65535, {0}, "8080", NULL, "port to listen on; 0 takes any that is free"},
    {"threads",
     "N",
     COUNT,
     AT(threads),
     1,
     1024,
     {0},
     NULL,
     "the CPUs this process may use",
     "compute threads; affinity and cgroup quota are counted"},
    {"io-threads",
     "N",
     COUNT,
     AT(io_threads),
     1,
     64,
     {0},
     NULL,
     "2, or 1 on one CPU",
     "threads that read, decode and send"},
    {"max-body", "SIZE", SIZE, AT(max_body), 1, 1ull << 50, {0}, "256MiB", NULL, "longest request body"},
    {"max-memory",
     "SIZE",
     SIZE,
     AT(max_memory),
     1 << 20,
     1ull << 50,
     {0},
     NULL,
     "75% of the cgroup's limit or of free memory",
     "bytes that requests in flight may hold together"},
    {"max-connections", "N", COUNT, AT(max_connections), 1, 1000000, {0}, "8192", NULL, "connections open at once"},
    {"queue", "N", COUNT, AT(queue), 1, 1000000, {0}, "256", NULL, "requests that may wait; more are answered 429"},
    {"kernel", "NAME", TEXT, AT(kernel), 0, 0, {0}, NULL, "the fastest this CPU can run", "kernel row to compute with"},
    {"compute-timeout",
     "TIME",
     TIME,
     AT(compute_timeout),
     0,
     86400,
     {0},
     "50s",
     NULL,
     "longest queueing and computing together; then 504"},
    {"request-timeout",
     "TIME",
     TIME,
     AT(request_timeout),
     0,
     86400,
     {0},
     "300s",
     NULL,
     "longest upload of a request; then 408"},
    {"head-timeout",
     "TIME",
     TIME,
     AT(head_timeout),
     0,
     86400,
     {0},
     "10s",
     NULL,
     "longest arrival of a request's head; then 408"},
    {"body-timeout", "TIME", TIME, AT(body_timeout), 0, 86400, {0}, "30s", NULL, "longest gap in a body; then 408"},
    {"idle-timeout",
     "TIME",
     TIME,
     AT(idle_timeout),
     0,
     86400,
     {0},
     "75s",
     NULL,
     "how long a connection may idle between requests"},
    {"drain-delay",
     "TIME",
     TIME,
     AT(drain_delay),
     0,
     3600,
     {0},
     "0s",
     NULL,
     "on SIGTERM, how long to accept as before while unready"},
    {"drain-timeout",
     "TIME",
     TIME,
     AT(drain_timeout),
     0,
     3600,
     {0},
     "8s",
     NULL,
     "then how long requests in flight may take to finish"},
    {"log-level",
     "LEVEL",
     CHOICE,
     AT(log_level),
     0,
     0,
     {"error", "warn", "info", "debug"},
     "info",
     NULL,
     "least important lines that are logged"},
    {"log-format",
     "FORMAT",
     CHOICE,
     AT(log_format),
     0,
     0,
     {"auto", "text", "json"},
     "auto",
     NULL,
     "form of the log on stderr; auto: text on a terminal, else json"},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static void environment_name(const char *name, char result[64]) {
    size_t n = (size_t)snprintf(result, 64, "ATTENTIOND_%s", name);
    for (size_t i = 0; i < n; i++) result[i] = result[i] == '-' ? '_' : (char)toupper((unsigned char)result[i]);
}

/* What was expected, for messages and help. */
static void expectation(const setting *s, char text[160]) {
    switch (s->kind) {
    case TEXT: snprintf(text, 160, "a text that is not empty"); break;
    case COUNT:
        snprintf(text, 160, "a whole number from %llu to %llu", (unsigned long long)s->least,
                 (unsigned long long)s->most);
        break;
    case SIZE: snprintf(text, 160, "a size such as 64KiB, 256MiB or 2GiB"); break;
    case TIME: snprintf(text, 160, "a time such as 500ms, 50s or 2m, up to %llus", (unsigned long long)s->most); break;
    case CHOICE: {
        size_t n = (size_t)snprintf(text, 160, "one of");
        for (size_t i = 0; s->choices[i]; i++)
            n += (size_t)snprintf(text + n, 160 - n, "%s %s", i ? "," : "", s->choices[i]);
        break;
    }
    }
}

static bool store(srv_config *config, const setting *s, const char *text) {
    void *place = (char *)config + s->offset;
    uint64_t whole;
    double seconds;
    switch (s->kind) {
    case TEXT: *(const char **)place = text; return *text != 0;
    case COUNT:
    case SIZE:
        if (!(s->kind == SIZE ? srv_read_size : srv_read_count)(text, &whole)) return false;
        if (whole < s->least || whole > s->most) return false;
        *(uint64_t *)place = whole;
        return true;
    case TIME:
        if (!srv_read_time(text, &seconds) || seconds > (double)s->most) return false;
        *(double *)place = seconds;
        return true;
    case CHOICE:
        for (int i = 0; s->choices[i]; i++)
            if (strcmp(text, s->choices[i]) == 0) {
                *(int *)place = i;
                return true;
            }
        return false;
    }
    return false;
}

static srv_action bad_value(srv_command *command, const setting *s, const char *where, const char *text) {
    char wanted[160];
    expectation(s, wanted);
    snprintf(command->message, sizeof command->message, "%s: expected %s, not \"%.60s\"", where, wanted, text);
    return SRV_BAD;
}

/* Kubernetes sets ATTENTIOND_PORT=tcp://10.0.0.1:80 in every pod beside a Service of that name: not meant for us. */
static bool of_a_service_link(const char *text) {
    return strncmp(text, "tcp://", 6) == 0 || strncmp(text, "udp://", 6) == 0;
}

static srv_action read_environment(srv_config *config, srv_command *command) {
    for (size_t i = 0; i < SETTINGS; i++) {
        char name[64];
        environment_name(settings[i].name, name);
        const char *text = getenv(name);
        if (!text || !*text || of_a_service_link(text)) continue; /* empty counts as unset */
        if (!store(config, &settings[i], text)) return bad_value(command, &settings[i], name, text);
    }
    return SRV_RUN;
}

static srv_action unknown_flag(srv_command *command, const char *flag, size_t length) {
    static const char *const others[] = {"help", "version"};
    char given[64];
    snprintf(given, sizeof given, "%.*s", (int)(length < 63 ? length : 63), flag);
    const char *nearest = others[0];
    for (size_t i = 0; i < SETTINGS + 2; i++) {
        const char *name = i < SETTINGS ? settings[i].name : others[i - SETTINGS];
        if (srv_distance(given, name) < srv_distance(given, nearest)) nearest = name;
    }
    snprintf(command->message, sizeof command->message, "unknown flag --%s; the nearest is --%s (see --help)", given,
             nearest);
    return SRV_BAD;
}

static const setting *find(const char *name, size_t length) {
    for (size_t i = 0; i < SETTINGS; i++)
        if (strlen(settings[i].name) == length && memcmp(settings[i].name, name, length) == 0) return &settings[i];
    return NULL;
}

/* One "--name value" or "--name=value" at argv[*i]; leaves *i at its last word. */
static srv_action read_flag(srv_config *config, srv_command *command, int argc, char **argv, int *i) {
    const char *flag = argv[*i] + 2;
    size_t length = strcspn(flag, "=");
    const char *text = flag[length] ? flag + length + 1 : NULL;
    if (length == 4 && memcmp(flag, "help", 4) == 0) {
        command->help_form = text ? text : "text";
        return SRV_HELP;
    }
    if (strcmp(flag, "version") == 0) return SRV_VERSION;
    const setting *s = find(flag, length);
    if (!s) return unknown_flag(command, flag, length);
    if (!text && *i + 1 < argc) text = argv[++*i];
    if (!text) {
        char wanted[160];
        expectation(s, wanted);
        snprintf(command->message, sizeof command->message, "--%s: expected %s after it", s->name, wanted);
        return SRV_BAD;
    }
    if (store(config, s, text)) return SRV_RUN;
    char where[64];
    snprintf(where, sizeof where, "--%s", s->name);
    return bad_value(command, s, where, text);
}

static srv_action read_flags(srv_config *config, srv_command *command, int argc, char **argv) {
    size_t words = 0;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0 && argv[i][2]) {
            srv_action action = read_flag(config, command, argc, argv, &i);
            if (action != SRV_RUN) return action;
        } else if (strcmp(argv[i], "-h") == 0) {
            command->help_form = "text";
            return SRV_HELP;
        } else if (argv[i][0] == '-' || words == 2) {
            snprintf(command->message, sizeof command->message, "unexpected \"%.60s\" (see --help)", argv[i]);
            return SRV_BAD;
        } else {
            command->words[words++] = argv[i];
        }
    }
    return SRV_RUN;
}

static void strip_brackets(srv_config *config) { /* of an IPv6 address; argv and the environment are writable */
    size_t n = strlen(config->host);
    if (n < 3 || config->host[0] != '[' || config->host[n - 1] != ']') return;
    ((char *)(uintptr_t)config->host)[n - 1] = 0;
    config->host++;
}

srv_action srv_config_read(srv_config *config, srv_command *command, int argc, char **argv) {
    *config = (srv_config){0};
    *command = (srv_command){0};
    for (size_t i = 0; i < SETTINGS; i++)
        if (settings[i].fallback) store(config, &settings[i], settings[i].fallback);
    srv_config from_flags = *config;
    srv_action action = read_flags(&from_flags, command, argc, argv); /* --help wins over a bad environment */
    if (action != SRV_RUN) return action;
    action = read_environment(config, command);
    if (action != SRV_RUN) return action;
    action = read_flags(config, command, argc, argv);
    strip_brackets(config);
    return action;
}

void srv_config_resolve(srv_config *config) {
    size_t cpus = srv_cpus();
    if (!config->threads) config->threads = cpus;
    if (!config->io_threads) config->io_threads = cpus > 1 ? 2 : 1;
    if (!config->max_memory) config->max_memory = srv_memory() / 4 * 3;
}

static void print_text(FILE *file) {
    for (size_t i = 0; i < SETTINGS; i++) {
        const setting *s = &settings[i];
        char flag[64], environment[64];
        environment_name(s->name, environment);
        snprintf(flag, sizeof flag, "--%s %s", s->name, s->value_name);
        fprintf(file, "  %-24s %s\n  %-24s [%s, default: %s]\n", flag, s->help, "", environment,
                s->fallback ? s->fallback : s->shown);
    }
    fprintf(file, "  %-24s this text, or its table as man or markdown\n", "--help[=FORM]");
    fprintf(file, "  %-24s version, kernel, libraries\n", "--version");
}

void srv_config_print(FILE *file, const char *form) {
    bool man = strcmp(form, "man") == 0;
    if (!man && strcmp(form, "markdown") != 0) {
        print_text(file);
        return;
    }
    if (!man) fputs("| flag | environment | default | meaning |\n| --- | --- | --- | --- |\n", file);
    for (size_t i = 0; i < SETTINGS; i++) {
        const setting *s = &settings[i];
        char environment[64];
        environment_name(s->name, environment);
        const char *usual = s->fallback ? s->fallback : s->shown;
        if (man)
            fprintf(file, ".TP\n.BI \\-\\-%s \" %s\"\n%s (environment %s, default: %s).\n", s->name, s->value_name,
                    s->help, environment, usual);
        else
            fprintf(file, "| `--%s %s` | `%s` | %s | %s |\n", s->name, s->value_name, environment, usual, s->help);
    }
}
