// Compressed bytes of offload bundles.
#pragma once

#include "source/file.h"

enum unpack_method { UNPACK_ZLIB, UNPACK_ZSTD };

struct unpacked {
	uint8_t *bytes; // free() it
	uint64_t size;  // how many there are
	uint64_t used;  // how many compressed bytes they took
};

/** A stream in a file. */
struct packed_stream {
	enum unpack_method method;
	uint64_t offset, size; // it has at most so many bytes
	uint64_t most;         // more bytes than these in it are an error
	size_t front;          // so many zero bytes come before them
};

/** What the stream holds; also the part before its damage, if any. */
struct uh_error *unpack(const struct file *f, const struct packed_stream *p, struct unpacked *ret);
/** The first eight bytes of the MD5 sum, as offload bundles have them. */
uint64_t unpack_hash(const uint8_t *p, size_t n);
