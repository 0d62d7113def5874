/* kernel_table.c: the rows, best first, the portable one last. A new row is a line of a list below. */
#include "kernel.h"

#include <pthread.h>
#include <string.h>

typedef struct source {
    const char *name;
    bool (*supported)(void);
    const attn_ops_f32 *f32;
    const attn_ops_f64 *f64;
} source;

extern const attn_ops_f32 attn_portable_f32;
extern const attn_ops_f64 attn_portable_f64;

static bool on_every_cpu(void) { return true; }

#if defined __x86_64__
extern const attn_ops_f32 attn_avx512_f32, attn_avx2_f32;
extern const attn_ops_f64 attn_avx512_f64, attn_avx2_f64;

/* The builtins ask the operating system too: it must save the wide registers. */
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}
#elif defined __aarch64__
extern const attn_ops_f32 attn_neon_f32;
extern const attn_ops_f64 attn_neon_f64;
#endif

static const source sources[] = {
#if defined __x86_64__
    {"avx512", has_avx512, &attn_avx512_f32, &attn_avx512_f64},
    {"avx2", has_avx2, &attn_avx2_f32, &attn_avx2_f64},
#elif defined __aarch64__
    {"neon", on_every_cpu, &attn_neon_f32, &attn_neon_f64},
#endif
    {"portable", on_every_cpu, &attn_portable_f32, &attn_portable_f64},
};

#define ROWS (sizeof sources / sizeof *sources)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static attn_kernel rows[ROWS];
static atomic_uint_least64_t tiles[ROWS];

static void fill_rows(void) {
    for (size_t i = 0; i < ROWS; i++) {
        rows[i] = (attn_kernel){.name = sources[i].name,
                                .supported = sources[i].supported,
                                .f32 = attn_ops_filled_f32(sources[i].f32),
                                .f64 = attn_ops_filled_f64(sources[i].f64),
                                .tiles = &tiles[i]};
    }
}

const attn_kernel *attn_kernel_at(size_t index) {
    pthread_once(&once, fill_rows);
    return index < ROWS ? &rows[index] : NULL;
}

const char *attn_kernel_name(const attn_kernel *kernel) { return kernel->name; }

bool attn_kernel_supported(const attn_kernel *kernel) { return kernel->supported(); }

const attn_kernel *attn_kernel_find(const char *name) {
    const attn_kernel *row;
    for (size_t i = 0; (row = attn_kernel_at(i)) != NULL; i++) {
        bool wanted = name == NULL || strcmp(name, row->name) == 0;
        if (wanted && row->supported()) return row;
    }
    return NULL;
}

uint64_t attn_kernel_tiles(const attn_kernel *kernel) {
    return atomic_load_explicit(kernel->tiles, memory_order_relaxed);
}
