#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reader_internal.h"

/* ---- strings ---------------------------------------------------------------------------------------------------- */

void api_string_start(api_reader *reader, const uint8_t *p, bool key) {
    reader->next = API_IN_STRING;
    reader->string_length = 0;
    reader->string_byte = api_reader_byte(reader, p);
    reader->string_column = api_reader_column(reader, reader->string_byte);
    if (key) {
        reader->use = API_STRING_KEY;
        if (reader->depth == 1) reader->has_top_key = false;
        api_count_key(reader);
    } else if (reader->mode == API_TO_DOCUMENT && api_reader_in_object(reader) && reader->key == API_KEY_BASE64) {
        reader->use = API_STRING_BASE64;
        reader->base64 = (api_base64){.value = api_reader_new_value(reader, API_ELEMENT_BYTES, 0)};
    } else {
        reader->use = reader->mode == API_TO_DOCUMENT ? API_STRING_TEXT : API_STRING_DROPPED;
        if (reader->mode == API_TO_TENSOR) api_tensor_wrong(reader, "a string");
    }
}

/* Strings and keys of any use end in a zero byte, and have no other. */
static bool string_is(const api_reader *reader, const char *text) { return strcmp(reader->string, text) == 0; }

static void end_key(api_reader *reader) {
    api_tree_key(reader);
    reader->next = API_AT_COLON;
    reader->key = API_KEY_OTHER;
    if (reader->depth == 1) {
        snprintf(reader->top_key, sizeof reader->top_key, "%s", reader->string);
        reader->has_top_key = true;
        reader->members++;
        reader->sub_members = 0;
        if (string_is(reader, "dtype")) reader->key = API_KEY_COMPUTE;
        return;
    }
    if (reader->depth == 2) reader->sub_members++;
    if (string_is(reader, "base64"))
        reader->key = API_KEY_BASE64;
    else if (reader->depth == 2 && string_is(reader, "dtype"))
        reader->key = API_KEY_DTYPE;
    else if (reader->depth == 2 && string_is(reader, "data"))
        reader->key = API_KEY_DATA;
}

static void end_text(api_reader *reader) {
    api_tree_string(reader);
    if (!api_reader_in_object(reader)) return;
    if (reader->key == API_KEY_COMPUTE && (string_is(reader, "float32") || string_is(reader, "float64"))) {
        reader->compute_known = true;
        reader->compute = string_is(reader, "float64") ? ATTN_F64 : ATTN_F32;
    } else if (reader->key == API_KEY_DTYPE) {
        reader->own_known = true;
        reader->own = api_dtype_of_name(reader->string);
    }
}

/* A key or text that is too long; its length counts escapes as they stand. */
static bool is_too_long(api_reader *reader, const uint8_t *p) {
    if (api_reader_byte(reader, p) - reader->string_byte - 1 <= API_MAX_STRING) return false;
    api_bound(reader, API_OUT_OF_RANGE, "a string of more than %zu bytes", API_MAX_STRING);
    return true;
}

static void end_string(api_reader *reader, const uint8_t *p) {
    reader->next = API_AFTER_VALUE;
    if (reader->use == API_STRING_DROPPED) return;
    if (reader->use == API_STRING_BASE64) {
        api_base64_end(&reader->base64);
        return;
    }
    const bool too_long = is_too_long(reader, p);
    if (!api_reader_grow(reader, &reader->string, &reader->string_capacity, reader->string_length + 1, 1)) return;
    reader->string[reader->string_length] = '\0';
    if (too_long && reader->use == API_STRING_KEY) api_tree_give_up(reader); /* cut keys would look like duplicates */
    if (reader->use == API_STRING_KEY)
        end_key(reader);
    else if (too_long)
        api_tree_add_refused(reader);
    else
        end_text(reader);
}

/* Bytes that the string stands for; none past its bound, which is checked at its end. */
static void keep_decoded(api_reader *reader, const uint8_t *bytes, size_t length) {
    if (reader->use == API_STRING_BASE64) {
        if (!api_base64_push(&reader->base64, bytes, length)) reader->exhausted = true;
        return;
    }
    const size_t total = reader->string_length + length;
    if (reader->use == API_STRING_DROPPED || total > API_MAX_STRING) return;
    if (!api_reader_grow(reader, &reader->string, &reader->string_capacity, total, 1)) return;
    memcpy(reader->string + reader->string_length, bytes, length);
    reader->string_length = total;
}

static void keep_code(api_reader *reader, unsigned code) {
    uint8_t bytes[4];
    size_t length = 0;
    if (code < 0x80) {
        bytes[length++] = (uint8_t)code;
    } else {
        if (code < 0x800) {
            bytes[length++] = (uint8_t)(0xC0 | code >> 6);
        } else {
            if (code < 0x10000) {
                bytes[length++] = (uint8_t)(0xE0 | code >> 12);
            } else {
                bytes[length++] = (uint8_t)(0xF0 | code >> 18);
                bytes[length++] = (uint8_t)(0x80 | (code >> 12 & 0x3F));
            }
            bytes[length++] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        }
        bytes[length++] = (uint8_t)(0x80 | (code & 0x3F));
    }
    keep_decoded(reader, bytes, length);
}

static int hexadecimal(uint8_t c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

__attribute__((format(printf, 3, 4))) static void fail(api_reader *reader, const uint8_t *p, const char *detail, ...) {
    char text[100];
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    const uint64_t byte = api_reader_byte(reader, p);
    api_reader_fail(reader, byte, api_reader_column(reader, byte), "%s", text);
}

static void unpaired_surrogate(api_reader *reader, const uint8_t *p) {
    fail(reader, p, "unpaired surrogate (\\uD800 to \\uDFFF) in a string");
}

/* \uXXXX is complete. */
static void end_unicode(api_reader *reader, const uint8_t *p) {
    const unsigned code = reader->code;
    const bool high = code >= 0xD800 && code < 0xDC00, low = code >= 0xDC00 && code < 0xE000;
    reader->escape = 0;
    if (low != (reader->surrogate != 0)) {
        unpaired_surrogate(reader, p);
    } else if (low) {
        keep_code(reader, 0x10000 + ((reader->surrogate - 0xD800) << 10) + (code - 0xDC00));
        reader->surrogate = 0;
    } else if (high) {
        reader->surrogate = code;
    } else if (code == 0) {
        fail(reader, p, "\\u0000 is not allowed in strings");
    } else {
        keep_code(reader, code);
    }
}

static void read_escape(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    static const char names[] = "\"\\/bfnrt";
    static const uint8_t codes[] = "\"\\/\b\f\n\r\t";
    if (reader->escape >= 2) {
        const int digit = hexadecimal(*p);
        if (digit < 0) {
            api_reader_expected(reader, p, end, "four hexadecimal digits after \\u");
            return;
        }
        reader->code = reader->code << 4 | (unsigned)digit;
        if (reader->escape++ == 5) end_unicode(reader, p);
        return;
    }
    if (*p == 'u') {
        reader->escape = 2;
        reader->code = 0;
        return;
    }
    const char *const name = *p ? strchr(names, *p) : NULL;
    if (reader->surrogate)
        unpaired_surrogate(reader, p);
    else if (!name)
        api_reader_expected(reader, p, end, "one of \" \\ / b f n r t u after a backslash");
    else
        keep_decoded(reader, &codes[name - names], 1);
    reader->escape = 0;
}

/* The first byte of a character of several: how many follow, and in which range the next one is (Unicode, table 3-7:
 * no overlong forms, no surrogates, nothing above U+10FFFF). */
static bool start_character(api_reader *reader, uint8_t c) {
    reader->follow = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
    reader->follow_low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    reader->follow_high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    return c >= 0xC2 && c <= 0xF4;
}

static bool continue_character(api_reader *reader, uint8_t c) {
    if (c < reader->follow_low || c > reader->follow_high) return false;
    reader->follow--;
    reader->follow_low = 0x80;
    reader->follow_high = 0xBF;
    reader->continuations++;
    return true;
}

static bool is_plain(uint8_t c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

/* The end of the plain bytes at p; eight at a time: a byte is special if its highest bit is set, or it is below a
 * space, or zero after the exclusive or with a quote or a backslash. */
static const uint8_t *skip_plain(const uint8_t *p, const uint8_t *end) {
    const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    for (; end - p >= 8; p += 8) {
        const uint64_t x = api_load_eight(p), quote = x ^ ones * '"', slash = x ^ ones * '\\';
        if ((x | (x - ones * 0x20) | (quote - ones) | (slash - ones)) & tops) break;
    }
    while (p < end && is_plain(*p)) p++;
    return p;
}

/* A byte that is neither plain nor inside a character or an escape. */
static void read_special(api_reader *reader, const uint8_t *p) {
    if (*p == '"')
        end_string(reader, p);
    else if (*p == '\\')
        reader->escape = 1;
    else if (*p < 0x20)
        fail(reader, p, "the control character 0x%02X in a string must be escaped", *p);
    else if (!start_character(reader, *p))
        fail(reader, p, "the byte 0x%02X in a string is not UTF-8", *p);
}

const uint8_t *api_string_read(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    while (p < end && !reader->failed && !reader->exhausted && reader->next == API_IN_STRING) {
        const uint8_t c = *p;
        if (reader->escape) {
            read_escape(reader, p++, end);
        } else if (reader->surrogate && c != '\\') {
            unpaired_surrogate(reader, p);
        } else if (reader->follow) {
            if (!continue_character(reader, c)) fail(reader, p, "the byte 0x%02X in a string is not UTF-8", c);
            keep_decoded(reader, p++, 1);
        } else if (is_plain(c)) {
            const uint8_t *const begin = p;
            p = skip_plain(p, end);
            keep_decoded(reader, begin, (size_t)(p - begin));
        } else {
            read_special(reader, p);
            if (c >= 0x80) keep_decoded(reader, p, 1);
            p++;
        }
    }
    return p;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

void api_number_start(api_reader *reader) {
    reader->next = API_IN_NUMBER;
    reader->part = API_NUMBER_SIGN;
    api_digits_start(&reader->digits);
}

/* A number outside of arrays */
static void add_number(api_reader *reader, api_decimal decimal) {
    api_value *value = api_reader_new_value(reader, API_ELEMENT_NUMBER, 0);
    if (!value) return;
    value->count = 1;
    value->bare = decimal;
}

static void end_number(api_reader *reader) {
    reader->next = API_AFTER_VALUE;
    if (reader->mode == API_TO_TENSOR)
        api_tensor_decimal(reader);
    else if (reader->mode == API_TO_DOCUMENT)
        add_number(reader, api_digits_to_double(&reader->digits, true));
}

static bool is_complete(api_number_part part) {
    return part == API_NUMBER_ZERO || part == API_NUMBER_INTEGER || part == API_NUMBER_FRACTION ||
           part == API_NUMBER_EXPONENT_DIGITS;
}

void api_number_end(api_reader *reader) {
    if (is_complete(reader->part)) end_number(reader);
}

/* Takes a digit. false: none may stand here. */
static bool add_digit(api_reader *reader, unsigned digit) {
    switch (reader->part) {
    case API_NUMBER_SIGN: reader->part = digit ? API_NUMBER_INTEGER : API_NUMBER_ZERO; break;
    case API_NUMBER_ZERO: return false;
    case API_NUMBER_POINT: reader->part = API_NUMBER_FRACTION; break;
    case API_NUMBER_EXPONENT:
    case API_NUMBER_EXPONENT_SIGN: reader->part = API_NUMBER_EXPONENT_DIGITS; break;
    default: break;
    }
    if (reader->part == API_NUMBER_EXPONENT_DIGITS)
        api_digits_add_exponent(&reader->digits, digit);
    else
        api_digits_add(&reader->digits, digit, reader->part == API_NUMBER_FRACTION);
    return true;
}

/* Takes any other byte of a number. false: it is none. */
static bool add_sign(api_reader *reader, uint8_t c) {
    const api_number_part part = reader->part;
    const bool integer = part == API_NUMBER_ZERO || part == API_NUMBER_INTEGER;
    if (c == '-' && part == API_NUMBER_SIGN && !reader->digits.negative) {
        reader->digits.negative = true;
    } else if (c == '.' && integer) {
        reader->part = API_NUMBER_POINT;
    } else if ((c == 'e' || c == 'E') && (integer || part == API_NUMBER_FRACTION)) {
        reader->part = API_NUMBER_EXPONENT;
    } else if ((c == '-' || c == '+') && part == API_NUMBER_EXPONENT) {
        reader->digits.exponent_negative = c == '-';
        reader->part = API_NUMBER_EXPONENT_SIGN;
    } else {
        return false;
    }
    return true;
}

const uint8_t *api_number_read(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    for (; p < end; p++) {
        const unsigned digit = *p - (unsigned)'0';
        if (digit <= 9 ? add_digit(reader, digit) : add_sign(reader, *p)) continue;
        if (digit <= 9) {
            fail(reader, p, "a number cannot have leading zeros");
        } else if (is_complete(reader->part)) {
            end_number(reader);
        } else if (*p == 'I' && reader->part == API_NUMBER_SIGN && reader->digits.negative) {
            reader->next = API_IN_WORD;
            reader->word = "-Infinity";
            reader->word_index = 1;
        } else {
            api_reader_expected(reader, p, end, "a digit");
        }
        return p;
    }
    return p;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

bool api_word_start(api_reader *reader, uint8_t letter) {
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (letter != (uint8_t)words[i][0]) continue;
        reader->next = API_IN_WORD;
        reader->word = words[i];
        reader->word_index = 0;
        return true;
    }
    return false;
}

static void end_word(api_reader *reader) {
    const char first = reader->word[0];
    const bool number = first == 'N' || first == 'I' || first == '-';
    const double value = first == 'N' ? (double)NAN : first == 'I' ? (double)INFINITY : -(double)INFINITY;
    reader->next = API_AFTER_VALUE;
    if (reader->mode == API_TO_TENSOR) {
        if (number)
            api_tensor_special(reader, value);
        else if (first == 'n' && api_null_is_number(reader))
            api_tensor_special(reader, -(double)INFINITY);
        else if (first == 'n')
            api_tensor_wrong(reader, "null");
        else
            api_tensor_boolean(reader, first == 't');
    } else if (reader->mode == API_TO_DOCUMENT) {
        if (number)
            add_number(reader, (api_decimal){value, 0});
        else
            api_tree_add(reader, first == 'n' ? json_null() : json_boolean(first == 't'), 0);
    }
}

const uint8_t *api_word_read(api_reader *reader, const uint8_t *p, const uint8_t *end) {
    for (; p < end && reader->word[reader->word_index]; p++, reader->word_index++) {
        if (*p == (uint8_t)reader->word[reader->word_index]) continue;
        api_reader_expected(reader, p, end, reader->word);
        return p;
    }
    if (!reader->word[reader->word_index]) end_word(reader);
    return p;
}
