/* reply.h: the tensors of a reply, and the formats that write them (inside api/ only).
 *
 * A format of replies is a row: its media type, a bound, and a function that writes the outputs. It knows neither jobs
 * nor HTTP. The table of formats is api/formats.c.
 */
#ifndef API_REPLY_H
#define API_REPLY_H

#include "../base/error.h"
#include "../base/memory.h"
#include "../json/reader.h"
#include "../tensors/shape.h"

/* How JSON spells a tensor ("format"). */
typedef enum api_spelling { API_NESTED, API_FLAT, API_BASE64 } api_spelling;

/* A tensor of the reply. */
typedef struct api_output {
    const char *name;
    api_shape shape;
    size_t count;    /* SIZE_MAX: more than fits */
    api_dtype dtype; /* of the reply: F64, F32, F16 or BF16 */
    void *data;      /* row-major, of the compute type; of dtype once api_reply_write has rounded it, in place */
} api_output;

typedef struct api_reply {
    const struct api_reply_format *format;
    void *state; /* the format's own */
    api_spelling spelling;
    attn_dtype compute;
    api_output *outputs; /* in the order of the reply */
    size_t output_count;
    api_memory *memory;
    api_error *error;
    const atomic_bool *cancel; /* set: nobody wants the reply any more; NULL: never */
} api_reply;

/* A format of replies. */
typedef struct api_reply_format {
    const char *content_type; /* the media type, perhaps with parameters */
    /* How closely Accept must name the type if the body came in another format (api_acceptance): 0: not at all, 2: by
     * its range (image/...), 3: by its full name. */
    int least_closeness;
    /* Bytes that write needs at most; SIZE_MAX if they do not fit. */
    size_t (*bound)(const api_reply *reply);
    /* Writes the outputs from `text` on, and returns the end. Uses at most the bound, for scratch too. Large tensors
     * are formatted by the threads of the pool (NULL: by the caller). What it writes after a cancellation is not sent.
     */
    char *(*write)(const api_reply *reply, attn_pool *pool, char *text);
} api_reply_format;

extern const api_reply_format api_json_reply;

/* Bytes of an element of an output while it is computed and after it was rounded. */
size_t api_reply_element(attn_dtype compute, api_dtype dtype);

/* Bytes that api_reply_write needs at most. */
size_t api_reply_bound(const api_reply *reply);

/* The outputs, rounded to their dtypes and written; in reply->memory, the length in *length. NULL: no memory, or a
 * number that does not fit; reply->error is set. */
const char *api_reply_write(const api_reply *reply, attn_pool *pool, size_t *length);

#endif
