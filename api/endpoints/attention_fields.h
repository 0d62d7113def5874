/* attention_fields.h: what /attention and /mha share: their options, the names of `return` that both have, and the
 * problem that they make of them (inside api/ only). */
#ifndef API_ATTENTION_FIELDS_H
#define API_ATTENTION_FIELDS_H

#include "operation.h"

/* Which axes the request has; the problem has them all, of length 1 if the request has not. */
typedef struct api_axes {
    bool batch, heads;
} api_axes;
/* (batch, heads, n, d) with the axes that are there */
api_shape api_shape_of(api_axes axes, size_t batch, size_t heads, size_t n, size_t d);

/* The shape that a tensor of the request has, of rank 4 at most */
api_shape api_shape_given(const api_tensor *tensor);

/* The state of both: job->state. */
typedef struct api_attention_state {
    attn_mha mha; /* of /attention: mha.attention alone */
    attn_mha_results results;
    api_axes axes;
    api_shape output;          /* the shape of `output` */
    bool sized;                /* all sizes of mha.attention are known, but for n_past until past_v is read */
    bool knows_v;              /* ... d_v too */
    bool average;              /* weights are averaged over the heads */
    api_tensor k, v;           /* of /attention: they may hold anything at keys that are blocked for every query */
    api_tensor past_k, past_v; /* likewise */
    attn_rope rope;            /* mha.attention.rope points here if the request has one */
    attn_relative_bias relative_bias; /* likewise */
    attn_segments segments;           /* likewise */
    attn_pattern pattern;             /* likewise */
    /* What a kind needs besides; mha.attention points to that of its kind. */
    attn_linear linear;
    attn_linformer linformer;
    attn_differential differential;
    size_t pairs;           /* heads of q and k for each of v's: 2 of ATTN_DIFFERENTIAL, else 1 */
    api_tensor grad_output; /* of /attention (gradients.c), with what follows from it */
    attn_gradients gradients;
    api_shape q_shape, k_shape, v_shape, bias_shape; /* as the request has them */
} api_attention_state;

/* The options; their state is an api_attention_state. */
extern const api_field_table api_attention_options;
extern const api_field_table api_attention_patterns;  /* set after these ... */
extern const api_field_table api_attention_sparse;    /* ... and after these */
extern const api_field_table api_attention_positions; /* ... and after these */
extern const api_field_table api_attention_kinds;     /* ... and after these */
/* The names but for `output`. */
extern const api_name_table api_attention_names;
extern const api_name_table api_kind_names;

/* The gradients of /attention (gradients.c): the field, set after the options; the names; what depends on both; the
 * workspace, 0 if none is wanted; the run, which sets the error of a number that does not fit. */
extern const api_field_table api_gradient_fields;
extern const api_name_table api_gradient_names;
void api_gradients_check(api_job *job);
bool api_gradients_wanted(const api_attention_state *state);
size_t api_gradients_workspace(const attn_engine *engine, api_attention_state *state);
bool api_gradients_run(const attn_engine *engine, api_job *job, void *scratch, const atomic_bool *cancel);

/* The setter of rope (rope.c). */
void api_set_rope(api_form *form, api_field field, void *state);

/* Checks that a tensor is a list of one number for each head. */
bool api_one_per_head(api_form *form, const api_attention_state *state, const api_tensor *tensor);

/* Reads `kind`, before any size is known. */
void api_attention_read_kind(api_form *form, api_attention_state *state);
/* Faults of fields and names that have no meaning with the kind, and of those that it needs. */
void api_kind_check(api_job *job);
/* `count` times the number in the compute type. NULL: no memory, error is set. */
const void *api_repeated(api_form *form, double number, size_t count);

/* Of heads in pairs, side by side: the view becomes that of the first of each, the second is returned. */
attn_view api_split_pairs(attn_dtype dtype, attn_view *view);

/* All sizes of the problem are set but for n_past, and d_v only if `knows_v`: sets what is so by default. */
void api_attention_sized(api_attention_state *state, bool knows_v);
/* A past of which one half is missing. Faults of keys, values and the past that are not finite: at a key that is open
 * to a query, or that the reply shows; after another fault, which may leave that unknown, only if no field closes keys.
 */
void api_attention_check(api_job *job);

/* Takes away axes whose length no number of the request stands behind, because an axis beside them has length 0: the
 * loops of the core must not count through them. The shapes of the reply are set before. */
void api_attention_shrink(api_attention_state *state);
/* true if no number is NaN or infinite */
bool api_all_finite(attn_dtype dtype, const void *data, size_t count);
/* Whether a run is done; sets the error of an overflow. */
bool api_attention_done(api_job *job, attn_status status, const attn_fault *fault);
/* The row functions that both share. */
void api_attention_trace(const api_job *job, api_trace *trace);
api_shape api_attention_output_shape(const void *state);
bool api_attention_always(const void *state);

#endif
