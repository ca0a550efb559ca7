// Fuzzes what the emulated KFD reads. The first byte chooses: a plan, a code object as it lies in memory, or what guests tell.
#include "know.h"
#include "kfd_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *rest = (const char *)data + 1, *wrong = NULL;
	if (!size)
		return 0;
	switch (data[0]) {
	case 'p':
		wrong = plan_complaint(rest, size - 1);
		break;
	case 'c':
		wrong = code_in_memory_complaint(rest, size - 1, NULL);
		break;
	case 'g':
		wrong = guest_complaint(know, rest, size - 1);
		break;
	default:
		break;
	}
	if (wrong)
		abort();
	return 0;
}
