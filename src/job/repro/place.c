// Where the program goes, and where it is built and run: nobody else may exchange what root, or another user, then runs.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/trust.h"
#include "base/save.h"
#include "job/repro/make.h"
#include "job/supervisor.h"

/** Judged by its descriptor: by its name another may be there a moment later. */
static struct uh_error *directory_judge(const char *path, int fd)
{
	struct stat st;
	if (fstat(fd, &st))
		return uh_error_os(errno, "%s", path);
	if (geteuid() && !trust_owner(st.st_uid)) // of root's, each directory on the way was judged
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
	bool made;
	struct uh_error *err = own_directory(path, 0700, &made, ret);
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
