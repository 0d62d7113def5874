/* Which keys are open: spans, tiles, keys and queries against the contract, cell by cell. */
#include "../../core/softmax/blocks.h"
#include "../support/problem.h"

#include <stdlib.h>

static const problem_limits limits = {.batch = 2, .heads = 4, .n = 40, .d = 3};
enum { ROUNDS = 400 };

static size_t keys_of(const attn_problem *problem) { return problem->n_past + problem->n_new; }

static void test_spans(void) {
    for (int round = 0; round < ROUNDS; round++) {
        bag owner = {0};
        attn_problem problem = problem_random(&owner, ATTN_F32, &limits);
        problem.mask.data = problem.bias.data = NULL;
        problem.key_mask = NULL;
        problem.pattern = NULL;
        if (problem.segments != NULL && problem.segments->gaps) problem.segments = NULL;
        for (size_t b = 0; b < problem.batch && problem.heads > 0; b++) {
            for (size_t i = 0; i < problem.n_q; i++) {
                attn_span span = attn_query_span(&problem, b, i);
                for (size_t j = 0; j < keys_of(&problem); j++) {
                    bool open = span.lo <= j && j < span.hi;
                    CHECK(open == oracle_open(&problem, b, 0, i, j), "%s: query %zu key %zu: open is %d",
                          problem_text(&problem), i, j, open);
                }
            }
        }
        bag_empty(&owner);
    }
}

static void test_open_keys_and_queries(void) {
    for (int round = 0; round < ROUNDS; round++) {
        bag owner = {0};
        attn_problem problem = problem_random(&owner, round % 2 ? ATTN_F32 : ATTN_F64, &limits);
        size_t n_k = keys_of(&problem), group = problem.kv_heads > 0 ? problem.heads / problem.kv_heads : 0;
        uint8_t *open = bag_take(&owner, n_k + 1), *wanted = bag_take(&owner, n_k + 1);
        for (size_t pair = 0; pair < problem.batch * problem.kv_heads; pair++) {
            size_t b = pair / problem.kv_heads, kv_head = pair % problem.kv_heads;
            for (size_t j = 0; j < n_k; j++) wanted[j] = 0;
            for (size_t row = 0; row < group * problem.n_q; row++) {
                size_t head = kv_head * group + row / problem.n_q, query = row % problem.n_q;
                bool any = false;
                for (size_t j = 0; j < n_k; j++) {
                    bool cell = oracle_open(&problem, b, head, query, j);
                    any = any || cell;
                    if (cell) wanted[j] = 1;
                }
                CHECK(attn_query_is_open(&problem, b, head, query) == any, "%s: head %zu query %zu should be %d",
                      problem_text(&problem), head, query, any);
            }
            attn_open_keys(&problem, b, kv_head, open);
            for (size_t j = 0; j < n_k; j++) {
                CHECK(open[j] == wanted[j], "%s: key %zu is %d", problem_text(&problem), j, open[j]);
            }
        }
        bag_empty(&owner);
    }
}

/* The rows heads x queries of a random place, at most 5 x 9. */
static attn_rows random_rows(const attn_problem *problem) {
    size_t group = problem->heads / problem->kv_heads;
    attn_rows rows = {.batch = check_random_below(problem->batch), .kv_head = check_random_below(problem->kv_heads)};
    size_t head = check_random_below(group);
    rows.head = rows.kv_head * group + head;
    rows.heads = 1 + check_random_below(group - head);
    rows.query = check_random_below(problem->n_q);
    rows.queries = 1 + check_random_below(problem->n_q - rows.query);
    attn_rows_spans(problem, &rows);
    return rows;
}

static void test_tiles(void) {
    size_t seen[3] = {0};
    for (int round = 0; round < 5 * ROUNDS; round++) {
        bag owner = {0};
        attn_problem problem = problem_random(&owner, round % 2 ? ATTN_F32 : ATTN_F64, &limits);
        bool empty = problem.batch == 0 || problem.heads == 0 || problem.n_q == 0 || keys_of(&problem) == 0;
        if (!empty) {
            attn_rows rows = random_rows(&problem);
            size_t key = check_random_below(keys_of(&problem)), count = 1 + check_random_below(keys_of(&problem) - key);
            size_t open = 0, cells = rows.heads * rows.queries * count;
            for (size_t cell = 0; cell < cells; cell++) {
                size_t row = cell / count;
                open += oracle_open(&problem, rows.batch, rows.head + row / rows.queries,
                                    rows.query + row % rows.queries, key + cell % count);
            }
            attn_tile_kind kind = attn_tile_classify(&problem, &rows, key, count);
            bool cells_count = problem.mask.data != NULL || problem.pattern != NULL || problem.bias.data != NULL ||
                               (problem.segments != NULL && problem.segments->gaps);
            CHECK((kind == ATTN_TILE_BLOCKED) == (open == 0), "%s: kind %d with %zu of %zu open",
                  problem_text(&problem), (int)kind, open, cells);
            CHECK(kind != ATTN_TILE_OPEN || open == cells, "%s: open with %zu of %zu", problem_text(&problem), open,
                  cells);
            CHECK(kind != ATTN_TILE_MIXED || cells_count || open < cells, "%s: mixed, yet all are open",
                  problem_text(&problem));
            seen[kind]++;
        }
        bag_empty(&owner);
    }
    CHECK(seen[0] > 0 && seen[1] > 0 && seen[2] > 0, "some kind never came: %zu, %zu, %zu", seen[0], seen[1], seen[2]);
}

/* Windows and positions at the ends of their ranges must not wrap around. */
static void test_far_positions(void) {
    const int64_t far = (int64_t)1 << 53;
    const int64_t offsets[] = {-far, -1, 0, 1, far};
    const int64_t sides[] = {ATTN_OPEN_SIDE, 0, 1, far, INT64_MAX};
    for (size_t c = 0; c < 5 * 5 * 5 * 2; c++) {
        bag owner = {0};
        attn_problem problem = problem_plain(&owner, ATTN_F32, 1, 1, 1, 3, 5, 1, 1);
        int64_t offset = offsets[c % 5];
        problem.query_offset = &offset;
        problem.has_window = true;
        problem.window_left = sides[c / 5 % 5];
        problem.window_right = sides[c / 25 % 5];
        problem.causal = c / 125 != 0;
        for (size_t i = 0; i < 3; i++) {
            attn_span span = attn_query_span(&problem, 0, i);
            for (size_t j = 0; j < 5; j++) {
                __int128 p = (__int128)i + offset, at = (__int128)j;
                bool open = (!problem.causal || at <= p) &&
                            (problem.window_left == ATTN_OPEN_SIDE || at >= p - problem.window_left) &&
                            (problem.window_right == ATTN_OPEN_SIDE || at <= p + problem.window_right);
                CHECK((span.lo <= j && j < span.hi) == open, "case %zu: query %zu key %zu should be %d", c, i, j, open);
            }
        }
        bag_empty(&owner);
    }
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_spans),
        CHECK_TEST(test_open_keys_and_queries),
        CHECK_TEST(test_tiles),
        CHECK_TEST(test_far_positions),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
