// Fuzzes what the parent makes of an index that its child has left: any bytes at all. The first eight are addresses to look up.
#include <stdlib.h>

#include "code/lines/build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned sum(struct str s)
{
	unsigned n = 0;
	for (size_t i = 0; i < s.n; i++)
		n += (unsigned char)s.p[i];
	return n;
}

static unsigned look_up(const struct code_lines *l, uint64_t address)
{
	struct code_frame frames[CODE_FRAMES];
	uint64_t begin = 0;
	size_t n = code_lines_at(l, address, frames);
	unsigned total = 0;
	if (n > CODE_FRAMES)
		abort();
	for (size_t i = 0; i < n; i++)
		total += sum(frames[i].function) + sum(frames[i].file);
	if (code_lines_row(l, address, &begin))
		total += (unsigned)begin;
	return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t address;
	struct code_lines *l = NULL;
	if (size < sizeof(address))
		return 0;
	memcpy(&address, data, sizeof(address));
	size -= sizeof(address);
	char *room = malloc(size + !size);
	memcpy(room, data + sizeof(address), size);
	if (lines_of_index(room, size, &l)) {
		static volatile unsigned seen;
		struct index_head head;
		memcpy(&head, room, sizeof(head));
		seen = sum(code_lines_note(l)) + look_up(l, address);
		for (unsigned at = 0; at < 4096; at += 4)
			seen += look_up(l, head.begin + at);
		code_lines_free(l);
	}
	free(room);
	return 0;
}
