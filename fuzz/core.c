// Fuzzes the reader of GPU cores: ELF, notes, save areas, the list of code objects, and memory.
#include "core_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct know *know;
	struct know_problems problems = { 0 };
	if (!know)
		know = know_load(&problems);
	if (core_complaint(know, data, size, NULL))
		abort();
	return 0;
}
