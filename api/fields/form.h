/* form.h: the fields of a request's document, each with its place, and how single values are read from them
 * (inside api/ only). */
#ifndef API_FORM_H
#define API_FORM_H

#include <jansson.h>

#include "../base/error.h"
#include "fields.h"

typedef struct api_slot {
    const api_field_row *row;
    json_t *json; /* borrowed from the document; NULL: absent, or null */
    api_place place;
} api_slot;

typedef struct api_form {
    const api_schema *schema;
    const api_schema *const *schemas; /* those of all endpoints, NULL ends them: for hints; may be NULL */
    api_memory *memory;
    api_reader *reader;
    api_error *error;                   /* first error of the request */
    struct api_random_tensors *randoms; /* tensors whose numbers are made when the job runs (field_tensor.h) */
    bool broken;      /* an error was met that leaves the request without a meaning (an unknown field alone does not) */
    attn_dtype dtype; /* the compute type */
    uint64_t names;   /* bits of the names that are returned, by their numbers in the schema */
    bool trace;       /* the names that `trace` returns are added */
    /* what a format of bodies asks for besides the fields: */
    char *query;         /* the query string, to be changed; NULL: none */
    bool has_parameters; /* options stand in "parameters" of the body, and not in the query string */
    bool any_data_shape; /* "data" of a tensor may be nested as its shape is */
    bool always_output;  /* the names that are returned by default are returned whatever `return` names */
    uint64_t only_names; /* bits of the names that are returned, whatever was asked; 0: those that were */
    api_slot *slots;     /* one for each field of the schema */
    /* of an object within the document: the form and the field whose members these are */
    const struct api_form *outer; /* NULL: the document itself */
    api_field outer_field;
} api_form;

/* Sorts the members of the document into slots; each unknown one is an error. Breaks the form if there is no memory, or
 * the document is not an object. */
void api_form_bind(api_form *form, json_t *root);
/* Each required field that is not there is an error. */
void api_form_require(api_form *form);
/* Reads a field that must be an object: its members are fields of `members`, whose tables' setters are called. false:
 * fault. */
bool api_form_object(api_form *form, api_field field, const api_schema *members, void *state);
/* The same without calling setters: `inner` becomes the form of the members. `inner` may break without its outer. */
bool api_form_open(api_form *form, api_field field, const api_schema *members, api_form *inner);
/* Calls `set` of the rows of a table of the schema whose fields are there, in their order. */
void api_form_set(api_form *form, const api_field_table *table, void *state);

static inline bool api_form_has(const api_form *form, api_field field) { return form->slots[field].json != NULL; }
static inline const char *api_form_name(const api_form *form, api_field field) { return form->slots[field].row->name; }
/* Whether a name of `return` is returned; false for one that the schema does not have. */
bool api_form_returns(const api_form *form, const char *name);

/* JSON pointer of a field */
void api_form_pointer(const api_form *form, api_field field, char pointer[256]);
/* An error at a field; the field's name is put before the detail. Breaks the form. */
__attribute__((format(printf, 4, 5))) void api_form_fault(api_form *form, api_field field, api_code code,
                                                          const char *detail, ...);
/* The same at any place. Breaks the form if `breaks`. */
__attribute__((format(printf, 7, 0))) void api_form_faultv(api_form *form, api_field field, api_place place,
                                                           const char *pointer, bool breaks, api_code code,
                                                           const char *detail, va_list arguments);
/* The error that a field is not there. Breaks the form. */
void api_form_missing(api_form *form, const char *name, const char *why);
/* Wrong type at a field: `wanted` says what was expected. */
void api_form_wrong_type(api_form *form, api_field field, const char *wanted);

/* Each returns true and sets *result if the field is there and right. */
bool api_form_bool(api_form *form, api_field field, bool *result);
bool api_form_integer(api_form *form, api_field field, int64_t *result);
bool api_form_real(api_form *form, api_field field, double *result);
/* an integer of at least 1 */
bool api_form_count(api_form *form, api_field field, size_t *result);
/* one of `count` strings: its index */
bool api_form_choice(api_form *form, api_field field, const char *const *choices, size_t count, size_t *result);
/* a list of strings: their number. `each`, which may be NULL, is called with every string. */
bool api_form_strings(api_form *form, api_field field,
                      void (*each)(api_form *form, api_field field, const char *string, size_t index), size_t *count);

/* The value that a node of the document stands for; NULL: none. */
api_value *api_form_value(const api_form *form, const json_t *json);
/* "a number", "an object" ..., what a node was in the document */
const char *api_form_kind(const api_form *form, const json_t *json);

#endif
