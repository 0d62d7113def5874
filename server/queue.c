/* queue.c: requests that wait for a compute thread.
 *
 * There are two lanes, so that a short request does not wait behind long ones: a free thread takes the oldest short
 * request, but every fourth time the oldest long one, so that long ones make progress. The predicted wait of a request
 * is the estimated work of all requests before it, divided by the number of threads and multiplied by the ratio of real
 * to estimated time that past requests had.
 */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "clock.h"

enum { LONG_TURN = 4 };
static const double long_work = 20e6;    /* nanoseconds; a request of more is long */
static const double smoothing = 1. / 16; /* weight of the newest ratio in the correction */

const char *const srv_lane_names[SRV_LANES] = {"short", "long"};

/* A task of the pool does not belong to a ticket: the first task to run takes the ticket that is next. */
struct srv_turn {
    attn_task task; /* must be first: run_turn casts */
    srv_queue *queue;
    struct srv_turn *next;
};

typedef struct lane {
    srv_ticket *first, **last;
    size_t depth; /* admitted and not yet running */
} lane;

struct srv_queue {
    pthread_mutex_t lock;
    attn_pool *pool;
    size_t workers, limit, running, picks;
    double longest_wait; /* seconds */
    double backlog;      /* estimated nanoseconds of work, waiting and running */
    double correction;   /* real time over estimated time */
    double busy;         /* seconds */
    lane lanes[SRV_LANES];
    struct srv_turn *turns, *free_turns;
};

srv_queue *srv_queue_new(attn_pool *pool, size_t workers, size_t limit, double longest_wait) {
    srv_queue *queue = calloc(1, sizeof *queue);
    size_t turns = limit + workers + 1;
    if (!queue || !(queue->turns = calloc(turns, sizeof *queue->turns))) {
        free(queue);
        return NULL;
    }
    pthread_mutex_init(&queue->lock, NULL);
    queue->pool = pool;
    queue->workers = workers;
    queue->limit = limit;
    queue->longest_wait = longest_wait;
    queue->correction = 1;
    for (int i = 0; i < SRV_LANES; i++) queue->lanes[i].last = &queue->lanes[i].first;
    for (size_t i = 0; i < turns; i++) {
        queue->turns[i].queue = queue;
        queue->turns[i].next = queue->free_turns;
        queue->free_turns = &queue->turns[i];
    }
    return queue;
}

void srv_queue_free(srv_queue *queue) {
    if (!queue) return;
    pthread_mutex_destroy(&queue->lock);
    free(queue->turns);
    free(queue);
}

static srv_ticket *take(lane *from) {
    srv_ticket *ticket = from->first;
    from->first = ticket->next;
    if (!from->first) from->last = &from->first;
    from->depth--;
    return ticket;
}

static srv_ticket *take_next(srv_queue *queue) {
    lane *brief = &queue->lanes[SRV_LANE_SHORT], *lengthy = &queue->lanes[SRV_LANE_LONG];
    bool turn_of_long = ++queue->picks % LONG_TURN == 0;
    return take(lengthy->first && (turn_of_long || !brief->first) ? lengthy : brief);
}

static void run_turn(attn_task *task) {
    struct srv_turn *mine = (struct srv_turn *)task;
    srv_queue *queue = mine->queue;
    pthread_mutex_lock(&queue->lock);
    srv_ticket *ticket = take_next(queue);
    queue->running++;
    pthread_mutex_unlock(&queue->lock);

    double work = ticket->work;
    int64_t begun = srv_now();
    ticket->run(ticket, (double)(begun - ticket->queued) * 1e-9);
    double took = (double)(srv_now() - begun);

    pthread_mutex_lock(&queue->lock);
    queue->running--;
    queue->busy += took * 1e-9;
    queue->backlog -= work;
    if (queue->running == 0 && !queue->lanes[0].depth && !queue->lanes[1].depth)
        queue->backlog = 0; /* rounding errors do not add up */
    double ratio = took / work;
    ratio = ratio < 0.01 ? 0.01 : ratio > 100 ? 100 : ratio;
    queue->correction += smoothing * (ratio - queue->correction);
    mine->next = queue->free_turns;
    queue->free_turns = mine;
    pthread_mutex_unlock(&queue->lock);
}

srv_admission srv_queue_admit(srv_queue *queue, srv_ticket *ticket, unsigned *retry_after) {
    if (!(ticket->work >= 1)) ticket->work = 1;
    ticket->lane = ticket->work > long_work ? SRV_LANE_LONG : SRV_LANE_SHORT;
    pthread_mutex_lock(&queue->lock);
    size_t waiting = queue->lanes[0].depth + queue->lanes[1].depth;
    double wait = queue->backlog * queue->correction / (double)queue->workers * 1e-9;
    srv_admission admission = SRV_ADMITTED;
    if (!queue->free_turns || (waiting >= queue->limit && waiting + queue->running >= queue->workers))
        admission = SRV_QUEUE_FULL;
    else if (waiting && wait > queue->longest_wait)
        admission = SRV_QUEUE_WAIT;
    if (admission == SRV_ADMITTED) {
        ticket->turn = queue->free_turns;
        queue->free_turns = ticket->turn->next;
        queue->lanes[ticket->lane].depth++;
        queue->backlog += ticket->work;
    }
    pthread_mutex_unlock(&queue->lock);
    *retry_after = wait < 1 ? 1 : wait > 30 ? 30 : (unsigned)(wait + 0.999);
    return admission;
}

void srv_queue_submit(srv_queue *queue, srv_ticket *ticket) {
    struct srv_turn *mine = ticket->turn;
    ticket->next = NULL;
    ticket->queued = srv_now();
    pthread_mutex_lock(&queue->lock);
    lane *to = &queue->lanes[ticket->lane];
    *to->last = ticket;
    to->last = &ticket->next;
    pthread_mutex_unlock(&queue->lock);
    mine->task = (attn_task){.run = run_turn};
    attn_pool_submit(queue->pool, &mine->task);
}

size_t srv_queue_depth(srv_queue *queue, int which) {
    pthread_mutex_lock(&queue->lock);
    size_t depth = queue->lanes[which].depth;
    pthread_mutex_unlock(&queue->lock);
    return depth;
}

size_t srv_queue_unfinished(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    size_t unfinished = queue->lanes[0].depth + queue->lanes[1].depth + queue->running;
    pthread_mutex_unlock(&queue->lock);
    return unfinished;
}

size_t srv_queue_limit(const srv_queue *queue) { return queue->limit; }

double srv_queue_busy_seconds(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    double busy = queue->busy;
    pthread_mutex_unlock(&queue->lock);
    return busy;
}
