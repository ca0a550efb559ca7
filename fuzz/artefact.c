// Fuzzes one reader of artefacts, FUZZ_READER, or with none the readers of documents. The reader gets every line, also a first
// one with which its artefact does not begin.
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
	struct str bytes = { (const char *)data, size };
	const struct artefact_output out = {
		.know = know, .sink = { check_event, NULL }, .name = S("nccl_trace_rank_3"), .line = 1
	};
#ifdef FUZZ_READER
	FUZZ_READER.begins(bytes);
	feed_lines(&FUZZ_READER, &out, bytes);
#else
	document_begins(bytes);
	document_read(&out, bytes);
#endif
	return 0;
}
