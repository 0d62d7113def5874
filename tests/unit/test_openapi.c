/* The OpenAPI document agrees with the code: codes, fields, names, paths and methods are those of the tables in api/,
 * and each example request gets the example reply. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../api/api.h"
#include "../../api/base/error.h"
#include "../../api/endpoints/operation.h"
#include "../support/check.h"

extern const unsigned char api_openapi_json[];
extern const size_t api_openapi_json_length;

static json_t *document;
static api_service service;

/* the value at a path of keys that end with NULL; borrowed; NULL if there is none */
static json_t *at(json_t *value, const char *const *keys) {
    for (; value && *keys; keys++) value = json_object_get(value, *keys);
    return value;
}
#define AT(value, ...) at((value), (const char *const[]){__VA_ARGS__, NULL})
#define SCHEMA(...) AT(document, "components", "schemas", __VA_ARGS__)

static bool holds(json_t *array, const char *text) {
    size_t i;
    json_t *item;
    json_array_foreach(array, i,
                       item) if (json_is_string(item) && strcmp(json_string_value(item), text) == 0) return true;
    return false;
}

static bool holds_integer(json_t *array, int number) {
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item) if (json_is_integer(item) && json_integer_value(item) == number) return true;
    return false;
}

/* the response in components with an example of this error code; NULL if there is none */
static json_t *example_of(const char *code) {
    const char *name;
    json_t *response;
    json_object_foreach(AT(document, "components", "responses"), name, response) {
        json_t *example = AT(response, "content", "application/problem+json", "examples", code, "value");
        if (example) return example;
    }
    return NULL;
}

static void test_every_error_is_described(void) {
    json_t *properties = SCHEMA("Problem", "properties");
    CHECK(json_array_size(AT(properties, "code", "enum")) == API_CODE_COUNT - 1, "%zu codes, %d in the code",
          json_array_size(AT(properties, "code", "enum")), API_CODE_COUNT - 1);
    for (int i = API_NO_ERROR + 1; i < API_CODE_COUNT; i++) {
        const api_code_info *info = &api_codes[i];
        CHECK(holds(AT(properties, "code", "enum"), info->code), "%s is not a code of Problem", info->code);
        CHECK(holds(AT(properties, "title", "enum"), info->title), "%s is not a title of Problem", info->title);
        CHECK(holds_integer(AT(properties, "status", "enum"), info->status), "%d is not a status of Problem",
              info->status);
        json_t *example = example_of(info->code);
        if (!CHECK(example != NULL, "no example of %s", info->code)) continue;
        const char *title = json_string_value(AT(example, "title")), *code = json_string_value(AT(example, "code"));
        CHECK(title && strcmp(title, info->title) == 0, "%s: title %s", info->code, title ? title : "missing");
        CHECK(code && strcmp(code, info->code) == 0, "%s: code %s", info->code, code ? code : "missing");
        CHECK(json_integer_value(AT(example, "status")) == info->status, "%s: another status", info->code);
        CHECK(!AT(example, "pointer") || info->status == 422, "%s: only a 422 has a pointer", info->code);
    }
}

/* `object` has the key, and `list` (may be NULL) the string */
static void has_name(const char *what, json_t *object, json_t *list, const char *name) {
    CHECK(json_object_get(object, name) != NULL, "%s lacks %s", what, name);
    CHECK(!list || holds(list, name), "%s: the list lacks %s", what, name);
}

/* ... and nothing else */
static void has_count(const char *what, json_t *object, json_t *list, size_t count) {
    CHECK(json_object_size(object) == count, "%s has %zu names, the code knows %zu", what, json_object_size(object),
          count);
    CHECK(!list || json_array_size(list) == count, "%s: a list of %zu, the code knows %zu", what, json_array_size(list),
          count);
}

static void names_of(const api_schema *schema, const char *request, const char *reply) {
    json_t *fields = SCHEMA(request, "properties"), *names = SCHEMA(reply, "properties");
    json_t *list = AT(json_array_get(AT(fields, "return", "anyOf"), 0), "items", "enum");
    CHECK(list != NULL, "%s: no list of names in return", request);
    for (size_t i = 0; i < api_field_count(schema); i++) has_name(request, fields, NULL, api_field_at(schema, i)->name);
    for (size_t i = 0; i < api_name_count(schema); i++) has_name(reply, names, list, api_name_at(schema, i)->name);
    has_count(request, fields, NULL, api_field_count(schema));
    has_count(reply, names, list, api_name_count(schema));
}

static void test_fields_and_names_are_those_of_the_code(void) {
    names_of(&api_attention.schema, "AttentionRequest", "AttentionReply");
    names_of(&api_mha.schema, "MhaRequest", "MhaReply");
    names_of(&api_scan.schema, "ScanRequest", "ScanReply");
    names_of(&api_merge.schema, "MergeRequest", "MergeReply");
}

/* a path of the document with its parameter filled in; static memory */
static const char *filled(const char *path) {
    static char text[128];
    const char *from = strchr(path, '{'), *to = strchr(path, '}');
    if (!from || !to) return path;
    snprintf(text, sizeof text, "%.*s%s%s", (int)(from - path), path, from[1] == 'm' ? "attention" : "main.js", to + 1);
    return text;
}

/* A request by method, path and body. The caller frees it, and with it the response. */
static api_request *ask(const char *method, const char *path, const char *body, const api_response **response) {
    const api_head head = {.method = method, .path = filled(path)};
    api_request *request = api_begin(&service, &head);
    *response = request ? api_refused(request) : api_out_of_memory();
    if (*response) return request;
    if (body) api_push(request, body, strlen(body));
    *response = api_finish(request, 0);
    return request;
}

static const char *header_of(const api_response *response, const char *name) {
    for (const api_header *h = response->headers; h->name; h++)
        if (strcmp(h->name, name) == 0) return h->value;
    return NULL;
}

/* "GET, HEAD" has the method "HEAD" */
static bool allows(const char *allow, const char *method) {
    const size_t n = strlen(method);
    for (const char *p = allow; p && (p = strstr(p, method)); p += n)
        if ((p == allow || p[-1] == ' ' || p[-1] == ',') && (p[n] == 0 || p[n] == ',')) return true;
    return false;
}

static void check_method(const char *path, json_t *item, const char *method, const char *key, const char *allow) {
    json_t *operation = json_object_get(item, key);
    CHECK((operation != NULL) == allows(allow, method), "%s %s: document and Allow (%s) differ", method, path, allow);
    if (!operation) return;
    const api_response *response;
    api_request *request = ask(method, path, strcmp(method, "POST") == 0 ? "{}" : NULL, &response);
    char status[16];
    snprintf(status, sizeof status, "%d", response->status);
    CHECK(AT(operation, "responses", status) != NULL, "%s %s: %s is not one of its responses", method, path, status);
    api_request_free(request);
}

static void test_paths_and_methods_are_those_of_the_code(void) {
    const char *path;
    json_t *item;
    json_object_foreach(AT(document, "paths"), path, item) {
        const api_response *response;
        api_request *request = ask("OPTIONS", path, NULL, &response);
        const char *allow = header_of(response, "Allow");
        if (CHECK(allow != NULL, "OPTIONS %s has no Allow", path)) {
            check_method(path, item, "GET", "get", allow);
            check_method(path, item, "HEAD", "head", allow);
            check_method(path, item, "POST", "post", allow);
            check_method(path, item, "OPTIONS", "options", allow);
            check_method(path, item, "PUT", "put", allow);
            check_method(path, item, "DELETE", "delete", allow);
        }
        api_request_free(request);
    }
}

/* The document has a route of the models with {model} or once for each of them. {extension} is what the service does
 * not support of a protocol. */
static void test_every_route_is_described(void) {
    static const char parameter[] = "{model}";
    const char *route, *operation;
    bool computes;
    for (size_t i = 0; (route = api_route_label(i, &computes)); i++) {
        const char *at_model = strstr(route, parameter);
        if (strcmp(route, "unmatched") == 0 || strstr(route, "{extension}") || AT(document, "paths", route)) continue;
        CHECK(at_model != NULL, "%s is not in the document", route);
        for (size_t j = 0; at_model && (operation = api_operation_label(j)); j++) {
            char path[128];
            snprintf(path, sizeof path, "%.*s%s%s", (int)(at_model - route), route, operation,
                     at_model + sizeof parameter - 1);
            CHECK(AT(document, "paths", path) != NULL, "%s is not in the document", path);
        }
    }
}

/* Equal as JSON, numbers within a few units in the last place of float32. */
static bool alike(json_t *a, json_t *b) {
    if (json_is_number(a) && json_is_number(b)) {
        const double x = json_number_value(a), y = json_number_value(b);
        return fabs(x - y) <= 4 * 0x1p-23 * fmax(fabs(x), fabs(y));
    }
    if (json_typeof(a) != json_typeof(b)) return false;
    size_t i;
    json_t *item;
    const char *key;
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b)) return false;
        json_array_foreach(a, i, item) if (!alike(item, json_array_get(b, i))) return false;
        return true;
    }
    if (!json_is_object(a)) return json_equal(a, b);
    if (json_object_size(a) != json_object_size(b)) return false;
    json_object_foreach(a, key, item) {
        json_t *other = json_object_get(b, key);
        if (!other || !alike(item, other)) return false;
    }
    return true;
}

static void examples_of(const char *path, size_t least) {
    json_t *post = AT(document, "paths", path, "post");
    json_t *replies = AT(post, "responses", "200", "content", "application/json", "examples");
    const char *name;
    json_t *example;
    size_t count = 0;
    json_object_foreach(AT(post, "requestBody", "content", "application/json", "examples"), name, example) {
        char *body = json_dumps(AT(example, "value"), JSON_COMPACT);
        const api_response *response;
        api_request *request = ask("POST", path, body, &response);
        CHECK(response->status == 200, "%s: example %s is answered %d", path, name, response->status);
        json_t *reply = json_loadb(response->body, response->length, 0, NULL);
        json_t *expected = AT(replies, name, "value");
        CHECK(reply && expected && alike(expected, reply), "%s: example %s is answered %.*s", path, name,
              (int)response->length, response->body);
        json_decref(reply);
        api_request_free(request);
        free(body);
        count++;
    }
    CHECK(count >= least, "%s: %zu examples", path, count);
}

static void test_examples_are_true(void) {
    examples_of("/attention", 4);
    examples_of("/mha", 1);
    examples_of("/scan", 1);
    examples_of("/merge", 1);
    examples_of("/v2/models/attention/infer", 1);
    examples_of("/v2/models/mha/infer", 1);
    examples_of("/v2/models/scan/infer", 1);
    examples_of("/v2/models/merge/infer", 1);
}

static void test_references_lead_somewhere(void) {
    char *text = json_dumps(document, 0);
    const char *p = text;
    size_t count = 0;
    while ((p = strstr(p, "\"#/components/"))) {
        char kind[32], name[64];
        const int read = sscanf(p, "\"#/components/%31[^/]/%63[^\"]\"", kind, name);
        CHECK(read == 2 && AT(document, "components", kind, name), "%.60s leads nowhere", p);
        p++;
        count++;
    }
    CHECK(count > 50, "%zu references", count);
    free(text);
}

static void test_it_is_served_as_it_stands(void) {
    const api_response *response;
    api_request *request = ask("GET", "/openapi.json", NULL, &response);
    CHECK(response->status == 200 && response->length == api_openapi_json_length &&
              memcmp(response->body, api_openapi_json, api_openapi_json_length) == 0,
          "status %d, %zu bytes", response->status, response->length);
    api_request_free(request);
    const char *version = json_string_value(AT(document, "info", "version"));
    CHECK(version && strcmp(version, api_version) == 0, "the document is of %s, the program %s", version, api_version);
}

static char *no_metrics(void *context, size_t *length) {
    (void)context;
    char *text = calloc(1, 1);
    *length = 0;
    return text;
}

int main(int argc, char **argv) {
    document = json_loadb((const char *)api_openapi_json, api_openapi_json_length, JSON_REJECT_DUPLICATES, NULL);
    if (!document) {
        fprintf(stderr, "openapi.json is not JSON\n");
        return 1;
    }
    service = (api_service){.engine.kernel = attn_kernel_find(NULL), .max_body = 1 << 20, .host.metrics = no_metrics};
    const check_test tests[] = {
        CHECK_TEST(test_every_error_is_described),
        CHECK_TEST(test_fields_and_names_are_those_of_the_code),
        CHECK_TEST(test_paths_and_methods_are_those_of_the_code),
        CHECK_TEST(test_every_route_is_described),
        CHECK_TEST(test_examples_are_true),
        CHECK_TEST(test_references_lead_somewhere),
        CHECK_TEST(test_it_is_served_as_it_stands),
    };
    const int status = check_main(argc, argv, tests, sizeof tests / sizeof *tests);
    json_decref(document);
    return status;
}
