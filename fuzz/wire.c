// Fuzzes messages between processes of unhang, as a child that was taken over would send them.
#include "wire_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	wire_check((struct str){ (const char *)data, size });
	return 0;
}
