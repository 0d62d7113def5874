/* The thread pool: every item runs once, slots are exclusive, tasks run in order, nothing is lost. */
#include "../../core/attention.h"
#include "../support/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_SLOTS 16

/* What the body of a loop records. */
typedef struct ledger {
    attn_pool *pool;
    size_t slots;
    atomic_int *runs;             /* of each item */
    atomic_int users[MOST_SLOTS]; /* threads that hold a slot now */
    atomic_int clashes;
    size_t inner; /* items of a nested loop, 0: none */
} ledger;

static void count_item(void *arg, size_t item, size_t slot) {
    atomic_int *runs = arg;
    (void)slot;
    atomic_fetch_add(&runs[item], 1);
}

static void note_item(void *arg, size_t item, size_t slot) {
    ledger *book = arg;
    if (slot >= book->slots || atomic_fetch_add(&book->users[slot], 1) != 0) atomic_fetch_add(&book->clashes, 1);
    atomic_fetch_add(&book->runs[item], 1);
    if (book->inner > 0) {
        atomic_int *runs = calloc(book->inner, sizeof *runs);
        attn_pool_for(book->pool, book->inner, count_item, runs);
        for (size_t i = 0; i < book->inner; i++) {
            if (atomic_load(&runs[i]) != 1) atomic_fetch_add(&book->clashes, 1);
        }
        free(runs);
    }
    if (slot < book->slots) atomic_fetch_sub(&book->users[slot], 1);
}

/* One loop of `items`; true where each item ran once and no slot was held twice. */
static bool loop_is_right(attn_pool *pool, size_t items, size_t inner) {
    ledger book = {.pool = pool, .slots = attn_pool_slots(pool), .inner = inner};
    book.runs = calloc(items + 1, sizeof *book.runs);
    attn_pool_for(pool, items, note_item, &book);
    bool right = atomic_load(&book.clashes) == 0;
    for (size_t i = 0; i < items; i++) right = right && atomic_load(&book.runs[i]) == 1;
    free(book.runs);
    return right;
}

static void test_slots(void) {
    CHECK(attn_pool_slots(NULL) == 1, "no pool has %zu slots", attn_pool_slots(NULL));
    for (size_t threads = 1; threads <= 4; threads++) {
        attn_pool *pool = attn_pool_new(threads);
        CHECK_FATAL(pool != NULL, "no pool of %zu threads", threads);
        CHECK(attn_pool_slots(pool) == threads + 1, "%zu threads: %zu slots", threads, attn_pool_slots(pool));
        attn_pool_free(pool);
    }
    attn_pool_free(NULL);
}

static void test_every_item_runs_once(void) {
    attn_pool *pool = attn_pool_new(3);
    for (size_t items = 0; items < 200; items++) {
        CHECK(loop_is_right(pool, items, 0), "a loop of %zu items went wrong", items);
        CHECK(loop_is_right(NULL, items, 0), "without a pool a loop of %zu items went wrong", items);
    }
    attn_pool_free(pool);
}

/* Each item waits until all of them are being run, so that no thread can run two: the loop ends only if as many threads
 * as there are items take part, however long the scheduler makes them wait. */
static void meet_item(void *arg, size_t item, size_t slot) {
    (void)item;
    (void)slot;
    pthread_barrier_wait(arg);
}

static void test_threads_help(void) {
    for (unsigned threads = 1; threads <= 3; threads++) {
        attn_pool *pool = attn_pool_new(threads);
        pthread_barrier_t all;
        CHECK_FATAL(pthread_barrier_init(&all, NULL, threads + 1) == 0, "no barrier");
        attn_pool_for(pool, threads + 1, meet_item, &all); /* never returns if a thread does not help */
        pthread_barrier_destroy(&all);
        attn_pool_free(pool);
    }
}

static void test_loops_nest(void) {
    attn_pool *pool = attn_pool_new(3);
    for (int round = 0; round < 50; round++) {
        CHECK(loop_is_right(pool, 17, 13), "round %d went wrong", round);
    }
    attn_pool_free(pool);
}

typedef struct caller {
    attn_pool *pool;
    bool right;
} caller;

static void *call_loops(void *arg) {
    caller *self = arg;
    self->right = true;
    for (size_t round = 0; round < 300; round++) {
        self->right = self->right && loop_is_right(self->pool, round % 9, round % 3);
    }
    return NULL;
}

static void test_many_callers_at_once(void) {
    attn_pool *pool = attn_pool_new(2);
    pthread_t threads[6];
    caller callers[6];
    for (size_t i = 0; i < 6; i++) {
        callers[i] = (caller){.pool = pool};
        CHECK_FATAL(pthread_create(&threads[i], NULL, call_loops, &callers[i]) == 0, "no thread");
    }
    for (size_t i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        CHECK(callers[i].right, "caller %zu saw a wrong loop", i);
    }
    attn_pool_free(pool);
}

typedef struct noted_task {
    attn_task task; /* first: the pool hands back its address */
    attn_pool *pool;
    atomic_size_t *order;
    size_t place;
    bool right;
} noted_task;

static void run_noted(attn_task *task) {
    noted_task *self = (noted_task *)(void *)task;
    self->place = atomic_fetch_add(self->order, 1);
    self->right = self->pool == NULL || loop_is_right(self->pool, 20, 0);
}

static void submit_tasks(attn_pool *pool, noted_task *tasks, size_t count, atomic_size_t *order, bool with_loops) {
    for (size_t i = 0; i < count; i++) {
        tasks[i] = (noted_task){.task = {.run = run_noted}, .pool = with_loops ? pool : NULL, .order = order};
        attn_pool_submit(pool, &tasks[i].task);
    }
}

static void test_tasks_run_in_order(void) {
    enum { COUNT = 500 };
    static noted_task tasks[COUNT];
    atomic_size_t order = 0;
    attn_pool *pool = attn_pool_new(1);
    submit_tasks(pool, tasks, COUNT, &order, false);
    attn_pool_free(pool); /* waits for them all */
    CHECK(atomic_load(&order) == COUNT, "%zu of %d tasks ran", atomic_load(&order), COUNT);
    for (size_t i = 0; i < COUNT; i++) CHECK(tasks[i].place == i, "task %zu ran as number %zu", i, tasks[i].place);
}

static void test_tasks_may_loop(void) {
    enum { COUNT = 200 };
    static noted_task tasks[COUNT];
    atomic_size_t order = 0;
    attn_pool *pool = attn_pool_new(3);
    submit_tasks(pool, tasks, COUNT, &order, true);
    CHECK(loop_is_right(pool, 100, 3), "a loop beside tasks went wrong");
    attn_pool_free(pool);
    for (size_t i = 0; i < COUNT; i++) CHECK(tasks[i].right, "the loop of task %zu went wrong", i);
}

/* A task that submits the next one: the pool must not end in between. */
typedef struct chain {
    attn_task task;
    attn_pool *pool;
    size_t left;
} chain;

static void run_chain(attn_task *task) {
    chain *self = (chain *)(void *)task;
    if (--self->left > 0) attn_pool_submit(self->pool, task);
}

static void test_tasks_may_submit(void) {
    attn_pool *pool = attn_pool_new(2);
    chain links = {.task = {.run = run_chain}, .pool = pool, .left = 1000};
    attn_pool_submit(pool, &links.task);
    attn_pool_free(pool);
    CHECK(links.left == 0, "%zu links were not run", links.left);
}

typedef struct flag_task {
    attn_task task;
    atomic_bool done;
} flag_task;

static void raise_flag(attn_task *task) { atomic_store(&((flag_task *)(void *)task)->done, true); }

/* An idle pool must wake for each submission, whatever the timing. */
static void test_no_wake_up_is_lost(void) {
    enum { COUNT = 2000 };
    static flag_task tasks[COUNT];
    attn_pool *pool = attn_pool_new(2);
    for (size_t i = 0; i < COUNT; i++) {
        tasks[i] = (flag_task){.task = {.run = raise_flag}};
        attn_pool_submit(pool, &tasks[i].task);
        while (!atomic_load(&tasks[i].done)) usleep(1);
        CHECK(loop_is_right(pool, 2, 0), "loop %zu went wrong", i);
    }
    attn_pool_free(pool);
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_slots),          CHECK_TEST(test_every_item_runs_once), CHECK_TEST(test_threads_help),
        CHECK_TEST(test_loops_nest),     CHECK_TEST(test_many_callers_at_once), CHECK_TEST(test_tasks_run_in_order),
        CHECK_TEST(test_tasks_may_loop), CHECK_TEST(test_tasks_may_submit),     CHECK_TEST(test_no_wake_up_is_lost),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
