/* check.h: a small test harness.
 *
 *     static void test_rows_sum_to_one(void) { CHECK(sum == 1, "row %zu sums to %g", i, sum); }
 *     int main(int argc, char **argv) { const check_test tests[] = {CHECK_TEST(test_rows_sum_to_one)}; return
 * check_main(argc, argv, tests, 1); }
 *
 * A program runs all its tests (or those whose name contains argv[1]), prints one line for each that fails, and a
 * closing line "NAME: N passed, N failed[, N skipped]"; its exit status is 1 if any failed. A test fails at its first
 * failed CHECK but goes on; CHECK_FATAL returns from the test.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct check_test {
    const char *name;
    void (*run)(void);
} check_test;
#define CHECK_TEST(function) \
    { #function, function }

int check_main(int argc, char **argv, const check_test *tests, size_t count);
/* Instead of check_main: skips all tests and prints the reason. Returns 0. */
int check_skip_all(char **argv, size_t count, const char *reason);
__attribute__((format(printf, 4, 5))) bool check_that(bool ok, const char *file, int line, const char *format, ...);
/* marks the running test as skipped, with the reason printed */
__attribute__((format(printf, 1, 2))) void check_skip(const char *format, ...);
/* Random numbers: seeded from CHECK_SEED, or afresh; the seed is printed if a test fails. */
unsigned long long check_random(void);   /* 64 uniform bits */
size_t check_random_below(size_t bound); /* uniform in [0, bound) */
double check_random_normal(void);        /* mean 0, deviation 1 */
/* How often to repeat something drawn at random: `usual`, or a twentieth if CHECK_QUICK=1, which is for
 * emulated machines. */
size_t check_rounds(size_t usual);
/* Whether long double is wider than double here, so that it can judge numbers of double to the last bits. Under
 * valgrind it is not, and expl(-INFINITY) is NaN there. */
bool check_extended(void);

#define CHECK(condition, ...) check_that((condition), __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_FATAL(condition, ...)                                            \
    do {                                                                       \
        if (!check_that((condition), __FILE__, __LINE__, __VA_ARGS__)) return; \
    } while (0)

#endif
