/* option_text.h: options that stand beside a binary body, each as a text of its own (inside api/ only).
 *
 * A text is a JSON value: true, 0.5, [1,2]. Where it is none, it is a list without its brackets (1,2), for fields that
 * are lists of strings a list without brackets and quotes (output,lse), else a string without its quotes (bnhd).
 */
#ifndef API_OPTION_TEXT_H
#define API_OPTION_TEXT_H

#include "../formats/body.h"
#include "fields.h"

/* Adds field `name` with the value of `text` (zero-ended UTF-8) to `root`. A field that is there already must have the
 * same value. false: error is set. */
bool api_option_add(api_body *body, json_t *root, const char *name, const char *text, api_error *error);

/* The same with all pairs name=text of a query string (application/x-www-form-urlencoded, which it decodes in place).
 */
bool api_option_add_query(api_body *body, json_t *root, char *query, api_error *error);

#endif
