/* field_tensor.h: a tensor of a request, from any of its four spellings (inside api/ only). */
#ifndef API_FIELD_TENSOR_H
#define API_FIELD_TENSOR_H

#include "../numbers/random.h"
#include "form.h"

enum { API_POINTER_PREFIX = 80 };

/* Row-major, in the reader's memory. */
typedef struct api_tensor {
    api_field field;
    bool given; /* the field is there */
    bool ok;    /* ... and could be read: all below is known */
    bool finite;
    size_t rank, shape[API_MAX_RANK], count;
    void *data;  /* never NULL if ok, even with no elements */
    size_t held; /* elements in data; of reals that are not ok, those before the first fault */
    const api_value *value;
    char prefix[API_POINTER_PREFIX]; /* JSON pointer of the elements: "/q", "/q/data" */
} api_tensor;

/* Reads a tensor field, of the kind and the ranks of its row; faults go to the form. */
void api_form_tensor(api_form *form, api_field field, api_tensor *tensor);

/* An error at an element; the field's name is put before the detail. Breaks the form if `breaks`. */
__attribute__((format(printf, 6, 7))) void api_tensor_fault(api_form *form, const api_tensor *tensor, size_t element,
                                                            bool breaks, api_code code, const char *detail, ...);

/* Large tensors of random numbers: a short request may ask for many, so they are not made by the thread that reads it.
 */
typedef struct api_random_tensor {
    struct api_random_tensor *next;
    api_distribution distribution;
    uint64_t seed;
    size_t count;
    api_dtype dtype;
    void *data;
} api_random_tensor;

typedef struct api_random_tensors {
    api_random_tensor *first;
    size_t count; /* numbers of all */
} api_random_tensors;

/* Makes the numbers of all; ends early if *cancel. */
void api_random_tensors_fill(const api_random_tensors *randoms, attn_pool *pool, const atomic_bool *cancel);

/* not_finite at the first element of a tensor of reals that is not finite; nothing if all are */
void api_tensor_require_finite(api_form *form, const api_tensor *tensor);

#endif
