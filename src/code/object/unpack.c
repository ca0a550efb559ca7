// Streams that are compressed with zlib or zstd, up to a size that the caller sets: a few bytes can claim to unpack to terabytes.
#include "code/object/unpack.h"

#include <inttypes.h>
#include <zlib.h>
#include <zstd.h>

#include "base/cleanup.h"

enum { CHUNK = 64 << 10 };

/** Either kind of stream: what goes in, what comes out. */
struct unpack_stream {
	z_stream z;
	ZSTD_DStream *zstd;
	uint8_t *out;
	uint64_t room; // of out, that is left
};

enum step { STEP_MORE, STEP_END, STEP_FULL, STEP_BAD };

static enum step step_zlib(struct unpack_stream *s, const uint8_t *in, size_t n, size_t *ret_used, const char **ret_why)
{
	s->z.next_in = (uint8_t *)in;
	s->z.avail_in = (uInt)n;
	for (;;) {
		size_t room = s->room < CHUNK ? s->room : CHUNK;
		uint8_t over;
		s->z.next_out = room ? s->out : &over;
		s->z.avail_out = room ? (uInt)room : 1;
		int rc = inflate(&s->z, Z_NO_FLUSH);
		size_t made = (room ? room : 1) - s->z.avail_out;
		*ret_used = n - s->z.avail_in;
		if (made && !room)
			return STEP_FULL;
		s->out += made;
		s->room -= made;
		if (rc == Z_STREAM_END)
			return STEP_END;
		if (rc != Z_OK && rc != Z_BUF_ERROR) {
			*ret_why = s->z.msg ? s->z.msg : zError(rc);
			return STEP_BAD;
		}
		if (s->z.avail_out || rc == Z_BUF_ERROR)
			return STEP_MORE;
	}
}

static enum step step_zstd(struct unpack_stream *s, const uint8_t *in, size_t n, size_t *ret_used, const char **ret_why)
{
	ZSTD_inBuffer from = { in, n, 0 };
	for (;;) {
		uint8_t over;
		ZSTD_outBuffer to = { s->room ? s->out : &over, s->room ? s->room : 1, 0 };
		size_t rc = ZSTD_decompressStream(s->zstd, &to, &from);
		*ret_used = from.pos;
		if (to.pos && !s->room)
			return STEP_FULL;
		s->out += to.pos;
		s->room -= s->room ? to.pos : 0;
		if (ZSTD_isError(rc)) {
			*ret_why = ZSTD_getErrorName(rc);
			return STEP_BAD;
		}
		if (!rc)
			return STEP_END;
		if (to.pos < to.size)
			return STEP_MORE;
	}
}

/** Unpacks until the stream, the input or what is allowed ends, whichever comes first. What came before damage is kept. */
static struct uh_error *run(struct unpack_stream *s, const struct file *f, uint64_t offset, uint64_t size, uint64_t *ret_used)
{
	_cleanup_free_ uint8_t *chunk = mem_alloc(CHUNK);
	const char *why = NULL, *name = s->zstd ? "zstd" : "zlib";
	uint64_t most = s->room;
	for (uint64_t at = 0; at < size;) {
		size_t n = size - at < CHUNK ? (size_t)(size - at) : CHUNK, used = 0;
		if (!file_read(f, offset + at, chunk, n))
			return uh_error_new("%s stream at 0x%" PRIx64 ": the bytes at 0x%" PRIx64 " cannot be read", name,
					    offset, offset + at);
		enum step step = s->zstd ? step_zstd(s, chunk, n, &used, &why) : step_zlib(s, chunk, n, &used, &why);
		*ret_used = at + used;
		switch (step) {
		case STEP_END:
			return NULL;
		case STEP_FULL:
			return uh_error_new("%s stream at 0x%" PRIx64 ": holds more than the %" PRIu64
					    " bytes that its header declares",
					    name, offset, most);
		case STEP_BAD:
			return uh_error_new("%s stream at 0x%" PRIx64 ": damaged near 0x%" PRIx64 " (%s)", name, offset,
					    offset + at + used, why);
		case STEP_MORE:
			at += n;
		}
	}
	return uh_error_new("%s stream at 0x%" PRIx64 ": cut off at 0x%" PRIx64, name, offset, offset + size);
}

struct uh_error *unpack(const struct file *f, const struct packed_stream *p, struct unpacked *ret)
{
	struct unpack_stream s = { .room = p->most };
	if (p->method == UNPACK_ZSTD ? !(s.zstd = ZSTD_createDStream()) : inflateInit(&s.z) != Z_OK)
		return uh_error_new("no memory for decompression");
	uint8_t *bytes = mem_alloc(p->front + p->most + 1);
	uint64_t used = 0;
	s.out = bytes + p->front;
	struct uh_error *err = run(&s, f, p->offset, p->size, &used);
	if (s.zstd)
		ZSTD_freeDStream(s.zstd);
	else
		inflateEnd(&s.z);
	*ret = (struct unpacked){ .bytes = bytes, .size = (uint64_t)(s.out - bytes), .used = used };
	return err;
}

// --- MD5 (RFC 1321) ---

/** floor(2^32 * |sin(i + 1)|) */
static const uint32_t md5_sines[64] = {
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af,
	0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa,
	0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8,
	0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
	0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244, 0x432aff97,
	0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
	0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static void md5_block(uint32_t h[4], const uint8_t *p)
{
	static const uint8_t turns[4][4] = { { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 } };
	uint32_t a = h[0], b = h[1], c = h[2], d = h[3];
	for (unsigned i = 0; i < 64; i++) {
		uint32_t f, word;
		unsigned k, turn = turns[i / 16][i % 4];
		if (i < 16)
			f = (b & c) | (~b & d), k = i;
		else if (i < 32)
			f = (d & b) | (~d & c), k = (5 * i + 1) % 16;
		else if (i < 48)
			f = b ^ c ^ d, k = (3 * i + 5) % 16;
		else
			f = c ^ (b | ~d), k = 7 * i % 16;
		memcpy(&word, p + 4 * k, sizeof(word));
		f += a + md5_sines[i] + word;
		a = d;
		d = c;
		c = b;
		b += f << turn | f >> (32 - turn);
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
}

uint64_t unpack_hash(const uint8_t *p, size_t n)
{
	uint32_t h[4] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
	size_t whole = n & ~(size_t)63, rest = n - whole;
	for (size_t at = 0; at < whole; at += 64)
		md5_block(h, p + at);
	uint8_t tail[128] = { 0 };
	if (rest)
		memcpy(tail, p + whole, rest);
	tail[rest] = 0x80;
	size_t end = rest < 56 ? 64 : 128;
	uint64_t bits = (uint64_t)n * 8;
	memcpy(tail + end - 8, &bits, sizeof(bits));
	for (size_t at = 0; at < end; at += 64)
		md5_block(h, tail + at);
	return h[0] | (uint64_t)h[1] << 32;
}
