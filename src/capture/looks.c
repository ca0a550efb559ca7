// Looks at the machine, each on a track of its own. One child makes the first look alone, which finds the GPUs for all. The others
// are made beside each other, by children of it, in the order in which what they see dies, and the last ones alone again. Where a look
// does not come back, another child makes those that were not begun.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/door/door.h"
#include "base/lower.h"
#include "capture/parts.h"
#include "source/clerk/clerk.h"

enum { LOOK_MS = 15000, LOOKS_MOST = 32, BESIDE = 4, NAP_US = 2000, POLL_MS = 20, DIE_MS = 200 };

/** What the children say of the looks while they make them. */
struct looks_shared {
	struct look_said {
		_Atomic int64_t began, ended; // 0: not yet
		_Atomic int pid;              // who makes it
		_Atomic bool given_up;        // said by the capture: nobody waits for it any more
		struct step_result result;
	} said[LOOKS_MOST];
};

/** One of them: as the options have it, or what the capture itself looks at. */
struct look_kind {
	const char *track, *what;
	const struct capture_look *of; // NULL
	void (*own)(struct step *s, struct tape *tape);
	bool beside; // others may be made at the same time
};

struct looks_work {
	const struct taking *taking;
	const struct look_kind *looks;
	size_t n;
	struct looks_shared *shared;
	// In the child, from when it still had rights.
	const int *tracks;            // open; -1: see why
	const int *why;               // errno
	struct item_file *for_people; // LOOKS_TEXT
};

/** A track is written in place: each of its records is whole, or not there. One that is empty was never begun. -1: see errno. */
static int create_track(const struct taking *c, const struct look_kind *l)
{
	struct item_file f;
	char name[BUNDLE_NAME_MOST];
	snprintf(name, sizeof(name), BUNDLE_TRACKS "%s", l->track);
	if (item_create(c, name, &f) && !item_name(c, name))
		item_drop(c, &f);
	return f.fd;
}

/** What this user may not read: a file that was asked for, or those of a GPU that were therefore not asked for. Empty: nothing. */
static struct str refused(const struct looks_work *w, const struct look_kind *l, struct tape *tape)
{
	const struct capture_options *o = w->taking->options;
	struct str path = tape_refused(tape);
	const struct devices *devices = l->of && l->of->driver && o->devices ? o->devices(tape, o->devices_ctx) : NULL;
	for (size_t i = 0; devices && !path.n && i < devices->n; i++) {
		struct str all = devices->list[i].refused;
		path = str_split(&all, '\n');
	}
	return path;
}

static void look(const struct looks_work *w, size_t i, struct step_result *ret)
{
	const struct look_kind *l = &w->looks[i];
	const int fd = w->tracks[i];
	struct step_shared shared = { .moved = 0 };
	struct step s = { .capture = w->taking, .shared = &shared, .ctx = w->for_people };
	if (fd < 0) {
		step_end(&s, ITEM_FAILED, "%s", strerror(w->why[i]));
		*ret = shared.result;
		return;
	}
	struct tape *tape = tape_record(&(struct tape_recording){ .fd = fd,
								  .most = step_room(&s),
								  .budget = w->taking->budget,
								  .filter = capture_filter(w->taking),
								  .contents = w->taking->options->user_data == USER_DATA_ALL,
								  .dead = w->taking->dead,
								  .id = w->taking->manifest->id });
	step_end(&s, ITEM_SAVED, "%s", "");
	if (l->own)
		l->own(&s, tape);
	else
		l->of->look(tape, l->of->ctx);
	struct str path = refused(w, l, tape);
	if (path.n)
		step_end(&s, ITEM_REFUSED, STR_FMT ": %s", STR_ARG(path), strerror(EACCES));
	path = tape_unread(tape);
	if (path.n)
		step_end(&s, ITEM_CUT, STR_FMT ": not read, since another process of unhang waits for that GPU", STR_ARG(path));
	bool whole = tape_end(tape);
	int why = errno;
	if (!whole)
		step_end(&s, ITEM_CUT, "%s", why == EFBIG ? "it has more bytes than an item may have" : strerror(why));
	shared.result.bytes += tape_written(tape);
	*ret = shared.result;
	close(fd);
	tape_free(tape);
}

static void make(const struct looks_work *w, size_t i)
{
	struct look_said *said = &w->shared->said[i];
	look(w, i, &said->result);
	said->ended = now_ms();
}

static void make_in_child(const struct looks_work *w, size_t i)
{
	const int parent = (int)getpid();
	const int clerk = clerk_split();
	int pid = fork();
	if (!pid) {
		child_of(parent);
		clerk_take(clerk);
		door_leave();
		make(w, i);
		door_end();
		_exit(0);
	}
	if (clerk >= 0)
		close(clerk);
	w->shared->said[i].pid = pid > 0 ? pid : getpid();
	if (pid < 0) // there is no child, but there is this one
		make(w, i);
}

/** How many are being made by children of this one. One that was given up is killed; its end, which may never come, is not waited for. */
static unsigned running(const struct looks_work *w)
{
	unsigned n = 0;
	for (size_t i = 0; i < w->n; i++) {
		struct look_said *said = &w->shared->said[i];
		int pid = said->pid;
		if (!said->began || pid <= 0 || pid == getpid())
			continue;
		if (waitpid(pid, NULL, WNOHANG) == 0 && !said->given_up) {
			n++;
			continue;
		}
		if (said->given_up)
			kill(pid, SIGKILL);
		said->pid = -1;
		if (!said->ended) // it crashed
			said->ended = now_ms();
	}
	return n;
}

/** What cannot even be noted is not begun. */
static bool note_begin(const struct looks_work *w)
{
	_cleanup_error_ struct uh_error *err = partial_save_manifest(w->taking);
	for (size_t i = 0; err && i < w->n; i++) {
		struct look_said *said = &w->shared->said[i];
		if (said->began)
			continue;
		said->result.state = ITEM_FAILED;
		str_copy(said->result.reason, sizeof(said->result.reason), str_z(uh_error_message(err)));
		said->began = said->ended = now_ms();
	}
	return !err;
}

static void look_at_all(int fd, const void *ctx)
{
	const struct looks_work *given = ctx;
	int tracks[LOOKS_MOST], why[LOOKS_MOST];
	struct item_file text = { .fd = -1 };
	bool found = false;
	(void)fd;
	door_leave();
	close(given->taking->lock);
	if (!note_begin(given))
		return;
	for (size_t i = 0; i < given->n; i++) {
		tracks[i] = given->shared->said[i].began ? -1 : create_track(given->taking, &given->looks[i]);
		why[i] = errno;
		if (given->looks[i].own && !given->shared->said[i].began)
			item_create(given->taking, LOOKS_TEXT, &text);
	}
	const struct looks_work mine = { .taking = given->taking,
					 .looks = given->looks,
					 .n = given->n,
					 .shared = given->shared,
					 .tracks = tracks,
					 .why = why,
					 .for_people = &text },
				*w = &mine;
	prctl(PR_SET_NAME, "unhang-look");
	if (!clerk_begin(LOWER_NOGROUP)) // what takes the answers apart has no rights
		_exit(1);
	for (size_t i = 0; i < w->n; i++) {
		struct look_said *said = &w->shared->said[i];
		if (said->began)
			continue;
		// Only root's children take turns at a GPU (tape/tomb.h): those of others might all be left at one that does not answer.
		const bool beside = w->looks[i].beside && found && (clerk_reads() || geteuid() == 0);
		while (running(w) >= (beside ? BESIDE : 1))
			usleep(NAP_US);
		said->pid = getpid();
		said->began = now_ms();
		found = true;
		if (beside)
			make_in_child(w, i);
		else
			make(w, i);
	}
	while (running(w))
		usleep(NAP_US);
	clerk_end();
	fsync(w->taking->dir);
	door_end();
}

static void tell_progress(struct taking *c, const struct looks_work *w, size_t *told)
{
	size_t at = 0;
	while (at < w->n && w->shared->said[at].ended)
		at++;
	if (at != *told && at < w->n)
		step_progress(c, w->looks[at].what);
	*told = at;
}

static void note_one_late(struct taking *c, struct look_said *said, struct manifest_item *item)
{
	const struct child who = { .pid = said->pid > 0 ? said->pid : 0 };
	step_note_late(c, item, &who);
	said->given_up = true;
}

/** Notes looks that are late. false: it is one that the child itself makes, for which all others wait. */
static bool note_late(struct taking *c, const struct looks_work *w, const struct child *child, struct manifest_item *items)
{
	const bool over = now_ms() >= c->deadline || step_stopped(c);
	bool goes_on = !over;
	for (size_t i = 0; i < w->n; i++) {
		struct look_said *said = &w->shared->said[i];
		if (!said->began || said->ended || said->given_up || (!over && now_ms() - said->began < LOOK_MS))
			continue;
		goes_on &= said->pid != child->pid;
		note_one_late(c, said, &items[i]);
	}
	return goes_on;
}

/** Waits until the child has ended, or is late. */
static void wait_for(struct taking *c, const struct looks_work *w, struct child *child, struct manifest_item *items)
{
	struct text nothing = { 0 };
	size_t told = SIZE_MAX;
	do
		tell_progress(c, w, &told);
	while (child_wait(child, now_ms() + POLL_MS, 0, &nothing) == CHILD_LATE && note_late(c, w, child, items));
	text_free(&nothing);
}

/** Makes those that were not begun. */
static void run(struct taking *c, const struct looks_work *w, struct manifest_item *items)
{
	struct child child;
	bool fresh[LOOKS_MOST];
	for (size_t i = 0; i < w->n; i++)
		fresh[i] = !w->shared->said[i].began;
	if (!child_begin_free(look_at_all, w, &child)) {
		size_t first = 0;
		while (!fresh[first])
			first++;
		w->shared->said[first].began = w->shared->said[first].ended = now_ms();
		items[first].state = ITEM_FAILED;
		items[first].reason = S("no child could be started");
		return;
	}
	wait_for(c, w, &child, items);
	child_kill(&child, DIE_MS);
	for (size_t i = 0; i < w->n; i++) {
		struct look_said *said = &w->shared->said[i];
		if (!fresh[i] || !said->began || said->given_up)
			continue;
		step_note_end(c, &items[i], CHILD_GOOD, &said->result);
		items[i].took_ms = said->ended ? said->ended - said->began : 0;
		if (w->looks[i].own && said->result.whole && !step_name(c, (const char *const[]){ LOOKS_TEXT }, 1))
			items[i].state = ITEM_CUT;
	}
}

/** The first that was not begun; n: none. */
static size_t next(const struct looks_work *w)
{
	size_t i = 0;
	while (i < w->n && w->shared->said[i].began)
		i++;
	return i;
}

static void run_all(struct taking *c, const struct looks_work *w, size_t first_item)
{
	struct manifest_item *items = c->manifest->items.data + first_item;
	for (size_t at; (at = next(w)) < w->n;) {
		const char *why = step_exhausted(c);
		if (!why) {
			run(c, w, items);
			if (next(w) != at)
				continue;
			why = "unhang itself failed while it read it";
		}
		w->shared->said[at].began = now_ms();
		items[at].state = ITEM_CUT;
		items[at].reason = arena_str(c->arena, str_z(why));
	}
}

static void add(struct taking *c, struct looks_work *w, struct look_kind *list, struct look_kind l)
{
	if (w->n == LOOKS_MOST)
		return;
	list[w->n++] = l;
	step_note(c, arena_printf(c->arena, BUNDLE_TRACKS "%s", l.track).p, l.what, ITEM_RUNNING, "");
}

static void add_part(struct taking *c, struct looks_work *w, struct look_kind *list, bool last)
{
	for (size_t i = 0; i < c->options->nlooks; i++) {
		const struct capture_look *l = &c->options->looks[i];
		if (l->last == last)
			add(c, w, list, (struct look_kind){ l->track, l->what, l, NULL, !last });
	}
}

void capture_looks(struct taking *c, unsigned parts)
{
	struct look_kind list[LOOKS_MOST];
	struct looks_work w = { .taking = c, .looks = list };
	const size_t first_item = c->manifest->items.len;
	if (parts & LOOKS_FIRST) {
		add_part(c, &w, list, false);
		add(c, &w, list, (struct look_kind){ "processes", "processes that hold a GPU", NULL, capture_processes, true });
	}
	if (parts & LOOKS_LAST)
		add_part(c, &w, list, true);
	w.shared = mmap(NULL, sizeof(*w.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w.shared == MAP_FAILED)
		return;
	run_all(c, &w, first_item);
	munmap(w.shared, sizeof(*w.shared));
}
