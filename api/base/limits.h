/* limits.h: bounds on what one request may hold besides its tensors (inside api/ only).
 *
 * Tensors are bounded by the length of the body and by the budget of memory. What is not a tensor is small in any
 * request that means something; these bounds keep the rest from costing more than it is worth. Beyond one of them the
 * answer is a 422 (out_of_range; too_deep for the depth), once the whole body was seen to be JSON, unless there is an
 * earlier one in the document; that is not looked for beyond the bounds of all text, keys and nodes together.
 */
#ifndef API_LIMITS_H
#define API_LIMITS_H

#include <stddef.h>

#define API_MAX_DEPTH 16                  /* nesting of the document outside of tensors */
#define API_MAX_VALUES 4096               /* numbers and tensors */
#define API_MAX_TEXT ((size_t)8 << 20)    /* bytes of all strings and keys; base64 apart */
#define API_MAX_STRING ((size_t)64 << 10) /* bytes of one string or key, escapes as they stand; base64 apart */
#define API_MAX_HEADER ((size_t)1 << 20)  /* bytes of a safetensors header */
#define API_MAX_KEYS 4096                 /* objects and members of all objects: each costs some 200 bytes */
#define API_MAX_NODES ((size_t)1 << 18)   /* nodes of the document: each costs some 100 bytes */

#endif
