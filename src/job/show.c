// What unhang says while the job runs: lines for the user, and one on the terminal where the job itself says nothing.
#include <stdio.h>
#include <termios.h>

#include "job/parts.h"

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
	if (now < a->show_due || s->options->silent_ms || !a->votes.packets || !may_show(s))
		return;
	a->show_due = now + AGAIN_MS;
	output_look(&a->output, &s->helper, &a->group, now);
	if (now - a->output.changed < SILENT_MS || !terminal_free(&s->terminal))
		return;
	const int64_t changed = a->output.changed, stood = (now - a->votes.moved) / 1000;
	if (a->votes.in_flight && stood)
		snprintf(line, sizeof(line), "silent for %lld min; its queues stand for %lld s",
			 (long long)((now - changed) / MINUTE_MS), (long long)stood);
	else
		snprintf(line, sizeof(line), "silent for %lld min; %llu packets so far",
			 (long long)((now - changed) / MINUTE_MS), (unsigned long long)a->votes.packets);
	loop_show(s, line);
	output_look(&a->output, &s->helper, &a->group, now);
	a->output.changed = changed; // that was us
}
