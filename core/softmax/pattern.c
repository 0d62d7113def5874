/* pattern.c: patterns of open keys: Longformer's dilated windows and global tokens, BigBird's blocks. */
#include "pattern.h"

#include <string.h>

/* Positions stay within +-2^53, so sums with a reach this wide fit int64_t. */
#define FARTHEST ((int64_t)1 << 60)

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t step_of(const attn_pattern *pattern, size_t head) {
    return pattern->dilation != NULL ? pattern->dilation[head] : 1;
}

/* How far a side of the window reaches, in keys */
static int64_t reach(const attn_problem *problem, int64_t side, int64_t step) {
    if (!problem->has_window || side == ATTN_OPEN_SIDE || side > FARTHEST / step) return FARTHEST;
    return side * step;
}

typedef struct range {
    int64_t lo, hi; /* lo <= x <= hi */
} range;

static range window_of(const attn_problem *problem, size_t head, int64_t position) {
    const int64_t step = step_of(problem->pattern, head);
    return (range){position - reach(problem, problem->window_left, step),
                   position + reach(problem, problem->window_right, step)};
}

/* ---- global tokens ---------------------------------------------------------------------------------------------- */

static const int64_t *globals_of(const attn_pattern *pattern, size_t batch) {
    return pattern->globals + batch * pattern->globals_batch;
}

/* Index of the first global token at or after `key` */
static size_t next_global(const attn_pattern *pattern, size_t batch, int64_t key) {
    const int64_t *globals = globals_of(pattern, batch);
    size_t lo = 0, hi = pattern->global_count;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (globals[middle] < key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

static bool has_global(const attn_pattern *pattern, size_t batch, range keys) {
    if (pattern->global_count == 0) return false;
    const size_t next = next_global(pattern, batch, keys.lo);
    return next < pattern->global_count && globals_of(pattern, batch)[next] <= keys.hi;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* The block of a position, which may be negative */
static int64_t block_of(const attn_pattern *pattern, int64_t position) {
    const int64_t size = (int64_t)pattern->block_size;
    return position >= 0 ? position / size : -((-position + size - 1) / size);
}

static int64_t block_count(const attn_problem *problem) {
    return block_of(problem->pattern, (int64_t)(problem->n_past + problem->n_new) - 1) + 1;
}

static bool is_global_block(const attn_pattern *pattern, int64_t blocks, int64_t block) {
    const int64_t ends = (int64_t)pattern->global_blocks;
    return block >= 0 && block < blocks && (block < ends || block >= blocks - ends);
}

/* The random blocks of a block of queries; *count is how many. */
static const int64_t *random_blocks(const attn_pattern *pattern, size_t head, int64_t block, size_t *count) {
    const int64_t row = block - (int64_t)pattern->global_blocks;
    *count = 0;
    if (pattern->random == NULL || row < 0 || row >= (int64_t)pattern->random_rows) return NULL;
    *count = pattern->random_count;
    return pattern->random + head * pattern->random_head + (size_t)row * pattern->random_count;
}

/* true if a block of queries may attend to one of some blocks of keys */
static bool blocks_touch(const attn_pattern *pattern, int64_t blocks, size_t head, int64_t query, range keys) {
    const int64_t ends = (int64_t)pattern->global_blocks, side = (int64_t)pattern->window_blocks;
    size_t count;
    if (is_global_block(pattern, blocks, query)) return true;
    if (keys.lo < ends || keys.hi >= blocks - ends) return true;
    if (keys.lo <= query + side && keys.hi >= query - side) return true;
    const int64_t *random = random_blocks(pattern, head, query, &count);
    for (size_t i = 0; i < count; i++)
        if (random[i] >= keys.lo && random[i] <= keys.hi) return true;
    return false;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static void close_all(int64_t n, uint8_t *may) {
    if (n > 0) memset(may, 0, (size_t)n);
}

static void close_blocks(const attn_problem *problem, size_t head, int64_t position, range keys, uint8_t *may) {
    const attn_pattern *pattern = problem->pattern;
    const int64_t size = (int64_t)pattern->block_size, blocks = block_count(problem), own = block_of(pattern, position);
    for (int64_t block = block_of(pattern, keys.lo); block * size <= keys.hi; block++) {
        const int64_t lo = larger(block * size, keys.lo), hi = smaller(block * size + size - 1, keys.hi);
        if (!blocks_touch(pattern, blocks, head, own, (range){block, block}))
            close_all(hi - lo + 1, may + (lo - keys.lo));
    }
}

static void close_between_steps(int64_t step, int64_t position, range keys, uint8_t *may) {
    int64_t after = (keys.lo - position) % step; /* of the first key since the last that is on a step */
    if (after < 0) after += step;
    for (int64_t j = 0; j <= keys.hi - keys.lo; j++) {
        if (after != 0) may[j] = 0;
        after = after + 1 == step ? 0 : after + 1;
    }
}

void attn_pattern_row(const attn_problem *problem, size_t batch, size_t head, int64_t position, size_t key, size_t n,
                      uint8_t *may) {
    const attn_pattern *pattern = problem->pattern;
    if (n == 0) return;
    const range keys = {(int64_t)key, (int64_t)(key + n) - 1};
    memset(may, 1, n);
    if (has_global(pattern, batch, (range){position, position})) return;
    const range window = window_of(problem, head, position);
    const int64_t step = step_of(pattern, head), count = (int64_t)n;
    close_all(smaller(window.lo - keys.lo, count), may);
    const int64_t end = larger(window.hi + 1 - keys.lo, 0);
    close_all(count - end, may + smaller(end, count));
    if (step > 1) close_between_steps(step, position, keys, may);
    if (pattern->block_size > 0) close_blocks(problem, head, position, keys, may);
    if (pattern->global_count == 0) return;
    const int64_t *globals = globals_of(pattern, batch);
    for (size_t g = next_global(pattern, batch, keys.lo); g < pattern->global_count && globals[g] <= keys.hi; g++)
        may[globals[g] - keys.lo] = 1;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------ */

bool attn_pattern_touches(const attn_problem *problem, size_t batch, size_t head, int64_t first, int64_t last,
                          size_t key, size_t n) {
    const attn_pattern *pattern = problem->pattern;
    const range keys = {(int64_t)key, (int64_t)(key + n) - 1};
    if (has_global(pattern, batch, keys) || has_global(pattern, batch, (range){first, last})) return true;
    if (keys.hi < window_of(problem, head, first).lo || keys.lo > window_of(problem, head, last).hi) return false;
    if (pattern->block_size == 0) return true;
    const int64_t blocks = block_count(problem), end = block_of(pattern, last);
    const range wanted = {block_of(pattern, keys.lo), block_of(pattern, keys.hi)};
    for (int64_t block = block_of(pattern, first); block <= end; block++)
        if (blocks_touch(pattern, blocks, head, block, wanted)) return true;
    return false;
}

bool attn_pattern_covers(const attn_problem *problem, size_t head, int64_t first, int64_t last, size_t key, size_t n) {
    const attn_pattern *pattern = problem->pattern;
    if (step_of(pattern, head) > 1) return false;
    if ((int64_t)key < window_of(problem, head, last).lo || (int64_t)(key + n) - 1 > window_of(problem, head, first).hi)
        return false;
    if (pattern->block_size == 0) return true;
    const int64_t blocks = block_count(problem), end = block_of(pattern, last);
    const int64_t last_key = block_of(pattern, (int64_t)(key + n) - 1);
    for (int64_t block = block_of(pattern, first); block <= end; block++)
        for (int64_t other = block_of(pattern, (int64_t)key); other <= last_key; other++)
            if (!blocks_touch(pattern, blocks, head, block, (range){other, other})) return false;
    return true;
}

double attn_pattern_count(const attn_problem *problem, size_t batch, int64_t position, size_t lo, size_t hi) {
    const attn_pattern *pattern = problem->pattern;
    const double all = hi > lo ? (double)(hi - lo) : 0;
    if (has_global(pattern, batch, (range){position, position})) return all;
    const range window = window_of(problem, 0, position);
    const int64_t first = larger(window.lo, (int64_t)lo), last = smaller(window.hi, (int64_t)hi - 1);
    double count = last >= first ? (double)(last - first + 1) / (double)step_of(pattern, 0) : 0;
    if (pattern->block_size > 0 && !is_global_block(pattern, block_count(problem), block_of(pattern, position))) {
        const size_t blocks = 2 * pattern->global_blocks + 2 * pattern->window_blocks + 1 + pattern->random_count;
        const double most = (double)blocks * (double)pattern->block_size;
        if (count > most) count = most;
    }
    count += (double)pattern->global_count;
    return count < all ? count : all;
}
