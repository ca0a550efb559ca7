// How a try ended, as far as the process that watched it knows: who ended it, the status, the counters of the control group. What the
// recordings say of GPU faults comes from the helper.
#include <stdio.h>
#include <sys/wait.h>

#include "job/supervisor.h"

int ended_status(const struct job_try *a)
{
	return WIFSIGNALED(a->status) ? 128 + WTERMSIG(a->status) : WIFEXITED(a->status) ? WEXITSTATUS(a->status) : 0;
}

static struct str signal_say(struct arena *a, int signal)
{
	const char *name = sigabbrev_np(signal);
	return name ? arena_printf(a, "SIG%s", name) : arena_printf(a, "signal %d", signal);
}

static int64_t kills_since(const struct run_try *t, const struct oom_figures *now)
{
	return t->oom_before < 0 || now->kills <= t->oom_before ? 0 : now->kills - t->oom_before;
}

bool ended_oom(struct arena *a, struct run_try *t, const struct oom_figures *now, const char *more)
{
	if (!kills_since(t, now))
		return false;
	t->oom_kills = kills_since(t, now);
	t->ended = RUN_OOM;
	t->memory_peak = now->peak;
	t->memory_limit = now->limit;
	t->because = arena_printf(a,
				  "The kernel's out-of-memory killer ended %lld process%s in the job's control group (oom_kill "
				  "went from %lld to %lld)%s.",
				  (long long)t->oom_kills, t->oom_kills == 1 ? "" : "es", (long long)t->oom_before,
				  (long long)now->kills, more);
	return true;
}

static const char *stood_say(struct arena *arena, const struct job_try *a)
{
	return a->stood_ms < 1000 ? "" :
				    arena_printf(arena, " Work was on the GPU then, and no queue had moved for %lld s.",
						 (long long)a->stood_ms / 1000)
					    .p;
}

/** What a shell makes of a signal that ended its child. */
static const char *passed_on(struct arena *a, int status)
{
	const char *name = status > 128 ? sigabbrev_np(status - 128) : NULL;
	return name ? arena_printf(a, ", which is 128 + %d: SIG%s ended what it started", status - 128, name).p : "";
}

/** What comes after the command has ended is no reason for its end. But a scheduler that tells all processes may tell the job first. */
static bool ended_was_asked(const struct supervisor *s, const struct job_try *a)
{
	return s->asked && (s->life.asked != ASKED_LATE || ended_status(a) == 128 + s->asked);
}

/** Why the recordings do not have all that the job launched, as half a sentence; NULL: they do, as far as is known. */
static const char *not_recorded(const struct job_try *a)
{
	return a->votes.seen.gap        ? "there was no room to record a queue" :
	       a->votes.seen.lost       ? "a process could not be recorded, or its recording was changed" :
	       a->votes.seen.removed    ? "there was no room for the recordings of all of its processes" :
	       a->votes.seen.recordings ? NULL :
	       a->strangers.uncalled.n  ? "ROCm's runtime was started, and did not call the recorder" :
	       a->strangers.bare.n      ? "processes of it could not be recorded" :
					  NULL;
}

/** By itself: the status tells. */
static void judge_status(const struct supervisor *s, struct job_try *a)
{
	struct run_try *t = a->told;
	if (t->ended)
		return; // while a fault held it, the recording told
	if (a->status && ended_was_asked(s, a)) {
		t->ended = RUN_STOPPED;
		t->because = arena_printf(s->arena, "It ended after " STR_FMT ", which the user or a scheduler sent.%s",
					  STR_ARG(signal_say(s->arena, s->asked)), stood_say(s->arena, a));
		return;
	}
	if (WIFSIGNALED(a->status)) {
		t->ended = WTERMSIG(a->status) == SIGINT ? RUN_STOPPED : RUN_SIGNAL;
		t->because = arena_printf(s->arena, STR_FMT " ended it%s.", STR_ARG(signal_say(s->arena, WTERMSIG(a->status))),
					  a->own_signal == WTERMSIG(a->status) ? ", which a process of the job sent" : "");
		return;
	}
	t->ended = WEXITSTATUS(a->status) ? RUN_EXIT : RUN_DONE;
	t->because = arena_printf(s->arena, "It ended by itself with status %d%s.", WEXITSTATUS(a->status),
				  passed_on(s->arena, WEXITSTATUS(a->status)));
	if (WEXITSTATUS(a->status) || !s->options->recorder || !t->level || a->votes.seen.packets)
		return;
	const char *unknown = not_recorded(a);
	if (unknown) {
		t->because =
			arena_printf(s->arena, "It ended by itself with status 0. What it launched is not known: %s.", unknown);
	} else {
		t->ended = RUN_NO_LAUNCH;
		t->because = a->votes.seen.recordings ?
				     S("It ended with status 0, but launched nothing on a GPU.") :
				     S("It ended with status 0, but no process of it used ROCm with the recorder.");
	}
}

static void judge_why(const struct supervisor *s, struct job_try *a)
{
	struct run_try *t = a->told;
	switch (s->life.why) {
	case WHY_ITSELF:
		judge_status(s, a);
		break;
	case WHY_ASKED:
	case WHY_OUTLIVED:
		t->ended = RUN_STOPPED;
		t->because =
			arena_printf(s->arena, "unhang got " STR_FMT " and passed it on.%s%s",
				     STR_ARG(signal_say(s->arena, s->asked)), stood_say(s->arena, a),
				     s->life.why == WHY_OUTLIVED ? " The job did not end within --grace and was killed." : "");
		break;
	case WHY_HANG:
		t->ended = RUN_GPU_HANG; // and why is said by who looked
		break;
	case WHY_CALL:
		t->ended = RUN_RUNTIME_HANG; // as that
		break;
	case WHY_SILENT:
		t->ended = RUN_SILENT;
		t->because = arena_printf(s->arena, "It wrote nothing for %u s (--timeout-silent).", s->options->silent);
		break;
	case WHY_DEADLINE:
		t->ended = RUN_DEADLINE;
		t->because = arena_printf(s->arena, "It still ran at the deadline of %u s (--deadline).", s->options->deadline);
		break;
	}
}

void ended_waiting(const struct supervisor *s, struct run_try *t)
{
	t->act = RUN_STOP;
	t->reason = arena_printf(s->arena, "unhang got " STR_FMT " and stopped before try %lld.",
				 STR_ARG(signal_say(s->arena, s->asked)), (long long)t->number + 1);
	disk_save(s);
}

/** A launcher may have seen the SIGKILL in our place. */
static const char *more_of(const struct job_try *a)
{
	return a->killed ? "" : "; the command then failed, though it was not killed itself";
}

void ended_starved(const struct supervisor *s, struct job_try *a)
{
	struct run_try *t = a->told;
	const int64_t kills = kills_since(t, &a->starved);
	if (!kills)
		return;
	if (t->ended == RUN_OOM)
		ended_oom(s->arena, t, &a->starved, more_of(a));
	else
		t->beside = arena_printf(s->arena,
					 STR_FMT "%sthe kernel's out-of-memory killer ended %lld process%s in the control "
						 "group that the job shares with others; nothing shows that it was the job's",
					 STR_ARG(t->beside), t->beside.n ? "; " : "", (long long)kills, kills == 1 ? "" : "es");
}

void ended_judge(const struct supervisor *s, struct job_try *a)
{
	struct run_try *t = a->told;
	struct oom_figures now;
	oom_read(&a->group, s->arena, &now);
	t->exit_code = WIFEXITED(a->status) ? WEXITSTATUS(a->status) : -1;
	t->signal = WIFSIGNALED(a->status) ? WTERMSIG(a->status) : -1;
	t->recordings = s->options->recorder && t->level ? (int64_t)a->votes.seen.recordings : -1;
	if (t->launches < 0 && s->options->recorder && t->level) // else it is known which of its processes failed
		t->launches = (int64_t)a->votes.seen.packets;
	if (!t->recordings && a->strangers.uncalled.n)
		t->lacking =
			arena_printf(s->arena,
				     RUN_UNCALLED STR_FMT ", and did not call the recorder: another tool "
				     "took its place, or the program set HSA_TOOLS_LIB itself. LD_PRELOAD of "
				     "libunhang-recorder.so helps.",
				     STR_ARG(a->strangers.uncalled));
	else if (!t->recordings && a->strangers.bare.n)
		t->lacking = arena_printf(s->arena,
					  "No process of the job ran with the recorder: " STR_FMT
					  " did not have our variables, or ran as another user. "
					  "sudo, env -i and launchers with a list of variables drop them.",
					  STR_ARG(a->strangers.bare));
	else if (s->options->recorder && t->level && not_recorded(a))
		t->lacking = arena_printf(s->arena, "Not all of the job was recorded: %s.", not_recorded(a));
	else if (s->options->recorder && t->level && !t->recordings && !access("/sys/class/kfd", F_OK))
		t->lacking = S("No process of the job ran with the recorder. Processes that a container or another daemon "
			       "starts do not "
			       "have our variables: run unhang inside.");
	else if (!s->options->recorder && t->level)
		t->lacking = S("The job was not recorded: libunhang-recorder.so is neither beside unhang nor where it was "
			       "installed.");
	// Others may share our control group: then the job must have failed, too, and one of its processes must have been killed.
	const bool failed = a->status && s->life.why == WHY_ITSELF;
	if (failed && !now.own && !a->killed && kills_since(t, &now))
		a->starved = now;
	else if (failed && ended_oom(s->arena, t, &now, more_of(a)))
		return;
	judge_why(s, a);
}
