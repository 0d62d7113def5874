/* turns.h: tables of the cosines and sines of positions (inside core/ only).
 *
 * The angle of position p + b is that of p plus that of b: turns of 0 to ATTN_TURNS_BLOCK - 1 positions are computed
 * once, and a block of rows needs the turn of its first position besides. Both come from angles of 113 bits; their
 * product errs by two roundings of a double. */
#ifndef ATTN_TURNS_H
#define ATTN_TURNS_H

#include "../attention.h"
#include "../engine/real.h"
#include "quad.h"

enum { ATTN_TURNS_BLOCK = 32 }; /* positions that share one exact turn, rows of one item */

typedef struct attn_turns {
    const attn_quad *frequencies; /* (half): the angle of position p is p times each of them */
    size_t half;
    double factor;            /* multiplies cosines and sines */
    size_t n, tables;         /* rows of a table; tables: batches with positions of their own, 1: all have the same */
    const int64_t *positions; /* (n) of each batch, positions_batch apart, or NULL: ... */
    size_t positions_batch;
    const int64_t *offsets; /* ... i + offsets[batch], or, NULL too, i + first */
    int64_t first;
    double *steps; /* (ATTN_TURNS_BLOCK, 2 half): room, may be shared by all tables of the same frequencies */
    void *table;   /* (tables, n, 2 half): cosines, then sines */
} attn_turns;

/* Fills `steps`: cosines and sines of 0 to ATTN_TURNS_BLOCK - 1 positions. */
void ATTN_T(attn_turns_begin)(const attn_engine *engine, const attn_turns *turns);
/* Fills the tables, on the threads of the pool. */
void ATTN_T(attn_turns_fill)(const attn_engine *engine, const attn_turns *turns);

#endif
