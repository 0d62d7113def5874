#include "reply_writer.h"

#include "reply_round.h"

enum { SMALL_REPLY = 4096 }; /* bytes up to which the arena serves */

size_t api_reply_bound(const api_job *job) { return job->reply->bound(job); }

const char *api_reply_write(api_job *job, attn_pool *pool, size_t *length) {
    api_memory *memory = job->form.memory;
    const size_t bound = api_reply_bound(job);
    if (!api_reply_round(job)) return NULL;
    memory->over_budget = false;
    char *reply = bound <= SMALL_REPLY ? api_small(memory, bound) : api_large(memory, bound);
    if (!reply) {
        api_error_set(job->form.error, memory->over_budget ? API_OVERLOADED : API_OUT_OF_MEMORY, API_PLACE_LAST, NULL,
                      "no memory for a reply of at most %zu bytes", bound);
        return NULL;
    }
    *length = (size_t)(job->reply->write(job, pool, reply) - reply);
    if (bound > SMALL_REPLY) {
        char *shrunk = api_resize(memory, reply, *length);
        if (shrunk) reply = shrunk;
    }
    return reply;
}
