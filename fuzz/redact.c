// Fuzzes redaction: what finds names and secrets, and what keeps only what is known.
#include "know.h"
#include "redact_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct allowed allowed;
	if (!allowed.know)
		allow_begin(&allowed, know, NULL);
	if (redact_complaint(&allowed, data, size))
		abort();
	return 0;
}
