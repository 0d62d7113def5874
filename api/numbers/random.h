/* random.h: numbers that a request names by a seed, the same on every machine (docs/numerics.md; inside api/ only).
 *
 * Only + - * / and sqrt of doubles are used, each rounded by itself, so that any language can compute them again. */
#ifndef API_RANDOM_H
#define API_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

typedef enum api_distribution { API_NORMAL, API_UNIFORM } api_distribution;

/* Number `index` of the stream of a seed: 64 random bits, by splitmix64 (Steele, Lea and Flood, "Fast splittable
 * pseudorandom number generators", 2014). */
uint64_t api_random_bits(uint64_t seed, uint64_t index);
/* Uniform in [0, 1), a multiple of 2^-53. */
double api_random_uniform(uint64_t seed, uint64_t index);
/* Normal with mean 0 and variance 1: the inverse distribution function of a uniform number. */
double api_random_normal(uint64_t seed, uint64_t index);
/* Numbers first to end - 1 of a stream into x[0 ...], as API_F64 or rounded to API_F32. */
void api_random_fill(api_distribution distribution, uint64_t seed, size_t first, size_t end, api_dtype dtype, void *x);

#endif
