// Fuzzes what reads the driver's texts about queues (KFD's mqds, hqds and rls) and devcoredumps as targets.
#include "queues_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct know *know;
	struct know_problems problems = { 0 };
	if (!know)
		know = know_load(&problems);
	if (kfd_complaint(know, (const char *)data, size) || dump_complaint(know, (const char *)data, size))
		abort();
	return 0;
}
