/* test_clients.c: many clients at once get the bits that one gets alone, whatever the number of threads; what exceeds
 * a limit is refused with Retry-After, and nothing is lost. */
#include <curl/curl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

enum { CLIENTS = 16, ROUNDS = 12, BODIES = 8 };

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static void put_random(text_buffer *text, const char *field, size_t rows, size_t columns) {
    text_print(text, "%s\"%s\":[", text->length > 1 ? "," : "", field);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            text_print(text, "%s%.6g%s", j ? "," : i ? ",[" : "[", check_random_normal(), j + 1 == columns ? "]" : "");
    text_print(text, "]");
}

/* Sizes around tiles and lanes, with every kind of block; small enough to be run inline and large enough not to. */
static text_buffer random_body(size_t index) {
    static const size_t sizes[BODIES][3] = {{1, 1, 1},    {5, 7, 3},     {33, 65, 16},  {130, 257, 64},
                                            {1, 900, 32}, {300, 300, 8}, {64, 128, 64}, {17, 31, 80}};
    const size_t n_q = sizes[index][0], n_k = sizes[index][1], d = sizes[index][2];
    text_buffer text = {0};
    text_print(&text, "{");
    put_random(&text, "q", n_q, d);
    put_random(&text, "k", n_k, d);
    put_random(&text, "v", n_k, d);
    if (index % 2) text_print(&text, ",\"causal\":true,\"query_offset\":\"end\"");
    if (index % 3 == 0) text_print(&text, ",\"softcap\":2");
    if (index % 4 == 1) text_print(&text, ",\"window\":[40,3]");
    text_print(&text, "%s}", index % 3 == 1 ? ",\"return\":[\"output\",\"lse\"]" : "");
    return text;
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

typedef struct client {
    pthread_t thread;
    const text_buffer *bodies;
    char *const *answers;
    size_t index, wrong, failed;
    int port;
} client;

static void *run_client(void *argument) {
    client *self = argument;
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    CURL *curl = curl_easy_init();
    for (size_t round = 0; curl && round < ROUNDS; round++) {
        const size_t i = (self->index + round) % BODIES;
        const text_buffer *body = &self->bodies[i];
        http_reply reply = http_send(
            curl, self->port,
            &(http_request){"POST", "/attention", headers, body->bytes, body->length, (self->index + round) % 3 == 0});
        if (reply.status != 200)
            self->failed++;
        else if (strcmp(reply.body, self->answers[i]))
            self->wrong++;
        http_free(&reply);
    }
    curl_easy_cleanup(curl);
    return NULL;
}

static void test_the_same_bits_alone_and_beside_others(void) {
    text_buffer bodies[BODIES];
    char *answers[BODIES] = {0};
    for (size_t i = 0; i < BODIES; i++) bodies[i] = random_body(i);
    for (int threads = 1; threads <= 2; threads++) {
        const char *const flags[] = {"--threads", threads == 1 ? "1" : "2", NULL};
        daemon_process daemon;
        client clients[CLIENTS];
        CHECK_FATAL(daemon_start(&daemon, flags), "no daemon");
        for (size_t i = 0; i < BODIES; i++) {
            http_reply reply = http_post_to(daemon.port, "/attention", bodies[i].bytes);
            CHECK(reply.status == 200, "body %zu: %.200s", i, reply.body);
            if (threads == 1)
                answers[i] = strdup(reply.body);
            else
                CHECK(!strcmp(answers[i], reply.body), "body %zu: other bits with 2 threads", i);
            http_free(&reply);
        }
        for (size_t i = 0; i < CLIENTS; i++) {
            clients[i] = (client){.bodies = bodies, .answers = answers, .index = i, .port = daemon.port};
            if (pthread_create(&clients[i].thread, NULL, run_client, &clients[i])) abort();
        }
        for (size_t i = 0; i < CLIENTS; i++) {
            pthread_join(clients[i].thread, NULL);
            CHECK(!clients[i].failed && !clients[i].wrong, "client %zu of %d threads: %zu failed, %zu with other bits",
                  i, threads, clients[i].failed, clients[i].wrong);
        }
        CHECK(daemon_stop(&daemon, SIGTERM, NULL) == 0, "exit status");
    }
    for (size_t i = 0; i < BODIES; i++) {
        free(answers[i]);
        text_free(&bodies[i]);
    }
}

/* Asking for more changes no bit of the output. */
static void test_the_same_bits_with_more_asked_for(void) {
    for (size_t i = 0; i < BODIES; i++) {
        text_buffer body = random_body(i);
        char *end = strstr(body.bytes, ",\"return\"");
        if (end) strcpy(end, "}");
        http_reply alone = http_post("/attention", body.bytes);
        body.length = strlen(body.bytes) - 1;
        body.bytes[body.length] = 0;
        text_print(&body, ",\"return\":[\"output\",\"weights\",\"masked\",\"lse\",\"scores\"]}");
        http_reply more = http_post("/attention", body.bytes);
        json_t *a = json_loadb(alone.body, alone.length, 0, NULL), *b = json_loadb(more.body, more.length, 0, NULL);
        CHECK(a && json_equal(json_object_get(a, "output"), json_object_get(b, "output")), "body %zu: other bits", i);
        json_decref(a);
        json_decref(b);
        http_free(&alone);
        http_free(&more);
        text_free(&body);
    }
}

/* ---- too much ---------------------------------------------------------------------------------------------------- */

static bool retry_after_valid(const http_reply *reply) {
    char value[512];
    char *end;
    if (!http_header(reply, "Retry-After", value)) return false;
    const long seconds = strtol(value, &end, 10);
    return *value && !*end && seconds >= 1 && seconds <= 30;
}

typedef struct reply_tally {
    size_t ok, overloaded, other;
} reply_tally;

static void count_reply(reply_tally *tally, const http_reply *reply, int ok_status) {
    if (reply->status == ok_status)
        tally->ok++;
    else if (reply->status == 429) {
        tally->overloaded++;
        expect_problem(reply, 429, "overloaded", NULL, "429");
        CHECK(retry_after_valid(reply), "Retry-After of %s", reply->head);
    } else {
        tally->other++;
        CHECK(false, "status %d: %.200s", reply->status, reply->body ? reply->body : "");
    }
}

/* Twelve uploads of 200,000 numbers together exceed 8 MiB of tensors; each alone would fit. None has keys. */
static void test_memory_in_flight_is_bounded(void) {
    enum { UPLOADS = 12, PAIRS = 100000 };
    static const char *const flags[] = {"--max-memory", "8MiB", NULL};
    daemon_process daemon;
    wire_link wires[UPLOADS];
    reply_tally tally = {0};
    text_buffer text = {0};
    CHECK_FATAL(daemon_start(&daemon, flags), "no daemon");
    text_print(&text, "POST /attention HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{\"q\":[[1", 8 + 4 * PAIRS + 3);
    for (int i = 0; i < PAIRS; i++) text_append(&text, ",1,1", 4);
    for (size_t i = 0; i < UPLOADS; i++) {
        CHECK_FATAL(wire_open(&wires[i], daemon.port), "cannot connect");
        wire_send(&wires[i], text.bytes, text.length);
        sleep_seconds(0.1); /* one after the other: all at once could all be refused */
    }
    CHECK(healthy(daemon.port), "not healthy while memory is full");
    for (size_t i = 0; i < UPLOADS; i++) {
        wire_print(&wires[i], "]]}");
        http_reply reply = wire_reply(&wires[i], 20, false);
        count_reply(&tally, &reply, 422); /* missing_field: no k */
        http_free(&reply);
        wire_close(&wires[i]);
    }
    CHECK(tally.ok && tally.overloaded, "%zu answered, %zu refused", tally.ok, tally.overloaded);
    http_reply after = http_post_to(daemon.port, "/attention", "{\"q\":[[0]],\"k\":[[0]],\"v\":[[1]]}");
    CHECK(after.status == 200, "afterwards: %d", after.status);
    http_free(&after);
    text_free(&text);
    CHECK(daemon_stop(&daemon, SIGTERM, NULL) == 0, "exit status");
}

static void test_the_queue_is_bounded(void) {
    enum { POSTS = 10 };
    static const char *const flags[] = {"--threads", "1", "--queue", "2", "--compute-timeout", "10m", NULL};
    daemon_process daemon;
    wire_link wires[POSTS];
    reply_tally tally = {0};
    text_buffer text = heavy_post(20000);
    CHECK_FATAL(daemon_start(&daemon, flags), "no daemon");
    for (size_t i = 0; i < POSTS; i++) {
        CHECK_FATAL(wire_open(&wires[i], daemon.port), "cannot connect");
        wire_send(&wires[i], text.bytes, text.length);
    }
    http_reply ready = http_send(NULL, daemon.port, &(http_request){.method = "GET", .path = "/readyz"});
    CHECK(ready.status == 200, "readyz %d with a full queue", ready.status);
    http_free(&ready);
    for (size_t i = 0; i < POSTS; i++) {
        http_reply reply = wire_reply(&wires[i], 60, false);
        count_reply(&tally, &reply, 200);
        http_free(&reply);
        wire_close(&wires[i]);
    }
    CHECK(tally.ok && tally.overloaded, "%zu answered, %zu refused", tally.ok, tally.overloaded);
    text_free(&text);
    CHECK(daemon_stop(&daemon, SIGTERM, NULL) == 0, "exit status");
}

static void test_compute_has_a_time_out(void) {
    static const char *const flags[] = {"--compute-timeout", "200ms", NULL};
    daemon_process daemon;
    wire_link wire;
    text_buffer text = heavy_post(400000);
    CHECK_FATAL(daemon_start(&daemon, flags), "no daemon");
    CHECK_FATAL(wire_open(&wire, daemon.port), "cannot connect");
    wire_send(&wire, text.bytes, text.length);
    const double start = now();
    http_reply reply = wire_reply(&wire, 30, false);
    expect_problem(&reply, 504, "compute_timeout", NULL, "504");
    CHECK(now() - start < patient(5), "after %g s", now() - start);
    http_free(&reply);
    wire_print(&wire, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    reply = wire_reply(&wire, 5, false);
    CHECK(reply.status == 200 || wire.ended, "afterwards: %d", reply.status);
    http_free(&reply);
    wire_close(&wire);
    text_free(&text);
    CHECK(daemon_stop(&daemon, SIGTERM, NULL) == 0, "exit status");
}

int main(int argc, char **argv) {
    static const check_test tests[] = {
        CHECK_TEST(test_the_same_bits_alone_and_beside_others),
        CHECK_TEST(test_the_same_bits_with_more_asked_for),
        CHECK_TEST(test_memory_in_flight_is_bounded),
        CHECK_TEST(test_the_queue_is_bounded),
        CHECK_TEST(test_compute_has_a_time_out),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    return shared_main(argc, argv, tests, sizeof tests / sizeof *tests, NULL);
}
