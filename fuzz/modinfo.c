// Fuzzes what reads modules' files, modprobe.d and the files of boot loaders.
#include "modinfo_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (modinfo_complaint(data, size))
		abort();
	return 0;
}
