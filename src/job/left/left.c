// Runs that are over. One that was killed together with its job cannot tell of it: the next run, or the watch, completes its report.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "job/parts.h"

enum { RUNS_MOST = 4096, LEFT_MS = 20000, LEFT_POLL_MS = 100, MARK_S = 7 * 86400 };

/** Which rank of a node saves is settled within seconds; a job that fails again a week later may have another bundle. */
static void drop_mark(int directory, const char *name)
{
	struct stat st;
	const bool ours = !fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) && !st.st_size &&
			  st.st_uid == geteuid();
	if (ours && st.st_mtime < time(NULL) - MARK_S)
		unlinkat(directory, name, 0);
}

/** A run holds a lock on its directory for as long as it lives. Its number may be another process's by now. */
static bool lives(int directory) { return flock(directory, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; }

static bool was_killed(const struct run_told *r, const struct run_told *now, int directory)
{
	if (r->status >= 0 || !r->id.n || !str_eq(r->host, now->host))
		return false;
	return !str_eq(r->boot_id, now->boot_id) || !lives(directory);
}

/** A helper's answer about a try. No job of ours runs, so that this may wait. */
static void ask(struct supervisor *s, enum helper_kind kind, const struct job_study *study, struct run_try *last)
{
	const struct helper_task task = { .hands = s->hands, .kind = kind, .study = study };
	if (!s->hands || !helper_begin(&s->helper, &task, LEFT_MS))
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
static void study_left(struct supervisor *s, struct supervisor *other, struct run_try *last)
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
	ask(s, HELPER_STUDY, &study, last);
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
	const struct str ended = last->ended, because = last->because;
	const bool counted = str_is(ended, "oom");
	struct str left = survivors_say(s->arena, arena_z(s->arena, other->run->id));
	study_left(s, other, last); // which may know better
	if (counted) {
		const struct job_study study = { .run = other->run, .of = last, .directory = "", .options = s->options };
		last->ended = ended;
		last->because = because;
		other->run->tries = (const struct run_try *const *)other->tries.data;
		other->run->ntries = other->tries.len;
		ask(s, HELPER_DECIDE, &study, last);
		last->act = S("stop"); // whoever starts it again is asked for his options then
	}
	last->because = arena_printf(s->arena, STR_FMT " " STR_FMT, STR_ARG(last->because), STR_ARG(left));
}

/** It was killed between the end of its job and its report. Only what the status leaves open is the recordings' to say. */
static void study_ended(struct supervisor *s, struct supervisor *other, struct run_try *last)
{
	const struct str ended = last->ended, because = last->because;
	study_left(s, other, last);
	if (str_is(ended, "exit") || str_is(ended, "signal"))
		return;
	last->ended = ended;
	last->because = because;
}

void left_complete(struct supervisor *s, struct supervisor *other)
{
	const struct run_told *r = other->run;
	struct run_try *last = other->tries.len ? other->tries.data[other->tries.len - 1] : NULL;
	const bool here = str_eq(r->host, s->run->host) && str_eq(r->boot_id, s->run->boot_id);
	if (last && last->ended.n && here)
		study_ended(s, other, last);
	if (!last || last->ended.n)
		return;
	last->ended = S("killed");
	if (!str_eq(r->host, s->run->host))
		last->because = arena_printf(s->arena, "unhang was killed while the job ran on " STR_FMT ".", STR_ARG(r->host));
	else if (!str_eq(r->boot_id, s->run->boot_id))
		last->because = S("The machine was started again while the job ran.");
	else
		look_back(s, other, last);
}

/** What a run that was killed left: its last try has no end. */
static void complete(struct supervisor *s, struct supervisor *other)
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

struct old_runs {
	VEC(struct old_run) list;
};

/** What lies in the state directory under this name. Only a run whose files nobody else can have written is believed; a copy of one, which has
 * another name, is its owner's. */
static void look_at(struct supervisor *s, int state, const char *name, struct old_runs *over)
{
	static const struct job_options none;
	struct run_told r = { .status = -1 };
	_cleanup_close_ int directory = disk_open_believed(state, name, O_DIRECTORY);
	struct supervisor other = { .options = &none, .tell = s->tell, .arena = s->arena, .run = &r, .lock = directory };
	other.directory = arena_printf(s->arena, "%s/%s", s->options->state_dir, name).p;
	run_read(&other, &r);
	if (str_is(r.id, name)) {
		if (was_killed(&r, s->run, directory))
			complete(s, &other);
		if (r.status >= 0)
			vec_push(&over->list, ((struct old_run){ arena_z(s->arena, r.id), r.began }));
		// Processes may have been in its group when it ended.
		for (size_t i = 0; r.status >= 0 && str_eq(r.boot_id, s->run->boot_id) && i < other.tries.len; i++)
			group_remove_noted(other.tries.data[i]->group, r.id);
	}
	vec_free(&other.tries);
}

void disk_complete(struct supervisor *s)
{
	DIR *d = opendir(s->options->state_dir);
	struct old_runs over = { 0 };
	for (size_t i = 0; i < s->tries.len; i++)
		group_remove_noted(s->tries.data[i]->group, s->run->id); // of one that was put back into the queue
	for (struct dirent *e = d ? readdir(d) : NULL; e && over.list.len < RUNS_MOST; e = readdir(d)) {
		if (e->d_name[0] == '.' || str_is(s->run->id, e->d_name))
			continue;
		if (str_ends(str_z(e->d_name), S(BUNDLE_MARK)))
			drop_mark(dirfd(d), e->d_name);
		else
			look_at(s, dirfd(d), e->d_name, &over);
	}
	if (d)
		prune(dirfd(d), over.list.data, over.list.len);
	if (d)
		closedir(d);
	vec_free(&over.list);
}
