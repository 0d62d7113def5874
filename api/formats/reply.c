#include "reply.h"

#include "reply_round.h"

enum { SMALL_REPLY = 4096 }; /* bytes up to which the arena serves */

size_t api_reply_bound(const api_reply *reply) { return reply->format->bound(reply); }

const char *api_reply_write(const api_reply *reply, attn_pool *pool, size_t *length) {
    api_memory *memory = reply->memory;
    const size_t bound = api_reply_bound(reply);
    if (!api_reply_round(reply)) return NULL;
    char *text = bound <= SMALL_REPLY ? api_small(memory, bound) : api_large(memory, bound);
    if (!text) {
        api_error_memory(reply->error, memory);
        return NULL;
    }
    *length = (size_t)(reply->format->write(reply, pool, text) - text);
    if (bound > SMALL_REPLY) {
        char *shrunk = api_resize(memory, text, *length);
        if (shrunk) text = shrunk;
    }
    return text;
}
