/* Settings: values, precedence, messages, and what stands in --help. */
#include "../support/check.h"

#include "../../server/server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static srv_config config;
static srv_command command;

/* The environment of whoever runs the tests is not what they are about. */
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
    srv_action action = srv_config_read(&config, &command, argc, argv);
    static char host[64]; /* outlives argv */
    snprintf(host, sizeof host, "%s", config.host ? config.host : "");
    config.host = host;
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

static void test_distance(void) {
    CHECK(srv_distance("port", "port") == 0, "port, port");
    CHECK(srv_distance("prot", "port") == 2, "prot, port");
    CHECK(srv_distance("kitten", "sitting") == 3, "kitten, sitting");
    CHECK(srv_distance("", "abc") == 3 && srv_distance("abc", "") == 3, "empty");
}

static void test_defaults(void) {
    CHECK(read_words(NULL, NULL, NULL) == SRV_RUN, "%s", command.message);
    CHECK(strcmp(config.host, "127.0.0.1") == 0 && config.port == 8080, "%s:%llu", config.host,
          (unsigned long long)config.port);
    CHECK(config.max_body == 256u << 20 && config.queue == 256, "sizes");
    CHECK(config.compute_timeout == 50 && config.request_timeout == 300 && config.idle_timeout == 75, "times");
    CHECK(config.drain_delay == 0 && config.drain_timeout == 8, "drain");
    CHECK(config.log_level == SRV_INFO && config.log_format == SRV_LOG_AUTO, "log");
    srv_config_resolve(&config);
    CHECK(config.threads >= 1 && config.io_threads >= 1 && config.max_memory > 1 << 20, "resolved");
}

static void test_flags_beat_environment(void) {
    setenv("ATTENTIOND_PORT", "9000", 1);
    setenv("ATTENTIOND_IO_THREADS", "3", 1);
    CHECK(read_words(NULL, NULL, NULL) == SRV_RUN && config.port == 9000 && config.io_threads == 3, "environment");
    CHECK(read_words("--port", "9001", NULL) == SRV_RUN && config.port == 9001 && config.io_threads == 3, "flag");
    CHECK(read_words("--port=9002", NULL, NULL) == SRV_RUN && config.port == 9002, "flag with =");
    setenv("ATTENTIOND_PORT", "", 1);
    CHECK(read_words(NULL, NULL, NULL) == SRV_RUN && config.port == 8080, "empty counts as unset");
    setenv("ATTENTIOND_PORT", "tcp://10.0.0.1:8080", 1);
    CHECK(read_words(NULL, NULL, NULL) == SRV_RUN && config.port == 8080, "Kubernetes' service link is not ours");
    setenv("ATTENTIOND_PORT", "x", 1);
    CHECK(read_words(NULL, NULL, NULL) == SRV_BAD && strstr(command.message, "ATTENTIOND_PORT"), "%s", command.message);
    CHECK(read_words("--help", NULL, NULL) == SRV_HELP, "help in spite of a bad environment");
    unsetenv("ATTENTIOND_PORT");
    unsetenv("ATTENTIOND_IO_THREADS");
}

static void test_faults_are_one_clear_line(void) {
    static const struct {
        const char *first, *second, *says;
    } bad[] = {{"--port", "99999", "from 0 to 65535"},
               {"--prot", "1", "--port"},
               {"--port", NULL, "after it"},
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

static void test_words(void) {
    CHECK(read_words("--port=1", "health", NULL) == SRV_RUN && command.words[0] && !command.words[1], "health");
    CHECK(read_words("call", "mha", NULL) == SRV_RUN && command.words[1], "call mha");
    CHECK(read_words("call", "mha", "more") == SRV_BAD, "three words");
    CHECK(read_words("--host", "[::1]", NULL) == SRV_RUN && strcmp(config.host, "::1") == 0, "brackets: %s",
          config.host);
}

static void test_help_names_every_flag_and_twin(void) {
    static const char *const forms[] = {"text", "man", "markdown"};
    for (size_t i = 0; i < 3; i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *file = open_memstream(&text, &length);
        CHECK_FATAL(file != NULL, "no memory");
        srv_config_print(file, forms[i]);
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
                                CHECK_TEST(test_distance),
                                CHECK_TEST(test_defaults),
                                CHECK_TEST(test_flags_beat_environment),
                                CHECK_TEST(test_faults_are_one_clear_line),
                                CHECK_TEST(test_words),
                                CHECK_TEST(test_help_names_every_flag_and_twin)};
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
