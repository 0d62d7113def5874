#include "turns.h"

#include "../engine/ops.h"

enum { BLOCK = ATTN_TURNS_BLOCK };

static void step_item(void *arg, size_t b, size_t slot) {
    const attn_turns *turns = arg;
    const size_t half = turns->half;
    double *row = turns->steps + b * 2 * half;
    (void)slot;
    for (size_t t = 0; t < half; t++) attn_quad_turn((attn_quad)b * turns->frequencies[t], &row[t], &row[half + t]);
}

void ATTN_T(attn_turns_begin)(const attn_engine *engine, const attn_turns *turns) {
    attn_pool_for(engine->pool, BLOCK, step_item, (void *)(uintptr_t)turns);
}

static int64_t position_of(const attn_turns *turns, size_t batch, size_t row) {
    if (turns->positions) return turns->positions[batch * turns->positions_batch + row];
    return (int64_t)row + (turns->offsets ? turns->offsets[batch] : turns->first);
}

/* A block of rows of one table. */
static void table_item(void *arg, size_t item, size_t slot) {
    const attn_turns *turns = arg;
    const size_t half = turns->half, blocks = (turns->n + BLOCK - 1) / BLOCK;
    const size_t batch = item / blocks, first = item % blocks * BLOCK;
    const size_t last = first + BLOCK < turns->n ? first + BLOCK : turns->n;
    const double factor = turns->factor;
    real *row = (real *)turns->table + (batch * turns->n + first) * 2 * half;
    (void)slot;
    for (size_t t = 0; t < half; t++) {
        int64_t exact = 0;
        double cosine = 1, sine = 0;
        for (size_t i = first; i < last; i++) {
            const int64_t position = position_of(turns, batch, i);
            if (i == first || position < exact || position >= exact + BLOCK) {
                exact = position;
                attn_quad_turn((attn_quad)position * turns->frequencies[t], &cosine, &sine);
            }
            const double *step = turns->steps + (size_t)(position - exact) * 2 * half + t;
            real *cell = row + (i - first) * 2 * half + t;
            cell[0] = (real)(factor * (cosine * step[0] - sine * step[half]));
            cell[half] = (real)(factor * (sine * step[0] + cosine * step[half]));
        }
    }
}

void ATTN_T(attn_turns_fill)(const attn_engine *engine, const attn_turns *turns) {
    const size_t blocks = (turns->n + BLOCK - 1) / BLOCK;
    attn_pool_for(engine->pool, turns->tables * blocks, table_item, (void *)(uintptr_t)turns);
}
