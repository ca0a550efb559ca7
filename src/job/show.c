// What the job says, and what unhang says while it runs: lines for the user, and one on the terminal where the job itself says nothing.
#include <stdio.h>
#include <sys/stat.h>
#include <termios.h>

#include "job/supervisor.h"

// What unhang says while the job runs: lines for the user, and one on the terminal where the job itself says nothing.

enum { SILENT_MS = 30000, AGAIN_MS = 30000, MINUTE_MS = 60000 };

void loop_tell(const struct supervisor *s, struct str line)
{
	struct run_told *r = s->run;
	if (!s->options->json)
		s->tell(arena_z(s->arena, line));
	else if (str_find(r->notes, line) < 0)
		r->notes =
			arena_printf(s->arena, STR_FMT "%s" STR_FMT, STR_ARG(r->notes), r->notes.n ? " " : "", STR_ARG(line));
}

static bool may_show(const struct supervisor *s)
{
	return !s->options->quiet && !s->options->json && s->terminal.fd >= 0 && isatty(STDERR_FILENO);
}

void loop_show(struct supervisor *s, const char *what)
{
	if (!may_show(s) || (!what && !s->shows))
		return;
	if (what)
		fprintf(stderr, "\r\033[Kunhang: %s ...\r", what); // what the job says next stands in its place
	else
		fputs("\r\033[K", stderr);
	fflush(stderr);
	s->shows = what;
}

/** Whether the terminal is as it was before the job, and ours: an editor or a prompt that has it must not be disturbed. */
static bool terminal_free(const struct terminal *t)
{
	struct termios now;
	return !tcgetattr(t->fd, &now) && now.c_lflag == t->modes.c_lflag && now.c_lflag & ICANON &&
	       tcgetpgrp(t->fd) == getpgrp();
}

void loop_progress(struct supervisor *s, struct job_try *a, int64_t now)
{
	char line[80];
	// A terminal does not tell who wrote to it: with --timeout-silent only the job may.
	if (now < a->show_due || s->silent_ms || !a->votes.seen.packets || !may_show(s))
		return;
	a->show_due = now + AGAIN_MS;
	output_look(&a->output, &s->helper, &a->group, now);
	if (now - a->output.changed < SILENT_MS || !terminal_free(&s->terminal))
		return;
	const int64_t changed = a->output.changed, stood = (now - a->votes.moved) / 1000;
	if (a->votes.seen.in_flight && stood)
		snprintf(line, sizeof(line), "silent for %lld min; its queues stand for %lld s",
			 (long long)((now - changed) / MINUTE_MS), (long long)stood);
	else
		snprintf(line, sizeof(line), "silent for %lld min; %llu packets so far",
			 (long long)((now - changed) / MINUTE_MS), (unsigned long long)a->votes.seen.packets);
	loop_show(s, line);
	output_look(&a->output, &s->helper, &a->group, now);
	a->output.changed = changed; // that was us
}

// Whether the job says something. We look at what is known of its descriptors from outside. A file grows, a terminal has the time of the last
// write (in steps of 8 seconds). Of a pipe or a socket neither is told: there the bytes count that the job's processes hand to write(), whatever
// they write to, because a job that writes a log is not silent.

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
		_cleanup_free_ struct pid_list *p = mem_alloc(sizeof(*p));
		tree_list(h, g, p);
		sum += tree_written(p);
	}
	o->late_ms = terminal ? TERMINAL_STEP_MS : 0;
	if (sum != o->sum || !o->changed) {
		o->sum = sum;
		o->changed = now;
	}
}
