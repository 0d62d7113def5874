/* GET / and GET /page/{file}: the page, whole and from the binary alone. */
#include "page.h"

#include <string.h>

/* Nothing but the page's own files runs or is loaded, nothing is sent elsewhere, and no other site frames it. A worker
 * and the pictures that it offers for download are its own. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
                             "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
                             "frame-ancestors 'none'";

static const char *type_of(const char *name) {
    static const struct {
        const char *ending, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
    };
    const char *ending = strrchr(name, '.');
    for (size_t i = 0; ending && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].ending, ending) == 0) return types[i].type;
    return "application/octet-stream";
}

static const api_page_file *find(const char *name) {
    const api_page_file *file = api_page_files;
    while (file->name && strcmp(file->name, name) != 0) file++;
    return file->name ? file : NULL;
}

/* true if If-None-Match names the tag, by weak comparison (RFC 9110, section 13.1.2) */
static bool names_tag(const char *condition, const char *tag) {
    return condition && (strcmp(condition, "*") == 0 || strstr(condition, tag + strlen("W/")) != NULL);
}

bool api_has_page(const api_service *service) { return !service->no_page; }

void api_page_begin(api_request *request, const api_head *head) {
    const char *name = strcmp(head->path, "/") == 0 ? "index.html" : head->path + strlen("/page/");
    const api_page_file *file = find(name);
    if (file)
        request->found = file;
    else
        api_refuse(request, API_NOT_FOUND, "the page has no file %.200s", name);
    request->unchanged = file && names_tag(api_header_of(head, "if-none-match"), file->tag);
}

void api_page_answer(api_request *request) {
    const api_page_file *file = request->found;
    api_response *response = &request->response;
    *response = (api_response){.status = 304};
    if (!request->unchanged)
        *response = (api_response){.status = 200,
                                   .content_type = type_of(file->name),
                                   .body = (const char *)file->bytes,
                                   .length = *file->length};
    api_response_header(response, "ETag", file->tag);
    api_response_header(response, "Cache-Control", "no-cache"); /* kept, and asked about before each use */
    api_response_header(response, "Content-Security-Policy", policy);
    api_response_header(response, "X-Content-Type-Options", "nosniff");
    if (request->unchanged && request->varies) api_response_header(response, "Vary", "Accept-Encoding");
}
