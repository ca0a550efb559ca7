// Floats of 16 bits, compared as whole numbers and widened for their sum only: twice as many at a time, and each is read once.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HALVES_AT_ONCE = 32 };

struct halves {
	int16_t least, most; // halves_order() of them
	uint32_t zeros;
	float sum; // means something where all are finite
};

/** The bits of a float, so that they compare as whole numbers do: of negative ones the magnitude is turned round. It is its own
 * opposite. */
static inline int16_t halves_order(int16_t bits) { return (int16_t)(bits ^ ((bits >> 15) & 0x7fff)); }

/** Of @n floats, a multiple of HALVES_AT_ONCE and less than 65536; @half: float16, else bfloat16. false: this processor has no way. */
bool halves_add(struct halves *h, bool half, const uint16_t *data, size_t n);
