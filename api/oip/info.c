#include "info.h"

#include <string.h>

#include "model.h"

enum { MOST = 16384 }; /* bytes of an answer at most: tests/unit/test_oip.c checks that the longest fits */
static const char platform[] = "attentiond";

bool api_oip_open_text(api_request *request, api_short_text *text) {
    char *room = api_small(&request->memory, MOST);
    if (room)
        api_text_init(text, room, MOST);
    else
        api_refuse_for_memory(request);
    return room != NULL;
}

static void say(api_request *request, const api_short_text *text) { api_answer(request, text->start, text->length); }

static void say_constant(api_request *request, const char *text) { api_answer(request, text, strlen(text)); }

static void refuse(api_request *request, const char *detail) {
    api_error_set(&request->error, API_BAD_REQUEST, API_PLACE_LAST, NULL, "%s", detail);
}

/* ---- the server ------------------------------------------------------------------------------------------------- */

void api_oip_answer_server(api_request *request) {
    api_short_text text;
    if (!api_oip_open_text(request, &text)) return;
    api_text_add(&text, "{\"name\":\"attentiond\",\"version\":");
    api_text_add_string(&text, api_version);
    api_text_add(&text,
                 ",\"extensions\":[\"binary_tensor_data\",\"model_configuration\",\"parameters\",\"statistics\"]}\n");
    say(request, &text);
}

void api_oip_answer_live(api_request *request) { say_constant(request, "{\"live\":true}\n"); }
void api_oip_answer_ready(api_request *request) { api_answer_if_ready(request, "{\"ready\":true}\n"); }

/* ---- models ----------------------------------------------------------------------------------------------------- */

void api_oip_begin_model(api_request *request, const api_head *head) {
    const char *name = head->path + strlen("/v2/models/"); /* the path matched */
    request->operation = api_oip_model(name, strcspn(name, "/"));
}

static void begin_model(api_short_text *text, const api_operation *model) {
    api_text_add(text, "{\"name\":");
    api_text_add_string(text, model->schema.name);
}

void api_oip_answer_model_ready(api_request *request) {
    api_short_text text;
    if (!api_oip_open_text(request, &text)) return;
    begin_model(&text, request->operation);
    api_text_add(&text, ",\"ready\":true}\n");
    text.start[text.length] = '\0';
    api_answer_if_ready(request, text.start);
}

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
        add_tensor(text, row->name, api_dtypes[dtype].datatype, row->max_rank, config, first);
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

/* What a client of half precision would otherwise wonder about. */
static const char reply_types[] = "outputs are FP32, or FP64 if dtype is float64, whatever the inputs are; F64, F32, "
                                  "F16 or BF16 asks for another type";

void api_oip_answer_model(api_request *request) {
    const api_schema *schema = &request->operation->schema;
    api_short_text text;
    if (!api_oip_open_text(request, &text)) return;
    begin_model(&text, request->operation);
    api_text_add(&text, ",\"versions\":[\"" API_OIP_VERSION "\"],\"platform\":");
    api_text_add_string(&text, platform);
    api_text_add(&text, ",\"inputs\":[");
    add_inputs(&text, schema, false);
    api_text_add(&text, "],\"outputs\":[");
    add_outputs(&text, schema, false);
    api_text_add(&text, "],\"parameters\":{\"reply_dtype\":\"");
    api_text_add(&text, reply_types);
    api_text_add(&text, "\"}}\n");
    say(request, &text);
}

/* max_batch_size 0: the first axis is the model's own, clients take none away. */
void api_oip_answer_config(api_request *request) {
    const api_schema *schema = &request->operation->schema;
    api_short_text text;
    if (!api_oip_open_text(request, &text)) return;
    begin_model(&text, request->operation);
    api_text_add(&text, ",\"platform\":");
    api_text_add_string(&text, platform);
    api_text_add(&text, ",\"backend\":");
    api_text_add_string(&text, platform);
    api_text_add(&text, ",\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":0,\"input\":[");
    add_inputs(&text, schema, true);
    api_text_add(&text, "],\"output\":[");
    add_outputs(&text, schema, true);
    api_text_add(&text, "],\"parameters\":{\"reply_dtype\":{\"string_value\":\"");
    api_text_add(&text, reply_types);
    api_text_add(&text, "\"}}}\n");
    say(request, &text);
}

void api_oip_answer_index(api_request *request) {
    api_short_text text;
    if (!api_oip_open_text(request, &text)) return;
    for (size_t i = 0; api_operations[i]; i++) {
        api_text_add(&text, i ? "," : "[");
        begin_model(&text, api_operations[i]);
        api_text_add(&text, ",\"version\":\"" API_OIP_VERSION "\",\"state\":\"READY\",\"reason\":\"\"}");
    }
    api_text_add(&text, "]\n");
    say(request, &text);
}

/* ---- what this server does not do ------------------------------------------------------------------------------- */

/* Clients ask for the regions of shared memory, and to forget them, before they register one. */
void api_oip_answer_memory_status(api_request *request) { say_constant(request, "[]\n"); }
void api_oip_answer_memory_unregister(api_request *request) { say_constant(request, "{}\n"); }

void api_oip_refuse_memory(api_request *request) {
    refuse(request, "shared memory is not supported: send the numbers as data, or after the JSON");
}

void api_oip_refuse_repository(api_request *request) {
    refuse(request, "models are part of the service: they are neither loaded nor unloaded");
}

void api_oip_refuse_logging(api_request *request) {
    refuse(request, "log settings are fixed when the service starts (--log-level, --log-format)");
}

void api_oip_refuse_tracing(api_request *request) {
    refuse(request, "tracing is not supported; Server-Timing in each reply gives the time of every stage");
}
