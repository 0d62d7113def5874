#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define COPIES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COPIES 1
#endif
#endif
#ifdef POISONS
#include <sanitizer/asan_interface.h>
#else /* what the arena has not handed out is guarded only where AddressSanitizer watches */
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

#define ALIGN_LARGE ((size_t)64)
#define ALIGN_SMALL ((size_t)16)
#define CHUNK_SIZE ((size_t)8192)
/* From here on a block is a mapping of its own: it grows by moving page tables, not bytes, its pages cost nothing until
 * they are touched, and they go back to the system at once. Below, the system call would cost more than a copy. */
#define MAP_FROM ((size_t)256 << 10)
/* From here on the system is asked for huge pages: a fault for each small one costs more than reading the numbers on
 * it. Not for a single one, most of which might stay empty. */
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_FROM (2 * HUGE_PAGE)
#define PAGE ((size_t)4096) /* a multiple of it is passed to the system, which rounds up where its pages are larger */

/* Stands right before the piece, whose alignment it keeps: the block's first address is its own. */
struct api_block {
    api_block *next, *previous;
    size_t bytes; /* of the allocation, this header included; what is charged */
};
#define HEADER ALIGN_LARGE
_Static_assert(sizeof(api_block) <= HEADER, "the header fits before the piece");

struct api_chunk {
    struct api_chunk *next;
    size_t bytes, used; /* this header included */
};
#define CHUNK_HEADER ((sizeof(struct api_chunk) + ALIGN_SMALL - 1) & ~(ALIGN_SMALL - 1))

bool api_charge(api_memory *memory, size_t bytes) {
    api_budget *budget = memory->budget;
    if (budget) {
        const size_t before = atomic_fetch_add_explicit(&budget->used, bytes, memory_order_relaxed);
        if (budget->limit && (bytes > budget->limit || before > budget->limit - bytes)) {
            atomic_fetch_sub_explicit(&budget->used, bytes, memory_order_relaxed);
            memory->over_budget = true;
            if (memory->held > budget->limit || bytes > budget->limit - memory->held)
                memory->never_fits = bytes > SIZE_MAX - memory->held ? SIZE_MAX : memory->held + bytes;
            return false;
        }
    }
    memory->held += bytes;
    memory->over_budget = false;
    return true;
}

void api_discharge(api_memory *memory, size_t bytes) {
    if (memory->budget) atomic_fetch_sub_explicit(&memory->budget->used, bytes, memory_order_relaxed);
    memory->held -= bytes;
}

/* Bytes of the block for a piece of `size`, 0 where that does not fit. */
static size_t block_bytes(size_t size) {
    const size_t unit = size + HEADER < MAP_FROM ? ALIGN_LARGE : PAGE;
    if (size > SIZE_MAX - HEADER - unit) return 0;
    return (size + HEADER + unit - 1) & ~(unit - 1);
}

static bool is_mapped(size_t bytes) { return bytes >= MAP_FROM; }
static bool is_huge(size_t bytes) { return bytes >= HUGE_FROM; }

static void *block_get(size_t bytes) {
    if (!is_mapped(bytes)) return aligned_alloc(ALIGN_LARGE, bytes);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return NULL;
    if (is_huge(bytes)) madvise(map, bytes, MADV_HUGEPAGE); /* else small ones do */
    return map;
}

static void block_put(api_block *block) {
    if (is_mapped(block->bytes))
        munmap(block, block->bytes);
    else
        free(block);
}

static void link_block(api_memory *memory, api_block *block) {
    block->previous = NULL;
    block->next = memory->blocks;
    if (block->next) block->next->previous = block;
    memory->blocks = block;
}

static void unlink_block(api_memory *memory, api_block *block) {
    if (block->next) block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else
        memory->blocks = block->next;
}

static void *piece_of(api_block *block) { return (char *)block + HEADER; }
static api_block *block_of(void *piece) { return (api_block *)(void *)((char *)piece - HEADER); }

void api_memory_init(api_memory *memory, api_budget *budget) { *memory = (api_memory){.budget = budget}; }

void api_at_end(api_memory *memory, api_cleanup *cleanup) {
    cleanup->next = memory->cleanups;
    memory->cleanups = cleanup;
}

void api_memory_deinit(api_memory *memory) {
    for (api_cleanup *cleanup = memory->cleanups; cleanup; cleanup = cleanup->next) cleanup->run(cleanup->argument);
    for (api_block *block = memory->blocks, *next; block; block = next) {
        next = block->next;
        block_put(block);
    }
    for (struct api_chunk *chunk = memory->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        ASAN_UNPOISON_MEMORY_REGION(chunk, chunk->bytes);
        free(chunk);
    }
    api_discharge(memory, memory->held);
    *memory = (api_memory){.budget = memory->budget, .over_budget = memory->over_budget};
}

static struct api_chunk *new_chunk(api_memory *memory, size_t bytes) {
    if (!api_charge(memory, bytes)) return NULL;
    struct api_chunk *chunk = malloc(bytes);
    if (!chunk) {
        api_discharge(memory, bytes);
        return NULL;
    }
    *chunk = (struct api_chunk){.next = memory->chunks, .bytes = bytes, .used = CHUNK_HEADER};
    memory->chunks = chunk;
    ASAN_POISON_MEMORY_REGION((char *)chunk + CHUNK_HEADER, bytes - CHUNK_HEADER);
    return chunk;
}

void *api_small(api_memory *memory, size_t size) {
    if (size > SIZE_MAX - CHUNK_HEADER - ALIGN_SMALL) return NULL;
    const size_t room = size ? (size + ALIGN_SMALL - 1) & ~(ALIGN_SMALL - 1) : ALIGN_SMALL;
    struct api_chunk *chunk = memory->chunks;
    if (!chunk || chunk->bytes - chunk->used < room) {
        const size_t bytes = CHUNK_HEADER + room;
        chunk = new_chunk(memory, bytes > CHUNK_SIZE ? bytes : CHUNK_SIZE);
        if (!chunk) return NULL;
    }
    void *piece = (char *)chunk + chunk->used;
    chunk->used += room;
    ASAN_UNPOISON_MEMORY_REGION(piece, size);
    return piece;
}

void *api_large(api_memory *memory, size_t size) {
    const size_t bytes = block_bytes(size);
    if (!bytes || !api_charge(memory, bytes)) return NULL;
    api_block *block = block_get(bytes);
    if (!block) {
        api_discharge(memory, bytes);
        return NULL;
    }
    block->bytes = bytes;
    link_block(memory, block);
    return piece_of(block);
}

/* mremap, but for the thread sanitizer, which does not know it: there an address that one thread's map had left would
 * look like a race when another's arrived at it. */
static void *move_map(void *map, size_t before, size_t bytes) {
#ifdef COPIES
    void *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) return fresh;
    memcpy(fresh, map, before < bytes ? before : bytes);
    munmap(map, before);
    return fresh;
#else
    return mremap(map, before, bytes, MREMAP_MAYMOVE);
#endif
}

/* Both sizes are mapped ones. */
static void *remap(api_memory *memory, api_block *block, size_t bytes) {
    const size_t before = block->bytes;
    if (bytes > before && !api_charge(memory, bytes - before)) return NULL;
    void *map = move_map(block, before, bytes);
    if (map == MAP_FAILED) {
        if (bytes > before) api_discharge(memory, bytes - before);
        return NULL;
    }
    if (bytes < before) api_discharge(memory, before - bytes);
    api_block *moved = map;
    moved->bytes = bytes;
    if (moved->next) moved->next->previous = moved;
    if (moved->previous)
        moved->previous->next = moved;
    else
        memory->blocks = moved;
    return piece_of(moved);
}

void *api_resize(api_memory *memory, void *piece, size_t size) {
    if (!piece) return api_large(memory, size);
    api_block *block = block_of(piece);
    const size_t bytes = block_bytes(size);
    if (!bytes) return NULL;
    if (bytes == block->bytes) return piece;
    const bool becomes_huge = is_huge(bytes) && !is_huge(block->bytes); /* small pages would stay so: rather a copy */
    if (is_mapped(bytes) && is_mapped(block->bytes) && !becomes_huge) return remap(memory, block, bytes);
    void *fresh = api_large(memory, size);
    if (!fresh) return NULL;
    memcpy(fresh, piece, (bytes < block->bytes ? bytes : block->bytes) - HEADER);
    api_release(memory, piece);
    return fresh;
}

size_t api_grown_size(size_t size, size_t wanted) {
    const size_t more = size < HUGE_PAGE / 4 ? 2 * size : size + size / 8, grown = more > wanted ? more : wanted;
    if (grown <= HUGE_PAGE / 4) return grown > 256 ? grown : 256;
    const size_t bytes = grown + HEADER + HUGE_PAGE - 1;
    return bytes < grown ? grown : bytes / HUGE_PAGE * HUGE_PAGE - HEADER;
}

void api_release(api_memory *memory, void *piece) {
    if (!piece) return;
    api_block *block = block_of(piece);
    unlink_block(memory, block);
    api_discharge(memory, block->bytes);
    block_put(block);
}
