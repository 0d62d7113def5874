/* Positions, and the biases that depend on the distance of a key from its query (docs/api.md). */
#include <math.h>
#include <string.h>

#include "attention_fields.h"

/* ---- alibi ------------------------------------------------------------------------------------------------------ */

static void put(attn_dtype dtype, void *data, size_t i, double x) {
    if (dtype == ATTN_F64)
        ((double *)data)[i] = x;
    else
        ((float *)data)[i] = (float)x;
}

/* The slopes of the paper, rounded to the compute type. */
static void usual_slopes(api_form *form, api_attention_state *a) {
    const size_t heads = a->mha.attention.heads;
    if (!a->sized) return;
    double *slopes = api_small(form->memory, api_times_sizes(heads + 1, sizeof *slopes));
    void *rounded = api_small(form->memory, api_times_sizes(heads + 1, sizeof *slopes));
    if (!slopes || !rounded) {
        form->broken = true;
        api_error_memory(form->error, form->memory);
        return;
    }
    attn_alibi_slopes(heads, slopes);
    for (size_t h = 0; h < heads; h++) put(form->dtype, rounded, h, slopes[h]);
    a->mha.attention.alibi = rounded;
}

static void set_alibi(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    const api_value *value = api_form_value(form, form->slots[field].json);
    api_tensor slopes;
    bool wanted = false;
    if (!value || value->rank == 0) { /* not a list */
        if (json_is_object(form->slots[field].json)) {
            api_form_tensor(form, field, &slopes);
        } else {
            if (!json_is_boolean(form->slots[field].json) && !(value && value->dtype == API_BOOL))
                api_form_wrong_type(form, field, "true, false or a list of slopes");
            else if (api_form_bool(form, field, &wanted) && wanted)
                usual_slopes(form, a);
            return;
        }
    } else {
        api_form_tensor(form, field, &slopes);
    }
    api_tensor_require_finite(form, &slopes);
    if (api_one_per_head(form, a, &slopes) && slopes.finite) a->mha.attention.alibi = slopes.data;
}

/* ---- relative_bias ---------------------------------------------------------------------------------------------- */

enum { TABLE, MAX_DISTANCE, BIDIRECTIONAL };
static const api_field_row bias_rows[] = {
    [TABLE] = {"table", API_REALS, 2, 2, API_REQUIRED, NULL},
    [MAX_DISTANCE] = {"max_distance", API_INTEGER, 0, 0, 0, NULL},
    [BIDIRECTIONAL] = {"bidirectional", API_BOOLEAN, 0, 0, 0, NULL},
};
static const api_field_table bias_table = API_TABLE(bias_rows);
static const api_schema bias_schema = {"relative_bias", {&bias_table}, {NULL}};

/* The table's shape (buckets, heads). false: a fault. */
static bool table_fits(api_form *form, const api_attention_state *a, const api_tensor *table, bool bidirectional) {
    const size_t heads = a->mha.attention.heads;
    char got[API_SHAPE_TEXT];
    if (!table->ok || !table->finite) return false;
    api_shape_text(got, table->rank, table->shape);
    if (a->sized && table->shape[1] != heads)
        api_form_fault(form, TABLE, API_SHAPE_MISMATCH,
                       "expected the shape [buckets, %zu], a column for each head, got %s", heads, got);
    else if (table->shape[0] == 0)
        api_form_fault(form, TABLE, API_SHAPE_MISMATCH, "expected at least 1 bucket, got the shape %s", got);
    else if (bidirectional && table->shape[0] % 2 != 0)
        api_form_fault(form, TABLE, API_SHAPE_MISMATCH,
                       "expected an even number of buckets, half of them for keys after the query, got the shape %s",
                       got);
    else
        return a->sized;
    return false;
}

static void set_relative_bias(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_relative_bias *bias = &a->relative_bias;
    int64_t most = 128;
    api_form inner;
    api_tensor table;
    if (!api_form_open(form, field, &bias_schema, &inner)) return;
    api_form_require(&inner);
    bias->bidirectional = !a->mha.attention.causal;
    api_form_bool(&inner, BIDIRECTIONAL, &bias->bidirectional);
    api_form_integer(&inner, MAX_DISTANCE, &most);
    api_form_tensor(&inner, TABLE, &table);
    api_tensor_require_finite(&inner, &table);
    const bool fits = table_fits(&inner, a, &table, bias->bidirectional);
    bias->buckets = fits ? table.shape[0] : 0;
    const size_t side = attn_relative_side(bias->buckets, bias->bidirectional);
    if (fits && most <= (int64_t)(side / 2))
        api_form_fault(&inner, api_form_has(&inner, MAX_DISTANCE) ? MAX_DISTANCE : TABLE, API_OUT_OF_RANGE,
                       "max_distance must be greater than %zu, the number of buckets that hold one distance, got %lld",
                       side / 2, (long long)most);
    form->broken |= inner.broken;
    if (!fits || inner.broken) return;
    int64_t *edges = api_small(form->memory, api_times_sizes(side, sizeof *edges));
    if (!edges) {
        form->broken = true;
        api_error_memory(form->error, form->memory);
        return;
    }
    attn_relative_edges(side, most, edges);
    bias->edges = edges;
    bias->table = table.data;
    a->mha.attention.relative_bias = bias;
}

/* ---- positions -------------------------------------------------------------------------------------------------- */

/* integers (n) or (batch, n). NULL: a fault */
static const int64_t *read_positions(api_form *form, api_field field, const api_attention_state *a, size_t n,
                                     size_t *batch_stride) {
    const attn_problem *p = &a->mha.attention;
    api_tensor t;
    bool used = false;
    static const char *const users[] = {"rope", "alibi", "relative_bias"};
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        used |= api_form_has(form, (api_field)api_field_find(form->schema, users[i]));
    used |= a->mha.sinusoidal && (strcmp(api_form_name(form, field), "positions") == 0 || a->mha.context != NULL);
    if (!used) {
        api_form_fault(form, field, API_OUT_OF_RANGE,
                       "has a meaning only with rope, alibi or relative_bias, none of which is there");
        return NULL;
    }
    api_form_tensor(form, field, &t);
    if (!t.ok || !a->sized) return NULL;
    *batch_stride = t.rank == 2 ? n : 0;
    if (t.shape[t.rank - 1] == n && (t.rank == 1 || t.shape[0] == p->batch)) return t.data;
    char got[API_SHAPE_TEXT];
    api_form_fault(form, field, API_SHAPE_MISMATCH, "expected the shape [%zu] or [%zu, %zu], got %s", n, p->batch, n,
                   api_shape_text(got, t.rank, t.shape));
    return NULL;
}

static void set_positions(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_problem *p = &a->mha.attention;
    p->positions = read_positions(form, field, a, p->n_q, &p->positions_batch);
}

static void set_key_positions(api_form *form, api_field field, void *state) {
    api_attention_state *a = state;
    attn_problem *p = &a->mha.attention;
    p->key_positions = read_positions(form, field, a, p->n_new, &p->key_positions_batch);
}

static const api_field_row rows[] = {
    {"rope", API_OBJECT, 0, 0, 0, api_set_rope},
    {"alibi", API_BOOLEAN | API_REALS, 1, 1, 0, set_alibi},
    {"relative_bias", API_OBJECT, 0, 0, 0, set_relative_bias},
    {"positions", API_INTEGERS, 1, 2, 0, set_positions},
    {"key_positions", API_INTEGERS, 1, 2, 0, set_key_positions},
};
const api_field_table api_attention_positions = API_TABLE(rows);
