/* mha.c: multi-head attention = project, split, attend, merge, project.
 *
 * Heads are split and merged by strides alone: a projection's row holds the heads side by side, (batch, n, heads * d).
 */
#include <string.h>

#include "attention.h"
#include "engine/workspace.h"
#include "positions/sinusoidal.h"
#include "projection.h"
#include "rms_norm.h"

typedef struct mha_shape {
    size_t q_rows, kv_rows;        /* of all batches together */
    size_t q_wide, k_wide, v_wide; /* columns of the projections */
    size_t o_wide;                 /* heads * d_v: columns of the concatenated heads */
} mha_shape;

/* Heads that W_q makes for each head of the attention, and W_k likewise */
static size_t pairs_of(const attn_problem *a) { return a->kind == ATTN_DIFFERENTIAL ? 2 : 1; }

static mha_shape shape_of(const attn_mha *mha) {
    const attn_problem *a = &mha->attention;
    return (mha_shape){.q_rows = a->batch * a->n_q,
                       .kv_rows = a->batch * a->n_new,
                       .q_wide = a->heads * pairs_of(a) * a->d_k,
                       .k_wide = a->kv_heads * pairs_of(a) * a->d_k,
                       .v_wide = a->kv_heads * a->d_v,
                       .o_wide = a->heads * a->d_v};
}

/* ---- workspace -------------------------------------------------------------------------------------------------- */

/* Where everything stands in the workspace, in bytes. */
typedef struct mha_plan {
    size_t x, context, turns;                   /* inputs with their positions, and what those are made with */
    size_t q, k, v, heads, open, attend, total; /* total is SIZE_MAX if the sum does not fit */
} mha_plan;

/* The heads need memory of their own only if they are wanted and no result holds them. */
static void *heads_place(const attn_mha *mha, const attn_mha_results *results, char *own) {
    if (results->heads) return results->heads;
    if (!mha->w_o.data) return results->output;
    return results->output ? own : NULL;
}

/* The results of the attention between the projections: those asked for, the output going to `heads`. */
static attn_results inner_results(const attn_mha *mha, const attn_mha_results *results, void *heads) {
    const mha_shape s = shape_of(mha);
    attn_results inner = results->attention;
    inner.output = (attn_out_view){
        .data = heads, .batch = mha->attention.n_q * s.o_wide, .head = mha->attention.d_v, .row = s.o_wide};
    return inner;
}

/* `pair` is room for what the problem of ATTN_DIFFERENTIAL points to. */
static attn_problem inner_problem(const attn_mha *mha, const char *q, const char *k, const char *v,
                                  attn_differential *pair) {
    const mha_shape s = shape_of(mha);
    attn_problem a = mha->attention;
    const size_t pairs = pairs_of(&a), second = a.d_k * attn_sizeof(a.dtype);
    a.q = (attn_view){.data = q, .batch = a.n_q * s.q_wide, .head = pairs * a.d_k, .row = s.q_wide};
    a.k = (attn_view){.data = k, .batch = a.n_new * s.k_wide, .head = pairs * a.d_k, .row = s.k_wide};
    if (pairs == 2) {
        *pair = *a.differential;
        pair->q_2 = a.q;
        pair->k_2 = a.k;
        pair->q_2.data = q + second;
        pair->k_2.data = k + second;
        a.differential = pair;
    }
    a.v = (attn_view){.data = v, .batch = a.n_new * s.v_wide, .head = a.d_v, .row = s.v_wide};
    return a;
}

/* x, or the context, as the sinusoidal positions see it. */
static attn_sinusoidal positioned(const attn_mha *mha, bool context) {
    const attn_problem *a = &mha->attention;
    return context ? (attn_sinusoidal){.batch = a->batch,
                                       .n = a->n_new,
                                       .d = mha->d_context,
                                       .x = mha->context,
                                       .positions = a->key_positions,
                                       .positions_batch = a->key_positions_batch,
                                       .first = (int64_t)a->n_past}
                   : (attn_sinusoidal){.batch = a->batch,
                                       .n = a->n_q,
                                       .d = mha->d_model,
                                       .x = mha->x,
                                       .positions = a->positions,
                                       .positions_batch = a->positions_batch,
                                       .offsets = a->query_offset,
                                       .first = (int64_t)a->n_past};
}

static size_t sinusoidal_workspace(const attn_mha *mha, bool context) {
    const attn_sinusoidal input = positioned(mha, context);
    return mha->attention.dtype == ATTN_F64 ? attn_sinusoidal_workspace_f64(&input)
                                            : attn_sinusoidal_workspace_f32(&input);
}

static void plan_positions(const attn_mha *mha, mha_plan *p) {
    const attn_problem *a = &mha->attention;
    const size_t size = attn_sizeof(a->dtype), own = mha->context ? sinusoidal_workspace(mha, true) : 0;
    const size_t x = sinusoidal_workspace(mha, false);
    p->x = attn_reserve(&p->total, attn_product(a->batch * a->n_q, mha->d_model), size);
    p->context = attn_reserve(&p->total, mha->context ? attn_product(a->batch * a->n_new, mha->d_context) : 0, size);
    p->turns = attn_reserve(&p->total, x > own ? x : own, 1);
}

static mha_plan plan_of(const attn_engine *engine, const attn_mha *mha, const attn_mha_results *results) {
    const mha_shape s = shape_of(mha);
    const size_t size = attn_sizeof(mha->attention.dtype);
    char stand_in[1] = {0}; /* planning asks only whether there are heads */
    void *heads = heads_place(mha, results, stand_in);
    mha_plan p = {.total = 0};
    if (mha->sinusoidal) plan_positions(mha, &p);
    p.q = attn_reserve(&p.total, s.q_rows * s.q_wide, size);
    p.k = attn_reserve(&p.total, s.kv_rows * s.k_wide, size);
    p.v = attn_reserve(&p.total, s.kv_rows * s.v_wide, size);
    p.heads = attn_reserve(&p.total, heads == stand_in ? s.q_rows * s.o_wide : 0, size);
    p.open = attn_reserve(&p.total, mha->attention.n_past + mha->attention.n_new, 1);
    attn_differential pair;
    const attn_problem inner = inner_problem(mha, stand_in, stand_in, stand_in, &pair);
    const attn_results wanted = inner_results(mha, results, heads);
    p.attend = attn_reserve(&p.total, attn_workspace(engine, &inner, &wanted), 1);
    return p;
}

size_t attn_mha_workspace(const attn_engine *engine, const attn_mha *mha, const attn_mha_results *results) {
    return plan_of(engine, mha, results).total;
}

double attn_mha_flops(const attn_mha *mha) {
    const mha_shape s = shape_of(mha);
    const double into_q = (double)s.q_rows * (double)mha->d_model * (double)s.q_wide;
    const size_t d_value = mha->value_context ? mha->d_value_context : mha->d_context;
    const double into_kv =
        (double)s.kv_rows * ((double)mha->d_context * (double)s.k_wide + (double)d_value * (double)s.v_wide);
    const double out = mha->w_o.data ? (double)s.q_rows * (double)s.o_wide * (double)mha->d_out : 0;
    return 2 * (into_q + into_kv + out) + attn_flops(&mha->attention);
}

/* ---- the two number types --------------------------------------------------------------------------------------- */

static void project(attn_dtype dtype, const attn_engine *engine, attn_projection *projections, size_t count,
                    const atomic_bool *cancel) {
    (dtype == ATTN_F64 ? attn_project_f64 : attn_project_f32)(engine, projections, count, cancel);
}

static size_t find_not_finite(attn_dtype dtype, size_t from, size_t rows, size_t columns, size_t stride,
                              const void *block) {
    return (dtype == ATTN_F64 ? attn_find_not_finite_f64 : attn_find_not_finite_f32)(from, rows, columns, stride,
                                                                                     block);
}

/* ---- overflow: a fault if the number is used or asked for ---------------------------------------------------- */

static attn_status fault_at(attn_fault *fault, attn_stage stage, size_t batch, size_t head, size_t row, size_t column) {
    if (fault) *fault = (attn_fault){.stage = stage, .batch = batch, .head = head, .query = row, .key = column};
    return ATTN_OVERFLOW;
}

/* Goes through a spilled projection (batch, n, heads * d) head by head. `open` (n) says which rows of a key/value head
 * are used; NULL: ask of each query. Where a number does not fit, its row is either a fault or unused: then the number
 * becomes 0, as attention expects finite ones. */
typedef struct spill {
    attn_stage stage;
    char *y;
    size_t heads, n, d;
    bool asked;    /* every number counts */
    uint8_t *open; /* room for n_past + n marks of keys; NULL for queries */
} spill;

static attn_status settle_head(const attn_mha *mha, const spill *p, size_t batch, size_t head, attn_fault *fault) {
    const attn_problem *a = &mha->attention;
    const size_t size = attn_sizeof(a->dtype), stride = p->heads * p->d;
    char *block = p->y + (batch * p->n * stride + head * p->d) * size;
    const size_t one = p->stage == ATTN_STAGE_Q || p->stage == ATTN_STAGE_K ? head / pairs_of(a) : head;
    if (p->open && !p->asked) attn_open_keys(a, batch, one, p->open);
    for (size_t at = 0;; at++) {
        at = find_not_finite(a->dtype, at, p->n, p->d, stride, block);
        if (at >= p->n * p->d) return ATTN_OK;
        const size_t row = at / p->d, column = at % p->d;
        if (p->asked || (p->open ? p->open[a->n_past + row] != 0 : attn_query_is_open(a, batch, one, row)))
            return fault_at(fault, p->stage, batch, head, row, column);
        memset(block + (row * stride + column) * size, 0, size);
    }
}

static attn_status settle(const attn_mha *mha, const spill *p, attn_fault *fault) {
    for (size_t b = 0; b < mha->attention.batch; b++)
        for (size_t h = 0; h < p->heads; h++) {
            const attn_status status = settle_head(mha, p, b, h, fault);
            if (status != ATTN_OK) return status;
        }
    return ATTN_OK;
}

/* ---- the parts -------------------------------------------------------------------------------------------------- */

typedef struct mha_run {
    const attn_engine *engine;
    const attn_mha *mha;
    const attn_mha_results *results;
    const atomic_bool *cancel;
    attn_fault *fault;
    const void *x, *context; /* with their positions */
    char *q, *k, *v, *heads; /* (batch, n, heads * d) */
    uint8_t *open;           /* (n_k) */
} mha_run;

static bool cancelled(const mha_run *r) { return r->cancel && atomic_load_explicit(r->cancel, memory_order_relaxed); }

/* q, k and v together: small inputs share the pool's threads, and if weights are columns of one matrix over the same
 * x, this is the place that may join them. */
static attn_status project_inputs(const mha_run *r) {
    const attn_mha *m = r->mha;
    const attn_problem *a = &m->attention;
    const attn_mha_results *out = r->results;
    const mha_shape s = shape_of(m);
    const void *context = m->context ? r->context : r->x;
    attn_projection p[ATTN_PROJECTIONS] = {
        {.rows = s.q_rows,
         .inner = m->d_model,
         .columns = s.q_wide,
         .x = r->x,
         .weight = m->w_q,
         .bias = m->b_q,
         .y = r->q},
        {.rows = s.kv_rows,
         .inner = m->d_context,
         .columns = s.k_wide,
         .x = context,
         .weight = m->w_k,
         .bias = m->b_k,
         .y = r->k},
        {.rows = s.kv_rows,
         .inner = m->value_context ? m->d_value_context : m->d_context,
         .columns = s.v_wide,
         .x = m->value_context ? m->value_context : context,
         .weight = m->w_v,
         .bias = m->b_v,
         .y = r->v},
    };
    project(a->dtype, r->engine, p, ATTN_PROJECTIONS, r->cancel);
    if (cancelled(r)) return ATTN_CANCELLED;
    const spill spills[ATTN_PROJECTIONS] = {
        {ATTN_STAGE_Q, r->q, a->heads * pairs_of(a), a->n_q, a->d_k, out->q, NULL},
        {ATTN_STAGE_K, r->k, a->kv_heads * pairs_of(a), a->n_new, a->d_k, out->k || out->attention.present_k, r->open},
        {ATTN_STAGE_V, r->v, a->kv_heads, a->n_new, a->d_v, out->v || out->attention.present_v, r->open},
    };
    for (size_t i = 0; i < ATTN_PROJECTIONS; i++) {
        const attn_status status = atomic_load(&p[i].spilled) ? settle(m, &spills[i], r->fault) : ATTN_OK;
        if (status != ATTN_OK) return status;
    }
    return ATTN_OK;
}

/* The inputs with their positions, where those are wanted. */
static void add_positions(mha_run *r, char *base, const mha_plan *plan) {
    const attn_mha *m = r->mha;
    if (!m->sinusoidal) return;
    for (int context = 0; context < (m->context ? 2 : 1); context++) {
        const attn_sinusoidal input = positioned(m, context != 0);
        char *to = base + (context ? plan->context : plan->x);
        (m->attention.dtype == ATTN_F64 ? attn_sinusoidal_add_f64 : attn_sinusoidal_add_f32)(r->engine, &input,
                                                                                             base + plan->turns, to);
        if (context)
            r->context = to;
        else
            r->x = to;
    }
}

/* Each head's queries and new keys, normalised in place. */
static attn_status normalize(const mha_run *r) {
    const attn_mha *m = r->mha;
    const attn_problem *a = &m->attention;
    const mha_shape s = shape_of(m);
    const struct {
        const void *weight;
        size_t rows;
        spill spill;
    } sides[] = {
        {m->q_norm,
         s.q_rows * a->heads * pairs_of(a),
         {ATTN_STAGE_Q, r->q, a->heads * pairs_of(a), a->n_q, a->d_k, false, NULL}},
        {m->k_norm,
         s.kv_rows * a->kv_heads * pairs_of(a),
         {ATTN_STAGE_K, r->k, a->kv_heads * pairs_of(a), a->n_new, a->d_k, r->results->attention.present_k != NULL,
          r->open}},
    };
    for (size_t i = 0; i < 2; i++) {
        if (!sides[i].weight) continue;
        const bool spilled = (a->dtype == ATTN_F64 ? attn_rms_norm_f64 : attn_rms_norm_f32)(
            r->engine, sides[i].rows, a->d_k, sides[i].weight, m->norm_eps, 1, sides[i].spill.y);
        const attn_status status = spilled ? settle(m, &sides[i].spill, r->fault) : ATTN_OK;
        if (status != ATTN_OK) return status;
    }
    return ATTN_OK;
}

/* (batch, n, heads * d) to (batch, heads, n, d) */
static void copy_split(const attn_mha *mha, size_t heads, size_t n, size_t d, const char *from, char *to) {
    const size_t row = d * attn_sizeof(mha->attention.dtype);
    if (!to || row == 0) return;
    for (size_t b = 0; b < mha->attention.batch; b++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < n; i++) {
                memcpy(to, from + ((b * n + i) * heads + h) * row, row);
                to += row;
            }
}

static attn_status normalize_heads(const mha_run *r) {
    const attn_mha *m = r->mha;
    const attn_problem *a = &m->attention;
    const spill all = {ATTN_STAGE_HEADS, r->heads, a->heads, a->n_q, a->d_v, true, NULL};
    if (!m->heads_norm || !r->heads) return ATTN_OK;
    const bool spilled = (a->dtype == ATTN_F64 ? attn_rms_norm_f64 : attn_rms_norm_f32)(
        r->engine, shape_of(m).q_rows * a->heads, a->d_v, m->heads_norm, m->heads_eps, m->heads_factor, r->heads);
    return spilled ? settle(m, &all, r->fault) : ATTN_OK;
}

static attn_status mask_heads(const mha_run *r) {
    const attn_problem *a = &r->mha->attention;
    const mha_shape s = shape_of(r->mha);
    if (!r->mha->head_mask || !r->heads) return ATTN_OK;
    const bool spilled = (a->dtype == ATTN_F64 ? attn_mask_heads_f64 : attn_mask_heads_f32)(
        s.q_rows, a->heads, a->d_v, r->mha->head_mask, r->heads);
    const spill all = {ATTN_STAGE_HEADS, r->heads, a->heads, a->n_q, a->d_v, true, NULL};
    return spilled ? settle(r->mha, &all, r->fault) : ATTN_OK;
}

static attn_status project_output(const mha_run *r) {
    const attn_mha *m = r->mha;
    const mha_shape s = shape_of(m);
    void *output = r->results->output;
    if (!output) return ATTN_OK;
    if (!m->w_o.data) {
        if (r->heads && output != r->heads && s.q_rows * s.o_wide > 0)
            memcpy(output, r->heads, s.q_rows * s.o_wide * attn_sizeof(m->attention.dtype));
        return ATTN_OK;
    }
    attn_projection p = {.rows = s.q_rows,
                         .inner = s.o_wide,
                         .columns = m->d_out,
                         .x = r->heads,
                         .weight = m->w_o,
                         .bias = m->b_o,
                         .y = output};
    project(m->attention.dtype, r->engine, &p, 1, r->cancel);
    if (cancelled(r)) return ATTN_CANCELLED;
    const spill all = {ATTN_STAGE_PROJECTION, output, 1, m->attention.n_q, m->d_out, true, NULL};
    return atomic_load(&p.spilled) ? settle(m, &all, r->fault) : ATTN_OK;
}

attn_status attn_mha_run(const attn_engine *engine, const attn_mha *mha, const attn_mha_results *results,
                         void *workspace, const atomic_bool *cancel, attn_fault *fault) {
    const attn_problem *a = &mha->attention;
    const mha_plan plan = plan_of(engine, mha, results);
    char *base = workspace;
    mha_run r = {.engine = engine,
                 .mha = mha,
                 .x = mha->x,
                 .context = mha->context,
                 .results = results,
                 .cancel = cancel,
                 .fault = fault,
                 .q = base + plan.q,
                 .k = base + plan.k,
                 .v = base + plan.v,
                 .heads = heads_place(mha, results, base + plan.heads),
                 .open = (uint8_t *)base + plan.open};
    add_positions(&r, base, &plan);
    attn_status status = project_inputs(&r);
    if (status != ATTN_OK) return status;
    copy_split(mha, a->heads * pairs_of(a), a->n_q, a->d_k, r.q, results->q);
    copy_split(mha, a->kv_heads * pairs_of(a), a->n_new, a->d_k, r.k, results->k);
    copy_split(mha, a->kv_heads, a->n_new, a->d_v, r.v, results->v);
    status = normalize(&r);
    if (status != ATTN_OK) return status;
    attn_differential pair;
    const attn_problem inner = inner_problem(mha, r.q, r.k, r.v, &pair);
    const attn_results wanted = inner_results(mha, results, r.heads);
    status = attn_run(engine, &inner, &wanted, base + plan.attend, cancel, fault);
    if (status == ATTN_OK) status = normalize_heads(&r);
    if (status == ATTN_OK) status = mask_heads(&r);
    if (status == ATTN_OK) status = project_output(&r);
    return status;
}
