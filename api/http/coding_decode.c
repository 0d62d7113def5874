/* Bodies that came coded: decoded piece by piece as they arrive. */
#include <limits.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "coding.h"

const char *const api_coding_names[API_CODING_COUNT] = {"identity", "gzip", "deflate", "zstd"};
const char api_codings_read[] = "gzip, deflate, zstd, identity";

enum {
    PIECE = 64 << 10,     /* decoded bytes handed on at a time: they are still in the cache then */
    ZSTD_WINDOW_LOG = 23, /* 8 MiB, which RFC 9659 makes the most that a sender may count on */
    ZLIB_FORM = 15,       /* the largest window, 32 KiB */
    GZIP_FORM = 15 + 16,
};

/* zlib's memory is the request's: it ends with the request, so giving back is nothing. It asks for two pieces at most.
 */
static voidpf take(voidpf memory, uInt count, uInt size) { return api_small(memory, (size_t)count * size); }
static void give_back(voidpf memory, voidpf piece) { (void)memory, (void)piece; }

static bool open_zlib(api_decoder *decoder) {
    z_stream *stream = api_small(decoder->memory, sizeof *stream);
    if (!stream) return false;
    *stream = (z_stream){.zalloc = take, .zfree = give_back, .opaque = decoder->memory};
    decoder->stream = stream;
    return inflateInit2(stream, decoder->coding == API_GZIP ? GZIP_FORM : ZLIB_FORM) == Z_OK;
}

/* What libzstd took by itself since the last call; it is bounded by the window. false: over the budget. */
static bool charge_zstd(api_decoder *decoder) {
    const size_t taken = ZSTD_sizeof_DCtx(decoder->stream);
    if (taken > decoder->charged) {
        if (!api_charge(decoder->memory, taken - decoder->charged)) return false;
        decoder->charged = taken;
    }
    return true;
}

static bool open_zstd(api_decoder *decoder) {
    decoder->stream = ZSTD_createDCtx();
    if (!decoder->stream) return false;
    if (!ZSTD_isError(ZSTD_DCtx_setParameter(decoder->stream, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG)) &&
        charge_zstd(decoder))
        return true;
    api_decoder_free(decoder);
    return false;
}

api_decoder *api_decoder_new(api_memory *memory, api_coding coding, size_t limit) {
    memory->over_budget = false;
    api_decoder *decoder = api_small(memory, sizeof *decoder);
    if (!decoder) return NULL;
    *decoder = (api_decoder){.coding = coding, .memory = memory, .limit = limit};
    decoder->piece = api_large(memory, PIECE);
    if (!decoder->piece) return NULL;
    return (coding == API_ZSTD ? open_zstd(decoder) : open_zlib(decoder)) ? decoder : NULL;
}

void api_decoder_free(api_decoder *decoder) {
    if (!decoder) return;
    if (decoder->coding == API_ZSTD && decoder->stream) {
        ZSTD_freeDCtx(decoder->stream);
        api_discharge(decoder->memory, decoder->charged);
    }
    decoder->stream = NULL;
    decoder->charged = 0;
    api_release(decoder->memory, decoder->piece);
    decoder->piece = NULL;
}

/* Hands a decoded piece on. One byte past the limit is room that is decoded into, never handed on. */
static bool hand_on(api_decoder *decoder, size_t length) {
    if (length > decoder->limit - decoder->length) return false;
    decoder->length += length;
    if (length) decoder->sink(decoder->context, decoder->piece, length);
    return true;
}

static api_decoded corrupt(api_decoder *decoder, const char *fault, const char *message) {
    decoder->fault = fault;
    decoder->message = message;
    return API_DECODED_CORRUPT;
}

static api_decoded zlib_fault(api_decoder *decoder, int result) {
    const z_stream *stream = decoder->stream;
    if (result == Z_MEM_ERROR) return API_DECODED_NO_MEMORY;
    if (result == Z_NEED_DICT) return corrupt(decoder, "needs a dictionary", NULL);
    return corrupt(decoder, "is corrupt", stream->msg);
}

/* A gzip body may be several members one after the other (RFC 1952, section 2.2); a zlib stream is alone. */
static api_decoded begin_member(api_decoder *decoder) {
    if (decoder->ended && decoder->coding == API_DEFLATE) return corrupt(decoder, "is followed by other bytes", NULL);
    if (decoder->ended && inflateReset(decoder->stream) != Z_OK) return corrupt(decoder, "is corrupt", NULL);
    decoder->ended = false;
    return API_DECODED;
}

static api_decoded push_zlib(api_decoder *decoder, const void *bytes, uInt length) {
    z_stream *stream = decoder->stream;
    stream->next_in = (Bytef *)(uintptr_t)bytes; /* zlib only reads */
    stream->avail_in = length;
    do {
        if (decoder->ended && stream->avail_in == 0) break;
        const api_decoded begun = begin_member(decoder);
        if (begun != API_DECODED) return begun;
        stream->next_out = (Bytef *)decoder->piece;
        stream->avail_out = PIECE;
        const int result = inflate(stream, Z_NO_FLUSH);
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) return zlib_fault(decoder, result);
        decoder->ended = result == Z_STREAM_END;
        if (!hand_on(decoder, PIECE - stream->avail_out)) return API_DECODED_TOO_LONG;
    } while (stream->avail_in || stream->avail_out == 0);
    return API_DECODED;
}

static api_decoded zstd_fault(api_decoder *decoder, size_t result) {
    switch (ZSTD_getErrorCode(result)) {
    case ZSTD_error_memory_allocation: return API_DECODED_NO_MEMORY;
    case ZSTD_error_frameParameter_windowTooLarge: return corrupt(decoder, "has a window over 8 MiB", NULL);
    case ZSTD_error_dictionary_wrong: return corrupt(decoder, "needs a dictionary", NULL);
    default: return corrupt(decoder, "is corrupt", ZSTD_getErrorName(result));
    }
}

/* Frames may follow each other (RFC 8878, section 3); libzstd begins the next by itself. */
static api_decoded push_zstd(api_decoder *decoder, const void *bytes, size_t length) {
    ZSTD_inBuffer in = {bytes, length, 0};
    ZSTD_outBuffer out = {decoder->piece, PIECE, PIECE};
    while (in.pos < in.size || (out.pos == out.size && !decoder->ended)) {
        out.pos = 0;
        const size_t result = ZSTD_decompressStream(decoder->stream, &out, &in);
        if (ZSTD_isError(result)) return zstd_fault(decoder, result);
        if (!charge_zstd(decoder)) return API_DECODED_NO_MEMORY;
        decoder->ended = result == 0;
        if (!hand_on(decoder, out.pos)) return API_DECODED_TOO_LONG;
    }
    return API_DECODED;
}

api_decoded api_decoder_push(api_decoder *decoder, const void *bytes, size_t length) {
    const char *next = bytes;
    while (length > 0) {
        const size_t step = length < INT_MAX ? length : INT_MAX; /* zlib counts in 32 bits */
        decoder->started = true;
        decoder->memory->over_budget = false;
        const api_decoded decoded =
            decoder->coding == API_ZSTD ? push_zstd(decoder, next, step) : push_zlib(decoder, next, (uInt)step);
        if (decoded != API_DECODED) return decoded;
        next += step;
        length -= step;
    }
    return API_DECODED;
}
