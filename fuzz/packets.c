// Fuzzes the decoders of packets: PM4, SDMA, MES and AQL.
#include "packets_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct know *know;
	if (!know)
		know = know_load(&(struct know_problems){ 0 });
	if (packets_bytes_complaint(know, data, size))
		abort();
	return 0;
}
