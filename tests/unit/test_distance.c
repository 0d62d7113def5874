/* The edges of T5's buckets and the slopes of ALiBi. */
#include <math.h>

#include "../../core/attention.h"
#include "../support/check.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static size_t bucket_of(size_t side, const int64_t *edges, int64_t distance) {
    size_t bucket = 0;
    for (size_t b = 0; b < side; b++)
        if (edges[b] <= distance) bucket = b;
    return bucket;
}

/* as Hugging Face's T5 gives them for 32 buckets and 128 */
static void test_known_buckets(void) {
    static const struct {
        int64_t distance;
        size_t bidirectional, causal; /* of a key before its query */
    } rows[] = {{200, 15, 31}, {128, 15, 31}, {127, 15, 31}, {100, 15, 30}, {64, 14, 26}, {33, 12, 21}, {32, 12, 21},
                {20, 10, 17},  {16, 10, 16},  {15, 9, 15},   {9, 8, 9},     {8, 8, 8},    {7, 7, 7},    {0, 0, 0}};
    int64_t both[16], one[32];
    attn_relative_edges(16, 128, both);
    attn_relative_edges(32, 128, one);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const size_t b = bucket_of(16, both, rows[i].distance), c = bucket_of(32, one, rows[i].distance);
        CHECK(b == rows[i].bidirectional, "distance %lld: %zu of 16", (long long)rows[i].distance, b);
        CHECK(c == rows[i].causal, "distance %lld: %zu of 32", (long long)rows[i].distance, c);
    }
}

static unsigned __int128 power(uint64_t base, size_t exponent) {
    unsigned __int128 x = 1;
    for (size_t i = 0; i < exponent; i++) x *= base;
    return x;
}

/* Edge e + k is the least a with a^m >= max_distance^k e^(m - k), m = side - e, in integers. */
static void test_edges_in_integers(void) {
    for (size_t side = 1; side <= 14; side++)
        for (int64_t most = (int64_t)(side / 2) + 1; most < 700; most += most < 100 ? 1 : 7) {
            const size_t e = side / 2, m = side - e;
            int64_t edges[14];
            attn_relative_edges(side, most, edges);
            for (size_t b = 0; b < side; b++) {
                if (b <= e) {
                    CHECK(edges[b] == (int64_t)b, "%zu buckets: edge %zu is %lld", side, b, (long long)edges[b]);
                    continue;
                }
                const unsigned __int128 wanted = power((uint64_t)most, b - e) * power(e, m - (b - e));
                const bool reaches = power((uint64_t)edges[b], m) >= wanted;
                const bool before = power((uint64_t)edges[b] - 1, m) >= wanted;
                CHECK(reaches && !before, "%zu buckets up to %lld: edge %zu is %lld", side, (long long)most, b,
                      (long long)edges[b]);
            }
        }
}

/* 2 buckets a side up to 2^53, and powers that are whole */
static void test_far_edges(void) {
    int64_t edges[8];
    attn_relative_edges(2, INT64_C(1) << 53, edges);
    CHECK(edges[0] == 0 && edges[1] == 1, "%lld", (long long)edges[1]);
    attn_relative_edges(8, 4 * (INT64_C(1) << 40), edges);
    for (size_t k = 0; k < 4; k++)
        CHECK(edges[4 + k] == INT64_C(4) << 10 * k, "edge %zu: %lld", 4 + k, (long long)edges[4 + k]);
}

static void test_slopes(void) {
    double slopes[12];
    attn_alibi_slopes(8, slopes);
    for (size_t h = 0; h < 8; h++) CHECK(slopes[h] == ldexp(1, -(int)h - 1), "slope %zu of 8: %.17g", h, slopes[h]);
    attn_alibi_slopes(6, slopes);
    static const double six[] = {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};
    for (size_t h = 0; h < 6; h++) CHECK(slopes[h] == six[h], "slope %zu of 6: %.17g", h, slopes[h]);
    attn_alibi_slopes(12, slopes);
    CHECK(fabs(slopes[8] - sqrt(0.5)) < 1e-16 && fabs(slopes[11] - sqrt(0.5) / 8) < 1e-17, "%.17g", slopes[8]);
    attn_alibi_slopes(1, slopes);
    CHECK(slopes[0] == ldexp(1, -8), "%.17g", slopes[0]);
}

int main(int argc, char **argv) {
    const check_test tests[] = {CHECK_TEST(test_known_buckets), CHECK_TEST(test_edges_in_integers),
                                CHECK_TEST(test_far_edges), CHECK_TEST(test_slopes)};
    return check_main(argc, argv, tests, COUNT(tests));
}
