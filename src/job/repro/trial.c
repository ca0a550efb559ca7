// Runs of the program that was made. Whether it fails alike is told by its recording, in the same way as of the first failure.
#include "job/repro/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/save.h"
#include "source/file.h"

enum { BUILD_SECONDS = 300, POLL_MS = 20, LOOK_MS = 500, OUTPUT_KEPT = 400 };

/** A program that is run in the directory. */
struct trial_child {
	int dir;
	const char *const *words;
	const char *recording; // directory; NULL: not under the recorder
	const char *recorder;
	int output; // where it writes; -1: nowhere
};

/** In the child. What it may leave behind is limited: no core of gigabytes. */
static void trial_become(const struct trial_child *c)
{
	const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC), to = c->output >= 0 ? c->output : nothing;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	if (c->recording) {
		char path[512];
		snprintf(path, sizeof(path), "%s/%%p.recording", c->recording);
		setenv("HSA_TOOLS_LIB", c->recorder, 1);
		setenv("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1", 1);
		setenv("UNHANG_RECORDING", path, 1);
		setenv("UNHANG_LEVEL", "3", 1);
		setenv("UNHANG_HOLD", "0", 1);
		static const char *const ours[] = { "UNHANG_MAX_LEVEL", "UNHANG_CORE", "UNHANG_SUPERVISOR", "UNHANG_INCLUDE",
						    "UNHANG_EXCLUDE" };
		for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
			unsetenv(ours[i]);
	}
	if (fchdir(c->dir))
		_exit(126);
	dup2(nothing, STDIN_FILENO);
	dup2(to, STDOUT_FILENO);
	dup2(to, STDERR_FILENO);
	close_from(STDERR_FILENO + 1);
	execvp(c->words[0], (char *const *)c->words);
	_exit(127);
}

static pid_t trial_start(const struct trial_child *c)
{
	const pid_t pid = fork();
	if (!pid)
		trial_become(c);
	if (pid > 0)
		setpgid(pid, pid);
	return pid;
}

/** Waits until it ends, @deadline passes, or @enough says so. false: it had to be killed. */
static bool trial_wait(pid_t pid, int64_t deadline, bool (*enough)(void *ctx), void *ctx, int *ret_status)
{
	const struct timespec pause = { .tv_nsec = POLL_MS * 1000000L };
	int64_t look = now_ms() + LOOK_MS;
	pid_t gone;
	while ((gone = waitpid(pid, ret_status, WNOHANG)) == 0 && now_ms() < deadline) {
		if (enough && now_ms() >= look) {
			if (enough(ctx))
				break;
			look = now_ms() + LOOK_MS;
		}
		nanosleep(&pause, NULL);
	}
	kill(-pid, SIGKILL);
	if (!gone)
		waitpid(pid, ret_status, 0);
	return gone;
}

// --- the recording of a run ---

/** A run that is looked at. */
struct trial_look {
	const char *directory;
	const struct repro_failure *wanted;
	struct arena *arena;
	struct repro_failure found;
	bool failed;
};

static struct uh_error *trial_read(const char *path, struct flight_recording **ret)
{
	struct file f;
	struct uh_error *err = file_open(path, &f);
	if (err)
		return err;
	const size_t size = f.size;
	_cleanup_free_ char *bytes = size && size <= RECORDING_MOST ? mem_large(size) : NULL;
	const bool read = bytes && file_read(&f, 0, bytes, size);
	file_close(&f);
	return read ? recording_parse(path, take_ptr(bytes), size, ret) : uh_error_new("%s: it cannot be read", path);
}

/** How the process of the newest recording failed. */
static bool trial_look(void *ctx)
{
	struct trial_look *l = ctx;
	struct door_names names = { 0 };
	l->failed = false;
	uh_error_free(door_names(&(struct named){ .path = l->directory }, false, l->arena, &names));
	for (size_t i = 0; i < names.n; i++) {
		struct flight_recording *r = NULL;
		struct uh_error *err = trial_read(arena_printf(l->arena, "%s/%s", l->directory, names.list[i]).p, &r);
		l->failed |= !err && repro_failure_of(r, l->arena, &l->found);
		uh_error_free(err);
		recording_free(r);
	}
	return l->failed && repro_alike(&l->found, l->wanted);
}

static enum trial_end trial_build(int dir, struct arena *a, struct str *ret_said)
{
	static const char *const words[] = { "make", "-s", "repro", NULL };
	FILE *said = tmpfile();
	const struct trial_child c = { .dir = dir, .words = words, .output = said ? fileno(said) : -1 };
	int status = -1;
	const pid_t pid = trial_start(&c);
	const bool ended = pid > 0 && trial_wait(pid, now_ms() + BUILD_SECONDS * 1000, NULL, NULL, &status);
	char room[OUTPUT_KEPT];
	const size_t n = said ? (rewind(said), fread(room, 1, sizeof(room), said)) : 0;
	if (said)
		fclose(said);
	if (ended && WIFEXITED(status) && !WEXITSTATUS(status))
		return TRIAL_ALIKE;
	*ret_said = arena_printf(a, "make failed: " STR_FMT, STR_ARG(str_trim((struct str){ room, n })));
	return TRIAL_CANNOT;
}

static struct str trial_other(struct arena *a, const struct trial_look *l, bool ended, int status)
{
	static const char *const kinds[] = { "memory fault", "error of the queue", "hang" };
	if (l->failed)
		return arena_printf(a, "%s in " STR_FMT "%s" STR_FMT, kinds[l->found.kind],
				    STR_ARG(l->found.kernel.n ? l->found.kernel : S("an unknown kernel")),
				    l->found.said.n ? ", " : "", STR_ARG(l->found.said));
	if (!ended)
		return S("it did not end in time, and no kernel was seen to hang");
	return WIFEXITED(status) ?
		       (WEXITSTATUS(status) ?
				arena_printf(a, "it ended with status %d, and no kernel failed", WEXITSTATUS(status)) :
				S("it did not fail")) :
		       arena_printf(a, "signal %d ended it, and no kernel failed", WTERMSIG(status));
}

enum trial_end trial_run(const struct repro_plan *p, const struct uh_repro_options *o, int dir, struct arena *a,
			 struct str *ret_said)
{
	static const char *const words[] = { "./repro", NULL };
	char where[] = "/dev/shm/unhang-repro-XXXXXX", other[] = "/tmp/unhang-repro-XXXXXX";
	enum trial_end end = trial_build(dir, a, ret_said);
	if (end != TRIAL_ALIKE)
		return end;
	const char *recordings = mkdtemp(where) ? where : mkdtemp(other);
	if (!recordings) {
		*ret_said = arena_printf(a, "there is no directory for its recording: %s", strerror(errno));
		return TRIAL_CANNOT;
	}
	struct trial_look l = { .directory = recordings, .wanted = &p->failure, .arena = a };
	const struct trial_child c = { dir, words, recordings, o->recorder, -1 };
	int status = -1;
	const pid_t pid = trial_start(&c);
	const bool ended = pid > 0 && trial_wait(pid, now_ms() + (int64_t)o->seconds * 1000,
						 p->failure.kind == REPRO_HANG ? trial_look : NULL, &l, &status);
	end = trial_look(&l) ? TRIAL_ALIKE : ended && !l.failed && !status ? TRIAL_WELL : TRIAL_OTHER;
	if (end != TRIAL_ALIKE)
		*ret_said = trial_other(a, &l, ended, status);
	_cleanup_close_ int fd = open(recordings, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		remove_below(fd);
	rmdir(recordings);
	return end;
}
