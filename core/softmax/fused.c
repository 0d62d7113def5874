/* fused.c: the output: online softmax (Milakov and Gimelshein, arXiv:1805.02867) over tiles of keys.
 *
 * A row keeps a shift m, l = sum exp(s - m) and O = sum exp(s - m) v. m follows the row's maximum only if that grew
 * by more than RESCALE_STEP: a rescaling costs a pass over O and a rounding, and exp(s - m) up to e^8 does no harm.
 * Sums inside a tile are short; across tiles l and O carry the error of their roundings along (Kahan, CACM 8, 1965), so
 * that their relative error does not grow with the number of keys. */
#include "../engine/compensated.h"
#include "tile.h"

#include <math.h>
#include <string.h>

#define RESCALE_STEP 8
#define MOST_ROWS 64 /* of a block, in any row of the kernel table */

static void add_row(size_t n, real *restrict sum, real *restrict lost, const real *restrict x) {
    for (size_t c = 0; c < n; c++) ATTN_ADD_COMPENSATED(sum[c], lost[c], x[c]);
}

/* What e counted from shift `from` has to be multiplied by to count from `to`. */
static real shift_factor(real from, real to) { return (real)exp((double)from - (double)to); }

static void scale_row(size_t n, real factor, real *row) {
    for (size_t c = 0; c < n; c++) row[c] *= factor;
}

static void clear_rows(const attn_plan *plan, size_t rows, attn_scratch *scratch) {
    for (size_t r = 0; r < rows; r++) {
        scratch->max[r] = -(real)INFINITY;
        scratch->sum[r] = scratch->sum_lost[r] = 0;
    }
    if (plan->d_v_padded == 0) return;
    memset(scratch->output, 0, rows * plan->d_v_padded * sizeof(real));
    memset(scratch->lost, 0, rows * plan->d_v_padded * sizeof(real));
}

/* Moves the shift of row r to `max`. */
static void shift_row(const attn_plan *plan, size_t r, real max, attn_scratch *scratch) {
    size_t d = plan->d_v_padded;
    if (scratch->sum[r] > 0) {
        real factor = shift_factor(scratch->max[r], max);
        scratch->sum[r] *= factor;
        scratch->sum_lost[r] *= factor;
        scale_row(d, factor, scratch->output + r * d);
        scale_row(d, factor, scratch->lost + r * d);
    }
    scratch->max[r] = max;
}

/* Scores of a part: q.k -> exp(masked - m), for each row; m and l move along. `key` is the tile's first. */
static void softmax_part(const attn_plan *plan, const attn_rows *rows, const attn_part *part, size_t key,
                         attn_tile_kind kind, attn_scratch *scratch) {
    real peaks[MOST_ROWS], shifts[MOST_ROWS], sums[MOST_ROWS], *s = scratch->scores + part->lo;
    const size_t n = part->hi - part->lo;
    const attn_ops *ops = ATTN_T(attn_ops_of)(plan->kernel);
    const real scale = (real)plan->score_scale;
    if (!plan->direct || kind == ATTN_TILE_MIXED) {
        for (size_t i = 0; i < part->count; i++) {
            ATTN_T(attn_masked_row)
            (plan, rows, part->first + i, key + part->lo, n, kind == ATTN_TILE_MIXED, s + i * plan->tile_k);
        }
    }
    ops->row_max(part->count, n, s, peaks);
    for (size_t i = 0; i < part->count; i++) {
        const size_t r = part->first + i;
        const real *max = &scratch->max[r], peak = peaks[i] * scale;
        if (peak > *max + RESCALE_STEP || *max == -(real)INFINITY) shift_row(plan, r, peak, scratch);
        shifts[i] = *max == -(real)INFINITY ? 0 : *max; /* nothing open yet: all e are 0 */
    }
    ops->exp_sum(part->count, n, s, scale, shifts, sums);
    for (size_t i = 0; i < part->count; i++) {
        ATTN_ADD_COMPENSATED(scratch->sum[part->first + i], scratch->sum_lost[part->first + i], sums[i]);
    }
}

/* Cuts off the keys at both ends that are blocked for all rows of the part. */
static void narrow(const attn_plan *plan, const attn_rows *rows, size_t key, attn_part *part) {
    size_t lo = SIZE_MAX, hi = 0;
    for (size_t i = 0; i < part->count; i++) {
        const size_t query = rows->query + (part->first + i) % rows->queries;
        const attn_span span = attn_query_span(plan->problem, rows->batch, query);
        if (span.lo >= span.hi) continue;
        lo = span.lo < lo ? span.lo : lo;
        hi = span.hi > hi ? span.hi : hi;
    }
    if (hi < key + part->hi) part->hi = hi > key ? hi - key : 0;
    if (lo > key) part->lo = (lo - key) / ATTN_KEY_STEP * ATTN_KEY_STEP;
}

static void attend_tile(attn_plan *plan, const attn_rows *rows, size_t tile, attn_tile_kind kind,
                        attn_scratch *scratch) {
    const attn_ops *ops = ATTN_T(attn_ops_of)(plan->kernel);
    const size_t all = rows->heads * rows->queries, d_v = plan->d_v_padded, key = tile * plan->tile_k;
    const bool mixes = d_v > 0 && plan->results->output.data != NULL;
    const real *keys = ATTN_T(attn_keys_of)(plan, rows, tile, scratch);
    attn_values values = {.data = NULL};
    if (mixes) values = ATTN_T(attn_values_of)(plan, rows, tile, scratch);
    for (attn_part part = {.first = 0}; part.first < all; part.first += part.count) {
        part.count = all - part.first < ops->block_q ? all - part.first : ops->block_q;
        part.lo = 0;
        part.hi = attn_plan_keys(plan, tile);
        if (kind == ATTN_TILE_MIXED) narrow(plan, rows, key, &part);
        if (part.lo >= part.hi) continue;
        ATTN_T(attn_score_rows)(plan, rows, tile, keys, &part, scratch);
        softmax_part(plan, rows, &part, key, kind, scratch);
        if (!mixes) continue;
        ops->mix(part.count, part.hi - part.lo, d_v, scratch->scores + part.lo, values.data + part.lo * values.stride,
                 values.stride, scratch->output + part.first * d_v, scratch->lost + part.first * d_v);
    }
}

/* Lets exp(sink) join the sums of the rows that have an open key: once for each row, at its end. */
static void join_sinks(const attn_plan *plan, const attn_rows *rows, attn_scratch *scratch) {
    const real *sinks = plan->problem->sinks;
    if (sinks == NULL) return;
    for (size_t r = 0; r < rows->heads * rows->queries; r++) {
        const real sink = sinks[rows->head + r / rows->queries];
        if (scratch->max[r] == -(real)INFINITY) continue;
        if (sink > scratch->max[r] + RESCALE_STEP) shift_row(plan, r, sink, scratch);
        ATTN_ADD_COMPENSATED(scratch->sum[r], scratch->sum_lost[r], shift_factor(sink, scratch->max[r]));
    }
}

/* Writes what the results ask for of each row. */
static void finish_rows(const attn_plan *plan, const attn_rows *rows, attn_scratch *scratch) {
    const attn_problem *problem = plan->problem;
    const real *sinks = problem->sinks;
    const attn_out_view *view = &plan->results->output;
    join_sinks(plan, rows, scratch);
    for (size_t r = 0; r < rows->heads * rows->queries; r++) {
        size_t head = rows->head + r / rows->queries, query = rows->query + r % rows->queries;
        const real nothing = sinks != NULL ? sinks[head] : -(real)INFINITY;
        bool open = scratch->max[r] != -(real)INFINITY;
        real sum = scratch->sum[r] - scratch->sum_lost[r];
        if (view->data != NULL) {
            real *to = (real *)view->data + rows->batch * view->batch + head * view->head + query * view->row;
            const real *o = scratch->output + r * plan->d_v_padded, *lost = scratch->lost + r * plan->d_v_padded;
            if (open)
                ATTN_T(attn_ops_of)(plan->kernel)->finish(problem->d_v, o, lost, sum, to);
            else
                for (size_t c = 0; c < problem->d_v; c++) to[c] = 0;
        }
        if (plan->results->lse != NULL) {
            real *lse = (real *)plan->results->lse + (rows->batch * problem->heads + head) * problem->n_q + query;
            *lse = open ? (real)((double)scratch->max[r] + log((double)sum)) : nothing;
        }
        if (plan->stats) {
            real *stats = ATTN_T(attn_stats_of)(plan, rows, r);
            stats[0] = scratch->max[r];
            stats[1] = sum;
        }
    }
}

/* Row r of split `split` of row tile `item`: maximum, sum, output (d_v_padded) side by side. */
static real *partial_of(const attn_plan *plan, size_t item, size_t split, size_t r) {
    real *all = (real *)(void *)(plan->workspace + plan->at_partials);
    return all + ((item * plan->splits + split) * plan->rows + r) * (plan->d_v_padded + 2);
}

static attn_rows rows_of_item(const attn_plan *plan, size_t item) {
    size_t pair = item / plan->row_tiles;
    /* Later queries see more keys under causal: the longest first leaves no thread waiting at the end. */
    size_t tile = plan->row_tiles - 1 - item % plan->row_tiles;
    return attn_plan_rows(plan, pair / plan->problem->kv_heads, pair % plan->problem->kv_heads, tile);
}

void ATTN_T(attn_fused_item)(void *arg, size_t item, size_t slot) {
    attn_plan *plan = arg;
    attn_scratch scratch = ATTN_T(attn_scratch_of)(plan, slot);
    size_t row_tile = item / plan->splits, split = item % plan->splits;
    attn_rows rows = rows_of_item(plan, row_tile);
    size_t count = rows.heads * rows.queries;
    ATTN_T(attn_load_queries)(plan, &rows, (real)plan->query_factor, scratch.queries);
    clear_rows(plan, count, &scratch);

    uint64_t computed = 0;
    size_t first = split * plan->tiles_per_split, end = first + plan->tiles_per_split;
    if (first < rows.any.lo / plan->tile_k) first = rows.any.lo / plan->tile_k;
    for (size_t tile = first; tile < end && tile < plan->key_tiles && tile * plan->tile_k < rows.any.hi; tile++) {
        attn_tile_kind kind = attn_plan_classify(plan, &rows, tile);
        if (kind == ATTN_TILE_BLOCKED) continue;
        if (attn_plan_cancelled(plan)) return;
        attend_tile(plan, &rows, tile, kind, &scratch);
        computed++;
    }
    atomic_fetch_add_explicit(plan->kernel->tiles, computed, memory_order_relaxed);
    if (plan->splits == 1) {
        finish_rows(plan, &rows, &scratch);
        return;
    }
    for (size_t r = 0; r < count; r++) {
        real *partial = partial_of(plan, row_tile, split, r);
        const real *o = scratch.output + r * plan->d_v_padded, *lost = scratch.lost + r * plan->d_v_padded;
        partial[0] = scratch.max[r];
        partial[1] = scratch.sum[r] - scratch.sum_lost[r];
        for (size_t c = 0; c < plan->d_v_padded; c++) partial[2 + c] = o[c] - lost[c];
    }
}

/* Joins the splits of one row tile: with M the greatest of their m, each l and O counts exp(m - M) times. */
void ATTN_T(attn_merge_item)(void *arg, size_t item, size_t slot) {
    attn_plan *plan = arg;
    attn_scratch scratch = ATTN_T(attn_scratch_of)(plan, slot);
    attn_rows rows = rows_of_item(plan, item);
    size_t count = rows.heads * rows.queries, d = plan->d_v_padded;
    clear_rows(plan, count, &scratch);
    for (size_t r = 0; r < count; r++) {
        for (size_t split = 0; split < plan->splits; split++) {
            real max = partial_of(plan, item, split, r)[0];
            if (max > scratch.max[r]) scratch.max[r] = max;
        }
        for (size_t split = 0; split < plan->splits; split++) {
            real *partial = partial_of(plan, item, split, r);
            if (partial[0] == -(real)INFINITY) continue;
            real factor = shift_factor(partial[0], scratch.max[r]);
            scale_row(d + 1, factor, partial + 1);
            ATTN_ADD_COMPENSATED(scratch.sum[r], scratch.sum_lost[r], partial[1]);
            add_row(d, scratch.output + r * d, scratch.lost + r * d, partial + 2);
        }
    }
    finish_rows(plan, &rows, &scratch);
}
