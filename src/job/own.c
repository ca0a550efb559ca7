// The directory that root, or another user, writes files into which he then runs or believes: nobody else may exchange it, or what leads to it.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/trust.h"
#include "base/save.h"
#include "job/supervisor.h"
#include "source/source.h"

/** Root looks at each directory from / on. Other users only do not follow a link (@follow: O_NOFOLLOW) in its place. */
static struct uh_error *own_open(const char *path, int follow, int *ret)
{
	if (!geteuid())
		return trust_open_below(path, source_in_container(), ret);
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow);
	return *ret < 0 ? uh_error_os(errno, "%s", path) : NULL;
}

/** The directories that @rest names, below @from. No link is followed that somebody puts there meanwhile. */
static struct uh_error *own_make(const char *path, int from, struct str rest, mode_t mode, bool *ret_made)
{
	_cleanup_close_ int at = fcntl(from, F_DUPFD_CLOEXEC, 0);
	while (rest.n) {
		char name[NAME_MAX + 1];
		const struct str step = str_split(&rest, '/');
		if (!step.n)
			continue;
		if (step.n > NAME_MAX)
			return uh_error_os(ENAMETOOLONG, "%s", path);
		str_copy(name, sizeof(name), step);
		*ret_made = !mkdirat(at, name, mode);
		_cleanup_close_ int above = at;
		at = *ret_made || errno == EEXIST ? openat(above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
		if (at < 0)
			return uh_error_os(errno, "%s", path);
	}
	return NULL;
}

struct uh_error *own_directory(const char *path, mode_t mode, bool *ret_made, int *ret_fd)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct str whole = str_z(absolute_path(&a, path));
	_cleanup_close_ int above = -1;
	size_t n = whole.n;
	struct uh_error *err;
	*ret_made = false;
	if (!whole.n)
		return uh_error_os(ENOENT, "the directory");
	while ((err = own_open(arena_z(&a, n ? str_cut(whole, n) : S("/")), n == whole.n ? O_NOFOLLOW : 0, &above)) &&
	       err->errnum == ENOENT && n) {
		uh_error_free(err);
		while (n && whole.p[--n] != '/')
			;
	}
	if (!err && n < whole.n)
		err = own_make(path, above, str_from(whole, n), mode, ret_made);
	return err ? err : own_open(whole.p, O_NOFOLLOW, ret_fd);
}
