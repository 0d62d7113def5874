/* blocks.c: kv_lengths, causal, window and segments as spans, mask, bias, key_mask and gaps of segments cell by cell.
 */
#include "blocks.h"
#include "pattern.h"

#include <math.h>
#include <string.h>

/* Positions stay within +-2^53 and sizes below 2^60, so sums of them with a window this wide fit int64_t. */
#define WIDEST_WINDOW ((int64_t)1 << 60)

static int64_t clipped(int64_t width) { return width < WIDEST_WINDOW ? width : WIDEST_WINDOW; }

static size_t count_keys(const attn_problem *problem) { return problem->n_past + problem->n_new; }

int64_t attn_position(const attn_problem *problem, size_t batch, size_t query) {
    int64_t offset = problem->query_offset != NULL ? problem->query_offset[batch] : (int64_t)problem->n_past;
    return (int64_t)query + offset;
}

/* A window beside global tokens or a dilation is no span. */
static bool window_cuts(const attn_problem *problem) { return problem->has_window && problem->pattern == NULL; }

static int64_t span_start(const attn_problem *problem, int64_t position) {
    if (!window_cuts(problem) || problem->window_left == ATTN_OPEN_SIDE) return 0;
    int64_t start = position - clipped(problem->window_left);
    return start > 0 ? start : 0;
}

static int64_t span_end(const attn_problem *problem, size_t batch, int64_t position) {
    int64_t end = (int64_t)count_keys(problem);
    if (problem->kv_lengths != NULL && problem->kv_lengths[batch] < end) end = problem->kv_lengths[batch];
    if (problem->causal && position + 1 < end) end = position + 1;
    if (window_cuts(problem) && problem->window_right != ATTN_OPEN_SIDE) {
        int64_t right = position + clipped(problem->window_right) + 1;
        if (right < end) end = right;
    }
    return end > 0 ? end : 0;
}

attn_span attn_query_span(const attn_problem *problem, size_t batch, size_t query) {
    const attn_segments *segments = problem->segments;
    int64_t position = attn_position(problem, batch, query);
    attn_span span = {(size_t)span_start(problem, position), (size_t)span_end(problem, batch, position)};
    if (segments == NULL) return span;
    const size_t *of_segment = segments->spans + batch * segments->spans_batch + 2 * query;
    if (span.lo < of_segment[0]) span.lo = of_segment[0];
    if (span.hi > of_segment[1]) span.hi = of_segment[1];
    return span;
}

/* The union of the spans of queries first..last, segments aside: it has no gaps, as neighbouring positions differ by
 * one and an unclipped span is never empty. */
static attn_span union_span(const attn_problem *problem, size_t batch, size_t first, size_t last) {
    return (attn_span){(size_t)span_start(problem, attn_position(problem, batch, first)),
                       (size_t)span_end(problem, batch, attn_position(problem, batch, last))};
}

/* Segments come in any order: the spans of all queries have to be looked at. */
static void segment_rows_spans(const attn_problem *problem, attn_rows *rows) {
    const size_t n_k = count_keys(problem);
    rows->any = (attn_span){n_k, 0};
    rows->all = (attn_span){0, n_k};
    for (size_t i = 0; i < rows->queries; i++) {
        const attn_span span = attn_query_span(problem, rows->batch, rows->query + i);
        if (span.lo > rows->all.lo) rows->all.lo = span.lo;
        if (span.hi < rows->all.hi) rows->all.hi = span.hi;
        if (span.lo >= span.hi) continue;
        if (span.lo < rows->any.lo) rows->any.lo = span.lo;
        if (span.hi > rows->any.hi) rows->any.hi = span.hi;
    }
}

void attn_rows_spans(const attn_problem *problem, attn_rows *rows) {
    if (rows->queries == 0 || rows->heads == 0) {
        rows->any = rows->all = (attn_span){0, 0};
        return;
    }
    if (problem->segments != NULL) {
        segment_rows_spans(problem, rows);
        return;
    }
    size_t last = rows->query + rows->queries - 1;
    rows->any = union_span(problem, rows->batch, rows->query, last);
    rows->all.lo = (size_t)span_start(problem, attn_position(problem, rows->batch, last));
    rows->all.hi = (size_t)span_end(problem, rows->batch, attn_position(problem, rows->batch, rows->query));
}

static const uint8_t *mask_row(const attn_problem *problem, size_t batch, size_t head, size_t query) {
    const attn_broadcast *mask = &problem->mask;
    if (mask->data == NULL) return NULL;
    return (const uint8_t *)mask->data + batch * mask->batch + head * mask->head + query * mask->query;
}

static const uint8_t *key_mask_row(const attn_problem *problem, size_t batch) {
    return problem->key_mask != NULL ? problem->key_mask + batch * problem->key_mask_batch : NULL;
}

/* true if keys within the span of a query may be of another segment */
static bool has_gaps(const attn_problem *problem) { return problem->segments != NULL && problem->segments->gaps; }

/* The ids of the keys of a batch; *id becomes that of the query. NULL: segments have no gaps, spans tell all. */
static const int64_t *segment_row(const attn_problem *problem, size_t batch, size_t query, int64_t *id) {
    const attn_segments *segments = problem->segments;
    *id = 0;
    if (!has_gaps(problem)) return NULL;
    *id = segments->of_query[batch * segments->of_query_batch + query];
    return segments->of_key + batch * segments->of_key_batch;
}

/* true if all n bytes are 0 */
static bool all_zero(const uint8_t *bytes, size_t n) {
    return n == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0);
}

static bool bias_blocks(const attn_problem *problem, size_t offset) {
    if (problem->dtype == ATTN_F64) return ((const double *)problem->bias.data)[offset] == -INFINITY;
    return ((const float *)problem->bias.data)[offset] == -INFINITY;
}

bool attn_cell_is_open(const attn_problem *problem, size_t batch, size_t head, size_t query, size_t key) {
    const uint8_t *mask = mask_row(problem, batch, head, query);
    if (mask != NULL && mask[key * problem->mask.key] == 0) return false;
    if (problem->key_mask != NULL && key_mask_row(problem, batch)[key] == 0) return false;
    int64_t id;
    const int64_t *ids = segment_row(problem, batch, query, &id);
    if (ids != NULL && ids[key] != id) return false;
    uint8_t may = 1;
    if (problem->pattern != NULL)
        attn_pattern_row(problem, batch, head, attn_position(problem, batch, query), key, 1, &may);
    if (may == 0) return false;
    const attn_broadcast *bias = &problem->bias;
    return bias->data == NULL ||
           !bias_blocks(problem, batch * bias->batch + head * bias->head + query * bias->query + key * bias->key);
}

/* true if one of the keys lo..hi-1 of a row, part of its span, is open */
static bool row_is_open(const attn_problem *problem, size_t batch, size_t head, size_t query, size_t lo, size_t hi) {
    if (lo >= hi) return false;
    const uint8_t *mask = mask_row(problem, batch, head, query);
    const uint8_t *keys = key_mask_row(problem, batch);
    if (mask == NULL && problem->bias.data == NULL && keys == NULL && !has_gaps(problem) && problem->pattern == NULL)
        return true;
    /* rows of zeros are common: leave them fast */
    if (mask != NULL && problem->mask.key == 1 && all_zero(mask + lo, hi - lo)) return false;
    if (keys != NULL && all_zero(keys + lo, hi - lo)) return false;
    for (size_t j = lo; j < hi; j++) {
        if (attn_cell_is_open(problem, batch, head, query, j)) return true;
    }
    return false;
}

/* true if the rows of two queries hold the same cells of mask and bias, and no others of their segments */
static bool queries_share_rows(const attn_problem *problem) {
    return (problem->mask.data == NULL || problem->mask.query == 0) &&
           (problem->bias.data == NULL || problem->bias.query == 0) && !has_gaps(problem) && problem->pattern == NULL;
}

bool attn_heads_share_rows(const attn_problem *problem) {
    return (problem->mask.data == NULL || problem->mask.head == 0) &&
           (problem->bias.data == NULL || problem->bias.head == 0) &&
           (problem->pattern == NULL || (problem->pattern->dilation == NULL &&
                                         (problem->pattern->random == NULL || problem->pattern->random_head == 0)));
}

/* How a pattern alone leaves a tile */
static attn_tile_kind tile_of_pattern(const attn_problem *problem, const attn_rows *rows, size_t key, size_t count) {
    const int64_t first = attn_position(problem, rows->batch, rows->query);
    const int64_t last = first + (int64_t)rows->queries - 1;
    const size_t heads = attn_heads_share_rows(problem) ? 1 : rows->heads;
    bool touched = false, covered = true;
    for (size_t h = rows->head; h < rows->head + heads; h++) {
        touched |= attn_pattern_touches(problem, rows->batch, h, first, last, key, count);
        covered &= attn_pattern_covers(problem, h, first, last, key, count);
    }
    return !touched ? ATTN_TILE_BLOCKED : covered ? ATTN_TILE_OPEN : ATTN_TILE_MIXED;
}

attn_tile_kind attn_tile_classify(const attn_problem *problem, const attn_rows *rows, size_t key, size_t count) {
    size_t end = key + count;
    if (rows->any.lo >= end || rows->any.hi <= key || rows->any.lo >= rows->any.hi) return ATTN_TILE_BLOCKED;
    bool inside = rows->all.lo <= key && end <= rows->all.hi;
    const uint8_t *keys = key_mask_row(problem, rows->batch);
    if (keys != NULL && all_zero(keys + key, count)) return ATTN_TILE_BLOCKED;
    const bool every_key = keys == NULL || memchr(keys + key, 0, count) == NULL;
    const size_t existing = count_keys(problem) - key < count ? count_keys(problem) - key : count;
    const attn_tile_kind pattern =
        problem->pattern != NULL ? tile_of_pattern(problem, rows, key, existing) : ATTN_TILE_OPEN;
    if (pattern == ATTN_TILE_BLOCKED) return pattern;
    if (problem->mask.data == NULL && problem->bias.data == NULL && every_key && !has_gaps(problem) &&
        pattern == ATTN_TILE_OPEN) {
        if (inside) return ATTN_TILE_OPEN;
        if (problem->segments == NULL) return ATTN_TILE_MIXED;
    }

    size_t heads = attn_heads_share_rows(problem) ? 1 : rows->heads;
    size_t queries = inside && queries_share_rows(problem) ? 1 : rows->queries;
    for (size_t h = 0; h < heads; h++) {
        for (size_t i = 0; i < queries; i++) {
            attn_span span = attn_query_span(problem, rows->batch, rows->query + i);
            size_t lo = span.lo > key ? span.lo : key, hi = span.hi < end ? span.hi : end;
            if (row_is_open(problem, rows->batch, rows->head + h, rows->query + i, lo, hi)) return ATTN_TILE_MIXED;
        }
    }
    return ATTN_TILE_BLOCKED;
}

bool attn_query_is_open(const attn_problem *problem, size_t batch, size_t head, size_t query) {
    attn_span span = attn_query_span(problem, batch, query);
    return row_is_open(problem, batch, head, query, span.lo, span.hi);
}

attn_span attn_reach(const attn_problem *problem, size_t batch) {
    if (problem->n_q == 0 || problem->heads == 0) return (attn_span){0, 0};
    return union_span(problem, batch, 0, problem->n_q - 1);
}

/* open[j] |= mask, bias, key_mask and segments leave cell (query, j) open, lo <= j < hi: in loops that become vectors,
 * since a mask may hold a byte for each cell of a large problem. */
static void open_row(const attn_problem *problem, size_t batch, size_t head, size_t query, attn_span keys,
                     uint8_t *open) {
    enum { CHUNK = 256 };
    const attn_broadcast *bias = &problem->bias;
    const uint8_t *mask = mask_row(problem, batch, head, query);
    const uint8_t *keep = key_mask_row(problem, batch);
    int64_t id;
    const int64_t *ids = segment_row(problem, batch, query, &id);
    const size_t at = batch * bias->batch + head * bias->head + query * bias->query;
    for (size_t first = keys.lo, n; first < keys.hi; first += n) {
        uint8_t may[CHUNK];
        n = keys.hi - first < CHUNK ? keys.hi - first : CHUNK;
        if (problem->pattern != NULL) {
            const int64_t position = attn_position(problem, batch, query);
            if (!attn_pattern_touches(problem, batch, head, position, position, first, n)) continue;
            attn_pattern_row(problem, batch, head, position, first, n, may);
        } else {
            memset(may, 1, sizeof may);
        }
        if (mask != NULL && problem->mask.key == 1)
            for (size_t j = 0; j < n; j++) may[j] &= mask[first + j] != 0;
        else if (mask != NULL)
            for (size_t j = 0; j < n; j++) may[j] &= mask[(first + j) * problem->mask.key] != 0;
        if (bias->data != NULL && bias->key == 1 && problem->dtype == ATTN_F32) {
            const float *b = (const float *)bias->data + at + first;
            for (size_t j = 0; j < n; j++) may[j] = b[j] == -INFINITY ? 0 : may[j];
        } else if (bias->data != NULL) {
            for (size_t j = 0; j < n; j++) may[j] = bias_blocks(problem, at + (first + j) * bias->key) ? 0 : may[j];
        }
        if (keep != NULL)
            for (size_t j = 0; j < n; j++) may[j] = keep[first + j] != 0 ? may[j] : 0;
        if (ids != NULL)
            for (size_t j = 0; j < n; j++) may[j] = ids[first + j] == id ? may[j] : 0;
        for (size_t j = 0; j < n; j++) open[first + j] |= may[j];
    }
}

/* Cuts off the keys at both ends that are open already. */
static attn_span still_closed(attn_span keys, const uint8_t *open) {
    while (keys.lo < keys.hi && open[keys.lo] != 0) keys.lo++;
    while (keys.lo < keys.hi && open[keys.hi - 1] != 0) keys.hi--;
    return keys;
}

void attn_open_keys(const attn_problem *problem, size_t batch, size_t kv_head, uint8_t *open) {
    const size_t n_k = count_keys(problem);
    if (n_k > 0) memset(open, 0, n_k);
    if (problem->n_q == 0 || problem->heads == 0) return;
    const size_t group = problem->heads / problem->kv_heads, last = problem->n_q - 1;
    const size_t heads = attn_heads_share_rows(problem) ? 1 : group;
    const bool shared = queries_share_rows(problem), once = shared && problem->segments == NULL;
    const size_t queries = once ? 1 : problem->n_q;
    attn_span closed = attn_reach(problem, batch);
    for (size_t h = 0; h < heads; h++) {
        attn_span done = {0, 0};
        for (size_t i = 0; i < queries; i++) {
            closed = still_closed(closed, open);
            if (closed.lo >= closed.hi) return;
            const size_t query = last - i; /* under causal the last sees most */
            attn_span keys = once ? closed : attn_query_span(problem, batch, query);
            keys.lo = keys.lo > closed.lo ? keys.lo : closed.lo;
            keys.hi = keys.hi < closed.hi ? keys.hi : closed.hi;
            if (shared && done.lo <= keys.lo && keys.hi <= done.hi) continue; /* as of a query of the same segment */
            done = keys;
            if (keys.lo < keys.hi) open_row(problem, batch, kv_head * group + h, query, keys, open);
        }
    }
}
