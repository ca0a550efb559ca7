// The table of a try's life. A row: in this state, when this happens and the guard holds, do this and be in that state. The first row that fits
// is taken, so that the one without a guard stands last.
//
// Two promises that it keeps, whatever happens: nobody gets SIGKILL before SIGTERM, with time to end in between (a rank may write its checkpoint); and every state has a way to LIFE_ENDED that nobody but time has to open, so that a job cannot keep us for ever.
#include "job/life.h"

#include "base/str.h"

enum {
	HUNG_END_MS = 3000, // for a process whose GPU hangs: it seldom listens
	LEFT_END_MS = 2000, // for what the job left running
	ABANDON_MS = 10000,
	SUSPECT_MS = 5000,
	TOLD_MS = 500, // a scheduler that ends a job tells all its processes, us too
};

static bool grace_over(const struct life *l, const struct life_facts *f) { return l->kill_at && f->now >= l->kill_at; }
static bool abandon_due(const struct life *l, const struct life_facts *f) { return f->now >= l->abandon_at; }
static bool job_life_was_asked(const struct life *l, const struct life_facts *f)
{
	(void)f;
	return l->why == WHY_ASKED;
}
static bool grace_over_asked(const struct life *l, const struct life_facts *f)
{
	return grace_over(l, f) && job_life_was_asked(l, f);
}
/** Somebody ends a job that does not move: that is worth saving, where the grace leaves time. */
static bool job_life_stands(const struct life *l, const struct life_facts *f)
{
	return f->stood >= SUSPECT_MS && l->grace_ms > 2 * LIFE_SPARE_MS;
}
/** Of several ranks that fault only the first is saved, and none that is let go before anything could be. */
static bool worth_saving(const struct life *l, const struct life_facts *f)
{
	return f->held > LIFE_SPARE_MS / 2 && !l->studied;
}
/** SIGTERM ended the command, and we did not send it: we may hear of it in a moment, and then the job was stopped. */
static bool will_be_told(const struct life *l, const struct life_facts *f)
{
	return f->termed && l->why == WHY_ITSELF && !l->asked && f->now < f->ended_at + TOLD_MS;
}
static bool delay_over(const struct life *l, const struct life_facts *f) { return f->now >= l->restart_at; }

static const struct life_row rows[] = {
	{ LIFE_STARTING, LIFE_IS_STARTED, NULL, 0, LIFE_RUNNING },
	{ LIFE_STARTING, LIFE_IS_REFUSED, NULL, 0, LIFE_GIVEN_UP }, // nothing ran: there is nothing to explain

	{ LIFE_RUNNING, LIFE_IS_QUIET, NULL, 0, LIFE_LOOKING },
	{ LIFE_RUNNING, LIFE_IS_FAULT, worth_saving, LIFE_SAVE, LIFE_HELD },
	{ LIFE_RUNNING, LIFE_IS_FAULT, NULL, LIFE_RELEASE, LIFE_RUNNING },
	{ LIFE_RUNNING, LIFE_IS_HANG, NULL, LIFE_SAVE, LIFE_SAVING, WHY_HANG },
	{ LIFE_RUNNING, LIFE_IS_CALL, NULL, LIFE_SAVE, LIFE_SAVING, WHY_CALL },
	{ LIFE_RUNNING, LIFE_IS_SILENT, NULL, LIFE_SAVE, LIFE_SAVING, WHY_SILENT },
	{ LIFE_RUNNING, LIFE_IS_DEADLINE, NULL, LIFE_SAVE, LIFE_SAVING, WHY_DEADLINE },
	{ LIFE_RUNNING, LIFE_IS_ASKED, job_life_stands, LIFE_SAVE, LIFE_SAVING, WHY_ASKED },
	{ LIFE_RUNNING, LIFE_IS_ASKED, NULL, 0, LIFE_ASKED, WHY_ASKED },
	{ LIFE_RUNNING, LIFE_IS_COMMAND_GONE, NULL, 0, LIFE_ALONE },

	{ LIFE_LOOKING, LIFE_IS_LOOKED, NULL, 0, LIFE_RUNNING }, // what was seen comes as the next input
	{ LIFE_LOOKING, LIFE_IS_ASKED, job_life_stands, LIFE_DROP | LIFE_SAVE, LIFE_SAVING, WHY_ASKED },
	{ LIFE_LOOKING, LIFE_IS_ASKED, NULL, LIFE_DROP, LIFE_ASKED, WHY_ASKED },
	{ LIFE_LOOKING, LIFE_IS_COMMAND_GONE, NULL, LIFE_DROP, LIFE_ALONE },

	{ LIFE_HELD, LIFE_IS_ASKED, NULL, 0, LIFE_HELD, WHY_ASKED },
	{ LIFE_HELD, LIFE_IS_SAVED, job_life_was_asked, LIFE_TAKE | LIFE_RELEASE, LIFE_ASKED },
	{ LIFE_HELD, LIFE_IS_SAVED, NULL, LIFE_TAKE | LIFE_RELEASE, LIFE_RUNNING },
	{ LIFE_HELD, LIFE_IS_TIME, grace_over, LIFE_TAKE | LIFE_RELEASE, LIFE_ASKED },

	{ LIFE_SAVING, LIFE_IS_ASKED, NULL, 0, LIFE_SAVING },
	{ LIFE_SAVING, LIFE_IS_SAVED, job_life_was_asked, LIFE_TAKE, LIFE_ASKED },
	{ LIFE_SAVING, LIFE_IS_SAVED, NULL, LIFE_TAKE | LIFE_TERM, LIFE_TERMED },
	{ LIFE_SAVING, LIFE_IS_TIME, grace_over_asked, LIFE_TAKE, LIFE_ASKED },
	{ LIFE_SAVING, LIFE_IS_TIME, grace_over, LIFE_TAKE | LIFE_TERM, LIFE_TERMED },

	{ LIFE_ASKED, LIFE_IS_TIME, grace_over, LIFE_KILL, LIFE_KILLED, WHY_OUTLIVED },
	{ LIFE_ASKED, LIFE_IS_LEFT, NULL, LIFE_NAME | LIFE_TERM, LIFE_LEFT },
	{ LIFE_ASKED, LIFE_IS_EMPTY, NULL, LIFE_RELEASE, LIFE_ENDED },

	{ LIFE_TERMED, LIFE_IS_TIME, grace_over, LIFE_KILL, LIFE_KILLED },
	{ LIFE_TERMED, LIFE_IS_LEFT, NULL, LIFE_NAME, LIFE_LEFT },
	{ LIFE_TERMED, LIFE_IS_EMPTY, NULL, LIFE_RELEASE, LIFE_ENDED },

	{ LIFE_ALONE, LIFE_IS_LEFT, NULL, LIFE_NAME | LIFE_TERM, LIFE_LEFT },
	{ LIFE_ALONE, LIFE_IS_EMPTY, will_be_told, 0, LIFE_ALONE },
	{ LIFE_ALONE, LIFE_IS_EMPTY, NULL, LIFE_RELEASE, LIFE_ENDED },

	{ LIFE_LEFT, LIFE_IS_LEFT, grace_over, LIFE_KILL, LIFE_KILLED },
	{ LIFE_LEFT, LIFE_IS_LEFT, NULL, 0, LIFE_LEFT },
	{ LIFE_LEFT, LIFE_IS_EMPTY, will_be_told, 0, LIFE_LEFT },
	{ LIFE_LEFT, LIFE_IS_EMPTY, NULL, LIFE_RELEASE, LIFE_ENDED },

	// Whoever forks may have been quicker than the first SIGKILL.
	{ LIFE_KILLED, LIFE_IS_TIME, abandon_due, LIFE_ABANDON | LIFE_RELEASE, LIFE_ENDED },
	{ LIFE_KILLED, LIFE_IS_TIME, NULL, LIFE_KILL, LIFE_KILLED },
	{ LIFE_KILLED, LIFE_IS_LEFT, abandon_due, LIFE_ABANDON | LIFE_RELEASE, LIFE_ENDED },
	{ LIFE_KILLED, LIFE_IS_LEFT, NULL, LIFE_KILL, LIFE_KILLED },
	{ LIFE_KILLED, LIFE_IS_EMPTY, NULL, LIFE_RELEASE, LIFE_ENDED },

	{ LIFE_ENDED, LIFE_IS_WELL, NULL, 0, LIFE_DONE },
	{ LIFE_ENDED, LIFE_IS_EXPLAINED, NULL, 0, LIFE_DECIDING },
	{ LIFE_DECIDING, LIFE_IS_RESTART, NULL, 0, LIFE_RESTARTING },
	{ LIFE_DECIDING, LIFE_IS_STOP, NULL, 0, LIFE_GIVEN_UP },
	{ LIFE_RESTARTING, LIFE_IS_ASKED, NULL, 0, LIFE_GIVEN_UP },
	{ LIFE_RESTARTING, LIFE_IS_TIME, delay_over, 0, LIFE_STARTING },
};

const struct life_row *life_rows(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(rows);
	return rows;
}

/** The times that begin to run with a step. The first of each counts: to ask again gives nobody more time. */
static void set_times(struct life *l, const struct life_row *r, enum life_input i, const struct life_facts *f)
{
	const bool hung = l->why == WHY_HANG || l->why == WHY_CALL;
	if (i == LIFE_IS_ASKED && !l->kill_at)
		l->kill_at = f->now + l->grace_ms;
	if (r->does & LIFE_TERM && !l->kill_at)
		l->kill_at = f->now + (r->next == LIFE_LEFT ? LEFT_END_MS : hung ? HUNG_END_MS : l->grace_ms);
	if (r->does & LIFE_KILL && !l->abandon_at)
		l->abandon_at = f->now + ABANDON_MS;
	if (r->next == LIFE_RESTARTING && i == LIFE_IS_RESTART)
		l->restart_at = f->now + f->delay;
}

const struct life_row *life_step(struct life *l, enum life_input i, const struct life_facts *f)
{
	const struct life_row *r = NULL;
	for (size_t n = 0; n < ARRAY_SIZE(rows) && !r; n++)
		if (rows[n].state == l->state && rows[n].input == i && (!rows[n].guard || rows[n].guard(l, f)))
			r = &rows[n];
	if (!r)
		return NULL;
	if (r->why == WHY_OUTLIVED || (r->why && l->why == WHY_ITSELF))
		l->why = r->why;
	set_times(l, r, i, f);
	l->studied |= r->does & LIFE_SAVE;
	l->state = r->next;
	if (l->state == LIFE_STARTING) // of the next try
		*l = (struct life){ .grace_ms = l->grace_ms };
	return r;
}
