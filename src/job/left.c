// Runs that are over. One that was killed together with its job cannot tell of it: the next run, or the watch, completes its report. Old ones
// go, but nothing that somebody else put beside their files: only what unhang writes into the directory of a run is removed. It is found by
// descriptors, so that no link leads elsewhere.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/save.h"
#include "job/supervisor.h"
#include "preload/format.h"
#include "store/store.h"

enum { RUNS_MOST = 4096, LEFT_MS = 20000, LEFT_POLL_MS = 100, MARK_S = 7 * 86400 };

// --- what goes ---

enum { RUNS_KEPT = 64 };

struct old_run {
	char *name; // below the state directory
	int64_t began;
};
struct old_runs {
	VEC(struct old_run) list;
};

/** What unhang writes. */
struct own_name {
	const char *name;
	bool begins; // it goes on
};
static const struct own_name of_run[] = { { "run" }, { "report.json" }, { RECORDINGS_BEGIN, true }, { 0 } };
static const struct own_name of_try[] = {
	{ STORE_BUNDLE },
	{ STORE_BUNDLE ".partial", true }, // a capture that was killed
	{ STORE_DIAGNOSIS },
	{ STORE_TEXT },
	{ JOB_OUTPUT },
	{ JOB_CONTAINER },
	{ JOB_AGENT_FILE },
	{ JOB_INPUTS },
	{ JOB_CORE, true },
	{ ALLOC_OF_JOB, true },
	{ JOB_PROCESS_CORE, true },
	{ 0 },
};

static bool is_unhangs(const struct own_name *list, struct str name)
{
	for (; list->name; list++)
		if (list->begins ? str_starts(name, str_z(list->name)) : str_is(name, list->name))
			return true;
	return false;
}

/** A file, or a directory with all that is in it. */
static void prune_at(int dir, const char *name)
{
	if (!unlinkat(dir, name, 0))
		return;
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		remove_below(fd);
	unlinkat(dir, name, AT_REMOVEDIR);
}

static void prune_own(int dir, const struct own_name *names, const struct own_name *below)
{
	_cleanup_close_ int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = dir_of(&again);
	for (const struct own_name *n = names; n->name; n++)
		save_left_over(dir, n->name, true);
	for (const char *name; (name = dir_next(d));) {
		int64_t number;
		if (is_unhangs(names, str_z(name))) {
			prune_at(dir, name);
		} else if (below && str_number(str_z(name), &number)) {
			_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (fd >= 0)
				prune_own(fd, below, NULL);
			unlinkat(dir, name, AT_REMOVEDIR);
		}
	}
}

static int left_newest_first(const void *a, const void *b)
{
	const struct old_run *x = a, *y = b;
	return x->began < y->began ? 1 : x->began > y->began ? -1 : 0;
}

/** Removes all but the newest. */
static void prune(int state, struct old_run *list, size_t n)
{
	if (n)
		qsort(list, n, sizeof(*list), left_newest_first);
	for (size_t i = RUNS_KEPT; i < n; i++) {
		_cleanup_close_ int fd = disk_open_believed(state, list[i].name, O_DIRECTORY);
		if (fd < 0 ||
		    (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)) // a job of this name was just started again
			continue;
		prune_own(fd, of_run, of_try);
		unlinkat(state, list[i].name, AT_REMOVEDIR);
	}
}

// --- what is completed ---

/** Which rank of a node saves is settled within seconds; a job that fails again a week later may have another bundle. */
static void drop_mark(int directory, const char *name)
{
	struct stat st;
	const bool ours = !fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) && !st.st_size &&
			  st.st_uid == geteuid();
	if (ours && st.st_mtime < time(NULL) - MARK_S)
		unlinkat(directory, name, 0);
}

/** A run holds a lock on its directory for as long as it run_lives. Its number may be another process's by now. */
static bool run_lives(int directory) { return flock(directory, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; }

/** A helper's answer about a try. No job of ours runs, so that this may wait. */
static void left_ask(struct supervisor *s, enum helper_kind kind, const struct job_study *study, struct run_try *last)
{
	if (!s->hands || !helper_begin(&s->helper, s->hands, kind, study, LEFT_MS))
		return;
	struct pollfd wait = { .fd = s->helper.child.fd, .events = POLLIN };
	while (!helper_go_on(&s->helper, now_ms()))
		poll(&wait, 1, LEFT_POLL_MS);
	try_take(text_str(&s->helper.answer), s->arena, last);
}

/** The directory of its last try. A link in its place would have the diagnosis written elsewhere. */
static bool make_try(const struct supervisor *other, const struct run_try *last)
{
	char name[24];
	snprintf(name, sizeof(name), "%lld", (long long)last->number);
	mkdirat(other->lock, name, 0700);
	_cleanup_close_ int fd = disk_open_believed(other->lock, name, O_DIRECTORY);
	return fd >= 0 && disk_ours(other);
}

/** Reads the recordings that it left, and removes them. */
static void left_study_left(struct supervisor *s, struct supervisor *other, struct run_try *last)
{
	const char *recordings = arena_z(s->arena, other->run->recordings);
	if (!recordings_believed(other->run->recordings, other->run->id) || !make_try(other, last))
		return;
	last->recordings = 1;
	const struct job_study study = {
		.run = other->run,
		.of = last,
		.directory = arena_printf(s->arena, "%s/%lld", other->directory, (long long)last->number).p,
		.recordings = recordings,
		.deadline_ms = LEFT_MS,
		.options = s->options,
	};
	left_ask(s, HELPER_STUDY, &study, last);
	recordings_remove(recordings);
}

/** On this machine, since it was started: what the kernel and the recordings still know of it. */
static void look_back(struct supervisor *s, struct supervisor *other, struct run_try *last)
{
	struct oom_figures now;
	oom_read_left(last->counted_in, s->arena, &now);
	if (!ended_oom(s->arena, last, &now, "; unhang was among them, or was killed with the job"))
		last->because =
			S("unhang was killed while the job ran, so it could not tell why. In a container this is mostly "
			  "the out-of-memory killer.");
	const enum run_end ended = last->ended;
	const struct str because = last->because;
	const bool counted = ended == RUN_OOM;
	struct str left = survivors_say(s->arena, arena_z(s->arena, other->run->id));
	left_study_left(s, other, last); // which may know better
	if (counted) {
		const struct job_study study = { .run = other->run, .of = last, .directory = "", .options = s->options };
		last->ended = ended;
		last->because = because;
		other->run->tries = (const struct run_try *const *)other->tries.data;
		other->run->ntries = other->tries.len;
		left_ask(s, HELPER_DECIDE, &study, last);
		last->act = RUN_STOP; // whoever starts it again is asked for his options then
	}
	last->because = arena_printf(s->arena, STR_FMT " " STR_FMT, STR_ARG(last->because), STR_ARG(left));
}

void left_complete(struct supervisor *s, struct supervisor *other)
{
	const struct run_told *r = other->run;
	struct run_try *last = other->tries.len ? other->tries.data[other->tries.len - 1] : NULL;
	const bool here = str_eq(r->host, s->run->host) && str_eq(r->boot_id, s->run->boot_id);
	if (last && last->ended && here) { // it was killed between the end of its job and its report
		const struct run_try before = *last;
		left_study_left(s, other, last);
		try_keep_end(last, &before);
	}
	if (!last || last->ended)
		return;
	last->ended = RUN_KILLED;
	if (!str_eq(r->host, s->run->host))
		last->because = arena_printf(s->arena, "unhang was killed while the job ran on " STR_FMT ".", STR_ARG(r->host));
	else if (!str_eq(r->boot_id, s->run->boot_id))
		last->because = S("The machine was started again while the job ran.");
	else
		look_back(s, other, last);
}

/** What a run that was killed left: its last try has no end. */
static void complete_run(struct supervisor *s, struct supervisor *other)
{
	struct run_told *r = other->run;
	left_complete(s, other);
	r->status = 128 + SIGKILL;
	disk_save(other);
	const struct run_try *last = other->tries.len ? other->tries.data[other->tries.len - 1] : NULL;
	const ptrdiff_t at = last ? str_find(last->because, S(SURVIVORS)) : -1;
	struct str left = at < 0 ? (struct str){ 0 } : str_from(last->because, (size_t)at);
	s->run->notes = arena_printf(
		s->arena, STR_FMT "%sThe run " STR_FMT " was killed before it could report; its report is now in %s.%s" STR_FMT,
		STR_ARG(s->run->notes), s->run->notes.n ? " " : "", STR_ARG(r->id), other->directory, left.n ? " " : "",
		STR_ARG(left));
}

/** What lies in the state directory under this name. Only a run whose files nobody else can have written is believed; a copy of one, which has
 * another name, is its owner's. */
static void left_look(struct supervisor *s, int state, const char *name, struct old_runs *over)
{
	static const struct uh_run_options none;
	struct run_told r = { .status = -1 };
	_cleanup_close_ int directory = disk_open_believed(state, name, O_DIRECTORY);
	struct supervisor other = { .options = &none, .tell = s->tell, .arena = s->arena, .run = &r, .lock = directory };
	other.directory = arena_printf(s->arena, "%s/%s", s->options->state_dir, name).p;
	run_read(&other, &r);
	if (str_is(r.id, name)) {
		const bool here = str_eq(r.host, s->run->host), this_boot = str_eq(r.boot_id, s->run->boot_id);
		if (r.status < 0 && here && (!this_boot || !run_lives(directory))) // it was killed
			complete_run(s, &other);
		if (r.status >= 0)
			vec_push(&over->list, ((struct old_run){ arena_z(s->arena, r.id), r.began }));
		// Processes may have been in its group when it ended.
		for (size_t i = 0; r.status >= 0 && this_boot && i < other.tries.len; i++)
			group_remove_noted(other.tries.data[i]->group, r.id);
	}
	vec_free(&other.tries);
}

void disk_complete(struct supervisor *s)
{
	_cleanup_dir_ DIR *d = opendir(s->options->state_dir);
	struct old_runs over = { 0 };
	for (size_t i = 0; i < s->tries.len; i++)
		group_remove_noted(s->tries.data[i]->group, s->run->id); // of one that was put back into the queue
	for (const char *name; over.list.len < RUNS_MOST && (name = dir_next(d));) {
		if (name[0] == '.' || str_is(s->run->id, name))
			continue;
		if (str_ends(str_z(name), S(BUNDLE_MARK)))
			drop_mark(dirfd(d), name);
		else
			left_look(s, dirfd(d), name, &over);
	}
	if (d)
		prune(dirfd(d), over.list.data, over.list.len);
	vec_free(&over.list);
}
