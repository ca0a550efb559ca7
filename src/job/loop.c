// One try, from its start until nothing of it is left. The loop never waits for anything but signals and the helper's answer, so that a
// signal for the job is passed on at once, whatever is being saved or explained.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "evidence/recording/recording.h"
#include "job/decide.h"
#include "job/parts.h"

enum {
	TICK_MS = 100,
	LOOK_MS = 15000,
	LOOK_MIN_MS = 1000,
	LATE_MS = 4000, // behind --hang-after
	LOOK_PAUSE_MOST_MS = 300000,
	SAVE_MS = 40000,
	EXPLAIN_MS = 20000,
	HUNG_END_MS = 3000, // for a process whose GPU hangs: it seldom listens
	LEFT_END_MS = 2000, // for what the job left running
	GIVE_UP_MS = 10000,
	STRANGERS_MS = 300,
	STRANGERS_TIMES = 4,
	UNKNOWN_TIMES = 10, // so much longer a queue must stand where nobody can look at the GPU
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

static void forward(struct supervisor *s, struct job_try *a, const struct signalfd_siginfo *i)
{
	const int n = (int)i->ssi_signo;
	// Who ignores a signal does not end by it, and neither does the job, which inherits that.
	const bool ends = (n == SIGTERM || n == SIGHUP || n == SIGINT || n == SIGQUIT) && !signals_ignored(&s->signals, n);
	if (ends && (!s->asked || n == SIGTERM)) {
		s->asked = n;
		s->asked_at = now_ms();
		if (a && a->votes.in_flight)
			a->stood_ms = s->asked_at - a->votes.moved;
	}
	if (!a || a->root_gone)
		return;
	// What the terminal sends the job has got as well: it is in our process group.
	if (i->ssi_code <= 0)
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
			s->helper.copier = over ? 0 : pid;
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
	if (!helper_begin(&s->helper, &task, all_ms))
		a->phase = PHASE_ENDS;
}

static void begin_end(struct supervisor *s, struct job_try *a, enum job_why why)
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

static void hangs(struct supervisor *s, struct job_try *a, struct str more)
{
	a->told->because = arena_printf(s->arena, "Work was on the GPU, and no queue of the job moved for %lld s; " STR_FMT,
					(long long)(now_ms() - a->votes.moved) / 1000, STR_ARG(more));
	begin_end(s, a, WHY_HANG);
}

/** So long a call may last: memory of the host is cleared before it is handed out. */
static int64_t call_patience(const struct supervisor *s, const struct recorded_call *c)
{
	enum { BYTES_PER_MS = 256 << 10 };
	return s->options->hang_ms + (int64_t)(c->a[1] / BYTES_PER_MS);
}

/** A thread is inside of a call that does not return, and nothing else of the job moves. */
static void look_at_call(struct supervisor *s, struct job_try *a, int64_t now)
{
	const struct votes_call *c = &a->votes.call;
	if (c->of.age_ms < call_patience(s, &c->of) || now - a->votes.moved < s->options->hang_ms / 2)
		return;
	const struct str size = c->of.a[1] && c->of.call != CALL_QUEUE_CREATE ? job_size_say(s->arena, (int64_t)c->of.a[1]) :
										  (struct str){ 0 };
	a->told->pid = c->pid;
	a->told->rank = c->rank;
	a->told->ended = S("runtime-hang");
	a->told->because = arena_printf(
		s->arena, "The thread %.*s (%u) of process %lld%s has been inside %s%s" STR_FMT " for %lld s, and nothing of the job moves.",
		(int)sizeof(c->of.name), c->of.name, c->of.tid, (long long)c->pid,
		c->rank >= 0 ? arena_printf(s->arena, ", rank %lld,", (long long)c->rank).p : "", call_name(c->of.call),
		size.n ? " of " : "", STR_ARG(size), (long long)c->of.age_ms / 1000);
	begin_end(s, a, WHY_CALL);
}

/** The queues stand. The GPU is looked at, several times: knowledge/progress.know says how long it has to stand, too. */
static void look_for_hang(struct supervisor *s, struct job_try *a, int64_t now)
{
	const int64_t after = s->options->hang_ms;
	struct job_looks *l = &a->looks;
	if (l->moved != a->votes.moved)
		*l = (struct job_looks){ .moved = a->votes.moved, .due = a->votes.moved + after / 2, .pause = after / 2 };
	if (!after || !a->votes.in_flight || a->root_stopped)
		return;
	if (a->votes.call.of.call) {
		look_at_call(s, a, now);
		return;
	}
	if (now < l->due)
		return;
	if (l->blind) {
		hangs(s, a, S("nobody could look at the GPU itself."));
		return;
	}
	const struct job_look look = { .recordings = s->recordings,
				       .stood_ms = now - l->moved,
				       .seen_ms = l->since ? now - l->since : 0,
				       .hung_after = s->options->hang_given ? (after < 4000 ? 1 : after / 2000) : 0 };
	const struct helper_task task = { .hands = s->hands, .kind = HELPER_LOOK, .look = &look };
	// Who said how long it may stand does not wait for a look that takes longer: a look without an answer saw nothing.
	const int64_t left = s->options->hang_given ? l->moved + after + LATE_MS - now : LOOK_MS;
	if (helper_begin(&s->helper, &task, left < LOOK_MIN_MS ? LOOK_MIN_MS : left < LOOK_MS ? left : LOOK_MS))
		a->phase = PHASE_LOOKS;
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
		a->held = a->phase == PHASE_SAVES;
	}
	if (!a->held)
		votes_release(&a->votes);
}

static struct str answered(struct str text, struct str key)
{
	struct str value;
	while (text.n)
		if (str_behind(str_split(&text, '\n'), key, &value))
			return value;
	return (struct str){ 0 };
}

/** What the look at the GPUs said. */
static void take_look(struct supervisor *s, struct job_try *a, int64_t now)
{
	const struct str answer = text_str(&s->helper.answer), pace = answered(answer, S("pace ")),
			 look = answered(answer, S("look ")), says = answered(answer, S("says "));
	const int64_t after = s->options->hang_ms;
	struct job_looks *l = &a->looks;
	a->phase = PHASE_RUNS;
	votes_look(&a->votes, s->recordings, now);
	if (!a->votes.in_flight || a->votes.moved != l->moved)
		return;
	if (str_is(look, "moved") || str_is(pace, "working")) { // a long kernel, which works
		a->votes.moved = now;
		return;
	}
	if (str_is(look, "stood"))
		l->saw = arena_printf(s->arena, "the GPU does not move either: " STR_FMT " (" STR_FMT ")", STR_ARG(says),
				      STR_ARG(answered(answer, S("votes "))));
	// A look that did not answer in time takes nothing back.
	if (!answer.n && l->since && s->options->hang_given && now - l->moved >= after) {
		hangs(s, a, l->saw);
		return;
	}
	l->blind = !str_is(look, "stood");
	l->since = l->blind ? 0 : l->since ? l->since : now;
	l->due = l->blind ? l->moved + after * (s->options->hang_given ? 1 : UNKNOWN_TIMES) : now + l->pause;
	if (now - l->moved >= after && l->pause < LOOK_PAUSE_MOST_MS)
		l->pause *= 2;
	if (str_is(pace, "hung") && now - l->moved >= after)
		hangs(s, a, l->saw);
}

static void check_limits(struct supervisor *s, struct job_try *a, int64_t now)
{
	if (s->deadline && now >= s->deadline) {
		begin_end(s, a, WHY_DEADLINE);
		return;
	}
	if (!s->options->silent_ms || now < a->output_due || a->root_stopped)
		return;
	a->output_due = now + OUTPUT_MS;
	output_look(&a->output, &s->helper, &a->group, now);
	if (now - a->output.changed >= s->options->silent_ms + a->output.late_ms)
		begin_end(s, a, WHY_SILENT);
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
		look_for_hang(s, a, now);
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
		a->told->left = (struct str){ 0 };
		a->told->lacking =
			arena_printf(s->arena, "Processes of the job wait inside the kernel and cannot be ended: " STR_FMT ".",
				     STR_ARG(tree_say(s->arena, &a->pids)));
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
			take_look(s, a, now);
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
	const int64_t end = a->kill_sent || s->asked || a->why != WHY_ITSELF ? now_ms() + LEFT_END_MS : INT64_MAX;
	while (s->helper.copier > 0 && !copy_handed_on(&a->copy) && now_ms() < end && (end < INT64_MAX || !s->asked))
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
