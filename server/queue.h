/* queue.h: requests that wait for a compute thread, bounded by their number and by their predicted wait.
 *
 * All functions but new and free are safe from any thread.
 */
#ifndef SERVER_QUEUE_H
#define SERVER_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "../core/attention.h"

enum { SRV_LANE_SHORT, SRV_LANE_LONG, SRV_LANES };
extern const char *const srv_lane_names[SRV_LANES];

typedef struct srv_ticket { /* a request that waits; the caller's memory, which must live until run is called */
    struct srv_ticket *next;
    double work; /* estimate: nanoseconds of one thread */
    int lane;
    int64_t queued;                                        /* when, srv_now() */
    struct srv_turn *turn;                                 /* the queue's */
    void (*run)(struct srv_ticket *ticket, double waited); /* seconds; may free the ticket */
} srv_ticket;

typedef struct srv_queue srv_queue;
typedef enum srv_admission { SRV_ADMITTED, SRV_QUEUE_FULL, SRV_QUEUE_WAIT } srv_admission;

/* `limit` tickets may wait, each for at most longest_wait seconds as predicted. The queue borrows the pool. NULL: out
 * of memory. */
srv_queue *srv_queue_new(attn_pool *pool, size_t workers, size_t limit, double longest_wait);
void srv_queue_free(srv_queue *queue); /* after the pool has been freed; NULL is allowed */
/* Reserves a place for a ticket (work and run are set), which must be submitted soon, or refuses it. *retry_after is 1
 * to 30 seconds: the predicted wait. */
srv_admission srv_queue_admit(srv_queue *queue, srv_ticket *ticket, unsigned *retry_after);
/* Hands an admitted ticket to the pool; it may have run when this returns. */
void srv_queue_submit(srv_queue *queue, srv_ticket *ticket);
size_t srv_queue_depth(srv_queue *queue, int lane); /* waiting, not running */
size_t srv_queue_unfinished(srv_queue *queue);      /* waiting or running */
size_t srv_queue_limit(const srv_queue *queue);
double srv_queue_busy_seconds(srv_queue *queue); /* of all threads together */

#endif
