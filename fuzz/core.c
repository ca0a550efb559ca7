// Fuzzes the reader of GPU cores: ELF, notes, save areas, the list of code objects, and memory.
#include "core_check.h"
#include "know.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (core_complaint(know, data, size, NULL))
		abort();
	return 0;
}
