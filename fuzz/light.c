// Fuzzes the reader of GPU cores that come through a pipe: the first byte says in what pieces, and whether the process may be read.
#include "know.h"
#include "light_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct str bytes = str_from((struct str){ (const char *)data, size }, 1);
	if (size && light_complaint(know, bytes, 1u << (data[0] & 15), data[0] & 16, data[0] & 32))
		abort();
	return 0;
}
