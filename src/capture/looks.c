// Looks at the machine, each on a track of its own. One child makes them all, because they share what the first one found. Where one of
// them does not come back, another child makes the rest.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/door/door.h"
#include "base/lower.h"
#include "capture/parts.h"
#include "source/clerk/clerk.h"

enum { LOOK_MS = 15000, LOOKS_MOST = 32, POLL_MS = 20, DIE_MS = 200 };

/** What the child says of its looks while it makes them. */
struct looks_shared {
	_Atomic size_t current; // the look that it makes
	_Atomic int64_t began;  // when that began
	struct look_said {
		struct step_result result;
		int64_t took_ms;
	} said[LOOKS_MOST];
};

struct looks_work {
	const struct taking *taking;
	const struct capture_look *const *looks;
	size_t first, n;
	struct looks_shared *shared;
};

/** A track is written in place: each of its records is whole, or not there. One that is empty was never begun. -1: see errno. */
static int create_track(const struct taking *c, const struct capture_look *l)
{
	struct item_file f;
	char name[BUNDLE_NAME_MOST];
	snprintf(name, sizeof(name), BUNDLE_TRACKS "%s", l->track);
	if (item_create(c, name, &f) && !item_name(c, name))
		item_drop(c, &f);
	return f.fd;
}

static void look(const struct looks_work *w, const struct capture_look *l, int fd, struct step_result *ret)
{
	struct step_shared shared = { .moved = 0 };
	struct step s = { .capture = w->taking, .shared = &shared };
	struct tape *tape = tape_record(&(struct tape_recording){ .fd = fd,
								  .most = step_room(&s),
								  .filter = capture_filter(w->taking),
								  .contents = w->taking->options->user_data == USER_DATA_ALL,
								  .dead = w->taking->dead });
	l->look(tape, l->ctx);
	bool whole = tape_end(tape);
	int why = errno;
	if (whole)
		step_end(&s, ITEM_SAVED, "%s", "");
	else
		step_end(&s, ITEM_CUT, "%s", why == EFBIG ? "it has more bytes than an item may have" : strerror(why));
	shared.result.bytes = tape_written(tape);
	*ret = shared.result;
	close(fd);
	tape_free(tape);
}

static void fail(struct step_result *ret, int why)
{
	ret->state = ITEM_FAILED;
	snprintf(ret->reason, sizeof(ret->reason), "%s", strerror(why));
}

static void look_at_all(int fd, const void *ctx)
{
	const struct looks_work *w = ctx;
	int tracks[LOOKS_MOST], why[LOOKS_MOST];
	(void)fd;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	door_leave();
	close(w->taking->lock);
	for (size_t i = w->first; i < w->n; i++) {
		tracks[i] = create_track(w->taking, w->looks[i]);
		why[i] = errno;
	}
	prctl(PR_SET_NAME, "unhang-look");
	if (!clerk_begin(LOWER_NOGROUP)) // what takes the answers apart has no rights
		_exit(1);
	for (size_t i = w->first; i < w->n; i++) {
		struct look_said *said = &w->shared->said[i];
		w->shared->began = now_ms();
		w->shared->current = i;
		if (tracks[i] >= 0)
			look(w, w->looks[i], tracks[i], &said->result);
		else
			fail(&said->result, why[i]);
		said->took_ms = now_ms() - w->shared->began;
	}
	clerk_end();
	w->shared->current = w->n;
	fsync(w->taking->dir);
	door_end();
}

/** Waits until the child has ended, or is late with a look. */
static enum child_end wait_for(struct taking *c, const struct looks_work *w, struct child *child)
{
	const struct looks_shared *shared = w->shared;
	struct text nothing = { 0 };
	enum child_end end;
	size_t told = SIZE_MAX;
	do {
		size_t at = shared->current;
		if (at != told && at < w->n)
			step_progress(c, w->looks[at]->what);
		told = at;
		end = child_wait(child, now_ms() + POLL_MS, 0, &nothing);
	} while (end == CHILD_LATE && now_ms() < c->deadline && now_ms() - shared->began < LOOK_MS);
	text_free(&nothing);
	return end;
}

/** Makes the looks from @w->first on. Returns the first that is still to be made. */
static size_t run(struct taking *c, struct looks_work *w, struct manifest_item *items)
{
	struct child child;
	w->shared->current = w->first;
	w->shared->began = now_ms();
	if (!child_begin_free(look_at_all, w, &child)) {
		items[w->first].state = ITEM_FAILED;
		items[w->first].reason = S("no child could be started");
		return w->first + 1;
	}
	enum child_end end = wait_for(c, w, &child);
	const size_t at = w->shared->current;
	for (size_t i = w->first; i < w->n && i < at; i++) {
		step_note_end(c, &items[i], CHILD_GOOD, &w->shared->said[i].result);
		items[i].took_ms = w->shared->said[i].took_ms;
	}
	if (at < w->n && end == CHILD_LATE)
		step_note_blocked(c, &items[at], &child);
	else if (at < w->n)
		step_note_end(c, &items[at], end == CHILD_GOOD ? CHILD_CRASHED : end, &w->shared->said[at].result);
	child_kill(&child, DIE_MS);
	return at + 1;
}

static void run_all(struct taking *c, struct looks_work *w, size_t first_item)
{
	_cleanup_error_ struct uh_error *err = partial_save_manifest(c);
	struct manifest_item *items = c->manifest->items.data + first_item;
	while (w->first < w->n) {
		const char *why = err ? uh_error_message(err) : step_exhausted(c);
		if (!why) {
			w->first = run(c, w, items);
			continue;
		}
		items[w->first].state = err ? ITEM_FAILED : ITEM_CUT;
		items[w->first++].reason = arena_str(c->arena, str_z(why));
	}
	for (size_t i = 0; i < w->n; i++)
		c->used += items[i].bytes;
}

void capture_looks(struct taking *c, bool last)
{
	const struct capture_look *list[LOOKS_MOST];
	struct looks_work w = { .taking = c, .looks = list };
	const size_t first_item = c->manifest->items.len;
	for (size_t i = 0; i < c->options->nlooks && w.n < LOOKS_MOST; i++) {
		const struct capture_look *l = &c->options->looks[i];
		if (l->last != last)
			continue;
		list[w.n++] = l;
		step_note(c, arena_printf(c->arena, BUNDLE_TRACKS "%s", l->track).p, l->what, ITEM_RUNNING, "");
	}
	w.shared = mmap(NULL, sizeof(*w.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w.shared == MAP_FAILED)
		return;
	run_all(c, &w, first_item);
	munmap(w.shared, sizeof(*w.shared));
}
