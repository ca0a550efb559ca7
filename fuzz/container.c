// Fuzzes the reader of signed knowledge, as it is and with a checksum that is right: behind a wrong one hardly anything would be seen.
#include "container_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = { (const char *)data, size };
	bool good;
	if (container_complaint(bytes, &good) || container_front_complaint(bytes, &good))
		abort();
	return 0;
}
