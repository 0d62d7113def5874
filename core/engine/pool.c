/* pool.c: threads that help with loops and run tasks, all under one lock that is held for a few instructions. */
#include "../attention.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

/* One attn_pool_for under way; it lives on its caller's stack. */
typedef struct shared_loop {
    struct shared_loop *next;
    void (*body)(void *arg, size_t item, size_t slot);
    void *arg;
    size_t items;
    int cpu;              /* of the caller as it began */
    atomic_size_t taken;  /* items handed out; may run past items */
    size_t helpers;       /* threads inside it, the caller aside; under the lock */
    pthread_cond_t alone; /* signalled when helpers gets 0 */
} shared_loop;

typedef struct worker {
    pthread_t thread;
    attn_pool *pool;
    size_t slot; /* from 1: slot 0 is the caller's */
} worker;

struct attn_pool {
    pthread_mutex_t lock; /* of all below but workers and threads */
    pthread_cond_t work;  /* a task or a loop came, or the end */
    attn_task *first, *last;
    shared_loop *loops; /* those that may have items left */
    size_t idle;        /* threads that wait for work */
    bool ending;
    size_t threads;
    worker workers[];
};

static bool has_items(shared_loop *loop) {
    return atomic_load_explicit(&loop->taken, memory_order_relaxed) < loop->items;
}

static void run_items(shared_loop *loop, size_t slot) {
    for (;;) {
        size_t item = atomic_fetch_add_explicit(&loop->taken, 1, memory_order_relaxed);
        if (item >= loop->items) return;
        loop->body(loop->arg, item, slot);
    }
}

/* A kernel may wake a helper on its caller's CPU, and let the two share it for milliseconds while others idle: two
 * threads were then no faster than one for anything shorter. The helper moves; where it may run is left as it was. */
static void leave_cpu(int taken) {
    cpu_set_t all, others;
    if (taken < 0 || sched_getcpu() != taken || sched_getaffinity(0, sizeof all, &all) != 0) return;
    others = all;
    CPU_CLR((size_t)taken, &others);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        sched_setaffinity(0, sizeof all, &all);
}

static shared_loop *find_loop(const attn_pool *pool) {
    for (shared_loop *each = pool->loops; each != NULL; each = each->next) {
        if (has_items(each)) return each;
    }
    return NULL;
}

/* Runs one piece of work where there is one; the lock is held before and after. */
static bool do_some(attn_pool *pool, size_t slot) {
    shared_loop *loop = find_loop(pool);
    if (loop != NULL) {
        loop->helpers++;
        pthread_mutex_unlock(&pool->lock);
        leave_cpu(loop->cpu);
        run_items(loop, slot);
        pthread_mutex_lock(&pool->lock);
        if (--loop->helpers == 0) pthread_cond_signal(&loop->alone);
        return true;
    }
    attn_task *task = pool->first;
    if (task == NULL) return false;
    pool->first = task->next;
    if (pool->first == NULL) pool->last = NULL;
    pthread_mutex_unlock(&pool->lock);
    task->run(task);
    pthread_mutex_lock(&pool->lock);
    return true;
}

static void *work(void *arg) {
    worker *self = arg;
    attn_pool *pool = self->pool;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        if (do_some(pool, self->slot)) continue;
        if (pool->ending) break;
        pool->idle++;
        pthread_cond_wait(&pool->work, &pool->lock);
        pool->idle--;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void end_threads(attn_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->threads; i++) pthread_join(pool->workers[i].thread, NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->work);
    free(pool);
}

attn_pool *attn_pool_new(size_t threads) {
    if (threads == 0) threads = 1;
    if (threads > (SIZE_MAX - sizeof(attn_pool)) / sizeof(worker)) return NULL;
    attn_pool *pool = calloc(1, sizeof *pool + threads * sizeof *pool->workers);
    if (pool == NULL) return NULL;
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        free(pool);
        return NULL;
    }
    if (pthread_cond_init(&pool->work, NULL) != 0) {
        pthread_mutex_destroy(&pool->lock);
        free(pool);
        return NULL;
    }
    for (size_t i = 0; i < threads; i++) {
        worker *each = &pool->workers[i];
        each->pool = pool;
        each->slot = i + 1;
        if (pthread_create(&each->thread, NULL, work, each) != 0) {
            end_threads(pool);
            return NULL;
        }
        pthread_setname_np(each->thread, "attn-worker");
        pool->threads = i + 1;
    }
    return pool;
}

void attn_pool_free(attn_pool *pool) {
    if (pool != NULL) end_threads(pool);
}

size_t attn_pool_slots(const attn_pool *pool) { return pool != NULL ? pool->threads + 1 : 1; }

void attn_pool_submit(attn_pool *pool, attn_task *task) {
    task->next = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->last != NULL) {
        pool->last->next = task;
    } else {
        pool->first = task;
    }
    pool->last = task;
    if (pool->idle > 0) pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

static void announce(attn_pool *pool, shared_loop *loop) {
    pthread_mutex_lock(&pool->lock);
    loop->next = pool->loops;
    pool->loops = loop;
    size_t wanted = loop->items - 1 < pool->idle ? loop->items - 1 : pool->idle;
    for (size_t i = 0; i < wanted; i++) pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

/* Takes the loop out, so that nobody joins it any more, and waits for those who did. */
static void retire(attn_pool *pool, shared_loop *finished) {
    pthread_mutex_lock(&pool->lock);
    shared_loop **link = &pool->loops;
    while (*link != finished) link = &(*link)->next;
    *link = finished->next;
    while (finished->helpers > 0) pthread_cond_wait(&finished->alone, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void attn_pool_for(attn_pool *pool, size_t items, void (*body)(void *arg, size_t item, size_t slot), void *arg) {
    if (pool == NULL || items <= 1) {
        for (size_t item = 0; item < items; item++) body(arg, item, 0);
        return;
    }
    shared_loop loop = {
        .body = body, .arg = arg, .items = items, .cpu = sched_getcpu(), .alone = PTHREAD_COND_INITIALIZER};
    announce(pool, &loop);
    run_items(&loop, 0);
    retire(pool, &loop);
    pthread_cond_destroy(&loop.alone);
}
