/* fields.h: the names a request may hold, and those it may ask for (inside api/ only). */
#ifndef API_FIELDS_H
#define API_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum api_endpoint { API_ATTENTION = 1, API_MHA = 2 } api_endpoint;

/*      enum name, field, endpoints that know it */
#define API_FIELD_LIST(ROW)                                        \
    ROW(Q, "q", API_ATTENTION)                                     \
    ROW(K, "k", API_ATTENTION)                                     \
    ROW(V, "v", API_ATTENTION)                                     \
    ROW(LAYOUT, "layout", API_ATTENTION)                           \
    ROW(X, "x", API_MHA)                                           \
    ROW(CONTEXT, "context", API_MHA)                               \
    ROW(W_Q, "w_q", API_MHA)                                       \
    ROW(W_K, "w_k", API_MHA)                                       \
    ROW(W_V, "w_v", API_MHA)                                       \
    ROW(W_O, "w_o", API_MHA)                                       \
    ROW(W_QKV, "w_qkv", API_MHA)                                   \
    ROW(B_Q, "b_q", API_MHA)                                       \
    ROW(B_K, "b_k", API_MHA)                                       \
    ROW(B_V, "b_v", API_MHA)                                       \
    ROW(B_O, "b_o", API_MHA)                                       \
    ROW(B_QKV, "b_qkv", API_MHA)                                   \
    ROW(WEIGHT_LAYOUT, "weight_layout", API_MHA)                   \
    ROW(HEAD_MASK, "head_mask", API_MHA)                           \
    ROW(NUM_HEADS, "num_heads", API_ATTENTION | API_MHA)           \
    ROW(NUM_KV_HEADS, "num_kv_heads", API_ATTENTION | API_MHA)     \
    ROW(MASK, "mask", API_ATTENTION | API_MHA)                     \
    ROW(BIAS, "bias", API_ATTENTION | API_MHA)                     \
    ROW(KV_LENGTHS, "kv_lengths", API_ATTENTION | API_MHA)         \
    ROW(CAUSAL, "causal", API_ATTENTION | API_MHA)                 \
    ROW(QUERY_OFFSET, "query_offset", API_ATTENTION | API_MHA)     \
    ROW(WINDOW, "window", API_ATTENTION | API_MHA)                 \
    ROW(SCALE, "scale", API_ATTENTION | API_MHA)                   \
    ROW(SOFTCAP, "softcap", API_ATTENTION | API_MHA)               \
    ROW(PAST_K, "past_k", API_ATTENTION | API_MHA)                 \
    ROW(PAST_V, "past_v", API_ATTENTION | API_MHA)                 \
    ROW(RETURN, "return", API_ATTENTION | API_MHA)                 \
    ROW(RETURN_WEIGHTS, "return_weights", API_ATTENTION | API_MHA) \
    ROW(TRACE, "trace", API_ATTENTION | API_MHA)                   \
    ROW(TOKENS, "tokens", API_ATTENTION | API_MHA)                 \
    ROW(KEY_TOKENS, "key_tokens", API_ATTENTION | API_MHA)         \
    ROW(DTYPE, "dtype", API_ATTENTION | API_MHA)                   \
    ROW(REPLY_DTYPE, "reply_dtype", API_ATTENTION | API_MHA)       \
    ROW(FORMAT, "format", API_ATTENTION | API_MHA)

typedef enum api_field {
#define ROW(name, field, endpoints) API_FIELD_##name,
    API_FIELD_LIST(ROW)
#undef ROW
        API_FIELD_COUNT
} api_field;

/*      enum name, name in `return` and in the reply, endpoints that know it */
#define API_NAME_LIST(ROW)                               \
    ROW(OUTPUT, "output", API_ATTENTION | API_MHA)       \
    ROW(WEIGHTS, "weights", API_ATTENTION | API_MHA)     \
    ROW(SCORES, "scores", API_ATTENTION | API_MHA)       \
    ROW(SCALED, "scaled", API_ATTENTION | API_MHA)       \
    ROW(CAPPED, "capped", API_ATTENTION | API_MHA)       \
    ROW(MASKED, "masked", API_ATTENTION | API_MHA)       \
    ROW(LSE, "lse", API_ATTENTION | API_MHA)             \
    ROW(PRESENT_K, "present_k", API_ATTENTION | API_MHA) \
    ROW(PRESENT_V, "present_v", API_ATTENTION | API_MHA) \
    ROW(Q, "q", API_MHA)                                 \
    ROW(K, "k", API_MHA)                                 \
    ROW(V, "v", API_MHA)                                 \
    ROW(HEADS, "heads", API_MHA)

typedef enum api_name {
#define ROW(name, text, endpoints) API_NAME_##name,
    API_NAME_LIST(ROW)
#undef ROW
        API_NAME_COUNT
} api_name;

/* A name with the endpoints that know it: rows of the two tables, in the order of the enums. */
typedef struct api_known_name {
    const char *name;
    unsigned endpoints;
} api_known_name;
extern const api_known_name api_fields[API_FIELD_COUNT];
extern const api_known_name api_names[API_NAME_COUNT];

/* Index in names[0..count) of the one that `endpoint` knows by this name; `count` where there is none. */
size_t api_known_find(const api_known_name *names, size_t count, api_endpoint endpoint, const char *name);
/* The known name nearest to `name`: fewest letters inserted, left out, changed or swapped with their neighbour. */
const char *api_known_nearest(const api_known_name *names, size_t count, api_endpoint endpoint, const char *name);
/* The known names as "a, b, c". */
void api_known_list(const api_known_name *names, size_t count, api_endpoint endpoint, char *text, size_t capacity);

#endif
