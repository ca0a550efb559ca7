// Fuzzes the reader of inputs that level 10 saved: the first two bytes say where the metadata end and the tensors begin.
#include <stdlib.h>

#include "inputs_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	const size_t left = size - 2, cut = (data[0] | (size_t)data[1] << 8) % (left + 1);
	const char *p = (const char *)data + 2;
	if (inputs_complaint((struct str){ p, cut }, (struct str){ p + cut, left - cut }))
		abort();
	return 0;
}
