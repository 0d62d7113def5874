#include "hints.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../api.h"

#define TRUE_ATTENDS "true or 1 means that the query may attend to the key"
#define NO_DROPOUT "not supported: there is no dropout at inference"

/* Names of PyTorch, Keras, Hugging Face, JAX, FlashAttention and ONNX, in any case. The first row counts whose field
 * the endpoint has; field NULL: no field does this, the note says why. */
static const struct {
    const char *name, *field, *note;
} foreign[] = {
    {"attn_mask", "mask",
     TRUE_ATTENDS " (torch.nn.MultiheadAttention means the opposite); numbers to add belong in \"bias\""},
    {"key_padding_mask", "key_mask", TRUE_ATTENDS ", false or 0 that it is padding (PyTorch means the opposite)"},
    {"attention_mask", "key_mask", TRUE_ATTENDS ", false or 0 that it is padding"},
    {"value_mask", "key_mask", TRUE_ATTENDS ", false or 0 that it is padding"},
    {"padding_mask", "key_mask", TRUE_ATTENDS ", false or 0 that it is padding"},
    {"attn_bias", "bias", ""},
    {"attention_bias", "bias", ""},
    {"position_bias", "bias", ""},
    {"is_causal", "causal", ""},
    {"use_causal_mask", "causal", ""},
    {"causal_mask", "causal", ""},
    {"unidirectional", "causal", ""},
    {"query", "q", ""},
    {"query", "x", ""},
    {"queries", "q", ""},
    {"queries", "x", ""},
    {"hidden_states", "x", ""},
    {"input", "x", ""},
    {"inputs", "x", ""},
    {"key", "k", ""},
    {"key", "context", "keys and values come from it"},
    {"keys", "k", ""},
    {"keys", "context", "keys and values come from it"},
    {"value", "v", ""},
    {"value", "context", "keys and values come from it"},
    {"values", "v", ""},
    {"values", "context", "keys and values come from it"},
    {"encoder_hidden_states", "context", ""},
    {"n_head", "num_heads", ""},
    {"n_heads", "num_heads", ""},
    {"nhead", "num_heads", ""},
    {"heads", "num_heads", ""},
    {"head_count", "num_heads", ""},
    {"q_num_heads", "num_heads", ""},
    {"num_q_heads", "num_heads", ""},
    {"num_query_heads", "num_heads", ""},
    {"num_attention_heads", "num_heads", ""},
    {"n_kv_head", "num_kv_heads", ""},
    {"n_kv_heads", "num_kv_heads", ""},
    {"n_head_kv", "num_kv_heads", ""},
    {"kv_num_heads", "num_kv_heads", ""},
    {"head_count_kv", "num_kv_heads", ""},
    {"num_key_value_heads", "num_kv_heads", ""},
    {"enable_gqa", "num_kv_heads", "fewer key/value heads than query heads are grouped without it"},
    {"past_key", "past_k", ""},
    {"past_value", "past_v", ""},
    {"past_key_value", "past_k", "with \"past_v\""},
    {"past_key_values", "past_k", "with \"past_v\""},
    {"layer_past", "past_k", "with \"past_v\""},
    {"k_cache", "past_k", ""},
    {"v_cache", "past_v", ""},
    {"key_cache", "past_k", ""},
    {"value_cache", "past_v", ""},
    {"kv_cache", "past_k", "with \"past_v\""},
    {"use_cache", "return", "with \"present_k\" and \"present_v\""},
    {"cache_position", "query_offset", ""},
    {"start_pos", "query_offset", ""},
    {"soft_cap", "softcap", ""},
    {"logit_cap", "softcap", ""},
    {"logits_soft_cap", "softcap", ""},
    {"logit_softcapping", "softcap", ""},
    {"attn_logits_soft_cap", "softcap", ""},
    {"attn_logit_softcapping", "softcap", ""},
    {"sliding_window", "window", "a list [left, right] without the token itself; -1 is open"},
    {"sliding_window_size", "window", "a list [left, right] without the token itself; -1 is open"},
    {"window_size", "window", "a list [left, right]; -1 is open"},
    {"local_window_size", "window", "a list [left, right]; -1 is open"},
    {"left_window_size", "window", "a list [left, right]; -1 is open"},
    {"right_window_size", "window", "a list [left, right]; -1 is open"},
    {"softmax_precision", "dtype", "\"float64\" for all of the arithmetic"},
    {"position_ids", "positions", "they serve the fields that use positions, such as \"rope\""},
    {"cu_seqlens_q", "segment_ids", "a number for each token, equal within a sequence"},
    {"cu_seqlens_k", "key_segment_ids", "a number for each token, equal within a sequence"},
    {"cu_seqlens_q", "kv_lengths", "with a batch that is padded"},
    {"cu_seqlens_k", "kv_lengths", "with a batch that is padded"},
    {"s_aux", "sinks", ""},
    {"attention_sinks", "sinks", ""},
    {"attn_sink", "sinks", ""},
    {"seq_lens", "kv_lengths", ""},
    {"seqlens_k", "kv_lengths", ""},
    {"cache_seqlens", "kv_lengths", ""},
    {"valid_lens", "kv_lengths", ""},
    {"valid_length", "kv_lengths", ""},
    {"key_lengths", "kv_lengths", ""},
    {"nonpad_kv_seqlen", "kv_lengths", ""},
    {"key_value_seq_lengths", "kv_lengths", ""},
    {"sm_scale", "scale", ""},
    {"qk_scale", "scale", ""},
    {"scaling", "scale", ""},
    {"attn_scale", "scale", ""},
    {"softmax_scale", "scale", ""},
    {"scale_factor", "scale", ""},
    {"norm_factor", "scale", "scores are multiplied by it"},
    {"temperature", "scale", "scores are multiplied by it: 1/temperature"},
    {"need_weights", "return_weights", ""},
    {"return_attn_probs", "return_weights", ""},
    {"output_attentions", "return_weights", ""},
    {"return_attention_scores", "return_weights", ""},
    {"average_attn_weights", "return_weights", "\"average\" is their mean over the heads"},
    {"qk_matmul_output_mode", "return", "it names scores, capped, masked or weights"},
    {"in_proj_weight", "w_qkv", "with \"weight_layout\": \"out_in\""},
    {"in_proj_bias", "b_qkv", ""},
    {"qkv", "w_qkv", ""},
    {"q_proj_weight", "w_q", "with \"weight_layout\": \"out_in\""},
    {"k_proj_weight", "w_k", "with \"weight_layout\": \"out_in\""},
    {"v_proj_weight", "w_v", "with \"weight_layout\": \"out_in\""},
    {"out_proj_weight", "w_o", "with \"weight_layout\": \"out_in\""},
    {"out_proj_bias", "b_o", ""},
    {"out_proj", "w_o", "with \"weight_layout\": \"out_in\", and \"b_o\""},
    {"o_proj", "w_o", "with \"weight_layout\": \"out_in\""},
    {"c_proj", "w_o", "with \"b_o\""},
    {"w_out", "w_o", ""},
    {"b_out", "b_o", ""},
    {"c_attn", "w_qkv", "with \"b_qkv\""},
    {"weight_q", "w_q", ""},
    {"weight_k", "w_k", ""},
    {"weight_v", "w_v", ""},
    {"weight_o", "w_o", ""},
    {"bias_q", "b_q", ""},
    {"bias_k", "b_k", ""},
    {"bias_v", "b_v", ""},
    {"bias_o", "b_o", ""},
    {"memory", "context", "keys and values come from it"},
    {"embed_dim", NULL, "it follows from the shape of \"x\""},
    {"dropout", NULL, NO_DROPOUT},
    {"dropout_p", NULL, NO_DROPOUT},
    {"dropout_rate", NULL, NO_DROPOUT},
    {"attn_dropout", NULL, NO_DROPOUT},
    {"attention_dropout", NULL, NO_DROPOUT},
    {"training", NULL, "not supported: there is no training, so no dropout either"},
};

/* What other libraries mean by the name. false: they do not know it, or this endpoint has nothing for it. */
static bool hint_foreign(const api_schema *schema, const char *name, char text[API_HINT_TEXT]) {
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const char *field = foreign[i].field, *note = foreign[i].note;
        if (strcasecmp(foreign[i].name, name) != 0) continue;
        if (field && api_field_find(schema, field) == api_field_count(schema)) continue;
        if (field)
            snprintf(text, API_HINT_TEXT, "unknown field \"%s\"; here it is \"%s\"%s%s", name, field, *note ? ": " : "",
                     note);
        else
            snprintf(text, API_HINT_TEXT, "unknown field \"%s\"; %s", name, note);
        return true;
    }
    return false;
}

static bool hint_endpoint(const api_schema *schema, const api_schema *const *schemas, const char *name,
                          char text[API_HINT_TEXT]) {
    for (; *schemas; schemas++) {
        if (api_field_find(*schemas, name) == api_field_count(*schemas)) continue;
        snprintf(text, API_HINT_TEXT, "unknown field \"%s\" of /%s; /%s has it", name, schema->name, (*schemas)->name);
        return true;
    }
    return false;
}

const char *api_hint(const api_schema *schema, const api_schema *const *schemas, const char *name,
                     char text[API_HINT_TEXT]) {
    const char *nearest = NULL;
    if (schemas && (hint_foreign(schema, name, text) || hint_endpoint(schema, schemas, name, text))) return text;
    const api_field_row *row;
    for (size_t i = 0; (row = api_field_at(schema, i)); i++)
        if (api_is_near(name, row->name) &&
            (!nearest || api_edit_distance(name, row->name) < api_edit_distance(name, nearest)))
            nearest = row->name;
    if (nearest)
        snprintf(text, API_HINT_TEXT, "unknown field \"%.100s\", did you mean \"%s\"?", name, nearest);
    else
        snprintf(text, API_HINT_TEXT, "unknown field \"%.100s\"", name);
    return text;
}
