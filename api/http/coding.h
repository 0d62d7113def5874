/* coding.h: content codings of bodies (inside api/ only): gzip (RFC 1952), deflate in the zlib form (RFC 1950), zstd
 * (RFC 8878).
 */
#ifndef API_CODING_H
#define API_CODING_H

#include "../base/memory.h"

typedef enum api_coding { API_IDENTITY, API_GZIP, API_DEFLATE, API_ZSTD, API_CODING_COUNT } api_coding;
extern const char *const api_coding_names[API_CODING_COUNT];
extern const char api_codings_read[]; /* as Accept-Encoding lists them */

/* What became of the bytes pushed so far; only the first of them lets more be pushed. */
typedef enum api_decoded { API_DECODED, API_DECODED_CORRUPT, API_DECODED_TOO_LONG, API_DECODED_NO_MEMORY } api_decoded;

/* Takes a piece of the decoded body, which stays the decoder's. */
typedef void api_sink(void *context, const void *bytes, size_t length);

typedef struct api_decoder {
    api_coding coding;
    api_memory *memory; /* everything is charged to it; NO_MEMORY says there why */
    api_sink *sink;
    void *context;
    size_t limit;        /* decoded bytes at most */
    size_t length;       /* decoded so far */
    bool started, ended; /* the bytes so far are not none; are one whole stream or several */
    const char *fault;   /* of a corrupt body: what is wrong with it, "is cut short", static */
    const char *message; /* ... the library's own word for it, or NULL */
    char *piece;         /* room for decoded bytes */
    void *stream;        /* of the library */
    size_t charged;      /* bytes the library took by itself */
} api_decoder;

/* Begins to undo a coding (not API_IDENTITY); sink and context are for the caller to set. NULL: no memory. */
api_decoder *api_decoder_new(api_memory *memory, api_coding coding, size_t limit);
/* Decodes the next bytes into the sink. Time and memory are in proportion to the bytes and to `limit`, whatever the
 * bytes claim. The sink is never given more than `limit` bytes altogether. */
api_decoded api_decoder_push(api_decoder *decoder, const void *bytes, size_t length);
/* To be called before its memory is given back, which takes the rest; NULL is allowed. */
void api_decoder_free(api_decoder *decoder);

/* Codes a reply, fast rather than small. Returns a piece of `memory`, *coded bytes long; NULL where there is no memory
 * for it or `cancelled` (NULL: never) was set. */
void *api_encode(api_memory *memory, api_coding coding, const void *bytes, size_t length, size_t *coded,
                 const atomic_bool *cancelled);

#endif
