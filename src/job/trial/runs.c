// One run, or some beside each other: started in a group of its own, watched until it ends, judged, and cleared away.
#include "job/trial/runs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/door/door.h"
#include "base/save.h"
#include "recorder/format.h"

enum { RUN_PATH = 192, OUTPUT_LOOKED_AT = 16 << 20, OUTPUT_MOST = 2 * OUTPUT_LOOKED_AT };

struct running {
	int pid;
	unsigned gpu;
	int64_t began;
	char output[RUN_PATH], table[RUN_PATH];
	bool ended, hung, enough;
	bool said; // the text of --fails-if, in output that was dropped
	int status;
};

static const char *const places[] = { "/dev/shm/unhang-trial-", "/tmp/unhang-trial-" };

bool runs_is_place(const char *path)
{
	struct stat st;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const size_t n = strlen(places[i]);
		if (!strncmp(path, places[i], n) && strlen(path + n) == strlen("XXXXXX") && !strchr(path + n, '/'))
			return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
	}
	return false;
}

struct uh_error *runs_begin(struct runs *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(r->place, sizeof(r->place), "%sXXXXXX", places[i]);
		if (!mkdtemp(r->place))
			continue;
		r->keeper = keeper_begin(r->place);
		return NULL;
	}
	return uh_error_os(errno, "no place for recordings in /dev/shm");
}

void runs_drop(const char *directory)
{
	_cleanup_close_ int fd = *directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (fd < 0)
		return;
	remove_below(fd);
	rmdir(directory);
}

void runs_end(struct runs *r)
{
	runs_drop(r->place);
	cleanup_close(&r->keeper);
}

// --- the environment ---

static void run_variable(struct arena *a, char **list, size_t *n, struct str line)
{
	const size_t name = (size_t)(str_find(line, S("=")) + 1);
	for (size_t i = 0; i < *n; i++)
		if (!strncmp(list[i], line.p, name)) {
			list[i] = arena_z(a, line);
			return;
		}
	list[(*n)++] = arena_z(a, line);
}

/** GPUs that runs are spread over now. */
static unsigned gpus_left(const struct runs *r) { return r->gpus ? r->gpus - (r->without < r->gpus) : 1; }

unsigned runs_at_once(const struct runs *r, unsigned n) { return n < gpus_left(r) ? n : gpus_left(r); }

unsigned runs_gpu(const struct runs *r)
{
	const unsigned place = r->number % gpus_left(r);
	return place + (place >= r->without);
}

void runs_gpu_variables(const struct runs *r, unsigned gpu, struct arena *a, const char *ret[static 2])
{
	struct str names = str_z(r->visible ? r->visible : ""), name = { 0 };
	for (unsigned i = 0; names.n && i <= gpu; i++)
		name = str_trim(str_split(&names, ','));
	ret[0] = name.n ? arena_printf(a, "ROCR_VISIBLE_DEVICES=" STR_FMT, STR_ARG(name)).p :
			  arena_printf(a, "ROCR_VISIBLE_DEVICES=%u", gpu).p;
	ret[1] = "HIP_VISIBLE_DEVICES=0";
}

static char *const *run_environment(const struct runs *r, const struct trial_change *c, struct arena *a, const char *recordings,
				    const char *table, unsigned gpu)
{
	enum { OURS = 12 };
	size_t n = 0, all = 0;
	while (environ[all])
		all++;
	char **list = arena_alloc(a, (all + r->nenv + c->nenv + OURS) * sizeof(*list));
	const char *tools = getenv("HSA_TOOLS_LIB");
	for (; n < all; n++)
		list[n] = environ[n];
	for (size_t i = 0; i < r->nenv; i++)
		run_variable(a, list, &n, str_z(r->env[i]));
	for (size_t i = 0; i < c->nenv; i++)
		run_variable(a, list, &n, str_z(c->env[i]));
	if (r->recorder && (table || c->record)) {
		const char *level = table ? "3" : "1";
		run_variable(
			a, list, &n,
			arena_printf(a, "HSA_TOOLS_LIB=%s%s%s", tools ? tools : "", tools && *tools ? " " : "", r->recorder));
		run_variable(a, list, &n, S("HSA_TOOLS_ROCPROFILER_V1_TOOLS=1"));
		run_variable(a, list, &n, arena_printf(a, "UNHANG_LEVEL=%s", level));
		run_variable(a, list, &n, arena_printf(a, "UNHANG_MAX_LEVEL=%s", level));
		run_variable(a, list, &n, S("UNHANG_KEEP=1000"));
		run_variable(a, list, &n, arena_printf(a, "UNHANG_RECORDING=%s/%%p.recording", recordings));
	}
	if (r->recorder && table)
		run_variable(a, list, &n, arena_printf(a, "UNHANG_WAITS=%s", table));
	if (c->command) // unhang run keeps them below it: it may be killed, too
		run_variable(a, list, &n, arena_printf(a, "UNHANG_RECORDING=%s/%%p.recording", recordings));
	const char *seen[2];
	runs_gpu_variables(r, gpu, a, seen);
	for (size_t i = 0; r->gpus && i < ARRAY_SIZE(seen); i++)
		run_variable(a, list, &n, str_z(seen[i]));
	list[n] = NULL;
	return list;
}

// --- a run ---

__attribute__((noreturn)) static void run_become(int trial, char *const *command, const struct running *x,
						 char *const *environment)
{
	const struct rlimit none = { 0 };
	setpgid(0, 0);                 // what is sent to the trial's group is not for it
	setrlimit(RLIMIT_CORE, &none); // each failed run would write one
	const int in = open("/dev/null", O_RDONLY), out = open(x->output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	close_from(3);
	reaper_begin(trial);
	execvpe(command[0], command, environment);
	_exit(NOT_STARTED);
}

static struct uh_error *run_start(const struct runs *r, const struct trial_change *c, const char *recordings, struct running *x)
{
	_cleanup_arena_ struct arena a = { 0 };
	snprintf(x->output, sizeof(x->output), "%.*s/output", RUN_PATH / 2, recordings);
	snprintf(x->table, sizeof(x->table), "%.*s/waits", RUN_PATH / 2, recordings);
	if (mkdir(recordings, 0700))
		return uh_error_os(errno, "%s", recordings);
	if (c->table) {
		struct uh_error *err = save_soon(AT_FDCWD, x->table, str_z(c->table), 0600);
		if (err)
			return err;
	}
	char *const *environment = run_environment(r, c, &a, recordings, c->table ? x->table : NULL, x->gpu);
	char *const *command = c->command ? c->command : r->command;
	x->began = now_ms();
	const int trial = getpid();
	x->pid = fork();
	if (!x->pid)
		run_become(trial, command, x, environment);
	if (x->pid < 0)
		return uh_error_os(errno, "%s", r->command[0]);
	return NULL;
}

static struct str file_text(const char *path, size_t most, struct arena *a)
{
	struct str bytes = { 0 };
	struct uh_error *err = named_read(&(struct named){ .path = path }, most, a, &bytes, NULL);
	uh_error_free(err);
	return bytes;
}

/** What a job writes without end must not fill the memory that /dev/shm is. It appends, so that it goes on at the new end. */
static void output_bound(const struct runs *r, struct running *x)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct stat st;
	if (stat(x->output, &st) || st.st_size < OUTPUT_MOST)
		return;
	x->said |= r->fails.contains.n && str_find(file_text(x->output, OUTPUT_MOST, &a), r->fails.contains) >= 0;
	if (truncate(x->output, 0))
		return; // then the disk fills, as it would without unhang
}

/** What has ended, and what takes too long. */
static void run_look(const struct runs *r, struct running *x)
{
	const int64_t age = now_ms() - x->began;
	int status;
	if (x->ended)
		return;
	output_bound(r, x);
	if (waitpid(x->pid, &status, WNOHANG) == x->pid) {
		x->ended = true;
		x->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	} else if (r->enough && age > (int64_t)r->enough * 1000 && !x->enough) {
		x->enough = true;
		kill(x->pid, SIGTERM); // its reaper
	} else if (age > (int64_t)r->hang_after * 1000 && !x->hung && !x->enough) {
		x->hung = true;
		kill(x->pid, SIGTERM); // its reaper
	}
}

// --- what became of it ---

static bool run_failed(const struct runs *r, const struct running *x)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct fails_if *f = &r->fails;
	if (x->hung)
		return f->hang || f->status;
	if (f->status && !x->enough && (f->status_is < 0 ? x->status != 0 : x->status == f->status_is))
		return true;
	if (f->contains.n && (x->said || str_find(file_text(x->output, OUTPUT_LOOKED_AT, &a), f->contains) >= 0))
		return true;
	return f->nan_in.n && nan_look(file_text(arena_z(&a, f->nan_in), OUTPUT_LOOKED_AT, &a)) == NAN_THERE;
}

/** A file of results that is not there says nothing about them. */
static struct uh_error *result_missing(const struct runs *r, const struct running *x)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct str bytes = { 0 };
	if (!r->fails.nan_in.n || x->hung || x->enough)
		return NULL;
	const char *path = arena_z(&a, r->fails.nan_in);
	struct uh_error *err = named_read(&(struct named){ .path = path }, OUTPUT_LOOKED_AT, &a, &bytes, NULL);
	if (!err && nan_look(bytes) == NAN_UNKNOWN)
		err = uh_error_new("%s: no .npy file of floating-point numbers, and no text", path);
	if (!err)
		return NULL;
	struct uh_error *said = uh_error_new("--fails-if nan=: %s", uh_error_message(err));
	uh_error_free(err);
	return said;
}

/** Waits that the recorders of a run gave up. The files are ours, and small parts of them are read. */
static unsigned waits_lost(const char *directory)
{
	DIR *d = opendir(directory);
	unsigned lost = 0;
	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		struct rec_header h;
		if (!str_ends(str_z(e->d_name), S(".recording")))
			continue;
		_cleanup_close_ int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && pread(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h) &&
		    !memcmp(h.magic, RECORDING_MAGIC, sizeof(h.magic)))
			lost += h.waits_lost;
	}
	if (d)
		closedir(d);
	return lost;
}

static void run_judge(const struct runs *r, const struct running *x, bool keep, const char *recordings, struct run_ended *ret)
{
	*ret = (struct run_ended){ .failed = run_failed(r, x),
				   .hung = x->hung,
				   .status = x->status,
				   .waits_lost = waits_lost(recordings),
				   .gpu = x->gpu,
				   .seconds = (double)(now_ms() - x->began) / 1e3 };
	if (ret->failed && r->output) {
		_cleanup_arena_ struct arena a = { 0 };
		uh_error_free(save_soon(AT_FDCWD, r->output, file_text(x->output, OUTPUT_LOOKED_AT, &a), 0600));
	}
	if (keep)
		snprintf(ret->recordings, sizeof(ret->recordings), "%.*s", RUN_PATH / 2, recordings);
	else
		runs_drop(recordings);
}

bool runs_stopped(struct runs *r)
{
	struct signalfd_siginfo got;
	if (r->stop_fd >= 0 && read(r->stop_fd, &got, sizeof(got)) == (ssize_t)sizeof(got))
		r->stop = true;
	return r->stop;
}

bool runs_make(struct runs *r, const struct trial_change *c, unsigned n, bool keep, struct run_ended *ret,
	       struct uh_error **ret_error)
{
	static const struct timespec look = { .tv_nsec = 5000000 };
	struct running list[RUNS_AT_ONCE] = { 0 };
	char recordings[RUNS_AT_ONCE][RUN_PATH / 2];
	unsigned started = 0, ended = 0;
	bool good = true;
	for (; started < n && started < RUNS_AT_ONCE && good; started++) {
		list[started].gpu = runs_gpu(r);
		snprintf(recordings[started], sizeof(recordings[0]), "%s/%u", r->place, r->number++);
		*ret_error = run_start(r, c, recordings[started], &list[started]);
		good = !*ret_error;
		list[started].ended = !good;
	}
	while (ended < started) {
		ended = 0;
		for (unsigned i = 0; i < started; i++) {
			run_look(r, &list[i]);
			if (runs_stopped(r) && !list[i].ended)
				kill(list[i].pid, SIGTERM);
			ended += list[i].ended;
		}
		if (ended < started)
			nanosleep(&look, NULL);
	}
	good = good && !r->stop;
	for (unsigned i = 0; i < started; i++) {
		run_judge(r, &list[i], keep && good, recordings[i], &ret[i]);
		if (good && !ret[i].failed && (*ret_error = result_missing(r, &list[i])))
			good = false;
		if (good && list[i].status == NOT_STARTED && !list[i].hung) {
			*ret_error = uh_error_new("%s: it could not be started, or ended with status 127", r->command[0]);
			good = false;
		}
	}
	return good;
}
