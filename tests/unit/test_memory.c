#include <stdint.h>
#include <string.h>

#include "../../api/base/memory.h"
#include "../support/check.h"

static void test_small_pieces_are_aligned_and_apart(void) {
    api_memory memory;
    api_memory_init(&memory, NULL);
    unsigned char *pieces[500];
    size_t sizes[500];
    for (size_t i = 0; i < 500; i++) {
        sizes[i] = i % 50 == 49 ? 20000 : check_random_below(200);
        pieces[i] = api_small(&memory, sizes[i]);
        CHECK_FATAL(pieces[i] != NULL, "piece %zu", i);
        CHECK((uintptr_t)pieces[i] % 16 == 0, "piece %zu is at %p", i, (void *)pieces[i]);
        memset(pieces[i], (int)(i % 251), sizes[i]);
    }
    for (size_t i = 0; i < 500; i++)
        for (size_t j = 0; j < sizes[i]; j++) CHECK(pieces[i][j] == i % 251, "piece %zu byte %zu", i, j);
    api_memory_deinit(&memory);
}

static void test_large_pieces_keep_contents_and_alignment(void) {
    api_memory memory;
    api_budget budget = {.limit = 0};
    api_memory_init(&memory, &budget);
    static const size_t sizes[] = {0,      1,       100,      5000,   262079, 262080, 262144,
                                   300000, 5000000, 40000000, 262000, 70,     400000, 3};
    unsigned char *piece = NULL, *other = NULL;
    size_t filled = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        piece = api_resize(&memory, piece, sizes[i]);
        CHECK_FATAL(piece != NULL, "size %zu", sizes[i]);
        CHECK((uintptr_t)piece % 64 == 0, "size %zu is at %p", sizes[i], (void *)piece);
        const size_t kept = filled < sizes[i] ? filled : sizes[i];
        for (size_t j = 0; j < kept; j++) CHECK(piece[j] == j % 253, "size %zu byte %zu", sizes[i], j);
        for (size_t j = 0; j < sizes[i]; j++) piece[j] = (unsigned char)(j % 253);
        filled = sizes[i];
        other = api_resize(&memory, other, sizes[i] / 2); /* neighbours in the list of blocks */
        CHECK(atomic_load(&budget.used) == memory.held, "used %zu held %zu", atomic_load(&budget.used), memory.held);
        CHECK(memory.held >= sizes[i] + sizes[i] / 2, "held %zu", memory.held);
        CHECK(memory.held <= sizes[i] + sizes[i] / 2 + 16384, "held %zu of %zu", memory.held, sizes[i]);
        api_release(&memory, api_large(&memory, 1000));
    }
    api_release(&memory, piece);
    api_release(&memory, NULL);
    api_memory_deinit(&memory);
    CHECK(atomic_load(&budget.used) == 0 && memory.held == 0, "%zu bytes are left", atomic_load(&budget.used));
}

static void test_budget_is_shared_and_kept(void) {
    api_memory one, two;
    api_budget budget = {.limit = 1000000};
    api_memory_init(&one, &budget);
    api_memory_init(&two, &budget);
    char *kept = api_large(&one, 600000);
    CHECK_FATAL(kept != NULL && !one.over_budget, "the first piece fits");
    kept[599999] = 'x';
    CHECK(api_large(&two, 600000) == NULL && two.over_budget, "the second does not");
    CHECK(api_resize(&one, kept, 1100000) == NULL && one.over_budget, "nor does more of the first");
    CHECK(kept[599999] == 'x', "which stays");
    CHECK(api_large(&two, SIZE_MAX) == NULL && api_large(&two, SIZE_MAX - 100) == NULL, "sizes that wrap");
    CHECK(api_small(&two, SIZE_MAX) == NULL && api_small(&two, SIZE_MAX - 20) == NULL, "small sizes that wrap");
    api_memory_deinit(&one);
    CHECK(api_large(&two, 900000) != NULL, "what one gave back the other has");
    CHECK(api_small(&two, 500000) == NULL, "small pieces count too");
    api_memory_deinit(&two);
    CHECK(atomic_load(&budget.used) == 0, "%zu bytes are left", atomic_load(&budget.used));
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_small_pieces_are_aligned_and_apart),
        CHECK_TEST(test_large_pieces_keep_contents_and_alignment),
        CHECK_TEST(test_budget_is_shared_and_kept),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
