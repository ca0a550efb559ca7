#include "session/trial/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/door/trust.h"
#include "base/print.h"
#include "base/save.h"
#include "job/supervisor.h"
#include "session/place.h"

enum { JOURNAL_MOST = 8 << 20, HANG_AFTER_S = 600 };
#define JOURNAL "journal"
#define OUTPUT "output"
static const char *const begun[] = { JOURNAL, "launches", "failure", "found", TRIAL_UNUSED }; // what a trial that has ended needs no more

void trial_is(struct trial_log *l, const char *key, const char *text)
{
	text_printf(&l->identity, "%s %zu %s\n", key, strlen(text), text);
}

void trial_is_number(struct trial_log *l, const char *key, unsigned number)
{
	text_printf(&l->identity, "%s %u\n", key, number);
}

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
	l->journal = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (l->journal < 0 || fstat(l->journal, &st))
		return uh_error_os(errno, "%s", path);
	if (!S_ISREG(st.st_mode) || !trust_owner(st.st_uid))
		return uh_error_new("%s: not used: it is no file, or belongs to another user", path);
	const size_t n = st.st_size < JOURNAL_MOST ? (size_t)st.st_size : JOURNAL_MOST;
	char *bytes = arena_alloc(&l->arena, n + 1);
	const ssize_t got = pread(l->journal, bytes, n, 0);
	size_t whole = got > 0 ? (size_t)got : 0;
	while (whole && bytes[whole - 1] != '\n')
		whole--;
	l->journal_text = bytes;
	l->told = (struct str){ bytes, whole };
	if (whole != (size_t)st.st_size && ftruncate(l->journal, (off_t)whole))
		return uh_error_os(errno, "%s", path);
	return NULL;
}

/** Whoever else can write there could tell of runs that never were. */
static struct uh_error *trial_directory(const char *path)
{
	bool made;
	_cleanup_close_ int own = -1;
	struct uh_error *err = own_directory(path, 0700, &made, &own);
	_cleanup_close_ int fd = err ? -1 : disk_open_believed(AT_FDCWD, path, O_DIRECTORY);
	return err            ? err :
	       fd >= 0        ? NULL :
	       errno == EPERM ? uh_error_new("%s: it belongs to another user, or others can write there", path) :
				uh_error_os(errno, "%s", path);
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

struct uh_error *trial_runs(struct trial_log *l, const struct uh_trial_options *o, const struct trial_gpus *gpus,
			    struct runs *ret)
{
	*ret = (struct runs){ .command = o->command,
			      .recorder = o->recorder,
			      .env = o->env,
			      .nenv = o->nenv,
			      .hang_after = o->hang_after ? o->hang_after : HANG_AFTER_S,
			      .gpus = o->jobs > 1 ? o->jobs : 0,
			      .without = RUNS_ALL,
			      .visible = gpus->visible,
			      .keeper = -1,
			      .stop_fd = -1 };
	if (gpus->n && ret->gpus > gpus->n)
		return uh_error_new("--jobs %u: each run needs a GPU of its own, and the job sees %u", o->jobs, gpus->n);
	struct uh_error *err = fails_if_parse(str_z(o->fails_if ? o->fails_if : "status or hang"), &ret->fails);
	for (size_t i = 0; o->command[i]; i++)
		trial_is(l, "command", o->command[i]);
	for (size_t i = 0; i < o->nenv; i++)
		trial_is(l, "env", o->env[i]);
	trial_is(l, "fails-if", o->fails_if ? o->fails_if : "");
	trial_is_number(l, "hang-after", ret->hang_after);
	trial_is_number(l, "low-rate", o->low_rate);
	trial_is_number(l, "gpus", ret->gpus);
	return err;
}

/** The place of its runs, and what one that was killed left there. */
static struct uh_error *trial_place(struct trial_log *l, struct runs *r)
{
	const char *path = trial_file(l, "place");
	struct str old = { 0 };
	uh_error_free(named_read(&(struct named){ .path = path }, sizeof(r->place), &l->arena, &old, NULL));
	if (runs_is_place(arena_z(&l->arena, old)))
		runs_drop(arena_z(&l->arena, old));
	struct uh_error *err = runs_begin(r);
	return err ? err : save_soon(AT_FDCWD, path, str_z(r->place), 0600);
}

struct uh_error *trial_begin(struct trial_log *l, const struct know *k, const char *kind, const struct uh_trial_options *o,
			     struct runs *r)
{
	const char *own = state_of_user(&l->arena);
	const char *root = o->state_dir ? absolute_path(&l->arena, o->state_dir) :
			   own          ? arena_printf(&l->arena, "%s/%s", own, kind).p :
					  arena_printf(&l->arena, "/var/lib/unhang/%s", kind).p;
	uint64_t hash = 0xcbf29ce484222325u;
	char here[PATH_MAX];
	if (getcwd(here, sizeof(here)))
		trial_is(l, "directory", here);
	trial_is(l, "kind", kind);
	for (size_t i = 0; i < l->identity.n; i++)
		hash = (hash ^ (unsigned char)l->identity.p[i]) * 0x100000001b3u;
	l->directory = arena_printf(&l->arena, "%s/%016" PRIx64, root, hash).p;
	struct uh_error *err = trial_directory(root);
	if (!err)
		err = trial_directory(l->directory);
	if (!err)
		err = trial_alone(l);
	if (err)
		return err;
	if (o->fresh)
		trial_done(l);
	err = trial_journal_open(l);
	if (!err)
		err = trial_same(l, k, o->command);
	if (!err && !l->told.n)
		unlink(trial_file(l, OUTPUT)); // of a trial that has ended
	r->output = trial_file(l, OUTPUT);
	return err ? err : trial_place(l, r);
}

bool trial_over(struct runs *r, const struct uh_trial_options *o, int64_t began)
{
	return runs_stopped(r) || (o->budget && now_ms() - began > (int64_t)o->budget * 1000);
}

struct str trial_stopped(struct trial_log *l, const struct runs *r, const struct uh_trial_options *o, int64_t began)
{
	return r->stop	? S("by you, or by a signal of the system") :
	       o->budget && now_ms() - began > (int64_t)o->budget * 1000 ?
			  arena_printf(&l->arena, "the budget of %u s is used up", o->budget) :
			  (struct str){ 0 };
}

struct uh_error *trial_save(const char *path, void (*write)(const void *told, FILE *to), const void *told, mode_t mode)
{
	_cleanup_free_ char *bytes = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&bytes, &n);
	if (!to)
		return uh_error_os(errno, "%s", path);
	write(told, to);
	fclose(to);
	return save_file(AT_FDCWD, path, (struct str){ bytes, n }, mode);
}

struct str trial_said(struct trial_log *l)
{
	enum { OUTPUT_MOST = 32 << 20, SAID_MOST = 160 };
	struct str all = { 0 };
	_cleanup_text_ struct text safe = { 0 };
	uh_error_free(named_read(&(struct named){ .path = trial_file(l, OUTPUT) }, OUTPUT_MOST, &l->arena, &all, NULL));
	all = str_trim(all);
	size_t at = all.n;
	while (at && all.p[at - 1] != '\n' && all.p[at - 1] != '\r')
		at--;
	text_add_safe(&safe, str_cut(str_trim(str_from(all, at)), SAID_MOST));
	return arena_str(&l->arena, text_str(&safe));
}

static bool trial_next(struct trial_log *l, struct str key, struct trial_outcome *ret)
{
	struct str rest = l->told, line = str_split(&rest, '\n'), values = line;
	int64_t n[6]; // failed, lost, hung, milliseconds, found, GPU
	bool right = line.n;
	for (size_t i = 0; i < ARRAY_SIZE(n); i++)
		right = right && str_number(str_word(&values), &n[i]);
	if (!right || n[5] < 0 || n[5] >= TRIAL_GPUS || !str_eq(str_trim(values), key))
		return false;
	*ret = (struct trial_outcome){
		.failed = n[0], .lost = n[1], .seconds = (double)n[3] / 1000, .found = n[4], .gpu = (unsigned)n[5]
	};
	l->hung += n[2] != 0;
	l->told = rest;
	return true;
}

unsigned trial_told(struct trial_log *l, struct str key, unsigned n, struct trial_outcome *ret)
{
	unsigned done = 0;
	while (done < n && trial_next(l, key, &ret[done]))
		done++;
	if (done || !l->told.n)
		return done;
	// Another question than then: what is left answers none of now, and would stand in the way of what follows.
	(void)!ftruncate(l->journal, l->told.p - l->journal_text); // else it is left out again the next time
	l->told = (struct str){ 0 };
	return 0;
}

struct uh_error *trial_add(struct trial_log *l, struct str key, struct trial_outcome *x, bool hung)
{
	_cleanup_arena_ struct arena a = { 0 };
	const int64_t ms = (int64_t)(x->seconds * 1000 + 0.5);
	const struct str line = arena_printf(&a, "%d %d %d %" PRId64 " %d %u " STR_FMT "\n", x->failed, x->lost, hung, ms, x->found,
					     x->gpu, STR_ARG(key));
	x->seconds = (double)ms / 1000; // as it is read again: which question is next may depend on it
	l->hung += hung;
	return write_all(l->journal, line) ? NULL : uh_error_os(errno, "%s/" JOURNAL, l->directory);
}

void trial_count(FILE *say, const char *kind, struct tally before, const struct trial_outcome *newest, unsigned n)
{
	enum { EACH = 20 };
	struct tally now = before;
	for (unsigned i = 0; i < n; i++) {
		now.runs += !newest[i].lost;
		now.failed += newest[i].failed && !newest[i].lost;
	}
	if (say && (now.runs / EACH > before.runs / EACH || (now.runs > EACH && now.failed > before.failed)))
		fprintf(say, "unhang: %s: run %u, %u failed\n", kind, now.runs, now.failed);
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
