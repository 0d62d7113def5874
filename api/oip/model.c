#include <string.h>

#include "oip.h"

#define BOTH (API_ATTENTION | API_MHA)

/* Where a tensor may have fewer axes, those of most of them: (batch, heads, n, d). */
const api_oip_tensor api_oip_inputs[] = {
    {"q", API_ATTENTION, "FP32", 4, API_ATTENTION},
    {"k", API_ATTENTION, "FP32", 4, API_ATTENTION},
    {"v", API_ATTENTION, "FP32", 4, API_ATTENTION},
    {"x", API_MHA, "FP32", 3, API_MHA},
    {"context", API_MHA, "FP32", 3, 0},
    {"w_q", API_MHA, "FP32", 2, 0},
    {"w_k", API_MHA, "FP32", 2, 0},
    {"w_v", API_MHA, "FP32", 2, 0},
    {"w_o", API_MHA, "FP32", 2, 0},
    {"w_qkv", API_MHA, "FP32", 2, 0},
    {"b_q", API_MHA, "FP32", 1, 0},
    {"b_k", API_MHA, "FP32", 1, 0},
    {"b_v", API_MHA, "FP32", 1, 0},
    {"b_o", API_MHA, "FP32", 1, 0},
    {"b_qkv", API_MHA, "FP32", 1, 0},
    {"head_mask", API_MHA, "FP32", 1, 0},
    {"mask", BOTH, "BOOL", 4, 0},
    {"bias", BOTH, "FP32", 4, 0},
    {"kv_lengths", BOTH, "INT64", 1, 0},
    {"query_offset", BOTH, "INT64", 1, 0},
    {"window", BOTH, "INT64", 1, 0},
    {"past_k", BOTH, "FP32", 4, 0},
    {"past_v", BOTH, "FP32", 4, 0},
    {NULL, 0, NULL, 0, 0},
};

const api_oip_tensor api_oip_outputs[] = {
    {"output", API_ATTENTION, "FP32", 4, 0},
    {"output", API_MHA, "FP32", 3, 0},
    {"weights", BOTH, "FP32", 4, 0},
    {"scores", BOTH, "FP32", 4, 0},
    {"scaled", BOTH, "FP32", 4, 0},
    {"capped", BOTH, "FP32", 4, 0},
    {"masked", BOTH, "FP32", 4, 0},
    {"lse", BOTH, "FP32", 3, 0},
    {"present_k", BOTH, "FP32", 4, 0},
    {"present_v", BOTH, "FP32", 4, 0},
    {"q", API_MHA, "FP32", 4, 0},
    {"k", API_MHA, "FP32", 4, 0},
    {"v", API_MHA, "FP32", 4, 0},
    {"heads", API_MHA, "FP32", 3, 0},
    {NULL, 0, NULL, 0, 0},
};

const char *api_oip_model_name(api_endpoint endpoint) { return endpoint == API_ATTENTION ? "attention" : "mha"; }

api_dtype api_oip_datatype(const char *name) {
    static const struct {
        const char *name;
        api_dtype dtype;
    } rows[] = {{"FP32", API_F32},  {"FP64", API_F64},  {"FP16", API_F16}, {"BF16", API_BF16},
                {"BOOL", API_BOOL}, {"INT32", API_I32}, {"INT64", API_I64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].dtype;
    return API_DTYPE_NONE;
}
