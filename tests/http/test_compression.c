/* test_compression.c: compressed bodies and replies over a socket. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "harness.h"

static const char text[] = "{\"q\":[[2,0,1],[0,2,1]],\"k\":[[1,1,0],[0,1,1]],\"v\":[[1,0,1],[0,1,0]],\"trace\":true}";

typedef struct coded_body {
    Bytef *bytes;
    size_t length;
} coded_body;

static coded_body gzip_of(const void *bytes, size_t length) {
    z_stream stream = {0};
    deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    const size_t room = deflateBound(&stream, length);
    coded_body body = {malloc(room), 0};
    stream.next_in = (Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)length;
    stream.next_out = body.bytes;
    stream.avail_out = (uInt)room;
    deflate(&stream, Z_FINISH);
    body.length = stream.total_out;
    deflateEnd(&stream);
    return body;
}

/* The decoded body of a reply (gzip or deflate), ended by a NUL; NULL: it cannot be decoded. */
static char *plain_of(const http_reply *reply, size_t room) {
    char *plain = calloc(1, room + 1), coding[512];
    z_stream stream = {.next_in = (Bytef *)reply->body, .avail_in = (uInt)reply->length};
    if (!http_header(reply, "Content-Encoding", coding)) return memcpy(plain, reply->body, reply->length);
    inflateInit2(&stream, strcmp(coding, "gzip") ? 15 : 15 + 16);
    stream.next_out = (Bytef *)plain;
    stream.avail_out = (uInt)room;
    const bool ok = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_in == 0;
    inflateEnd(&stream);
    if (ok) return plain;
    free(plain);
    return NULL;
}

static http_reply post(const char *const *headers, const void *body, size_t length, bool chunked) {
    return http_send(NULL, shared.port, &(http_request){"POST", "/attention", headers, body, length, chunked});
}

static void test_a_compressed_request_and_reply(void) {
    static const char *const codings[] = {"gzip", "deflate"};
    http_reply want = http_post("/attention", text);
    coded_body body = gzip_of(text, sizeof text - 1);
    for (int i = 0; i < 4; i++) {
        char accept[64];
        snprintf(accept, sizeof accept, "Accept-Encoding: %s", codings[i % 2]);
        const char *const headers[] = {"Content-Encoding: gzip", accept, NULL};
        http_reply reply = post(headers, body.bytes, body.length, i / 2);
        char value[512], *plain = plain_of(&reply, 4000);
        CHECK(reply.status == 200 && plain && !strcmp(plain, want.body), "%s: %d %s", accept, reply.status, plain);
        CHECK(http_header(&reply, "Content-Encoding", value) && !strcmp(value, codings[i % 2]), "%s", reply.head);
        CHECK(http_header(&reply, "Vary", value) && !strcmp(value, "Accept-Encoding"), "%s", reply.head);
        CHECK(http_header(&reply, "Content-Length", value) && (size_t)atol(value) == reply.length, "%s", reply.head);
        free(plain);
        http_free(&reply);
    }
    free(body.bytes);
    http_free(&want);
}

static void test_head_is_get_when_compressed(void) {
    static const char *const headers[] = {"Accept-Encoding: gzip", NULL};
    http_request request = {.method = "GET", .path = "/openapi.json", .headers = headers};
    http_reply get = http_send(NULL, shared.port, &request), all = http_get("/openapi.json");
    request.method = "HEAD";
    http_reply head = http_send(NULL, shared.port, &request);
    static const char *const names[] = {"Content-Length", "Content-Encoding", "Vary", "Content-Type"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char a[512] = "", b[512] = "";
        CHECK(http_header(&get, names[i], a) && http_header(&head, names[i], b) && !strcmp(a, b), "%s: GET %s, HEAD %s",
              names[i], a, b);
    }
    char *plain = plain_of(&get, all.length + 1);
    CHECK(plain && !strcmp(plain, all.body), "another document");
    free(plain);
    http_free(&get);
    http_free(&head);
    http_free(&all);
}

/* Seconds of CPU time that the daemon has used: unlike time of day they do not depend on what else the machine does. */
static double cpu_seconds(void) {
    clockid_t clock;
    struct timespec t = {0};
    CHECK(clock_getcpuclockid(shared.pid, &clock) == 0 && clock_gettime(clock, &t) == 0, "no clock of the daemon");
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A megabyte that would decode to a gigabyte: decoding stops at the limit. */
static void test_a_bomb(void) {
    static const char *const headers[] = {"Content-Encoding: gzip", NULL};
    const size_t part = 16 << 20, parts = 64;
    char *spaces = malloc(part);
    memset(spaces, ' ', part);
    coded_body one = gzip_of(spaces, part), all = {malloc(one.length * parts), one.length * parts};
    for (size_t i = 0; i < parts; i++) memcpy(all.bytes + i * one.length, one.bytes, one.length);
    const double start = cpu_seconds();
    http_reply reply = post(headers, all.bytes, all.length, true);
    CHECK(cpu_seconds() - start < patient(10), "took %g s", cpu_seconds() - start);
    expect_problem(&reply, 413, "body_too_large", NULL, "a bomb");
    CHECK(healthy(shared.port), "not healthy");
    http_free(&reply);
    free(spaces);
    free(one.bytes);
    free(all.bytes);
}

static void test_corrupt_and_unknown_codings(void) {
    coded_body body = gzip_of(text, sizeof text - 1);
    static const char *const gzip[] = {"Content-Encoding: gzip", NULL},
                             *const brotli[] = {"Content-Encoding: br", NULL},
                             *const twice[] = {"Content-Encoding: gzip", "Content-Encoding: gzip", NULL};
    http_reply reply = post(gzip, body.bytes, body.length - 1, false);
    expect_problem(&reply, 400, "bad_request", NULL, "cut short");
    http_free(&reply);
    reply = post(gzip, text, sizeof text - 1, true);
    expect_problem(&reply, 400, "bad_request", NULL, "not gzip");
    http_free(&reply);
    const char *const *const bad[] = {brotli, twice};
    for (size_t i = 0; i < 2; i++) {
        char value[512];
        reply = post(bad[i], body.bytes, body.length, false);
        expect_problem(&reply, 415, "unsupported_media_type", NULL, bad[i][0]);
        CHECK(http_header(&reply, "Accept-Encoding", value) && strstr(value, "gzip") && strstr(value, "zstd"), "%s",
              reply.head);
        http_free(&reply);
    }
    free(body.bytes);
}

int main(int argc, char **argv) {
    static const check_test tests[] = {
        CHECK_TEST(test_a_compressed_request_and_reply),
        CHECK_TEST(test_head_is_get_when_compressed),
        CHECK_TEST(test_a_bomb),
        CHECK_TEST(test_corrupt_and_unknown_codings),
    };
    return shared_main(argc, argv, tests, sizeof tests / sizeof *tests, NULL);
}
