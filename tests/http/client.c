/* client.c: HTTP by libcurl. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "harness.h"

typedef struct byte_buffer {
    char *bytes;
    size_t used;
} byte_buffer;

static size_t append(byte_buffer *buffer, const char *bytes, size_t length) {
    char *grown = realloc(buffer->bytes, buffer->used + length + 1);
    if (!grown) abort();
    buffer->bytes = grown;
    memcpy(grown + buffer->used, bytes, length);
    buffer->used += length;
    grown[buffer->used] = 0;
    return length;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *into) {
    return append(into, bytes, size * count);
}

/* A new status line begins a new block: the headers of an interim reply are dropped. */
static size_t take_header(char *bytes, size_t size, size_t count, void *into) {
    byte_buffer *head = into;
    if (size * count > 5 && !strncmp(bytes, "HTTP/", 5)) head->used = 0;
    return append(head, bytes, size * count);
}

typedef struct upload_rest {
    const char *bytes;
    size_t left;
} upload_rest;

static size_t give_body(char *bytes, size_t size, size_t count, void *from) {
    upload_rest *upload = from;
    const size_t n = upload->left < size * count ? upload->left : size * count;
    memcpy(bytes, upload->bytes, n);
    upload->bytes += n;
    upload->left -= n;
    return n;
}

/* libcurl adds headers of its own unless they are named with nothing after the colon. */
static struct curl_slist *header_list(const http_request *request) {
    static const char *const own[] = {"Accept:", "Content-Type:", "Expect:", "User-Agent:"};
    struct curl_slist *list = NULL;
    for (size_t i = 0; request->headers && request->headers[i]; i++)
        list = curl_slist_append(list, request->headers[i]);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        bool given = false;
        for (size_t j = 0; request->headers && request->headers[j]; j++)
            given |= !strncasecmp(request->headers[j], own[i], strlen(own[i]));
        if (!given) list = curl_slist_append(list, own[i]);
    }
    if (request->chunked) list = curl_slist_append(list, "Transfer-Encoding: chunked");
    return list;
}

static void set_method(CURL *curl, const http_request *request, upload_rest *upload) {
    if (request->chunked) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_body);
        curl_easy_setopt(curl, CURLOPT_READDATA, upload);
    } else if (request->body || !strcmp(request->method, "POST")) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->length);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body ? request->body : "");
    }
    if (!strcmp(request->method, "HEAD"))
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

http_reply http_send(void *handle, int port, const http_request *request) {
    http_reply reply = {0};
    byte_buffer head = {0}, body = {0};
    upload_rest upload = {request->body, request->length};
    CURL *curl = handle ? handle : curl_easy_init();
    if (!curl) abort();
    char url[1024];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", port, request->path);
    append(&head, "", 0);
    append(&body, "", 0);
    struct curl_slist *headers = header_list(request);
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)patient(120));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &head);
    set_method(curl, request, &upload);
    const CURLcode result = curl_easy_perform(curl);
    long status = 0;
    if (result == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    if (!handle) curl_easy_cleanup(curl);
    reply.status = (int)status;
    reply.head = head.bytes;
    reply.body = body.bytes;
    reply.length = body.used;
    return reply;
}

http_reply http_get(const char *path) {
    return http_send(NULL, shared.port, &(http_request){.method = "GET", .path = path});
}

http_reply http_post_to(int port, const char *path, const char *json) {
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    return http_send(NULL, port, &(http_request){"POST", path, headers, json, strlen(json), false});
}

http_reply http_post(const char *path, const char *json) { return http_post_to(shared.port, path, json); }

void http_free(http_reply *reply) {
    free(reply->head);
    free(reply->body);
    *reply = (http_reply){0};
}

bool http_header(const http_reply *reply, const char *name, char value[512]) {
    const size_t length = strlen(name);
    for (const char *line = reply->head; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncasecmp(line, name, length) || line[length] != ':') continue;
        const char *start = line + length + 1 + strspn(line + length + 1, " \t");
        snprintf(value, 512, "%.*s", (int)strcspn(start, "\r\n"), start);
        return true;
    }
    value[0] = 0;
    return false;
}

bool healthy(int port) {
    http_reply reply = http_send(NULL, port, &(http_request){.method = "GET", .path = "/healthz"});
    const bool ok = reply.status == 200;
    http_free(&reply);
    return ok;
}
