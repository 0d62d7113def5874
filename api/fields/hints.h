/* hints.h: what is most likely meant by a field that is not known (inside api/ only). */
#ifndef API_HINTS_H
#define API_HINTS_H

#include "fields.h"

enum { API_HINT_TEXT = 400 };

/* The detail of unknown_field for a name that `schema` does not have: with what other libraries mean by it, the
 * endpoint of `schemas` that has it, the name that is near, or nothing. `schemas` is ended by NULL; NULL itself for the
 * members of an object, which only themselves may be near. */
const char *api_hint(const api_schema *schema, const api_schema *const *schemas, const char *name,
                     char text[API_HINT_TEXT]);

#endif
