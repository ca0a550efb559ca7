// Fuzzes the reader of what guard and pool write: the input changes bytes of a file that is right, three bytes for each change. Checksums
// are made right again where the first byte says so: what is torn is refused at once.
#include "allocations_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = sample_allocations();
	size_t cut = ALLOCS_SIZE;
	for (size_t i = 1; i + 3 <= size; i += 3) {
		const size_t at = (data[i] | (size_t)data[i + 1] << 8) % ALLOCS_SIZE;
		bytes[at] = (char)data[i + 2];
	}
	if (size && data[0] & 1)
		allocs_seal_all(bytes);
	if (size && data[0] & 2)
		cut = ALLOCS_SIZE - data[0] * 32u;
	if (allocations_complaint(bytes, cut))
		abort();
	free(bytes);
	return 0;
}
