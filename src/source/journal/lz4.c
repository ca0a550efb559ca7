#include "source/journal/lz4.h"

#include "base/bytes.h"

/** A length that goes on in further bytes where its four bits are full. */
static size_t length_of(struct str *block, unsigned bits)
{
	size_t n = bits;
	unsigned char more = bits == 15 ? 255 : 0;
	while (more == 255 && block->n) {
		more = (unsigned char)block->p[0];
		*block = str_from(*block, 1);
		n += more;
	}
	return n;
}

size_t lz4_unpack(struct str block, char *to, size_t room)
{
	enum { MATCH_LEAST = 4 };
	size_t have = 0;
	while (block.n && have < room) {
		const unsigned token = (unsigned char)block.p[0];
		block = str_from(block, 1);
		// Bytes as they are, then a piece of what came before. The last has no such piece.
		size_t n = length_of(&block, token >> 4);
		const struct str plain = str_cut(str_cut(block, n), room - have);
		memcpy(to + have, plain.p, plain.n);
		have += plain.n;
		block = str_from(block, n);
		if (block.n < 2)
			break;
		const size_t back = get_u16(block.p);
		block = str_from(block, 2);
		if (!back || back > have)
			break;
		n = length_of(&block, token & 15) + MATCH_LEAST;
		for (; n && have < room; n--, have++) // it may reach into what it writes
			to[have] = to[have - back];
	}
	return have;
}
