/* memory.h: memory of one request (inside api/ only).
 *
 * Everything a request holds is charged to the service's budget and freed at once with the request.
 */
#ifndef API_MEMORY_H
#define API_MEMORY_H

#include "../api.h"

typedef struct api_block api_block;

/* What must be done before the memory of a request is freed. Stands in that memory. */
typedef struct api_cleanup {
    void (*run)(void *argument);
    void *argument;
    struct api_cleanup *next;
} api_cleanup;

typedef struct api_memory {
    api_budget *budget;       /* may be NULL: unbounded */
    api_block *blocks;        /* large pieces, each its own allocation */
    struct api_chunk *chunks; /* the arena of small pieces */
    api_cleanup *cleanups;    /* the newest first */
    size_t held;              /* bytes charged */
    bool over_budget;         /* the last NULL below came from the budget, not from malloc */
    size_t never_fits;        /* bytes that the request needed then, if that is more than the budget's limit; else 0 */
} api_memory;

void api_memory_init(api_memory *memory, api_budget *budget);
void api_memory_deinit(api_memory *memory); /* runs the cleanups, then frees everything */
/* Adds a cleanup, run and argument of which are set, for what a library holds by itself for the request. */
void api_at_end(api_memory *memory, api_cleanup *cleanup);

/* A small piece, aligned to 16, from the arena; freed with the request. NULL: out of memory or over budget. */
void *api_small(api_memory *memory, size_t size);
/* A large piece, aligned to 64. NULL likewise. */
void *api_large(api_memory *memory, size_t size);
/* Grows or shrinks a large piece (NULL: a new one), keeping its contents and alignment; if it fails the old piece
 * stays. Large blocks grow without a copy if the system can (mremap). */
void *api_resize(api_memory *memory, void *piece, size_t size);
/* The size that a large piece of `size` should grow to where `wanted` is needed and more may come: twice, or from half
 * a megabyte on an eighth more, in whole huge pages. Such a piece moves by page tables; what is charged stays close to
 * what is used. */
size_t api_grown_size(size_t size, size_t wanted);
void api_release(api_memory *memory, void *piece); /* a large piece; NULL is allowed */

/* Charges and discharges bytes that a library holds by itself for the request. false: over budget. */
bool api_charge(api_memory *memory, size_t bytes);
void api_discharge(api_memory *memory, size_t bytes);

#endif
