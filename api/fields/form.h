/* form.h: the fields of a request's document, each with its place, and how single values are read from them
 * (inside api/ only). */
#ifndef API_FORM_H
#define API_FORM_H

#include <jansson.h>

#include "../base/error.h"
#include "../json/reader.h"
#include "fields.h"

typedef struct api_slot {
    json_t *json; /* borrowed from the skeleton; NULL: absent, or null */
    api_place place;
} api_slot;

typedef struct api_form {
    api_endpoint endpoint;
    api_memory *memory;
    api_reader *reader;
    api_error *error; /* first error of the request */
    bool broken;      /* an error was met that leaves the problem without a meaning (an unknown field alone does not) */
    attn_dtype dtype; /* the compute type */
    /* what a format of bodies asks for besides the fields: */
    bool any_data_shape; /* "data" of a tensor may be nested as its shape is */
    bool always_output;  /* `output` is returned whatever `return` names */
    unsigned only_names; /* bits of the names that are returned, whatever was asked; 0: those that were */
    api_slot slots[API_FIELD_COUNT];
} api_form;

/* Sorts the members of the skeleton into slots; each unknown one is an error. */
void api_form_bind(api_form *form, json_t *root);

static inline bool api_form_has(const api_form *form, api_field field) { return form->slots[field].json != NULL; }

/* An error at a field. Breaks the form. */
__attribute__((format(printf, 4, 5))) void api_form_fault(api_form *form, api_field field, api_code code,
                                                          const char *detail, ...);
/* The error that a field should be there. Breaks the form. */
void api_form_missing(api_form *form, api_field field, const char *why);
/* Wrong type at a field: `wanted` says what was expected. */
void api_form_wrong_type(api_form *form, api_field field, const char *wanted);

/* Each returns true and sets *result where the field is there and right. */
bool api_form_bool(api_form *form, api_field field, bool *result);
bool api_form_integer(api_form *form, api_field field, int64_t *result);
bool api_form_real(api_form *form, api_field field, double *result);
/* one of `count` strings: its index */
bool api_form_choice(api_form *form, api_field field, const char *const *choices, size_t count, size_t *result);
/* a list of strings: their number. `each`, which may be NULL, is called with every string. */
bool api_form_strings(api_form *form, api_field field,
                      void (*each)(api_form *form, const char *string, size_t index, void *context), void *context,
                      size_t *count);

/* The value that a skeleton node stands for, NULL where it is none. */
api_value *api_form_value(const api_form *form, const json_t *json);
/* "a number", "an object" ..., what a skeleton node was in the document */
const char *api_form_kind(const api_form *form, const json_t *json);

#endif
