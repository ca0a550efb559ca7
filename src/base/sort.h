// Sorting many numbers.
#pragma once

#include <stddef.h>
#include <stdint.h>

/** By the upper 32 bits; numbers that are equal there keep their order. @room has as many as @keys. */
void sort_upper(uint64_t *keys, uint64_t *room, size_t n);
