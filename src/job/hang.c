// Whether the job hangs. Two sources tell: the heads of its recordings, some kilobytes of each file some times a second (votes), and, when
// they stand still, looks at the GPUs themselves; or a call into the runtime does not return.
#include <dirent.h>
#include <fcntl.h>

#include "evidence/recording/head.h"
#include "evidence/recording/places.h"
#include "evidence/recording/recording.h"
#include "evidence/recording/waits.h"
#include "gpu/memory/map.h"
#include "source/probe.h"
#include "job/supervisor.h"

// Votes on whether the job moves, from the heads of its recordings: some kilobytes of each file, some times a second.

enum { RECORDINGS_MOST = 1024, FRESH_MS = 2000, CALLS_MS = 500, LASTS_MS = 1000 };

/** Nobody holds the lock of a recording whose process has ended, however it ended. */
static bool recording_lives(int fd, const struct rec_header *h)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	return h->state == RECORDING_ON && (fcntl(fd, F_GETLK, &lock) || lock.l_type != F_UNLCK);
}

/** A fault holds the process for us: we are here. */
static void votes_answer(struct votes *v, int directory, const char *name)
{
	struct held h;
	_cleanup_close_ int fd =
		v->nholds < HOLDS_KEPT ? openat(directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	if (fd >= 0 && hold_look(fd, &h) && hold_asks(&h) && hold_answer(fd, &h))
		v->holds[v->nholds++] = take_fd(&fd);
}

int64_t votes_held(const struct votes *v)
{
	int64_t left = INT64_MAX;
	for (size_t i = 0; i < v->nholds; i++) {
		struct held h;
		if (!hold_look(v->holds[i], &h))
			continue;
		if (h.state < REC_HOLD_HELD)
			return -1;
		left = h.state == REC_HOLD_HELD ? (h.left_ms < left ? h.left_ms : left) : 0;
	}
	return left == INT64_MAX ? 0 : left;
}

void votes_release(struct votes *v)
{
	for (size_t i = 0; i < v->nholds; i++) {
		struct held h;
		if (hold_look(v->holds[i], &h))
			hold_release(v->holds[i], &h);
		cleanup_close(&v->holds[i]);
	}
	v->nholds = 0;
}

static void votes_note(struct pid_list *p, int64_t pid)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i] == pid)
			return;
	if (p->n < PIDS_MOST)
		p->list[p->n++] = pid;
}

/** Whether a thread of it is inside of a call for longer than such calls last. */
static bool votes_call_of(int fd, const struct rec_header *h, struct votes_seen *l)
{
	struct votes_call own = { .pid = h->pid, .rank = h->rank };
	if (!l->calls || !recording_call(fd, h, &own.of) || own.of.age_ms < LASTS_MS)
		return false;
	if (own.of.age_ms > l->call.of.age_ms)
		l->call = own;
	return true;
}

static void look_at_recording(struct votes *v, int directory, const char *name, struct votes_seen *l)
{
	struct rec_header h;
	struct recorded_pace p;
	_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || !recording_head(fd, &h)) {
		l->lost = true;
		return;
	}
	if (h.hold >= REC_HOLD_ASKED && h.hold <= REC_HOLD_HELD && h.answered != h.holds)
		votes_answer(v, directory, name);
	votes_note(&v->computed, h.pid);
	l->recordings++;
	l->gap = l->gap || h.torn_queues || h.state == RECORDING_ASIDE;
	l->removed += h.removed;
	l->clock += h.clocks[h.newest & 1].boot_ns;
	const bool alive = recording_lives(fd, &h), inside = alive && votes_call_of(fd, &h, l);
	if (!recording_pace(fd, &p))
		return;
	l->sum += p.taken + p.written;
	l->packets += p.written;
	l->waiting += alive && (p.busy || inside);
	l->working += alive && p.queues && !p.busy && !inside;
}

void votes_look(struct votes *v, const char *directory, int64_t now)
{
	struct votes_seen l = { .calls = now >= v->calls_due || v->seen.call.of.call };
	_cleanup_dir_ DIR *d = opendir(directory);
	for (const char *name; l.recordings < RECORDINGS_MOST && (name = dir_next(d));)
		if (recording_named(str_z(name)))
			look_at_recording(v, dirfd(d), name, &l);
	// A process whose queues are empty works on the host, and others may wait for it on their GPUs: that is no hang of a GPU.
	l.in_flight = l.waiting && !l.working;
	// A process that was stopped records nothing: that its queues stand says nothing. A busy machine lets a recorder wait for a moment.
	if (l.clock != v->seen.clock)
		v->ticked = now;
	if (l.sum != v->seen.sum || l.recordings != v->seen.recordings || !l.in_flight || now - v->ticked > FRESH_MS)
		v->moved = now;
	v->seen = l;
	v->calls_due = l.calls ? now + CALLS_MS : v->calls_due;
}

// Whether the job hang_found: its queues stand, and the GPU does too; or a call into the runtime does not return.

enum {
	LOOK_MS = 15000,
	LOOK_MIN_MS = 1000,
	LATE_MS = 4000, // behind --hang-after
	LOOK_PAUSE_MOST_MS = 300000,
	UNKNOWN_TIMES = 10, // so much longer a queue must stand where nobody can look at the GPU
};

static void hang_found(struct supervisor *s, struct job_try *a, struct str more)
{
	a->told->because = arena_printf(s->arena, "Work was on the GPU, and no queue of the job moved for %lld s; " STR_FMT,
					(long long)(now_ms() - a->votes.moved) / 1000, STR_ARG(more));
	loop_step(s, LIFE_IS_HANG);
}

/** So long a call may last: memory of the host is cleared before it is handed out. */
static int64_t call_patience(const struct supervisor *s, const struct recorded_call *c)
{
	enum { BYTES_PER_MS = 256 << 10 };
	return s->hang_ms + (int64_t)(c->a[1] / BYTES_PER_MS);
}

/** A thread is inside of a call that does not return, and nothing else of the job moves. */
static void hang_in_call(struct supervisor *s, struct job_try *a, int64_t now)
{
	const struct votes_call *c = &a->votes.seen.call;
	if (c->of.age_ms < call_patience(s, &c->of) || now - a->votes.moved < s->hang_ms / 2)
		return;
	const struct str size =
		c->of.a[1] && c->of.call != CALL_QUEUE_CREATE ? map_size_say(s->arena, c->of.a[1]) : (struct str){ 0 };
	const struct str kernel = thread_wait_say(s->arena, NULL, c->pid, c->of.tid);
	probe_readers_end(); // it would count as a process of the job
	a->told->pid = c->pid;
	a->told->rank = c->rank;
	a->told->ended = RUN_RUNTIME_HANG;
	a->told->because =
		arena_printf(s->arena,
			     "The thread %.*s (%u) of process %lld%s has been inside %s%s" STR_FMT
			     "%s for %lld s, and nothing of the job moves.%s" STR_FMT "%s",
			     (int)sizeof(c->of.name), c->of.name, c->of.tid, (long long)c->pid,
			     c->rank >= 0 ? arena_printf(s->arena, ", rank %lld,", (long long)c->rank).p : "",
			     call_name(c->of.call), size.n ? " of " : "", STR_ARG(size),
			     c->of.call == CALL_POOL_ALLOCATE ? " (hipMalloc or the like)" : "", (long long)c->of.age_ms / 1000,
			     kernel.n ? " In the kernel it waits in " : "", STR_ARG(kernel), kernel.n ? "." : "");
	loop_step(s, LIFE_IS_CALL);
}

/** The queues stand. The GPU is looked at, several times: knowledge/progress.know says how long it has to stand, too. */
void hang_look(struct supervisor *s, struct job_try *a, int64_t now)
{
	const int64_t after = s->hang_ms;
	struct job_looks *l = &a->looks;
	if (l->moved != a->votes.moved)
		*l = (struct job_looks){ .moved = a->votes.moved, .due = a->votes.moved + after / 2, .pause = after / 2 };
	if (!after || !a->votes.seen.in_flight || s->life.command == COMMAND_STOPPED)
		return;
	if (a->votes.seen.call.of.call) {
		hang_in_call(s, a, now);
		return;
	}
	if (now < l->due)
		return;
	if (l->blind) {
		hang_found(s, a, S("nobody could look at the GPU itself."));
		return;
	}
	const struct job_look look = { .recordings = s->recordings,
				       .stood_ms = now - l->moved,
				       .seen_ms = l->since ? now - l->since : 0,
				       .hung_after = s->options->hang_after ? (after < 4000 ? 1 : after / 2000) : 0 };
	// Who said how long it may stand does not wait for a look that takes longer: a look without an answer saw nothing.
	const int64_t left = s->options->hang_after ? l->moved + after + LATE_MS - now : LOOK_MS;
	if (helper_begin(&s->helper, s->hands, HELPER_LOOK, &look,
			 left < LOOK_MIN_MS ? LOOK_MIN_MS :
			 left < LOOK_MS     ? left :
					      LOOK_MS))
		loop_step(s, LIFE_IS_QUIET);
}

static struct str look_says(struct str text, struct str key)
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
	const struct str answer = text_str(&s->helper.answer), pace = look_says(answer, S("pace ")),
			 look = look_says(answer, S("look ")), says = look_says(answer, S("says "));
	const int64_t after = s->hang_ms;
	struct job_looks *l = &a->looks;
	loop_step(s, LIFE_IS_LOOKED);
	votes_look(&a->votes, s->recordings, now);
	if (!a->votes.seen.in_flight || a->votes.moved != l->moved)
		return;
	if (str_is(look, "moved") || str_is(pace, "working")) { // a long kernel, which works
		a->votes.moved = now;
		return;
	}
	if (str_is(look, "stood"))
		l->saw = arena_printf(s->arena, "the GPU does not move either: " STR_FMT " (" STR_FMT ")", STR_ARG(says),
				      STR_ARG(look_says(answer, S("votes "))));
	// A look that did not answer in time takes nothing back.
	if (!answer.n && l->since && s->options->hang_after && now - l->moved >= after) {
		hang_found(s, a, l->saw);
		return;
	}
	l->blind = !str_is(look, "stood");
	l->since = l->blind ? 0 : l->since ? l->since : now;
	l->due = l->blind ? l->moved + after * (s->options->hang_after ? 1 : UNKNOWN_TIMES) : now + l->pause;
	if (now - l->moved >= after && l->pause < LOOK_PAUSE_MOST_MS)
		l->pause *= 2;
	if (str_is(pace, "hung") && now - l->moved >= after)
		hang_found(s, a, l->saw);
}
