/* option_text.h: options that stand beside the fields of a body, each as a text of its own: in a query string, in the
 * metadata of safetensors, in parameters of the Open Inference Protocol (inside api/ only).
 *
 * The kind of the field says how a text is read. It is JSON: true, 0.5, [1,2], {"theta": 500}. A boolean may be True,
 * False, 1 or 0 as well, a string may lack its quotes (bnhd), a list its brackets (1,2), and a list of strings both
 * (output,lse).
 */
#ifndef API_OPTION_TEXT_H
#define API_OPTION_TEXT_H

#include "../formats/body.h"
#include "form.h"

/* Adds field `name` with the value of `text` (zero-ended UTF-8) to `root`, which has no slots yet. A field that is
 * there already must have the same value. false: error is set. */
bool api_option_add(api_body *body, json_t *root, const char *name, const char *text, api_error *error);

/* Reads the options of form->query (application/x-www-form-urlencoded) into the slots of a form that is bound to
 * `root`, which will own the values. A field of the body must have the same value there. Faults go to the form. */
void api_query_read(api_form *form, json_t *root);
/* An error at an option of the query string has no place in the body: the detail says instead where it is. */
void api_query_locate(api_error *error);

#endif
