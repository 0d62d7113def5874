#include "routes.h"

#include <stdio.h>
#include <string.h>

#include "info.h"
#include "model.h"
#include "statistics.h"

#define GET API_ALLOW_GET
#define POST API_ALLOW_POST
#define BOTH "GET, HEAD, POST, OPTIONS"
#define OTHER "/v2/{extension}" /* what is there so that clients are refused with a reason */
#define INFO(path, allow, begin, finish) \
    { path, allow, NULL, API_TYPE_JSON, true, NULL, begin, api_oip_##finish }

/* In a pattern {model} is the name of a model, {memory} a kind of shared memory, {name} any name. After a model its
 * version may stand, after a kind of memory a region. */
typedef struct row {
    const char *pattern; /* NULL: the route's path */
    api_route route;
} row;

static const row rows[] = {
#define ROW(name) {NULL, {.path = "/v2/models/" #name "/infer", .allow = POST, .operation = &api_##name}},
    API_OPERATION_LIST(ROW)
#undef ROW
        {NULL, INFO("/v2", GET, NULL, answer_server)},
    {NULL, INFO("/v2/health/live", GET, NULL, answer_live)},
    {NULL, INFO("/v2/health/ready", GET, NULL, answer_ready)},
    {NULL, INFO("/v2/models/{model}", GET, api_oip_begin_model, answer_model)},
    {NULL, INFO("/v2/models/{model}/ready", GET, api_oip_begin_model, answer_model_ready)},
    {NULL, INFO("/v2/models/{model}/config", GET, api_oip_begin_model, answer_config)},
    {NULL, INFO("/v2/models/{model}/stats", GET, api_oip_begin_model, answer_statistics)},
    {NULL, INFO("/v2/models/stats", GET, NULL, answer_statistics)},
    {NULL, INFO("/v2/repository/index", POST, NULL, answer_index)},
    {"/v2/models/{model}/trace/setting", INFO(OTHER, BOTH, NULL, refuse_tracing)},
    {"/v2/trace/setting", INFO(OTHER, BOTH, NULL, refuse_tracing)},
    {"/v2/logging", INFO(OTHER, BOTH, NULL, refuse_logging)},
    {"/v2/repository/models/{name}/load", INFO(OTHER, POST, NULL, refuse_repository)},
    {"/v2/repository/models/{name}/unload", INFO(OTHER, POST, NULL, refuse_repository)},
    {"/v2/{memory}/status", INFO(OTHER, GET, NULL, answer_memory_status)},
    {"/v2/{memory}/register", INFO(OTHER, POST, NULL, refuse_memory)},
    {"/v2/{memory}/unregister", INFO(OTHER, POST, NULL, answer_memory_unregister)},
};
enum { ROWS = sizeof rows / sizeof *rows };

const api_route *api_oip_route_at(size_t index) { return index < ROWS ? &rows[index].route : NULL; }

/* ---- patterns --------------------------------------------------------------------------------------------------- */

/* a name of a path, between slashes */
typedef struct name {
    const char *start;
    size_t length;
} name;

/* The name after the slash at *path, which is moved behind it. */
static name next(const char **path) {
    const name n = {*path + 1, strcspn(*path + 1, "/")};
    *path = n.start + n.length;
    return n;
}

static bool is(name n, const char *word) { return n.length == strlen(word) && strncmp(n.start, word, n.length) == 0; }

static bool is_memory(name n) { return is(n, "systemsharedmemory") || is(n, "cudasharedmemory"); }

static bool fits(name n, name pattern) {
    if (is(pattern, "{model}")) return api_oip_model(n.start, n.length) != NULL;
    if (is(pattern, "{memory}")) return is_memory(n);
    if (is(pattern, "{name}")) return n.length > 0;
    return n.length == pattern.length && strncmp(n.start, pattern.start, n.length) == 0;
}

/* What follows `word` and a name at the path, which is all of it if they are not there. */
static const char *after_pair(const char *path, const char *word, const char *only) {
    const char *rest = path;
    if (*rest != '/' || !is(next(&rest), word) || *rest != '/') return path;
    const name n = next(&rest);
    return (only ? is(n, only) : n.length > 0) ? rest : path;
}

static bool matches(const char *path, const char *pattern) {
    while (*path == '/' && *pattern == '/') {
        const name n = next(&path), wanted = next(&pattern);
        if (!fits(n, wanted)) return false;
        if (is_memory(n)) path = after_pair(path, "region", NULL);
        if (!is(wanted, "{name}") && api_oip_model(n.start, n.length))
            path = after_pair(path, "versions", API_OIP_VERSION);
    }
    return *path == '\0' && *pattern == '\0';
}

const api_route *api_oip_find(const char *path) {
    for (size_t i = 0; i < ROWS; i++)
        if (matches(path, rows[i].pattern ? rows[i].pattern : rows[i].route.path)) return &rows[i].route;
    return NULL;
}

void api_oip_explain_absence(const char *path, char *text, size_t capacity) {
    static const char models[] = "/v2/models/";
    char list[API_OIP_MODELS_TEXT];
    const bool below_models = strncmp(path, models, sizeof models - 1) == 0;
    const char *const model = path + (below_models ? sizeof models - 1 : 0);
    const size_t length = strcspn(model, "/");
    api_oip_model_list(list);
    if (below_models && !api_oip_model(model, length))
        snprintf(text, capacity, "no such model: %.*s; available: %s", (int)(length < 100 ? length : 100), model, list);
    else if (below_models && strncmp(model + length, "/versions/", 10) == 0)
        snprintf(text, capacity, "no such path: %.200s; the only version of a model is " API_OIP_VERSION, path);
    else
        snprintf(text, capacity,
                 "no such path: %.200s; available: GET /v2, /v2/health/live, /v2/health/ready, /v2/models/NAME, alone "
                 "or with /ready, /config or /stats; POST /v2/models/NAME/infer; NAME is one of %s",
                 path, list);
}
