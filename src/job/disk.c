// A run on the disk: a directory with `run`, which has all its tries, and report.json. `run` is written before the job starts, so that a run
// that is killed together with its job can be told by the next one.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/print.h"
#include "base/save.h"
#include "job/parts.h"

enum {
	VALUE_MOST = 8192,
	FILE_MOST = 4 << 20,
	TRIES_MOST = 1000,
	RUNS_KEPT = 64,
	RUNS_MOST = 4096,
	LEFT_MS = 20000,
	LEFT_POLL_MS = 100
};

#define TRY_BEGINS "try"
enum { RUN_PIECE = 16 << 10 };

struct disk_key {
	const char *key;
	size_t offset;
	bool number;
};

#define TEXT(type, name)                                                                                                       \
	{                                                                                                                      \
#name, offsetof(struct type, name), false                                                                      \
	}
#define NUMBER(type, name)                                                                                                     \
	{                                                                                                                      \
#name, offsetof(struct type, name), true                                                                       \
	}
#define T(name) TEXT(run_try, name)
#define N(name) NUMBER(run_try, name)
static const struct disk_key try_keys[] = {
	N(number),      N(level),        N(began),       N(ran_ms),       T(filter),      T(changes), T(ended),
	N(exit_code),   N(signal),       T(because),     T(class),        T(title),       T(fault),   T(gpu),
	T(beside),      T(kernel),       T(symbol),      T(place),        T(offset),      N(packet),  N(launch),
	N(rank),        N(pid),          N(launches),    N(recordings),   T(fingerprint), T(kind),    T(bundle),
	T(diagnosis),   T(lacking),      N(memory_peak), N(memory_limit), N(oom_kills),   T(left),    T(holders),
	T(checkpoint),  N(lost_ms),      T(row),         T(act),          T(reason),      T(propose), N(next_level),
	T(next_filter), T(next_changes), { 0 },
};
#undef T
#undef N
#define T(name) TEXT(run_told, name)
#define N(name) NUMBER(run_told, name)
static const struct disk_key run_keys[] = {
	T(id),       T(host),  T(boot_id), T(directory), T(command),  T(launcher),   T(job),    N(rank),  N(world),
	N(restarts), N(began), N(pid),     N(status),    T(recorder), T(recordings), T(before), T(notes), { 0 },
};
#undef T
#undef N

static void object_text(const void *object, const struct disk_key *keys, struct text *to)
{
	for (const struct disk_key *k = keys; k->key; k++) {
		const void *member = (const char *)object + k->offset;
		if (k->number) {
			text_printf(to, "%s %lld\n", k->key, (long long)*(const int64_t *)member);
			continue;
		}
		struct str value = *(const struct str *)member;
		if (!value.n)
			continue;
		text_printf(to, "%s ", k->key);
		text_add_safe(to, str_cut(value, VALUE_MOST)); // a line is one value
		text_add(to, S("\n"));
	}
}

static void object_take(struct str text, struct arena *a, void *object, const struct disk_key *keys)
{
	while (text.n) {
		struct str value = str_split(&text, '\n'), key = str_word(&value);
		int64_t number;
		value = str_cut(str_trim(value), VALUE_MOST);
		for (const struct disk_key *k = keys; k->key; k++) {
			void *member = (char *)object + k->offset;
			if (!str_is(key, k->key))
				continue;
			if (!k->number)
				*(struct str *)member = arena_str(a, value);
			else if (str_number(value, &number))
				*(int64_t *)member = number;
		}
	}
}

void try_text(const struct run_try *t, struct text *to) { object_text(t, try_keys, to); }
void try_take(struct str text, struct arena *a, struct run_try *t) { object_take(text, a, t, try_keys); }
void run_text(const struct run_told *r, struct text *to) { object_text(r, run_keys, to); }
void run_take(struct str text, struct arena *a, struct run_told *r) { object_take(text, a, r, run_keys); }

struct run_try *try_new(struct arena *a)
{
	struct run_try *t = arena_alloc(a, sizeof(*t));
	*t = (struct run_try){ .ran_ms = -1,
			       .exit_code = -1,
			       .signal = -1,
			       .packet = -1,
			       .launch = -1,
			       .rank = -1,
			       .pid = -1,
			       .launches = -1,
			       .recordings = -1,
			       .memory_peak = -1,
			       .memory_limit = -1,
			       .oom_kills = -1,
			       .lost_ms = -1,
			       .next_level = -1 };
	return t;
}

/** A job that failed may take the machine with it in the next moment; who waits for the end of a good one need not wait for the disk. */
static bool ended_well(const struct run_try *t) { return str_is(t->ended, "done"); }

static struct uh_error *save_report(const struct run_told *r, const char *path)
{
	const struct run_try *last = r->ntries ? r->tries[r->ntries - 1] : NULL;
	const bool soon = !last || !last->ended.n || ended_well(last);
	char *p = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&p, &n);
	if (!out)
		return uh_error_os(errno, "%s", path);
	report_run(r, true, 0, out);
	fclose(out);
	struct uh_error *err = (soon ? save_soon : save_file)(AT_FDCWD, path, (struct str){ p, n }, 0640);
	free(p);
	return err;
}

static void told(const struct supervisor *s, struct uh_error *err)
{
	if (err)
		loop_tell(s, str_z(uh_error_message(err)));
	uh_error_free(err);
}

/** One file, because each costs the start of the job some milliseconds until it is on the disk. */
void disk_note(const struct supervisor *s)
{
	const bool soon = s->tries.len && ended_well(s->tries.data[s->tries.len - 1]);
	struct arena a = { 0 };
	struct text t = { 0 };
	run_text(s->run, &t);
	for (size_t i = 0; i < s->tries.len; i++) {
		text_add(&t, S(TRY_BEGINS "\n"));
		try_text(s->tries.data[i], &t);
	}
	const char *path = arena_printf(&a, "%s/run", s->directory).p;
	told(s, (soon ? save_soon : save_file)(AT_FDCWD, path, text_str(&t), 0640));
	text_free(&t);
	arena_free(&a);
}

void disk_status(const struct supervisor *s)
{
	s->run->tries = (const struct run_try *const *)s->tries.data;
	s->run->ntries = s->tries.len;
	if (s->options->status_file)
		told(s, save_report(s->run, s->options->status_file));
}

void disk_report(const struct supervisor *s)
{
	struct arena a = { 0 };
	disk_status(s);
	told(s, save_report(s->run, arena_printf(&a, "%s/report.json", s->directory).p));
	arena_free(&a);
}

void disk_save(const struct supervisor *s)
{
	disk_note(s);
	disk_report(s);
}

static struct str read_run(struct arena *a, const char *directory)
{
	_cleanup_close_ int fd = open(arena_printf(a, "%s/run", directory).p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct text t = { 0 };
	ssize_t n;
	while (fd >= 0 && t.n < FILE_MOST && (n = read(fd, text_room(&t, RUN_PIECE), RUN_PIECE)) > 0)
		t.n += (size_t)n;
	struct str kept = arena_str(a, text_str(&t));
	text_free(&t);
	return kept;
}

/** The run, and its tries behind it. */
static void take_all(struct str text, struct supervisor *s, struct run_told *r)
{
	const struct str mark = S("\n" TRY_BEGINS "\n");
	ptrdiff_t at = str_find(text, mark);
	run_take(at < 0 ? text : str_cut(text, (size_t)at), s->arena, r);
	while (at >= 0 && s->tries.len < TRIES_MOST) {
		text = str_from(text, (size_t)at + mark.n);
		at = str_find(text, mark);
		struct run_try *t = try_new(s->arena);
		try_take(at < 0 ? text : str_cut(text, (size_t)at), s->arena, t);
		vec_push(&s->tries, t);
	}
}

/** Makes @path and the directories above it. In /var/lib/unhang updates of the knowledge lie, too, which are for everybody. */
static struct uh_error *make_directories(const char *path)
{
	const bool made = make_above(AT_FDCWD, path, geteuid() ? 0700 : 0755) && (!mkdir(path, 0700) || errno == EEXIST);
	return made ? NULL : uh_error_os(errno, "%s", path);
}

struct uh_error *disk_begin(struct supervisor *s)
{
	s->directory = arena_printf(s->arena, "%s/" STR_FMT, s->options->state_dir, STR_ARG(s->run->id)).p;
	s->run->directory = str_z(s->directory);
	struct uh_error *cannot = make_directories(s->directory), *err = NULL;
	if (cannot)
		err = uh_error_new("the job was not started: %s; --state-dir names another place for the files of the run",
				   uh_error_message(cannot));
	uh_error_free(cannot);
	struct run_told before = { 0 };
	s->lock = err ? -1 : open(s->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->lock >= 0)
		flock(s->lock, LOCK_EX | LOCK_NB);
	if (!err)
		take_all(read_run(s->arena, s->directory), s, &before);
	return err;
}

void directory_empty(const char *path)
{
	DIR *d = opendir(path);
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}

bool disk_first_of_node(const struct supervisor *s)
{
	struct arena a = { 0 };
	const struct run_told *r = s->run;
	if (r->rank < 0 || r->world < 2 || !r->job.n)
		return true;
	// The name of the run without its rank is the job's.
	const ptrdiff_t at = str_find(r->id, S("-rank"));
	const char *path = arena_printf(&a, "%s/" STR_FMT ".%lld.bundle", s->options->state_dir,
					STR_ARG(str_cut(r->id, at < 0 ? r->id.n : (size_t)at)), (long long)r->restarts)
				   .p;
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	const bool first = fd >= 0 || errno != EEXIST;
	if (fd >= 0)
		close(fd);
	arena_free(&a);
	return first;
}

// --- runs that are over ---

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)where;
	return kind == FTW_DP ? rmdir(path) : unlink(path);
}

struct old_run {
	char *directory;
	int64_t began;
};

static int newest_first(const void *a, const void *b)
{
	const struct old_run *x = a, *y = b;
	return x->began < y->began ? 1 : x->began > y->began ? -1 : 0;
}

/** The newest stay. */
static void vacuum(struct old_run *list, size_t n)
{
	if (n)
		qsort(list, n, sizeof(*list), newest_first);
	for (size_t i = RUNS_KEPT; i < n; i++)
		nftw(list[i].directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/** A run holds a lock on its directory for as long as it lives. Its number may be another process's by now. */
static bool lives(const char *directory)
{
	_cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
}

static bool was_killed(const struct run_told *r, const struct run_told *now, const char *directory)
{
	if (r->status >= 0 || !r->id.n || !str_eq(r->host, now->host))
		return false;
	return !str_eq(r->boot_id, now->boot_id) || !lives(directory);
}

/** Reads the recordings that it left, and removes them. No job of ours runs, so that this may wait. */
static void study_left(struct supervisor *s, struct supervisor *other, struct run_try *last)
{
	const char *recordings = arena_z(s->arena, other->run->recordings);
	struct stat st;
	if (!*recordings || lstat(recordings, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
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
	const struct helper_task task = { .hands = s->hands, .kind = HELPER_STUDY, .study = &study };
	mkdir(study.directory, 0700);
	if (s->hands && helper_begin(&s->helper, &task, LEFT_MS)) {
		struct pollfd wait = { .fd = s->helper.child.fd, .events = POLLIN };
		while (!helper_go_on(&s->helper, now_ms()))
			poll(&wait, 1, LEFT_POLL_MS);
		try_take(text_str(&s->helper.answer), s->arena, last);
	}
	directory_empty(recordings);
	rmdir(recordings);
}

/** What a run that was killed left: its last try has no end. */
static void complete(struct supervisor *s, struct supervisor *other)
{
	struct run_told *r = other->run;
	struct run_try *last = other->tries.len ? other->tries.data[other->tries.len - 1] : NULL;
	if (last && !last->ended.n) {
		last->ended = S("killed");
		const bool same = str_eq(r->boot_id, s->run->boot_id);
		struct str left = same ? survivors_say(s->arena, arena_z(s->arena, r->id)) : (struct str){ 0 };
		last->because =
			same ? S("unhang was killed while the job ran, so it could not tell why. In a container this is mostly "
				 "the out-of-memory killer.") :
			       S("The machine was started again while the job ran.");
		study_left(s, other, last); // which may know better
		last->because =
			arena_printf(s->arena, STR_FMT "%s" STR_FMT, STR_ARG(last->because), same ? " " : "", STR_ARG(left));
	}
	r->status = 128 + SIGKILL;
	disk_save(other);
	s->run->notes = arena_printf(
		s->arena, STR_FMT "%sThe run " STR_FMT " was killed before it could report; its report is now in %s.",
		STR_ARG(s->run->notes), s->run->notes.n ? " " : "", STR_ARG(r->id), other->directory);
}

void disk_complete(struct supervisor *s)
{
	DIR *d = opendir(s->options->state_dir);
	static const struct job_options none;
	VEC(struct old_run) over = { 0 };
	for (struct dirent *e = d ? readdir(d) : NULL; e && over.len < RUNS_MOST; e = readdir(d)) {
		struct run_told r = { .status = -1 };
		if (e->d_name[0] == '.' || str_is(s->run->id, e->d_name))
			continue;
		char *directory = arena_z(s->arena, arena_printf(s->arena, "%s/%s", s->options->state_dir, e->d_name));
		struct supervisor other = {
			.options = &none, .tell = s->tell, .arena = s->arena, .run = &r, .directory = directory
		};
		take_all(read_run(s->arena, directory), &other, &r);
		if (r.id.n && was_killed(&r, s->run, directory))
			complete(s, &other);
		if (r.id.n && r.status >= 0)
			vec_push(&over, ((struct old_run){ directory, r.began }));
		vec_free(&other.tries);
	}
	if (d)
		closedir(d);
	vacuum(over.data, over.len);
	vec_free(&over);
}
