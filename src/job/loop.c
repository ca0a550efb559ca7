// One try, from its start until nothing of it is left: what happens to it goes into the table of life.c, and what the row says is done here.
// The loop never waits for anything but signals and the helper's answer, so that a signal for the job is passed on at once, whatever is
// being saved or explained.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "job/supervisor.h"

enum {
	TICK_MS = 100,
	SAVE_MS = 40000,
	EXPLAIN_MS = 20000,
	HAND_ON_MS = 2000, // for the output of a job that was ended
	STRANGERS_MS = 300,
	ENDING_MS = 20,
	OUTPUT_MS = 500,
	ASKED_MS = 60000,
	STOPPED_MS = 2000, // whoever runs goes round the loop more often
};

// --- signals ---

/** The terminal was closed. The kernel tells the leader of the session only, and the others when the leader ends; we stay. */
static void pass_hangup(const struct supervisor *s, struct job_try *a)
{
	tree_list(&s->helper, &a->group, &a->pids);
	for (size_t i = 0; i < a->pids.n; i++) {
		const pid_t pid = (pid_t)a->pids.list[i];
		if (getpgid(pid) != getpgrp())
			continue;
		kill(pid, SIGHUP);
		kill(pid, SIGCONT);
	}
}

/** Who signals all of its group mostly ends by that, too, and may be reaped by now. */
static bool is_own(const struct helper *h, const struct job_try *a, pid_t sender)
{
	for (size_t i = 0; a && i < a->nreaped && i < REAPED_KEPT; i++)
		if (a->reaped[i] == sender)
			return true;
	return tree_descends(h, sender);
}

/** A signal for us is one for the job. What of it the kernel has told the job already is not told again. */
static void forward(struct supervisor *s, const struct signalfd_siginfo *i)
{
	struct job_try *a = s->now;
	const int n = (int)i->ssi_signo;
	// A launch script that ends all of its process group when it fails reaches us, too: nobody wants the job to end then.
	const bool own = i->ssi_code <= 0 && is_own(&s->helper, a, (pid_t)i->ssi_pid);
	// Who ignores a signal does not end by it, and neither does the job, which inherits that.
	const bool ends =
		!own && (n == SIGTERM || n == SIGHUP || n == SIGINT || n == SIGQUIT) && !signals_ignored(&s->signals, n);
	if (a && own)
		a->own_signal = n;
	if (a && ends && !s->life.asked)
		s->life.asked = s->life.command == COMMAND_GONE ? ASKED_LATE : ASKED_IN_TIME;
	if (ends && (!s->asked || n == SIGTERM)) {
		s->asked = n;
		s->asked_at = now_ms();
		if (a && a->votes.seen.in_flight)
			a->stood_ms = s->asked_at - a->votes.moved;
	}
	if (!a || s->life.command == COMMAND_GONE)
		return;
	// What the terminal sends the job has got as well: it is in our process group. An alarm that was set before our exec is ours alone.
	if (i->ssi_code <= 0 || n == SIGALRM)
		kill(a->root, n);
	else if (n == SIGHUP && getsid(0) == getpid())
		pass_hangup(s, a);
	if (n != SIGTERM || !ends || i->ssi_code > 0)
		return;
	if (s->life.command == COMMAND_STOPPED)
		kill(a->root, SIGCONT);
	loop_step(s, LIFE_IS_ASKED);
}

/** The time in which the job was stopped is neither silence nor a hang. */
static void restart_clocks(struct job_try *a) { a->votes.moved = a->output.changed = now_ms(); }

static void take_signals(struct supervisor *s)
{
	struct job_try *a = s->now;
	struct signalfd_siginfo i;
	const bool stopped = now_ms() - s->passed >= STOPPED_MS;
	while (read(s->signals.fd, &i, sizeof(i)) == (ssize_t)sizeof(i)) {
		// Slurm sends one before each SIGTERM, also to those that were never stopped: that queues stood still counts then.
		if (i.ssi_signo == SIGCONT && a && (stopped || s->life.command == COMMAND_STOPPED))
			restart_clocks(a);
		else if (i.ssi_signo != SIGCHLD && i.ssi_signo != SIGCONT)
			forward(s, &i);
	}
}

/** The job stopped, and not because the terminal told all of us to: a shell has to see it. */
static void stop_too(struct supervisor *s, struct job_try *a)
{
	s->life.command = COMMAND_STOPPED;
	if (!terminal_job_control(&s->terminal))
		return;
	raise(SIGSTOP);
	kill(a->root, SIGCONT);
	restart_clocks(a);
}

static void note_end(struct supervisor *s, struct job_try *a, pid_t pid, int status)
{
	a->reaped[a->nreaped++ % REAPED_KEPT] = pid;
	if (WIFSIGNALED(status) && WCOREDUMP(status) && a->dumped.n < DUMPED_MOST)
		a->dumped.list[a->dumped.n++] = pid;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !s->life.abandon_at) // else it was us
		a->killed++;
	// A launcher that is told of its child's end by a signal hands it on so.
	if (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL)
		a->killed++;
	if (pid != a->root)
		return;
	s->life.command = COMMAND_GONE;
	a->status = status;
	a->told->ran_ms = now_ms() - a->began;
}

static void loop_reap(struct supervisor *s)
{
	struct job_try *a = s->now;
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
		const bool over = WIFEXITED(status) || WIFSIGNALED(status);
		if (pid == s->helper.child.pid)
			s->helper.gone |= over;
		else if (pid == s->helper.copier && WIFSTOPPED(status))
			kill(pid, SIGCONT); // whoever stopped it would have the job and us wait for ever
		else if (pid == s->helper.copier && over)
			s->helper.copier = 0;
		else if (a && over)
			note_end(s, a, pid, status);
		else if (a && pid == a->root && WIFSTOPPED(status))
			stop_too(s, a);
		else if (a && pid == a->root && WIFCONTINUED(status)) {
			s->life.command = COMMAND_RUNS;
			restart_clocks(a); // whoever stopped and continued the job alone told us nothing
		}
	}
}

void loop_wait(struct supervisor *s, int64_t milliseconds)
{
	struct pollfd p[2] = { { .fd = s->signals.fd, .events = POLLIN }, { .fd = s->helper.child.fd, .events = POLLIN } };
	const nfds_t n = s->helper.kind == HELPER_NONE ? 1 : 2;
	poll(p, n, milliseconds < 0 ? 0 : (int)milliseconds);
	take_signals(s);
	loop_reap(s);
	s->passed = now_ms();
}

bool loop_help(struct supervisor *s, enum helper_kind kind, const void *about, int64_t milliseconds)
{
	const int asked = s->asked;
	if (!helper_begin(&s->helper, s->hands, kind, about, milliseconds))
		return false;
	while (!helper_go_on(&s->helper, now_ms())) {
		loop_wait(s, TICK_MS);
		// Who ends us now does not want to wait for explanations. But a scheduler that sends TERM kills only later, and has no other evidence.
		const bool waits = s->asked == SIGTERM && now_ms() < s->asked_at + s->life.grace_ms - LIFE_SPARE_MS;
		if (s->asked == asked || asked || waits)
			continue;
		helper_end(&s->helper);
		return false;
	}
	return s->helper.answer.n;
}

// --- what the table asks for ---

struct job_study study_of(struct supervisor *s, struct job_try *a)
{
	return (struct job_study){ .run = s->run,
				   .of = a->told,
				   .directory = a->directory,
				   .recordings = s->recordings,
				   .copy = copy_mark(&a->copy) ? &a->copy : NULL,
				   .options = s->options };
}

/** While the processes exist: has what they and the GPU hold saved and explained. How long that may take depends on who waits. */
static void loop_save(struct supervisor *s, struct job_try *a, const struct life_facts *f)
{
	int64_t save_ms = SAVE_MS, all_ms = SAVE_MS + EXPLAIN_MS;
	if (s->life.state == LIFE_HELD) {
		// Most of it is saved while the process is held. What takes longer may, as far as the grace goes: the process ends meanwhile.
		const int64_t grace = s->life.grace_ms - LIFE_SPARE_MS;
		save_ms = grace > f->held ? grace : f->held;
	} else if (s->life.why == WHY_ASKED) {
		save_ms = all_ms = s->life.kill_at - f->now - LIFE_SPARE_MS;
	}
	if (s->options->recorder && a->told->level)
		a->told->recordings = a->votes.seen.recordings;
	struct job_study study = study_of(s, a);
	tree_list(&s->helper, &a->group, &a->pids);
	study.pids = a->pids.list;
	study.npids = a->pids.n;
	study.capture = disk_first_of_node(s, a);
	study.elsewhere = !study.capture;
	study.deadline_ms = save_ms;
	loop_show(s, "saving the evidence");
	// Where no process can be started the answer is empty at once, and the job goes the same way to its end.
	if (!helper_begin(&s->helper, s->hands, HELPER_STUDY, &study, all_ms))
		a->told->lacking = S("No process could be started to save the evidence.");
}

/** What the helper saved and found, while a fault held a process or before the job is ended. */
static void take_saved(struct supervisor *s, struct job_try *a, bool held)
{
	helper_end(&s->helper);
	loop_show(s, NULL);
	try_take(text_str(&s->helper.answer), s->arena, a->told);
	if (!held)
		return;
	if (!votes_held(&a->votes) && !a->told->lacking.n)
		a->told->lacking =
			S("To save the evidence took longer than the process could be held: some of it was saved without "
			  "the process.");
	s->life.studied = a->told->diagnosis.n; // else there is another try when the job is gone
	a->votes.moved = now_ms();
}

static void loop_abandon(struct supervisor *s, struct job_try *a)
{
	if (!a->pids.n) // the command is a zombie that a debugger holds
		a->pids.list[a->pids.n++] = a->root;
	a->told->left = (struct str){ 0 };
	a->told->lacking =
		arena_printf(s->arena, "Processes of the job wait inside the kernel and cannot be ended: " STR_FMT ".",
			     STR_ARG(tree_say(s->arena, &a->pids)));
	if (s->life.command != COMMAND_GONE)
		a->status = SIGKILL; // which it got, and will end of
	s->life.command = COMMAND_GONE;
}

void loop_step(struct supervisor *s, enum life_input i)
{
	struct job_try *a = s->now;
	const int64_t now = now_ms();
	struct life_facts f = { .now = now, .delay = s->delay_ms };
	if (a) {
		if (i == LIFE_IS_ASKED && (s->life.state == LIFE_RUNNING || s->life.state == LIFE_LOOKING))
			votes_look(&a->votes, s->recordings, now);
		f.stood = a->votes.seen.in_flight ? now - a->votes.moved : 0;
		f.held = i == LIFE_IS_FAULT ? votes_held(&a->votes) : 0;
		f.ended_at = a->began + a->told->ran_ms;
		f.termed = WIFSIGNALED(a->status) && WTERMSIG(a->status) == SIGTERM;
	}
	const enum life_state before = s->life.state;
	const struct life_row *row = life_step(&s->life, i, &f);
	if (!row &&
	    i > LIFE_IS_TIME) // who says it waits for what follows: a table with a gap must not look like a job that takes long
		loop_tell(s, arena_printf(s->arena,
					  "A defect of unhang run: nothing is said of input %d in state %d; it is left out.", i,
					  before));
	const unsigned does = row && a ? row->does : 0;
	if (does & LIFE_DROP)
		helper_end(&s->helper);
	if (does & LIFE_TAKE)
		take_saved(s, a, does & LIFE_RELEASE);
	if (does & LIFE_RELEASE)
		votes_release(&a->votes);
	if (does & LIFE_SAVE)
		loop_save(s, a, &f);
	if (does & LIFE_NAME)
		a->told->left = tree_say(s->arena, &a->pids);
	if (does & LIFE_TERM) {
		tree_list(&s->helper, &a->group, &a->pids);
		tree_signal(&a->pids, SIGTERM);
		tree_signal(&a->pids, SIGCONT);
	}
	if (does & LIFE_KILL) {
		tree_signal(&a->pids, SIGKILL);
		group_kill(&a->group);
	}
	if (does & LIFE_ABANDON)
		loop_abandon(s, a);
}

// --- what happens to it ---

/** As long as nothing is recorded: whoever drops our variables cannot be recorded, and a runtime may not call the recorder. It is looked for
 * less and less often. */
static void loop_find_strangers(struct supervisor *s, struct job_try *a, int64_t now)
{
	if (a->votes.seen.recordings || (a->strangers.bare.n && a->strangers.uncalled.n) || now - a->began < STRANGERS_MS ||
	    now < a->strangers_due)
		return;
	a->strangers_due = now + (now - a->began);
	tree_list(&s->helper, &a->group, &a->pids);
	strangers_find(s->arena, &a->pids, s->run->id.p, &a->strangers);
}

static void check_limits(struct supervisor *s, struct job_try *a, int64_t now)
{
	if (s->deadline && now >= s->deadline) {
		loop_step(s, LIFE_IS_DEADLINE);
		return;
	}
	if (!s->silent_ms || now < a->output_due || s->life.command == COMMAND_STOPPED)
		return;
	a->output_due = now + OUTPUT_MS;
	output_look(&a->output, &s->helper, &a->group, now);
	if (now - a->output.changed >= s->silent_ms + a->output.late_ms)
		loop_step(s, LIFE_IS_SILENT);
}

/** The job runs. Each question is asked only while the ones before it have not changed that. */
static void watch(struct supervisor *s, struct job_try *a, int64_t now)
{
	if (s->options->recorder && a->told->level) {
		votes_look(&a->votes, s->recordings, now);
		if (a->votes.nholds && votes_held(&a->votes) >= 0)
			loop_step(s, LIFE_IS_FAULT);
		if (s->life.state == LIFE_RUNNING)
			loop_find_strangers(s, a, now);
		if (s->life.state == LIFE_RUNNING)
			hang_look(s, a, now);
	}
	if (s->life.state == LIFE_RUNNING)
		check_limits(s, a, now);
	if (s->life.state == LIFE_RUNNING)
		loop_progress(s, a, now);
}

/** What a child leaves behind becomes our child: who has none need not read all of /proc, which an end that is awaited would take time for. */
static void list_rest(const struct supervisor *s, struct job_try *a)
{
	siginfo_t any;
	if (waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) && errno == ECHILD)
		group_list(&a->group, &a->pids);
	else
		tree_list(&s->helper, &a->group, &a->pids);
}

static void go_on(struct supervisor *s, struct job_try *a)
{
	const int64_t now = now_ms();
	if (s->life.command == COMMAND_GONE)
		loop_step(s, LIFE_IS_COMMAND_GONE);
	switch (s->life.state) {
	case LIFE_RUNNING:
		watch(s, a, now);
		break;
	case LIFE_LOOKING:
		if (helper_go_on(&s->helper, now))
			hang_take_look(s, a, now);
		break;
	case LIFE_HELD:
	case LIFE_SAVING:
		loop_step(s, helper_go_on(&s->helper, now) ? LIFE_IS_SAVED : LIFE_IS_TIME);
		break;
	default: // it ends, until none of its processes is left
		list_rest(s, a);
		loop_step(s, s->life.command != COMMAND_GONE ? LIFE_IS_TIME : a->pids.n ? LIFE_IS_LEFT : LIFE_IS_EMPTY);
	}
}

static int64_t pause_of(const struct supervisor *s, const struct job_try *a)
{
	enum { IDLE_MS = 60000 };
	if (s->life.command == COMMAND_GONE || s->life.state >= LIFE_ASKED)
		return ENDING_MS;
	if ((s->options->recorder && a->told->level) || s->life.state != LIFE_RUNNING)
		return TICK_MS;
	return s->silent_ms || s->deadline ? OUTPUT_MS : IDLE_MS;
}

/** The job is gone, and what it wrote is on its way. Where its reader is slow, the job would have waited for him; not one that was ended. */
static void loop_hand_on(struct supervisor *s, struct job_try *a)
{
	const bool forced = s->life.abandon_at || s->asked || s->life.why != WHY_ITSELF;
	const int64_t end = forced ? now_ms() + HAND_ON_MS : s->deadline ? s->deadline : INT64_MAX;
	while (s->helper.copier > 0 && !copy_handed_on(&a->copy) && now_ms() < end && (forced || !s->asked))
		loop_wait(s, ENDING_MS);
}

void attempt_run(struct supervisor *s, struct job_try *a)
{
	a->votes.moved = a->output.changed = a->began = a->show_due = now_ms();
	s->now = a;
	s->life.asked = s->asked ? ASKED_IN_TIME : ASKED_NOT;
	loop_step(s, LIFE_IS_STARTED);
	while (s->life.state < LIFE_ENDED) {
		go_on(s, a);
		if (s->life.state < LIFE_ENDED)
			loop_wait(s, pause_of(s, a));
	}
	loop_hand_on(s, a);
	s->now = NULL;
	// A command may end long before what it started. Of a job that was ended the time counts until all of it was gone.
	if (s->life.why != WHY_ITSELF)
		a->told->ran_ms = now_ms() - a->began;
	// Who answered Ctrl-C long ago and went on did not end because of it.
	if (s->asked != SIGTERM && now_ms() - s->asked_at > ASKED_MS)
		s->asked = 0;
	if (s->options->recorder && a->told->level)
		votes_look(&a->votes, s->recordings, now_ms());
	votes_release(&a->votes);
}
