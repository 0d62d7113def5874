/* case_onnx.c: a node test of ONNX's Attention as a request, and its outputs as an expectation. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

void text_append(text_buffer *text, const char *bytes, size_t length) {
    if (text->length + length >= text->room) {
        text->room = 2 * (text->length + length) + 64;
        text->bytes = realloc(text->bytes, text->room);
        if (!text->bytes) abort();
    }
    if (length) memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = 0;
}

void text_print(text_buffer *text, const char *format, ...) {
    char piece[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof piece) abort();
    text_append(text, piece, (size_t)length);
}

void text_free(text_buffer *text) {
    free(text->bytes);
    *text = (struct text_buffer){0};
}

/* ---- the request ------------------------------------------------------------------------------------------------- */

static void put_element(text_buffer *body, const json_t *element) {
    if (json_is_boolean(element))
        text_print(body, "%s", json_is_true(element) ? "true" : "false");
    else if (json_is_integer(element))
        text_print(body, "%lld", (long long)json_integer_value(element));
    else if (json_is_string(element))
        text_print(body, "%s", *json_string_value(element) == '-' ? "-Infinity" : "Infinity");
    else
        text_print(body, "%.17g", json_real_value(element));
}

static size_t axis(const json_t *tensor, size_t index) {
    return (size_t)json_integer_value(json_array_get(json_object_get(tensor, "shape"), index));
}

static size_t rank(const json_t *tensor) { return json_array_size(json_object_get(tensor, "shape")); }

/* Writes axes `at` and inner, elements from *index on; rows are filled up to `width` with `filler`. */
static void put_nested(text_buffer *body, const json_t *tensor, size_t at, size_t *index, size_t width,
                       const char *filler) {
    const bool last = at + 1 == rank(tensor);
    text_print(body, "[");
    for (size_t i = 0; i < axis(tensor, at); i++) {
        if (i) text_print(body, ",");
        if (last)
            put_element(body, json_array_get(json_object_get(tensor, "data"), (*index)++));
        else
            put_nested(body, tensor, at + 1, index, width, filler);
    }
    for (size_t i = axis(tensor, at); last && i < width; i++) text_print(body, ",%s", filler);
    text_print(body, "]");
}

static void put_flat(text_buffer *body, const json_t *tensor, size_t width, const char *filler) {
    const size_t inner = axis(tensor, rank(tensor) - 1), full = inner < width ? width : inner;
    const json_t *data = json_object_get(tensor, "data");
    text_print(body, "{\"shape\":[");
    for (size_t i = 0; i + 1 < rank(tensor); i++) text_print(body, "%zu,", axis(tensor, i));
    text_print(body, "%zu],\"data\":[", full);
    for (size_t i = 0; i < json_array_size(data); i++) {
        if (i) text_print(body, ",");
        put_element(body, json_array_get(data, i));
        for (size_t j = inner; (i + 1) % inner == 0 && j < width; j++) text_print(body, ",%s", filler);
    }
    text_print(body, "]}");
}

/* width 0: as it stands */
static void put_tensor(text_buffer *body, const char *field, const json_t *tensor, bool nested, size_t width) {
    const bool boolean = !strcmp(json_string_value(json_object_get(tensor, "dtype")), "bool");
    const char *filler = boolean ? "false" : "-Infinity";
    size_t index = 0;
    text_print(body, ",\"%s\":", field);
    if (nested)
        put_nested(body, tensor, 0, &index, width, filler);
    else
        put_flat(body, tensor, width, filler);
}

static const char *output_name(const json_t *node, const char *output) {
    static const char *const modes[] = {"scaled", "capped", "masked", "weights"};
    if (!strcmp(output, "Y")) return "output";
    if (!strcmp(output, "present_key")) return "present_k";
    if (!strcmp(output, "present_value")) return "present_v";
    const json_int_t mode =
        json_integer_value(json_object_get(json_object_get(node, "attributes"), "qk_matmul_output_mode"));
    return modes[mode & 3];
}

static void put_lengths(text_buffer *body, const json_t *node, bool positional) {
    const json_t *inputs = json_object_get(node, "inputs"), *lengths = json_object_get(inputs, "nonpad_kv_seqlen");
    const json_t *q = json_object_get(inputs, "Q"), *data = json_object_get(lengths, "data");
    const long long queries = (long long)axis(q, rank(q) - 2);
    if (!lengths) return;
    for (int offsets = 0; offsets <= positional; offsets++) {
        text_print(body, ",\"%s\":[", offsets ? "query_offset" : "kv_lengths");
        for (size_t i = 0; i < json_array_size(data); i++)
            text_print(body, "%s%lld", i ? "," : "",
                       (long long)json_integer_value(json_array_get(data, i)) - (offsets ? queries : 0));
        text_print(body, "]");
    }
}

static void put_attributes(text_buffer *body, const json_t *node) {
    const json_t *attributes = json_object_get(node, "attributes"), *value;
    const json_t *left = json_object_get(attributes, "left_window_size");
    const json_t *right = json_object_get(attributes, "right_window_size");
    const bool causal = json_integer_value(json_object_get(attributes, "is_causal")) == 1;
    if (causal) text_print(body, ",\"causal\":true");
    if (left || right)
        text_print(body, ",\"window\":[%lld,%lld]", left ? (long long)json_integer_value(left) : -1,
                   right ? (long long)json_integer_value(right) : -1);
    if ((value = json_object_get(attributes, "scale"))) text_print(body, ",\"scale\":%.17g", json_number_value(value));
    if ((value = json_object_get(attributes, "softcap")))
        text_print(body, ",\"softcap\":%.17g", json_number_value(value));
    if ((value = json_object_get(attributes, "q_num_heads")))
        text_print(body, ",\"num_heads\":%lld", (long long)json_integer_value(value));
    if ((value = json_object_get(attributes, "kv_num_heads")))
        text_print(body, ",\"num_kv_heads\":%lld", (long long)json_integer_value(value));
    if (json_integer_value(json_object_get(attributes, "softmax_precision")) == 11)
        text_print(body, ",\"dtype\":\"float64\"");
    put_lengths(body, node, causal || left || right);
}

text_buffer onnx_body(const json_t *node, bool nested) {
    static const char *const inputs[][2] = {
        {"Q", "q"}, {"K", "k"}, {"V", "v"}, {"past_key", "past_k"}, {"past_value", "past_v"}};
    const json_t *given = json_object_get(node, "inputs"), *tensor;
    const json_t *k = json_object_get(given, "K"), *past = json_object_get(given, "past_key");
    const size_t keys = axis(k, rank(k) - 2) + (past ? axis(past, 2) : 0);
    text_buffer body = {0};
    text_print(&body, "{\"return\":[");
    const char *name;
    json_t *outputs = json_object_get(node, "outputs"), *value;
    size_t count = 0;
    json_object_foreach(outputs, name, value)
        text_print(&body, "%s\"%s\"", count++ ? "," : "", output_name(node, name));
    text_print(&body, "]");
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if ((tensor = json_object_get(given, inputs[i][0]))) put_tensor(&body, inputs[i][1], tensor, nested, 0);
    if ((tensor = json_object_get(given, "attn_mask"))) {
        const bool boolean = !strcmp(json_string_value(json_object_get(tensor, "dtype")), "bool");
        put_tensor(&body, boolean ? "mask" : "bias", tensor, nested, keys);
    }
    put_attributes(&body, node);
    text_print(&body, "}");
    return body;
}

/* ---- the reply --------------------------------------------------------------------------------------------------- */

/* Compares the nested array with the flat tensor; *index counts elements. `rounding` is relative, of a result that was
 * rounded to a type of 16 bits. */
static bool same_numbers(const json_t *got, const json_t *tensor, size_t at, size_t *index, double rounding,
                         char why[512]) {
    if (at < rank(tensor)) {
        if (!json_is_array(got) || json_array_size(got) != axis(tensor, at)) {
            snprintf(why, 512, "axis %zu should have length %zu", at, axis(tensor, at));
            return false;
        }
        for (size_t i = 0; i < axis(tensor, at); i++)
            if (!same_numbers(json_array_get(got, i), tensor, at + 1, index, rounding, why)) return false;
        return true;
    }
    const json_t *element = json_array_get(json_object_get(tensor, "data"), (*index)++);
    if (json_is_string(element)) {
        if (json_is_null(got) && !strcmp(json_string_value(element), "-inf")) return true;
        snprintf(why, 512, "element %zu should be null", *index - 1);
        return false;
    }
    const double want = json_number_value(element);
    const double tolerance = 2.5e-6 * fmax(1, fabs(want)) + rounding * fabs(want);
    if (json_is_number(got) && fabs(json_number_value(got) - want) <= tolerance) return true;
    snprintf(why, 512, "element %zu: %.9g, expected %.9g", *index - 1, json_number_value(got), want);
    return false;
}

bool onnx_expects(const json_t *node, const http_reply *reply, char why[512]) {
    json_t *outputs = json_object_get(node, "outputs"), *tensor;
    const json_t *q = json_object_get(json_object_get(node, "inputs"), "Q");
    const char *dtype = json_string_value(json_object_get(q, "dtype"));
    /* twice the unit roundoff; four times for bfloat16, in which ONNX also rounds scores and weights */
    const double rounding = !strcmp(dtype, "float16") ? 0x1p-10 : !strcmp(dtype, "bfloat16") ? 0x1p-6 : 0;
    const char *name;
    json_t *got = json_loadb(reply->body, reply->length, JSON_REJECT_DUPLICATES, NULL);
    bool ok = reply->status == 200 && json_object_size(got) == json_object_size(outputs);
    if (!ok) snprintf(why, 512, "status %d or other names: %.300s", reply->status, reply->body ? reply->body : "");
    if (ok) json_object_foreach(outputs, name, tensor) {
            size_t index = 0;
            char inner[512] = "";
            if (same_numbers(json_object_get(got, output_name(node, name)), tensor, 0, &index, rounding, inner))
                continue;
            snprintf(why, 512, "%s: %.400s", name, inner);
            ok = false;
        }
    json_decref(got);
    return ok;
}
