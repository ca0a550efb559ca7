// Fuzzes walks through page tables: the input is the registers, an address, and the entries that are read, over and over.
#include <stdlib.h>

#include "base/bytes.h"
#include "gpu/memory/vm.h"
#include "know.h"

enum { HEAD = 9, PARTS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const parts[PARTS] = { "gfx900", "gfx942", "gfx1100", "gfx1201" };
	struct vm_walk w;
	uint64_t words[HEAD];
	unsigned reads = 0;
	if (size < 8 * (HEAD + 1))
		return 0;
	for (size_t i = 0; i < HEAD; i++)
		words[i] = get_u64(data + 8 * i);
	struct vm_space s = { .enabled = true,
			      .kernel = words[0] & 1,
			      .depth = words[0] >> 1 & 7,
			      .block = words[0] >> 4 & 31,
			      .root = words[1],
			      .first = words[2],
			      .last = words[3],
			      .vram = words[4],
			      .vram_size = words[5],
			      .fb_first = words[6],
			      .fb_last = words[7],
			      .agp_last = words[7] };
	if (!vm_format_of(know, str_z(parts[words[0] >> 9 & 3]), &s.format))
		abort();
	for (vm_walk_begin(&w, &s, words[8]); w.state == VM_WANTS_ENTRY; reads++)
		vm_walk_on(&w, get_u64(data + 8 * (HEAD + reads % (size / 8 - HEAD))));
	if (reads > VM_LEVELS || (w.state == VM_NONE && !w.why_not))
		abort();
	if (w.state == VM_FOUND && !w.at.system && w.at.address >= s.vram_size)
		abort();
	return 0;
}
