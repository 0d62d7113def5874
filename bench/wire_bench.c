/* wire_bench.c: a million numbers in rows of 64 through JSON: ours, jansson, simdjson, std::to_chars; and the memory of
 * decoding. Prints a section of docs/performance.md.
 *
 *     wire_bench [ROUNDS [THREADS]]          default: 9 rounds, 2 threads
 *
 * Ours is measured from outside, through api.h: everything before and after computing, checks of shapes and finiteness
 * included. Every round runs each contender once, one after the other, and medians are compared. Contenders
 * with one thread are measured in CPU time, which other programs disturb less. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../api/api.h"
#include "wire_peers.h"

enum { ROWS = 15625, COLUMNS = 64, NUMBERS = ROWS * COLUMNS, MOST_ROUNDS = 99, PIECE = 64 << 10 };

static api_service service;

/* seconds of CPU of this thread */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "wire_bench: %s\n", what);
    exit(1);
}

static void *get(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) fail("no memory");
    return memory;
}

/* ---- medians ----------------------------------------------------------------------------------------------------- */

typedef struct series {
    double seconds[MOST_ROUNDS];
    size_t count;
} series;

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(series *s) {
    qsort(s->seconds, s->count, sizeof *s->seconds, compare);
    return s->count % 2 ? s->seconds[s->count / 2] : (s->seconds[s->count / 2 - 1] + s->seconds[s->count / 2]) / 2;
}

static void add(series *s, double seconds) { s->seconds[s->count++] = seconds; }

/* ---- texts ------------------------------------------------------------------------------------------------------- */

typedef struct text {
    char *bytes;
    size_t length;
} text;

/* roughly normal, the same in every run (SplitMix64, a sum of four uniform numbers) */
static double random_normal(void) {
    static unsigned long long state = 1;
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        unsigned long long z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        sum += (double)((z ^ (z >> 31)) >> 11) * 0x1p-53 - 0.5;
    }
    return sum * 1.7320508075688772;
}

static char *put_rows(char *p, const double *numbers, size_t rows, int digits) {
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < COLUMNS; j++)
            p += sprintf(p, "%s%.*g",
                         j   ? ","
                         : i ? ",["
                             : "[[",
                         digits, digits > 9 ? numbers[i * COLUMNS + j] : (double)(float)numbers[i * COLUMNS + j]);
        *p++ = ']';
    }
    *p++ = ']';
    return p;
}

/* One query, as many keys as there are rows, values without columns: next to nothing is computed. */
static text request_of(const double *numbers, int digits, bool f64) {
    text t = {get((size_t)NUMBERS * 26 + 4096), 0};
    char *p = t.bytes + sprintf(t.bytes, "{\"dtype\":\"%s\",\"k\":", f64 ? "float64" : "float32");
    p = put_rows(p, numbers, ROWS, digits);
    p += sprintf(p, ",\"q\":");
    p = put_rows(p, numbers, 1, digits);
    p += sprintf(p, ",\"v\":{\"shape\":[%d,0],\"data\":[]},\"return\":[\"present_k\"]}", ROWS);
    t.length = (size_t)(p - t.bytes);
    return t;
}

/* q, k and v of a third each, `dtype` first or nowhere */
static text triple_of(const double *numbers, int digits, bool dtype_first) {
    text t = {get((size_t)NUMBERS * 26 + 4096), 0};
    char *p = t.bytes + sprintf(t.bytes, dtype_first ? "{\"dtype\":\"float32\"" : "{\"causal\":true");
    for (size_t i = 0; i < 3; i++) {
        p += sprintf(p, ",\"%c\":", "qkv"[i]);
        p = put_rows(p, numbers + i * (ROWS / 3) * COLUMNS, ROWS / 3, digits);
    }
    *p++ = '}';
    t.length = (size_t)(p - t.bytes);
    return t;
}

/* ---- ours -------------------------------------------------------------------------------------------------------- */

static api_request *decode(const text *body) {
    const api_head head = {.method = "POST", .path = "/attention"};
    api_request *request = api_begin(&service, &head);
    if (!request || api_refused(request)) fail("the request is refused");
    for (size_t at = 0, n; at < body->length; at += n) {
        n = body->length - at < PIECE ? body->length - at : PIECE;
        api_push(request, body->bytes + at, n);
    }
    if (api_work(request) == 0) fail("the request has an error");
    return request;
}

static double decode_seconds(const text *body) {
    const double start = now();
    api_request *request = decode(body);
    const double seconds = now() - start;
    api_request_free(request);
    return seconds;
}

/* The reply holds the keys again, which one thread copies; the copy is counted too, about a millisecond. If `wanted` is
 * given, the keys are compared with it. With a pool, wall time is measured. */
static double encode_seconds(const text *body, const float *wanted) {
    api_request *request = decode(body);
    const double start = now();
    const api_response *reply = api_finish(request, 0);
    const double finish = now() - start;
    if (reply->status != 200) fail("the request failed");
    if (wanted) {
        static const char name[] = "\"present_k\"";
        char *copy = get(reply->length + PEER_PADDING), *member = memcpy(copy, reply->body, reply->length);
        float *array = get(NUMBERS * sizeof *array);
        member = strstr(member, name);
        if (!member) fail("no present_k");
        memcpy(member, "\"k\"        ", sizeof name - 1);
        if (peer_simdjson(copy, reply->length, false, array) != NUMBERS ||
            memcmp(array, wanted, NUMBERS * sizeof *array) != 0)
            fail("the numbers came back changed");
        free(copy);
        free(array);
    }
    const double seconds = service.engine.pool ? api_trace_of(request)->times.encode : finish;
    api_request_free(request);
    return seconds;
}

/* ---- jansson ----------------------------------------------------------------------------------------------------- */

size_t peer_jansson(const char *bytes, size_t length, bool f64, void *array) {
    json_t *json = json_loadb(bytes, length, 0, NULL), *row, *number;
    size_t count = 0, i, j;
    json_array_foreach(json_object_get(json, "k"), i, row) json_array_foreach(row, j, number) {
        if (f64)
            ((double *)array)[count++] = json_number_value(number);
        else
            ((float *)array)[count++] = (float)json_number_value(number);
    }
    json_decref(json);
    return count;
}

static json_t *tree_of(const float *array) {
    json_t *rows = json_array();
    for (size_t i = 0; i < ROWS; i++) {
        json_t *row = json_array();
        for (size_t j = 0; j < COLUMNS; j++) json_array_append_new(row, json_real((double)array[i * COLUMNS + j]));
        json_array_append_new(rows, row);
    }
    return rows;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

typedef struct decoding {
    const char *name;
    int digits;
    bool f64;
    double least_jansson, least_simdjson; /* what is to be reached; 0: nothing */
} decoding;

static void report_decoding(const decoding *d, const double *numbers, size_t rounds) {
    text body = request_of(numbers, d->digits, d->f64);
    void *array = get(NUMBERS * sizeof(double));
    series ours = {0}, jansson = {0}, simdjson = {0};
    for (size_t i = 0; i < rounds; i++) {
        add(&ours, decode_seconds(&body));
        double start = now();
        if (peer_simdjson(body.bytes, body.length, d->f64, array) != NUMBERS) fail("simdjson");
        add(&simdjson, now() - start);
        if (i % 3 == 0) { /* a third as often, because it takes fifty times as long */
            start = now();
            if (peer_jansson(body.bytes, body.length, d->f64, array) != NUMBERS) fail("jansson");
            add(&jansson, now() - start);
        }
    }
    const double t = median(&ours), j = median(&jansson), s = median(&simdjson);
    printf("| decode %s | %.1f | simdjson %.1f, jansson %.1f | %.2f × simdjson%s, %.1f × jansson%s |\n", d->name,
           1e3 * t, 1e3 * s, 1e3 * j, s / t, d->least_simdjson > s / t ? " (missed)" : "", j / t,
           d->least_jansson > j / t ? " (missed)" : "");
    free(array);
    free(body.bytes);
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

static void report_encoding(const double *numbers, size_t rounds, attn_pool *pool, size_t threads) {
    text body = request_of(numbers, 9, false);
    float *array = get(NUMBERS * sizeof *array);
    for (size_t i = 0; i < NUMBERS; i++) array[i] = (float)numbers[i];
    char *out = get((size_t)NUMBERS * 17 + (size_t)ROWS * 4);
    json_t *tree = tree_of(array);
    series one = {0}, many = {0}, to_chars = {0}, jansson = {0};
    encode_seconds(&body, array);
    for (size_t i = 0; i < rounds; i++) {
        service.engine.pool = NULL;
        add(&one, encode_seconds(&body, NULL));
        double start = now();
        peer_to_chars(array, ROWS, COLUMNS, out);
        add(&to_chars, now() - start);
        service.engine.pool = pool;
        add(&many, encode_seconds(&body, NULL));
        service.engine.pool = NULL;
        if (i % 3 == 0) {
            start = now();
            free(json_dumps(tree, JSON_COMPACT | JSON_REAL_PRECISION(9)));
            add(&jansson, now() - start);
        }
    }
    const double t = median(&one), c = median(&to_chars), j = median(&jansson), m = median(&many);
    printf(
        "| encode float32, one thread | %.1f | to_chars %.1f, jansson %.1f | %.2f × to_chars%s, %.1f × jansson%s |\n",
        1e3 * t, 1e3 * c, 1e3 * j, c / t, c / t < 1.5 ? " (missed)" : "", j / t, j / t < 17 ? " (missed)" : "");
    printf("| encode float32, %zu threads | %.1f | the same, which have one | %.2f × to_chars, %.1f × jansson |\n",
           threads, 1e3 * m, c / m, j / m);
    json_decref(tree);
    free(out);
    free(array);
    free(body.bytes);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Bytes of a line of /proc/self/status. */
static double status_bytes(const char *name) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    double kibibytes = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) kibibytes = strtod(line + strlen(name) + 1, NULL);
    if (file) fclose(file);
    return kibibytes * 1024;
}

/* Peak memory in RAM while a body was decoded, beyond what was there before, as the kernel counts it. */
static double peak_of(const text *body) {
    api_request_free(decode(body)); /* what is set up once */
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file || fputs("5", file) == EOF || fclose(file)) fail("cannot reset the peak of memory");
    const double before = status_bytes("VmRSS:");
    api_request *request = decode(body);
    const double peak = status_bytes("VmHWM:") - before;
    api_request_free(request);
    return peak;
}

static void report_memory(const double *numbers) {
    static const int digits[] = {17, 9};
    const double tensors = (double)(ROWS / 3 * 3) * COLUMNS * sizeof(float), mib = 1 << 20;
    for (size_t i = 0; i < 2; i++)
        for (int first = 0; first < 2; first++) {
            text body = triple_of(numbers, digits[i], first);
            const double peak = peak_of(&body), most = first ? 1.25 * tensors : 2.25 * tensors + 2 * mib;
            printf("| decode %d digits, `dtype` %s | %.2f | %.2f | %.2f |%s\n", digits[i], first ? "first" : "nowhere",
                   peak / mib, most / mib, peak / tensors, peak > most ? " missed |" : " |");
            free(body.bytes);
        }
}

int main(int argc, char **argv) {
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 9;
    const size_t threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 2;
    if (rounds < 1) rounds = 1;
    if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
    static const decoding decodings[] = {{"17 digits into float32", 17, false, 25, 1.0},
                                         {"17 digits into float64", 17, true, 25, 1.0},
                                         {"9 digits into float32", 9, false, 0, 1.2}};
    service.engine.kernel = attn_kernel_find(NULL);
    service.max_body = (size_t)1 << 30;
    attn_pool *pool = attn_pool_new(threads > 1 ? threads - 1 : 1); /* the caller helps */
    double *numbers = get(NUMBERS * sizeof *numbers);
    for (size_t i = 0; i < NUMBERS; i++) numbers[i] = random_normal();
    printf("A million numbers in rows of 64, one thread unless said, medians of %zu rounds; jansson %s, simdjson %s\n"
           "(on-demand, into the same array), `std::to_chars` of GCC %s.\n\n| work | ms | others, ms | ours is |\n"
           "| --- | ---: | --- | --- |\n",
           rounds, jansson_version_str(), peer_simdjson_version(), __VERSION__);
    for (size_t i = 0; i < sizeof decodings / sizeof *decodings; i++) report_decoding(&decodings[i], numbers, rounds);
    report_encoding(numbers, rounds, pool, threads);
    printf("\nMemory at its peak while q, k and v of a third of that each are decoded, the body not counted:\n\n"
           "| body | MiB | at most | times the float32 tensors | |\n| --- | ---: | ---: | ---: | --- |\n");
    report_memory(numbers);
    free(numbers);
    attn_pool_free(pool);
    return 0;
}
