/* test_coding.c: content codings against zlib and libzstd themselves: both ways, cut anywhere, corrupt, too large. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

#include "../../api/http/coding.h"
#include "../../api/http/negotiation.h"
#include "../support/exchange.h"

typedef struct buffer {
    char *bytes;
    size_t length;
} buffer;

static api_budget budget;
static const api_coding codings[] = {API_GZIP, API_DEFLATE, API_ZSTD};
enum { CODINGS = sizeof codings / sizeof *codings };

/* ---- compressed by the libraries --------------------------------------------------------------------------------- */

static buffer deflated(const void *bytes, size_t length, int form, const char *dictionary) {
    z_stream stream = {0};
    deflateInit2(&stream, 6, Z_DEFLATED, form, 8, Z_DEFAULT_STRATEGY);
    if (dictionary) deflateSetDictionary(&stream, (const Bytef *)dictionary, (uInt)strlen(dictionary));
    buffer out = {malloc(deflateBound(&stream, length) + 64), 0};
    stream.next_in = (Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)length;
    stream.next_out = (Bytef *)out.bytes;
    stream.avail_out = (uInt)deflateBound(&stream, length) + 64;
    deflate(&stream, Z_FINISH);
    out.length = stream.total_out;
    deflateEnd(&stream);
    return out;
}

/* With a checksum and without the length, so that the window counts. */
static buffer zstandard(const void *bytes, size_t length, int window_log) {
    buffer out = {malloc(ZSTD_compressBound(length) + 64), 0};
    ZSTD_CCtx *stream = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(stream, ZSTD_c_checksumFlag, 1);
    if (window_log) ZSTD_CCtx_setParameter(stream, ZSTD_c_windowLog, window_log);
    ZSTD_inBuffer in = {bytes, length, 0};
    ZSTD_outBuffer room = {out.bytes, ZSTD_compressBound(length) + 64, 0};
    ZSTD_compressStream2(stream, &room, &in, ZSTD_e_continue);
    while (ZSTD_compressStream2(stream, &room, &in, ZSTD_e_end) != 0) continue;
    out.length = room.pos;
    ZSTD_freeCCtx(stream);
    return out;
}

static buffer coded_by_library(api_coding coding, const void *bytes, size_t length) {
    if (coding == API_ZSTD) return zstandard(bytes, length, 0);
    return deflated(bytes, length, coding == API_GZIP ? 31 : 15, NULL);
}

static buffer decoded_by_library(api_coding coding, const void *bytes, size_t length, size_t room) {
    buffer out = {malloc(room + 1), 0};
    if (coding == API_ZSTD) {
        out.length = ZSTD_decompress(out.bytes, room, bytes, length);
        return out;
    }
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)length};
    inflateInit2(&stream, coding == API_GZIP ? 31 : 15);
    stream.next_out = (Bytef *)out.bytes;
    stream.avail_out = (uInt)room + 1;
    out.length = inflate(&stream, Z_FINISH) == Z_STREAM_END ? stream.total_out : SIZE_MAX;
    inflateEnd(&stream);
    return out;
}

/* numbers as a request holds them */
static buffer text_of(size_t length) {
    buffer text = {malloc(length + 32), 0};
    while (text.length < length)
        text.length += (size_t)sprintf(text.bytes + text.length, "%.7g,", check_random_normal());
    text.length = length;
    return text;
}

static buffer joined(buffer a, buffer b) {
    buffer all = {malloc(a.length + b.length + 1), a.length + b.length};
    memcpy(all.bytes, a.bytes, a.length);
    memcpy(all.bytes + a.length, b.bytes, b.length);
    return all;
}

/* ---- decoded by ours --------------------------------------------------------------------------------------------- */

typedef struct outcome {
    api_decoded decoded;
    bool ended;
    buffer text;
    size_t held; /* most memory charged */
    const char *fault;
} outcome;

static void append(void *context, const void *bytes, size_t length) {
    buffer *text = context;
    text->bytes = realloc(text->bytes, text->length + length + 1);
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

/* piece 0: at once; else pieces of 1 to `piece` bytes, each in its own memory, so that a read past its end is seen */
static outcome decode(api_coding coding, const void *bytes, size_t length, size_t piece, size_t limit) {
    outcome result = {0};
    api_memory memory;
    api_memory_init(&memory, &budget);
    api_decoder *decoder = api_decoder_new(&memory, coding, limit);
    if (!decoder) {
        result.decoded = API_DECODED_NO_MEMORY;
        api_memory_deinit(&memory);
        return result;
    }
    decoder->sink = append;
    decoder->context = &result.text;
    for (size_t at = 0, n; at < length && result.decoded == API_DECODED; at += n) {
        n = piece ? 1 + check_random_below(piece) : length;
        if (n > length - at) n = length - at;
        char *own = malloc(n);
        memcpy(own, (const char *)bytes + at, n);
        result.decoded = api_decoder_push(decoder, own, n);
        free(own);
        if (memory.held > result.held) result.held = memory.held;
    }
    result.ended = decoder->ended;
    result.fault = decoder->fault;
    api_decoder_free(decoder);
    api_memory_deinit(&memory);
    CHECK(atomic_load(&budget.used) == 0, "memory stays charged");
    return result;
}

static bool gave(const outcome *o, buffer text) {
    return o->decoded == API_DECODED && o->ended && o->text.length == text.length &&
           (text.length == 0 || memcmp(o->text.bytes, text.bytes, text.length) == 0);
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

static const size_t lengths[] = {0, 1, 100, 255, 65535, 65536, 65537, 300000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void test_decodes_what_the_libraries_code(void) {
    static const size_t pieces[] = {0, 1, 7, 5000};
    for (size_t c = 0; c < CODINGS; c++)
        for (size_t i = 0; i < LENGTHS; i++) {
            buffer text = text_of(lengths[i]), coded = coded_by_library(codings[c], text.bytes, text.length);
            for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
                outcome o = decode(codings[c], coded.bytes, coded.length, pieces[p], text.length);
                CHECK(gave(&o, text), "%s, %zu bytes in pieces of %zu: outcome %d", api_coding_names[codings[c]],
                      text.length, pieces[p], (int)o.decoded);
                free(o.text.bytes);
            }
            free(text.bytes);
            free(coded.bytes);
        }
}

static void test_cut_short_anywhere(void) {
    for (size_t c = 0; c < CODINGS; c++) {
        buffer text = text_of(500), coded = coded_by_library(codings[c], text.bytes, text.length);
        for (size_t n = 0; n < coded.length; n++) {
            outcome o = decode(codings[c], coded.bytes, n, n % 3, SIZE_MAX);
            CHECK(o.decoded == API_DECODED && !o.ended, "%s: %zu of %zu bytes: outcome %d, ended %d",
                  api_coding_names[codings[c]], n, coded.length, (int)o.decoded, o.ended);
            free(o.text.bytes);
        }
        free(text.bytes);
        free(coded.bytes);
    }
}

/* A flipped bit is found if the library finds it: in the header it may not affect the text, and Adler-32 is weak for
 * short texts. */
static void test_flipped_bits(void) {
    for (size_t c = 0; c < CODINGS; c++) {
        buffer text = text_of(300), coded = coded_by_library(codings[c], text.bytes, text.length);
        size_t noticed = 0;
        for (size_t bit = 0; bit < 8 * coded.length; bit++) {
            coded.bytes[bit / 8] = (char)(coded.bytes[bit / 8] ^ 1 << bit % 8);
            outcome o = decode(codings[c], coded.bytes, coded.length, bit % 5, 10000);
            if (o.decoded == API_DECODED && o.ended) {
                buffer other = decoded_by_library(codings[c], coded.bytes, coded.length, 10000);
                CHECK(gave(&o, other), "%s: bit %zu went unnoticed", api_coding_names[codings[c]], bit);
                free(other.bytes);
            } else {
                noticed++;
            }
            free(o.text.bytes);
            coded.bytes[bit / 8] = (char)(coded.bytes[bit / 8] ^ 1 << bit % 8);
        }
        CHECK(noticed > 7 * coded.length, "%s: %zu flipped bits were noticed of %zu", api_coding_names[codings[c]],
              noticed, 8 * coded.length);
        free(text.bytes);
        free(coded.bytes);
    }
}

static void test_garbage(void) {
    static const char *const starts[] = {"\x1f\x8b\x08", "\x78\x9c", "\x28\xb5\x2f\xfd"};
    for (size_t round = 0; round < 3000; round++) {
        char bytes[200];
        const size_t c = round % CODINGS, start = strlen(starts[c]);
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)check_random();
        if (round % 4) memcpy(bytes, starts[c], start);
        outcome o = decode(codings[c], bytes, sizeof bytes, round % 2 ? 40 : 0, 100000);
        CHECK(o.text.length <= 100000, "%zu bytes came out", o.text.length);
        free(o.text.bytes);
    }
}

static void test_several_streams_and_what_follows(void) {
    static char skipped[] = "\x50\x2a\x4d\x18\x03\x00\x00\x00"
                            "abc"; /* a frame that is skipped */
    buffer a = text_of(70000), b = text_of(10), both = joined(a, b);
    buffer skip = {skipped, sizeof skipped - 1}, junk = {skipped, 1};
    for (size_t c = 0; c < CODINGS; c++) {
        const api_coding coding = codings[c];
        buffer first = coded_by_library(coding, a.bytes, a.length),
               second = coded_by_library(coding, b.bytes, b.length);
        buffer whole = joined(first, second);
        outcome o = decode(coding, whole.bytes, whole.length, 3000, SIZE_MAX);
        if (coding == API_DEFLATE)
            CHECK(o.decoded == API_DECODED_CORRUPT && strstr(o.fault, "followed"), "outcome %d", (int)o.decoded);
        else
            CHECK(gave(&o, both), "%s: two streams: outcome %d", api_coding_names[coding], (int)o.decoded);
        free(o.text.bytes);
        free(whole.bytes);
        whole = joined(first, junk);
        o = decode(coding, whole.bytes, whole.length, 3000, SIZE_MAX);
        CHECK(!gave(&o, a), "%s: a byte behind the end went unnoticed", api_coding_names[coding]);
        free(o.text.bytes);
        free(whole.bytes);
        if (coding == API_ZSTD) {
            whole = joined(skip, first);
            o = decode(coding, whole.bytes, whole.length, 5, SIZE_MAX);
            CHECK(gave(&o, a), "a skippable frame: outcome %d", (int)o.decoded);
            free(o.text.bytes);
            free(whole.bytes);
        }
        free(first.bytes);
        free(second.bytes);
    }
    free(a.bytes);
    free(b.bytes);
    free(both.bytes);
}

static void test_bombs(void) {
    enum { LIMIT = 1 << 20, BOMB = 64 << 20 };
    char *zeros = calloc(1, BOMB);
    for (size_t c = 0; c < CODINGS; c++) {
        const char *name = api_coding_names[codings[c]];
        buffer coded = coded_by_library(codings[c], zeros, BOMB);
        outcome o = decode(codings[c], coded.bytes, coded.length, 0, LIMIT);
        CHECK(o.decoded == API_DECODED_TOO_LONG && o.text.length <= LIMIT, "%s: outcome %d with %zu bytes", name,
              (int)o.decoded, o.text.length);
        CHECK(o.held < (codings[c] == API_ZSTD ? (size_t)9 << 20 : (size_t)256 << 10), "%s: held %zu bytes", name,
              o.held);
        free(o.text.bytes);
        free(coded.bytes);
        coded = coded_by_library(codings[c], zeros, LIMIT);
        for (size_t less = 0; less < 2; less++) {
            o = decode(codings[c], coded.bytes, coded.length, 0, LIMIT - less);
            CHECK(o.decoded == (less ? API_DECODED_TOO_LONG : API_DECODED), "%s, %zu below the limit: outcome %d", name,
                  less, (int)o.decoded);
            free(o.text.bytes);
        }
        free(coded.bytes);
    }
    free(zeros);
}

static void test_windows_and_dictionaries(void) {
    buffer text = text_of(1000);
    for (int log = 23; log <= 24; log++) {
        buffer coded = zstandard(text.bytes, text.length, log);
        outcome o = decode(API_ZSTD, coded.bytes, coded.length, 0, SIZE_MAX);
        CHECK(log == 23 ? gave(&o, text) : o.decoded == API_DECODED_CORRUPT && strstr(o.fault, "window"),
              "window of 2^%d: outcome %d", log, (int)o.decoded);
        free(o.text.bytes);
        free(coded.bytes);
    }
    buffer coded = deflated(text.bytes, text.length, 15, "0.1,0.2,-0.");
    outcome o = decode(API_DEFLATE, coded.bytes, coded.length, 0, SIZE_MAX);
    CHECK(o.decoded == API_DECODED_CORRUPT && strstr(o.fault, "dictionary"), "outcome %d", (int)o.decoded);
    free(o.text.bytes);
    free(coded.bytes);
    coded = deflated(text.bytes, text.length, -15, NULL); /* without the zlib form around it */
    o = decode(API_DEFLATE, coded.bytes, coded.length, 0, SIZE_MAX);
    CHECK(o.decoded == API_DECODED_CORRUPT, "outcome %d", (int)o.decoded);
    free(o.text.bytes);
    free(coded.bytes);
    free(text.bytes);
}

static void test_budget(void) {
    buffer text = text_of(100000);
    for (size_t c = 0; c < CODINGS; c++) {
        buffer coded = coded_by_library(codings[c], text.bytes, text.length);
        bool enough = false;
        for (budget.limit = 1000; !enough && budget.limit < (size_t)16 << 20; budget.limit *= 2) {
            outcome o = decode(codings[c], coded.bytes, coded.length, 4000, SIZE_MAX);
            enough = gave(&o, text);
            CHECK(enough || o.decoded == API_DECODED_NO_MEMORY, "outcome %d", (int)o.decoded);
            free(o.text.bytes);
        }
        CHECK(enough && budget.limit > 100000, "%s: a limit of %zu", api_coding_names[codings[c]], budget.limit);
        free(coded.bytes);
    }
    budget.limit = 0;
    free(text.bytes);
}

/* ---- coding ------------------------------------------------------------------------------------------------------ */

static void test_codes_what_the_libraries_decode(void) {
    static const size_t more[] = {256, 4 << 20};
    for (size_t c = 0; c < CODINGS; c++)
        for (size_t i = 0; i < LENGTHS + 2 * 2; i++) {
            const size_t length = i < LENGTHS ? lengths[i] : more[(i - LENGTHS) / 2];
            buffer text = text_of(length);
            if (i % 2) /* what does not shrink */
                for (size_t j = 0; j < length; j++) text.bytes[j] = (char)check_random();
            api_memory memory;
            api_memory_init(&memory, &budget);
            buffer coded = {0};
            coded.bytes = api_encode(&memory, codings[c], text.bytes, length, &coded.length, NULL);
            CHECK(coded.bytes != NULL, "%s: nothing of %zu bytes", api_coding_names[codings[c]], length);
            CHECK(memory.held < coded.length + 8192, "%zu bytes held for %zu", memory.held, coded.length);
            buffer again = decoded_by_library(codings[c], coded.bytes, coded.length, length);
            CHECK(again.length == length && memcmp(again.bytes, text.bytes, length) == 0, "%s: %zu bytes",
                  api_coding_names[codings[c]], length);
            free(again.bytes);
            free(text.bytes);
            api_memory_deinit(&memory);
            CHECK(atomic_load(&budget.used) == 0, "memory stays charged");
        }
}

static void test_coding_gives_up(void) {
    buffer text = text_of(3 << 20);
    for (size_t c = 0; c < CODINGS; c++) {
        api_memory memory;
        api_memory_init(&memory, &budget);
        size_t length;
        const atomic_bool cancelled = true;
        CHECK(!api_encode(&memory, codings[c], text.bytes, text.length, &length, &cancelled), "not cancelled");
        CHECK(memory.held == 0, "%zu bytes stay", memory.held);
        for (budget.limit = 1000; budget.limit < 1 << 20; budget.limit *= 2) {
            CHECK(!api_encode(&memory, codings[c], text.bytes, text.length, &length, NULL), "fits in %zu",
                  budget.limit);
            CHECK(memory.held == 0, "%zu bytes stay", memory.held);
        }
        budget.limit = 0;
        api_memory_deinit(&memory);
    }
    free(text.bytes);
}

/* ---- what headers say -------------------------------------------------------------------------------------------- */

static void test_content_encoding(void) {
    static const struct {
        const char *header;
        int coding; /* -1: refused */
    } rows[] = {{NULL, API_IDENTITY},
                {"", API_IDENTITY},
                {"identity", API_IDENTITY},
                {"Identity, ,identity", API_IDENTITY},
                {"gzip", API_GZIP},
                {" GZIP ", API_GZIP},
                {"x-gzip", API_GZIP},
                {"deflate", API_DEFLATE},
                {"zstd", API_ZSTD},
                {"identity, zstd", API_ZSTD},
                {"br", -1},
                {"gzip, gzip", -1},
                {"gzip, zstd", -1},
                {"gzip;q=1", -1},
                {"gzipped", -1},
                {"compress", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        api_coding coding;
        const bool read = api_content_coding(rows[i].header, &coding);
        CHECK(read ? (int)coding == rows[i].coding : rows[i].coding == -1, "%s: read %d, coding %d", rows[i].header,
              read, (int)coding);
    }
}

static void test_accept_encoding(void) {
    static const struct {
        const char *header;
        api_coding coding;
        bool plain;
        api_coding of_client;
    } rows[] = {{NULL, API_IDENTITY, true, API_IDENTITY},
                {"", API_IDENTITY, true, API_IDENTITY},
                {"identity", API_IDENTITY, true, API_IDENTITY},
                {"gzip", API_GZIP, true, API_GZIP},
                {"GZip", API_GZIP, true, API_GZIP},
                {"x-gzip", API_GZIP, true, API_GZIP},
                {"deflate", API_DEFLATE, true, API_DEFLATE},
                {"zstd", API_ZSTD, true, API_IDENTITY},
                {"br", API_IDENTITY, true, API_IDENTITY},
                {"gzip, deflate", API_GZIP, true, API_IDENTITY},
                {"deflate, gzip, br, zstd", API_ZSTD, true, API_IDENTITY},
                {"gzip, zstd", API_ZSTD, true, API_GZIP},
                {"gzip;q=0.9, deflate;q=0.95, zstd;q=0.1", API_DEFLATE, true, API_IDENTITY},
                {"gzip;q=0", API_IDENTITY, true, API_IDENTITY},
                {"gzip;q=0.000, deflate", API_DEFLATE, true, API_DEFLATE},
                {"gzip; q=0.001", API_GZIP, true, API_GZIP},
                {"gzip;q=1.0", API_GZIP, true, API_GZIP},
                {"gzip;q=0.5, identity", API_IDENTITY, true, API_GZIP},
                {"gzip;q=0.5, identity;q=0.5", API_GZIP, true, API_GZIP},
                {"gzip;q=0.5, identity;q=0.25", API_GZIP, true, API_GZIP},
                {"*", API_GZIP, true, API_IDENTITY},
                {"*, gzip;q=0", API_DEFLATE, true, API_IDENTITY},
                {"*;q=0", API_IDENTITY, false, API_IDENTITY},
                {"*;q=0, deflate", API_DEFLATE, false, API_DEFLATE},
                {"*;q=0, identity", API_IDENTITY, true, API_IDENTITY},
                {"identity;q=0", API_IDENTITY, false, API_IDENTITY},
                {"identity;q=0, br", API_IDENTITY, false, API_IDENTITY},
                {"identity;q=0, gzip", API_GZIP, false, API_GZIP},
                {"identity;q=0, *", API_GZIP, false, API_IDENTITY},
                {",, gzip ,", API_GZIP, true, API_GZIP}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const api_coding_choice got = api_choose_coding(rows[i].header),
                                client = api_choose_coding_of_client(rows[i].header);
        CHECK(got.coding == rows[i].coding && got.plain == rows[i].plain, "%s: got %s, plain %d", rows[i].header,
              api_coding_names[got.coding], got.plain);
        CHECK(client.coding == rows[i].of_client && client.plain, "%s: a client gets %s", rows[i].header,
              api_coding_names[client.coding]);
    }
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static const char request_text[] =
    "{\"q\":[[2,0,1],[0,2,1]],\"k\":[[1,1,0],[0,1,1]],\"v\":[[1,0,1],[0,1,0]],\"trace\":true}";

static const char *header_value(void *context, const char *name) {
    for (const char **p = ((exchange_headers *)context)->pairs; *p; p += 2)
        if (strcasecmp(p[0], name) == 0) return p[1];
    return NULL;
}

typedef struct reply {
    int status;
    char headers[512];
    buffer body;
    uint64_t body_bytes;
} reply;

static reply send_bytes(const char *method, const char *path, exchange_headers headers, buffer body) {
    const api_head head = {.method = method, .path = path, .header = header_value, .context = &headers};
    api_request *request = api_begin(&exchange_service, &head);
    const api_response *response = api_refused(request);
    for (size_t at = 0, n; !response && at < body.length; at += n) {
        n = body.length - at < 1000 ? body.length - at : 1000;
        if (!api_push(request, body.bytes + at, n)) break;
    }
    if (!response) response = api_finish(request, 0);
    reply r = {.status = response->status, .body = {malloc(response->length + 1), response->length}};
    memcpy(r.body.bytes, response->body, response->length);
    r.body.bytes[response->length] = 0;
    size_t used = 0;
    for (size_t i = 0; response->headers[i].name; i++)
        used += (size_t)snprintf(r.headers + used, sizeof r.headers - used, "%s: %s\n", response->headers[i].name,
                                 response->headers[i].value);
    r.body_bytes = api_trace_of(request)->body_bytes;
    api_request_free(request);
    CHECK(atomic_load(&exchange_service.budget.used) == 0, "memory of the request is still charged");
    return r;
}

static reply post_coded(api_coding coding, const char *accept, buffer body) {
    return send_bytes("POST", "/attention",
                      (exchange_headers){{"content-encoding", api_coding_names[coding],
                                          accept ? "accept-encoding" : NULL, accept, NULL}},
                      body);
}

static void test_requests(void) {
    const buffer text = {(char *)(uintptr_t)request_text, sizeof request_text - 1};
    reply plain = post_coded(API_IDENTITY, NULL, text);
    CHECK(plain.status == 200 && plain.body.length >= 256, "%d %s", plain.status, plain.body.bytes);
    CHECK(strstr(plain.headers, "Vary: Accept-Encoding") && !strstr(plain.headers, "Content-Encoding"), "%s",
          plain.headers);
    for (size_t c = 0; c < CODINGS; c++) {
        const char *name = api_coding_names[codings[c]];
        buffer coded = coded_by_library(codings[c], text.bytes, text.length);
        reply r = post_coded(codings[c], NULL, coded);
        CHECK(r.status == 200 && strcmp(r.body.bytes, plain.body.bytes) == 0, "%s: %d %s", name, r.status,
              r.body.bytes);
        CHECK(r.body_bytes == text.length, "%s: %zu bytes of body", name, (size_t)r.body_bytes);
        free(r.body.bytes);
        r = post_coded(codings[c], name, coded);
        buffer again = decoded_by_library(codings[c], r.body.bytes, r.body.length, 2000);
        CHECK(again.length == plain.body.length && memcmp(again.bytes, plain.body.bytes, again.length) == 0, "%s",
              name);
        CHECK(strstr(r.headers, "Content-Encoding: ") && strstr(r.headers, name) && strstr(r.headers, "Vary:"),
              "%s: %s", name, r.headers);
        free(again.bytes);
        free(r.body.bytes);
        free(coded.bytes);
    }
    free(plain.body.bytes);
}

static void expect_refusal(reply r, int status, const char *code, const char *detail) {
    CHECK(r.status == status && strstr(r.body.bytes, code) && strstr(r.body.bytes, detail),
          "expected %d %s %s, got %d %s", status, code, detail, r.status, r.body.bytes);
    free(r.body.bytes);
}

static void test_bad_requests(void) {
    const buffer text = {(char *)(uintptr_t)request_text, sizeof request_text - 1};
    char *zeros = calloc(1, 8 << 20);
    for (size_t c = 0; c < CODINGS; c++) {
        buffer coded = coded_by_library(codings[c], text.bytes, text.length);
        expect_refusal(post_coded(codings[c], "gzip", (buffer){coded.bytes, coded.length - 1}), 400, "bad_request",
                       "is cut short");
        expect_refusal(post_coded(codings[c], "gzip", (buffer){coded.bytes, 0}), 400, "bad_request", "is empty");
        expect_refusal(post_coded(codings[c], "gzip", text), 400, "bad_request", "is corrupt: ");
        free(coded.bytes);
        coded = coded_by_library(codings[c], zeros, 8 << 20);
        expect_refusal(post_coded(codings[c], "gzip", coded), 413, "body_too_large",
                       "at most 1.0 MiB (1,048,576 bytes) (--max-body)");
        free(coded.bytes);
        coded = coded_by_library(codings[c], "{\"q\":[[1,", 9);
        expect_refusal(post_coded(codings[c], "gzip", coded), 400, "invalid_json", "line 1");
        free(coded.bytes);
    }
    free(zeros);
    exchange_service.budget.limit = 80000;
    for (size_t c = 0; c < CODINGS; c++) {
        buffer coded = coded_by_library(codings[c], text.bytes, text.length);
        expect_refusal(post_coded(codings[c], NULL, coded), 429, "overloaded", "memory");
        free(coded.bytes);
    }
    exchange_service.budget.limit = (size_t)64 << 20;
    expect_refusal(send_bytes("POST", "/attention", (exchange_headers){{"accept-encoding", "*;q=0", NULL}}, text), 406,
                   "not_acceptable", "got *;q=0");
    expect_refusal(send_bytes("GET", "/nope", (exchange_headers){{"accept-encoding", "*;q=0", NULL}}, (buffer){0}), 404,
                   "not_found", "/nope");
}

/* HEAD describes GET's reply; a short reply is compressed only if it must be. */
static void test_replies(void) {
    static const char *const methods[] = {"GET", "HEAD"};
    size_t length[2];
    for (size_t i = 0; i < 2; i++) {
        reply r =
            send_bytes(methods[i], "/openapi.json", (exchange_headers){{"accept-encoding", "gzip", NULL}}, (buffer){0});
        CHECK(r.status == 200 && strstr(r.headers, "Content-Encoding: gzip"), "%s", r.headers);
        length[i] = r.body.length;
        free(r.body.bytes);
        r = send_bytes(methods[i], "/openapi.json", (exchange_headers){{NULL}}, (buffer){0});
        CHECK(r.status == 200 && !strstr(r.headers, "Content-Encoding") && r.body.length > 2 * length[i], "%s",
              r.headers);
        free(r.body.bytes);
    }
    CHECK(length[0] == length[1], "GET has %zu bytes, HEAD %zu", length[0], length[1]);
    for (int must = 0; must < 2; must++) {
        const char *accept = must ? "gzip, identity;q=0" : "gzip";
        reply r = send_bytes("GET", "/healthz", (exchange_headers){{"accept-encoding", accept, NULL}}, (buffer){0});
        CHECK(r.status == 200 && !!strstr(r.headers, "Content-Encoding: gzip") == must, "%s: %s", accept, r.headers);
        free(r.body.bytes);
    }
}

int main(int argc, char **argv) {
    static const check_test tests[] = {
        CHECK_TEST(test_decodes_what_the_libraries_code),
        CHECK_TEST(test_cut_short_anywhere),
        CHECK_TEST(test_flipped_bits),
        CHECK_TEST(test_garbage),
        CHECK_TEST(test_several_streams_and_what_follows),
        CHECK_TEST(test_bombs),
        CHECK_TEST(test_windows_and_dictionaries),
        CHECK_TEST(test_budget),
        CHECK_TEST(test_codes_what_the_libraries_decode),
        CHECK_TEST(test_coding_gives_up),
        CHECK_TEST(test_content_encoding),
        CHECK_TEST(test_accept_encoding),
        CHECK_TEST(test_requests),
        CHECK_TEST(test_bad_requests),
        CHECK_TEST(test_replies),
    };
    exchange_init();
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
