#include "options.h"

#include <math.h>
#include <string.h>

/* ---- reading ---------------------------------------------------------------------------------------------------- */

void api_options_dtype(api_form *form) {
    static const char *const dtypes[] = {"float32", "float64"};
    size_t choice;
    /* after a fault numbers are read as the wider type, whose errors are errors in either */
    form->dtype = api_form_has(form, API_FIELD_DTYPE) ? ATTN_F64 : ATTN_F32;
    if (api_form_choice(form, API_FIELD_DTYPE, dtypes, 2, &choice)) form->dtype = choice == 0 ? ATTN_F32 : ATTN_F64;
}

static void read_name(api_form *form, const char *string, size_t index, void *context) {
    unsigned *names = context;
    const size_t name = api_known_find(api_names, API_NAME_COUNT, form->endpoint, string);
    if (name < API_NAME_COUNT) {
        *names |= 1u << name;
        return;
    }
    char known[160], pointer[256] = "/return";
    api_known_list(api_names, API_NAME_COUNT, form->endpoint, known, sizeof known);
    api_pointer_add_index(pointer, index);
    api_place place = form->slots[API_FIELD_RETURN].place;
    place.element = index;
    form->broken = true;
    api_error_set(form->error, API_OUT_OF_RANGE, place, pointer, "return: expected names out of %s; got \"%.100s\"",
                  known, string);
}

static void read_return_weights(api_form *form, api_options *options) {
    static const char *const forms[] = {"per_head", "average"};
    bool wanted = false;
    if (form->endpoint == API_MHA && json_is_string(form->slots[API_FIELD_RETURN_WEIGHTS].json)) {
        size_t choice;
        if (!api_form_choice(form, API_FIELD_RETURN_WEIGHTS, forms, 2, &choice)) return;
        wanted = true;
        options->average = choice == 1;
    } else {
        api_form_bool(form, API_FIELD_RETURN_WEIGHTS, &wanted);
    }
    if (wanted) options->names |= 1u << API_NAME_WEIGHTS;
}

static void read_return(api_form *form, api_options *options) {
    size_t count;
    if (!api_form_has(form, API_FIELD_RETURN))
        options->names = 1u << API_NAME_OUTPUT;
    else if (api_form_strings(form, API_FIELD_RETURN, read_name, &options->names, &count) && count == 0)
        api_form_fault(form, API_FIELD_RETURN, API_OUT_OF_RANGE,
                       "return: expected at least one name, got an empty list");
    if (form->always_output) options->names |= 1u << API_NAME_OUTPUT;
    read_return_weights(form, options);
    api_form_bool(form, API_FIELD_TRACE, &options->trace);
}

static void read_offset(api_form *form, api_options *options) {
    static const char *const end[] = {"end"};
    const json_t *json = form->slots[API_FIELD_QUERY_OFFSET].json;
    size_t choice;
    if (!json) return;
    const api_value *value = api_form_value(form, json);
    if (json_is_string(json))
        options->offset_end = api_form_choice(form, API_FIELD_QUERY_OFFSET, end, 1, &choice);
    else if (value && value->rank == 0)
        options->has_offset = api_form_integer(form, API_FIELD_QUERY_OFFSET, &options->offset);
    else
        api_form_tensor(form, API_FIELD_QUERY_OFFSET, API_INTEGERS, &options->offsets);
}

static void read_window(api_form *form, api_options *options) {
    api_tensor *window = &options->window;
    api_form_tensor(form, API_FIELD_WINDOW, API_INTEGERS, window);
    if (!window->ok) return;
    char shape[API_SHAPE_TEXT];
    if (window->rank != 1 || window->count != 2) {
        window->ok = false;
        api_form_fault(form, API_FIELD_WINDOW, API_SHAPE_MISMATCH,
                       "window: expected [left, right], got a list of shape %s",
                       api_shape_text(shape, window->rank, window->shape));
        return;
    }
    const int64_t *sides = window->data;
    for (size_t i = 0; i < 2; i++)
        if (sides[i] < ATTN_OPEN_SIDE)
            api_tensor_fault(form, window, i, true, API_OUT_OF_RANGE,
                             "window: expected a length of at least 0, or -1 for open; got %lld", (long long)sides[i]);
}

static void read_softcap(api_form *form, api_options *options) {
    double exact;
    if (!api_form_real(form, API_FIELD_SOFTCAP, &options->softcap)) return;
    if (options->softcap < 0) {
        api_form_fault(form, API_FIELD_SOFTCAP, API_OUT_OF_RANGE, "softcap: expected a number of at least 0, got %.9g",
                       options->softcap);
        return;
    }
    /* 0 means off: a cap that only became 0 by rounding must not */
    const api_value *value = api_form_value(form, form->slots[API_FIELD_SOFTCAP].json);
    if (options->softcap == 0 && api_take_real(value, ATTN_F64, "/softcap", &exact, form->error) && exact != 0)
        api_form_fault(form, API_FIELD_SOFTCAP, API_OUT_OF_RANGE,
                       "softcap: %.9g is 0 in float32, which would turn it off; try \"dtype\": \"float64\"", exact);
}

static void read_scale(api_form *form, api_options *options) {
    static const char *const forms[] = {"1/sqrt(d_k)", "1/d_k", "1"};
    options->scale_form = API_SCALE_INVERSE_SQRT;
    if (json_is_string(form->slots[API_FIELD_SCALE].json))
        api_form_choice(form, API_FIELD_SCALE, forms, 3, &options->scale_form);
    else if (api_form_real(form, API_FIELD_SCALE, &options->scale))
        options->scale_form = API_SCALE_NUMBER;
    read_softcap(form, options);
}

/* bias may hold -infinity, which blocks, and nothing else that is not finite */
static void check_bias(api_form *form, const api_tensor *bias) {
    if (!bias->data || bias->finite) return;
    for (size_t i = 0; i < bias->held; i++) {
        const double x =
            form->dtype == ATTN_F64 ? ((const double *)bias->data)[i] : (double)((const float *)bias->data)[i];
        if (!isnan(x) && (isfinite(x) || x < 0)) continue;
        api_tensor_fault(form, bias, i, false, API_NOT_FINITE, "bias: expected finite numbers or -Infinity, got %s",
                         isnan(x) ? "NaN" : "Infinity");
        form->broken = true;
        return;
    }
}

void api_options_parse(api_form *form, api_options *options) {
    static const char *const formats[] = {"nested", "flat", "base64"}, *const dtypes[] = {"F64", "F32", "F16", "BF16"};
    size_t choice;
    *options = (api_options){.reply_dtype = form->dtype == ATTN_F64 ? API_F64 : API_F32};
    if (api_form_choice(form, API_FIELD_REPLY_DTYPE, dtypes, 4, &choice))
        options->reply_dtype = (api_dtype)(API_F64 + choice);
    if (api_form_choice(form, API_FIELD_FORMAT, formats, 3, &choice)) options->format = (api_spelling)choice;
    read_return(form, options);
    api_form_bool(form, API_FIELD_CAUSAL, &options->causal);
    read_offset(form, options);
    read_window(form, options);
    read_scale(form, options);
    api_form_tensor(form, API_FIELD_MASK, API_MASK, &options->mask);
    api_form_tensor(form, API_FIELD_BIAS, API_REALS, &options->bias);
    check_bias(form, &options->bias);
    api_form_tensor(form, API_FIELD_KV_LENGTHS, API_INTEGERS, &options->kv_lengths);
    api_form_tensor(form, API_FIELD_PAST_K, API_REALS, &options->past_k);
    api_form_tensor(form, API_FIELD_PAST_V, API_REALS, &options->past_v);
    options->has_tokens = api_form_strings(form, API_FIELD_TOKENS, NULL, NULL, &options->tokens);
    options->has_key_tokens = api_form_strings(form, API_FIELD_KEY_TOKENS, NULL, NULL, &options->key_tokens);
}

/* ---- fitting to the sizes --------------------------------------------------------------------------------------- */

api_shape api_shape_of(api_axes axes, size_t batch, size_t heads, size_t n, size_t d) {
    api_shape shape = {0};
    if (axes.batch) shape.axes[shape.rank++] = batch;
    if (axes.heads) shape.axes[shape.rank++] = heads;
    shape.axes[shape.rank++] = n;
    shape.axes[shape.rank++] = d;
    return shape;
}

/* an error where the past has not the axes (batch, kv heads, any, d) */
static bool past_fits(api_form *form, const api_tensor *past, api_shape wanted) {
    if (!past->ok) return false;
    bool same = past->rank == wanted.rank;
    for (size_t i = 0; same && i < wanted.rank; i++) same = i == wanted.rank - 2 || past->shape[i] == wanted.axes[i];
    if (same) return true;
    char got[API_SHAPE_TEXT], leading[API_SHAPE_TEXT];
    api_shape_text(leading, wanted.rank - 2, wanted.axes);
    leading[strlen(leading) - 1] = '\0'; /* the closing bracket */
    api_form_fault(form, past->field, API_SHAPE_MISMATCH, "%s: expected the shape %s%sn_past, %zu], got %s",
                   api_fields[past->field].name, leading, wanted.rank > 2 ? ", " : "", wanted.axes[wanted.rank - 1],
                   api_shape_text(got, past->rank, past->shape));
    return false;
}

bool api_options_apply_past(api_form *form, const api_options *options, api_axes axes, bool knows_v,
                            attn_problem *problem) {
    const api_tensor *k = &options->past_k, *v = &options->past_v;
    if (k->given != v->given)
        api_form_missing(form, k->given ? API_FIELD_PAST_V : API_FIELD_PAST_K, "beside the other half of the past");
    if (!k->given) return !v->given;
    const bool k_fits = past_fits(form, k, api_shape_of(axes, problem->batch, problem->kv_heads, 0, problem->d_k));
    const bool v_fits =
        knows_v && past_fits(form, v, api_shape_of(axes, problem->batch, problem->kv_heads, 0, problem->d_v));
    if (!k_fits) return false;
    const size_t n = problem->n_past = k->shape[k->rank - 2];
    if (!v_fits) return true;
    if (v->shape[v->rank - 2] != n)
        api_form_fault(form, API_FIELD_PAST_V, API_SHAPE_MISMATCH, "past_v: expected %zu keys as in past_k, got %zu", n,
                       v->shape[v->rank - 2]);
    if (n == 0) return true;
    problem->past_k = (attn_view){k->data, problem->kv_heads * n * problem->d_k, n * problem->d_k, problem->d_k};
    problem->past_v = (attn_view){v->data, problem->kv_heads * n * problem->d_v, n * problem->d_v, problem->d_v};
    return true;
}

/* NumPy's rule: aligned at the right, each axis of the same length or 1 */
static void broadcast(api_form *form, const api_tensor *tensor, api_axes axes, const attn_problem *p,
                      attn_broadcast *view) {
    if (!tensor->ok) return;
    const api_shape scores = api_shape_of(axes, p->batch, p->heads, p->n_q, p->n_past + p->n_new);
    size_t strides[4] = {0}, stride = 1;
    bool fits = tensor->rank <= scores.rank;
    for (size_t i = 0; fits && i < tensor->rank; i++) { /* from the last axis */
        const size_t length = tensor->shape[tensor->rank - 1 - i], wanted = scores.axes[scores.rank - 1 - i];
        fits = length == wanted || length == 1;
        strides[i] = length == 1 ? 0 : stride;
        stride *= length;
    }
    if (!fits) {
        char got[API_SHAPE_TEXT], wanted[API_SHAPE_TEXT];
        api_form_fault(form, tensor->field, API_SHAPE_MISMATCH,
                       "%s: expected a shape that broadcasts to that of the scores, %s (%s%squeries, keys), got %s",
                       api_fields[tensor->field].name, api_shape_text(wanted, scores.rank, scores.axes),
                       axes.batch ? "batch, " : "", axes.heads ? "heads, " : "",
                       api_shape_text(got, tensor->rank, tensor->shape));
        return;
    }
    *view = (attn_broadcast){.data = tensor->data, .key = strides[0], .query = strides[1]};
    if (axes.heads) view->head = strides[2];
    if (axes.batch) view->batch = strides[axes.heads ? 3 : 2];
}

static bool one_per_batch(api_form *form, const api_tensor *tensor, size_t batch) {
    if (!tensor->ok) return false;
    if (tensor->rank == 1 && tensor->count == batch) return true;
    char got[API_SHAPE_TEXT];
    api_form_fault(form, tensor->field, API_SHAPE_MISMATCH,
                   "%s: expected a list of %zu integers, one for each of the batch, got the shape %s",
                   api_fields[tensor->field].name, batch, api_shape_text(got, tensor->rank, tensor->shape));
    return false;
}

static void apply_lengths(api_form *form, const api_tensor *tensor, attn_problem *problem) {
    if (!one_per_batch(form, tensor, problem->batch)) return;
    const int64_t *lengths = tensor->data;
    const size_t n_k = problem->n_past + problem->n_new;
    for (size_t b = 0; b < problem->batch; b++)
        if (lengths[b] < 0 || (uint64_t)lengths[b] > n_k) {
            api_tensor_fault(form, tensor, b, true, API_OUT_OF_RANGE,
                             "kv_lengths: expected 0 to %zu (n_past + n_k), got %lld", n_k, (long long)lengths[b]);
            return;
        }
    problem->kv_lengths = lengths;
}

static void apply_offset(api_form *form, const api_options *options, attn_problem *problem) {
    if (options->offsets.given) {
        if (one_per_batch(form, &options->offsets, problem->batch)) problem->query_offset = options->offsets.data;
        return;
    }
    if ((!options->offset_end && !options->has_offset) || problem->batch == 0 || problem->n_q == 0) return;
    int64_t *offsets = api_small(form->memory, api_times_sizes(problem->batch, sizeof *offsets));
    if (!offsets) {
        form->broken = true;
        api_error_memory(form->error, form->memory);
        return;
    }
    const int64_t n_k = (int64_t)(problem->n_past + problem->n_new), n_q = (int64_t)problem->n_q;
    for (size_t b = 0; b < problem->batch; b++)
        offsets[b] = options->has_offset ? options->offset : (problem->kv_lengths ? problem->kv_lengths[b] : n_k) - n_q;
    problem->query_offset = offsets;
}

static void check_labels(api_form *form, api_field field, size_t got, size_t wanted) {
    if (got != wanted)
        api_form_fault(form, field, API_SHAPE_MISMATCH, "%s: expected %zu labels, got %zu", api_fields[field].name,
                       wanted, got);
}

static unsigned traced_names(const api_form *form, const api_options *options) {
    unsigned names = 1u << API_NAME_OUTPUT | 1u << API_NAME_WEIGHTS | 1u << API_NAME_SCORES | 1u << API_NAME_SCALED |
                     1u << API_NAME_MASKED | 1u << API_NAME_LSE;
    if (options->softcap > 0) names |= 1u << API_NAME_CAPPED;
    if (options->past_k.given) names |= 1u << API_NAME_PRESENT_K | 1u << API_NAME_PRESENT_V;
    if (form->endpoint == API_MHA)
        names |= 1u << API_NAME_Q | 1u << API_NAME_K | 1u << API_NAME_V | 1u << API_NAME_HEADS;
    return names;
}

static double scale_of(const api_options *options, size_t d_k) {
    switch (options->scale_form) {
    case API_SCALE_INVERSE_SQRT: return 1 / sqrt((double)d_k);
    case API_SCALE_INVERSE: return 1 / (double)d_k;
    case API_SCALE_ONE: return 1;
    default: return options->scale;
    }
}

void api_options_apply(api_form *form, api_options *options, api_axes axes, attn_problem *problem) {
    const size_t n_k = problem->n_past + problem->n_new;
    if (options->trace) options->names |= traced_names(form, options);
    if (form->only_names) options->names = form->only_names;
    problem->causal = options->causal;
    problem->softcap = options->softcap;
    problem->scale = scale_of(options, problem->d_k);
    if (options->window.ok) {
        const int64_t *sides = options->window.data;
        problem->has_window = true;
        problem->window_left = sides[0];
        problem->window_right = sides[1];
    }
    broadcast(form, &options->mask, axes, problem, &problem->mask);
    broadcast(form, &options->bias, axes, problem, &problem->bias);
    apply_lengths(form, &options->kv_lengths, problem);
    apply_offset(form, options, problem);
    if (options->has_tokens) check_labels(form, API_FIELD_TOKENS, options->tokens, problem->n_q);
    if (options->has_key_tokens) check_labels(form, API_FIELD_KEY_TOKENS, options->key_tokens, n_k);
}
