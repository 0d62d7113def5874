#include <stdio.h>
#include <string.h>

#include "oip.h"

#define JSON "application", "json", "application/json"
#define READ "GET, HEAD, OPTIONS"
#define WRITE "POST, OPTIONS"
#define BOTH "GET, HEAD, POST, OPTIONS"
#define OTHER "/v2/{extension}" /* what is there for clients to be told no */

/* Paths of no model. '*' stands for any name. */
static const struct {
    const char *pattern;
    api_route route;
} plain[] = {
    {"/v2", {"/v2", READ, false, NULL, API_OIP_SERVER, JSON}},
    {"/v2/health/live", {"/v2/health/live", READ, false, NULL, API_OIP_LIVE, JSON}},
    {"/v2/health/ready", {"/v2/health/ready", READ, false, NULL, API_OIP_READY, JSON}},
    {"/v2/models/stats", {"/v2/models/stats", READ, false, NULL, API_OIP_ALL_STATS, JSON}},
    {"/v2/repository/index", {"/v2/repository/index", WRITE, false, NULL, API_OIP_INDEX, JSON}},
    {"/v2/repository/models/*/load", {OTHER, WRITE, false, NULL, API_OIP_REPOSITORY, JSON}},
    {"/v2/repository/models/*/unload", {OTHER, WRITE, false, NULL, API_OIP_REPOSITORY, JSON}},
    {"/v2/logging", {OTHER, BOTH, false, NULL, API_OIP_LOGGING, JSON}},
    {"/v2/trace/setting", {OTHER, BOTH, false, NULL, API_OIP_TRACING, JSON}},
};

/* Below /v2/systemsharedmemory and /v2/cudasharedmemory, with /region/{region} between or without. */
static const struct {
    const char *rest;
    api_route route;
} memory[] = {
    {"/status", {OTHER, READ, false, NULL, API_OIP_MEMORY_STATUS, JSON}},
    {"/register", {OTHER, WRITE, false, NULL, API_OIP_MEMORY_REGISTER, JSON}},
    {"/unregister", {OTHER, WRITE, false, NULL, API_OIP_MEMORY_UNREGISTER, JSON}},
};

/* Below /v2/models/{model}, with /versions/1 between or without. */
static const struct {
    const char *rest;
    api_route routes[API_MODELS];
} models[] = {
    {"",
     {{"/v2/models/{model}", READ, false, &api_attention, API_OIP_MODEL, JSON},
      {"/v2/models/{model}", READ, false, &api_mha, API_OIP_MODEL, JSON}}},
    {"/ready",
     {{"/v2/models/{model}/ready", READ, false, &api_attention, API_OIP_MODEL_READY, JSON},
      {"/v2/models/{model}/ready", READ, false, &api_mha, API_OIP_MODEL_READY, JSON}}},
    {"/config",
     {{"/v2/models/{model}/config", READ, false, &api_attention, API_OIP_CONFIG, JSON},
      {"/v2/models/{model}/config", READ, false, &api_mha, API_OIP_CONFIG, JSON}}},
    {"/stats",
     {{"/v2/models/{model}/stats", READ, false, &api_attention, API_OIP_STATS, JSON},
      {"/v2/models/{model}/stats", READ, false, &api_mha, API_OIP_STATS, JSON}}},
    {"/trace/setting",
     {{OTHER, BOTH, false, &api_attention, API_OIP_TRACING, JSON},
      {OTHER, BOTH, false, &api_mha, API_OIP_TRACING, JSON}}},
    {"/infer",
     {{"/v2/models/attention/infer", WRITE, true, &api_attention, API_OIP_INFER, JSON},
      {"/v2/models/mha/infer", WRITE, true, &api_mha, API_OIP_INFER, JSON}}},
};

bool api_under_v2(const char *path) { return strncmp(path, "/v2", 3) == 0 && strchr("/?", path[3]) != NULL; }

/* What follows `prefix` in `path`; NULL where it does not begin so. */
static const char *after(const char *path, const char *prefix) {
    const size_t length = strlen(prefix);
    return path && strncmp(path, prefix, length) == 0 ? path + length : NULL;
}

/* What follows a name that is not empty and holds no slash. */
static const char *after_name(const char *path) {
    const size_t length = path ? strcspn(path, "/") : 0;
    return length > 0 ? path + length : NULL;
}

static bool matches(const char *path, const char *pattern) {
    const char *star = strchr(pattern, '*');
    if (!star) return strcmp(path, pattern) == 0;
    if (strncmp(path, pattern, (size_t)(star - pattern)) != 0) return false;
    const char *rest = after_name(path + (star - pattern));
    return rest && strcmp(rest, star + 1) == 0;
}

/* The model at `path`, behind /v2/models/, with *rest what follows it and its version. API_MODELS: none. */
static size_t find_model(const char *path, const char **rest) {
    size_t model = 0;
    while (model < API_MODELS) {
        const char *name = api_operations[model]->schema.name, *end = after(path, name);
        if (end && (*end == '/' || *end == '\0')) {
            const char *version = after(end, "/versions/" API_OIP_VERSION);
            *rest = version && (*version == '/' || *version == '\0') ? version : end;
            break;
        }
        model++;
    }
    return model;
}

static const api_route *find_memory(const char *rest) {
    const char *region = after(rest, "/region/");
    if (region) rest = after_name(region);
    for (size_t i = 0; rest && i < sizeof memory / sizeof *memory; i++)
        if (strcmp(rest, memory[i].rest) == 0) return &memory[i].route;
    return NULL;
}

const api_route *api_oip_route(const char *path) {
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (matches(path, plain[i].pattern)) return &plain[i].route;
    const char *rest = after(path, "/v2/systemsharedmemory");
    if (rest || (rest = after(path, "/v2/cudasharedmemory"))) return find_memory(rest);
    const char *model_path = after(path, "/v2/models/");
    if (!model_path) return NULL;
    const size_t model = find_model(model_path, &rest);
    for (size_t i = 0; model < API_MODELS && i < sizeof models / sizeof *models; i++)
        if (strcmp(rest, models[i].rest) == 0) return &models[i].routes[model];
    return NULL;
}

void api_oip_not_found(const char *path, char *text, size_t capacity) {
    const char *model_path = after(path, "/v2/models/"), *rest = "";
    const size_t length = model_path ? strcspn(model_path, "/") : 0;
    if (model_path && find_model(model_path, &rest) == API_MODELS)
        snprintf(text, capacity, "there is no model \"%.*s\"; the models are attention and mha",
                 (int)(length < 100 ? length : 100), model_path);
    else if (model_path && after(rest, "/versions/"))
        snprintf(text, capacity, "there is no such version at %.200s; the only one is " API_OIP_VERSION, path);
    else
        snprintf(text, capacity,
                 "nothing is at %.200s; there are GET /v2, /v2/health/live, /v2/health/ready, /v2/models/attention "
                 "and /v2/models/mha alone or with /ready, /config or /stats, and POST .../infer",
                 path);
}
