// Statistics of a buffer: recorder/statistics.c.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct statistics {
	uint64_t elements, zeros, nans, infinities;
	double least, most, sum; // of the elements that are finite
};

/** Bytes of an element; 0: the type is not known. */
size_t dtype_size(uint32_t dtype);
/** Adds @n elements at @data, which has any alignment. Begin with statistics_begin(). */
void statistics_begin(struct statistics *s);
void statistics_add(struct statistics *s, uint32_t dtype, const void *data, size_t n);
double statistics_mean(const struct statistics *s);
