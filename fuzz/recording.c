// Fuzzes the reader of recordings: the input changes bytes of a recording that is right, three bytes for each change. Checksums are made
// right again where the first byte says so: what is torn is refused at once.
#include "recording_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = sample_recording();
	size_t cut = SAMPLE_SIZE;
	for (size_t i = 1; i + 3 <= size; i += 3) {
		size_t at = data[i] | (size_t)data[i + 1] << 8;
		// The header, the table and the pieces are dense; between them is nothing.
		at = at < 1100 ? at :
		     at < 1400 ? at - 1100 + RECORDING_EXTENTS_AT :
				 (at - 1400) % (SAMPLE_SIZE - RECORDING_HEAD) + RECORDING_HEAD;
		bytes[at] = (char)data[i + 2];
	}
	if (size && data[0] & 1)
		sample_seal_all(bytes);
	if (size && data[0] & 2)
		cut = SAMPLE_SIZE - data[0] * 16u;
	if (recording_complaint(bytes, cut))
		abort();
	free(bytes);
	return 0;
}
