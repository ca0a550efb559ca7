// One try, from its start until nothing of it is left. The loop never waits for anything but signals and the helper's answer, so that a
// signal for the job is passed on at once, whatever is being saved or explained.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "job/parts.h"

enum {
	TICK_MS = 100,
	SAVE_MS = 40000,
	EXPLAIN_MS = 20000,
	HUNG_END_MS = 3000, // for a process whose GPU hangs: it seldom listens
	LEFT_END_MS = 2000, // for what the job left running
	GIVE_UP_MS = 10000,
	STRANGERS_MS = 300,
	STRANGERS_TIMES = 4,
	ENDING_MS = 20,
	OUTPUT_MS = 500,
	SUSPECT_MS = 5000,
	ASKED_MS = 60000,
	SPARE_MS = 3000,   // of the grace, for ending the job
	STOPPED_MS = 2000, // whoever runs goes round the loop more often
	TOLD_MS = 500,     // a scheduler that ends a job tells all its processes, us too
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
static bool is_own(const struct job_try *a, pid_t sender)
{
	for (size_t i = 0; a && i < a->nreaped && i < REAPED_KEPT; i++)
		if (a->reaped[i] == sender)
			return true;
	return tree_descends(sender);
}

static void forward(struct supervisor *s, struct job_try *a, const struct signalfd_siginfo *i)
{
	const int n = (int)i->ssi_signo;
	// A launch script that ends all of its process group when it fails reaches us, too: nobody wants the job to end then.
	const bool own = i->ssi_code <= 0 && is_own(a, (pid_t)i->ssi_pid);
	// Who ignores a signal does not end by it, and neither does the job, which inherits that.
	const bool ends =
		!own && (n == SIGTERM || n == SIGHUP || n == SIGINT || n == SIGQUIT) && !signals_ignored(&s->signals, n);
	if (a && own)
		a->own_signal = n;
	if (a && ends && !s->asked)
		a->asked_late = a->root_gone;
	if (ends && (!s->asked || n == SIGTERM)) {
		s->asked = n;
		s->asked_at = now_ms();
		if (a && a->votes.in_flight)
			a->stood_ms = s->asked_at - a->votes.moved;
	}
	if (!a || a->root_gone)
		return;
	// What the terminal sends the job has got as well: it is in our process group. An alarm that was set before our exec is ours alone.
	if (i->ssi_code <= 0 || n == SIGALRM)
		kill(a->root, n);
	else if (n == SIGHUP && getsid(0) == getpid())
		pass_hangup(s, a);
	if (n != SIGTERM || !ends || i->ssi_code > 0)
		return;
	if (a->root_stopped)
		kill(a->root, SIGCONT);
	if (a->why == WHY_ITSELF)
		a->why = WHY_ASKED;
	if (!a->kill_at)
		a->kill_at = now_ms() + s->options->grace_ms;
}

static void take_signals(struct supervisor *s, struct job_try *a)
{
	struct signalfd_siginfo i;
	const bool stopped = now_ms() - s->passed >= STOPPED_MS;
	while (read(s->signals.fd, &i, sizeof(i)) == (ssize_t)sizeof(i)) {
		// Slurm sends one before each SIGTERM, also to those that were never stopped: that queues stood still counts then.
		if (i.ssi_signo == SIGCONT && a && (stopped || a->root_stopped))
			a->votes.moved = a->output.changed = now_ms();
		else if (i.ssi_signo != SIGCHLD && i.ssi_signo != SIGCONT)
			forward(s, a, &i);
	}
}

/** Whoever stops it would have the job and us wait for ever. */
static void keep_going(struct supervisor *s, pid_t copier, int status)
{
	if (WIFSTOPPED(status))
		kill(copier, SIGCONT);
	else if (!WIFCONTINUED(status))
		s->helper.copier = 0;
}

/** The job stopped, and not because the terminal told all of us to: a shell has to see it. */
static void stop_too(struct supervisor *s, struct job_try *a)
{
	a->root_stopped = true;
	if (!terminal_job_control(&s->terminal))
		return;
	raise(SIGSTOP);
	kill(a->root, SIGCONT);
	a->votes.moved = a->output.changed = now_ms();
}

static void note_end(struct job_try *a, pid_t pid, int status)
{
	a->reaped[a->nreaped++ % REAPED_KEPT] = pid;
	if (WIFSIGNALED(status) && WCOREDUMP(status) && a->dumped.n < DUMPED_MOST)
		a->dumped.list[a->dumped.n++] = pid;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !a->kill_sent)
		a->killed++;
	// A launcher that is told of its child's end by a signal hands it on so.
	if (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL)
		a->killed++;
	if (pid != a->root)
		return;
	a->root_gone = true;
	a->status = status;
	a->told->ran_ms = now_ms() - a->began;
}

static void reap(struct supervisor *s, struct job_try *a)
{
	int status;
	pid_t pid;
	errno = 0;
	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
		const bool over = WIFEXITED(status) || WIFSIGNALED(status);
		if (pid == s->helper.child.pid)
			s->helper.gone |= over;
		else if (pid == s->helper.copier)
			keep_going(s, pid, status);
		else if (a && over)
			note_end(a, pid, status);
		else if (a && pid == a->root && WIFSTOPPED(status))
			stop_too(s, a);
		else if (a && pid == a->root && WIFCONTINUED(status))
			a->root_stopped = false;
	}
	if (a)
		a->childless = pid < 0 && errno == ECHILD;
}

void loop_wait(struct supervisor *s, struct job_try *a, int64_t milliseconds)
{
	struct pollfd p[2] = { { .fd = s->signals.fd, .events = POLLIN }, { .fd = s->helper.child.fd, .events = POLLIN } };
	const nfds_t n = s->helper.kind == HELPER_NONE ? 1 : 2;
	poll(p, n, milliseconds < 0 ? 0 : (int)milliseconds);
	take_signals(s, a);
	reap(s, a);
	s->passed = now_ms();
}

/** Who ends us now does not want to wait for explanations. But a scheduler that sends TERM kills only later, and has no other evidence. */
static bool must_end(const struct supervisor *s)
{
	return s->asked != SIGTERM || now_ms() >= s->asked_at + s->options->grace_ms - SPARE_MS;
}

bool loop_help(struct supervisor *s, const struct helper_task *task, int64_t milliseconds)
{
	const int asked = s->asked;
	if (!helper_begin(&s->helper, task, milliseconds))
		return false;
	while (!helper_go_on(&s->helper, now_ms())) {
		loop_wait(s, NULL, TICK_MS);
		if (s->asked == asked || asked || !must_end(s))
			continue;
		helper_end(&s->helper);
		return false;
	}
	return s->helper.answer.n;
}

// --- the phases of a try ---

static struct job_study study_of(const struct supervisor *s, struct job_try *a, bool capture, int64_t ms)
{
	tree_list(&s->helper, &a->group, &a->pids);
	return (struct job_study){ .run = s->run,
				   .of = a->told,
				   .directory = a->directory,
				   .recordings = s->recordings,
				   .pids = a->pids.list,
				   .npids = a->pids.n,
				   .copy = copy_mark(&a->copy) ? &a->copy : NULL,
				   .capture = capture,
				   .elsewhere = !capture,
				   .deadline_ms = ms,
				   .options = s->options };
}

/** While the processes exist: saves what they and the GPU hold, in so much time, and explains it. */
static void begin_saving(struct supervisor *s, struct job_try *a, int64_t milliseconds, int64_t all_ms)
{
	if (s->options->recorder && a->told->level)
		a->told->recordings = a->votes.recordings;
	const struct job_study study = study_of(s, a, disk_first_of_node(s, a), milliseconds);
	const struct helper_task task = { .hands = s->hands, .kind = HELPER_STUDY, .study = &study };
	a->phase = PHASE_SAVES;
	a->studied = true;
	loop_show(s, "saving the evidence");
	// Where no process can be started the answer is empty at once, and the job goes the same way to its end.
	if (!helper_begin(&s->helper, &task, all_ms))
		a->told->lacking = S("No process could be started to save the evidence.");
}

void loop_end(struct supervisor *s, struct job_try *a, enum job_why why)
{
	a->why = a->why == WHY_ITSELF ? why : a->why;
	begin_saving(s, a, SAVE_MS, SAVE_MS + EXPLAIN_MS);
}

/** TERM to all, and KILL to those who do not listen. */
static void send_end(struct supervisor *s, struct job_try *a)
{
	const int64_t patience = a->why == WHY_HANG || a->why == WHY_CALL ? HUNG_END_MS : s->options->grace_ms;
	a->phase = PHASE_ENDS;
	if (a->why == WHY_ASKED)
		return; // it has its TERM
	tree_list(&s->helper, &a->group, &a->pids);
	tree_signal(&a->pids, SIGTERM);
	tree_signal(&a->pids, SIGCONT);
	a->term_sent = true;
	if (!a->kill_at)
		a->kill_at = now_ms() + patience;
}

/** A fault holds a process: what it still has is saved before it goes on to its end. Of several ranks only the first is. */
static void use_hold(struct supervisor *s, struct job_try *a)
{
	const int64_t left = a->votes.nholds ? votes_held(&a->votes) : -1;
	if (left < 0)
		return;
	if (left > SPARE_MS / 2 && !a->studied) {
		// Most of it is saved while the process is held. What takes longer may, as far as the grace goes: the process ends meanwhile.
		begin_saving(s, a, s->options->grace_ms - SPARE_MS > left ? s->options->grace_ms - SPARE_MS : left,
			     SAVE_MS + EXPLAIN_MS);
		a->held = true;
	}
	if (!a->held)
		votes_release(&a->votes);
}

static void check_limits(struct supervisor *s, struct job_try *a, int64_t now)
{
	if (s->deadline && now >= s->deadline) {
		loop_end(s, a, WHY_DEADLINE);
		return;
	}
	if (!s->options->silent_ms || now < a->output_due || a->root_stopped)
		return;
	a->output_due = now + OUTPUT_MS;
	output_look(&a->output, &s->helper, &a->group, now);
	if (now - a->output.changed >= s->options->silent_ms + a->output.late_ms)
		loop_end(s, a, WHY_SILENT);
}

/** As long as nothing is recorded: whoever drops our variables cannot be recorded. It is looked for less and less often. */
static void find_strangers(struct supervisor *s, struct job_try *a, int64_t now)
{
	if (a->votes.recordings || a->strangers.n || now - a->began < STRANGERS_MS || now < a->strangers_due)
		return;
	a->strangers_due = now + (now - a->began) * STRANGERS_TIMES;
	tree_list(&s->helper, &a->group, &a->pids);
	a->strangers = strangers_say(s->arena, &a->pids, s->run->id.p);
}

static void runs(struct supervisor *s, struct job_try *a, int64_t now)
{
	if (a->why == WHY_ASKED) {
		const int64_t left = a->kill_at - now - SPARE_MS;
		votes_look(&a->votes, s->recordings, now);
		// Somebody ends a job that does not move: that is worth saving, in the time that there is.
		if (a->votes.in_flight && now - a->votes.moved >= SUSPECT_MS && left > SPARE_MS)
			begin_saving(s, a, left, left);
		else
			a->phase = PHASE_ENDS;
		return;
	}
	if (s->options->recorder && a->told->level) {
		votes_look(&a->votes, s->recordings, now);
		use_hold(s, a);
	}
	if (a->phase == PHASE_RUNS && s->options->recorder && a->told->level) {
		find_strangers(s, a, now);
		hang_look(s, a, now);
	}
	if (a->phase == PHASE_RUNS)
		check_limits(s, a, now);
	if (a->phase == PHASE_RUNS)
		loop_progress(s, a, now);
}

/** The command has ended. Where the job was told to end, what it started has the rest of the grace: a rank may write its checkpoint. */
static void end_orphans(struct supervisor *s, struct job_try *a, int64_t now)
{
	a->orphans = true;
	a->told->left = tree_say(s->arena, &a->pids);
	if (!a->term_sent) {
		tree_signal(&a->pids, SIGTERM);
		tree_signal(&a->pids, SIGCONT);
	}
	if (!a->kill_at)
		a->kill_at = now + LEFT_END_MS;
}

/** The job has ended, or is being ended: until none of its processes is left. */
static void ends(struct supervisor *s, struct job_try *a, int64_t now)
{
	// What a child leaves behind becomes our child: who has none need look in the group only.
	if (a->childless)
		group_list(&a->group, &a->pids);
	else
		tree_list(&s->helper, &a->group, &a->pids);
	if (a->root_gone && !a->pids.n) {
		const bool told = WIFSIGNALED(a->status) && WTERMSIG(a->status) == SIGTERM && !a->term_sent && !s->asked;
		a->phase = told && now < a->began + a->told->ran_ms + TOLD_MS ? PHASE_ENDS : PHASE_GONE;
		return;
	}
	if (a->root_gone && !a->orphans && !a->kill_sent) {
		end_orphans(s, a, now);
	} else if (a->kill_at && now >= a->kill_at) {
		a->outlived |= !a->root_gone;
		tree_signal(&a->pids, SIGKILL); // again and again: who forks may have been quicker
		group_kill(&a->group);
		a->kill_sent = true;
		a->give_up = a->give_up ? a->give_up : now + GIVE_UP_MS;
	}
	if (a->give_up && now >= a->give_up) {
		if (!a->pids.n) // the command is a zombie that a debugger holds
			a->pids.list[a->pids.n++] = a->root;
		a->told->left = (struct str){ 0 };
		a->told->lacking =
			arena_printf(s->arena, "Processes of the job wait inside the kernel and cannot be ended: " STR_FMT ".",
				     STR_ARG(tree_say(s->arena, &a->pids)));
		if (!a->root_gone)
			a->status = SIGKILL; // which it got, and will end of
		a->root_gone = true;
		a->phase = PHASE_GONE;
	}
}

/** What the helper saved and found. A process that was held goes on; a job that hangs is ended. */
static void take_saved(struct supervisor *s, struct job_try *a)
{
	helper_end(&s->helper);
	loop_show(s, NULL);
	try_take(text_str(&s->helper.answer), s->arena, a->told);
	if (!a->held) {
		send_end(s, a);
		return;
	}
	a->held = false;
	if (!votes_held(&a->votes) && !a->told->lacking.n)
		a->told->lacking =
			S("To save the evidence took longer than the process could be held: some of it was saved without "
			  "the process.");
	a->studied = a->told->diagnosis.n; // else there is another try when the job is gone
	votes_release(&a->votes);
	a->votes.moved = now_ms();
	a->phase = a->why == WHY_ASKED ? PHASE_ENDS : PHASE_RUNS;
}

static void go_on(struct supervisor *s, struct job_try *a)
{
	const int64_t now = now_ms();
	if (a->root_gone && a->phase != PHASE_ENDS && a->phase != PHASE_SAVES) {
		helper_end(&s->helper);
		a->phase = PHASE_ENDS;
	}
	switch (a->phase) {
	case PHASE_RUNS:
		runs(s, a, now);
		break;
	case PHASE_LOOKS:
		if (helper_go_on(&s->helper, now))
			hang_take_look(s, a, now);
		break;
	case PHASE_SAVES:
		if (helper_go_on(&s->helper, now) || (a->kill_at && now >= a->kill_at))
			take_saved(s, a);
		break;
	case PHASE_ENDS:
		ends(s, a, now);
		break;
	case PHASE_GONE:
		break;
	}
}

static int64_t pause_of(const struct supervisor *s, const struct job_try *a)
{
	enum { IDLE_MS = 60000 };
	if (a->root_gone || a->phase == PHASE_ENDS)
		return ENDING_MS;
	if ((s->options->recorder && a->told->level) || a->phase != PHASE_RUNS)
		return TICK_MS;
	return s->options->silent_ms || s->deadline ? OUTPUT_MS : IDLE_MS;
}

/** The job is gone, and what it wrote is on its way. Where its reader is slow, the job would have waited for him; not one that was ended. */
static void hand_on(struct supervisor *s, struct job_try *a)
{
	const bool forced = a->kill_sent || s->asked || a->why != WHY_ITSELF;
	const int64_t end = forced ? now_ms() + LEFT_END_MS : s->deadline ? s->deadline : INT64_MAX;
	while (s->helper.copier > 0 && !copy_handed_on(&a->copy) && now_ms() < end && (forced || !s->asked))
		loop_wait(s, a, ENDING_MS);
}

void attempt_run(struct supervisor *s, struct job_try *a)
{
	a->votes.moved = a->output.changed = a->began = a->show_due = now_ms();
	while (a->phase != PHASE_GONE) {
		go_on(s, a);
		if (a->phase != PHASE_GONE)
			loop_wait(s, a, pause_of(s, a));
	}
	hand_on(s, a);
	if (a->why != WHY_ITSELF) // who was ended, was so when the last of its processes was gone
		a->told->ran_ms = now_ms() - a->began;
	// Who answered Ctrl-C long ago and went on did not end because of it.
	if (s->asked != SIGTERM && now_ms() - s->asked_at > ASKED_MS)
		s->asked = 0;
	if (s->options->recorder && a->told->level)
		votes_look(&a->votes, s->recordings, now_ms());
	votes_release(&a->votes);
}
