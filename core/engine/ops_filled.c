/* ops_filled.c: a kernel row may leave functions out; it gets the portable ones. */
#include "ops.h"

#include <assert.h>

extern const attn_ops ATTN_T(attn_portable);

#define SIZES 4
#define FUNCTIONS 10
_Static_assert(sizeof(attn_ops) == SIZES * sizeof(size_t) + FUNCTIONS * sizeof(void (*)(void)),
               "every function of a row is filled in below");

/* The functions that know how far apart the rows of a score tile are. */
static bool shares_score_tiles(const attn_ops *row) {
    return !row->scores || !row->row_max || !row->exp_sum || !row->mix || !row->dots;
}

attn_ops ATTN_T(attn_ops_filled)(const attn_ops *row) {
    const attn_ops *portable = &ATTN_T(attn_portable);
    attn_ops all = *row;
    assert(!row->pack_keys == !row->scores);
    assert(!row->tile_q == !row->tile_k && !row->tile_q == !row->block_q && !row->tile_q == !row->lanes);
    if (!row->tile_q) {
        all.tile_q = portable->tile_q;
        all.tile_k = portable->tile_k;
        all.block_q = portable->block_q;
        all.lanes = portable->lanes;
    }
    assert(!shares_score_tiles(row) || (all.tile_k == portable->tile_k && all.block_q <= portable->block_q));
#define FILL(function) \
    if (!all.function) all.function = portable->function
    FILL(pack_keys);
    FILL(scores);
    FILL(row_max);
    FILL(exp_sum);
    FILL(mix);
    FILL(dots);
    FILL(load);
    FILL(magnitudes);
    FILL(finish);
    FILL(multiply);
    return all;
}
