/* segments.c: where the keys of each segment stand: sequences packed side by side, told apart by ids. */
#include <stdlib.h>

#include "../attention.h"

static int compare_runs(const void *a, const void *b) {
    const attn_segment_run *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* The runs of equal ids, in their order. Returns their number. */
static size_t find_runs(size_t n_k, const int64_t *of_key, attn_segment_run *runs) {
    size_t count = 0;
    for (size_t j = 0; j < n_k; j++) {
        if (j == 0 || of_key[j] != of_key[j - 1]) runs[count++] = (attn_segment_run){of_key[j], j, j};
        runs[count - 1].hi = j + 1;
    }
    return count;
}

/* Joins sorted runs of one id to one from the first to the last. Returns how many are left. */
static size_t join_runs(size_t count, attn_segment_run *runs) {
    size_t left = 0;
    for (size_t r = 0; r < count; r++) {
        if (left > 0 && runs[left - 1].id == runs[r].id)
            runs[left - 1].hi = runs[r].hi;
        else
            runs[left++] = runs[r];
    }
    return left;
}

/* The run of that id among sorted ones; NULL: none */
static const attn_segment_run *find_id(size_t count, const attn_segment_run *runs, int64_t id) {
    size_t lo = 0, hi = count;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (runs[middle].id < id)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < count && runs[lo].id == id ? &runs[lo] : NULL;
}

bool attn_segment_spans(size_t n_q, const int64_t *of_query, size_t n_k, const int64_t *of_key, attn_segment_run *runs,
                        size_t *spans) {
    const size_t count = find_runs(n_k, of_key, runs);
    if (count > 0) qsort(runs, count, sizeof *runs, compare_runs);
    const size_t segments = join_runs(count, runs);
    for (size_t i = 0; i < n_q; i++) {
        const attn_segment_run *run = find_id(segments, runs, of_query[i]);
        spans[2 * i] = run != NULL ? run->lo : 0;
        spans[2 * i + 1] = run != NULL ? run->hi : 0;
    }
    return segments < count;
}
