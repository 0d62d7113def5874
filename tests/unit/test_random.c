/* Random tensors: known numbers, their distribution, and that no way of making them changes a bit. */
#include "../../api/numbers/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/exchange.h"

static void test_bits_are_those_of_splitmix64(void) {
    static const uint64_t first[] = {0xE220A8397B1DCDAFu, 0x6E789E6AA1B965F4u, 0x06C45D188009454Fu}; /* of the seed 0 */
    for (size_t i = 0; i < 3; i++) {
        const uint64_t bits = api_random_bits(0, i);
        CHECK(bits == first[i], "number %zu: %llx", i, (unsigned long long)bits);
    }
}

/* What Python's statistics.NormalDist().inv_cdf gives: in the middle, outside, and far outside */
static void test_normal_numbers_are_known(void) {
    static const struct {
        uint64_t seed, index;
        double x;
    } known[] = {
        {42, 0, 0.648177361328852},     {42, 1, -0.9948262318051991},   {42, 2, -0.5870021533389611},
        {0, 2, -1.936001288274359},     {7, 216121, 5.171554873316149}, {7, 374544, -5.1268666170670345},
        {7, 744840, 4.618171413605558},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const double x = api_random_normal(known[i].seed, known[i].index);
        CHECK(fabs(x - known[i].x) <= 1e-14 * fabs(known[i].x), "%zu: %.17g", i, x);
    }
    CHECK(api_random_uniform(42, 0) == 0.7415648787718233, "%.17g", api_random_uniform(42, 0));
}

static void test_moments_are_right(void) {
    enum { N = 100000 };
    double sum = 0, squares = 0, fourth = 0, uniform = 0;
    for (size_t i = 0; i < N; i++) {
        const double x = api_random_normal(1, i), u = api_random_uniform(2, i);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        uniform += u;
        CHECK(u >= 0 && u < 1, "%g", u);
    }
    CHECK(fabs(sum / N) < 0.01, "mean %g", sum / N);
    CHECK(fabs(squares / N - 1) < 0.02, "variance %g", squares / N);
    CHECK(fabs(fourth / N - 3) < 0.15, "fourth moment %g", fourth / N);
    CHECK(fabs(uniform / N - 0.5) < 0.005, "mean %g", uniform / N);
}

static void test_pieces_have_the_bits_of_the_whole(void) {
    enum { N = 1000 };
    static double whole[N], pieces[N];
    static float rounded[N];
    api_random_fill(API_NORMAL, 3, 0, N, API_F64, whole);
    api_random_fill(API_NORMAL, 3, 0, 77, API_F64, pieces);
    api_random_fill(API_NORMAL, 3, 77, N, API_F64, pieces + 77);
    CHECK(memcmp(whole, pieces, sizeof whole) == 0, "pieces differ");
    api_random_fill(API_NORMAL, 3, 0, N, API_F32, rounded);
    for (size_t i = 0; i < N; i++) CHECK(rounded[i] == (float)whole[i], "%zu: %g", i, (double)rounded[i]);
}

/* Large tensors are made when the job runs, small ones when it is read. One key: the output is v. */
static void test_large_and_small_tensors_agree(void) {
    exchange_headers none = {{NULL}};
    for (int large = 0; large < 2; large++) {
        const int n = large ? 17000 : 5;
        char body[200];
        snprintf(body, sizeof body,
                 "{'q':[[1]],'k':[[1]],'v':{'shape':[1,%d],'random':'normal','seed':9},'dtype':'float64'}", n);
        char *quoted = exchange_quoted(body);
        exchange answer = exchange_send("POST", "/attention", none, quoted);
        CHECK(answer.status == 200, "%s", answer.body);
        const json_t *row = json_array_get(json_object_get(answer.json, "output"), 0);
        CHECK(json_array_size(row) == (size_t)n, "%zu numbers", json_array_size(row));
        for (int i = 0; i < n; i += large ? 997 : 1) {
            const double x = json_number_value(json_array_get(row, (size_t)i));
            CHECK(x == api_random_normal(9, (uint64_t)i), "%d: %.17g", i, x);
        }
        exchange_free(&answer);
        free(quoted);
    }
}

static void test_what_has_no_numbers(void) {
    expect_reply("/attention", "{'q':{'shape':[0,1],'random':'normal','seed':1},'k':[[1]],'v':[[1]]}", "{'output':[]}");
    expect_error("/attention", "{'q':{'shape':[9007199254740992,9],'random':'normal','seed':1},'k':[[1]],'v':[[1]]}",
                 422, "out_of_range", "/q/shape", "2^53");
    expect_error("/attention", "{'q':{'shape':[100000000,1],'random':'normal','seed':1},'k':[[1]],'v':[[1]]}", 422,
                 "out_of_range", NULL, "may hold");
}

int main(int argc, char **argv) {
    exchange_init();
    const check_test tests[] = {
        CHECK_TEST(test_bits_are_those_of_splitmix64),
        CHECK_TEST(test_normal_numbers_are_known),
        CHECK_TEST(test_moments_are_right),
        CHECK_TEST(test_pieces_have_the_bits_of_the_whole),
        CHECK_TEST(test_large_and_small_tensors_agree),
        CHECK_TEST(test_what_has_no_numbers),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
