/* hints.h: what is most likely meant by a field that is not known (inside api/ only). */
#ifndef API_HINTS_H
#define API_HINTS_H

#include "fields.h"

enum { API_HINT_TEXT = 400 };

/* The detail of unknown_field for a name that `schema` does not have: with what other libraries mean by it, the
 * endpoint of `schemas` (NULL ends them; may be NULL itself) that has it, the name that is near, or nothing. */
const char *api_hint(const api_schema *schema, const api_schema *const *schemas, const char *name,
                     char text[API_HINT_TEXT]);

/* ", did you mean "known"?" for the nearest of `count` names if one is near, else "". */
const char *api_hint_near(const char *const *names, size_t count, const char *name, char text[API_HINT_TEXT]);

#endif
