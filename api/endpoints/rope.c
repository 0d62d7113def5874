/* The field of rotary positions (docs/api.md). */
#include <math.h>

#include "attention_fields.h"

/* ---- scaling ---------------------------------------------------------------------------------------------------- */

enum {
    TYPE,
    FACTOR,
    LENGTH,
    BETA_FAST,
    BETA_SLOW,
    ATTENTION_FACTOR,
    MSCALE,
    MSCALE_ALL_DIM,
    LOW_FREQ_FACTOR,
    HIGH_FREQ_FACTOR
};

static const char *const types[] = {
    "linear", "ntk", "dynamic", "yarn", "llama3",
};
static const attn_rope_scaling scalings[] = {
    ATTN_ROPE_LINEAR, ATTN_ROPE_NTK, ATTN_ROPE_DYNAMIC, ATTN_ROPE_YARN, ATTN_ROPE_LLAMA3,
};

/* Fields of one scaling beside another. */
static void check_foreign(api_form *form, const attn_rope *rope) {
    for (api_field field = BETA_FAST; field <= HIGH_FREQ_FACTOR; field++) {
        const bool of_llama3 = field >= LOW_FREQ_FACTOR;
        if (api_form_has(form, field) && rope->scaling != (of_llama3 ? ATTN_ROPE_LLAMA3 : ATTN_ROPE_YARN))
            api_form_fault(form, field, API_OUT_OF_RANGE, "has a meaning only if type is \"%s\"",
                           of_llama3 ? "llama3" : "yarn");
    }
}

/* A number that is greater than 0. */
static bool read_positive(api_form *form, api_field field, double *number) {
    if (!api_form_real(form, field, number)) return false;
    if (*number > 0) return true;
    api_form_fault(form, field, API_OUT_OF_RANGE, "expected a number greater than 0, got %.9g", *number);
    return false;
}

static double mscale(double factor, double scale) { return 0.1 * scale * log(factor) + 1; }

/* The factor of cosines and sines; from mscale and mscale_all_dim as Hugging Face's modeling_rope_utils has it, where
 * 0 counts as absent. */
static void read_attention_factor(api_form *form, attn_rope *rope) {
    double of_all = 0, of_score = 0;
    rope->attention_factor = mscale(rope->factor, 1);
    const bool has_score = api_form_real(form, MSCALE, &of_score),
               has_all = api_form_real(form, MSCALE_ALL_DIM, &of_all);
    for (api_field field = MSCALE; field <= MSCALE_ALL_DIM; field++) {
        const api_field other = field == MSCALE ? MSCALE_ALL_DIM : MSCALE;
        if (api_form_has(form, field) && api_form_has(form, ATTENTION_FACTOR))
            api_form_fault(form, field, API_OUT_OF_RANGE, "cannot be combined with attention_factor");
        else if (api_form_has(form, field) && !api_form_has(form, other))
            api_form_missing(form, api_form_name(form, other),
                             field == MSCALE ? "beside mscale" : "beside mscale_all_dim");
    }
    if (has_score && has_all && of_score != 0 && of_all != 0)
        rope->attention_factor = mscale(rope->factor, of_score) / mscale(rope->factor, of_all);
    if (has_score && has_all && !(rope->attention_factor > 0 && isfinite(rope->attention_factor)))
        api_form_fault(form, MSCALE, API_OUT_OF_RANGE, "gives an attention factor that is not greater than 0");
    if (api_form_has(form, ATTENTION_FACTOR)) read_positive(form, ATTENTION_FACTOR, &rope->attention_factor);
}

static void read_yarn(api_form *form, attn_rope *rope) {
    read_positive(form, BETA_FAST, &rope->beta_fast);
    read_positive(form, BETA_SLOW, &rope->beta_slow);
    if (!form->broken && rope->beta_fast < rope->beta_slow)
        api_form_fault(form, api_form_has(form, BETA_FAST) ? BETA_FAST : BETA_SLOW, API_OUT_OF_RANGE,
                       "beta_fast must be at least beta_slow, got %.9g and %.9g", rope->beta_fast, rope->beta_slow);
    read_attention_factor(form, rope);
}

static void read_llama3(api_form *form, attn_rope *rope) {
    read_positive(form, LOW_FREQ_FACTOR, &rope->low_freq_factor);
    read_positive(form, HIGH_FREQ_FACTOR, &rope->high_freq_factor);
    if (!form->broken && rope->high_freq_factor <= rope->low_freq_factor)
        api_form_fault(form, api_form_has(form, HIGH_FREQ_FACTOR) ? HIGH_FREQ_FACTOR : LOW_FREQ_FACTOR,
                       API_OUT_OF_RANGE, "high_freq_factor must exceed low_freq_factor, got %.9g and %.9g",
                       rope->high_freq_factor, rope->low_freq_factor);
}

static const api_field_row scaling_rows[] = {
    [TYPE] = {"type", API_WORD, 0, 0, API_REQUIRED, NULL},
    [FACTOR] = {"factor", API_NUMBER, 0, 0, API_REQUIRED, NULL},
    [LENGTH] = {"original_max_position_embeddings", API_INTEGER, 0, 0, 0, NULL},
    [BETA_FAST] = {"beta_fast", API_NUMBER, 0, 0, 0, NULL},
    [BETA_SLOW] = {"beta_slow", API_NUMBER, 0, 0, 0, NULL},
    [ATTENTION_FACTOR] = {"attention_factor", API_NUMBER, 0, 0, 0, NULL},
    [MSCALE] = {"mscale", API_NUMBER, 0, 0, 0, NULL},
    [MSCALE_ALL_DIM] = {"mscale_all_dim", API_NUMBER, 0, 0, 0, NULL},
    [LOW_FREQ_FACTOR] = {"low_freq_factor", API_NUMBER, 0, 0, 0, NULL},
    [HIGH_FREQ_FACTOR] = {"high_freq_factor", API_NUMBER, 0, 0, 0, NULL},
};
static const api_field_table scaling_table = API_TABLE(scaling_rows);
static const api_schema scaling_schema = {"scaling", {&scaling_table}, {NULL}};

static void read_scaling(api_form *form, const api_attention_state *a, attn_rope *rope) {
    size_t choice, length = 0;
    api_form_require(form);
    const bool has_type = api_form_choice(form, TYPE, types, sizeof types / sizeof *types, &choice);
    if (api_form_real(form, FACTOR, &rope->factor) && rope->factor < 1)
        api_form_fault(form, FACTOR, API_OUT_OF_RANGE, "expected a number of at least 1, got %.9g", rope->factor);
    if (api_form_count(form, LENGTH, &length)) rope->original_length = (double)length;
    if (!has_type) return;
    rope->scaling = scalings[choice];
    check_foreign(form, rope);
    if (rope->scaling >= ATTN_ROPE_DYNAMIC && !api_form_has(form, LENGTH))
        api_form_missing(form, api_form_name(form, LENGTH), "with this type");
    if (rope->scaling == ATTN_ROPE_DYNAMIC && a->mha.attention.n_past > 0)
        api_form_fault(form, TYPE, API_OUT_OF_RANGE,
                       "\"dynamic\" cannot be combined with past_k, whose keys were rotated for another length");
    if (rope->scaling == ATTN_ROPE_YARN) read_yarn(form, rope);
    if (rope->scaling == ATTN_ROPE_LLAMA3) read_llama3(form, rope);
}

/* ---- rope ------------------------------------------------------------------------------------------------------- */

enum { THETA, DIM, INTERLEAVED, SCALING };
static const api_field_row rope_rows[] = {
    [THETA] = {"theta", API_NUMBER, 0, 0, 0, NULL},
    [DIM] = {"dim", API_INTEGER, 0, 0, 0, NULL},
    [INTERLEAVED] = {"interleaved", API_BOOLEAN, 0, 0, 0, NULL},
    [SCALING] = {"scaling", API_OBJECT, 0, 0, 0, NULL},
};
static const api_field_table rope_table = API_TABLE(rope_rows);
static const api_schema rope_schema = {"rope", {&rope_table}, {NULL}};

static void read_dim(api_form *form, const api_attention_state *a, attn_rope *rope) {
    const size_t d_k = a->mha.attention.d_k;
    const bool given = api_form_has(form, DIM);
    if (given ? !api_form_count(form, DIM, &rope->dim) : !a->sized) return;
    if (given && rope->dim % 2 != 0)
        api_form_fault(form, DIM, API_OUT_OF_RANGE, "expected an even number, got %zu", rope->dim);
    if (!a->sized) return;
    if (given && rope->dim > d_k)
        api_form_fault(form, DIM, API_OUT_OF_RANGE, "expected at most d_k = %zu, got %zu", d_k, rope->dim);
    if (given) return;
    rope->dim = d_k;
    if (d_k % 2 != 0)
        api_form_fault((api_form *)form->outer, form->outer_field, API_OUT_OF_RANGE,
                       "expected dim, an even number, because d_k = %zu is odd", d_k);
}

void api_set_rope(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_rope *rope = &a->rope;
    api_form inner, scaling;
    *rope = (attn_rope){.theta = 10000,
                        .factor = 1,
                        .original_length = 1,
                        .beta_fast = 32,
                        .beta_slow = 1,
                        .low_freq_factor = 1,
                        .high_freq_factor = 4,
                        .attention_factor = 1};
    if (!api_form_open(form, field, &rope_schema, &inner)) return;
    inner.dtype = ATTN_F64; /* angles are taken in more digits than the type has */
    read_positive(&inner, THETA, &rope->theta);
    read_dim(&inner, a, rope);
    api_form_bool(&inner, INTERLEAVED, &rope->interleaved);
    if (api_form_has(&inner, SCALING) && api_form_open(&inner, SCALING, &scaling_schema, &scaling)) {
        read_scaling(&scaling, a, rope);
        inner.broken |= scaling.broken;
    }
    if (rope->scaling == ATTN_ROPE_YARN && rope->theta == 1)
        api_form_fault(&inner, THETA, API_OUT_OF_RANGE, "cannot be 1 with the scaling \"yarn\"");
    form->broken |= inner.broken;
    a->mha.attention.rope = rope;
}
