// Fuzzes the reader of hardware error records: each event that it tells must hold together.
#include "evidence/hardware/cper.h"
#include "feed.h"
#include "know.h"

static void check_event(void *ctx, const struct event *e)
{
	(void)ctx;
	if (feed_complaint(e))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct str bytes = { (const char *)data, size };
	const struct artefact_output out = { .know = know, .sink = { .event = check_event } };
	if (cper_begins(bytes))
		cper_read(&out, bytes);
	return 0;
}
