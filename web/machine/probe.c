// A page has no machine to ask. A bundle answers in its place.
#include "source/probe.h"

#include <unistd.h>

#include "source/privileged/privileged.h"
#include "source/process.h"
#include "source/tape/tape.h"

void probe_run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	(void)milliseconds;
	if (tape_plays(probe_tape(count)))
		tape_answer(probe_tape(count), a, batches, n);
}

void probe_run(struct arena *a, struct probe *probes, size_t n, int milliseconds, struct probe_stuck *ret_stuck,
	       struct probe_count *count)
{
	struct probe_batch batch = { .probes = probes, .n = n };
	probe_run_all(a, &batch, 1, milliseconds, count);
	if (ret_stuck)
		*ret_stuck = batch.stuck;
}

uid_t privileged_uid(void) { return geteuid(); }

struct uh_error *process_memory(int64_t pid, uint64_t address, uint64_t size, char **ret)
{
	(void)address;
	(void)size;
	(void)ret;
	return uh_error_new("process %lld: the page has no processes", (long long)pid);
}
