// Compressed bytes of offload bundles.
#pragma once

#include "source/file.h"

enum unpack_method { UNPACK_ZLIB, UNPACK_ZSTD };

struct unpacked {
	uint8_t *bytes; // free() it
	uint64_t size;  // how many there are
	uint64_t used;  // how many compressed bytes they took
};

/** Unpacks the stream of at most @size bytes at @offset, behind @front zero bytes. If it is damaged, *ret has what came before the
 * damage. More than @most bytes are an error. */
struct uh_error *unpack(const struct file *f, uint64_t offset, uint64_t size, enum unpack_method method, size_t front,
			uint64_t most, struct unpacked *ret);
/** The first eight bytes of the MD5 sum, as offload bundles have them. */
uint64_t unpack_hash(const uint8_t *p, size_t n);
