// Who answers: a tape, the clerk, or this process.
#include "base/child.h"
#include "source/clerk/clerk.h"
#include "source/tape/tape.h"

/** A tree is somebody's files, which need no rights of this machine's. */
static bool of_this_machine(const struct probe_batch *batches, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (batches[i].root)
			return false;
	return true;
}

void probe_run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	struct tape *tape = probe_tape(count);
	int64_t began = now_ms();
	if (tape_plays(tape)) {
		tape_answer(tape, a, batches, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		tape_mark_dead(tape, &batches[i]);
	if (clerk_reads() && of_this_machine(batches, n))
		clerk_run_all(a, batches, n, milliseconds, count);
	else
		probe_run_machine(a, batches, n, milliseconds, count);
	for (size_t i = 0; i < n && tape; i++) {
		tape_tell_dead(tape, a, &batches[i]);
		tape_keep(tape, &batches[i], began);
	}
}

void probe_run(struct arena *a, struct probe *probes, size_t n, int milliseconds, struct probe_stuck *ret_stuck,
	       struct probe_count *count)
{
	struct probe_batch batch = { .probes = probes, .n = n };
	probe_run_all(a, &batch, 1, milliseconds, count);
	if (ret_stuck)
		*ret_stuck = batch.stuck;
}
