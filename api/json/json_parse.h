/* json_parse.h: jansson's parser, safe where memory ends (inside api/ only). */
#ifndef API_JSON_PARSE_H
#define API_JSON_PARSE_H

#include <jansson.h>

#include "../base/memory.h"

/* json_loadb with duplicates rejected and any value at the top. Where an allocation fails, NULL with
 * json_error_out_of_memory in *fault, and nothing leaks: jansson 2.14 itself ignores a failure while a string grows,
 * drops characters and may end the process by an assertion. `memory` is for notes during the call. */
json_t *api_json_parse(api_memory *memory, const char *text, size_t length, json_error_t *fault);

#endif
