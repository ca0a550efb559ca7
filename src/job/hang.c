// Whether the job hangs: its queues stand, and the GPU does too; or a call into the runtime does not return.
#include "evidence/recording/recording.h"
#include "job/decide.h"
#include "job/parts.h"

enum {
	LOOK_MS = 15000,
	LOOK_MIN_MS = 1000,
	LATE_MS = 4000, // behind --hang-after
	LOOK_PAUSE_MOST_MS = 300000,
	UNKNOWN_TIMES = 10, // so much longer a queue must stand where nobody can look at the GPU
};

static void hangs(struct supervisor *s, struct job_try *a, struct str more)
{
	a->told->because = arena_printf(s->arena, "Work was on the GPU, and no queue of the job moved for %lld s; " STR_FMT,
					(long long)(now_ms() - a->votes.moved) / 1000, STR_ARG(more));
	loop_end(s, a, WHY_HANG);
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
	const struct str size =
		c->of.a[1] && c->of.call != CALL_QUEUE_CREATE ? job_size_say(s->arena, (int64_t)c->of.a[1]) : (struct str){ 0 };
	a->told->pid = c->pid;
	a->told->rank = c->rank;
	a->told->ended = S("runtime-hang");
	a->told->because =
		arena_printf(s->arena,
			     "The thread %.*s (%u) of process %lld%s has been inside %s%s" STR_FMT
			     " for %lld s, and nothing of the job moves.",
			     (int)sizeof(c->of.name), c->of.name, c->of.tid, (long long)c->pid,
			     c->rank >= 0 ? arena_printf(s->arena, ", rank %lld,", (long long)c->rank).p : "",
			     call_name(c->of.call), size.n ? " of " : "", STR_ARG(size), (long long)c->of.age_ms / 1000);
	loop_end(s, a, WHY_CALL);
}

/** The queues stand. The GPU is looked at, several times: knowledge/progress.know says how long it has to stand, too. */
void hang_look(struct supervisor *s, struct job_try *a, int64_t now)
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

static struct str answered(struct str text, struct str key)
{
	struct str value;
	while (text.n)
		if (str_behind(str_split(&text, '\n'), key, &value))
			return value;
	return (struct str){ 0 };
}

/** What the look at the GPUs said. */
void hang_take_look(struct supervisor *s, struct job_try *a, int64_t now)
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
