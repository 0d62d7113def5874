/* sparse.c: dilation, global_tokens and block_sparse, which open some keys of each query (docs/api.md). */
#include <stdlib.h>
#include <string.h>

#include "../numbers/random.h"
#include "attention_fields.h"

static size_t keys_of(const attn_problem *p) { return p->n_past + p->n_new; }

static void *take_memory(api_form *form, size_t count, size_t size) {
    void *piece = api_small(form->memory, api_times_sizes(count, size));
    if (piece) return piece;
    form->broken = true;
    api_error_memory(form->error, form->memory);
    return NULL;
}

static bool has_field(const api_form *form, const char *name) {
    return api_form_has(form, (api_field)api_field_find(form->schema, name));
}

/* ---- dilation --------------------------------------------------------------------------------------------------- */

static bool steps_fit(api_form *form, const api_tensor *steps) {
    const int64_t *x = steps->data;
    for (size_t h = 0; h < steps->count; h++)
        if (x[h] < 1) {
            api_tensor_fault(form, steps, h, true, API_OUT_OF_RANGE, "expected integers of at least 1, got %lld",
                             (long long)x[h]);
            return false;
        }
    return true;
}

static void set_dilation(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_problem *p = &a->mha.attention;
    const api_value *value = api_form_value(form, form->slots[field].json);
    if (value && value->rank == 0) {
        size_t step;
        if (!api_form_count(form, field, &step) || !a->sized) return;
        int64_t *steps = take_memory(form, p->heads + 1, sizeof *steps);
        for (size_t h = 0; steps && h < p->heads; h++) steps[h] = (int64_t)step;
        a->pattern.dilation = steps;
    } else {
        api_tensor steps;
        api_form_tensor(form, field, &steps);
        if (!api_one_per_head(form, a, &steps) || !steps_fit(form, &steps)) return;
        a->pattern.dilation = steps.data;
    }
    p->pattern = &a->pattern;
}

/* ---- block_sparse ----------------------------------------------------------------------------------------------- */

enum { BLOCK_SIZE, WINDOW_BLOCKS, GLOBAL_BLOCKS, RANDOM_BLOCKS };
static const api_field_row block_rows[] = {
    [BLOCK_SIZE] = {"block_size", API_INTEGER, 0, 0, 0, NULL},
    [WINDOW_BLOCKS] = {"window_blocks", API_INTEGER, 0, 0, 0, NULL},
    [GLOBAL_BLOCKS] = {"global_blocks", API_INTEGER, 0, 0, 0, NULL},
    [RANDOM_BLOCKS] = {"random_blocks", API_INTEGERS | API_OBJECT, 2, 3, 0, NULL},
};
static const api_field_table block_table = API_TABLE(block_rows);
static const api_schema block_schema = {"block_sparse", {&block_table}, {NULL}};

enum { COUNT, SEED };
enum { MOST_RANDOM = 64 };
static const api_field_row draw_rows[] = {
    [COUNT] = {"count", API_INTEGER, 0, 0, 0, NULL},
    [SEED] = {"seed", API_INTEGER, 0, 0, API_REQUIRED, NULL},
};
static const api_field_table draw_table = API_TABLE(draw_rows);
static const api_schema draw_schema = {"random_blocks", {&draw_table}, {NULL}};

/* An integer of at least `least`, if the field is there. false: a fault */
static bool read_size(api_form *form, api_field field, int64_t least, size_t *size) {
    int64_t x;
    if (!api_form_has(form, field)) return true;
    if (!api_form_integer(form, field, &x)) return false;
    if (x < least) {
        api_form_fault(form, field, API_OUT_OF_RANGE, "expected an integer of at least %lld, got %lld",
                       (long long)least, (long long)x);
        return false;
    }
    *size = (size_t)x;
    return true;
}

static size_t block_count(const attn_problem *p, const attn_pattern *pattern) {
    const size_t n_k = keys_of(p);
    return n_k / pattern->block_size + (n_k % pattern->block_size != 0);
}

/* The blocks between both ends */
static size_t middle_count(const attn_problem *p, const attn_pattern *pattern) {
    const size_t blocks = block_count(p, pattern);
    return pattern->global_blocks < blocks - blocks / 2 ? blocks - 2 * pattern->global_blocks : 0;
}

/* random_blocks as lists: (between, r) or (heads, between, r) */
static void read_lists(api_form *form, const api_attention_state *a, attn_pattern *pattern) {
    const attn_problem *p = &a->mha.attention;
    api_tensor lists;
    char got[API_SHAPE_TEXT];
    api_form_tensor(form, RANDOM_BLOCKS, &lists);
    if (!lists.ok || form->broken) return;
    const size_t rows = middle_count(p, pattern), *shape = lists.shape + (lists.rank - 2);
    if (shape[0] != rows || (lists.rank == 3 && lists.shape[0] != p->heads)) {
        api_form_fault(form, RANDOM_BLOCKS, API_SHAPE_MISMATCH,
                       "expected the shape [%zu, r] or [%zu, %zu, r], a list for each block between the global ones, "
                       "got %s",
                       rows, p->heads, rows, api_shape_text(got, lists.rank, lists.shape));
        return;
    }
    const int64_t *blocks = lists.data;
    for (size_t i = 0; i < lists.count; i++)
        if (blocks[i] < -1 || (blocks[i] >= 0 && (uint64_t)blocks[i] >= block_count(p, pattern))) {
            api_tensor_fault(form, &lists, i, true, API_OUT_OF_RANGE,
                             "expected blocks from 0 to %zu, or -1 for none, got %lld", block_count(p, pattern) - 1,
                             (long long)blocks[i]);
            return;
        }
    pattern->random = blocks;
    pattern->random_rows = rows;
    pattern->random_count = shape[1];
    pattern->random_head = lists.rank == 3 ? rows * shape[1] : 0;
}

/* The blocks of one row, drawn by Floyd's method among those that are open by nothing else; what is left is -1, no
 * block. `number` counts the draws of the seed. */
static void draw_row(const attn_pattern *pattern, size_t blocks, size_t row, uint64_t seed, uint64_t number,
                     int64_t *to) {
    const size_t ends = pattern->global_blocks, own = ends + row, end = blocks - ends;
    const size_t low =
        own - ends > pattern->window_blocks ? own - pattern->window_blocks : ends; /* ends to low - 1 ... */
    const size_t high =
        end - own > pattern->window_blocks ? own + pattern->window_blocks + 1 : end; /* high to end - 1 */
    const size_t below = low - ends, free_blocks = below + (end - high);
    size_t found = 0;
    for (size_t t = 0; t < pattern->random_count; t++) to[t] = -1;
    if (free_blocks == 0) return;
    const size_t wanted = pattern->random_count < free_blocks ? pattern->random_count : free_blocks;
    for (size_t most = free_blocks - wanted; most < free_blocks; most++) {
        size_t rank = (size_t)(api_random_bits(seed, number + found) % (most + 1));
        for (int again = 0; again < 2; again++) {
            const int64_t block = (int64_t)(rank < below ? ends + rank : high + (rank - below));
            bool taken = false;
            for (size_t i = 0; i < found; i++) taken |= to[i] == block;
            if (!taken || again) {
                to[found++] = block;
                break;
            }
            rank = most;
        }
    }
}

/* random_blocks as {count, seed}: every head draws its own */
static void draw_blocks(api_form *form, const api_attention_state *a, attn_pattern *pattern) {
    const attn_problem *p = &a->mha.attention;
    const size_t rows = middle_count(p, pattern), blocks = block_count(p, pattern);
    size_t count = 3, seed = 0;
    api_form inner;
    if (!api_form_open(form, RANDOM_BLOCKS, &draw_schema, &inner)) return;
    api_form_require(&inner);
    if (read_size(&inner, COUNT, 0, &count) && count > MOST_RANDOM)
        api_form_fault(&inner, COUNT, API_OUT_OF_RANGE, "expected an integer up to %d, got %zu", MOST_RANDOM, count);
    read_size(&inner, SEED, 0, &seed);
    form->broken |= inner.broken;
    if (form->broken || count == 0) return;
    int64_t *drawn = take_memory(form, api_times_sizes(api_times_sizes(rows, count), p->heads) + 1, sizeof *drawn);
    if (!drawn) return;
    pattern->random = drawn;
    pattern->random_rows = rows;
    pattern->random_count = count;
    pattern->random_head = rows * count;
    for (size_t r = 0; r < p->heads * rows; r++)
        draw_row(pattern, blocks, r % rows, seed, r * count, drawn + r * count);
}

static void set_block_sparse(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_pattern *pattern = &a->pattern;
    api_form inner;
    if (!api_form_open(form, field, &block_schema, &inner)) return;
    size_t size = 64, window = 1, ends = 1;
    read_size(&inner, BLOCK_SIZE, 1, &size);
    read_size(&inner, WINDOW_BLOCKS, 0, &window);
    read_size(&inner, GLOBAL_BLOCKS, 0, &ends);
    form->broken |= inner.broken;
    if (inner.broken || !a->sized) return;
    pattern->block_size = size;
    pattern->window_blocks = window;
    pattern->global_blocks = ends;
    const json_t *random = inner.slots[RANDOM_BLOCKS].json;
    if (json_is_object(random) && !json_object_get(random, "shape"))
        draw_blocks(&inner, a, pattern);
    else if (random)
        read_lists(&inner, a, pattern);
    form->broken |= inner.broken;
    a->mha.attention.pattern = pattern;
}

/* ---- global_tokens ---------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* After what they are exempt from. */
static void set_global_tokens(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_problem *p = &a->mha.attention;
    api_tensor t;
    api_form_tensor(form, field, &t);
    if (!has_field(form, "window") && !has_field(form, "dilation") && !has_field(form, "block_sparse"))
        api_form_fault(form, field, API_OUT_OF_RANGE,
                       "has a meaning only with window, dilation or block_sparse, none of which is there");
    if (!t.ok || !a->sized) return;
    if (t.rank == 2 && t.shape[0] != p->batch) {
        char got[API_SHAPE_TEXT];
        api_form_fault(form, field, API_SHAPE_MISMATCH, "expected the shape [g] or [%zu, g], got %s", p->batch,
                       api_shape_text(got, t.rank, t.shape));
        return;
    }
    const int64_t *given = t.data;
    for (size_t i = 0; i < t.count; i++)
        if (given[i] < 0 || (uint64_t)given[i] >= keys_of(p)) {
            api_tensor_fault(form, &t, i, true, API_OUT_OF_RANGE,
                             "expected keys from 0 to n_past + n_k - 1 = %lld, got %lld", (long long)keys_of(p) - 1,
                             (long long)given[i]);
            return;
        }
    int64_t *sorted = take_memory(form, t.count + 1, sizeof *sorted);
    if (!sorted) return;
    const size_t count = t.shape[t.rank - 1];
    if (t.count > 0) memcpy(sorted, given, t.count * sizeof *sorted);
    for (size_t row = 0; count > 0 && row < t.count / count; row++)
        qsort(sorted + row * count, count, sizeof *sorted, compare);
    a->pattern.globals = sorted;
    a->pattern.global_count = count;
    a->pattern.globals_batch = t.rank == 2 ? count : 0;
    p->pattern = &a->pattern;
}

static const api_field_row rows[] = {
    {"dilation", API_INTEGER | API_INTEGERS, 1, 1, API_CLOSES_KEYS, set_dilation},
    {"block_sparse", API_OBJECT, 0, 0, API_CLOSES_KEYS, set_block_sparse},
    {"global_tokens", API_INTEGERS, 1, 2, 0, set_global_tokens},
};
const api_field_table api_attention_sparse = API_TABLE(rows);
