// SHA-256, for the content of files: two that have the same are one.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct sha256 {
	uint32_t state[8];
	uint64_t length;
	uint8_t block[64];
	size_t n; // of the block
};

void sha256_begin(struct sha256 *s);
void sha256_add(struct sha256 *s, struct str bytes);
/** 64 hexadecimal digits, and a NUL. */
void sha256_end(struct sha256 *s, char ret[static 65]);
