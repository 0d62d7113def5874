#include <string.h>

#include "oip.h"

static const struct {
    const char *name;
    api_dtype dtype;
} rows[] = {{"FP32", API_F32},  {"FP64", API_F64},  {"FP16", API_F16}, {"BF16", API_BF16},
            {"BOOL", API_BOOL}, {"INT32", API_I32}, {"INT64", API_I64}};

const char *api_oip_datatype_name(api_dtype dtype) {
    size_t i = 0;
    while (rows[i].dtype != dtype) i++;
    return rows[i].name;
}

api_dtype api_oip_datatype(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].dtype;
    return API_DTYPE_NONE;
}
