/* attention.h: exact scaled dot-product attention and multi-head attention.
 *
 *     output = softmax( softcap( scale * q k^T ) + bias, masked ) v
 *
 * This header is the whole public face of core/. It knows nothing of JSON, HTTP, files or the environment.
 * Everything is row-major; sizes and strides are counted in elements, never in bytes. Numbers are float (ATTN_F32)
 * or double (ATTN_F64), one type for a whole problem: a pointer that is `void *` points to numbers of that type.
 * Every function may be called from any thread unless it says otherwise; inputs are never written to.
 */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum attn_dtype { ATTN_F32, ATTN_F64 } attn_dtype;

/* bytes of one number: 4 or 8 */
static inline size_t attn_sizeof(attn_dtype dtype) { return dtype == ATTN_F64 ? sizeof(double) : sizeof(float); }

/* The calculations that turn scores into an output: a line each, the first the one of a problem that says nothing.
 * KIND(ATTN_NAME, name): core/calculation.h says what a line needs. */
#define ATTN_KIND_LIST(KIND)    \
    KIND(ATTN_SOFTMAX, softmax) \
    KIND(ATTN_LINEAR, linear) KIND(ATTN_LINFORMER, linformer) KIND(ATTN_DIFFERENTIAL, differential)

typedef enum attn_kind {
#define ATTN_KIND_MEMBER(KIND, name) KIND,
    ATTN_KIND_LIST(ATTN_KIND_MEMBER)
#undef ATTN_KIND_MEMBER
} attn_kind;

/* The name of kind `index`; NULL past the last. */
const char *attn_kind_name(size_t index);

typedef enum attn_status {
    ATTN_OK,
    ATTN_OVERFLOW,  /* a number that is used or asked for does not fit the type; attn_fault says which */
    ATTN_CANCELLED, /* the caller's cancel flag was seen set; outputs hold nothing of use */
} attn_status;

/* ---- the engine: which kernels, which threads ------------------------------------------------------------------ */

typedef struct attn_kernel attn_kernel; /* one row of the kernel table; static, never freed */
typedef struct attn_pool attn_pool;     /* threads that share work items */

/* Row `index` of the kernel table, best first, the portable one last; NULL past the end. */
const attn_kernel *attn_kernel_at(size_t index);
const char *attn_kernel_name(const attn_kernel *kernel);
/* true if this CPU has the instructions of the row */
bool attn_kernel_supported(const attn_kernel *kernel);
/* The row of that name, or the best supported one if name is NULL. NULL: no such row, or not on this CPU. */
const attn_kernel *attn_kernel_find(const char *name);
/* How many tiles of scores this row has computed since the process began: tests check that a forced row really ran. */
uint64_t attn_kernel_tiles(const attn_kernel *kernel);

/* A pool of `threads` threads (at least 1), started at once. NULL: out of memory or threads. */
attn_pool *attn_pool_new(size_t threads);
/* Waits for every submitted task, then ends the threads. NULL is allowed. */
void attn_pool_free(attn_pool *pool);
/* The number of slots that attn_pool_for hands out: threads + 1, as the caller helps; 1 for NULL. */
size_t attn_pool_slots(const attn_pool *pool);

/* A task is owned by the caller and must live until it has run. */
typedef struct attn_task {
    void (*run)(struct attn_task *task);
    struct attn_task *next; /* the pool's */
} attn_task;
/* Runs task->run(task) on a thread of the pool: first in, first out, one thread each. Never fails, never blocks. */
void attn_pool_submit(attn_pool *pool, attn_task *task);

/* Runs body(arg, item, slot) once for each item in [0, items) and returns when all are done. The calling thread takes
 * part; threads of the pool that have nothing else to do help. `slot` < attn_pool_slots(pool) is held by one thread
 * at a time, for scratch memory. May be called from inside a task, and by several threads at once. With pool NULL, or
 * one item, everything runs on the calling thread without a lock. */
void attn_pool_for(attn_pool *pool, size_t items, void (*body)(void *arg, size_t item, size_t slot), void *arg);

typedef struct attn_engine {
    const attn_kernel *kernel; /* never NULL */
    attn_pool *pool;           /* NULL: the calling thread alone. The bits of a result do not depend on it */
} attn_engine;

/* "OpenBLAS 0.3.21 (Haswell)" or alike. Static storage. */
const char *attn_blas_version(void);

/* ---- one attention problem -------------------------------------------------------------------------------------- */

/* A (batch, heads, rows, d) tensor that is not owned: element (b, h, i, c) is data[b*batch + h*head + i*row + c].
 * Any layout of the contract is a matter of strides. */
typedef struct attn_view {
    const void *data;
    size_t batch, head, row;
} attn_view;

typedef struct attn_out_view {
    void *data;
    size_t batch, head, row;
} attn_out_view;

/* Something that broadcasts to (batch, heads, n_q, n_k): a stride of 0 if its axis has length 1. data NULL: none */
typedef struct attn_broadcast {
    const void *data;
    size_t batch, head, query, key;
} attn_broadcast;

#define ATTN_OPEN_SIDE (-1) /* of a window */

/* Rotary positions (Su et al., arXiv:2104.09864, equations 15 and 34): pair t of a query or key at position p is turned
 * by the angle p f_t, f_t = theta^(-2t / dim) as the scaling changes it, and multiplied by attention_factor. Applied to
 * q and new k before the scale; past_k is rotated already. Sources of the scalings: core/positions/frequencies.c. */
typedef enum attn_rope_scaling {
    ATTN_ROPE_PLAIN,
    ATTN_ROPE_LINEAR,
    ATTN_ROPE_NTK,
    ATTN_ROPE_DYNAMIC, /* without a past */
    ATTN_ROPE_YARN,
    ATTN_ROPE_LLAMA3,
} attn_rope_scaling;

typedef struct attn_rope {
    double theta;     /* > 0; not 1 for yarn */
    size_t dim;       /* even, 2 to d_k: columns from it on are left alone */
    bool interleaved; /* pairs (2t, 2t + 1), else (t, t + dim / 2) */
    attn_rope_scaling scaling;
    double factor;                            /* >= 1, of any scaling */
    double original_length;                   /* > 0, of dynamic, yarn and llama3 */
    double beta_fast, beta_slow;              /* of yarn */
    double low_freq_factor, high_freq_factor; /* of llama3; the second is greater */
    double attention_factor;                  /* 1, but for yarn */
} attn_rope;

/* T5's biases of distance (Raffel et al., arXiv:1910.10683, section 2.1): a key r positions after its query gets
 * table[bucket of r, head]. The buckets of one side are as in core/positions/distance.c; bidirectional: the second half
 * of the buckets is for keys after the query, whose number is then even; else those count as distance 0. */
typedef struct attn_relative_bias {
    const void *table;    /* (buckets, heads), finite */
    const int64_t *edges; /* of attn_relative_edges */
    size_t buckets;
    bool bidirectional;
} attn_relative_bias;

/* Buckets of one side */
static inline size_t attn_relative_side(size_t buckets, bool bidirectional) {
    return bidirectional ? buckets / 2 : buckets;
}
/* Writes for each bucket of a side, all `buckets` of them, the least distance that it holds: half of them, rounded
 * down, hold one distance each, the others grow as powers up to max_distance, and the last has no end. max_distance,
 * from 1 to 2^53, is greater than the number of those that hold one. Exact, whatever the logarithms round to. */
void attn_relative_edges(size_t buckets, int64_t max_distance, int64_t *edges);
/* Press et al.'s slopes (arXiv:2108.12409, section 3) for any number of heads, as their code has it. */
void attn_alibi_slopes(size_t heads, double *slopes);

/* Sequences that are packed side by side: a query attends only to keys of its own segment, those with the same id. */
typedef struct attn_segments {
    const int64_t *of_query,
        *of_key; /* (n_q), (n_k); a batch's ids stand `..._batch` after the one before (0: the same) */
    size_t of_query_batch, of_key_batch;
    const size_t *spans; /* (n_q, 2) of attn_segment_spans, spans_batch apart */
    size_t spans_batch;
    bool gaps; /* attn_segment_spans found gaps in some batch */
} attn_segments;

/* A pattern of open keys: the window of the problem is part of it. Longformer (Beltagy et al. 2020), BigBird (Zaheer et
 * al. 2020). */
typedef struct attn_pattern {
    /* only keys whose distance is a multiple of this are open, and the window counts in steps of it: (heads), at least
     * 1; NULL: 1 */
    const int64_t *dilation;
    /* the pattern closes nothing at these keys, and nothing to the queries at these positions: ascending, within the
     * keys; a batch's stand globals_batch after the one before (0: the same) */
    const int64_t *globals;
    size_t global_count, globals_batch;
    /* blocks of keys, and of positions of queries: each is open to window_blocks on either side, to global_blocks at
     * both ends, whose queries see all, and to its random ones. block_size 0: none */
    size_t block_size, window_blocks, global_blocks;
    const int64_t *random; /* (random_rows, random_count): of the blocks between the ends; a head's stand random_head
                              after the one before (0: the same); NULL: none */
    size_t random_rows, random_count, random_head;
} attn_pattern;

/* A run of keys with one id */
typedef struct attn_segment_run {
    int64_t id;
    size_t lo, hi; /* lo <= j < hi */
} attn_segment_run;

/* Writes for each query where the keys of its segment begin and end, {0, 0} if there are none; `spans` is (n_q, 2),
 * `runs` scratch for n_k runs. Returns true if keys of another segment stand between those of one, as they never do in
 * packed sequences. Takes O((n_q + n_k) log n_k). */
bool attn_segment_spans(size_t n_q, const int64_t *of_query, size_t n_k, const int64_t *of_key, attn_segment_run *runs,
                        size_t *spans);

/* What ATTN_LINEAR needs besides: output_i = phi(q_i) S / (phi(q_i) z + eps), S = sum phi(k_j) v_j^T and z = sum
 * phi(k_j) over the keys open to query i (Katharopoulos et al., arXiv:2006.16236, equations 4 to 7 and 18 to 20). A
 * denominator of 0 gives a row of zeros. Only kv_lengths, causal with query_offset and key_mask close keys; scale
 * counts as 1. */
typedef enum attn_feature_map {
    ATTN_ELU_PLUS_1, /* x + 1 for x > 0, else e^x */
    ATTN_RELU,
} attn_feature_map;

typedef struct attn_linear {
    attn_feature_map feature_map;
    double eps;
    const uint8_t *key_mask;     /* (batch, n_new): 0 closes a key; NULL: none does */
    const void *past_state;      /* (batch, kv_heads, d_k, d_v): S of keys that came before; NULL: zeros */
    const void *past_normalizer; /* (batch, kv_heads, d_k): z of them; NULL with past_state */
} attn_linear;

/* What ATTN_LINFORMER needs besides: softmax(scale q (E k)^T) (F v), E and F projecting the keys' axis to `keys` rows
 * (Wang et al., arXiv:2006.04768, equation 7). Results of the scores' shape have `keys` columns. No past, and nothing
 * that closes keys. */
typedef struct attn_linformer {
    size_t keys;   /* rows of E and F, at least 1 */
    bool per_head; /* E and F are (heads, keys, n_new), else (keys, n_new) */
    const void *e, *f;
} attn_linformer;

/* What ATTN_DIFFERENTIAL needs besides: weights = softmax(scale q k^T) - lambda softmax(scale q_2 k_2^T), each softmax
 * with every option of the problem; output = weights v (Ye et al., arXiv:2410.05258, equations 1 to 3). Of the results
 * of the scores' shape there are weights alone, and no lse. */
typedef struct attn_differential {
    attn_view q_2, k_2, past_k_2; /* as q, k and past_k */
    const void *lambda;           /* (heads) */
} attn_differential;

/* n_k below stands for n_past + n_new. Query head h reads key/value head h / (heads / kv_heads).
 * Preconditions (asserted, the caller checks): kv_heads divides heads, d_k > 0, all products of sizes fit size_t,
 * scale and softcap finite, softcap >= 0, bias holds no NaN and no +infinity, q is finite; k, v, past_k and past_v are
 * finite save at keys blocked for every query, whose numbers count as zeros. Any other size may be 0. */
typedef struct attn_problem {
    attn_dtype dtype;
    attn_kind kind;
    size_t batch, heads, kv_heads;
    size_t n_q, n_past, n_new, d_k, d_v;
    attn_view q;               /* (batch, heads, n_q, d_k) */
    attn_view k, v;            /* (batch, kv_heads, n_new, d_k or d_v) */
    attn_view past_k, past_v;  /* (batch, kv_heads, n_past, d_k or d_v); data NULL if n_past is 0 */
    attn_broadcast mask;       /* uint8_t: not 0 = may attend, 0 = blocked */
    attn_broadcast bias;       /* numbers; -infinity blocks */
    const int64_t *kv_lengths; /* (batch) keys from this index on are blocked; NULL: none */
    const uint8_t *key_mask;   /* (n_k) of each batch, key_mask_batch apart: 0 blocks the key; NULL: none */
    size_t key_mask_batch;
    const attn_segments *segments; /* NULL: none */
    const attn_pattern *pattern;   /* NULL: none */
    const int64_t *query_offset; /* (batch) position of query 0 among the keys; NULL: n_past. Any int64 within +-2^53 */
    bool causal;                 /* key j is open to query i only if j <= i + offset */
    bool has_window;             /* ... only if i + offset - left <= j <= i + offset + right */
    int64_t window_left, window_right;       /* >= 0, or ATTN_OPEN_SIDE */
    double scale;                            /* multiplies q.k; rounded to the type first */
    const void *head_scales;                 /* (heads) finite numbers instead of it; NULL: none */
    double softcap;                          /* c > 0: s -> c tanh(s / c), before bias and blocks; 0: off */
    const void *sinks;                       /* (heads) finite numbers: exp(sink) joins each row's sum; NULL: none */
    const attn_rope *rope;                   /* NULL: none; of ATTN_SOFTMAX and ATTN_DIFFERENTIAL */
    const void *alibi;                       /* (heads) finite slopes: -slope * |distance| joins the bias; NULL: none */
    const attn_relative_bias *relative_bias; /* NULL: none */
    /* Positions within +-2^53 that rope, alibi and relative_bias go by, (n_q) and (n_new), a batch's `..._batch`
     * elements after the one before (0: the same). NULL: i + offset of the query, n_past + j of the key. A key of the
     * past stands at its index. */
    const int64_t *positions, *key_positions;
    size_t positions_batch, key_positions_batch;
    union { /* what the kind needs besides */
        const attn_linear *linear;
        const attn_linformer *linformer;
        const attn_differential *differential;
    };
} attn_problem;

/* What is wanted; each NULL member is not. All but output are contiguous in the shape named.
 * The bits of each do not depend on which others are asked for. */
typedef struct attn_results {
    attn_out_view output; /* (batch, heads, n_q, d_v); zeros for a query with nothing to attend */
    void *scores;         /* (batch, heads, n_q, n_k): q.k, blocked cells too */
    void *scaled;         /* the same times scale */
    void *capped;         /* after softcap */
    void *masked;         /* after bias and blocks; -infinity at blocked cells */
    void *weights;        /* softmax; zeros at blocked cells */
    void *mean_weights;   /* (batch, n_q, n_k): weights averaged over the heads */
    void *lse; /* (batch, heads, n_q): log sum exp(masked), natural, the sink counted; -infinity if that is empty */
    void *present_k;     /* (batch, kv_heads, n_k, d_k): past and new joined; ATTN_DIFFERENTIAL: 2 kv_heads, pairs */
    void *present_v;     /* (batch, kv_heads, n_k, d_v) */
    void *q_rotated;     /* (batch, heads, n_q, d_k): q after rope */
    void *k_rotated;     /* (batch, kv_heads, n_new, d_k) */
    void *present_state; /* ATTN_LINEAR: past_state and past_normalizer of what follows: all open keys, the past too */
    void *present_normalizer;
} attn_results;

/* Where the first number that does not fit stands (the least in the order stage, batch, head, query, key). */
typedef enum attn_stage {
    ATTN_STAGE_Q,
    ATTN_STAGE_K,
    ATTN_STAGE_V, /* projections: head, row in `query`, column in `key` */
    ATTN_STAGE_SCORES,
    ATTN_STAGE_SCALED,
    ATTN_STAGE_CAPPED,
    ATTN_STAGE_MASKED,
    ATTN_STAGE_OUTPUT,
    ATTN_STAGE_HEADS,
    ATTN_STAGE_PROJECTION, /* w_o: row in `query`, column in `key` */
} attn_stage;

typedef struct attn_fault {
    attn_stage stage;
    size_t batch, head, query, key;
} attn_fault;

/* A key is open to a query only if every one of mask, bias, key_mask, segments, kv_lengths, causal, window
 * and the pattern leaves it open.
 * Writes open[j] = 1 if key j of (batch, kv_head) is open to at least one query of one head of its group, else 0;
 * open has n_k places. */
void attn_open_keys(const attn_problem *problem, size_t batch, size_t kv_head, uint8_t *open);
/* true if query i of (batch, head) has at least one open key */
bool attn_query_is_open(const attn_problem *problem, size_t batch, size_t head, size_t query);

/* Useful multiply-adds times two of a run (blocked tiles not counted), as a double since it can exceed 2^64. */
double attn_flops(const attn_problem *problem);

/* Bytes of workspace that attn_run needs, O(n d): never n_q * n_k. SIZE_MAX if it does not fit size_t. */
size_t attn_workspace(const attn_engine *engine, const attn_problem *problem, const attn_results *results);

/* Computes what `results` asks for. `workspace` is attn_workspace() bytes, aligned to 64, contents ignored.
 * `cancel` may be NULL; else it is looked at between tiles. `fault` is filled for ATTN_OVERFLOW; may be NULL.
 * Allocates nothing. Softmax is the online form of Milakov and Gimelshein (arXiv:1805.02867) over tiles of keys, as in
 * Dao et al. (arXiv:2205.14135). Error bounds: docs/numerics.md. */
attn_status attn_run(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                     void *workspace, const atomic_bool *cancel, attn_fault *fault);

/* The gradients of a number whose gradient by the output is known (reverse mode; Dao et al., arXiv:2205.14135, appendix
 * B.2): with P the weights, dP = grad_output v^T, D the row sums of P dP and dB = P (dP - D), they are v: P^T
 * grad_output; bias: dB; sinks: -sum of the sink's weight times D; and with dS = scale * dB * (derivative of softcap),
 * q: dS k; k: dS^T q, both turned back if there is rope. Query heads that share a key/value head add up in k and v, and
 * cells that share a number of bias add up in it. Each with data NULL is not wanted. */
typedef struct attn_gradients {
    attn_view grad_output; /* (batch, heads, n_q, d_v), finite */
    attn_out_view q;       /* (batch, heads, n_q, d_k) */
    attn_out_view k,
        v;      /* (batch, kv_heads, n_new, d_k or d_v): of the new keys; a batch stride of 0 adds up the batch */
    void *bias; /* bias_count numbers, laid out as problem->bias */
    size_t bias_count;
    void *sinks; /* (heads) */
} attn_gradients;

/* Bytes of workspace of attn_gradients_run, O(n d): never n_q * n_k. SIZE_MAX if it does not fit size_t. */
size_t attn_gradients_workspace(const attn_engine *engine, const attn_problem *problem,
                                const attn_gradients *gradients);
/* Computes the gradients of a problem of ATTN_SOFTMAX; no two arrays of `gradients` may overlap. `workspace` as for
 * attn_run; `cancel` may be NULL. ATTN_OVERFLOW: a query or an open key is too large for the tiles (docs/numerics.md).
 * A gradient that does not fit the type is infinite or NaN. The bits do not depend on threads, nor on which are wanted.
 */
attn_status attn_gradients_run(const attn_engine *engine, const attn_problem *problem, const attn_gradients *gradients,
                               void *workspace, const atomic_bool *cancel);

/* ---- multi-head attention with projections ---------------------------------------------------------------------- */

/* A (rows_in, columns_out) weight that is not owned. in_out: element (i, o) is data[i*stride + o];
 * out_in (transposed): data[o*stride + i]. */
typedef struct attn_weight {
    const void *data;
    size_t stride;
    bool out_in;
} attn_weight;

/* heads = attention( x W_q + b_q, c W_k + b_k, c W_v + b_v );  output = concat(heads) W_o + b_o
 * (Vaswani et al., arXiv:1706.03762, section 3.2.2). `attention` gives everything of section one but q, k, v, whose
 * views are ignored: sizes, past, mask, bias and so on; its n_q is x's n, n_new is context's n (or x's), or 0 with a
 * past alone, when w_k and w_v are not read.
 * x and the weights are finite. */
typedef struct attn_mha {
    attn_problem attention;
    size_t d_model, d_context, d_out;  /* d_context = d_model if context is NULL; d_out ignored if w_o.data is NULL */
    const void *x;                     /* (batch, n_q, d_model) */
    const void *context;               /* (batch, n_new, d_context), or NULL: x */
    attn_weight w_q;                   /* (d_model, heads * d_k) */
    attn_weight w_k;                   /* (d_context, kv_heads * d_k) */
    attn_weight w_v;                   /* (d_context, kv_heads * d_v) */
    attn_weight w_o;                   /* (heads * d_v, d_out); data NULL: none */
    const void *b_q, *b_k, *b_v, *b_o; /* as the columns of their weight, or NULL */
    const void *head_mask;             /* (heads): multiplies each head's output, or NULL */
    bool sinusoidal;             /* sines and cosines of the attention's positions join x and context (section 3.5) */
    const void *value_context;   /* (batch, n_new, d_value_context): what W_v projects, instead of c; or NULL */
    size_t d_value_context;      /* rows of w_v if value_context is there */
    const void *q_norm, *k_norm; /* (d_k): each head's q, and new k, become x / sqrt(mean x^2 + norm_eps) times it
                                    before they are rotated; or NULL */
    double norm_eps;             /* >= 0 */
    /* Of ATTN_DIFFERENTIAL, whose W_q and W_k make 2 heads and 2 kv_heads, pairs side by side; the attention's
     * differential gives lambda alone. Each head's output becomes x / sqrt(mean x^2 + heads_eps) heads_norm
     * heads_factor (Ye et al., arXiv:2410.05258, equation 3), if heads_norm, (d_v), is there. */
    const void *heads_norm;
    double heads_eps, heads_factor;
} attn_mha;

typedef struct attn_mha_results {
    attn_results attention; /* its output is ignored; see heads */
    void *output;           /* (batch, n_q, d_out), or (batch, n_q, heads * d_v) without w_o; may be NULL */
    void *heads;            /* (batch, n_q, heads * d_v): concatenated, after head_mask, before w_o; may be NULL */
    void *q;     /* (batch, heads, n_q, d_k) after projection; may be NULL, likewise k and v (new ones only): */
    void *k, *v; /* (batch, kv_heads, n_new, d_k or d_v) */
} attn_mha_results;

double attn_mha_flops(const attn_mha *mha);
size_t attn_mha_workspace(const attn_engine *engine, const attn_mha *mha, const attn_mha_results *results);
/* As attn_run. A projected number that overflows is a fault only if it is used (a key open to some query, a query
 * with something to attend) or asked for. */
attn_status attn_mha_run(const attn_engine *engine, const attn_mha *mha, const attn_mha_results *results,
                         void *workspace, const atomic_bool *cancel, attn_fault *fault);

/* ---- selective scans: Mamba and Mamba-2 -------------------------------------------------------------------------- */

/* The recurrence of a selective state space, one state of `state` numbers for each number of u:
 *
 *     h_t = exp(delta_t a) h_(t-1) + delta_t u_t b_t        y_t = c_t . h_t + d u_t        output = y silu(z)
 *
 * (Gu and Dao, arXiv:2312.00752, equation 2, b discretised as delta b as their code does). Mamba has width 1 and `a`
 * (channels, state); Mamba-2 has heads as channels, `width` numbers in each, and a scalar a per head (Dao and Gu,
 * arXiv:2405.21060). All is contiguous, row-major and finite. groups divides channels: channel c reads group
 * c / (channels / groups) of b and c. channels, width, state and groups are at least 1; batch and n may be 0. */
typedef struct attn_scan {
    attn_dtype dtype;
    size_t batch, n, channels, width, state, groups;
    const void *u;     /* (batch, n, channels, width) */
    const void *delta; /* (batch, n, channels) */
    const void *a;     /* (channels, state), or (channels) if scalar_a */
    bool scalar_a;
    const void *b, *c;         /* (batch, n, groups, state) */
    const void *d;             /* (channels), or NULL */
    const void *z;             /* as u, or NULL: no gate */
    const void *delta_bias;    /* (channels), added to delta first, or NULL */
    bool softplus;             /* delta becomes ln(1 + e^delta) */
    const void *initial_state; /* (batch, channels, width, state), or NULL: zeros */
} attn_scan;

/* What is wanted; each NULL member is not. */
typedef struct attn_scan_results {
    void *output;      /* as u */
    void *final_state; /* (batch, channels, width, state): the initial state of what follows */
    void *delta;       /* (batch, n, channels): after bias and softplus */
    void *matrix;      /* (batch, channels, n, n): M[t, s] = sum over the state of c_t exp(a sum of delta over s+1..t)
                        * b_s for s <= t, else 0: without d and z, y_t = sum over s of M[t, s] delta_s u_s */
} attn_scan_results;

double attn_scan_flops(const attn_scan *scan);
/* Bytes of workspace that attn_scan_run needs: O(channels width state), a chunk of steps at a time, never n * state.
 * SIZE_MAX if it does not fit size_t. */
size_t attn_scan_workspace(const attn_engine *engine, const attn_scan *scan);
/* As attn_run. Bits do not depend on the pool. */
attn_status attn_scan_run(const attn_engine *engine, const attn_scan *scan, const attn_scan_results *results,
                          void *workspace, const atomic_bool *cancel, attn_fault *fault);

/* ---- joining attention over shards of keys ----------------------------------------------------------------------- */

/* Each shard holds the output and log-sum-exp of the same queries over some of the keys. The joined answer is
 *
 *     lse = ln sum_p exp(lse_p)        output = sum_p exp(lse_p - lse) output_p
 *
 * (Liu, Zaharia and Abbeel, arXiv:2310.01889). A shard with lse -infinity adds nothing, whatever its output is; a row
 * that all shards leave out gets zeros and -infinity. `output` is (shards, rows, d), `lse` (shards, rows),
 * joined_output (rows, d), joined_lse (rows); either of the joined may be NULL. Outputs of shards that count are
 * finite, lse is finite or -infinity. Sums are in double, added with their rounding errors. */
void attn_merge(attn_dtype dtype, size_t shards, size_t rows, size_t d, const void *output, const void *lse,
                void *joined_output, void *joined_lse);

#endif
