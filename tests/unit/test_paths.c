/* test_paths.c: which path a problem takes: none that has not heard of all its options; and that a kernel row of two
 * functions is a whole one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/engine/kernel.h"
#include "../../core/softmax/plan.h"
#include "../../core/softmax/softmax.h"
#include "../support/check.h"
#include "../support/oracle.h"
#include "../support/problem.h"

#define UNKNOWN ((attn_features)1 << 31) /* an option that core/ has not heard of */
_Static_assert(ATTN_FEATURE_COUNT < 31, "the unknown bit is unknown");

static void each(void (*body)(const attn_engine *engine, attn_dtype dtype)) {
    for (size_t i = 0; test_kernel(i); i++) {
        const attn_engine engine = {.kernel = test_kernel(i)};
        body(&engine, ATTN_F32);
        body(&engine, ATTN_F64);
    }
}

static void check_output(const attn_problem *p, const attn_results *r, const char *what) {
    oracle *o = oracle_attention(p, r);
    oracle_report report;
    CHECK(oracle_compare(p->dtype, &o->output, r->output.data, &report), "%s: %s, %s", what, problem_text(p),
          report.text);
    oracle_free(o);
}

/* Runs p with `features`; true if the workspace was touched, which the path for small problems never does. */
static bool uses_tiles(const attn_engine *engine, const attn_problem *p, attn_features features) {
    bag owner = {0};
    const attn_results r = results_room(&owner, p, WANT_OUTPUT);
    const size_t bytes = attn_softmax_workspace(engine, p, features, &r);
    unsigned char *workspace = aligned_alloc(64, bytes + 64 - bytes % 64);
    if (!workspace) abort();
    memset(workspace, 0xa5, bytes);
    CHECK(attn_softmax_run(engine, p, features, &r, workspace, NULL, NULL) == ATTN_OK, "%s", problem_text(p));
    check_output(p, &r, "by some path");
    bool touched = false;
    for (size_t i = 0; i < bytes; i++) touched |= workspace[i] != 0xa5;
    free(workspace);
    bag_empty(&owner);
    return touched;
}

static void small_path(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    attn_problem p = problem_plain(&owner, dtype, 2, 2, 1, 3, 4, 3, 2);
    p.causal = true;
    const attn_features features = attn_features_of(&p);
    CHECK(features == ATTN_HAS_CAUSAL, "causal alone is %x", features);
    CHECK(!uses_tiles(engine, &p, features), "%s: a small problem went the general way", problem_text(&p));
    CHECK(uses_tiles(engine, &p, features | UNKNOWN), "%s: a path took an option that it has not heard of",
          problem_text(&p));
    bag_empty(&owner);
}
static void test_small_path_refuses_unknown_options(void) { each(small_path); }

static void fast_ways_of_tiles(const attn_engine *engine, attn_dtype dtype) {
    bag owner = {0};
    const attn_problem p = problem_plain(&owner, dtype, 1, 2, 1, 1, 700, 16, 16);
    const attn_results r = results_room(&owner, &p, WANT_OUTPUT);
    attn_plan plan;
    attn_plan_init(&plan, engine, &p, &r, 0);
    CHECK(plan.in_place && plan.direct, "a plain problem of one query");
    attn_plan_init(&plan, engine, &p, &r, UNKNOWN);
    CHECK(!plan.in_place && !plan.direct, "an option that they have not heard of");
    CHECK(uses_tiles(engine, &p, UNKNOWN), "the general way");
    bag_empty(&owner);
}
static void test_fast_ways_of_tiles_refuse_unknown_options(void) { each(fast_ways_of_tiles); }

/* Each option sets its own bit, so that no path can miss one. */
static void test_every_option_is_a_feature(void) {
    static const float number = 0;
    static const uint8_t byte = 1;
    static const int64_t integer = 1;
    static const attn_pattern pattern = {.dilation = &integer};
    static const attn_segments segments = {.of_query = &integer};
    const attn_problem problems[] = {{.n_past = 1},
                                     {.mask.data = &byte},
                                     {.bias.data = &number},
                                     {.kv_lengths = &integer},
                                     {.query_offset = &integer},
                                     {.causal = true},
                                     {.has_window = true},
                                     {.softcap = 1},
                                     {.key_mask = &byte},
                                     {.segments = &segments},
                                     {.pattern = &pattern},
                                     {.sinks = &number},
                                     {.head_scales = &number},
                                     {.alibi = &number}};
    attn_features all = 0;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        const attn_features features = attn_features_of(&problems[i]);
        CHECK(features != 0 && (features & (features - 1)) == 0 && (features & all) == 0, "option %zu sets %x", i,
              features);
        all |= features;
    }
    CHECK(all == (1U << ATTN_FEATURE_COUNT) - 1, "an option without a test: %x", all);
}

/* ---- a row of two functions ------------------------------------------------------------------------------------- */

static atomic_size_t calls;

static void own_row_max(size_t rows, size_t n, const float *s, float *max) {
    const size_t stride = attn_kernel_find("portable")->f32.tile_k;
    atomic_fetch_add(&calls, 1);
    for (size_t i = 0; i < rows; i++) {
        max[i] = s[i * stride];
        for (size_t j = 1; j < n; j++) max[i] = s[i * stride + j] > max[i] ? s[i * stride + j] : max[i];
    }
}

static void own_finish(size_t n, const double *o, const double *lost, double sum, double *out) {
    atomic_fetch_add(&calls, 1);
    for (size_t c = 0; c < n; c++) out[c] = (o[c] - lost[c]) / sum;
}

static bool on_every_cpu(void) { return true; }

static void test_partial_row_is_whole(void) {
    static atomic_uint_least64_t tiles;
    const attn_kernel partial = {.name = "partial",
                                 .supported = on_every_cpu,
                                 .f32 = attn_ops_filled_f32(&(attn_ops_f32){.row_max = own_row_max}),
                                 .f64 = attn_ops_filled_f64(&(attn_ops_f64){.finish = own_finish}),
                                 .tiles = &tiles};
    const attn_engine engine = {.kernel = &partial};
    for (size_t i = 0; i < 40; i++) {
        bag owner = {0};
        const attn_dtype dtype = i % 2 ? ATTN_F32 : ATTN_F64;
        const size_t before = atomic_load(&calls);
        const attn_problem p = problem_random(&owner, dtype, &(problem_limits){2, 4, 200, 40});
        check_problem(&engine, &p, WANT_ALL, NULL);
        const attn_problem plain = problem_plain(&owner, dtype, 1, 1, 1, 20, 150, 4, 4);
        check_problem(&engine, &plain, WANT_OUTPUT, NULL);
        CHECK(atomic_load(&calls) > before, "the row's own function was not called");
        bag_empty(&owner);
    }
}

static void test_filled_row_keeps_what_it_has(void) {
    const attn_kernel *portable = attn_kernel_find("portable");
    for (size_t i = 0; attn_kernel_at(i); i++) {
        const attn_kernel *row = attn_kernel_at(i);
        const attn_ops_f32 again = attn_ops_filled_f32(&row->f32), nothing = attn_ops_filled_f32(&(attn_ops_f32){0});
        CHECK(memcmp(&again, &row->f32, sizeof again) == 0, "%s: a whole row was changed", row->name);
        CHECK(memcmp(&nothing, &portable->f32, sizeof nothing) == 0, "an empty row is not the portable one");
    }
}

/* ---- the table of calculations ---------------------------------------------------------------------------------- */

static void test_every_kind_has_a_row(void) {
    CHECK(strcmp(attn_kind_name(ATTN_SOFTMAX), "softmax") == 0, "kind 0 is %s", attn_kind_name(ATTN_SOFTMAX));
    size_t count = 0;
    while (attn_kind_name(count)) count++;
    bag owner = {0};
    for (size_t kind = 0; kind < count; kind++) {
        attn_problem p = problem_plain(&owner, ATTN_F32, 1, 1, 1, 2, 3, 4, 5);
        const float ones[3] = {1, 1, 1};
        const attn_linear linear = {0};
        const attn_linformer linformer = {.keys = 1, .e = ones, .f = ones};
        const attn_differential differential = {.q_2 = p.q, .k_2 = p.k, .lambda = ones};
        p.kind = (attn_kind)kind;
        if (p.kind == ATTN_LINEAR) p.linear = &linear;
        if (p.kind == ATTN_LINFORMER) p.linformer = &linformer;
        if (p.kind == ATTN_DIFFERENTIAL) p.differential = &differential;
        const attn_results r = results_room(&owner, &p, WANT_OUTPUT);
        const attn_engine engine = {.kernel = test_kernel(0)};
        CHECK(attn_flops(&p) > 0 && attn_workspace(&engine, &p, &r) < SIZE_MAX, "%s", attn_kind_name(kind));
        CHECK(run_problem(&engine, &p, &r, NULL, NULL) == ATTN_OK, "%s", attn_kind_name(kind));
    }
    bag_empty(&owner);
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_small_path_refuses_unknown_options), CHECK_TEST(test_fast_ways_of_tiles_refuse_unknown_options),
        CHECK_TEST(test_every_option_is_a_feature),          CHECK_TEST(test_partial_row_is_whole),
        CHECK_TEST(test_filled_row_keeps_what_it_has),       CHECK_TEST(test_every_kind_has_a_row),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
