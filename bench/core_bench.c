/* core_bench.c: times core/ on ready tensors, and the limits of the machine, one measurement a line.
 *
 *     core_bench < requests          each line:  WORK [NAME=NUMBER ...]       each answer: seconds, or an error
 *
 * A reader that alternates these lines with calls of other libraries compares them under the same conditions: see
 * peers.py. The same line again is measured on the same tensors. WORK is
 *
 *     attention   heads kv_heads n_q n_k d threads f64 causal window segment weights
 *                 one attn_run; segment: the length of sequences packed side by side
 *     memory      the same                          not seconds: the bytes of workspace of that run
 *     mha         heads n d_model threads                                         one attn_mha_run, all projections
 *     tiny, loop  -                                 the 2 x 3 worked example, by attn_run and by plain loops
 *     fma         -                                 one operation, in a register loop: the fastest of several
 *     read        threads                           one pass of reading READ_BYTES, in parts
 *     blas, xsmm  -                                 tile products 64 x 128 x 64 of TILE_FLOPS operations in all
 *
 * Work shorter than 2 ms is repeated for that long, and the mean is reported. */
#include "../core/attention.h"
#include "limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef SHORTEST
#define SHORTEST 0.002
#endif

typedef struct spec {
    char work[16];
    size_t heads, kv_heads, n_q, n_k, d, d_model, threads, segment;
    long window;
    bool f64, causal, weights;
} spec;

typedef struct bench {
    spec spec;
    attn_engine engine;
    attn_mha mha; /* or only mha.attention */
    attn_mha_results results;
    attn_segments segments;
    void *workspace;
    void *blocks[16];
    size_t block_count;
} bench;

static double now(void) {
    struct timespec time;
    clock_gettime(BENCH_CLOCK, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *block(bench *b, size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!memory) {
        fprintf(stderr, "core_bench: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(memory, 0, bytes);
    return b->blocks[b->block_count++] = memory;
}

/* count numbers, roughly normal (a sum of four uniform ones), the same in every run */
static void *numbers(bench *b, size_t count, double scale) {
    static unsigned long long state = 1;
    const size_t size = b->spec.f64 ? sizeof(double) : sizeof(float);
    void *memory = block(b, count * size);
    for (size_t i = 0; i < count; i++) {
        double x = -2;
        for (int k = 0; k < 4; k++) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            x += (double)(state >> 40) * 0x1p-24;
        }
        x *= scale * 1.732;
        if (b->spec.f64)
            ((double *)memory)[i] = x;
        else
            ((float *)memory)[i] = (float)x;
    }
    return memory;
}

static void free_bench(bench *b) {
    attn_pool_free(b->engine.pool);
    for (size_t i = 0; i < b->block_count; i++) free(b->blocks[i]);
    *b = (bench){.block_count = 0};
}

static attn_view view_of(const void *data, size_t rows, size_t heads, size_t d) {
    return (attn_view){.data = data, .batch = heads * rows * d, .head = rows * d, .row = d};
}

static void prepare_attention(bench *b) {
    const spec *s = &b->spec;
    attn_problem *p = &b->mha.attention;
    const size_t size = s->f64 ? sizeof(double) : sizeof(float);
    p->q = view_of(numbers(b, s->heads * s->n_q * s->d, 1), s->n_q, s->heads, s->d);
    p->k = view_of(numbers(b, s->kv_heads * s->n_k * s->d, 1), s->n_k, s->kv_heads, s->d);
    p->v = view_of(numbers(b, s->kv_heads * s->n_k * s->d, 1), s->n_k, s->kv_heads, s->d);
    const attn_view out = view_of(block(b, s->heads * s->n_q * s->d * size), s->n_q, s->heads, s->d);
    b->results.attention.output = (attn_out_view){(void *)(uintptr_t)out.data, out.batch, out.head, out.row};
    if (s->weights) b->results.attention.weights = block(b, s->heads * s->n_q * s->n_k * size);
    b->workspace = block(b, attn_workspace(&b->engine, p, &b->results.attention));
}

/* Sequences of `segment` tokens side by side */
static void prepare_segments(bench *b) {
    const spec *s = &b->spec;
    const size_t most = s->n_q > s->n_k ? s->n_q : s->n_k;
    int64_t *ids = block(b, most * sizeof *ids);
    size_t *spans = block(b, s->n_q * 2 * sizeof *spans);
    attn_segment_run *runs = block(b, s->n_k * sizeof *runs);
    for (size_t i = 0; i < most; i++) ids[i] = (int64_t)(i / s->segment);
    b->segments = (attn_segments){.of_query = ids, .of_key = ids, .spans = spans};
    b->segments.gaps = attn_segment_spans(s->n_q, ids, s->n_k, ids, runs, spans);
    b->mha.attention.segments = &b->segments;
}

static void prepare_mha(bench *b) {
    const spec *s = &b->spec;
    attn_mha *m = &b->mha;
    const size_t width = s->heads * s->d;
    const double scale = 1 / sqrt((double)s->d_model);
    m->d_model = m->d_context = m->d_out = s->d_model;
    m->x = numbers(b, s->n_q * s->d_model, 1);
    m->w_q = (attn_weight){numbers(b, s->d_model * width, scale), width, false};
    m->w_k = (attn_weight){numbers(b, s->d_model * width, scale), width, false};
    m->w_v = (attn_weight){numbers(b, s->d_model * width, scale), width, false};
    m->w_o = (attn_weight){numbers(b, width * s->d_model, scale), s->d_model, false};
    b->results.output = block(b, s->n_q * s->d_model * sizeof(float));
    b->workspace = block(b, attn_mha_workspace(&b->engine, m, &b->results));
}

/* X = [[1,0,1,0],[0,1,0,1]] projected: the queries, keys and values of the worked example. Not constant, because
 * the compiler would then compute the products of the plain loops itself. */
static float tiny_q[] = {2, 0, 1, 0, 2, 1}, tiny_k[] = {1, 1, 0, 0, 1, 1}, tiny_v[] = {1, 0, 1, 0, 1, 0};

static void prepare_tiny(bench *b) {
    attn_problem *p = &b->mha.attention;
    p->q = view_of(tiny_q, 2, 1, 3);
    p->k = view_of(tiny_k, 2, 1, 3);
    p->v = view_of(tiny_v, 2, 1, 3);
    b->results.attention.output = (attn_out_view){block(b, sizeof tiny_q), 6, 6, 3};
    b->workspace = block(b, attn_workspace(&b->engine, p, &b->results.attention));
}

static bool is(const spec *s, const char *work) { return strcmp(s->work, work) == 0; }

static void prepare(bench *b) {
    spec *s = &b->spec;
    if (is(s, "tiny")) s->heads = s->kv_heads = 1, s->n_q = s->n_k = 2, s->d = 3;
    b->engine.kernel = attn_kernel_find(getenv("ATTENTIOND_KERNEL"));
    if (!b->engine.kernel) {
        fprintf(stderr, "core_bench: no such kernel on this CPU\n");
        exit(1);
    }
    b->engine.pool = s->threads > 1 ? attn_pool_new(s->threads - 1) : NULL; /* the calling thread takes part */
    b->mha.attention = (attn_problem){
        .dtype = s->f64 ? ATTN_F64 : ATTN_F32,
        .batch = 1,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .n_q = s->n_q,
        .n_new = s->n_k,
        .d_k = s->d,
        .d_v = s->d,
        .causal = s->causal,
        .has_window = s->window >= 0,
        .window_left = s->window,
        .window_right = s->window,
        .scale = 1 / sqrt((double)s->d),
    };
    if (s->segment > 0) prepare_segments(b);
    if (is(s, "attention")) prepare_attention(b);
    if (is(s, "memory")) b->results.attention.output.data = &b->results; /* wanted; never written */
    if (is(s, "mha")) prepare_mha(b);
    if (is(s, "tiny")) prepare_tiny(b);
    if (is(s, "read")) limit_read_prepare();
}

/* The worked example as a beginner writes it: rows of up to 64 keys. Not inlined: like a library function,
 * it must not be specialised for the sizes of the call. */
static __attribute__((noinline)) void plain_loops(size_t n, size_t d, const float *q, const float *k, const float *v,
                                                  float scale, float *o) {
    float weights[64];
    for (size_t i = 0; i < n; i++) {
        float greatest = -INFINITY, sum = 0;
        for (size_t j = 0; j < n; j++) {
            weights[j] = 0;
            for (size_t c = 0; c < d; c++) weights[j] += q[i * d + c] * k[j * d + c];
            weights[j] *= scale;
            if (weights[j] > greatest) greatest = weights[j];
        }
        for (size_t j = 0; j < n; j++) sum += weights[j] = expf(weights[j] - greatest);
        for (size_t c = 0; c < d; c++) {
            o[i * d + c] = 0;
            for (size_t j = 0; j < n; j++) o[i * d + c] += weights[j] / sum * v[j * d + c];
        }
    }
}

static void read_part(void *arg, size_t item, size_t slot) {
    (void)arg;
    (void)slot;
    limit_read(item);
}

static void run(bench *b) {
    static float out[6];
    const spec *s = &b->spec;
    attn_status status = ATTN_OK;
    if (is(s, "attention") || is(s, "tiny"))
        status = attn_run(&b->engine, &b->mha.attention, &b->results.attention, b->workspace, NULL, NULL);
    else if (is(s, "mha"))
        status = attn_mha_run(&b->engine, &b->mha, &b->results, b->workspace, NULL, NULL);
    else if (is(s, "loop"))
        plain_loops(2, 3, tiny_q, tiny_k, tiny_v, 0.57735f, out);
    else if (is(s, "read"))
        attn_pool_for(b->engine.pool, READ_PARTS, read_part, NULL);
    else if (is(s, "blas"))
        limit_blas();
    else if (is(s, "xsmm"))
        limit_xsmm();
    if (status != ATTN_OK) {
        fprintf(stderr, "core_bench: status %d\n", (int)status);
        exit(1);
    }
    __asm__ volatile("" : : "r"(out), "r"(tiny_q), "r"(tiny_k), "r"(tiny_v) : "memory");
}

static double measure(bench *b) {
    if (is(&b->spec, "fma")) return limit_fma();
    if (is(&b->spec, "memory")) return (double)attn_workspace(&b->engine, &b->mha.attention, &b->results.attention);
    const double start = now();
    run(b);
    double seconds = now() - start;
    if (seconds >= SHORTEST) return seconds;
    const size_t count = (size_t)(SHORTEST / (seconds + 1e-8)) + 1;
    const double again = now();
    for (size_t i = 0; i < count; i++) run(b);
    return (now() - again) / (double)count;
}

static bool read_spec(char *line, spec *s) {
    *s = (spec){.heads = 1, .n_q = 1, .d = 64, .threads = 1, .window = -1};
    char *save = NULL, *word = strtok_r(line, " \n", &save);
    if (!word || strlen(word) >= sizeof s->work) return false;
    strcpy(s->work, word);
    while ((word = strtok_r(NULL, " \n", &save))) {
        char *equals = strchr(word, '=');
        if (!equals) return false;
        *equals = 0;
        const long value = strtol(equals + 1, NULL, 10);
        const size_t size = (size_t)value;
        const struct {
            const char *name;
            size_t *place;
        } sizes[] = {{"heads", &s->heads},     {"kv_heads", &s->kv_heads},
                     {"n_q", &s->n_q},         {"n_k", &s->n_k},
                     {"n", &s->n_q},           {"d", &s->d},
                     {"d_model", &s->d_model}, {"threads", &s->threads},
                     {"segment", &s->segment}};
        bool known = false;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (strcmp(word, sizes[i].name) == 0) *sizes[i].place = size, known = true;
        if (strcmp(word, "window") == 0) s->window = value, known = true;
        if (strcmp(word, "f64") == 0) s->f64 = value != 0, known = true;
        if (strcmp(word, "causal") == 0) s->causal = value != 0, known = true;
        if (strcmp(word, "weights") == 0) s->weights = value != 0, known = true;
        if (!known) return false;
    }
    if (s->kv_heads == 0) s->kv_heads = s->heads;
    if (s->n_k == 0) s->n_k = s->n_q;
    if (s->d_model != 0) s->d = s->d_model / s->heads;
    return true;
}

int main(void) {
    static bench b;
    char line[512], last[512] = "", copy[512];
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, last) != 0) {
            free_bench(&b);
            memcpy(copy, line, sizeof copy);
            if (!read_spec(copy, &b.spec)) {
                printf("error: %s", line);
                fflush(stdout);
                continue;
            }
            prepare(&b);
            measure(&b); /* the first run has cold caches and untouched pages */
            memcpy(last, line, sizeof last);
        }
        printf("%.9g\n", measure(&b));
        fflush(stdout);
    }
    free_bench(&b);
    return 0;
}
