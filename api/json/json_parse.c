/* json_parse.c: see json_parse.h. While a thread parses, every piece that jansson takes is noted; where one can't be
 * had, the parse is left by longjmp and the pieces are given back. Pieces are malloc's, so that a tree is freed as
 * ever. */
#include "json_parse.h"

#include <setjmp.h>
#include <stdlib.h>

typedef struct parse {
    api_memory *memory;
    void **pieces;
    size_t count, room;
    jmp_buf failed;
} parse;

static _Thread_local parse *current; /* NULL: jansson is used outside api_json_parse */

static bool note_fits(parse *self) {
    if (self->count < self->room) return true;
    const size_t room = self->room ? 2 * self->room : 64;
    void **grown = api_resize(self->memory, self->pieces, room * sizeof *grown);
    if (!grown) return false;
    self->pieces = grown;
    self->room = room;
    return true;
}

static void *take(size_t size) {
    if (!current) return malloc(size);
    void *piece = note_fits(current) ? malloc(size) : NULL;
    if (!piece) longjmp(current->failed, 1);
    return current->pieces[current->count++] = piece;
}

/* Mostly one of the last pieces is given back, so the search is short. */
static void give(void *piece) {
    for (size_t i = current && piece ? current->count : 0; i-- > 0;)
        if (current->pieces[i] == piece) {
            current->pieces[i] = current->pieces[--current->count];
            break;
        }
    free(piece);
}

__attribute__((constructor)) static void set_functions(void) { json_set_alloc_funcs(take, give); }

/* Apart from api_json_parse, so that what changes after setjmp is no variable of the function that calls it. */
static json_t *attempt(parse *self, const char *text, size_t length, json_error_t *fault) {
    if (!setjmp(self->failed)) return json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, fault);
    for (size_t i = 0; i < self->count; i++) free(self->pieces[i]);
    fault->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
    return NULL;
}

json_t *api_json_parse(api_memory *memory, const char *text, size_t length, json_error_t *fault) {
    parse self = {.memory = memory};
    current = &self;
    json_t *tree = attempt(&self, text, length, fault);
    current = NULL;
    api_release(memory, self.pieces);
    return tree;
}
