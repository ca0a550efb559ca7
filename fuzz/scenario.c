// Fuzzes the reader of scenarios and what the machines answer.
#include "know.h"
#include "scenario_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (scenario_complaint(know, data, size, NULL))
		abort();
	return 0;
}
