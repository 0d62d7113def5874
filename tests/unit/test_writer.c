/* Replies as text: shapes, formats, bounds, and slices. */
#include "../../api/formats/reply.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/check.h"

/* one output under the name `weights`; the text is malloc'd */
static char *written(attn_dtype dtype, api_spelling spelling, api_shape shape, const void *data, attn_pool *pool) {
    api_memory memory;
    api_error error = {0};
    api_memory_init(&memory, NULL);
    size_t count = 1, length;
    for (size_t i = 0; i < shape.rank; i++) count *= shape.axes[i];
    api_output output = {"weights", shape, count, dtype == ATTN_F64 ? API_F64 : API_F32, (void *)data};
    const api_reply made = {.format = &api_json_reply,
                            .spelling = spelling,
                            .compute = dtype,
                            .outputs = &output,
                            .output_count = 1,
                            .memory = &memory,
                            .error = &error};
    const size_t bound = api_reply_bound(&made);
    const char *reply = api_reply_write(&made, pool, &length);
    CHECK(reply, "no reply");
    CHECK(length <= bound, "%zu bytes, more than the bound %zu", length, bound);
    CHECK(reply[length - 1] == '\n', "no newline at the end");
    char *text = strndup(reply, length - 1);
    api_memory_deinit(&memory);
    return text;
}

static void expect(attn_dtype dtype, api_spelling spelling, api_shape shape, const void *data, const char *wanted) {
    char *text = written(dtype, spelling, shape, data, NULL);
    CHECK(strcmp(text, wanted) == 0, "expected %s, got %s", wanted, text);
    free(text);
}

static void test_nested(void) {
    const float x[] = {1, -2.5f, 0.1f, 3, 4, 5, 6, 7};
    expect(ATTN_F32, API_NESTED, (api_shape){1, {3}}, x, "{\"weights\":[1,-2.5,0.1]}");
    expect(ATTN_F32, API_NESTED, (api_shape){2, {2, 3}}, x, "{\"weights\":[[1,-2.5,0.1],[3,4,5]]}");
    expect(ATTN_F32, API_NESTED, (api_shape){3, {2, 2, 2}}, x, "{\"weights\":[[[1,-2.5],[0.1,3]],[[4,5],[6,7]]]}");
    expect(ATTN_F32, API_NESTED, (api_shape){4, {1, 2, 1, 2}}, x, "{\"weights\":[[[[1,-2.5]],[[0.1,3]]]]}");
    expect(ATTN_F32, API_NESTED, (api_shape){4, {2, 1, 2, 1}}, x, "{\"weights\":[[[[1],[-2.5]]],[[[0.1],[3]]]]}");
}

static void test_empty_axes(void) {
    const float x[1] = {0};
    expect(ATTN_F32, API_NESTED, (api_shape){1, {0}}, x, "{\"weights\":[]}");
    expect(ATTN_F32, API_NESTED, (api_shape){2, {2, 0}}, x, "{\"weights\":[[],[]]}");
    expect(ATTN_F32, API_NESTED, (api_shape){2, {0, 3}}, x, "{\"weights\":[]}");
    expect(ATTN_F32, API_NESTED, (api_shape){4, {2, 2, 0, 5}}, x, "{\"weights\":[[[],[]],[[],[]]]}");
    expect(ATTN_F32, API_FLAT, (api_shape){2, {2, 0}}, x, "{\"weights\":{\"shape\":[2, 0],\"data\":[]}}");
    expect(ATTN_F32, API_BASE64, (api_shape){2, {2, 0}}, x,
           "{\"weights\":{\"shape\":[2, 0],\"dtype\":\"F32\",\"base64\":\"\"}}");
}

static void test_flat_and_base64(void) {
    const float x[] = {1, 2, 3, 4};
    const double y[] = {1.5, -INFINITY};
    expect(ATTN_F32, API_FLAT, (api_shape){2, {2, 2}}, x, "{\"weights\":{\"shape\":[2, 2],\"data\":[1,2,3,4]}}");
    expect(ATTN_F32, API_BASE64, (api_shape){2, {2, 2}}, x,
           "{\"weights\":{\"shape\":[2, 2],\"dtype\":\"F32\",\"base64\":\"AACAPwAAAEAAAEBAAACAQA==\"}}");
    expect(ATTN_F32, API_BASE64, (api_shape){1, {3}}, x,
           "{\"weights\":{\"shape\":[3],\"dtype\":\"F32\",\"base64\":\"AACAPwAAAEAAAEBA\"}}");
    expect(ATTN_F32, API_BASE64, (api_shape){1, {2}}, x,
           "{\"weights\":{\"shape\":[2],\"dtype\":\"F32\",\"base64\":\"AACAPwAAAEA=\"}}");
    expect(ATTN_F64, API_BASE64, (api_shape){1, {2}}, y,
           "{\"weights\":{\"shape\":[2],\"dtype\":\"F64\",\"base64\":\"AAAAAAAA+D8AAAAAAADw/w==\"}}");
}

static void test_minus_infinity_is_null(void) {
    const float x[] = {-INFINITY, 1};
    const double y[] = {-0.0, -INFINITY};
    expect(ATTN_F32, API_NESTED, (api_shape){2, {1, 2}}, x, "{\"weights\":[[null,1]]}");
    expect(ATTN_F64, API_FLAT, (api_shape){1, {2}}, y, "{\"weights\":{\"shape\":[2],\"data\":[-0.0,null]}}");
}

/* the longest texts must stay within the bound, in slices too */
static void test_longest_numbers(void) {
    enum { COUNT = 40000 };
    float *x = malloc(COUNT * sizeof *x);
    double *y = malloc(COUNT * sizeof *y);
    for (size_t i = 0; i < COUNT; i++) {
        x[i] = i % 2 ? -1e16f : -1.17549435e-38f;
        y[i] = -2.2250738585072014e-308;
    }
    free(written(ATTN_F32, API_NESTED, (api_shape){4, {COUNT, 1, 1, 1}}, x, NULL));
    free(written(ATTN_F64, API_NESTED, (api_shape){4, {1, 2, COUNT / 2, 1}}, y, NULL));
    free(written(ATTN_F64, API_NESTED, (api_shape){4, {1, 2, 3, 1}}, y, NULL));
    free(written(ATTN_F32, API_FLAT, (api_shape){1, {COUNT}}, x, NULL));
    free(x);
    free(y);
}

static void test_slices_make_the_same_text(void) {
    const api_shape shapes[] = {{2, {300, 517}}, {3, {3, 50001, 1}}, {4, {2, 3, 1, 20011}}, {1, {100003}}};
    attn_pool *pool = attn_pool_new(2);
    CHECK_FATAL(pool, "no threads");
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t count = 1;
        for (size_t i = 0; i < shapes[s].rank; i++) count *= shapes[s].axes[i];
        float *x = malloc(count * sizeof *x);
        for (size_t i = 0; i < count; i++) x[i] = (float)check_random_normal();
        char *alone = written(ATTN_F32, API_NESTED, shapes[s], x, NULL),
             *shared = written(ATTN_F32, API_NESTED, shapes[s], x, pool);
        CHECK(strcmp(alone, shared) == 0, "shape %zu differs", s);
        json_t *document = json_loads(shared, 0, NULL);
        CHECK(document, "shape %zu is not JSON", s);
        json_t *node = json_object_get(document, "weights");
        for (size_t i = 0; i < shapes[s].rank; i++) {
            CHECK(json_array_size(node) == shapes[s].axes[i], "axis %zu of shape %zu", i, s);
            node = json_array_get(node, shapes[s].axes[i] - 1);
        }
        CHECK((float)json_number_value(node) == x[count - 1], "last number of shape %zu", s);
        json_decref(document);
        free(alone);
        free(shared);
        free(x);
    }
    attn_pool_free(pool);
}

static void test_sizes_that_do_not_fit(void) {
    api_output output = {"weights", {4, {SIZE_MAX / 2, 3, 5, 7}}, SIZE_MAX, API_F32, NULL};
    const api_reply reply = {.format = &api_json_reply, .outputs = &output, .output_count = 1};
    CHECK(api_reply_bound(&reply) == SIZE_MAX, "bound %zu", api_reply_bound(&reply));
    output = (api_output){"weights", {2, {SIZE_MAX / 2, 0}}, 0, API_F32, NULL};
    CHECK(api_reply_bound(&reply) == SIZE_MAX, "rows without numbers are text too: %zu", api_reply_bound(&reply));
}

int main(int argc, char **argv) {
    const check_test tests[] = {
        CHECK_TEST(test_nested),
        CHECK_TEST(test_empty_axes),
        CHECK_TEST(test_flat_and_base64),
        CHECK_TEST(test_minus_infinity_is_null),
        CHECK_TEST(test_longest_numbers),
        CHECK_TEST(test_slices_make_the_same_text),
        CHECK_TEST(test_sizes_that_do_not_fit),
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
