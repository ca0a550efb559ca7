// Fuzzes what reads the driver's texts about queues (KFD's mqds, hqds and rls) and devcoredumps as targets.
#include "know.h"
#include "queues_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (kfd_complaint(know, (const char *)data, size) || dump_complaint(know, (const char *)data, size))
		abort();
	return 0;
}
