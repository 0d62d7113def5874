#include "model.h"

#include <stdio.h>
#include <string.h>

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

const struct api_operation *api_oip_model(const char *name, size_t length) {
    for (size_t i = 0; api_operations[i]; i++)
        if (strlen(api_operations[i]->name) == length && strncmp(api_operations[i]->name, name, length) == 0)
            return api_operations[i];
    return NULL;
}

const char *api_oip_model_list(char text[API_OIP_MODELS_TEXT]) {
    size_t length = 0;
    for (size_t i = 0; api_operations[i] && length < API_OIP_MODELS_TEXT; i++)
        length += (size_t)snprintf(text + length, API_OIP_MODELS_TEXT - length, "%s%s", i ? ", " : "",
                                   api_operations[i]->name);
    return text;
}
