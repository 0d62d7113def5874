/* blocks.h: which keys are open to which queries (inside core/ only).
 *
 * kv_lengths, causal and window together leave each query one span of keys, the same for all heads; its ends never
 * decrease from one query to the next. A segment cuts that span to the range of its own keys, which has no order from
 * query to query. mask, bias and key_mask block single cells within it, as do keys of another segment that stand
 * between those of one.
 */
#ifndef ATTN_BLOCKS_H
#define ATTN_BLOCKS_H

#include "../attention.h"

typedef struct attn_span {
    size_t lo, hi; /* keys lo <= j < hi; empty if lo >= hi */
} attn_span;

/* Some rows of scores of one key/value head: `queries` consecutive queries of each of `heads` consecutive heads, the
 * queries of one head side by side. Row r is head + r / queries, query + r % queries. */
typedef struct attn_rows {
    size_t batch, kv_head, head, heads, query, queries;
    attn_span any; /* outside of it every key is blocked for every row */
    attn_span all; /* inside it only mask, bias, key_mask and gaps of segments block */
} attn_rows;

/* The index of a query among the keys: query + offset */
int64_t attn_position(const attn_problem *problem, size_t batch, size_t query);
/* The span that kv_lengths, causal, window (if there is no pattern) and the range of its segment leave to a query. */
attn_span attn_query_span(const attn_problem *problem, size_t batch, size_t query);

/* Fills rows->any and rows->all from the other members. */
void attn_rows_spans(const attn_problem *problem, attn_rows *rows);

typedef enum attn_tile_kind {
    ATTN_TILE_BLOCKED, /* every cell: not to be computed */
    ATTN_TILE_OPEN,    /* no cell is blocked */
    ATTN_TILE_MIXED,   /* cells have to be looked at */
} attn_tile_kind;

/* The tile of `rows` by the keys [key, key + count). A tile under a mask, a bias or segments with gaps counts as
 * mixed if one cell is open: telling all open apart would cost as much as applying them. */
attn_tile_kind attn_tile_classify(const attn_problem *problem, const attn_rows *rows, size_t key, size_t count);

/* The keys that kv_lengths, causal and window leave to at least one query: their union, which has no gaps. Segments are
 * not looked at. */
attn_span attn_reach(const attn_problem *problem, size_t batch);

/* true if the heads of a batch have the same cells of mask and bias */
bool attn_heads_share_rows(const attn_problem *problem);

/* true if mask, bias, key_mask and segments leave the cell open; its span is not looked at */
bool attn_cell_is_open(const attn_problem *problem, size_t batch, size_t head, size_t query, size_t key);

#endif
