/* pattern.h: which keys dilation, global tokens, blocks and the window beside them leave open (inside core/ only).
 *
 * A problem with a pattern has its window there and not in its spans: global tokens are open outside of it, and
 * dilation counts it in steps. `position` of a query is query + offset, its index among the keys.
 */
#ifndef ATTN_PATTERN_H
#define ATTN_PATTERN_H

#include "../attention.h"

/* may[j] = 1 if the pattern leaves key + j open to a query, else 0; j < n, key + n at most the number of keys. */
void attn_pattern_row(const attn_problem *problem, size_t batch, size_t head, int64_t position, size_t key, size_t n,
                      uint8_t *may);
/* false: no key of key ... key + n - 1 is open to a query from position `first` to `last`. Takes no look at cells. */
bool attn_pattern_touches(const attn_problem *problem, size_t batch, size_t head, int64_t first, int64_t last,
                          size_t key, size_t n);
/* true: all of them are open. Some that are may be missed. */
bool attn_pattern_covers(const attn_problem *problem, size_t head, int64_t first, int64_t last, size_t key, size_t n);
/* About how many keys lo <= j < hi the pattern leaves open to a query of head 0. */
double attn_pattern_count(const attn_problem *problem, size_t batch, int64_t position, size_t lo, size_t hi);

#endif
