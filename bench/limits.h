/* limits.h: what the machine itself can do, on one core. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include <stddef.h>
#include <time.h>

/* CLOCK_PROCESS_CPUTIME_ID compares works of one thread on a busy machine. */
#ifndef BENCH_CLOCK
#define BENCH_CLOCK CLOCK_MONOTONIC
#endif

#define TILE_FLOPS (2.0 * 64 * 128 * 64 * 20)
#define READ_BYTES ((size_t)1 << 28)
#define READ_PARTS 64

/* Seconds per float32 operation of the fastest loop of fused multiply-adds on registers (two operations each). */
double limit_fma(void);
/* Fills the memory that limit_read reads. */
void limit_read_prepare(void);
/* Reads part `part` < READ_PARTS of READ_BYTES once. */
void limit_read(size_t part);
/* TILE_FLOPS operations as products of 64 x 64 by 64 x 128, q k^T as OpenBLAS does it, ... */
void limit_blas(void);
/* ... and with the keys packed, by libxsmm; does nothing if built without it. */
void limit_xsmm(void);

#endif
