#include "watch/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/door/account.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/door/trust.h"
#include "store/store.h"

enum { NOBODY = 65534, POLL_NS = 20000000, VARIABLES = 17 };

/** The whole environment of a hook. */
static void hook_environment(struct arena *a, const struct watch_settings *s, const struct stored *i,
			     char *ret[static VARIABLES])
{
	const struct {
		const char *name;
		struct str value;
	} all[] = { { "UNHANG_INCIDENT", i->id },
		    { "UNHANG_HOST", i->host },
		    { "UNHANG_REVISION", arena_printf(a, "%lld", (long long)i->revision) },
		    { "UNHANG_STATE", stored_state_word(i->state) },
		    { "UNHANG_CLASS", i->class },
		    { "UNHANG_TITLE", i->title },
		    { "UNHANG_FAULT", i->fault },
		    { "UNHANG_DO", i->action },
		    { "UNHANG_ACTION", i->action }, // its older name
		    { "UNHANG_FIT", i->fit },
		    { "UNHANG_GPU", i->gpu },
		    { "UNHANG_GPU_SERIAL", i->serial },
		    { "UNHANG_JOB", i->job },
		    { "UNHANG_BUNDLE", i->bundle },
		    { "UNHANG_DIRECTORY", str_z(store_path(a, s->state_dir, i->id)) },
		    { "PATH", S("/usr/sbin:/usr/bin:/sbin:/bin") } };
	size_t n = 0;
	for (; n < ARRAY_SIZE(all); n++)
		ret[n] = (char *)arena_printf(a, "%s=" STR_FMT, all[n].name, STR_ARG(all[n].value)).p;
	ret[n] = NULL;
}

/** In the hook's process. false: root could not be left behind. */
static bool leave_root(const char *user)
{
	if (!user || geteuid() != 0)
		return true;
	struct passwd p;
	char room[ACCOUNT_LINE];
	const bool known = account_find(user, 0, &p, room);
	uid_t uid = known ? p.pw_uid : NOBODY;
	gid_t gid = known ? p.pw_gid : NOBODY;
	return !setgroups(0, NULL) && !setresgid(gid, gid, gid) && !setresuid(uid, uid, uid);
}

struct hook {
	const char *path;
	char *const *environment;
	const char *user;
	int diagnosis;
};

/** @tell is closed where the program begins, and gets the error where it does not. */
__attribute__((noreturn)) static void hook_become(const struct hook *h, int tell)
{
	char *const argv[] = { (char *)h->path, NULL };
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL); // what we ignore would be ignored by the hook
	signal(SIGXFSZ, SIG_DFL);
	if (dup2(h->diagnosis, STDIN_FILENO) >= 0 && !chdir("/") && leave_root(h->user) &&
	    !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		execve(h->path, argv, h->environment);
	const int error = errno;
	_exit(write(tell, &error, sizeof(error)) == sizeof(error) ? 127 : 126);
}

static void tell_not_started(const struct hook *h, int error, struct text *to)
{
	text_printf(to, "%s: it could not be started: %s", h->path, strerror(error));
	if (error == EACCES && h->user && geteuid() == 0)
		text_printf(to, "; hooks run as %s, who must be able to reach it", h->user);
	if (error == ENOENT) // it was there a moment ago
		text_add(to, S("; the interpreter in its first line is missing"));
	text_add(to, S("\n"));
}

/** What went wrong; empty: nothing. */
static void hook_run(const struct hook *h, int64_t milliseconds, struct text *to)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	const int64_t deadline = now_ms() + milliseconds;
	int status = 0, error, ends[2] = { -1, -1 };
	pid_t pid = pipe2(ends, O_CLOEXEC | O_NONBLOCK) ? -1 : fork(), gone;
	if (pid == 0)
		hook_become(h, ends[1]);
	error = errno;
	cleanup_close(&ends[1]);
	_cleanup_close_ int told = ends[0];
	if (pid < 0) {
		tell_not_started(h, error, to);
		return;
	}
	while ((gone = waitpid(pid, &status, WNOHANG)) == 0 && now_ms() < deadline)
		nanosleep(&pause, NULL);
	kill(-pid, SIGKILL); // and what it left running
	if (gone == 0) {
		waitpid(pid, &status, WNOHANG);
		text_printf(to, "%s: it did not end in time and was killed\n", h->path);
	} else if (read(told, &error, sizeof(error)) == sizeof(error)) {
		tell_not_started(h, error, to);
	} else if (WIFSIGNALED(status)) {
		text_printf(to, "%s: signal %d ended it\n", h->path, WTERMSIG(status));
	} else if (WEXITSTATUS(status)) {
		text_printf(to, "%s: it ended with status %d\n", h->path, WEXITSTATUS(status));
	}
}

struct uh_error *hooks_check(const char *directory)
{
	struct stat st;
	_cleanup_close_ int fd = -1;
	struct uh_error *err = trust_open(NULL, directory, O_RDONLY | O_DIRECTORY, &fd);
	if (!err && fstat(fd, &st))
		err = uh_error_os(errno, "%s", directory);
	// Sticky is good enough for a directory above it. Here it would let anybody add a program.
	if (!err && st.st_mode & (S_IWGRP | S_IWOTH))
		err = uh_error_new("%s: not used: not only its owner may write it", directory);
	return err;
}

void hooks_run(const struct hooks_call *c, struct text *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct door_names names = { 0 };
	const bool there = !access(c->directory, F_OK);
	_cleanup_error_ struct uh_error *err = there ? hooks_check(c->directory) : NULL;
	if (there && !err)
		err = door_names(&(struct named){ .path = c->directory }, false, &a, &names);
	for (size_t n = 0; !err && n < names.n; n++) {
		const char *path = arena_printf(&a, "%s/%s", c->directory, names.list[n]).p;
		struct hook h = { .environment = c->environment, .user = c->user };
		struct stat st;
		if (stat(path, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & S_IXUSR))
			continue;
		_cleanup_error_ struct uh_error *refused = trust_real_path(&a, path, &h.path);
		if (refused) {
			text_printf(to, "%s\n", uh_error_message(refused));
			continue;
		}
		_cleanup_close_ int in = open(c->input, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (in < 0)
			in = open("/dev/null", O_RDONLY | O_CLOEXEC);
		h.diagnosis = in;
		hook_run(&h, c->milliseconds, to);
	}
	if (err)
		text_printf(to, "%s\n", uh_error_message(err));
}

void hooks_tell(const struct watch_settings *s, const struct stored *i, struct text *to)
{
	_cleanup_arena_ struct arena a = { 0 };
	char *variables[VARIABLES];
	hook_environment(&a, s, i, variables);
	const struct hooks_call c = {
		.directory = s->hooks_dir,
		.input = arena_printf(&a, "%s/" STORE_DIAGNOSIS, store_path(&a, s->state_dir, i->id)).p,
		.environment = variables,
		.user = s->hook_user,
		.milliseconds = s->hook_deadline * 1000,
	};
	hooks_run(&c, to);
}
