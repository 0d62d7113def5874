/* dtype.h: the one table of element types (inside api/ only). A dtype is one row; names, sizes and conversions follow
 * from it. Elements lie in memory as bytes, little-endian, without alignment.
 */
#ifndef API_DTYPE_H
#define API_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decimal.h"

typedef enum api_dtype {
    API_DTYPE_NONE,
    API_F64,
    API_F32,
    API_F16,
    API_BF16,
    API_BOOL,
    API_I64,
    API_I32,
    API_DTYPE_COUNT
} api_dtype;

typedef enum api_kind { API_KIND_NONE, API_KIND_REAL, API_KIND_BOOLEAN, API_KIND_INTEGER } api_kind;

/* Elements that the block conversions take, always as many, so that their loops are vectorized */
enum { API_DTYPE_BLOCK = 64 };

typedef struct api_dtype_row {
    const char *name;     /* in our JSON and in safetensors: "F32" */
    const char *datatype; /* of the Open Inference Protocol: "FP32" */
    size_t size;
    api_kind kind;
    /* One element, exactly: a double, and the residual where an I64 needs more bits */
    api_decimal (*read)(const void *element);

    /* ---- real types alone, NULL in other rows ---- */
    /* The nearest value of this type; infinite beyond its range */
    double (*round)(api_decimal decimal);
    /* API_DTYPE_BLOCK elements as floats, rounded once; `in` is not `out` */
    void (*to_floats)(const void *in, float *out);
    /* API_DTYPE_BLOCK numbers as elements. true: a finite one became infinite */
    bool (*from_floats)(const float *in, void *out);
    bool (*from_doubles)(const double *in, void *out);
    /* The shortest decimal of an element; 0: it is not finite */
    size_t (*text)(char text[API_DECIMAL_MAX], const void *element);
} api_dtype_row;

/* Indexed by api_dtype. The row of API_DTYPE_NONE has empty names, size 0 and no functions. */
extern const api_dtype_row api_dtypes[API_DTYPE_COUNT];

api_dtype api_dtype_of_name(const char *name);         /* API_DTYPE_NONE: unknown */
api_dtype api_dtype_of_datatype(const char *datatype); /* likewise */
/* Writes all names, or all datatypes: "F64, F32, ...". Returns text. */
enum { API_DTYPE_LIST = 128 };
const char *api_dtype_list(char text[API_DTYPE_LIST], bool datatypes);
static inline size_t api_dtype_size(api_dtype dtype) { return api_dtypes[dtype].size; }
static inline const char *api_dtype_name(api_dtype dtype) { return api_dtypes[dtype].name; }

#endif
