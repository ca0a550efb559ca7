// Fuzzes the decoders of packets: PM4, SDMA, MES and AQL.
#include "know.h"
#include "packets_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (packets_bytes_complaint(know, data, size))
		abort();
	return 0;
}
