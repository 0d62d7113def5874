/* frequencies.h: how fast each pair of columns turns with the position (inside core/ only). */
#ifndef ATTN_FREQUENCIES_H
#define ATTN_FREQUENCIES_H

#include "../attention.h"
#include "quad.h"

/* Writes for each pair t < dim / 2 the angle that it turns by from one position to the next: theta^(-2t / dim) as the
 * scaling changes it. `length` is the number of positions in use, which `dynamic` depends on. */
void attn_rope_frequencies(const attn_rope *rope, size_t length, attn_quad *frequencies);

#endif
