// Whether the job says something. We look at what is known of its descriptors from outside. A file grows, a terminal has the time of the last
// write (in steps of 8 seconds). Of a pipe or a socket neither is told: there the bytes count that the job's processes hand to write(), whatever
// they write to, because a job that writes a log is not silent.
#include <sys/stat.h>

#include "job/parts.h"

enum { TERMINAL_STEP_MS = 8000 };

void output_look(struct output *o, const struct helper *h, const struct job_group *g, int64_t now)
{
	uint64_t sum = 0;
	bool pipes = false, terminal = false;
	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
		struct stat st;
		if (fstat(fd, &st))
			continue;
		const bool tty = isatty(fd);
		terminal |= tty;
		if (S_ISREG(st.st_mode) || tty)
			sum += (uint64_t)st.st_size + (uint64_t)st.st_mtim.tv_sec * 31 + (uint64_t)st.st_mtim.tv_nsec;
		else
			pipes = true;
	}
	if (pipes) {
		struct pid_list *p = mem_alloc(sizeof(*p));
		tree_list(h, g, p);
		sum += tree_written(p);
		free(p);
	}
	o->late_ms = terminal ? TERMINAL_STEP_MS : 0;
	if (sum != o->sum || !o->changed) {
		o->sum = sum;
		o->changed = now;
	}
}
