/* test_gradients.c: gradients of softmax attention against the oracle's, the same bits for any number of threads, and
 * rope's transpose. */
#include "../support/oracle_gradients.h"
#include "../support/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static attn_out_view room(bag *owner, const attn_problem *p, size_t heads, size_t n, size_t d) {
    const size_t bytes = p->batch * heads * n * d * attn_sizeof(p->dtype);
    void *data = bag_take(owner, bytes + 1); /* wanted, though it may have no number */
    memset(data, 0xff, bytes);
    return (attn_out_view){data, heads * n * d, n * d, d};
}

/* How many numbers stand behind bias: one past the last that a cell reads. */
static size_t bias_numbers(const attn_problem *p) {
    const attn_broadcast *b = &p->bias;
    if (!b->data || p->n_q == 0 || p->n_past + p->n_new == 0) return 0;
    return (p->batch - 1) * b->batch + (p->heads - 1) * b->head + (p->n_q - 1) * b->query +
           (p->n_past + p->n_new - 1) * b->key + 1;
}

static attn_gradients gradients_room(bag *owner, const attn_problem *p) {
    attn_gradients g = {.q = room(owner, p, p->heads, p->n_q, p->d_k),
                        .k = room(owner, p, p->kv_heads, p->n_new, p->d_k),
                        .v = room(owner, p, p->kv_heads, p->n_new, p->d_v),
                        .bias_count = bias_numbers(p)};
    if (p->k.batch == 0) g.k.batch = 0;
    if (p->v.batch == 0) g.v.batch = 0;
    const size_t rows = p->batch * p->heads * p->n_q;
    g.grad_output = (attn_view){numbers_random(owner, p->dtype, rows * p->d_v, 1), p->heads * p->n_q * p->d_v,
                                p->n_q * p->d_v, p->d_v};
    if (g.bias_count > 0) g.bias = bag_take(owner, g.bias_count * attn_sizeof(p->dtype));
    if (p->sinks) g.sinks = bag_take(owner, p->heads * attn_sizeof(p->dtype));
    return g;
}

static attn_status run(const attn_engine *engine, const attn_problem *p, const attn_gradients *g) {
    const size_t bytes = attn_gradients_workspace(engine, p, g);
    void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    const attn_status status = attn_gradients_run(engine, p, g, workspace, NULL);
    free(workspace);
    return status;
}

static void compare(const attn_problem *p, const char *name, const oracle_tensor *expected, const void *got) {
    oracle_report report;
    if (expected->count == 0) return;
    CHECK(oracle_compare(p->dtype, expected, got, &report), "%s of %s: %s", name, problem_text(p), report.text);
}

/* true if the gradients were computed; ATTN_OVERFLOW only for problems that hold numbers of great size */
static bool check_gradients(bag *owner, const attn_engine *engine, const attn_problem *p) {
    const attn_gradients g = gradients_room(owner, p);
    const attn_status status = run(engine, p, &g);
    if (status == ATTN_OVERFLOW) return false;
    CHECK(status == ATTN_OK, "%s: status %d", problem_text(p), status);
    oracle_gradients *o = oracle_gradients_new(p, g.grad_output.data, g.bias_count);
    if (!o->doubtful || !check_extended()) {
        compare(p, "q", &o->q, g.q.data);
        compare(p, "k", &o->k, g.k.data);
        compare(p, "v", &o->v, g.v.data);
        compare(p, "bias", &o->bias, g.bias);
        compare(p, "sinks", &o->sinks, g.sinks);
    }
    oracle_gradients_free(o);
    return true;
}

static void random_gradients(const problem_limits *limits, size_t rounds) {
    size_t done = 0, tried = 0;
    for (size_t i = 0; test_kernel(i); i++) {
        const attn_engine engine = {.kernel = test_kernel(i)};
        for (size_t round = 0; round < rounds; round++, tried++) {
            bag owner = {0};
            const attn_problem p = problem_random(&owner, round % 2 ? ATTN_F64 : ATTN_F32, limits);
            done += check_gradients(&owner, &engine, &p);
            bag_empty(&owner);
        }
    }
    CHECK(2 * done > tried, "%zu of %zu problems had gradients", done, tried);
}
static void test_small_problems(void) { random_gradients(&(problem_limits){2, 4, 9, 8}, check_rounds(300)); }
static void test_larger_problems(void) { random_gradients(&(problem_limits){2, 4, 150, 12}, check_rounds(40)); }

/* Plain problems are never refused, and their bounds are tight. */
static void test_plain_problems(void) {
    for (size_t i = 0; test_kernel(i); i++) {
        const attn_engine engine = {.kernel = test_kernel(i)};
        for (size_t round = 0; round < check_rounds(6); round++) {
            bag owner = {0};
            attn_problem p =
                problem_plain(&owner, round % 2 ? ATTN_F64 : ATTN_F32, 1, 4, 2, 1 + check_random_below(200),
                              1 + check_random_below(200), 1 + check_random_below(70), 1 + check_random_below(30));
            p.causal = check_random_below(2);
            CHECK(check_gradients(&owner, &engine, &p), "%s was refused", problem_text(&p));
            bag_empty(&owner);
        }
    }
}

static void test_threads_change_no_bit(void) {
    attn_pool *pool = attn_pool_new(3);
    const attn_engine alone = {.kernel = attn_kernel_find(NULL)}, many = {attn_kernel_find(NULL), pool};
    for (size_t round = 0; round < check_rounds(20); round++) {
        bag owner = {0};
        const attn_dtype dtype = round % 2 ? ATTN_F64 : ATTN_F32;
        attn_problem p = problem_plain(&owner, dtype, 1, 4, 2, 200, 300, 16, 16);
        p.bias = (attn_broadcast){numbers_random(&owner, dtype, 300, 1), 0, 0, 0, 1};
        p.sinks = numbers_random(&owner, dtype, 4, 1);
        const attn_gradients a = gradients_room(&owner, &p);
        attn_gradients b = gradients_room(&owner, &p);
        b.grad_output = a.grad_output;
        CHECK(run(&alone, &p, &a) == ATTN_OK && run(&many, &p, &b) == ATTN_OK, "a run failed");
        const size_t size = attn_sizeof(dtype), count = 2 * 300 * 16 * size;
        CHECK(memcmp(a.q.data, b.q.data, 4 * 200 * 16 * size) == 0, "q");
        CHECK(memcmp(a.k.data, b.k.data, count) == 0, "k");
        CHECK(memcmp(a.v.data, b.v.data, count) == 0, "v");
        CHECK(memcmp(a.bias, b.bias, 300 * size) == 0, "bias");
        CHECK(memcmp(a.sinks, b.sinks, 4 * size) == 0, "sinks");
        bag_empty(&owner);
    }
    attn_pool_free(pool);
}

/* Turned forward with the opposite positions: the transpose of a rotation. */
static void turned(const attn_engine *engine, const attn_problem *p, const attn_rope *rope, const int64_t *back,
                   attn_gradients *g, attn_results *r) {
    attn_problem q = *p;
    q.rope = rope;
    q.positions = q.key_positions = back;
    q.q = (attn_view){g->q.data, g->q.batch, g->q.head, g->q.row};
    q.k = (attn_view){g->k.data, g->k.batch, g->k.head, g->k.row};
    CHECK(run_problem(engine, &q, r, NULL, NULL) == ATTN_OK, "the rotation failed");
}

static void test_rope_turns_gradients_back(void) {
    enum { N = 40, D = 12 };
    for (size_t round = 0; round < check_rounds(20); round++) {
        bag owner = {0};
        const attn_engine engine = {.kernel = attn_kernel_find(NULL)};
        const attn_rope rope = {.theta = 100, .dim = 8, .interleaved = round % 2, .attention_factor = 1.25};
        attn_problem p = problem_plain(&owner, ATTN_F64, 2, 4, 2, N, N, D, 5);
        int64_t there[N], back[N];
        for (size_t i = 0; i < N; i++) back[i] = -(there[i] = (int64_t)check_random_below(1000));
        p.rope = &rope;
        p.positions = p.key_positions = there;
        p.causal = true;
        attn_results r = results_room(&owner, &p, WANT_OUTPUT), s = r;
        r.q_rotated = room(&owner, &p, 4, N, D).data;
        r.k_rotated = room(&owner, &p, 2, N, D).data;
        s.q_rotated = room(&owner, &p, 4, N, D).data;
        s.k_rotated = room(&owner, &p, 2, N, D).data;
        CHECK_FATAL(run_problem(&engine, &p, &r, NULL, NULL) == ATTN_OK, "the run failed");
        attn_problem plain = p;
        plain.rope = NULL;
        plain.positions = plain.key_positions = NULL;
        plain.q = (attn_view){r.q_rotated, 4 * N * D, N * D, D};
        plain.k = (attn_view){r.k_rotated, 2 * N * D, N * D, D};
        attn_gradients g = gradients_room(&owner, &p), h = gradients_room(&owner, &p);
        h.grad_output = g.grad_output;
        CHECK(run(&engine, &p, &g) == ATTN_OK && run(&engine, &plain, &h) == ATTN_OK, "a run failed");
        turned(&engine, &plain, &rope, back, &h, &s);
        for (size_t i = 0; i < 2 * 4 * N * D; i++)
            CHECK(fabs(((double *)g.q.data)[i] - ((double *)s.q_rotated)[i]) < 1e-13, "q, number %zu", i);
        for (size_t i = 0; i < 2 * 2 * N * D; i++)
            CHECK(fabs(((double *)g.k.data)[i] - ((double *)s.k_rotated)[i]) < 1e-13, "k, number %zu", i);
        bag_empty(&owner);
    }
}

int main(int argc, char **argv) {
    const check_test tests[] = {CHECK_TEST(test_small_problems), CHECK_TEST(test_larger_problems),
                                CHECK_TEST(test_plain_problems), CHECK_TEST(test_threads_change_no_bit),
                                CHECK_TEST(test_rope_turns_gradients_back)};
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
