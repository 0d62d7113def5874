/* reply_safetensors.c: a reply in the format of safetensors (body_safetensors.c says what that is). */
#include <stdio.h>
#include <string.h>

#include "../endpoints/reply_writer.h"

enum {
    PREFIX = 8,
    ENTRY_TEXT = 192, /* of an output: ,"present_k":{"dtype":"BF16","shape":[4 axes],"data_offsets":[begin,end]} */
};

static size_t bytes_of(const api_job *job, const api_output *o) {
    return api_times_sizes(o->count, api_dtype_size(job->options.reply_dtype));
}

static size_t bound(const api_job *job) {
    size_t all = PREFIX + 2 + PREFIX + job->output_count * ENTRY_TEXT;
    for (size_t i = 0; i < job->output_count; i++) all = api_add_sizes(all, bytes_of(job, &job->outputs[i]));
    return all;
}

/* The header is filled up with blanks, so that the data begin at a multiple of eight as readers like it. */
static char *write_header(const api_job *job, char *text) {
    char *p = text + PREFIX;
    size_t begin = 0;
    *p++ = '{';
    for (size_t i = 0; i < job->output_count; i++) {
        const api_output *o = &job->outputs[i];
        const size_t end = begin + bytes_of(job, o);
        char shape[API_SHAPE_TEXT];
        p += sprintf(p, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", i ? "," : "", o->name,
                     api_dtype_name(job->options.reply_dtype), api_shape_text(shape, o->shape.rank, o->shape.axes),
                     begin, end);
        begin = end;
    }
    *p++ = '}';
    while ((p - text) % PREFIX) *p++ = ' ';
    const uint64_t length = (uint64_t)(p - text - PREFIX);
    for (size_t i = 0; i < PREFIX; i++) text[i] = (char)(length >> 8 * i);
    return p;
}

static char *write_all(const api_job *job, attn_pool *pool, char *text) {
    (void)pool;
    char *p = write_header(job, text);
    for (size_t i = 0; i < job->output_count; i++) {
        const size_t bytes = bytes_of(job, &job->outputs[i]);
        memcpy(p, job->outputs[i].data, bytes);
        p += bytes;
    }
    return p;
}

const api_reply_format api_safetensors_reply = {"application/vnd.safetensors", bound, write_all};
