// Fuzzes the search for shaders in buffers of commands.
#include "know.h"
#include "shaders_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (shaders_bytes_complaint(know, data, size))
		abort();
	return 0;
}
