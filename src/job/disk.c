// A run on the disk: a directory with `run`, which has all its tries, and report.json. `run` is written before the job starts, so that a run
// that is killed together with its job can be told by the next one.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/door/caller.h"
#include "base/save.h"
#include "job/supervisor.h"
#include "source/source.h"
#include "store/record.h"

enum {
	FILE_MOST = 4 << 20,
	TRIES_MOST = 1000,
	NAMES_MOST = 1000, // runs of one job that are kept; far more than that
	HOST_MOST = 64,
};

enum { RUN_PIECE = 16 << 10 };

#define T(name) RECORD_TEXT(run_try, name)
#define N(name) RECORD_NUMBER(run_try, name)
#define W(name) RECORD_WORD(run_try, name, run_##name##_words)
#define run_next_changes_words run_changes_words
static const struct record_key try_keys[] = {
	N(number),       N(level),        N(began),     N(ran_ms), T(filter),     W(changes),    W(ended),      N(exit_code),
	N(signal),       T(because),      T(class),     T(title),  T(fault),      T(gpu),        T(beside),     T(kernel),
	T(symbol),       T(place),        T(offset),    N(packet), N(launch),     N(rank),       N(pid),        N(launches),
	N(recordings),   T(fingerprint),  T(kind),      T(bundle), T(diagnosis),  T(output),     T(words),      T(lacking),
	N(memory_peak),  N(memory_limit), N(oom_kills), T(group),  T(counted_in), N(oom_before), T(left),       T(holders), T(allocator), N(findings), N(served),
	T(checkpoint),   N(lost_ms),      T(row),       W(act),    T(reason),     T(propose),    N(next_level), T(next_filter),
	W(next_changes), T(action),       T(fit),       T(guard),  T(allocation), T(found_in),   T(allocated_in), T(freed_in), T(allocated_before), T(small_allocations),
	{ 0 },
};
#undef T
#undef N
#undef W
#define T(name) RECORD_TEXT(run_told, name)
#define N(name) RECORD_NUMBER(run_told, name)
static const struct record_key run_keys[] = {
	T(id),       T(host),   T(boot_id), T(directory), T(command), T(launcher), T(job),        T(parent), N(rank),  N(world),
	N(restarts), N(rounds), N(began),   N(pid),       N(status),  T(recorder), T(recordings), T(before), T(notes), { 0 },
};
#undef T
#undef N

void try_text(const struct run_try *t, struct text *to) { record_text(t, try_keys, to); }
void try_take(struct str text, struct arena *a, struct run_try *t) { record_take(text, a, t, try_keys); }
void run_text(const struct run_told *r, struct text *to) { record_text(r, run_keys, to); }
void run_take(struct str text, struct arena *a, struct run_told *r) { record_take(text, a, r, run_keys); }

void try_keep_end(struct run_try *t, const struct run_try *before)
{
	if (before->ended == RUN_EXIT || before->ended == RUN_SIGNAL)
		return;
	t->ended = before->ended;
	t->because = before->because;
}

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
			       .oom_before = -1,
			       .lost_ms = -1,
			       .next_level = -1 };
	return t;
}

/** A job that failed may take the machine with it in the next moment; who waits for the end of a good one need not wait for the disk. */
static bool ended_well(const struct run_try *t) { return t->ended == RUN_DONE; }

/** Below the directory that was judged when it was opened, whatever its path leads to by now. */
static struct uh_error *save_below(const struct supervisor *s, const char *name, struct str bytes, bool soon)
{
	_cleanup_arena_ struct arena a = { 0 };
	const char *path = arena_printf(&a, "%s/%s", s->directory, name).p;
	struct uh_error *cannot = (soon ? save_soon : save_file)(s->lock, s->lock < 0 ? path : name, bytes, 0640);
	struct uh_error *err = cannot && s->lock >= 0 ? uh_error_new("%s/%s", s->directory, uh_error_message(cannot)) : cannot;
	if (err != cannot)
		uh_error_free(cannot);
	return err;
}

/** @path: of --status-file; NULL: it goes to the other files of the run. */
static struct uh_error *save_report(const struct supervisor *s, const char *path)
{
	const struct run_told *r = s->run;
	const struct run_try *last = r->ntries ? r->tries[r->ntries - 1] : NULL;
	const bool soon = !last || !last->ended || ended_well(last);
	struct uh_error *err = path ? save_check(AT_FDCWD, path) : NULL;
	if (err)
		return err;
	_cleanup_free_ char *p = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&p, &n);
	if (!out)
		return uh_error_os(errno, "%s", path ? path : s->directory);
	report_run(r, true, 0, out);
	fclose(out);
	const struct str text = { p, n };
	return path ? (soon ? save_soon : save_file)(AT_FDCWD, path, text, 0640) : save_below(s, "report.json", text, soon);
}

static void told(const struct supervisor *s, struct uh_error *err)
{
	if (err)
		loop_tell(s, str_z(uh_error_message(err)));
	uh_error_free(err);
}

/** One file, because each costs the start of the job some milliseconds until it is on the disk. */
struct uh_error *disk_note(const struct supervisor *s)
{
	const bool soon = s->tries.len && ended_well(s->tries.data[s->tries.len - 1]);
	_cleanup_text_ struct text t = { 0 };
	run_text(s->run, &t);
	for (size_t i = 0; i < s->tries.len; i++) {
		text_add(&t, S(TRY_BEGINS "\n"));
		try_text(s->tries.data[i], &t);
	}
	struct uh_error *err = disk_check(s);
	if (!err)
		err = save_below(s, "run", text_str(&t), soon);
	return err;
}

void disk_status(const struct supervisor *s)
{
	s->run->tries = (const struct run_try *const *)s->tries.data;
	s->run->ntries = s->tries.len;
	if (s->options->status_file)
		told(s, save_report(s, s->options->status_file));
}

void disk_report(const struct supervisor *s)
{
	if (disk_ours(s)) // else disk_note() says so
		told(s, save_report(s, NULL));
}

void disk_save(const struct supervisor *s)
{
	told(s, disk_note(s));
	disk_status(s);
	disk_report(s);
}

// --- which runs are believed ---

/** A container's root is nobody's but its user's, whose directories it is given: there any owner is as good as root. */
static bool owner_ours(const struct stat *st)
{
	return st->st_uid == geteuid() || st->st_uid == caller_uid() || (!geteuid() && source_in_container());
}

static bool open_to_others(const struct stat *st) { return st->st_mode & (S_IWGRP | S_IWOTH) && !(st->st_mode & S_ISVTX); }

int disk_open_believed(int dir, const char *name, int flags)
{
	struct stat st;
	_cleanup_close_ int fd = openat(dir, name, flags | O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 ||
	    (!fstat(fd, &st) && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) && owner_ours(&st) && !open_to_others(&st)))
		return take_fd(&fd);
	cleanup_close(&fd);
	errno = EPERM;
	return -1;
}

static struct str disk_read_run(struct arena *a, int directory)
{
	_cleanup_close_ int fd = directory < 0 ? -1 : disk_open_believed(directory, "run", 0);
	_cleanup_text_ struct text t = { 0 };
	ssize_t n;
	while (fd >= 0 && t.n < FILE_MOST && (n = read(fd, text_room(&t, RUN_PIECE), RUN_PIECE)) > 0)
		t.n += (size_t)n;
	return arena_str(a, text_str(&t));
}

void run_read(struct supervisor *s, struct run_told *r)
{
	struct str text = disk_read_run(s->arena, s->lock);
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

/** Whether this is the job that was there before, which somebody started again. Job numbers come again: a launcher that was not given one
 * says `none`, and whoever has one in his script gives the same every time. */
static bool disk_goes_on(const struct run_told *before, const struct run_told *now)
{
	if (now->restarts != before->restarts)
		return now->restarts > before->restarts;
	return now->rounds > before->rounds && str_eq(before->parent, now->parent) && str_eq(before->boot_id, now->boot_id);
}

/** Root writes where nobody else can put a link in the place of a directory. @st: of @path. */
static struct uh_error *check_owner(const char *path, const struct stat *st)
{
	if (geteuid() || (!open_to_others(st) && owner_ours(st)))
		return NULL;
	return uh_error_new("%s %s", path, open_to_others(st) ? "can be changed by others" : "belongs to another user");
}

struct uh_error *disk_check(const struct supervisor *s)
{
	struct stat ours, there;
	if (s->lock < 0 || fstat(s->lock, &ours) || lstat(s->directory, &there))
		return NULL; // where there is none, nothing can be written
	const bool same = ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
	return same ? NULL : uh_error_new("%s: another has taken the place of this directory", s->directory);
}

bool disk_ours(const struct supervisor *s)
{
	_cleanup_error_ struct uh_error *err = disk_check(s);
	return !err;
}

/** Makes the directory of this name ours, with the tries that are there. false: it is another's. */
static bool disk_take_directory(struct supervisor *s, struct str id, struct uh_error **ret_err)
{
	struct run_told before = { .status = -1 };
	s->directory = arena_printf(s->arena, "%s/" STR_FMT, s->options->state_dir, STR_ARG(id)).p;
	// In /var/lib/unhang updates of the knowledge lie, too, which are for everybody.
	if (!make_above(AT_FDCWD, s->directory, geteuid() ? 0700 : 0755) || (mkdir(s->directory, 0700) && errno != EEXIST)) {
		*ret_err = uh_error_os(errno, "%s", s->directory);
		return true;
	}
	s->lock = disk_open_believed(AT_FDCWD, s->directory, O_DIRECTORY);
	if (s->lock < 0 && (errno == EPERM || errno == ELOOP || errno == ENOTDIR))
		return false; // it is another's, or something else has its name
	// A file system without locks leaves us without knowing.
	const bool lives = s->lock >= 0 && flock(s->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
	if (!lives)
		run_read(s, &before);
	if (lives || (before.id.n && !disk_goes_on(&before, s->run))) {
		cleanup_close(&s->lock);
		s->tries.len = 0;
		return false;
	}
	struct supervisor other = {
		.options = s->options, .arena = s->arena, .run = &before, .directory = s->directory, .lock = s->lock
	};
	other.tries.data = s->tries.data;
	other.tries.len = s->tries.len;
	if (s->tries.len)
		left_complete(s, &other);
	return true;
}

struct uh_error *disk_refuse(struct uh_error *cannot)
{
	struct uh_error *err =
		cannot ? uh_error_new("the job was not started: %s; --state-dir names another place for the files of the run",
				      uh_error_message(cannot)) :
			 NULL;
	uh_error_free(cannot);
	return err;
}

struct uh_error *disk_begin(struct supervisor *s)
{
	const struct str base = s->run->id;
	struct stat st;
	struct uh_error *cannot = stat(s->options->state_dir, &st) ? NULL : check_owner(s->options->state_dir, &st);
	bool taken = cannot || disk_take_directory(s, base, &cannot);
	for (int n = 2; n <= NAMES_MOST && !taken; n++) {
		s->run->id = arena_printf(s->arena, STR_FMT "-%d", STR_ARG(base), n);
		taken = disk_take_directory(s, s->run->id, &cannot);
	}
	if (!taken)
		cannot = uh_error_new("%s has too many runs of this job", s->options->state_dir);
	s->run->directory = str_z(s->directory);
	return disk_refuse(cannot);
}

bool disk_first_of_node(const struct supervisor *s, struct job_try *t)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct run_told *r = s->run;
	if (t->first || r->rank < 0 || r->world < 2 || !r->family.n)
		return true;
	// All ranks of a node have the same parent, and no other job has it. State directories may be shared by nodes.
	char *name = arena_z(&a, arena_printf(&a, STR_FMT "-" STR_FMT "." STR_FMT "." STR_FMT ".%lld.%lld",
					      STR_ARG(r->launcher), STR_ARG(r->family), STR_ARG(str_cut(r->host, HOST_MOST)),
					      STR_ARG(r->parent), (long long)r->restarts, (long long)r->rounds));
	for (char *p = name; *p; p++)
		*p = *p == '/' ? '_' : *p;
	const char *path = arena_printf(&a, "%s/%s" BUNDLE_MARK, s->options->state_dir, name).p;
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return t->first = fd >= 0 || errno != EEXIST;
}

#define RANDOM_END "-XXXXXX"

/** The directory that the user's own UNHANG_RECORDING names; else shared memory. In a container that dies with it. /dev/null is a word of
 * the recorder's, and no file. */
static const char *recordings_base(struct supervisor *s)
{
	const char *own = getenv("UNHANG_RECORDING"), *slash = own ? strrchr(own, '/') : NULL;
	if (own && own[0] == '/' && slash > own && strcmp(own, "/dev/null") && !memchr(own, '%', (size_t)(slash - own)))
		return arena_z(s->arena, (struct str){ own, (size_t)(slash - own) });
	return access("/dev/shm", W_OK) ? s->directory : "/dev/shm";
}

/** A directory of ours alone; -1: it is none. */
static int recordings_open(const char *path)
{
	struct stat st;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const bool ours = fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
	return ours ? take_fd(&fd) : -1;
}

/** Whether there is such a directory of ours alone now. In a directory that others may write to, somebody may have made it before us. */
static bool recordings_claim(const char *path)
{
	if (!mkdir(path, 0700))
		return true;
	if (errno != EEXIST)
		return false;
	_cleanup_close_ int fd = recordings_open(path);
	errno = EEXIST;
	return fd >= 0;
}

static struct str recordings_name(struct arena *a, struct str run_id)
{
	return arena_printf(a, RECORDINGS_BEGIN "%u." STR_FMT, (unsigned)getuid(), STR_ARG(run_id));
}

/** The recordings lie in memory, in a directory of their own that capture and `unhang last` know by its name. Where that is another user's,
 * it has an ending that nobody can guess. */
struct uh_error *recordings_make(struct supervisor *s)
{
	const struct str name = recordings_name(s->arena, s->run->id),
			 path = arena_printf(s->arena, "%s/" STR_FMT, recordings_base(s), STR_ARG(name));
	char *other = arena_z(s->arena, arena_printf(s->arena, STR_FMT RANDOM_END, STR_ARG(path)));
	const char *made = recordings_claim(path.p) ? path.p : errno == EEXIST ? mkdtemp(other) : NULL;
	if (!made)
		return uh_error_os(errno, "%s", path.p);
	s->recordings = made;
	s->run->recordings = str_z(s->recordings);
	return NULL;
}

bool recordings_believed(struct str path, struct str run_id)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct str more;
	const bool named = str_behind(str_base(path), recordings_name(&a, run_id), &more) &&
			   (!more.n || (more.n == strlen(RANDOM_END) && more.p[0] == RANDOM_END[0]));
	_cleanup_close_ int fd = named && run_id.n && path.p[0] == '/' ? recordings_open(arena_z(&a, path)) : -1;
	return fd >= 0;
}

void recordings_empty(const char *path)
{
	_cleanup_close_ int fd = recordings_open(path);
	_cleanup_dir_ DIR *d = dir_of(&fd);
	for (const char *name; (name = dir_next(d));)
		unlinkat(dirfd(d), name, 0);
}

void recordings_remove(const char *path)
{
	recordings_empty(path);
	rmdir(path);
}
