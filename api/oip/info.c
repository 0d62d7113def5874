/* oip_info.c: what is asked of the server and its models besides computing: metadata, configuration, readiness, counts;
 * and what other servers of the protocol do and this one does not. */
#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "oip.h"

enum { MOST = 8192 }; /* bytes of an answer at most: tests/unit/test_oip.c sees that the longest fits */
static const char platform[] = "attentiond";

static void say(api_request *request, const api_short_text *text) {
    request->response = (api_response){
        .status = 200, .content_type = request->route->content_type, .body = text->start, .length = text->length};
}

static void say_constant(api_request *request, const char *text) {
    request->response = (api_response){
        .status = 200, .content_type = request->route->content_type, .body = text, .length = strlen(text)};
}

static void say_fault(api_request *request, const char *detail) {
    api_error_set(&request->error, API_BAD_REQUEST, API_PLACE_LAST, NULL, "%s", detail);
}

/* Room for an answer; false: no memory, said. */
static bool open_text(api_request *request, api_short_text *text) {
    char *room = api_small(&request->memory, MOST);
    if (room)
        api_text_init(text, room, MOST);
    else
        api_error_set(&request->error, request->memory.over_budget ? API_OVERLOADED : API_OUT_OF_MEMORY, API_PLACE_LAST,
                      NULL, "no memory for the answer");
    return room != NULL;
}

/* ---- the server ------------------------------------------------------------------------------------------------- */

static void answer_server(api_request *request) {
    api_short_text text;
    if (!open_text(request, &text)) return;
    api_text_add(&text, "{\"name\":\"attentiond\",\"version\":");
    api_text_add_string(&text, api_version);
    api_text_add(&text,
                 ",\"extensions\":[\"binary_tensor_data\",\"model_configuration\",\"parameters\",\"statistics\"]}\n");
    say(request, &text);
}

static void answer_readiness(api_request *request, const char *ready) {
    const api_host *host = &request->service->host;
    const int state = host->readiness ? host->readiness(host->context) : API_READY;
    if (state == API_READY)
        say_constant(request, ready);
    else if (state == API_STARTING)
        api_error_set(&request->error, API_NOT_READY, API_PLACE_LAST, NULL, "the service is starting");
    else
        api_error_set(&request->error, API_SHUTTING_DOWN, API_PLACE_LAST, NULL, "the service is stopping");
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

static void add_lengths(api_short_text *text, unsigned rank) {
    api_text_add(text, "[");
    for (unsigned i = 0; i < rank; i++) api_text_add(text, i ? ",-1" : "-1");
    api_text_add(text, "]");
}

static void add_tensor(api_short_text *text, const char *name, const char *datatype, unsigned rank, bool config,
                       bool first) {
    api_text_add(text, first ? "{\"name\":" : ",{\"name\":");
    api_text_add_string(text, name);
    api_text_add(text, config ? ",\"data_type\":\"TYPE_" : ",\"datatype\":\"");
    api_text_add(text, datatype);
    api_text_add(text, config ? "\",\"dims\":" : "\",\"shape\":");
    add_lengths(text, rank);
}

static void add_inputs(api_short_text *text, const api_schema *schema, bool config) {
    const api_field_row *row;
    bool first = true;
    for (size_t i = 0; (row = api_field_at(schema, i)); i++) {
        const api_dtype dtype = api_field_dtype(row);
        if (dtype == API_DTYPE_NONE) continue;
        add_tensor(text, row->name, api_oip_datatype_name(dtype), row->max_rank, config, first);
        if (config) api_text_add(text, row->flags & API_REQUIRED ? ",\"optional\":false" : ",\"optional\":true");
        api_text_add(text, "}");
        first = false;
    }
}

static void add_outputs(api_short_text *text, const api_schema *schema, bool config) {
    const api_name_row *row;
    for (size_t i = 0; (row = api_name_at(schema, i)); i++) {
        add_tensor(text, row->name, "FP32", row->rank, config, i == 0);
        api_text_add(text, "}");
    }
}

static void answer_model(api_request *request) {
    const api_schema *schema = &request->route->operation->schema;
    api_short_text text;
    if (!open_text(request, &text)) return;
    api_text_add(&text, "{\"name\":");
    api_text_add_string(&text, schema->name);
    api_text_add(&text, ",\"versions\":[\"" API_OIP_VERSION "\"],\"platform\":");
    api_text_add_string(&text, platform);
    api_text_add(&text, ",\"inputs\":[");
    add_inputs(&text, schema, false);
    api_text_add(&text, "],\"outputs\":[");
    add_outputs(&text, schema, false);
    api_text_add(&text, "]}\n");
    say(request, &text);
}

/* max_batch_size 0: the first axis is the model's own, clients take none away. */
static void answer_config(api_request *request) {
    const api_schema *schema = &request->route->operation->schema;
    api_short_text text;
    if (!open_text(request, &text)) return;
    api_text_add(&text, "{\"name\":");
    api_text_add_string(&text, schema->name);
    api_text_add(&text, ",\"platform\":");
    api_text_add_string(&text, platform);
    api_text_add(&text, ",\"backend\":");
    api_text_add_string(&text, platform);
    api_text_add(&text, ",\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":0,\"input\":[");
    add_inputs(&text, schema, true);
    api_text_add(&text, "],\"output\":[");
    add_outputs(&text, schema, true);
    api_text_add(&text, "]}\n");
    say(request, &text);
}

static void answer_index(api_request *request) {
    say_constant(request, "[{\"name\":\"attention\",\"version\":\"" API_OIP_VERSION
                          "\",\"state\":\"READY\",\"reason\":\"\"},{\"name\":\"mha\",\"version\":\"" API_OIP_VERSION
                          "\",\"state\":\"READY\",\"reason\":\"\"}]\n");
}

/* ---- counts ----------------------------------------------------------------------------------------------------- */

static void add_tally(api_short_text *text, const char *name, const api_tally *tally, bool first) {
    if (!first) api_text_add(text, ",");
    api_text_add_string(text, name);
    api_text_add(text, ":{\"count\":");
    api_text_add_unsigned(text, tally ? atomic_load_explicit(&tally->count, memory_order_relaxed) : 0);
    api_text_add(text, ",\"ns\":");
    api_text_add_unsigned(text, tally ? atomic_load_explicit(&tally->ns, memory_order_relaxed) : 0);
    api_text_add(text, "}");
}

static void add_statistics(api_short_text *text, api_service *service, const api_operation *operation) {
    const api_statistics *s = &service->statistics[api_operation_index(operation)];
    api_text_add(text, "{\"name\":");
    api_text_add_string(text, operation->schema.name);
    api_text_add(text, ",\"version\":\"" API_OIP_VERSION "\",\"last_inference\":");
    api_text_add_unsigned(text, atomic_load_explicit(&s->last_inference, memory_order_relaxed));
    api_text_add(text, ",\"inference_count\":");
    api_text_add_unsigned(text, atomic_load_explicit(&s->success.count, memory_order_relaxed));
    api_text_add(text, ",\"execution_count\":");
    api_text_add_unsigned(text, atomic_load_explicit(&s->success.count, memory_order_relaxed));
    api_text_add(text, ",\"inference_stats\":{");
    add_tally(text, "success", &s->success, true);
    add_tally(text, "fail", &s->fail, false);
    add_tally(text, "queue", &s->queue, false);
    add_tally(text, "compute_input", &s->compute_input, false);
    add_tally(text, "compute_infer", &s->compute_infer, false);
    add_tally(text, "compute_output", &s->compute_output, false);
    add_tally(text, "cache_hit", NULL, false); /* nothing is cached */
    add_tally(text, "cache_miss", NULL, false);
    api_text_add(text, "},\"batch_stats\":[],\"memory_usage\":[]}");
}

static void answer_statistics(api_request *request) {
    const bool all = request->route->info == API_OIP_ALL_STATS;
    api_short_text text;
    if (!open_text(request, &text)) return;
    api_text_add(&text, "{\"model_stats\":[");
    add_statistics(&text, request->service, all ? &api_attention : request->route->operation);
    if (all) {
        api_text_add(&text, ",");
        add_statistics(&text, request->service, &api_mha);
    }
    api_text_add(&text, "]}\n");
    say(request, &text);
}

/* ---- the choice ------------------------------------------------------------------------------------------------- */

void api_oip_answer(api_request *request) {
    switch (request->route->info) {
    case API_OIP_SERVER: answer_server(request); break;
    case API_OIP_LIVE: say_constant(request, "{\"live\":true}\n"); break;
    case API_OIP_READY: answer_readiness(request, "{\"ready\":true}\n"); break;
    case API_OIP_MODEL: answer_model(request); break;
    case API_OIP_MODEL_READY:
        answer_readiness(request, request->route->operation == &api_attention
                                      ? "{\"name\":\"attention\",\"ready\":true}\n"
                                      : "{\"name\":\"mha\",\"ready\":true}\n");
        break;
    case API_OIP_CONFIG: answer_config(request); break;
    case API_OIP_STATS:
    case API_OIP_ALL_STATS: answer_statistics(request); break;
    case API_OIP_INDEX: answer_index(request); break;
    case API_OIP_REPOSITORY:
        say_fault(request, "the models attention and mha are part of the service: none is loaded or unloaded");
        break;
    case API_OIP_MEMORY_STATUS: say_constant(request, "[]\n"); break;
    case API_OIP_MEMORY_UNREGISTER: say_constant(request, "{}\n"); break;
    case API_OIP_MEMORY_REGISTER:
        say_fault(request, "shared memory is not used: send the numbers as data, or after the JSON");
        break;
    case API_OIP_LOGGING:
        say_fault(request, "what is logged is set where the service is started (--log-level, --log-format), not here");
        break;
    case API_OIP_TRACING:
        say_fault(request, "requests are not traced; Server-Timing of each reply says what took how long");
        break;
    default: break;
    }
}
