/* fuzz_api.h: the entry that libFuzzer calls, and replay.c. */
#ifndef FUZZ_API_H
#define FUZZ_API_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
