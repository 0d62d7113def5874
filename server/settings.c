/* settings.c: reads flags and environment into the settings. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../api/api.h"
#include "container.h"
#include "settings_table.h"
#include "values.h"

#define PREFIX "ATTENTIOND_"

const srv_setting srv_setting_table[SRV_SETTINGS] = {
#define ROW(kind, member, value, least, most, fallback, words, meaning) \
    {kind, #member, offsetof(srv_settings, member), value, least, most, fallback, words, meaning},
    SRV_SETTING_LIST(ROW)
#undef ROW
};

void srv_setting_flag(const srv_setting *setting, char name[SRV_NAME_SIZE]) {
    snprintf(name, SRV_NAME_SIZE, "%s", setting->member);
    for (; *name; name++)
        if (*name == '_') *name = '-';
}

void srv_setting_environment(const srv_setting *setting, char name[SRV_NAME_SIZE]) {
    snprintf(name, SRV_NAME_SIZE, PREFIX "%s", setting->member);
    for (; *name; name++) *name = (char)toupper((unsigned char)*name);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* The index of a word in a list of words separated by blanks; -1: not there. */
static int index_of(const char *words, const char *text) {
    const size_t length = strlen(text);
    for (int i = 0; *words; i++) {
        const size_t span = strcspn(words, " ");
        if (span == length && memcmp(words, text, span) == 0) return i;
        words += span + (words[span] == ' ');
    }
    return -1;
}

/* false: the text is not a value of this setting, which is left as it was unless it is a text. */
static bool store(srv_settings *settings, const srv_setting *s, const char *text, srv_origin origin) {
    void *place = (char *)settings + s->offset;
    uint64_t whole;
    double seconds;
    int choice;
    switch (s->kind) {
    case TEXT:
        if (!*text) return false;
        *(const char **)place = text;
        break;
    case COUNT:
    case SIZE:
        if (!(s->kind == SIZE ? srv_read_size : srv_read_count)(text, &whole)) return false;
        if (whole < s->least || whole > s->most) return false;
        *(uint64_t *)place = whole;
        break;
    case TIME:
        if (!srv_read_time(text, &seconds) || seconds > (double)s->most) return false;
        *(double *)place = seconds;
        break;
    case CHOICE:
        if ((choice = index_of(s->words, text)) < 0) return false;
        *(int *)place = choice;
        break;
    case FLAG:
        if ((choice = index_of("false true 0 1", text)) < 0) return false;
        *(bool *)place = choice % 2;
        break;
    }
    settings->origin[s - srv_setting_table] = origin;
    return true;
}

/* What a value must look like, for messages. */
static void expectation(const srv_setting *s, char text[160]) {
    switch (s->kind) {
    case TEXT: snprintf(text, 160, "a text that is not empty"); break;
    case COUNT:
        snprintf(text, 160, "a whole number from %llu to %llu", (unsigned long long)s->least,
                 (unsigned long long)s->most);
        break;
    case SIZE:
        snprintf(text, 160, "a size such as 64KiB, 256MiB or 2GiB, at least %llu bytes", (unsigned long long)s->least);
        break;
    case TIME:
        snprintf(text, 160, "a time such as 500ms, 50s or 2m, at most %llus", (unsigned long long)s->most);
        break;
    case CHOICE: snprintf(text, 160, "one of: %s", s->words); break;
    case FLAG: snprintf(text, 160, "true or false"); break;
    }
}

static srv_action bad_value(srv_command *command, const srv_setting *s, const char *where, const char *text) {
    char wanted[160];
    expectation(s, wanted);
    if (text)
        snprintf(command->message, sizeof command->message, "%s: expected %s, got \"%.60s\"", where, wanted, text);
    else
        snprintf(command->message, sizeof command->message, "%s: missing value; expected %s", where, wanted);
    return SRV_BAD;
}

/* ---- environment ------------------------------------------------------------------------------------------------- */

/* Kubernetes sets ATTENTIOND_PORT=tcp://10.0.0.1:80 in every pod beside a Service named attentiond: not meant for us.
 */
static bool is_service_link(const char *value) {
    return strncmp(value, "tcp://", 6) == 0 || strncmp(value, "udp://", 6) == 0;
}

static srv_action read_environment(srv_settings *settings, srv_command *command) {
    for (size_t i = 0; i < SRV_SETTINGS; i++) {
        const srv_setting *s = &srv_setting_table[i];
        char name[SRV_NAME_SIZE];
        srv_setting_environment(s, name);
        const char *text = getenv(name);
        if (!text || !*text || is_service_link(text)) continue; /* empty counts as unset */
        if (!store(settings, s, text, SRV_FROM_ENVIRONMENT)) return bad_value(command, s, name, text);
    }
    return SRV_RUN;
}

/* Of a Service named attentiond Kubernetes also sets ATTENTIOND_SERVICE_HOST, ATTENTIOND_SERVICE_PORT_HTTP,
 * ATTENTIOND_PORT_80_TCP_ADDR and so on. `name`: without the prefix. */
static bool is_of_a_service(const char *name) {
    return strncmp(name, "SERVICE_", 8) == 0 || (strncmp(name, "PORT_", 5) == 0 && isdigit((unsigned char)name[5]));
}

void srv_settings_unknown(void (*visit)(const char *name, const char *nearest, void *arg), void *arg) {
    for (char **at = environ; at && *at; at++) {
        char name[2 * SRV_NAME_SIZE], known[SRV_NAME_SIZE], nearest[SRV_NAME_SIZE] = "";
        if (strncmp(*at, PREFIX, sizeof PREFIX - 1) != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
        const char *own = name + sizeof PREFIX - 1;
        size_t least = SIZE_MAX;
        for (size_t i = 0; i < SRV_SETTINGS && least; i++) {
            srv_setting_environment(&srv_setting_table[i], known);
            const char *other = known + sizeof PREFIX - 1;
            const size_t distance = api_edit_distance(own, other);
            if (distance >= least || (distance && !api_is_near(own, other))) continue;
            least = distance;
            memcpy(nearest, known, sizeof nearest);
        }
        if (least && !is_of_a_service(own)) visit(name, *nearest ? nearest : NULL, arg);
    }
}

/* ---- flags ------------------------------------------------------------------------------------------------------- */

static srv_action unknown_flag(srv_command *command, const char *flag, size_t length) {
    char given[SRV_NAME_SIZE], known[SRV_NAME_SIZE], hint[2 * SRV_NAME_SIZE] = "";
    size_t least = SIZE_MAX;
    snprintf(given, sizeof given, "%.*s", (int)(length < sizeof given ? length : sizeof given - 1), flag);
    for (size_t i = 0; i < SRV_SETTINGS + 2; i++) {
        if (i < SRV_SETTINGS)
            srv_setting_flag(&srv_setting_table[i], known);
        else
            snprintf(known, sizeof known, "%s", i == SRV_SETTINGS ? "help" : "version");
        const size_t distance = api_edit_distance(given, known);
        if (distance >= least || !api_is_near(given, known)) continue;
        least = distance;
        snprintf(hint, sizeof hint, "; did you mean --%s?", known);
    }
    snprintf(command->message, sizeof command->message, "unknown flag --%s%s (see --help)", given, hint);
    return SRV_BAD;
}

static const srv_setting *find(const char *flag, size_t length) {
    for (size_t i = 0; i < SRV_SETTINGS; i++) {
        char known[SRV_NAME_SIZE];
        srv_setting_flag(&srv_setting_table[i], known);
        if (strlen(known) == length && memcmp(known, flag, length) == 0) return &srv_setting_table[i];
    }
    return NULL;
}

/* One "--name value", "--name=value" or, of a FLAG, "--name" at argv[*i]; leaves *i at its last word. */
static srv_action read_flag(srv_settings *settings, srv_command *command, int argc, char **argv, int *i) {
    const char *flag = argv[*i] + 2;
    const size_t length = strcspn(flag, "=");
    const char *text = flag[length] ? flag + length + 1 : NULL;
    if (length == 4 && memcmp(flag, "help", 4) == 0) {
        command->help_form = text ? text : "text";
        return SRV_HELP;
    }
    if (strcmp(flag, "version") == 0) return SRV_VERSION;
    const srv_setting *s = find(flag, length);
    if (!s) return unknown_flag(command, flag, length);
    if (!text && s->kind == FLAG) text = "true";
    if (!text && *i + 1 < argc) text = argv[++*i];
    if (text && store(settings, s, text, SRV_FROM_FLAG)) return SRV_RUN;
    char where[SRV_NAME_SIZE];
    snprintf(where, sizeof where, "--%.*s", (int)length, flag);
    return bad_value(command, s, where, text);
}

static srv_action read_flags(srv_settings *settings, srv_command *command, int argc, char **argv) {
    size_t words = 0;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0 && argv[i][2]) {
            const srv_action action = read_flag(settings, command, argc, argv, &i);
            if (action != SRV_RUN) return action;
        } else if (strcmp(argv[i], "-h") == 0) {
            command->help_form = "text";
            return SRV_HELP;
        } else if (argv[i][0] == '-' || words == 2) {
            snprintf(command->message, sizeof command->message, "unexpected argument \"%.60s\" (see --help)", argv[i]);
            return SRV_BAD;
        } else {
            command->words[words++] = argv[i];
        }
    }
    return SRV_RUN;
}

static void strip_brackets(srv_settings *settings) { /* of an IPv6 address; argv and the environment are writable */
    const size_t n = strlen(settings->host);
    if (n < 3 || settings->host[0] != '[' || settings->host[n - 1] != ']') return;
    ((char *)(uintptr_t)settings->host)[n - 1] = 0;
    settings->host++;
}

srv_action srv_settings_read(srv_settings *settings, srv_command *command, int argc, char **argv) {
    *settings = (srv_settings){.kernel = ""};
    *command = (srv_command){0};
    for (size_t i = 0; i < SRV_SETTINGS; i++)
        if (*srv_setting_table[i].fallback)
            store(settings, &srv_setting_table[i], srv_setting_table[i].fallback, SRV_FROM_DEFAULT);
    srv_settings from_flags = *settings;
    srv_action action = read_flags(&from_flags, command, argc, argv); /* --help wins over a bad environment */
    if (action != SRV_RUN) return action;
    action = read_environment(settings, command);
    if (action != SRV_RUN) return action;
    action = read_flags(settings, command, argc, argv);
    strip_brackets(settings);
    return action;
}

void srv_settings_resolve(srv_settings *settings) {
    const size_t cpus = srv_cpus();
    if (!settings->threads) settings->threads = cpus;
    if (!settings->io_threads) settings->io_threads = cpus > 1 ? 2 : 1;
    if (!settings->max_memory) settings->max_memory = srv_memory() / 4 * 3;
}
