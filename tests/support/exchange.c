#include "exchange.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

api_service exchange_service = {.max_body = 1 << 20, .budget.limit = (size_t)64 << 20};
int exchange_readiness = API_READY;

static int get_readiness(void *context) { return *(int *)context; }
static char *get_metrics(void *context, size_t *length) {
    (void)context;
    char *text = strdup("# TYPE up gauge\nup 1\n");
    if (text) *length = strlen(text);
    return text;
}

void exchange_init(void) {
    static const api_library libraries[] = {{"other", "1.2.3"}, {NULL, NULL}};
    exchange_service.engine.kernel = attn_kernel_find(NULL);
    exchange_service.host = (api_host){&exchange_readiness, get_readiness, get_metrics, libraries};
}

static const char *header_value(void *context, const char *name) {
    for (const char **p = ((exchange_headers *)context)->pairs; *p; p += 2)
        if (strcasecmp(p[0], name) == 0) return p[1];
    return NULL;
}

char *exchange_quoted(const char *body) {
    char *copy = strdup(body);
    for (char *c = copy; *c; c++)
        if (*c == '\'') *c = '"';
    return copy;
}

exchange exchange_keep(const api_response *response) {
    exchange e = {.status = response->status, .body = strndup(response->body ? response->body : "", response->length)};
    e.content_type = strdup(response->content_type ? response->content_type : "");
    size_t size;
    FILE *headers = open_memstream(&e.headers, &size);
    for (size_t i = 0; response->headers[i].name; i++)
        fprintf(headers, "%s: %s\n", response->headers[i].name, response->headers[i].value);
    fclose(headers);
    e.json = json_loadb(e.body, response->length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    return e;
}

void exchange_free(exchange *e) {
    json_decref(e->json);
    free(e->content_type);
    free(e->body);
    free(e->headers);
}

exchange exchange_send(const char *method, const char *path, exchange_headers headers, const char *body) {
    const size_t chunk = 1 + check_random_below(40);
    char target[200];
    snprintf(target, sizeof target, "%s", path);
    char *query = strchr(target, '?');
    if (query) *query++ = '\0';
    const api_head head = {
        .method = method, .path = target, .query = query, .header = header_value, .context = &headers};
    char *text = exchange_quoted(body);
    api_request *request = api_begin(&exchange_service, &head);
    const api_response *response = api_refused(request);
    if (!response) {
        for (size_t i = 0, n = strlen(text); i < n; i += chunk)
            if (!api_push(request, text + i, n - i < chunk ? n - i : chunk)) break;
        if (chunk % 2) api_work(request);
        response = api_finish(request, 0.001);
    }
    const exchange e = exchange_keep(response);
    api_request_free(request);
    free(text);
    CHECK(atomic_load(&exchange_service.budget.used) == 0, "memory of the request is still charged");
    return e;
}

static exchange post(const char *path, const char *body) {
    return exchange_send("POST", path, (exchange_headers){{NULL}}, body);
}

const char *exchange_member(const exchange *e, const char *name) {
    const char *s = json_string_value(json_object_get(e->json, name));
    return s ? s : "(none)";
}

void expect_error(const char *path, const char *body, int status, const char *code, const char *pointer,
                  const char *detail) {
    exchange e = post(path, body);
    const json_t *p = json_object_get(e.json, "pointer");
    CHECK(e.status == status && strcmp(exchange_member(&e, "code"), code) == 0, "%s: expected %d %s, got %s", body,
          status, code, e.body);
    CHECK(pointer ? p && strcmp(json_string_value(p), pointer) == 0 : !p, "%s: expected pointer %s, got %s", body,
          pointer ? pointer : "(none)", e.body);
    CHECK(!detail || strstr(exchange_member(&e, "detail"), detail), "%s: expected \"%s\" in the detail, got %s", body,
          detail, e.body);
    CHECK(strcmp(e.content_type, "application/problem+json") == 0, "%s", e.content_type);
    CHECK(strstr(e.headers, "Server-Timing: decode;dur="), "no Server-Timing");
    exchange_free(&e);
}

static bool close_to(const json_t *got, const json_t *wanted) {
    if (!got) return false;
    if (json_is_array(wanted)) {
        if (json_array_size(got) != json_array_size(wanted) || !json_is_array(got)) return false;
        for (size_t i = 0; i < json_array_size(wanted); i++)
            if (!close_to(json_array_get(got, i), json_array_get(wanted, i))) return false;
        return true;
    }
    if (json_is_object(wanted)) {
        if (json_object_size(got) != json_object_size(wanted)) return false;
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)wanted, key, value) if (!close_to(json_object_get(got, key), value)) return false;
        return true;
    }
    if (json_is_number(wanted))
        return json_is_number(got) && fabs(json_number_value(got) - json_number_value(wanted)) < 1e-5;
    return json_equal(got, wanted);
}

void expect_reply(const char *path, const char *body, const char *reply) {
    exchange e = post(path, body);
    char *wanted_text = exchange_quoted(reply);
    json_t *wanted = json_loads(wanted_text, 0, NULL);
    CHECK(e.status == 200 && close_to(e.json, wanted), "%s: expected %s, got %d %s", body, wanted_text, e.status,
          e.body);
    json_decref(wanted);
    free(wanted_text);
    exchange_free(&e);
}
