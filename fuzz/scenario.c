// Fuzzes the reader of scenarios and what the machines answer.
#include "scenario_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct know *know;
	struct know_problems problems = { 0 };
	if (!know)
		know = know_load(&problems);
	if (scenario_complaint(know, data, size, NULL))
		abort();
	return 0;
}
