/* Settings: values, precedence, messages, unknown variables, and --help. */
#include "../support/check.h"

#include "../../server/settings.h"
#include "../../server/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static srv_settings settings;
static srv_command command;

/* Removes the settings of whoever runs the tests. */
static void forget_settings(void) {
    for (char **at = environ; *at;) {
        char name[64] = "";
        if (strncmp(*at, "ATTENTIOND_", 11) == 0 && sscanf(*at, "%63[^=]", name) == 1 && unsetenv(name) == 0)
            at = environ;
        else
            at++;
    }
}

static srv_action read_words(const char *first, const char *second, const char *third) {
    char *argv[] = {strdup("attentiond"), first ? strdup(first) : NULL, second ? strdup(second) : NULL,
                    third ? strdup(third) : NULL, NULL};
    int argc = 1 + (first != NULL) + (second != NULL) + (third != NULL);
    srv_action action = srv_settings_read(&settings, &command, argc, argv);
    static char host[64]; /* outlives argv */
    snprintf(host, sizeof host, "%s", settings.host ? settings.host : "");
    settings.host = host;
    for (int i = 0; i < argc; i++) free(argv[i]);
    return action;
}

static void test_sizes(void) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},          {"4096", 4096},  {"64K", 65536},         {"64KiB", 65536},
                {"1MiB", 1 << 20}, {"1m", 1 << 20}, {"1.5GiB", 3ull << 29}, {"256MiB", 256u << 20}};
    static const char *const bad[] = {"", "x", "-1", "1XB", "1 MiB", ".", "1e3", "99999999999999999999TiB", "1..5K"};
    uint64_t bytes = 1;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(srv_read_size(good[i].text, &bytes) && bytes == good[i].bytes, "%s is %llu", good[i].text,
              (unsigned long long)bytes);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!srv_read_size(bad[i], &bytes), "\"%s\" is read", bad[i]);
}

static void test_times(void) {
    static const struct {
        const char *text;
        double seconds;
    } good[] = {{"50s", 50}, {"50", 50}, {"500ms", 0.5}, {"2m", 120}, {"1h", 3600}, {"0", 0}, {"1.5s", 1.5}};
    static const char *const bad[] = {"", "s", "-1s", "1d", "5 s", "nan", "inf", "1e3"};
    double seconds = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(srv_read_time(good[i].text, &seconds) && fabs(seconds - good[i].seconds) < 1e-12, "%s is %g",
              good[i].text, seconds);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!srv_read_time(bad[i], &seconds), "\"%s\" is read", bad[i]);
}

static void test_counts(void) {
    uint64_t value = 0;
    CHECK(srv_read_count("18446744073709551615", &value) && value == UINT64_MAX, "2^64 - 1 is %llu",
          (unsigned long long)value);
    CHECK(!srv_read_count("18446744073709551616", &value), "2^64 is read");
    CHECK(!srv_read_count("+1", &value) && !srv_read_count("", &value) && !srv_read_count("1 ", &value),
          "junk is read");
}

static void test_defaults(void) {
    CHECK(read_words(NULL, NULL, NULL) == SRV_RUN, "%s", command.message);
    CHECK(strcmp(settings.host, "127.0.0.1") == 0 && settings.port == 8080, "%s:%llu", settings.host,
          (unsigned long long)settings.port);
    CHECK(settings.max_body == 256u << 20 && settings.queue == 256, "sizes");
    CHECK(settings.compute_timeout == 50 && settings.request_timeout == 300 && settings.idle_timeout == 75, "times");
    CHECK(settings.drain_delay == 0 && settings.drain_timeout == 8, "drain");
    CHECK(settings.log_level == SRV_INFO && settings.log_format == SRV_LOG_AUTO, "log");
    srv_settings_resolve(&settings);
    CHECK(settings.origin[SRV_SETTING_port] == SRV_FROM_DEFAULT, "origin");
    CHECK(settings.threads >= 1 && settings.io_threads >= 1 && settings.max_memory > 1 << 20, "resolved");
}

static void test_flags_beat_environment(void) {
    setenv("ATTENTIOND_PORT", "9000", 1);
    setenv("ATTENTIOND_IO_THREADS", "3", 1);
    CHECK(read_words(NULL, NULL, NULL) == SRV_RUN && settings.port == 9000 && settings.io_threads == 3, "environment");
    CHECK(settings.origin[SRV_SETTING_port] == SRV_FROM_ENVIRONMENT, "origin: environment");
    CHECK(read_words("--port", "9001", NULL) == SRV_RUN && settings.port == 9001 && settings.io_threads == 3, "flag");
    CHECK(settings.origin[SRV_SETTING_port] == SRV_FROM_FLAG, "origin: flag");
    CHECK(read_words("--port=9002", NULL, NULL) == SRV_RUN && settings.port == 9002, "flag with =");
    setenv("ATTENTIOND_PORT", "", 1);
    CHECK(read_words(NULL, NULL, NULL) == SRV_RUN && settings.port == 8080, "empty counts as unset");
    setenv("ATTENTIOND_PORT", "tcp://10.0.0.1:8080", 1);
    CHECK(read_words(NULL, NULL, NULL) == SRV_RUN && settings.port == 8080, "Kubernetes' service link is not ours");
    setenv("ATTENTIOND_PORT", "x", 1);
    CHECK(read_words(NULL, NULL, NULL) == SRV_BAD && strstr(command.message, "ATTENTIOND_PORT"), "%s", command.message);
    CHECK(read_words("--help", NULL, NULL) == SRV_HELP, "help in spite of a bad environment");
    unsetenv("ATTENTIOND_PORT");
    unsetenv("ATTENTIOND_IO_THREADS");
}

static void test_faults_are_one_clear_line(void) {
    static const struct {
        const char *first, *second, *says;
    } bad[] = {{"--port", "99999", "from 0 to 65535, got \"99999\""},
               {"--prot", "1", "unknown flag --prot; did you mean --port? (see --help)"},
               {"--bogus", "1", "unknown flag --bogus (see --help)"},
               {"--thread", "1", "did you mean --threads?"},
               {"--port", NULL, "missing value; expected a whole number"},
               {"--log-level", "loud", "debug"},
               {"--max-body", "3XB", "MiB"},
               {"--queue", "0", "from 1"},
               {"-x", NULL, "-x"},
               {"--threads", "", "whole"},
               {"--vresion", NULL, "--version"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(read_words(bad[i].first, bad[i].second, NULL) == SRV_BAD, "%s is taken", bad[i].first);
        CHECK(strstr(command.message, bad[i].says) && !strchr(command.message, '\n'), "%s: %s", bad[i].first,
              command.message);
    }
}

typedef struct unknown_names {
    size_t count;
    char text[1024];
} unknown_names;

static void note_unknown(const char *name, const char *nearest, void *arg) {
    unknown_names *names = arg;
    const size_t length = strlen(names->text);
    snprintf(names->text + length, sizeof names->text - length, "%s>%s ", name, nearest ? nearest : "");
    names->count++;
}

static void test_unknown_variables_are_found(void) {
    static const char *const set[][2] = {
        {"ATTENTIOND_PROT", "9000"},
        {"ATTENTIOND_IO_THREAD", "1"},
        {"ATTENTIOND_FOO", "x"},
        {"ATTENTIOND_PORT", "9000"},
        {"ATTENTIOND_SERVICE_HOST", "10.0.0.1"},
        {"ATTENTIOND_PORT_80_TCP", "tcp://x"},
        {"ATTENTIOND_port", "9000"},
        {"ATTENTIONS", "1"},
        {"ATTENTIOND_SERVICE_PORT_HTTP", "80"},
        {"ATTENTIOND_IDLE_TIMEOUT", "1"},
    };
    static const char *const want[] = {"ATTENTIOND_PROT>ATTENTIOND_PORT ",
                                       "ATTENTIOND_IO_THREAD>ATTENTIOND_IO_THREADS ", "ATTENTIOND_FOO> ",
                                       "ATTENTIOND_port>ATTENTIOND_PORT "};
    unknown_names names = {0};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) setenv(set[i][0], set[i][1], 1);
    srv_settings_unknown(note_unknown, &names);
    for (size_t i = 0; i < 4; i++) CHECK(strstr(names.text, want[i]), "%s is not in %s", want[i], names.text);
    CHECK(names.count == 4, "%zu: %s", names.count, names.text);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) unsetenv(set[i][0]);
}

static void test_words(void) {
    CHECK(read_words("--port=1", "health", NULL) == SRV_RUN && command.words[0] && !command.words[1], "health");
    CHECK(read_words("call", "mha", NULL) == SRV_RUN && command.words[1], "call mha");
    CHECK(read_words("call", "mha", "more") == SRV_BAD, "three words");
    CHECK(read_words("--host", "[::1]", NULL) == SRV_RUN && strcmp(settings.host, "::1") == 0, "brackets: %s",
          settings.host);
}

static void test_help_names_every_flag_and_twin(void) {
    static const char *const forms[] = {"text", "man", "markdown"};
    for (size_t i = 0; i < 3; i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *file = open_memstream(&text, &length);
        CHECK_FATAL(file != NULL, "no memory");
        srv_settings_print(file, forms[i]);
        fclose(file);
        CHECK(strstr(text, "drain-timeout") && strstr(text, "ATTENTIOND_DRAIN_TIMEOUT") && strstr(text, "8s"), "%s",
              forms[i]);
        free(text);
    }
}

int main(int argc, char **argv) {
    forget_settings();
    const check_test tests[] = {CHECK_TEST(test_sizes),
                                CHECK_TEST(test_times),
                                CHECK_TEST(test_counts),
                                CHECK_TEST(test_defaults),
                                CHECK_TEST(test_flags_beat_environment),
                                CHECK_TEST(test_faults_are_one_clear_line),
                                CHECK_TEST(test_unknown_variables_are_found),
                                CHECK_TEST(test_words),
                                CHECK_TEST(test_help_names_every_flag_and_twin)};
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
