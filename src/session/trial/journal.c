#include "session/trial/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/print.h"
#include "base/save.h"
#include "job/supervisor.h"
#include "session/place.h"

enum { JOURNAL_MOST = 8 << 20 };
#define JOURNAL "journal"
static const char *const begun[] = { JOURNAL, "launches", "failure", "found" }; // what a trial that has ended needs no more

void trial_is(struct trial_log *l, const char *key, const char *text)
{
	text_printf(&l->identity, "%s %zu %s\n", key, strlen(text), text);
}

void trial_is_number(struct trial_log *l, const char *key, unsigned number) { text_printf(&l->identity, "%s %u\n", key, number); }

const char *trial_file(struct trial_log *l, const char *name) { return arena_printf(&l->arena, "%s/%s", l->directory, name).p; }

void trial_done(struct trial_log *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(begun); i++)
		unlink(trial_file(l, begun[i]));
}

/** Whole lines only: a kill may have cut the last. The file ends behind them. */
static struct uh_error *trial_journal_open(struct trial_log *l)
{
	const char *path = trial_file(l, JOURNAL);
	struct stat st;
	l->journal = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0600);
	if (l->journal < 0 || fstat(l->journal, &st))
		return uh_error_os(errno, "%s", path);
	const size_t n = st.st_size < JOURNAL_MOST ? (size_t)st.st_size : JOURNAL_MOST;
	char *bytes = arena_alloc(&l->arena, n + 1);
	const ssize_t got = pread(l->journal, bytes, n, 0);
	size_t whole = got > 0 ? (size_t)got : 0;
	while (whole && bytes[whole - 1] != '\n')
		whole--;
	l->told = (struct str){ bytes, whole };
	if (whole != (size_t)st.st_size && ftruncate(l->journal, (off_t)whole))
		return uh_error_os(errno, "%s", path);
	return NULL;
}

/** Whoever else can write there could tell of runs that never were. */
static struct uh_error *trial_believe(const char *directory)
{
	_cleanup_close_ int fd = disk_open_believed(AT_FDCWD, directory, O_DIRECTORY);
	return fd >= 0 ? NULL :
	       errno == EPERM ? uh_error_new("%s: it belongs to another user, or others can write there", directory) :
				uh_error_os(errno, "%s", directory);
}

/** Two at once would take each other's runs. The lock ends with the process. */
static struct uh_error *trial_alone(struct trial_log *l)
{
	const char *path = trial_file(l, "lock");
	l->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (l->lock < 0)
		return uh_error_os(errno, "%s", path);
	return flock(l->lock, LOCK_EX | LOCK_NB) ? uh_error_new("%s: the same command is at work already", l->directory) : NULL;
}

struct uh_error *trial_begin(struct trial_log *l, const char *kind, const char *state_dir, bool fresh)
{
	const char *own = state_of_user(&l->arena);
	const char *root = state_dir ? absolute_path(&l->arena, state_dir) :
			   own       ? arena_printf(&l->arena, "%s/%s", own, kind).p :
				       arena_printf(&l->arena, "/var/lib/unhang/%s", kind).p;
	uint64_t hash = 0xcbf29ce484222325u;
	char here[PATH_MAX];
	if (getcwd(here, sizeof(here)))
		trial_is(l, "directory", here);
	trial_is(l, "kind", kind);
	for (size_t i = 0; i < l->identity.n; i++)
		hash = (hash ^ (unsigned char)l->identity.p[i]) * 0x100000001b3u;
	l->directory = arena_printf(&l->arena, "%s/%016" PRIx64, root, hash).p;
	make_above(AT_FDCWD, l->directory, 0700);
	if (mkdir(l->directory, 0700) && errno != EEXIST)
		return uh_error_os(errno, "%s", l->directory);
	struct uh_error *err = trial_believe(root);
	if (!err)
		err = trial_believe(l->directory);
	if (!err)
		err = trial_alone(l);
	if (err)
		return err;
	if (fresh)
		trial_done(l);
	return trial_journal_open(l);
}

bool trial_next(struct trial_log *l, struct str key, struct trial_outcome *ret)
{
	struct str rest = l->told, line = str_split(&rest, '\n'), values = line;
	int64_t n[5]; // failed, lost, hung, milliseconds, found
	bool right = line.n;
	for (size_t i = 0; i < ARRAY_SIZE(n); i++)
		right = right && str_number(str_word(&values), &n[i]);
	if (!right || !str_eq(str_trim(values), key)) {
		l->told = (struct str){ 0 };
		return false;
	}
	*ret = (struct trial_outcome){ .failed = n[0], .lost = n[1], .seconds = (double)n[3] / 1000, .found = n[4] };
	l->hung += n[2] != 0;
	l->told = rest;
	return true;
}

struct uh_error *trial_add(struct trial_log *l, struct str key, const struct trial_outcome *x, bool hung)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct str line = arena_printf(&a, "%d %d %d %" PRId64 " %d " STR_FMT "\n", x->failed, x->lost, hung,
					     (int64_t)(x->seconds * 1000 + 0.5), x->found, STR_ARG(key));
	l->hung += hung;
	return write_all(l->journal, line) ? NULL : uh_error_os(errno, "%s/" JOURNAL, l->directory);
}

struct uh_error *trial_place(struct trial_log *l, struct runs *r)
{
	const char *path = trial_file(l, "place");
	struct str old = { 0 };
	uh_error_free(named_read(&(struct named){ .path = path }, sizeof(r->place), &l->arena, &old, NULL));
	if (runs_is_place(arena_z(&l->arena, old)))
		runs_drop(arena_z(&l->arena, old));
	struct uh_error *err = runs_begin(r);
	return err ? err : save_soon(AT_FDCWD, path, str_z(r->place), 0600);
}

void trial_free(struct trial_log *l)
{
	cleanup_close(&l->journal);
	cleanup_close(&l->lock);
	text_free(&l->identity);
	arena_free(&l->arena);
}

void trial_signals_take(struct trial_signals *s, int *fd)
{
	sigset_t ends;
	// All by which a terminal, a user or a reader that went away would end it: the job must not go on alone.
	static const int list[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2 };
	sigemptyset(&ends);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		sigaddset(&ends, list[i]);
	sigprocmask(SIG_BLOCK, &ends, &s->before);
	*fd = signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC);
}

void trial_signals_give(struct trial_signals *s, int *fd)
{
	cleanup_close(fd);
	sigprocmask(SIG_SETMASK, &s->before, NULL);
}
