// Fuzzes what the clerk is asked by a process without rights, and what that process takes for its answer.
#include "clerk_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = { (const char *)data, size };
	clerk_check_question(bytes);
	clerk_check_answer(bytes);
	for (int how = CLERK_RECORDING; how <= CLERK_STATUS; how++)
		clerk_may_open(bytes, (enum clerk_shared)how);
	return 0;
}
