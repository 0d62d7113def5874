/* GET /estimate: what an attention of some size costs (docs/api.md), from its options in the query string. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../fields/option_text.h"
#include "info.h"

typedef struct sizes {
    double n, n_k, d_k, d_v, heads, kv_heads, batch, d_model, left, right; /* sides: -1 is open */
    bool causal;
    api_dtype dtype;
} sizes;

/* ---- options ---------------------------------------------------------------------------------------------------- */

enum { N, N_K, D_K, D_V, HEADS, KV_HEADS, BATCH, D_MODEL, CAUSAL, WINDOW_LEFT, WINDOW_RIGHT, DTYPE };

static void set_causal(api_form *form, api_field field, void *state) {
    api_form_bool(form, field, &((sizes *)state)->causal);
}

static void set_dtype(api_form *form, api_field field, void *state) {
    static const char *const names[] = {"F64", "F32", "F16", "BF16"};
    size_t choice;
    if (api_form_choice(form, field, names, 4, &choice)) ((sizes *)state)->dtype = (api_dtype)(API_F64 + choice);
}

static const api_field_row rows[] = {
    [N] = {"n", API_INTEGER, 0, 0, 0, NULL},
    [N_K] = {"n_k", API_INTEGER, 0, 0, 0, NULL},
    [D_K] = {"d_k", API_INTEGER, 0, 0, 0, NULL},
    [D_V] = {"d_v", API_INTEGER, 0, 0, 0, NULL},
    [HEADS] = {"heads", API_INTEGER, 0, 0, 0, NULL},
    [KV_HEADS] = {"kv_heads", API_INTEGER, 0, 0, 0, NULL},
    [BATCH] = {"batch", API_INTEGER, 0, 0, 0, NULL},
    [D_MODEL] = {"d_model", API_INTEGER, 0, 0, 0, NULL},
    [CAUSAL] = {"causal", API_BOOLEAN, 0, 0, 0, set_causal},
    [WINDOW_LEFT] = {"window_left", API_INTEGER, 0, 0, 0, NULL},
    [WINDOW_RIGHT] = {"window_right", API_INTEGER, 0, 0, 0, NULL},
    [DTYPE] = {"dtype", API_WORD, 0, 0, 0, set_dtype},
};
static const api_field_table table = API_TABLE(rows);
static const api_schema schema = {"estimate", {&table}, {NULL}};

/* Sizes up to 2^31 keep every product of the reply far from the end of a double. */
static double read_size(api_form *form, api_field field, double least, double usual) {
    int64_t x;
    if (!api_form_has(form, field) || !api_form_integer(form, field, &x)) return usual;
    if ((double)x < least || x > INT64_C(1) << 31)
        api_form_fault(form, field, API_OUT_OF_RANGE, "expected an integer from %.0f to 2^31, got %lld", least,
                       (long long)x);
    return (double)x;
}

static void read_sizes(api_form *form, sizes *s) {
    *s = (sizes){.dtype = API_F16};
    s->n = read_size(form, N, 1, 4096);
    s->n_k = read_size(form, N_K, 1, s->n);
    s->d_k = read_size(form, D_K, 1, 64);
    s->d_v = read_size(form, D_V, 1, s->d_k);
    s->heads = read_size(form, HEADS, 1, 1);
    s->kv_heads = read_size(form, KV_HEADS, 1, s->heads);
    s->batch = read_size(form, BATCH, 1, 1);
    s->d_model = read_size(form, D_MODEL, 1, s->heads * s->d_k);
    s->left = read_size(form, WINDOW_LEFT, -1, -1);
    s->right = read_size(form, WINDOW_RIGHT, -1, -1);
    api_form_set(form, &table, s);
    if (!form->broken && fmod(s->heads, s->kv_heads) != 0)
        api_form_fault(form, api_form_has(form, KV_HEADS) ? KV_HEADS : HEADS, API_OUT_OF_RANGE,
                       "expected kv_heads to divide heads: %.0f and %.0f", s->kv_heads, s->heads);
}

/* false: an error was set */
static bool read_query(api_request *request, sizes *s) {
    api_reader *reader = api_reader_new(&request->memory, 0);
    if (!reader) {
        api_error_memory(&request->error, &request->memory);
        return false;
    }
    api_reader_push(reader, "{}", 2);
    json_t *root = api_reader_finish(reader, &request->error);
    api_form form = {.schema = &schema,
                     .memory = &request->memory,
                     .reader = reader,
                     .error = &request->error,
                     .query = request->body.query};
    if (root) {
        api_form_bind(&form, root);
        if (!form.broken) api_query_read(&form, root);
        if (!form.broken) read_sizes(&form, s);
    }
    json_decref(root);
    api_query_locate(&request->error);
    return root && request->error.code == API_NO_ERROR;
}

/* ---- counting --------------------------------------------------------------------------------------------------- */

/* The sum over i = 0 ... n - 1 of i + c, at least 0 and at most `most` */
static double capped_sum(double n, double c, double most) {
    const double first = c < 0 ? fmin(n, -c) : 0;                             /* from here on the term is above 0 */
    const double full = fmin(n, fmax(first, most - c)), count = full - first; /* and from here on it is `most` */
    return count * (first + c) + count * (count - 1) / 2 + (n - full) * most;
}

/* Pairs of a query and a key that causal and the window leave open, of one head */
static double open_pairs(const sizes *s) {
    double right = s->right;
    if (s->causal) right = 0;
    const double ends = right < 0 ? s->n * s->n_k : capped_sum(s->n, right + 1, s->n_k);
    return ends - (s->left < 0 ? 0 : capped_sum(s->n, -s->left, s->n_k));
}

static double all_pairs(const sizes *s) { return s->batch * s->heads * open_pairs(s); }

static sizes doubled(const sizes *s) {
    sizes twice = *s;
    if (twice.n_k == twice.n) twice.n_k *= 2;
    twice.n *= 2;
    return twice;
}

/* Bytes beside inputs and output that this service works in */
static size_t workspace(const attn_engine *engine, const sizes *s) {
    static double somewhere;
    const attn_view view = {&somewhere, 0, 0, 0};
    attn_problem p = {.dtype = s->dtype == API_F64 ? ATTN_F64 : ATTN_F32,
                      .batch = (size_t)s->batch,
                      .heads = (size_t)s->heads,
                      .kv_heads = (size_t)s->kv_heads,
                      .n_q = (size_t)s->n,
                      .n_new = (size_t)s->n_k,
                      .d_k = (size_t)s->d_k,
                      .d_v = (size_t)s->d_v,
                      .q = view,
                      .k = view,
                      .v = view,
                      .scale = 1,
                      .causal = s->causal,
                      .has_window = s->left >= 0 || s->right >= 0,
                      .window_left = (int64_t)s->left,
                      .window_right = (int64_t)s->right};
    const attn_results results = {.output = {&somewhere, 0, 0, 0}};
    return attn_workspace(engine, &p, &results);
}

/* ---- this machine ----------------------------------------------------------------------------------------------- */

enum { TRIAL_HEADS = 2, TRIAL_N = 512, TRIAL_D = 64, TRIALS = 3 };

/* Seconds of one attention of the trial's size; the least of some. NAN: no memory */
static double time_trial(api_request *request, attn_dtype dtype) {
    const attn_engine *engine = &request->service->engine;
    const size_t numbers = (size_t)TRIAL_HEADS * TRIAL_N * TRIAL_D, size = attn_sizeof(dtype);
    char *data = api_large(&request->memory, 2 * numbers * size);
    const attn_view view = {data, numbers, (size_t)TRIAL_N * TRIAL_D, TRIAL_D};
    const attn_problem p = {.dtype = dtype,
                            .batch = 1,
                            .heads = TRIAL_HEADS,
                            .kv_heads = TRIAL_HEADS,
                            .n_q = TRIAL_N,
                            .n_new = TRIAL_N,
                            .d_k = TRIAL_D,
                            .d_v = TRIAL_D,
                            .q = view,
                            .k = view,
                            .v = view,
                            .scale = 0.125};
    const attn_results results = {
        .output = {data ? data + numbers * size : NULL, numbers, (size_t)TRIAL_N * TRIAL_D, TRIAL_D}};
    char *scratch = data ? api_large(&request->memory, attn_workspace(engine, &p, &results)) : NULL;
    double least = scratch ? HUGE_VAL : NAN;
    atomic_bool cancel = false;
    attn_fault fault;
    if (data) memset(data, 0, numbers * size);
    for (int i = 0; scratch && i < TRIALS; i++) {
        const double start = api_now();
        attn_run(engine, &p, &results, scratch, &cancel, &fault);
        least = fmin(least, api_now() - start);
    }
    if (scratch) api_release(&request->memory, scratch);
    if (data) api_release(&request->memory, data);
    return least;
}

/* Multiply-adds a second of the type's arithmetic, measured once. 0: no memory */
static double measured_rate(api_request *request, attn_dtype dtype) {
    static _Atomic double rates[2];
    double rate = atomic_load(&rates[dtype]);
    if (rate > 0) return rate;
    const double seconds = time_trial(request, dtype);
    if (!(seconds > 0)) return 0;
    rate = 2.0 * TRIAL_HEADS * TRIAL_N * TRIAL_N * TRIAL_D / seconds;
    atomic_store(&rates[dtype], rate);
    return rate;
}

/* ---- the reply -------------------------------------------------------------------------------------------------- */

static json_t *layers(void) {
    return json_pack(
        "{s:{s:s,s:s,s:s,s:f,s:f},s:{s:s,s:s,s:s,s:f,s:f},s:{s:s,s:s,s:s,s:f,s:f},s:{s:s,s:s,s:s,s:f,s:f}}",
        "self_attention", "work", "n^2 d", "sequential_steps", "1", "longest_path", "1", "n_doubled", 4.0, "d_doubled",
        2.0, "linear_attention", "work", "n d^2", "sequential_steps", "1", "longest_path", "1", "n_doubled", 2.0,
        "d_doubled", 4.0, "rnn", "work", "n d^2", "sequential_steps", "n", "longest_path", "n", "n_doubled", 2.0,
        "d_doubled", 4.0, "cnn", "work", "k n d^2", "sequential_steps", "1", "longest_path", "log_k n", "n_doubled",
        2.0, "d_doubled", 4.0);
}

static json_t *count(double x) { return x < 0x1p53 ? json_integer((json_int_t)x) : json_real(x); }

static json_t *document(api_request *request, const sizes *s) {
    const double width = (double)api_dtype_size(s->dtype), cells = all_pairs(s);
    const double q = s->batch * s->n * s->heads * s->d_k, kv = s->batch * s->n_k * s->kv_heads * (s->d_k + s->d_v);
    const double adds = cells * (s->d_k + s->d_v);
    const sizes twice = doubled(s);
    const attn_dtype dtype = s->dtype == API_F64 ? ATTN_F64 : ATTN_F32;
    const double rate = measured_rate(request, dtype);
    const size_t slots = attn_pool_slots(request->service->engine.pool);
    const json_int_t threads = slots > 1 ? (json_int_t)slots - 1 : 1;
    if (rate == 0) return NULL;
    return json_pack(
        "{s:{s:o,s:o,s:o,s:o},s:o,s:o,s:{s:o,s:o,s:o},s:f,s:{s:i,s:i,s:i,s:s,s:s,s:I,s:f},s:f,s:o}", "multiply_adds",
        "projections", count((q + kv) * s->d_model), "scores", count(cells * s->d_k), "output", count(cells * s->d_v),
        "output_projection", count(s->batch * s->n * s->heads * s->d_v * s->d_model), "softmax_elements", count(cells),
        "open_cells", count(cells), "bytes", "weights_materialized", count(s->batch * s->heads * s->n * s->n_k * width),
        "fused_workspace", count((double)workspace(&request->service->engine, s)), "kv_cache", count(kv * width),
        "seconds", adds / rate, "measured_on", "heads", TRIAL_HEADS, "n", TRIAL_N, "d", TRIAL_D, "dtype",
        dtype == ATTN_F64 ? "F64" : "F32", "kernel", attn_kernel_name(request->service->engine.kernel), "threads",
        threads, "multiply_adds_per_second", rate, "growth", all_pairs(&twice) / all_pairs(s), "layers", layers());
}

void api_estimate_begin(api_request *request, const api_head *head) { api_keep_query(request, head); }

void api_answer_estimate(api_request *request) {
    sizes s;
    if (!read_query(request, &s)) return;
    json_t *json = document(request, &s);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    char *kept = text ? api_keep(request, text) : NULL;
    json_decref(json);
    free(text);
    if (kept)
        api_answer(request, kept, strlen(kept));
    else
        api_error_memory(&request->error, &request->memory);
}
