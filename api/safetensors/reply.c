/* A reply in the format of safetensors (body.c says what that is). */
#include <stdio.h>
#include <string.h>

#include "safetensors.h"

enum {
    PREFIX = 8,
    ENTRY_TEXT =
        180, /* of an output, its name apart: ,"":{"dtype":"BF16","shape":[4 axes],"data_offsets":[begin,end]} */
};

static size_t bytes_of(const api_output *o) { return api_times_sizes(o->count, api_dtype_size(o->dtype)); }

static size_t bound(const api_reply *reply) {
    size_t all = PREFIX + 2 + PREFIX;
    for (size_t i = 0; i < reply->output_count; i++) {
        const api_output *o = &reply->outputs[i];
        all = api_add_sizes(all, api_add_sizes(bytes_of(o), strlen(o->name) + ENTRY_TEXT));
    }
    return all;
}

/* The header is filled up with blanks, so that the data begin at a multiple of eight as readers like it. */
static char *write_header(const api_reply *reply, char *text) {
    char *p = text + PREFIX;
    size_t begin = 0;
    *p++ = '{';
    for (size_t i = 0; i < reply->output_count; i++) {
        const api_output *o = &reply->outputs[i];
        const size_t end = begin + bytes_of(o);
        char shape[API_SHAPE_TEXT];
        p += sprintf(p, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", i ? "," : "", o->name,
                     api_dtype_name(o->dtype), api_shape_text(shape, o->shape.rank, o->shape.axes), begin, end);
        begin = end;
    }
    *p++ = '}';
    while ((p - text) % PREFIX) *p++ = ' ';
    const uint64_t length = (uint64_t)(p - text - PREFIX);
    for (size_t i = 0; i < PREFIX; i++) text[i] = (char)(length >> 8 * i);
    return p;
}

static char *write_all(const api_reply *reply, attn_pool *pool, char *text) {
    (void)pool;
    char *p = write_header(reply, text);
    for (size_t i = 0; i < reply->output_count; i++) {
        const size_t bytes = bytes_of(&reply->outputs[i]);
        memcpy(p, reply->outputs[i].data, bytes);
        p += bytes;
    }
    return p;
}

const api_reply_format api_safetensors_reply = {"application/vnd.safetensors", 3, bound, write_all};
