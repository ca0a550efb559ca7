// A process of this machine that computes on GPUs, as a target.
#pragma once

#include "gpu/find/kfd.h"
#include "gpu/target.h"

/** Opens it: its queues, its memory, its code. @kfd must outlive the target. */
struct uh_error *target_process_of(const struct know *k, const struct devices *d, const struct kfd *kfd, int64_t pid,
				   struct target **ret);
/** Whether a read of its memory did not return. Then no more are tried. */
bool process_stuck(const struct target *t);
/** Reads the indexes of its queues again, which shows the queues that move. */
void process_look_again(struct target *t);
/** Finds the places of its queues, where those were looked at after it was opened (kfd_look_at_places()). */
void process_find_places(struct target *t);

/** A line of a process's map. */
struct mapping {
	uint64_t begin, end, offset;
	struct str path;
};
/** What a process has mapped, and how it is read. */
struct mapped {
	const char *mem; // /proc/PID/mem
	size_t n;
	const struct mapping *maps; // by address
	struct probe_count *count;
};
/** Where a symbol that some mapped programs or libraries export lies in the process; 0: nowhere. Each of its steps is one batch of
 * reads for all of them. */
size_t process_symbols(const struct mapped *m, const char *name, uint64_t *ret, size_t most);
