#include "statistics.h"

#include <time.h>

#include "../base/text.h"
#include "info.h"
#include "model.h"

/* ---- counting --------------------------------------------------------------------------------------------------- */

static void add(api_tally *tally, double seconds) {
    atomic_fetch_add_explicit(&tally->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&tally->ns, (uint64_t)(seconds * 1e9), memory_order_relaxed);
}

void api_oip_count(api_request *request) {
    if (!request->trace.computes) return;
    api_statistics *s = &request->service->statistics[api_operation_index(request->operation)];
    const api_times *t = &request->trace.times;
    const double all = t->decode + t->queue + t->compute + t->encode;
    if (request->error.code) {
        add(&s->fail, all);
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    atomic_store_explicit(&s->last_inference, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
                          memory_order_relaxed);
    add(&s->queue, t->queue);
    add(&s->compute_input, t->decode);
    add(&s->compute_infer, t->compute);
    add(&s->compute_output, t->encode);
    add(&s->success, all);
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static void add_tally(api_short_text *text, const char *name, const api_tally *tally, bool first) {
    if (!first) api_text_add(text, ",");
    api_text_add_string(text, name);
    api_text_add(text, ":{\"count\":");
    api_text_add_unsigned(text, tally ? atomic_load_explicit(&tally->count, memory_order_relaxed) : 0);
    api_text_add(text, ",\"ns\":");
    api_text_add_unsigned(text, tally ? atomic_load_explicit(&tally->ns, memory_order_relaxed) : 0);
    api_text_add(text, "}");
}

static void add_statistics(api_short_text *text, const char *name, const api_statistics *s) {
    api_text_add(text, "{\"name\":");
    api_text_add_string(text, name);
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

void api_oip_answer_statistics(api_request *request) {
    api_short_text text;
    bool first = true;
    if (!api_oip_open_text(request, &text)) return;
    api_text_add(&text, "{\"model_stats\":[");
    for (size_t i = 0; api_operations[i]; i++) {
        if (request->operation && request->operation != api_operations[i]) continue;
        if (!first) api_text_add(&text, ",");
        first = false;
        add_statistics(&text, api_operations[i]->schema.name, &request->service->statistics[i]);
    }
    api_text_add(&text, "]}\n");
    api_answer(request, text.start, text.length);
}
