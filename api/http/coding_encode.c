/* Replies that are sent coded. The fastest levels: a reply of numbers shrinks by little more at the slow ones. */
#include <limits.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "coding.h"

enum {
    STEP = 1 << 20, /* bytes coded between looks at the cancellation */
    ZLIB_LEVEL = 1,
    ZSTD_LEVEL = 1,
    ZLIB_FORM = 15,
    GZIP_FORM = 15 + 16,
    ZLIB_MEMORY = 8, /* zlib's default: 256 KiB */
};

/* The coded reply, growing; it is let out where it stands by the one that asked for it. */
typedef struct output {
    api_memory *memory;
    char *bytes;
    size_t length, room;
} output;

/* Room for more; false: no memory, and what there was is given back. */
static bool grow(output *out) {
    const size_t room = out->room + out->room / 2;
    char *bytes = room > out->room ? api_resize(out->memory, out->bytes, room) : NULL;
    if (!bytes) return false;
    out->bytes = bytes;
    out->room = room;
    return true;
}

static bool is_cancelled(const atomic_bool *cancelled) {
    return cancelled && atomic_load_explicit(cancelled, memory_order_relaxed);
}

static voidpf take(voidpf memory, uInt count, uInt size) { return api_large(memory, (size_t)count * size); }
static void give_back(voidpf memory, voidpf piece) { api_release(memory, piece); }

/* Codes one step wholly. */
static bool step_zlib(z_stream *stream, output *out, int flush) {
    for (;;) {
        const size_t room = out->room - out->length;
        stream->next_out = (Bytef *)out->bytes + out->length;
        stream->avail_out = room < INT_MAX ? (uInt)room : INT_MAX;
        const uInt before = stream->avail_out;
        const int result = deflate(stream, flush);
        if (result == Z_STREAM_ERROR) return false;
        out->length += before - stream->avail_out;
        if (result == Z_STREAM_END || (flush == Z_NO_FLUSH && stream->avail_out > 0)) return true;
        if (out->length == out->room && !grow(out)) return false;
    }
}

static bool encode_zlib(output *out, int form, const char *bytes, size_t length, const atomic_bool *cancelled) {
    z_stream stream = {.zalloc = take, .zfree = give_back, .opaque = out->memory};
    if (deflateInit2(&stream, ZLIB_LEVEL, Z_DEFLATED, form, ZLIB_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) return false;
    bool ok = true;
    do {
        const size_t step = length < STEP ? length : STEP;
        stream.next_in = (Bytef *)(uintptr_t)bytes; /* zlib only reads */
        stream.avail_in = (uInt)step;
        ok = !is_cancelled(cancelled) && step_zlib(&stream, out, step == length ? Z_FINISH : Z_NO_FLUSH);
        bytes += step;
        length -= step;
    } while (ok && length > 0);
    deflateEnd(&stream);
    return ok;
}

static bool step_zstd(ZSTD_CCtx *stream, output *out, const char *bytes, size_t length, ZSTD_EndDirective end) {
    ZSTD_inBuffer in = {bytes, length, 0};
    for (;;) {
        ZSTD_outBuffer room = {out->bytes, out->room, out->length};
        const size_t left = ZSTD_compressStream2(stream, &room, &in, end);
        if (ZSTD_isError(left)) return false;
        out->length = room.pos;
        if (end == ZSTD_e_end ? left == 0 : in.pos == in.size) return true;
        if (out->length == out->room && !grow(out)) return false;
    }
}

/* Says the length beforehand, so that libzstd fits its tables to it and a receiver its buffer. */
static bool encode_zstd(output *out, const char *bytes, size_t length, const atomic_bool *cancelled) {
    ZSTD_CCtx *stream = ZSTD_createCCtx();
    bool ok = stream && !ZSTD_isError(ZSTD_CCtx_setParameter(stream, ZSTD_c_compressionLevel, ZSTD_LEVEL)) &&
              !ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(stream, length));
    while (ok) {
        const size_t step = length < STEP ? length : STEP;
        ok = !is_cancelled(cancelled) &&
             step_zstd(stream, out, bytes, step, step == length ? ZSTD_e_end : ZSTD_e_continue);
        bytes += step;
        length -= step;
        if (length == 0) break;
    }
    ZSTD_freeCCtx(stream); /* a megabyte or two, for the time of this call */
    return ok;
}

void *api_encode(api_memory *memory, api_coding coding, const void *bytes, size_t length, size_t *coded,
                 const atomic_bool *cancelled) {
    output out = {.memory = memory, .room = length / 2 + 1024};
    out.bytes = api_large(memory, out.room);
    if (!out.bytes) return NULL;
    const bool ok = coding == API_ZSTD
                        ? encode_zstd(&out, bytes, length, cancelled)
                        : encode_zlib(&out, coding == API_GZIP ? GZIP_FORM : ZLIB_FORM, bytes, length, cancelled);
    if (!ok) {
        api_release(memory, out.bytes);
        return NULL;
    }
    char *fitting = api_resize(memory, out.bytes, out.length);
    *coded = out.length;
    return fitting ? fitting : out.bytes;
}
