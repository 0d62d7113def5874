/* The page and its files, as the service answers for them. */
#include <string.h>

#include "../../api/page/page.h"
#include "../support/check.h"

static attn_pool *pool;

typedef struct headers {
    const char *condition, *coding;
} headers;
static const char *header_of(void *context, const char *name) {
    const headers *h = context;
    if (strcmp(name, "if-none-match") == 0) return h->condition;
    if (strcmp(name, "accept-encoding") == 0) return h->coding;
    return NULL;
}

static api_request *ask(api_service *service, const char *method, const char *path, headers h,
                        const api_response **response) {
    const api_head head = {.method = method, .path = path, .header = header_of, .context = &h};
    api_request *request = api_begin(service, &head);
    *response = api_refused(request);
    if (!*response) *response = api_finish(request, 0);
    return request;
}

static const char *value_of(const api_response *response, const char *name) {
    for (const api_header *h = response->headers; h->name; h++)
        if (strcmp(h->name, name) == 0) return h->value;
    return "";
}

static api_service service_of(bool no_page) {
    return (api_service){
        .engine = {.kernel = attn_kernel_find(NULL), .pool = pool}, .max_body = 1 << 20, .no_page = no_page};
}

static void path_of(const api_page_file *file, char path[64]) {
    snprintf(path, 64, "/page/%s", file->name);
    if (strcmp(file->name, "index.html") == 0) strcpy(path, "/");
}

static void test_every_file(void) {
    api_service service = service_of(false);
    size_t count = 0, whole = 0;
    bool found = false;
    for (const api_page_file *file = api_page_files; file->name; file++, count++) {
        const api_response *response;
        char path[64];
        path_of(file, path);
        api_request *request = ask(&service, "GET", path, (headers){0}, &response);
        CHECK(response->status == 200 && response->length == *file->length &&
                  memcmp(response->body, file->bytes, response->length) == 0,
              "%s: %d, %zu bytes", path, response->status, response->length);
        CHECK(strcmp(value_of(response, "X-Content-Type-Options"), "nosniff") == 0, "%s: no nosniff", path);
        CHECK(strstr(value_of(response, "Content-Security-Policy"), "default-src 'none'"), "%s: no policy", path);
        CHECK(!strstr(value_of(response, "Content-Security-Policy"), "unsafe"), "%s: a weak policy", path);
        const char *type = strstr(path, ".js") ? "text/javascript" : strstr(path, ".css") ? "text/css" : "text/html";
        CHECK(strncmp(response->content_type, type, strlen(type)) == 0, "%s: %s", path, response->content_type);
        CHECK(strncmp(file->tag, "W/\"", 3) == 0 && strlen(file->tag) == 20, "%s: tag %s", path, file->tag);
        api_request_free(request);
        request = ask(&service, "GET", path, (headers){.coding = "gzip"}, &response);
        CHECK(response->status == 200 && (response->length < *file->length || *file->length < 256),
              "%s: %zu bytes of %zu in gzip", path, response->length, *file->length);
        whole += response->length;
        api_request_free(request);
        found |= strcmp(path, "/") == 0;
    }
    CHECK(found && count > 20, "%zu files", count);
    CHECK(whole < 150000, "%zu bytes in gzip: more than a phone should load", whole);
}

static void test_conditions(void) {
    api_service service = service_of(false);
    const api_page_file *file = api_page_files;
    char path[64], several[128];
    path_of(file, path);
    snprintf(several, sizeof several, "\"other\", %s", file->tag);
    const struct {
        const char *condition;
        int status;
    } rows[] = {{file->tag, 304}, {file->tag + 2, 304}, {several, 304}, {"*", 304}, {"\"other\"", 200},
                {"", 200},        {NULL, 200}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const api_response *response;
        api_request *request = ask(&service, "GET", path, (headers){.condition = rows[i].condition}, &response);
        CHECK(response->status == rows[i].status, "%s: expected %d, got %d", rows[i].condition, rows[i].status,
              response->status);
        CHECK(strcmp(value_of(response, "ETag"), file->tag) == 0, "ETag %s", value_of(response, "ETag"));
        CHECK((response->status == 304) == (response->length == 0), "a 304 has no body");
        api_request_free(request);
    }
}

static void test_refusals(void) {
    api_service with = service_of(false), without = service_of(true);
    const struct {
        const char *method, *path;
        int status, status_without;
    } rows[] = {
        {"GET", "/page/none.js", 404, 404},
        {"GET", "/page/", 404, 404},
        {"GET", "/page", 404, 404},
        {"GET", "/page/../page.c", 404, 404},
        {"GET", "/page/a/b", 404, 404},
        {"POST", "/", 405, 404},
        {"HEAD", "/", 200, 404},
        {"OPTIONS", "/page/main.js", 204, 404},
        {"GET", "/page/main.js", 200, 404},
        {"GET", "/version", 200, 200},
        {"GET", "/openapi.json", 200, 200},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int off = 0; off < 2; off++) {
            const api_response *response;
            api_request *request = ask(off ? &without : &with, rows[i].method, rows[i].path, (headers){0}, &response);
            const int wanted = off ? rows[i].status_without : rows[i].status;
            CHECK(response->status == wanted, "%s %s%s: expected %d, got %d", rows[i].method, rows[i].path,
                  off ? " without the page" : "", wanted, response->status);
            if (wanted == 404)
                CHECK(strcmp(response->content_type, "application/problem+json") == 0, "%s", response->content_type);
            api_request_free(request);
        }
    }
    const api_response *response;
    api_request *request = ask(&without, "GET", "/none", (headers){0}, &response);
    CHECK(!memmem(response->body, response->length, "/page", 5), "a page that is off is not offered: %.*s",
          (int)response->length, response->body);
    api_request_free(request);
}

int main(int argc, char **argv) {
    const check_test tests[] = {CHECK_TEST(test_every_file), CHECK_TEST(test_conditions), CHECK_TEST(test_refusals)};
    pool = attn_pool_new(1);
    const int status = check_main(argc, argv, tests, sizeof tests / sizeof *tests);
    attn_pool_free(pool);
    return status;
}
