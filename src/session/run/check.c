// What a job would learn only hours later is refused before it starts: places that nothing can be written to, hooks that nobody would run.
#include "session/run/check.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/save.h"
#include "watch/hooks.h"

/** Files are replaced as a whole, so their directory must be writable. */
static struct uh_error *check_file(struct arena *a, const char *option, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	struct stat st;
	if (!path)
		return NULL;
	if (!*path)
		return uh_error_new("%s needs the name of a file", option);
	struct uh_error *refused = save_check(AT_FDCWD, path);
	if (refused) {
		struct uh_error *err = uh_error_new("%s: %s", option, uh_error_message(refused));
		uh_error_free(refused);
		return err;
	}
	const char *directory = slash == path ? "/" : slash ? arena_z(a, (struct str){ path, (size_t)(slash - path) }) : ".";
	if (stat(directory, &st))
		return uh_error_os(errno, "%s %s", option, path);
	if (!S_ISDIR(st.st_mode))
		return uh_error_os(ENOTDIR, "%s %s", option, path);
	// Rights alone do not tell: root has them also where nothing can be written.
	char *trial = arena_z(a, arena_printf(a, "%s/.unhang-XXXXXX", directory));
	const int fd = mkostemp(trial, O_CLOEXEC);
	if (fd < 0)
		return uh_error_os(errno, "%s %s", option, path);
	close(fd);
	unlink(trial);
	return NULL;
}

struct uh_error *run_check(const struct uh_run_options *o)
{
	struct arena a = { 0 };
	struct uh_error *err = NULL;
	if (o->state_dir && !*o->state_dir)
		err = uh_error_new("--state-dir needs the name of a directory");
	if (!err)
		err = check_file(&a, "--status-file", o->status_file);
	if (!err)
		err = check_file(&a, "--crash-diagnostics", o->crash_diagnostics);
	if (!err && o->hooks)
		err = hooks_check(o->hooks);
	arena_free(&a);
	return err;
}

static const char *home(void)
{
	const char *own = secure_getenv("HOME");
	if (own && *own == '/')
		return own;
	const struct passwd *p = getpwuid(geteuid());
	return p && p->pw_dir && *p->pw_dir == '/' ? p->pw_dir : NULL;
}

struct uh_error *run_state_directory(const struct uh_run_options *o, struct arena *a, const char **ret)
{
	const char *state = secure_getenv("XDG_STATE_HOME"), *below = NULL;
	*ret = o->state_dir ? absolute_path(a, o->state_dir) : "/var/lib/unhang/runs";
	if (o->state_dir || !geteuid())
		return NULL;
	if (state && *state == '/')
		*ret = arena_printf(a, "%s/unhang/runs", state).p;
	else if ((below = home()))
		*ret = arena_printf(a, "%s/.local/state/unhang/runs", below).p;
	else // a place in /tmp that others can guess would be no better than none
		return uh_error_new(
			"the job was not started: this user has no home directory for the files of the run; --state-dir "
			"names another place");
	return NULL;
}
