// Numbers in a file or a memory image, little-endian, at any alignment. The caller has checked that they lie inside.
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint16_t get_u16(const void *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t get_u32(const void *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t get_u64(const void *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

/** Bits @high to @low. */
static inline uint32_t get_bits(uint32_t word, unsigned high, unsigned low)
{
	return word >> low & (high - low == 31 ? UINT32_MAX : (1u << (high - low + 1)) - 1);
}
