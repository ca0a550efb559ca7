// Where the program goes, and where it is built and run: nobody else may exchange what root, or another user, then runs.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/trust.h"
#include "base/save.h"
#include "job/repro/make.h"
#include "source/source.h"

/** Root takes only what root and the user who called can change, from / down to it; of a container's root no directory is another's. */
static struct uh_error *directory_open(const char *path, int *ret)
{
	const bool careful = !geteuid() && !source_in_container();
	if (careful)
		return trust_open(NULL, path, O_RDONLY | O_DIRECTORY, ret);
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return *ret < 0 ? uh_error_os(errno, "%s", path) : NULL;
}

/** Judged by its descriptor: by its name another may be there a moment later. */
static struct uh_error *directory_judge(const char *path, int fd)
{
	struct stat st;
	if (fstat(fd, &st))
		return uh_error_os(errno, "%s", path);
	if (!trust_owner(st.st_uid) && (geteuid() || !source_in_container()))
		return uh_error_new("%s: it belongs to another user; name a directory that is new", path);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return uh_error_new("%s: others may write in it; name a directory that is new", path);
	_cleanup_dir_ DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (!dir)
		return uh_error_os(errno, "%s", path);
	for (const struct dirent *e; (e = readdir(dir));)
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			return uh_error_new("%s is not empty; name a new directory", path);
	return NULL;
}

struct uh_error *repro_directory(const char *path, int *ret)
{
	const bool made = !mkdir(path, 0755);
	if (!made && errno != EEXIST)
		return uh_error_os(errno, "%s", path);
	struct uh_error *err = directory_open(path, ret);
	err = err ? err : directory_judge(path, *ret);
	if (err && made)
		rmdir(path);
	return err;
}

struct uh_error *repro_try_apart(struct repro_plan *p, const struct uh_repro_options *o, int dir)
{
	static const char name[] = "being-tried";
	struct stat st;
	if (mkdirat(dir, name, 0700))
		return uh_error_os(errno, "%s/%s", o->directory, name);
	_cleanup_close_ int apart = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (apart < 0 || fstat(apart, &st))
		return uh_error_os(errno, "%s/%s", o->directory, name);
	if (st.st_uid != geteuid() || st.st_mode & (S_IRWXG | S_IRWXO))
		return uh_error_new("%s/%s: another has taken the place of this directory", o->directory, name);
	repro_try(p, o, apart, o->tell);
	remove_below(apart);
	unlinkat(dir, name, AT_REMOVEDIR);
	return NULL;
}
