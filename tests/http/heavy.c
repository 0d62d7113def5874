/* heavy.c: a request that takes a while. */
#include "case.h"

text_buffer heavy_post(size_t n) {
    text_buffer body = {0}, whole = {0};
    for (int i = 0; i < 3; i++) {
        text_print(&body, "%s\"%c\":{\"shape\":[%zu,1],\"data\":[1", i ? "," : "{", "qkv"[i], n);
        for (size_t j = 1; j < n; j++) text_append(&body, ",1", 2);
        text_print(&body, "]}");
    }
    text_print(&body, "}");
    text_print(&whole, "POST /attention HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", body.length);
    text_append(&whole, body.bytes, body.length);
    text_free(&body);
    return whole;
}
