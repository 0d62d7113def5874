#include "error.h"

#include <stdio.h>
#include <string.h>

#include "memory.h"
#include "text.h"

const api_code_info api_codes[API_CODE_COUNT] = {[API_NO_ERROR] = {"", 200, "OK", ""},
#define ROW(name, code, status, title, when) [API_##name] = {code, status, title, when},
                                                 API_ERROR_LIST(ROW)
#undef ROW
};

/* What must be said before all else: without memory the rest of the document was not looked at; a body that is not
 * JSON is 400 whatever else is wrong with it. */
static int precedence(api_code code) {
    switch (code) {
    case API_NO_ERROR: return 0;
    case API_INVALID_JSON: return 2;
    case API_OVERLOADED: return 3;
    case API_OUT_OF_MEMORY: return 4;
    default: return 1;
    }
}

static bool is_earlier(api_place a, api_place b) {
    if (a.member != b.member) return a.member < b.member;
    if (a.sub != b.sub) return a.sub < b.sub;
    return a.element < b.element;
}

void api_error_setv(api_error *error, api_code code, api_place place, const char *pointer, const char *detail,
                    va_list arguments) {
    const int old = precedence(error->code), new = precedence(code);
    if (new < old || (new == old && !is_earlier(place, error->place))) return;
    /* into buffers of our own first: pointer and detail may come from *error itself */
    char text[sizeof error->detail], where[sizeof error->pointer];
    vsnprintf(text, sizeof text, detail, arguments);
    snprintf(where, sizeof where, "%s", pointer ? pointer : "");
    api_text_make_utf8(text);
    api_text_make_utf8(where);
    memcpy(error->detail, text, sizeof text);
    memcpy(error->pointer, where, sizeof where);
    error->code = code;
    error->place = place;
    error->has_pointer = pointer != NULL;
    error->retry_after = code == API_OVERLOADED ? 1 : 0;
}

void api_error_set(api_error *error, api_code code, api_place place, const char *pointer, const char *detail, ...) {
    va_list arguments;
    va_start(arguments, detail);
    api_error_setv(error, code, place, pointer, detail, arguments);
    va_end(arguments);
}

void api_error_memory(api_error *error, const api_memory *memory) {
    if (memory->over_budget)
        api_error_set(error, API_OVERLOADED, API_PLACE_LAST, NULL,
                      "the memory limit for requests in flight is reached");
    else
        api_error_set(error, API_OUT_OF_MEMORY, API_PLACE_LAST, NULL,
                      "an allocation failed; nothing was done, the request can be sent again");
}

/* Bytes of the UTF-8 character at text, whose validity the reader has checked; 1 for a stray byte. */
static size_t character_length(const char *text) {
    const unsigned char lead = (unsigned char)*text;
    const size_t wanted = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < wanted; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80) return 1;
    return wanted;
}

void api_pointer_add(char pointer[256], const char *token) {
    size_t length = strlen(pointer);
    if (length + 1 >= 256) return;
    pointer[length++] = '/';
    while (*token) {
        const bool escaped = *token == '~' || *token == '/';
        const size_t size = character_length(token), wide = escaped ? 2 : size;
        if (length + wide >= 256) break;
        if (escaped) {
            pointer[length] = '~';
            pointer[length + 1] = *token == '~' ? '0' : '1';
        } else {
            memcpy(pointer + length, token, size);
        }
        length += wide;
        token += size;
    }
    pointer[length] = '\0';
}

void api_pointer_add_index(char pointer[256], size_t index) {
    char token[24];
    snprintf(token, sizeof token, "%zu", index);
    /* a number that is cut would name another element */
    if (strlen(pointer) + 1 + strlen(token) < 256) api_pointer_add(pointer, token);
}
