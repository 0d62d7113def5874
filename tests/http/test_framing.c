/* test_framing.c: bytes that an HTTP library would not send: broken and ambiguous framing, unusual but legal framing,
 * slow clients and clients that disconnect. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "case.h"
#include "exposition.h"

#define BODY "{\"q\":[[0]],\"k\":[[0]],\"v\":[[1]]}" /* 31 bytes */
#define POST "POST /attention HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define WHOLE POST "Content-Length: 31\r\n\r\n" BODY

/* Sends the text and returns the first final reply. */
static http_reply exchange(wire_link *wire, const char *text) {
    http_reply none = {0};
    if (!CHECK(wire_open(wire, shared.port), "cannot connect")) return none;
    wire_print(wire, text);
    return wire_reply(wire, 10, false);
}

/* status 0 in the list: the connection may also close without a reply */
static void expect_refused(const char *name, const char *text, const int statuses[4]) {
    wire_link wire;
    http_reply reply = exchange(&wire, text);
    bool known = false;
    for (int i = 0; i < 4; i++) known |= reply.status == statuses[i] && (reply.status || wire.ended);
    CHECK(known, "%s: status %d (%.200s)", name, reply.status, reply.body ? reply.body : "");
    CHECK(wire_ends(&wire, 10), "%s: the connection stays open", name);
    /* libmicrohttpd 0.9.75 sends the head of its own refusals twice, so the second is in the body */
    const bool twice = reply.length > 12 && !strncmp(reply.body, "HTTP/1.1 4", 10);
    CHECK(wire.used == 0 || twice, "%s: bytes after the reply: %.100s", name, wire.used ? wire.bytes : "");
    char why[512] = "";
    if (reply.status == 400 && reply.length && strstr(reply.body, "{"))
        CHECK(problem_valid(&reply, why), "%s: %s: %s", name, why, reply.body);
    CHECK(healthy(shared.port), "%s: not healthy afterwards", name);
    http_free(&reply);
    wire_close(&wire);
}

static void test_broken_framing_is_refused(void) {
    static const struct {
        const char *name, *text;
        int statuses[4];
    } rows[] = {
        {"two lengths that differ", POST "Content-Length: 31\r\nContent-Length: 0\r\n\r\n" BODY, {400, 400, 400, 400}},
        {"two lengths that agree", POST "Content-Length: 31\r\nContent-Length: 31\r\n\r\n" BODY, {400, 400, 400, 400}},
        {"a list of lengths", POST "Content-Length: 31, 31\r\n\r\n" BODY, {400, 400, 400, 400}},
        {"length, then chunked",
         POST "Content-Length: 31\r\nTransfer-Encoding: chunked\r\n\r\n1f\r\n" BODY "\r\n0\r\n\r\n",
         {400, 400, 400, 400}},
        {"chunked, then length",
         POST "Transfer-Encoding: chunked\r\nContent-Length: 31\r\n\r\n1f\r\n" BODY "\r\n0\r\n\r\n",
         {400, 400, 400, 400}},
        {"chunked twice",
         POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         {400, 501, 400, 400}},
        {"no Host", "POST /attention HTTP/1.1\r\nContent-Length: 31\r\n\r\n" BODY, {400, 400, 400, 400}},
        {"no Host on GET", "GET /healthz HTTP/1.1\r\n\r\n", {400, 400, 400, 400}},
        {"two Hosts", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", {400, 400, 400, 400}},
        {"a negative length", POST "Content-Length: -1\r\n\r\n", {400, 400, 400, 400}},
        {"a signed length", POST "Content-Length: +31\r\n\r\n" BODY, {400, 400, 400, 400}},
        {"a length in words", POST "Content-Length: many\r\n\r\n" BODY, {400, 400, 400, 400}},
        {"a length with a tail", POST "Content-Length: 31x\r\n\r\n" BODY, {400, 400, 400, 400}},
        {"a hexadecimal length", POST "Content-Length: 0x1f\r\n\r\n" BODY, {400, 400, 400, 400}},
        {"an empty length", POST "Content-Length:\r\n\r\n", {400, 400, 400, 400}},
        {"a length over 64 bits", POST "Content-Length: 99999999999999999999999\r\n\r\n", {400, 413, 413, 413}},
        {"another transfer coding", POST "Transfer-Encoding: gzip\r\n\r\n", {400, 501, 400, 400}},
        {"chunked after another coding",
         POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
         {400, 501, 400, 400}},
        {"almost chunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", {400, 501, 400, 400}},
        {"a chunk size in words", CHUNKED "G\r\n", {400, 400, 400, 400}},
        {"a negative chunk size", CHUNKED "-1\r\n", {400, 400, 400, 400}},
        {"a chunk size over 64 bits", CHUNKED "FFFFFFFFFFFFFFFFF\r\n", {400, 413, 400, 400}},
        {"a chunk longer than its size", CHUNKED "1\r\n{}\r\n0\r\n\r\n", {400, 400, 400, 400}},
        {"a chunk size with 0x", CHUNKED "0x1f\r\n" BODY "\r\n0\r\n\r\n", {400, 400, 400, 400}},
        {"no chunk size", CHUNKED "\r\n" BODY, {400, 400, 400, 400}},
        {"a header without a colon", POST "Content-Length 31\r\n\r\n" BODY, {400, 400, 400, 400}},
        {"a space before the colon", POST "Content-Length : 31\r\n\r\n" BODY, {400, 400, 400, 400}},
        /* libmicrohttpd 1.0 reads such lines as one, as RFC 9112, section 5.2, allows */
        {"a length on a second line", POST "Content-Length:\r\n 31\r\n\r\n" BODY, {400, 200, 400, 400}},
        {"a length that goes on", POST "Content-Length: 3\r\n 1\r\n\r\n" BODY, {400, 400, 400, 400}},
        {"chunked on a second line",
         POST "Transfer-Encoding:\r\n chunked\r\n\r\n1f\r\n" BODY "\r\n0\r\n\r\n",
         {400, 200, 400, 400}},
        {"length, and chunked on a second line",
         POST "Content-Length: 2\r\nTransfer-Encoding:\r\n chunked\r\n\r\n{}",
         {400, 400, 400, 400}},
        {"a Host with a blank", "GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n", {400, 400, 400, 400}},
        {"a Host with a user", "GET /healthz HTTP/1.1\r\nHost: a@b\r\n\r\n", {400, 400, 400, 400}},
        {"a method that is not a token", "G{T /healthz HTTP/1.1\r\nHost: x\r\n\r\n", {400, 400, 400, 400}},
        {"not HTTP", "\x16\x03\x01\x02\x01\r\n\r\n", {400, 405, 501, 0}},
        {"no version", "GET /healthz\r\n\r\n", {400, 505, 501, 0}},
        {"a version of the future", "GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n", {400, 505, 501, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_refused(rows[i].name, rows[i].text, rows[i].statuses);
}

/* If libmicrohttpd reads another head than was sent, nothing that follows may be treated as a request. */
static void test_doubtful_heads_end_the_connection(void) {
    static const struct {
        const char *name, *text;
        size_t length;
    } rows[] = {
#define ROW(name, text) {name, text "GET /version HTTP/1.1\r\nHost: x\r\n\r\n", sizeof text + 33}
        ROW("a header without a name", POST "Content-Length: 2\r\n: x\r\n\r\n"),
        ROW("a header without a name, first", POST ": x\r\nContent-Length: 31\r\n\r\n"),
        ROW("a NUL for a name", POST "Content-Length: 2\r\n\0: x\r\n\r\n"),
        ROW("a NUL in a length", POST "Content-Length: 2\0junk\r\n\r\n{}"),
        ROW("a NUL in a coding", POST "Transfer-Encoding: chunked\0, gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wire_link wire;
        CHECK_FATAL(wire_open(&wire, shared.port), "cannot connect");
        wire_send(&wire, rows[i].text, rows[i].length);
        http_reply reply = wire_reply(&wire, 10, false);
        CHECK(wire_ends(&wire, 10), "%s: the connection stays open", rows[i].name);
        CHECK(wire.used == 0, "%s: bytes after status %d: %.100s", rows[i].name, reply.status, wire.bytes);
        http_free(&reply);
        wire_close(&wire);
    }
}

static char *repeated(const char *head, const char *piece, size_t times, const char *tail) {
    char *text = malloc(strlen(head) + strlen(piece) * times + strlen(tail) + 1), *at = text;
    if (!text) abort();
    at = stpcpy(at, head);
    for (size_t i = 0; i < times; i++) at = stpcpy(at, piece);
    stpcpy(at, tail);
    return text;
}

static void test_floods_of_headers(void) {
    const int large[4] = {431, 413, 400, 0}, uri[4] = {414, 431, 400, 0};
    char *text = repeated("GET /healthz HTTP/1.1\r\nHost: x\r\n", "X-A: b\r\n", 5000, "\r\n");
    expect_refused("5000 headers", text, large);
    free(text);
    text = repeated("GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ", "aaaaaaaaaaaaaaaa", 8192, "\r\n\r\n");
    expect_refused("a header of 128 KiB", text, large);
    free(text);
    text = repeated("GET /healthz", "/aaaaaaaaaaaaaaa", 8192, " HTTP/1.1\r\nHost: x\r\n\r\n");
    expect_refused("a target of 128 KiB", text, uri);
    free(text);
}

static void test_odd_but_legal_framing(void) {
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"lower case names", "POST /attention HTTP/1.1\r\nhost: x\r\ncontent-length: 31\r\n\r\n" BODY},
        {"spaces before the length", POST "Content-Length:   31\r\n\r\n" BODY},
        {"HTTP/1.0 without Host", "POST /attention HTTP/1.0\r\nContent-Length: 31\r\n\r\n" BODY},
        {"an empty line before", "\r\n" WHOLE},
        {"one chunk", CHUNKED "1f\r\n" BODY "\r\n0\r\n\r\n"},
        {"a chunk size in capitals with zeros", CHUNKED "0001F\r\n" BODY "\r\n0\r\n\r\n"},
        {"a chunk extension", CHUNKED "1f;a=b\r\n" BODY "\r\n0\r\n\r\n"},
        {"a trailer", CHUNKED "1f\r\n" BODY "\r\n0\r\nX-Sum: 1\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wire_link wire;
        http_reply reply = exchange(&wire, rows[i].text);
        /* libmicrohttpd 1.0 refuses chunk extensions, as RFC 9112, section 7.1.1, allows */
        const bool refusable = strstr(rows[i].text, ";a=b") != NULL;
        CHECK((reply.status == 200 && reply_number(&reply, "output/0/0") == 1) || (refusable && reply.status == 400),
              "%s: %d %s", rows[i].name, reply.status, reply.body ? reply.body : "");
        http_free(&reply);
        wire_close(&wire);
    }
}

static void test_one_byte_at_a_time(void) {
    wire_link wire;
    CHECK_FATAL(wire_open(&wire, shared.port), "cannot connect");
    for (const char *at = WHOLE; *at; at++) {
        CHECK_FATAL(wire_send(&wire, at, 1), "refused a byte");
        sleep_seconds(0.001);
    }
    http_reply reply = wire_reply(&wire, 10, false);
    CHECK(reply.status == 200, "bytes: %d", reply.status);
    http_free(&reply);
    wire_print(&wire, CHUNKED);
    for (const char *at = BODY; *at; at++) {
        char chunk[] = "1\r\n?\r\n";
        chunk[3] = *at;
        wire_print(&wire, chunk);
    }
    wire_print(&wire, "0\r\n\r\n");
    reply = wire_reply(&wire, 10, false);
    CHECK(reply.status == 200 && reply_number(&reply, "output/0/0") == 1, "chunks: %d", reply.status);
    http_free(&reply);
    wire_close(&wire);
}

static void test_pipelining(void) {
    wire_link wire;
    CHECK_FATAL(wire_open(&wire, shared.port), "cannot connect");
    wire_print(&wire, WHOLE "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" POST "Content-Length: 2\r\n\r\n{}"
                            "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n" WHOLE);
    const int want[] = {200, 200, 422, 404, 200};
    for (size_t i = 0; i < 5; i++) {
        http_reply reply = wire_reply(&wire, 10, false);
        CHECK(reply.status == want[i], "reply %zu: %d, expected %d", i, reply.status, want[i]);
        http_free(&reply);
    }
    wire_close(&wire);
}

static void test_expect_continue(void) {
    wire_link wire;
    CHECK_FATAL(wire_open(&wire, shared.port), "cannot connect");
    wire_print(&wire, POST "Expect: 100-continue\r\nContent-Length: 31\r\n\r\n");
    CHECK(wire_peek_status(&wire, 10) == 100, "no 100");
    http_reply reply = wire_reply(&wire, 1, false);
    http_free(&reply);
    wire_print(&wire, BODY);
    reply = wire_reply(&wire, 10, false);
    CHECK(reply.status == 200, "status %d", reply.status);
    http_free(&reply);
    wire_close(&wire);
    CHECK_FATAL(wire_open(&wire, shared.port), "cannot connect");
    wire_print(&wire, POST "Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n");
    reply = wire_reply(&wire, 10, false);
    expect_problem(&reply, 413, "body_too_large", NULL, "413 instead of 100");
    http_free(&reply);
    wire_close(&wire);
}

static void test_413_by_length_comes_at_once(void) {
    wire_link wire;
    http_reply reply = exchange(&wire, POST "Content-Length: 99999999999\r\n\r\n{");
    char value[512];
    expect_problem(&reply, 413, "body_too_large", NULL, "413");
    CHECK(http_header(&reply, "Connection", value) && !strcasecmp(value, "close"), "Connection: %s", value);
    http_free(&reply);
    wire_close(&wire);
}

/* After an error the connection must stay open, or the reply must have said that it closes. */
static void test_keep_alive_after_errors(void) {
    static const struct {
        const char *name, *text;
        int status;
        bool must; /* stay open, as the body was read */
    } rows[] = {
        {"422", POST "Content-Length: 2\r\n\r\n{}", 422, true},
        {"400", POST "Content-Length: 5\r\n\r\n[1,2}", 400, true},
        {"empty body", POST "Content-Length: 0\r\n\r\n", 400, true},
        {"wrong type", POST "Content-Length: 2\r\n\r\n[]", 422, true},
        {"404", "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n", 404, true},
        {"405", "GET /mha HTTP/1.1\r\nHost: x\r\n\r\n", 405, true},
        {"404 with a body", "POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 404, false},
        {"405 with a body", "PUT /mha HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 405, false},
        {"415", POST "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415, false},
        {"406", POST "Accept: text/html\r\nContent-Length: 2\r\n\r\n{}", 406, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wire_link wire;
        char value[512];
        http_reply reply = exchange(&wire, rows[i].text);
        CHECK(reply.status == rows[i].status, "%s: %d", rows[i].name, reply.status);
        const bool said = http_header(&reply, "Connection", value) && !strcasecmp(value, "close");
        CHECK(!said || !rows[i].must, "%s: closes", rows[i].name);
        http_free(&reply);
        if (!said) {
            wire_print(&wire, WHOLE);
            reply = wire_reply(&wire, 10, false);
            CHECK(reply.status == 200, "after %s: %d", rows[i].name, reply.status);
            http_free(&reply);
        }
        wire_close(&wire);
    }
}

static void test_half_close(void) {
    wire_link wire;
    CHECK_FATAL(wire_open(&wire, shared.port), "cannot connect");
    wire_print(&wire, WHOLE);
    shutdown(wire.fd, SHUT_WR);
    http_reply reply = wire_reply(&wire, 10, false);
    CHECK(reply.status == 200, "status %d", reply.status);
    CHECK(wire_ends(&wire, 10), "the connection of a client that will send no more stays open");
    http_free(&reply);
    wire_close(&wire);
}

static void test_half_close_in_a_request(void) {
    static const char *const texts[] = {"", "POST /atten", "POST /attention HTTP/1.1\r\nHos",
                                        POST "Content-Length: 31\r\n\r\n{\"q\"", CHUNKED "1f\r\n{"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        wire_link wire;
        CHECK_FATAL(wire_open(&wire, shared.port), "cannot connect");
        wire_print(&wire, texts[i]);
        shutdown(wire.fd, SHUT_WR);
        CHECK(wire_ends(&wire, 10), "text %zu: the connection stays open", i);
        CHECK(wire.used == 0, "text %zu: a reply: %.100s", i, wire.bytes);
        wire_close(&wire);
    }
}

static void test_connection_close_is_kept(void) {
    wire_link wire;
    http_reply reply = exchange(&wire, POST "Connection: close\r\nContent-Length: 31\r\n\r\n" BODY);
    CHECK(reply.status == 200, "status %d", reply.status);
    CHECK(wire_ends(&wire, 10), "stays open");
    http_free(&reply);
    wire_close(&wire);
}

static double gauge(const char *name) {
    http_reply reply = http_get("/metrics");
    const double value = exposition_value(reply.body, name, NULL);
    http_free(&reply);
    return value;
}

/* Waits until only the scrape itself is in flight and requests use no memory. */
static void expect_idle(const char *label) {
    double flying = NAN, memory = NAN;
    for (const double end = now() + patient(10); now() < end; sleep_seconds(0.05)) {
        flying = gauge("attentiond_requests_in_flight");
        memory = gauge("attentiond_memory_in_flight_bytes");
        if (flying <= 1 && memory <= 65536) return;
    }
    CHECK(false, "%s: %g requests in flight, %g bytes held", label, flying, memory);
}

static void test_clients_that_leave_while_sending(void) {
    for (int i = 0; i < 50; i++) {
        wire_link wire;
        CHECK_FATAL(wire_open(&wire, shared.port), "cannot connect");
        wire_print(&wire, i % 2 ? CHUNKED "ffff\r\n{\"q\":[[" : POST "Content-Length: 1000000\r\n\r\n{\"q\":[[");
        for (int j = 0; j < i * 20; j++) wire_print(&wire, "1,2,3,4,5,");
        if (i % 3 == 0) { /* a reset instead of an orderly end */
            const struct linger now_gone = {1, 0};
            setsockopt(wire.fd, SOL_SOCKET, SO_LINGER, &now_gone, sizeof now_gone);
        }
        wire_close(&wire);
    }
    CHECK(healthy(shared.port), "not healthy");
    expect_idle("after 50 broken uploads");
}

static void test_clients_that_leave_while_computing(void) {
    text_buffer text = heavy_post(150000);
    for (int i = 0; i < 6; i++) {
        wire_link wire;
        CHECK_FATAL(wire_open(&wire, shared.port), "cannot connect");
        wire_send(&wire, text.bytes, text.length);
        sleep_seconds(0.2);
        wire_close(&wire);
    }
    const double start = now();
    CHECK(healthy(shared.port), "not healthy");
    expect_idle("after 6 clients left");
    CHECK(now() - start < patient(10), "%g s to notice", now() - start);
    text_free(&text);
}

static void test_a_slow_sender_gets_its_answer(void) {
    wire_link slow;
    CHECK_FATAL(wire_open(&slow, shared.port), "cannot connect");
    wire_print(&slow, POST "Content-Length: 31\r\n\r\n");
    for (const char *at = BODY; *at; at++) {
        wire_send(&slow, at, 1);
        sleep_seconds(0.02);
        if (at - BODY == 10) CHECK(healthy(shared.port), "not healthy meanwhile");
    }
    http_reply reply = wire_reply(&slow, 10, false);
    CHECK(reply.status == 200, "status %d", reply.status);
    http_free(&reply);
    wire_close(&slow);
}

static void test_a_stalled_sender_gets_408(void) {
    static const char *const flags[] = {"--body-timeout", "1s", "--head-timeout", "1s", NULL};
    static const char *const texts[] = {POST "Content-Length: 31\r\n\r\n{\"q\"", CHUNKED "1f\r\n{\"q\"",
                                        "POST /attention HTTP/1.1\r\nHos"};
    daemon_process daemon;
    CHECK_FATAL(daemon_start(&daemon, flags), "no daemon");
    for (size_t i = 0; i < 3; i++) {
        wire_link wire;
        CHECK_FATAL(wire_open(&wire, daemon.port), "cannot connect");
        wire_print(&wire, texts[i]);
        http_reply reply = wire_reply(&wire, 20, false);
        CHECK(reply.status == 408 || (reply.status == 0 && wire.ended), "text %zu: status %d", i, reply.status);
        CHECK(wire_ends(&wire, 10), "text %zu: stays open", i);
        http_free(&reply);
        wire_close(&wire);
    }
    CHECK(healthy(daemon.port), "not healthy");
    CHECK(daemon_stop(&daemon, SIGTERM, NULL) == 0, "exit status");
}

static void test_no_second_log_line_from_a_path(void) {
    wire_link wire;
    http_reply reply = exchange(&wire, "GET /a%0aforged%0d%0aline HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(reply.status == 404, "status %d", reply.status);
    http_free(&reply);
    wire_close(&wire);
    sleep_seconds(0.1);
    char *log = daemon_log(&shared);
    CHECK(!strstr(log, "\nforged") && !strstr(log, "\nline"), "a line was forged");
    free(log);
}

int main(int argc, char **argv) {
    static const check_test tests[] = {
        CHECK_TEST(test_broken_framing_is_refused),
        CHECK_TEST(test_floods_of_headers),
        CHECK_TEST(test_doubtful_heads_end_the_connection),
        CHECK_TEST(test_odd_but_legal_framing),
        CHECK_TEST(test_one_byte_at_a_time),
        CHECK_TEST(test_pipelining),
        CHECK_TEST(test_expect_continue),
        CHECK_TEST(test_413_by_length_comes_at_once),
        CHECK_TEST(test_keep_alive_after_errors),
        CHECK_TEST(test_half_close),
        CHECK_TEST(test_half_close_in_a_request),
        CHECK_TEST(test_connection_close_is_kept),
        CHECK_TEST(test_clients_that_leave_while_sending),
        CHECK_TEST(test_clients_that_leave_while_computing),
        CHECK_TEST(test_a_slow_sender_gets_its_answer),
        CHECK_TEST(test_a_stalled_sender_gets_408),
        CHECK_TEST(test_no_second_log_line_from_a_path),
    };
    return shared_main(argc, argv, tests, sizeof tests / sizeof *tests, NULL);
}
