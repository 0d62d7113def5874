#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../api/base/limits.h"
#include "../../api/json/reader.h"
#include "../support/check.h"

/* ---- reading a document, in pieces --------------------------------------------------------------------------------
 */

typedef struct reading {
    api_memory memory;
    api_budget budget;
    api_reader *reader;
    json_t *document;
    api_error error;
} reading;

/* `cut` 0: whole; else the length of each piece; SIZE_MAX: random ones. Each piece stands in memory of its own, so that
 * AddressSanitizer sees a read past its end. */
static void read_pieces(reading *r, const char *text, size_t length, size_t cut) {
    api_memory_init(&r->memory, &r->budget);
    r->error = (api_error){0};
    r->reader = api_reader_new(&r->memory, length);
    for (size_t i = 0; i < length;) {
        size_t piece = cut == SIZE_MAX ? 1 + check_random_below(check_random_below(8) ? 12 : 400) : cut;
        if (cut == 0 || piece > length - i) piece = length - i;
        char *copy = malloc(piece);
        if (!copy) abort();
        memcpy(copy, text + i, piece);
        api_reader_push(r->reader, copy, piece);
        free(copy);
        i += piece;
    }
    r->document = api_reader_finish(r->reader, &r->error);
}

static void start(reading *r, const char *text) {
    *r = (reading){.budget = {.limit = 0}};
    read_pieces(r, text, strlen(text), 0);
}

static void end(reading *r) {
    json_decref(r->document);
    api_memory_deinit(&r->memory);
}

/* Everything that a reading returns, as one text. */
static char *describe(reading *r, size_t *length) {
    char *text;
    FILE *out = open_memstream(&text, length);
    if (!out) abort();
    fprintf(out, "%d %s %s %s\n", r->error.code, r->error.has_pointer ? r->error.pointer : "-", r->error.detail,
            r->document ? "ok" : "none");
    char *json = r->document ? json_dumps(r->document, JSON_ENCODE_ANY) : NULL;
    if (json) fprintf(out, "%s\n", json);
    const attn_dtype compute = json && strstr(json, "float64") ? ATTN_F64 : ATTN_F32;
    free(json);
    for (json_int_t i = 0; r->document && api_reader_value(r->reader, i); i++) {
        api_value *v = api_reader_value(r->reader, i);
        fprintf(out, "%d %zu.%zu rank %zu count %zu:", v->type, v->place.member, v->place.sub, v->rank, v->count);
        for (size_t k = 0; k < v->rank; k++) fprintf(out, " %zu", v->shape[k]);
        fprintf(out, " fault %d %s %s %zu\n", v->fault.code, v->fault.pointer, v->fault.detail, v->fault.place.element);
        if (v->type == API_ELEMENT_BYTES) {
            fwrite(v->data ? v->data : "", 1, v->count, out);
        } else if (v->type == API_ELEMENT_BOOLEAN) {
            fwrite(v->data, 1, v->count, out);
        } else if (v->type == API_ELEMENT_NUMBER && !v->fault.code) {
            api_error error = {0};
            bool finite = true;
            const void *data = api_take_reals(r->reader, v, compute, API_DTYPE_NONE, "", &finite, &error);
            fprintf(out, "%d %s %d\n", error.code, error.pointer, finite);
            if (data) fwrite(data, attn_sizeof(compute), v->count, out);
        }
    }
    fclose(out);
    return text;
}

/* ---- what is not JSON -----------------------------------------------------------------------------------------------
 */

/* The invalid byte follows the mark @; a mark at the end: the body ends too early. */
static const char *const malformed[] = {
    "@",
    " \n @",
    "@x",
    "@'a'",
    "[1,@]",
    "[@,1]",
    "[1 @2]",
    "[1@}",
    "[@}",
    "{@]",
    "{@1:2}",
    "{\"a\"@}",
    "{\"a\" @1}",
    "{\"a\":@}",
    "{\"a\":1,@}",
    "{\"a\":1 @\"b\":2}",
    "{\"a\":1@]",
    "{@,}",
    "{\"a\":@,}",
    "[1@",
    "[1,@",
    "[@",
    "{@",
    "{\"a@",
    "{\"a\"@",
    "{\"a\":@",
    "{\"a\":1@",
    "{\"a\":1,@",
    "[[1,2]@",
    "[[@",
    "\"abc@",
    "[1] @2]",
    "0@1",
    "-@",
    "-@x",
    "[-0@1]",
    "[1.@]",
    "[1.@e5]",
    "[@.5]",
    "[@+1]",
    "[1e@]",
    "[1e+@]",
    "[1e-@,",
    "[1.5@.5]",
    "[1e5@.5]",
    "[0@x1]",
    "[1@_0]",
    "[@infinity]",
    "[n@an]",
    "[Na@n]",
    "[@inf]",
    "[Inf@,1]",
    "[-@inf]",
    "[-@NaN]",
    "[-@-1]",
    "[tru@]",
    "[tru@ue]",
    "[@True]",
    "[fals@y]",
    "[nul@",
    "[nul@]",
    "[N@one]",
    "[@undefined]",
    "[1,@//c\n2]",
    "[1@/**/]",
    "[\"@\x01\"]",
    "[\"\\@x\"]",
    "[\"\\u12@G4\"]",
    "[\"\\u@\"]",
    "[\"\\@\n\"]",
    "[\"a@\nb\"]",
    "[\"a@\tb\"]",
    "[\"\\ud800@\"]",
    "[\"\\ud800@a\"]",
    "[\"\\ud800\\@n\"]",
    "[\"\\ud800\\u004@1\"]",
    "[\"\\udc0@0\"]",
    "[\"\\ud800\\ud80@0\"]",
    "[\"\\u000@0\"]",
    "[\"@\xff\"]",
    "[\"@\x80\"]",
    "[\"@\xc0\x80\"]",
    "[\"@\xc1\xbf\"]",
    "[\"\xc3@(\"]",
    "[\"\xe0@\x80\x80\"]",
    "[\"\xe2\x82@\"]",
    "[\"\xed@\xa0\x80\"]",
    "[\"\xf0@\x80\x80\x80\"]",
    "[\"\xf4@\x90\x80\x80\"]",
    "[\"@\xf5\x80\x80\x80\"]",
    "[\"\xf0\x9f\x98@\"]",
    "@\xef\xbb\xbf[1]",
    "@\xef\xbb\xbf",
    "[1]@x",
    "{}@{}",
    "1 @2",
    "\"a\"@\"b\"",
    "null@null",
    "[\n1,\n2\n@3]",
    "{\n  \"a\": 1,\n  @b: 2\n}",
    "[\"\xc3\xa9\xe2\x82\xac\" @1]",
    "[true@false]",
    "[@\x7f]",
    "[@\x80]",
    "[1,\r\n\r\n@x]",
    "[[1,2],[3,@]]",
    "{\"q\":[[1,2],[3,4]]@]}",
    "{\"q\":{\"base64\":\"AA@\x01\"}}",
    "[\"a\",1,{@]",
    "[\f1]",
};

/* Documents around a value that is inserted. */
static const char *const frames[][2] = {
    {"[1, ", ", 2]"}, {"{\"a\":\n {\"b\": ", "}}"}, {"[[true],\"\xc3\xa9\", ", "]"}};

static void check_malformed(const char *before, const char *marked, const char *after) {
    char text[256], expected[80];
    size_t length = 0, byte = SIZE_MAX, line = 1, column = 1;
    const char *const parts[] = {before, marked, after};
    for (size_t i = 0; i < 3; i++)
        for (const char *p = parts[i]; *p; p++) {
            if (i == 1 && *p == '@' && byte == SIZE_MAX)
                byte = length;
            else
                text[length++] = *p;
        }
    if (byte == SIZE_MAX) byte = 1; /* the form feed: no blank in JSON */
    for (size_t i = 0; i < byte; i++) {
        if (text[i] == '\n')
            line++, column = 1;
        else if (((unsigned char)text[i] & 0xC0) != 0x80)
            column++;
    }
    snprintf(expected, sizeof expected, "line %zu, column %zu (byte %zu): ", line, column, byte);
    for (size_t cut = 0; cut < 2; cut++) {
        reading r = {.budget = {.limit = 0}};
        read_pieces(&r, text, length, cut);
        CHECK(!r.document && r.error.code == API_INVALID_JSON && !r.error.has_pointer, "%.*s: code %d", (int)length,
              text, r.error.code);
        CHECK(strncmp(r.error.detail, expected, strlen(expected)) == 0, "%.*s: expected %s got %s", (int)length, text,
              expected, r.error.detail);
        end(&r);
    }
}

static void test_malformed_bodies(void) {
    size_t checked = 0;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        check_malformed("", malformed[i], "");
        checked++;
        const char *mark = strchr(malformed[i], '@');
        if (!mark || !mark[1] || mark == malformed[i] || strchr("0123456789n\"}]", mark[-1]) ||
            malformed[i][0] == ' ' || (malformed[i][0] != '[' && malformed[i][0] != '{'))
            continue; /* ends early, or is only invalid as a whole document */
        for (size_t k = 0; k < 3; k++, checked++) check_malformed(frames[k][0], malformed[i], frames[k][1]);
    }
    CHECK(checked >= 200, "only %zu bodies", checked);
}

static void test_byte_order_marks(void) {
    static const char *const marks[] = {"\xef\xbb\xbf{}", "\xfe\xff", "\xff\xfe"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        reading r;
        start(&r, marks[i]);
        CHECK(r.error.code == API_INVALID_JSON && strstr(r.error.detail, "byte order mark"), "%s", r.error.detail);
        end(&r);
    }
}

static void test_nul_bytes(void) {
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {{"\0", 1},          {"[1\0]", 4},   {"[\"a\0b\"]", 7}, {"[1]\0", 4},
                 {"{\"a\0\":1}", 8}, {"[tr\0e]", 6}, {"[1.\0]", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reading r = {.budget = {.limit = 0}};
        read_pieces(&r, cases[i].text, cases[i].length, 0);
        CHECK(!r.document && r.error.code == API_INVALID_JSON, "case %zu: code %d", i, r.error.code);
        CHECK(strstr(r.error.detail, "0x00") != NULL, "case %zu: %s", i, r.error.detail);
        end(&r);
    }
}

static void check_duplicate(const char *text, const char *place, const char *key) {
    reading r;
    start(&r, text);
    CHECK(!r.document && r.error.code == API_INVALID_JSON, "%s: code %d", text, r.error.code);
    CHECK(strncmp(r.error.detail, place, strlen(place)) == 0, "%s: expected %s, got %s", text, place, r.error.detail);
    CHECK(strstr(r.error.detail, key) != NULL, "%s: expected %s, got %s", text, key, r.error.detail);
    end(&r);
}

static void test_duplicate_keys(void) {
    check_duplicate("{\"a\":1,\"a\":2}", "line 1, column 8 (byte 7)", "\"a\"");
    check_duplicate("{\"a\":1,\n\n \"b\":[[1,2]],\n\t\"\\u0061\":2}", "line 4, column 2", "\"a\"");
    check_duplicate("{\"q\":{\"shape\":[1],\"data\":[1],\"shape\":[2]}}", "line 1, column 30 (byte 29)", "shape");
    check_duplicate("{\"q\":[1,{\"x\":[{\"y\":1,\"z\":2,\"y\":3}]}]}", "line 1, column 28 (byte 27)", "\"y\"");
    check_duplicate("{\"q\":[\"s\",{\"x\":1,\"x\":\"\xc3\xa9\"}]}", "line 1, column 18 (byte 17)", "\"x\"");
    check_duplicate("{\"\\n\":1,\"\\u000A\":1}", "line 1, column 9 (byte 8)", "duplicate");
    check_duplicate("{\"\":1,\"\":1}", "line 1, column 7 (byte 6)", "\"\"");
    check_duplicate("{\"\xc3\xa9\":1,\"\xc3\xa9\":1}", "line 1, column 8 (byte 8)", "\xc3\xa9");
    check_duplicate("{\"a\":{\"b\":{\"c\":{\"c\":1}}},\"q\":[1,{\"c\":1},{\"d\":1}],\"a\":1}", "line 1, column 50",
                    "\"a\"");
    reading r; /* one below another, and beside it, are none */
    start(&r, "{\"a\":{\"a\":{\"a\":1}},\"b\":[\"s\",{\"a\":1},{\"a\":1}],\"c\":[1,{\"a\":1},{\"a\":1}]}");
    CHECK(r.document != NULL, "no duplicates: %s", r.error.detail);
    end(&r);
    char deep[600] = "";
    for (int i = 0; i < 40; i++) strcat(deep, "{\"k\":");
    strcat(deep, "{\"d\":1,\"d\":2}");
    for (int i = 0; i < 40; i++) strcat(deep, "}");
    check_duplicate(deep, "line 1, column 208", "\"d\"");
}

/* The first fault counts, whatever else is wrong with the body. */
static void test_duplicates_in_refused_parts(void) {
    static const char duplicate[] = "{\"d\":1,\"d\":2}";
    static const struct {
        const char *head, *unit;
        size_t count;
        const char *tail;
    } cases[] = {
        {"{\"q\":[1,", "2,", 5, ""},               /* an object among numbers */
        {"{\"q\":[1,{\"d\":", "[", 40, ""},        /* deep in what is refused */
        {"{\"q\":[[1],[2,\"a\",", "null,", 3, ""}, /* after another fault of the tensor */
        {"{\"q\":", "{\"k\":[", 2000, ""},         /* deeper than a parser that calls itself goes */
        {"{\"q\":[\"a\",", "[\"x\",", 30, ""},
        {"{\"q\":[\"a\",", "1,", 5000, ""}, /* more numbers than may be */
        {"{\"s\":\"", "abcdefgh", 9000, "\",\"t\":"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t size = strlen(cases[i].unit), room = size * cases[i].count + 200;
        char *text = malloc(room), place[80];
        if (!text) abort();
        size_t n = (size_t)sprintf(text, "%s", cases[i].head);
        for (size_t k = 0; k < cases[i].count; k++) n += (size_t)sprintf(text + n, "%s", cases[i].unit);
        n += (size_t)sprintf(text + n, "%s", cases[i].tail);
        snprintf(place, sizeof place, "line 1, column %zu (byte %zu)", n + 8, n + 7);
        strcpy(text + n, duplicate);
        check_duplicate(text, place, "duplicate key \"d\"");
        free(text);
    }
}

/* The document of a body that never ends goes with the memory of the request. */
static void test_abandoned_bodies(void) {
    static const char text[] =
        "{\"a\":[\"b\",{\"c\":\"d\",\"q\":[[1,2],[3,{\"e\":[true,{\"f\":null,\"g\":[1]}]}]]},\"h";
    for (size_t length = 0; length < sizeof text; length++) {
        reading r = {.budget = {.limit = 0}};
        api_memory_init(&r.memory, &r.budget);
        r.reader = api_reader_new(&r.memory, 0);
        api_reader_push(r.reader, text, length);
        end(&r);
        CHECK(atomic_load(&r.budget.used) == 0, "%zu bytes are left", atomic_load(&r.budget.used));
    }
}

/* ---- documents and values --------------------------------------------------------------------------------------- */

static void check_document(const char *text, const char *document) {
    reading r;
    start(&r, text);
    char *dumped = r.document ? json_dumps(r.document, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    CHECK(dumped && strcmp(dumped, document) == 0, "%s: expected %s, got %s (%s)", text, document,
          dumped ? dumped : "none", r.error.detail);
    free(dumped);
    end(&r);
}

static void test_documents(void) {
    check_document("{\"q\": [[1,2]], \"v\": {\"shape\": [1,2], \"base64\": \"AAA=\"}, \"causal\": true, \"scale\": "
                   "0.5, \"return\": [\"lse\"]}",
                   "{\"q\":0,\"v\":{\"shape\":1,\"base64\":2},\"causal\":true,\"scale\":3,\"return\":[\"lse\"]}");
    check_document("1", "0");
    check_document(" \"a\\u00e9\\ud83d\\ude00\\/\" ", "\"a\xc3\xa9\xf0\x9f\x98\x80/\"");
    check_document("null", "null");
    check_document("[]", "0");
    check_document("{}", "{}");
    check_document("[[],[[]],[]]", "0");
    check_document("[[\"a\"],1,true,[2],NaN]", "[[\"a\"],0,true,1,2]");
    check_document("[null,{\"a\":[{}]}]", "[null,{\"a\":[{}]}]");
    check_document("{\"base64\":\"AAA=\"}", "{\"base64\":\"AAA=\"}");
    check_document("{\"a\":{\"b\":{\"base\\u00364\":\"AAA=\"}}}", "{\"a\":{\"b\":{\"base64\":0}}}");
    check_document("{\"a\":{\"base64\":[\"AAA=\"]}}", "{\"a\":{\"base64\":[\"AAA=\"]}}");
    check_document("[1,{\"a\":[2,{\"b\":3}]},[4]]", "0");
    check_document("{\"a\":[true,\"x\"],\"b\":-1.5e-3}", "{\"a\":0,\"b\":1}");
}

static void check_value(const char *text, api_code code, const char *pointer, size_t rank, size_t rows,
                        size_t columns) {
    reading r;
    start(&r, text);
    const api_value *v = r.document ? api_reader_value(r.reader, 0) : NULL;
    if (CHECK(v != NULL, "%s: %s", text, r.error.detail)) {
        CHECK(v->fault.code == code, "%s: code %d (%s)", text, v->fault.code, v->fault.detail);
        if (code)
            CHECK(strcmp(v->fault.pointer, pointer) == 0, "%s: at %s, not %s", text, v->fault.pointer, pointer);
        else
            CHECK(v->rank == rank && v->shape[0] == rows && (rank < 2 || v->shape[1] == columns),
                  "%s: rank %zu [%zu, %zu]", text, v->rank, v->shape[0], v->shape[1]);
    }
    end(&r);
}

static void test_shapes_and_their_faults(void) {
    check_value("[]", 0, "", 1, 0, 0);
    check_value("[[],[]]", 0, "", 2, 2, 0);
    check_value("[[[]]]", 0, "", 3, 1, 1);
    check_value("[1]", 0, "", 1, 1, 0);
    check_value("[[1,2,3],[4,5,6]]", 0, "", 2, 2, 3);
    check_value("[[[[1]]],[[[2]]]]", 0, "", 4, 2, 1);
    check_value("[[[[[[[[1]]]]]]]]", 0, "", 8, 1, 1);
    check_value("{\"q\":[[[[[[[[[1]]]]]]]]]}", API_TOO_DEEP, "", 0, 0, 0);
    check_value("{\"q\":[[[[[[[[[\"a\"]]]]]]]]]}", API_TOO_DEEP, "", 0, 0, 0);
    check_value("[[1,2],3]", API_RAGGED, "/1", 0, 0, 0);
    check_value("[1,[2]]", API_RAGGED, "/1", 0, 0, 0);
    check_value("[[1,2],[3]]", API_RAGGED, "/1", 0, 0, 0);
    check_value("[[1,2],[]]", API_RAGGED, "/1", 0, 0, 0);
    check_value("[[1,2],[3,4],[5,6,7]]", API_RAGGED, "/2", 0, 0, 0);
    check_value("[[],[1]]", API_RAGGED, "/1", 0, 0, 0);
    check_value("[[],[[]]]", API_RAGGED, "/1", 0, 0, 0);
    check_value("[[[1,2],[3,4]],[[5,6]]]", API_RAGGED, "/1", 0, 0, 0);
    check_value("[[[1,2],[3,4]],[[5,6],[7]]]", API_RAGGED, "/1/1", 0, 0, 0);
    check_value("[[[1,2],[3,4]],[[5,6],7]]", API_RAGGED, "/1/1", 0, 0, 0);
    check_value("[[1,[2]]]", API_RAGGED, "/0/1", 0, 0, 0);
    check_value("[1,\"a\"]", API_WRONG_TYPE, "/1", 0, 0, 0);
    check_value("[[1,2],[3,null]]", API_WRONG_TYPE, "/1/1", 0, 0, 0);
    check_value("[[1,2],{}]", API_WRONG_TYPE, "/1", 0, 0, 0);
    check_value("[1,true,\"a\"]", API_WRONG_TYPE, "/1", 0, 0, 0);
    check_value("[[true],[0]]", API_WRONG_TYPE, "/1/0", 0, 0, 0);
    check_value("[[],\"a\"]", API_WRONG_TYPE, "/1", 0, 0, 0);
    check_value("[1,2,1e400]", API_OUT_OF_RANGE, "/2", 0, 0, 0);
    check_value("{\"dtype\":\"float32\",\"q\":[[1,-1e39]]}", API_OUT_OF_RANGE, "/0/1", 0, 0, 0);
    check_value("[1,1e400,\"a\",[]]", API_OUT_OF_RANGE, "/1", 0, 0, 0);
}

static void test_places(void) {
    reading r;
    start(&r, "{\"a\":1,\"b\":{\"x\":\"s\",\"shape\":[2],\"data\":[3]},\"c\":[4]}");
    CHECK_FATAL(r.document != NULL, "%s", r.error.detail);
    static const size_t places[][2] = {{0, 0}, {1, 1}, {1, 2}, {2, 0}};
    for (size_t i = 0; i < 4; i++) {
        const api_place place = api_reader_value(r.reader, (json_int_t)i)->place;
        CHECK(place.member == places[i][0] && place.sub == places[i][1], "value %zu is at %zu.%zu", i, place.member,
              place.sub);
    }
    CHECK(!api_reader_value(r.reader, 4) && !api_reader_value(r.reader, -1), "there are four values");
    end(&r);
}

/* ---- cuts
 * ------------------------------------------------------------------------------------------------------------ */

static const char *const documents[] = {
    "{\"q\": [[1,2.5,-3e-5],[0.1,1e20,-0.0]], \"dtype\": \"float32\", \"bias\": [[NaN,-Infinity],[Infinity,1e-400]]}",
    "{\"dtype\":\"float32\",\"q\":[[3.4028235677973366e38,1],[2,3]],\"k\":[[1e39]]}",
    "{\"dtype\":\"float64\",\"q\":[[0.1000000000000000055511151231257827021181583404541015625,1]],\"m\":[[true,false]]"
    "}",
    "{\"v\":{\"base64\":\"AACAPwAAAEAAAEBAAACAQA==\",\"shape\":[2,2],\"dtype\":\"F32\"},\"w\":{\"base64\":"
    "\"\\u0041AB\\/\\/\\u002fA=\"}}",
    "{\"x\":\"a\\\"b\\\\\\n\\u00e9\\ud83d\\ude00\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\",\"y\":[\"\",null,{\"z\":[true]}]"
    "}",
    "{\"q\":[[1,2],[3,{\"a\":[\"b\",{\"c\":\"d\"}]},\"e\"]],\"r\":[[[1],[2]],[[3]]]}",
    "[[0.000000000000000000000000000000000000000000000000012345678901234567890123,123456789012345678901234567890],[1e5,"
    "2E-5]]",
    "{\"a\":1,\n\"b\":[1,2\n,3],\r\n\"a\":2}",
    "{\"a\":[[\"x\\ud83d\\ude00\xc3\xa9\"],\n 1]]}",
    "[1.00000000000000000000000000000000000000000000000000000000000000000001,16777217.0000000000000000000000000000001]",
};

static void check_cuts(const char *text, size_t length, int times) {
    reading whole = {.budget = {.limit = 0}};
    read_pieces(&whole, text, length, 0);
    size_t expected_length;
    char *expected = describe(&whole, &expected_length);
    for (int i = 0; i < times; i++) {
        reading cut = {.budget = {.limit = 0}};
        read_pieces(&cut, text, length, i == 0 ? 1 : SIZE_MAX);
        size_t got_length;
        char *got = describe(&cut, &got_length);
        CHECK(got_length == expected_length && memcmp(got, expected, got_length) == 0, "%.200s\nwhole: %s\ncut %d: %s",
              text, expected, i, got);
        free(got);
        end(&cut);
    }
    free(expected);
    end(&whole);
}

static void test_cuts_change_nothing(void) {
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++)
        check_cuts(documents[i], strlen(documents[i]), 60);
}

/* An element of a row: numbers, numbers of one digit, or booleans; some of them of another kind than the rest. */
static size_t put_element(char *text, int kind) {
    if (check_random_below(400) == 0) kind = (int)check_random_below(3);
    if (kind == 1) return (size_t)sprintf(text, "%d", (int)check_random_below(check_random_below(20) ? 2 : 12));
    if (kind == 2) return (size_t)sprintf(text, check_random_below(2) ? "true" : "false");
    return (size_t)sprintf(text, "%.*g", (int)check_random_below(22), check_random_normal());
}

/* Documents of random rows, long enough for the fast path, some with one invalid byte. */
static void test_cuts_of_random_documents(void) {
    for (int round = 0; round < 90; round++) {
        static const char *const heads[] = {"{\"q\":[", "{\"dtype\":\"float32\",\"q\":[",
                                            "{\"dtype\":\"float64\",\"q\":["};
        char *text = malloc(40000);
        if (!text) abort();
        size_t n = (size_t)sprintf(text, "%s", heads[round % 3]);
        const size_t columns = 1 + check_random_below(40);
        for (size_t i = 0; i < 12; i++) {
            n += (size_t)sprintf(text + n, i ? ", [" : "[");
            for (size_t j = 0; j < columns; j++) {
                const char *const commas[] = {",", ", ", " ,\n "};
                if (j) n += (size_t)sprintf(text + n, "%s", commas[check_random_below(9) ? round & 1 : 2]);
                n += put_element(text + n, round / 3 % 3);
            }
            n += (size_t)sprintf(text + n, "]");
        }
        n += (size_t)sprintf(text + n, "]}");
        if (round % 4 > 1) text[check_random_below(n)] = "]}{[,:\"0e.- \nx"[check_random_below(14)];
        check_cuts(text, n, 6);
        free(text);
    }
}

/* ---- bounds
 * ---------------------------------------------------------------------------------------------------------- */

static char *repeat(const char *head, const char *unit, size_t count, const char *tail, size_t *length) {
    const size_t size = strlen(unit);
    char *text = malloc(strlen(head) + count * size + strlen(tail) + 1);
    if (!text) abort();
    size_t n = (size_t)sprintf(text, "%s", head);
    for (size_t i = 0; i < count; i++, n += size) memcpy(text + n, unit, size);
    strcpy(text + n, tail);
    *length = n + strlen(tail);
    return text;
}

static void check_bound(const char *head, const char *unit, size_t count, const char *tail, const char *closing,
                        api_code code, const char *pointer) {
    size_t length, closing_length;
    char *text = repeat(head, unit, count, tail, &length);
    char *close = repeat("", closing, *closing ? count : 0, *head == '{' ? "}" : "", &closing_length);
    text = realloc(text, length + closing_length + 1);
    if (!text) abort();
    strcpy(text + length, close);
    reading r = {.budget = {.limit = (size_t)64 << 20}};
    read_pieces(&r, text, length + closing_length, 0);
    const api_value *v = r.document ? api_reader_value(r.reader, 0) : NULL;
    const api_error *error = v && v->fault.code ? &v->fault : &r.error;
    CHECK(error->code == code, "%s%s...: code %d, %s", head, unit, error->code, error->detail);
    if (code != API_INVALID_JSON && error == &r.error)
        CHECK(strcmp(error->pointer, pointer) == 0, "%s%s...: pointer %s", head, unit, error->pointer);
    end(&r);
    free(close);
    free(text);
}

static void test_depth_bombs(void) {
    check_bound("", "[", 8000000, "", "", API_INVALID_JSON, "");
    check_bound("", "{\"a\":", 2000000, "", "", API_INVALID_JSON, "");
    check_bound("", "[", 1000000, "", "]", API_TOO_DEEP, "");
    check_bound("", "[", 1000000, "1", "]", API_TOO_DEEP, "");
    check_bound("{\"q\":", "[", 2040, "1", "]", API_TOO_DEEP, "");
    check_bound("{\"q\":", "[", 2040, "\"a\"", "]", API_TOO_DEEP, "");
    check_bound("{\"q\":", "{\"a\":", 3000, "1", "}", API_TOO_DEEP, "/q");
    check_bound("{\"q\":[\"a\",", "[\"x\",", 100, "1", "]", API_INVALID_JSON, "");
    check_bound("{\"q\":[\"a\"],\"r\":", "[\"x\",", 100, "1", "]", API_TOO_DEEP, "/r");
    check_bound("{\"q\":[\"a\",", "1,", 20, "{\"b\":[[[[\"x\"]]]]}]", "", API_NO_ERROR, "");
}

static void test_bounds(void) {
    check_bound("{\"a\":[\"\",", "1,", 5000, "2]", "", API_WRONG_TYPE, "/a");
    check_bound("{\"a\":1,\"b\":[\"\",", "\"0123456789012345\",", 500000, "\"\"]", "", API_OUT_OF_RANGE, "/b");
    check_bound("{\"a/b\":[\"\",", "{},", 5000, "{}]", "", API_OUT_OF_RANGE, "/a~1b");
    check_bound("{\"s\":\"", "abcdefgh", 9000, "\"", "", API_OUT_OF_RANGE, "/s");
    check_bound("{\"s\":\"", "abcdefgh", 8000, "\"", "", API_NO_ERROR, "");
    check_bound("{\"a\":1,\"", "abcdefgh", 9000, "\":1", "", API_OUT_OF_RANGE, "");
    check_bound("{\"x\":[\"\",", "[1],", 5000, "[2]]", "", API_WRONG_TYPE, "/x");
    check_bound("{\"x\":{\"base64\":\"", "AAAA", 100000, "\"}", "", API_NO_ERROR, "");
    /* grammar and duplicates are still checked past a bound */
    check_bound("{\"s\":\"", "abcdefgh", 9000, "\",,", "", API_INVALID_JSON, "");
    check_bound("{\"s\":\"", "abcdefgh", 9000, "\",\"s\":1", "", API_INVALID_JSON, "");
}

/* After a value that exceeds a bound, the rest of the document is still checked. */
static void test_document_past_a_bound(void) {
    static char text[200000];
    const struct {
        const char *head, *unit;
        size_t count;
        const char *tail, *document;
    } cases[] = {
        {"{\"a\":1,\"s\":\"", "abcdefgh", 9000, "\",\"b\":2}", "{\"a\":0,\"s\":{},\"b\":1}"},
        {"{\"a\":1,\"s\":", "{\"a\":", 20, "null}}}}}}}}}}}}}}}}}}}},\"b\":[2]}",
         "{\"a\":0,\"s\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":"
         "{\"a\":{\"a\":{\"a\":{}}}}}}}}}}}}}}}},\"b\":1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = (size_t)sprintf(text, "%s", cases[i].head);
        for (size_t k = 0; k < cases[i].count; k++) n += (size_t)sprintf(text + n, "%s", cases[i].unit);
        sprintf(text + n, "%s", cases[i].tail);
        reading r;
        start(&r, text);
        char *json = r.document ? json_dumps(r.document, JSON_COMPACT) : NULL;
        CHECK(r.error.code != API_NO_ERROR && r.error.place.member == 1, "code %d", r.error.code);
        CHECK(json && strcmp(json, cases[i].document) == 0, "%s", json ? json : "no document");
        free(json);
        end(&r);
    }
}

/* Decoding holds at most 2.25 times the float32 tensors and 2 MiB; 1.25 times if the compute type is known. */
static void test_memory_bound(void) {
    for (int known = 0; known < 2; known++) {
        const size_t rows = 2000, columns = 1000;
        char *text = malloc(rows * (columns * 20 + 4) + 100);
        if (!text) abort();
        size_t n = (size_t)sprintf(text, known ? "{\"dtype\":\"float32\",\"q\":[" : "{\"q\":[");
        for (size_t i = 0; i < rows; i++) {
            text[n++] = i ? ',' : ' ';
            text[n++] = '[';
            for (size_t j = 0; j < columns; j++)
                n += (size_t)sprintf(text + n, "%s0.%llu", j ? "," : "", check_random() % 100000000000000000 + 1);
            text[n++] = ']';
        }
        n += (size_t)sprintf(text + n, "]}");
        reading r = {.budget = {.limit = rows * columns * (known ? 5 : 9) + ((size_t)2 << 20)}};
        read_pieces(&r, text, n, 30000);
        CHECK(r.document != NULL, "known %d: %s", known, r.error.detail);
        if (r.document) {
            bool finite;
            api_error error = {0};
            api_value *v = api_reader_value(r.reader, 0);
            const float *x = api_take_reals(r.reader, v, ATTN_F32, API_DTYPE_NONE, "/q", &finite, &error);
            CHECK(x && finite && v->count == rows * columns, "%s", error.detail);
            CHECK(r.memory.held <= rows * columns * 4 + 100000, "held %zu", r.memory.held);
        }
        end(&r);
        free(text);
    }
}

static void test_budget(void) {
    size_t length;
    char *text = repeat("[1", ",1", 1000000, "]", &length);
    reading r = {.budget = {.limit = 100000}};
    read_pieces(&r, text, length, 10000);
    CHECK(!r.document && r.error.code == API_OVERLOADED && !r.error.has_pointer, "code %d", r.error.code);
    end(&r);
    CHECK(atomic_load(&r.budget.used) == 0, "%zu bytes are left", atomic_load(&r.budget.used));
    free(text);
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_malformed_bodies),
        CHECK_TEST(test_byte_order_marks),
        CHECK_TEST(test_nul_bytes),
        CHECK_TEST(test_duplicate_keys),
        CHECK_TEST(test_duplicates_in_refused_parts),
        CHECK_TEST(test_abandoned_bodies),
        CHECK_TEST(test_documents),
        CHECK_TEST(test_shapes_and_their_faults),
        CHECK_TEST(test_places),
        CHECK_TEST(test_cuts_change_nothing),
        CHECK_TEST(test_cuts_of_random_documents),
        CHECK_TEST(test_depth_bombs),
        CHECK_TEST(test_bounds),
        CHECK_TEST(test_document_past_a_bound),
        CHECK_TEST(test_memory_bound),
        CHECK_TEST(test_budget),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
