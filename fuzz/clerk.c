// Fuzzes what the privileged reader is asked by a process without rights, and what that process takes for its answer.
#include "clerk_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = { (const char *)data, size };
	privileged_check_question(bytes);
	privileged_check_answer(bytes);
	for (int how = PRIVILEGED_RECORDING; how <= PRIVILEGED_STATUS; how++)
		privileged_may_open(bytes, (enum privileged_shared)how);
	return 0;
}
