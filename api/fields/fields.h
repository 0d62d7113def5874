/* fields.h: what a request may hold and what it may ask for, as tables (inside api/ only).
 *
 * A field is one row: its name, the kinds of value it takes, its rank, and the function that reads it. A name of
 * `return` is one row likewise. What an endpoint knows is its schema: some tables of fields, some of names. The
 * conversion of texts (query strings, metadata, parameters), the metadata of models, hints and checks derive from rows.
 */
#ifndef API_FIELDS_H
#define API_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "../json/reader.h"
#include "../tensors/shape.h"

/* The kinds of value that a field takes, as bits; a field may take several. */
enum {
    API_BOOLEAN = 1 << 0,
    API_INTEGER = 1 << 1,
    API_NUMBER = 1 << 2,
    API_WORD = 1 << 3,  /* a string, one of a list */
    API_WORDS = 1 << 4, /* a list of strings */
    API_OBJECT = 1 << 5,
    API_REALS = 1 << 6,    /* a tensor of numbers of the compute type */
    API_MASK = 1 << 7,     /* a tensor of booleans, or of 0 and 1 */
    API_INTEGERS = 1 << 8, /* a tensor of integers, int64_t */
    API_TENSOR = API_REALS | API_MASK | API_INTEGERS,
};

/* What else is said of a field, as bits. */
enum {
    API_REQUIRED = 1 << 0,
    API_CLOSES_KEYS = 1 << 1, /* keys that it closes may hold NaN and infinities */
};

struct api_form;
typedef unsigned api_field; /* the number of a field in its schema */

typedef struct api_field_row {
    const char *name;
    unsigned kinds;
    unsigned min_rank, max_rank; /* of a tensor: another is shape_mismatch */
    unsigned flags;
    /* Reads and checks the field, which is there, into `state`, the endpoint's own. NULL: the endpoint reads it. */
    void (*set)(struct api_form *form, api_field field, void *state);
} api_field_row;

/* A name of `return`: a tensor of the reply. */
typedef struct api_name_row {
    const char *name;
    unsigned rank;                         /* axes at most */
    bool by_default;                       /* returned if the request has no `return` */
    api_shape (*shape)(const void *state); /* of the result, once all fields are read */
    size_t result;                         /* offset in the state of the `void *` that says where the result goes */
    bool (*traced)(const void *state);     /* whether `trace` returns it; NULL: never */
    int stage;                             /* attn_stage of its overflow; API_NO_STAGE: it has none */
    const char *number;                    /* one of its numbers, in the message of an overflow */
} api_name_row;
#define API_NO_STAGE (-1)

typedef struct api_field_table {
    const api_field_row *rows;
    size_t count;
} api_field_table;
typedef struct api_name_table {
    const api_name_row *rows;
    size_t count;
} api_name_table;
#define API_TABLE(rows) \
    { rows, sizeof(rows) / sizeof *(rows) }

/* Rows are numbered table after table. `return` and the reply have names in their order. */
enum { API_MAX_TABLES = 8, API_MAX_FIELDS = 96, API_MAX_NAMES = 64 };
typedef struct api_schema {
    const char *name;                              /* of the endpoint: its path without the slash */
    const api_field_table *fields[API_MAX_TABLES]; /* NULL: no more */
    const api_name_table *names[API_MAX_TABLES];
} api_schema;

/* The row of that number; NULL past the last. */
const api_field_row *api_field_at(const api_schema *schema, size_t index);
const api_name_row *api_name_at(const api_schema *schema, size_t index);
size_t api_field_count(const api_schema *schema);
size_t api_name_count(const api_schema *schema);
/* The number of the row of that name; the count if there is none. */
size_t api_field_find(const api_schema *schema, const char *name);
size_t api_name_find(const api_schema *schema, const char *name);
/* The names of `return` as "a, b, c", as many as fit. */
void api_name_list(const api_schema *schema, char *text, size_t capacity);

/* The most usual type of a field's tensor; API_DTYPE_NONE: it is not a tensor. */
api_dtype api_field_dtype(const api_field_row *row);
/* Whether a query string may hold it: options may, lists of integers too, other tensors go into the body. */
bool api_field_in_query(const api_field_row *row);

#endif
