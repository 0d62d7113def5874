/* GET /version: what runs here. */
#include <jansson.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "../base/text.h"
#include "info.h"

static void add_library(api_short_text *text, const char *name, const char *version, bool first) {
    if (!first) api_text_add(text, ",");
    api_text_add_string(text, name);
    api_text_add(text, ":");
    api_text_add_string(text, version);
}

void api_answer_version(api_request *request) {
    static const char blas_name[] = "OpenBLAS ";
    const char *blas = attn_blas_version();
    if (strncmp(blas, blas_name, sizeof blas_name - 1) == 0) blas += sizeof blas_name - 1;
    api_short_text text;
    api_text_init(&text, request->text, API_PROBLEM_TEXT);
    api_text_add(&text, "{\"version\":");
    api_text_add_string(&text, api_version);
    api_text_add(&text, ",\"kernel\":");
    api_text_add_string(&text, attn_kernel_name(request->service->engine.kernel));
    api_text_add(&text, ",\"libraries\":{");
    add_library(&text, "jansson", jansson_version_str(), true);
    add_library(&text, "openblas", blas, false);
    add_library(&text, "zlib", zlibVersion(), false);
    add_library(&text, "zstd", ZSTD_versionString(), false);
    const api_library *library = request->service->host.libraries;
    for (; library && library->name; library++) add_library(&text, library->name, library->version, false);
    api_text_add(&text, "}}\n");
    api_answer(request, text.start, text.length);
}
