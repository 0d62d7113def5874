/* options.h: the fields that /attention and /mha share (inside api/ only). */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include "../formats/reply.h"
#include "field_tensor.h"

typedef struct api_options {
    api_spelling format;
    api_dtype reply_dtype; /* F64, F32, F16 or BF16 */
    unsigned names;        /* bit 1 << api_name for each that was asked for */
    bool trace;            /* the names that apply are added once the problem is known */
    bool average;          /* weights are averaged over the heads */
    bool causal;
    double softcap;
    double scale; /* where scale_form is SCALE_NUMBER */
    size_t scale_form;
    bool offset_end; /* query_offset "end" */
    bool has_offset; /* one integer: */
    int64_t offset;
    api_tensor offsets, mask, bias, kv_lengths, window, past_k, past_v;
    bool has_tokens, has_key_tokens;
    size_t tokens, key_tokens;
} api_options;
enum { API_SCALE_INVERSE_SQRT, API_SCALE_INVERSE, API_SCALE_ONE, API_SCALE_NUMBER };

/* Which axes the request has; the problem has them all, of length 1 where the request has not. */
typedef struct api_axes {
    bool batch, heads;
} api_axes;

/* (batch, heads, n, d) with the axes that are there */
api_shape api_shape_of(api_axes axes, size_t batch, size_t heads, size_t n, size_t d);

/* Reads dtype: the first thing, as all numbers are of it. */
void api_options_dtype(api_form *form);
/* Reads every other field. */
void api_options_parse(api_form *form, api_options *options);
/* Fits the past to batch, kv_heads, d_k and, where `knows_v`, d_v; sets problem->n_past and the views. false: n_past
 * is not known. */
bool api_options_apply_past(api_form *form, const api_options *options, api_axes axes, bool knows_v,
                            attn_problem *problem);
/* The rest; needs all sizes. Each fault is at the option that does not fit. */
void api_options_apply(api_form *form, api_options *options, api_axes axes, attn_problem *problem);

#endif
