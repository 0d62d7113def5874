/* features.h: which options a softmax problem uses, one bit each (inside core/ only).
 *
 * An option of the mathematics is a row here. The tiles (tile.h, fused.c, stages.c) and wide_range.c know all of them.
 * A path that is faster for some problems lists the bits it knows; it is not taken for a problem with another bit. So a
 * new option is right before any fast path has heard of it.
 */
#ifndef ATTN_FEATURES_H
#define ATTN_FEATURES_H

#include "../attention.h"

/* FEATURE(name, condition on `problem`) */
#define ATTN_FEATURE_LIST(FEATURE)                 \
    FEATURE(PAST, problem->n_past != 0)            \
    FEATURE(MASK, problem->mask.data != NULL)      \
    FEATURE(BIAS, problem->bias.data != NULL)      \
    FEATURE(KEY_MASK, problem->key_mask != NULL)   \
    FEATURE(SEGMENTS, problem->segments != NULL)   \
    FEATURE(PATTERN, problem->pattern != NULL)     \
    FEATURE(LENGTHS, problem->kv_lengths != NULL)  \
    FEATURE(OFFSET, problem->query_offset != NULL) \
    FEATURE(CAUSAL, problem->causal)               \
    FEATURE(WINDOW, problem->has_window)           \
    FEATURE(SOFTCAP, problem->softcap != 0)        \
    FEATURE(SINKS, problem->sinks != NULL)         \
    FEATURE(SCALES, problem->head_scales != NULL)  \
    FEATURE(DISTANCE, problem->alibi != NULL || problem->relative_bias != NULL)

typedef uint32_t attn_features;

enum {
#define ATTN_PLACE(name, condition) ATTN_PLACE_##name,
    ATTN_FEATURE_LIST(ATTN_PLACE)
#undef ATTN_PLACE
        ATTN_FEATURE_COUNT
};

enum {
#define ATTN_BIT(name, condition) ATTN_HAS_##name = 1 << ATTN_PLACE_##name,
    ATTN_FEATURE_LIST(ATTN_BIT)
#undef ATTN_BIT
};

/* A new member of attn_problem needs a row above, unless it is a size, a tensor that is always there, the scale, is
 * applied before (rope), or belongs to another kind. */
_Static_assert(sizeof(void *) != 8 || sizeof(attn_problem) == 480, "attn_problem has changed: see ATTN_FEATURE_LIST");

static inline attn_features attn_features_of(const attn_problem *problem) {
    attn_features features = 0;
#define ATTN_SET(name, condition) features |= (condition) ? (attn_features)ATTN_HAS_##name : 0;
    ATTN_FEATURE_LIST(ATTN_SET)
#undef ATTN_SET
    return features;
}

/* true if a path that knows `known` can do a problem with `features` */
static inline bool attn_knows(attn_features known, attn_features features) { return (features & ~known) == 0; }

#endif
