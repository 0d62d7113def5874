#include "check.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *running;
static unsigned failures, skips;
static unsigned long long seed, state;

static unsigned long long mix(unsigned long long x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

unsigned long long check_random(void) { return mix(state += 0x9e3779b97f4a7c15ULL); }

size_t check_random_below(size_t bound) { return (size_t)(check_random() % bound); }

double check_random_normal(void) {
    const double u = ((double)(check_random() >> 11) + 0.5) * 0x1p-53;
    const double w = (double)(check_random() >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * w);
}

size_t check_rounds(size_t usual) {
    const char *quick = getenv("CHECK_QUICK");
    return quick && strcmp(quick, "1") == 0 ? usual / 20 + 1 : usual;
}

bool check_extended(void) {
    volatile long double one = 1, least = LDBL_EPSILON, none = -INFINITY;
    return LDBL_EPSILON < DBL_EPSILON && one + least != one && expl(none) == 0;
}

bool check_that(bool ok, const char *file, int line, const char *format, ...) {
    if (ok) return true;
    if (++failures <= 20) {
        va_list arguments;
        va_start(arguments, format);
        printf("FAIL %s (%s:%d, CHECK_SEED=%llu): ", running, file, line, seed);
        vprintf(format, arguments);
        printf("\n");
        fflush(stdout);
        va_end(arguments);
    }
    return false;
}

void check_skip(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("SKIP %s: ", running);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    skips++;
}

int check_main(int argc, char **argv, const check_test *tests, size_t count) {
    const char *given = getenv("CHECK_SEED"), *slash = strrchr(argv[0], '/');
    unsigned passed = 0, failed = 0, skipped = 0;
    seed = given ? strtoull(given, NULL, 10) : mix((unsigned long long)time(NULL) * 1000003 + (unsigned)getpid());
    for (size_t i = 0; i < count; i++) {
        if (argc > 1 && !strstr(tests[i].name, argv[1])) continue;
        running = tests[i].name;
        state = seed;
        failures = skips = 0;
        tests[i].run();
        if (failures)
            failed++;
        else if (skips)
            skipped++;
        else
            passed++;
    }
    printf("%s: %u passed, %u failed", slash ? slash + 1 : argv[0], passed, failed);
    if (skipped) printf(", %u skipped", skipped);
    printf("\n");
    return failed != 0;
}

int check_skip_all(char **argv, size_t count, const char *reason) {
    const char *slash = strrchr(argv[0], '/');
    printf("SKIP all: %s\n", reason);
    printf("%s: 0 passed, 0 failed, %zu skipped\n", slash ? slash + 1 : argv[0], count);
    return 0;
}
