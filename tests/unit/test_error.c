/* The list of errors, which error of a request is reported, and JSON pointers. */
#include "../../api/base/error.h"

#include <stdio.h>
#include <string.h>

#include "../../api/base/memory.h"
#include "../../api/base/text.h"
#include "../../api/http/problem_details.h"
#include "../support/check.h"

#include <jansson.h>

static void test_every_row_is_whole(void) {
    for (int code = API_NO_ERROR + 1; code < API_CODE_COUNT; code++) {
        const api_code_info *info = &api_codes[code];
        CHECK(info->code && *info->code && info->title && *info->title && info->when && *info->when, "row %d", code);
        CHECK(info->status >= 400 && info->status <= 504, "%s has status %d", info->code, info->status);
        CHECK(api_code_of(info->code) == (api_code)code, "%s is not found by its name", info->code);
    }
    CHECK(api_code_of("no such code") == API_INTERNAL, "an unknown name is a fault of the caller");
}

static void test_every_row_makes_a_document(void) {
    for (int code = API_NO_ERROR + 1; code < API_CODE_COUNT; code++) {
        api_response response;
        char body[1024];
        api_fail_static(&response, body, NULL, api_codes[code].code, "a \"detail\" with\na line", 7);
        json_t *document = json_loadb(response.body, response.length, JSON_REJECT_DUPLICATES, NULL);
        CHECK_FATAL(document, "%s: not JSON: %.*s", api_codes[code].code, (int)response.length, response.body);
        CHECK(response.status == api_codes[code].status, "%s: status %d", api_codes[code].code, response.status);
        CHECK(json_integer_value(json_object_get(document, "status")) == response.status, "status in the document");
        CHECK(strcmp(json_string_value(json_object_get(document, "title")), api_codes[code].title) == 0, "title");
        CHECK(strcmp(json_string_value(json_object_get(document, "code")), api_codes[code].code) == 0, "code");
        CHECK(strcmp(json_string_value(json_object_get(document, "detail")), "a \"detail\" with\na line") == 0,
              "detail");
        CHECK(!json_object_get(document, "pointer") && !json_object_get(document, "type"), "members too many");
        bool retry = false;
        for (size_t i = 0; response.headers[i].name; i++)
            retry |=
                strcmp(response.headers[i].name, "Retry-After") == 0 && strcmp(response.headers[i].value, "7") == 0;
        CHECK(retry, "no Retry-After: 7");
        json_decref(document);
    }
}

static void test_a_document_is_cut_to_its_room(void) {
    char detail[2000], body[1024];
    for (size_t i = 0; i < sizeof detail; i++) detail[i] = i % 2 ? '\x01' : '"';
    detail[sizeof detail - 1] = '\0';
    api_response response;
    api_fail_static(&response, body, NULL, "bad_request", detail, 0);
    json_t *document = json_loadb(response.body, response.length, 0, NULL);
    CHECK(document && response.length <= sizeof body, "length %zu: %.*s", response.length, (int)response.length,
          response.body);
    CHECK(response.close, "bad_request ends the connection");
    json_decref(document);
}

static api_place place(size_t member, size_t sub, size_t element) { return (api_place){member, sub, element}; }

static void test_the_first_in_the_document_counts(void) {
    api_error e = {0};
    api_error_set(&e, API_MISSING_FIELD, API_PLACE_LAST, "", "missing");
    api_error_set(&e, API_SHAPE_MISMATCH, place(3, 0, 0), "/c", "third");
    api_error_set(&e, API_WRONG_TYPE, place(1, 2, 5), "/a/data/5", "first");
    api_error_set(&e, API_NOT_FINITE, place(1, 2, 6), "/a/data/6", "later element");
    api_error_set(&e, API_RAGGED, place(1, 3, 0), "/a/x", "later member");
    CHECK(e.code == API_WRONG_TYPE && strcmp(e.pointer, "/a/data/5") == 0 && strcmp(e.detail, "first") == 0, "%s",
          e.detail);
    api_error_set(&e, API_OUT_OF_RANGE, place(1, 2, 5), "/same", "same place: the first said stays");
    CHECK(e.code == API_WRONG_TYPE, "%s", e.detail);
}

static void test_what_beats_a_place(void) {
    api_error e = {0};
    api_error_set(&e, API_WRONG_TYPE, place(0, 0, 0), "/a", "422");
    api_error_set(&e, API_INVALID_JSON, place(9, 0, 0), NULL, "400");
    CHECK(e.code == API_INVALID_JSON && !e.has_pointer, "a 400 beats every 422");
    api_error_set(&e, API_UNKNOWN_FIELD, place(0, 0, 0), "/a", "422");
    CHECK(e.code == API_INVALID_JSON, "a 422 does not beat a 400");
    api_error_set(&e, API_OVERLOADED, API_PLACE_LAST, NULL, "429");
    CHECK(e.code == API_OVERLOADED && e.retry_after == 1, "the document was not looked at wholly");
    api_error_set(&e, API_OUT_OF_MEMORY, API_PLACE_LAST, NULL, "503");
    api_error_set(&e, API_INVALID_JSON, place(0, 0, 0), NULL, "400");
    CHECK(e.code == API_OUT_OF_MEMORY && e.retry_after == 0, "out of memory beats all");
}

static void test_pointers_are_escaped_and_cut(void) {
    char pointer[256] = "";
    api_pointer_add(pointer, "a/b~c");
    api_pointer_add(pointer, "");
    api_pointer_add_index(pointer, 42);
    CHECK(strcmp(pointer, "/a~1b~0c//42") == 0, "%s", pointer);
    char key[600];
    for (size_t i = 0; i + 2 < sizeof key; i += 2) memcpy(key + i, "\xc3\xa9", 3);
    for (size_t shift = 0; shift < 4; shift++) {
        char cut[256] = "";
        api_pointer_add(cut, &"abcd"[shift]);
        api_pointer_add(cut, key);
        api_pointer_add_index(cut, 7);
        CHECK(strlen(cut) < 256 && strlen(cut) >= 253, "length %zu", strlen(cut));
        char same[256];
        strcpy(same, cut);
        api_text_make_utf8(same);
        CHECK(strcmp(same, cut) == 0, "cut inside a character");
    }
}

static void test_details_stay_utf8(void) {
    api_error e = {0};
    char long_text[700];
    memset(long_text, 'x', sizeof long_text);
    for (size_t i = 500; i + 4 < sizeof long_text; i += 4) memcpy(long_text + i, "\xf0\x9f\x98\x80", 5);
    api_error_set(&e, API_WRONG_TYPE, place(0, 0, 0), "/x", "%s", long_text);
    char body[8192];
    api_response response;
    api_problem_response(&e, NULL, &response, body, sizeof body);
    json_t *document = json_loadb(response.body, response.length, 0, NULL);
    CHECK(document, "%.*s", (int)response.length, response.body);
    json_decref(document);
    char stray[] = "a\xff\x80z\xc3";
    api_text_make_utf8(stray);
    CHECK(strcmp(stray, "a??z") == 0, "%s", stray);
}

static void test_failed_allocations(void) {
    api_budget budget = {.limit = 100000};
    api_memory memory;
    api_memory_init(&memory, &budget);
    api_error e = {0};
    CHECK(!api_large(&memory, 200000), "more than the budget");
    api_error_memory(&e, &memory);
    CHECK(e.code == API_OVERLOADED && e.retry_after == 1 && !e.has_pointer, "%s", e.detail);
    CHECK(api_large(&memory, 1000), "within the budget");
    e = (api_error){0};
    api_error_memory(&e, &memory);
    CHECK(e.code == API_OUT_OF_MEMORY, "the last charge was within the budget: %s", e.detail);
    api_memory_deinit(&memory);
}

static void test_distances_of_names(void) {
    static const struct {
        const char *given, *known;
        size_t distance;
        bool near;
    } rows[] = {
        {"", "", 0, true},
        {"mask", "mask", 0, true},
        {"causal", "casual", 1, true},
        {"num_head", "num_heads", 1, true},
        {"rope", "trace", 3, false},
        {"value", "scale", 3, false},
        {"dropout", "layout", 4, false},
        {"temperature", "return", 7, false},
        {"tokn", "tokens", 2, true},
        {"Q", "q", 1, true},
        {"k", "q", 1, false},
        {"bogus", "host", 4, false},
        {"w_x", "w_q", 1, true},
        {"", "q", 1, false},
        {"scores", "scale", 3, false},
    };
    char longest[65] = "", longer[65] = "";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t there = api_edit_distance(rows[i].given, rows[i].known);
        CHECK(there == rows[i].distance && there == api_edit_distance(rows[i].known, rows[i].given),
              "%s, %s: distance %zu", rows[i].given, rows[i].known, there);
        CHECK(api_is_near(rows[i].given, rows[i].known) == rows[i].near, "%s, %s", rows[i].given, rows[i].known);
    }
    memset(longest, 'a', 63);
    memset(longer, 'b', 64);
    CHECK(api_edit_distance("", longest) == 63 && api_edit_distance(longest, longer) == SIZE_MAX,
          "63 bytes and no more");
    CHECK(!api_is_near("", longer) && !api_is_near(longest, longer), "long names are far");
}

static void test_sizes_as_texts(void) {
    static const struct {
        size_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 bytes"},
        {1023, "1023 bytes"},
        {1024, "1.0 KiB (1,024 bytes)"},
        {50331648, "48.0 MiB (50,331,648 bytes)"},
        {(1 << 20) - 1, "1.0 MiB (1,048,575 bytes)"},
        {(size_t)3 << 39, "1.5 TiB (1,649,267,441,664 bytes)"},
        {SIZE_MAX - 1, "16.0 EiB (18,446,744,073,709,551,614 bytes)"},
        {SIZE_MAX, "more than 16 EiB (2^64 bytes)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[API_SIZE_TEXT];
        CHECK(strcmp(api_size_text(text, rows[i].bytes), rows[i].text) == 0, "%zu: %s", rows[i].bytes, text);
    }
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_every_row_is_whole),
        CHECK_TEST(test_every_row_makes_a_document),
        CHECK_TEST(test_a_document_is_cut_to_its_room),
        CHECK_TEST(test_the_first_in_the_document_counts),
        CHECK_TEST(test_what_beats_a_place),
        CHECK_TEST(test_pointers_are_escaped_and_cut),
        CHECK_TEST(test_details_stay_utf8),
        CHECK_TEST(test_failed_allocations),
        CHECK_TEST(test_distances_of_names),
        CHECK_TEST(test_sizes_as_texts),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
