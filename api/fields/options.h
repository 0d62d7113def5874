/* options.h: the fields that every endpoint has: types, format, and the names of `return` (inside api/ only). */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include "../formats/reply.h"
#include "form.h"

typedef struct api_options {
    api_spelling format;
    api_dtype reply_dtype; /* F64, F32, F16 or BF16 */
} api_options;

/* The table of these fields. Their state is an api_options. */
extern const api_field_table api_common_fields;

/* Reads them. Before all others: every number is of the compute type, form->dtype. */
void api_options_read(api_form *form, api_options *options);
/* Adds to form->names what `trace` returns. `state` is the endpoint's, all of whose fields are read. */
void api_options_trace(api_form *form, const void *state);

#endif
