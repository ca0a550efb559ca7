#include "store/db/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/trust.h"
#include "base/save.h"

/** What SQLite makes of a name. */
static const char *const beside[] = { "", "-wal", "-shm", "-journal" };

static struct uh_error *not_ours(const char *where, const char *why)
{
	struct uh_error *err = uh_error_new("%s: %s", where, why);
	err->errnum = EPERM;
	return err;
}

/** For those who may read the lines that it is made of. One in the directory of another is his. */
static bool make_file(int dir, const char *name)
{
	struct stat st;
	_cleanup_close_ int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(dir, &st))
		return errno == EEXIST;
	if (!geteuid() && st.st_uid)
		return !fchown(fd, st.st_uid, st.st_gid);
	save_give(fd, geteuid() ? 0600 : 0640);
	return true;
}

static struct uh_error *judge_files(int dir, const char *where, struct str name)
{
	_cleanup_arena_ struct arena a = { 0 };
	for (size_t n = 0; n < ARRAY_SIZE(beside); n++) {
		const char *file = arena_printf(&a, STR_FMT "%s", STR_ARG(name), beside[n]).p;
		_cleanup_close_ int fd = openat(dir, file, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		struct stat st;
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 || fstat(fd, &st))
			return uh_error_os(errno, "%s%s", where, beside[n]);
		if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
			return not_ours(where, "not used: it, or a file that belongs to it, is a link or no file");
		if (!trust_owner(st.st_uid) || st.st_mode & (S_IWGRP | S_IWOTH))
			return not_ours(where, "not used: others than you and root may write it");
	}
	return NULL;
}

static const char *place_above(struct arena *a, const char *where)
{
	const char *slash = strrchr(where, '/');
	return !slash ? "." : slash == where ? "/" : arena_z(a, (struct str){ where, (size_t)(slash - where) });
}

static const char *in_directory(struct arena *a, const char *directory, const char *name)
{
	return arena_printf(a, "%s/%s", strcmp(directory, "/") ? directory : "", name).p;
}

/** The directory of @where without links; *@ret_dir: it is open. An error without a number: others may write it. */
static struct uh_error *open_above(struct arena *a, const char *where, const char **ret, int *ret_dir)
{
	const char *parent = place_above(a, where);
	struct uh_error *err = trust_real_path(a, parent, ret);
	if (!err && !**ret)
		*ret = "/";
	*ret_dir = err ? -1 : open(*ret, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return err ? err : *ret_dir < 0 ? uh_error_os(errno, "%s", parent) : NULL;
}

/** A file of others: the way to it may have links, and it is none. */
static struct uh_error *place_of_others(struct arena *a, const char *where, struct db_place *ret)
{
	_cleanup_free_ char *above = realpath(place_above(a, where), NULL);
	if (!above)
		return uh_error_os(errno, "%s", where);
	*ret = (struct db_place){ in_directory(a, above, str_base(str_z(where)).p), false };
	return NULL;
}

struct uh_error *db_place(struct arena *a, const char *where, enum db_access access, struct db_place *ret)
{
	_cleanup_close_ int dir = -1;
	const struct str name = str_base(str_z(where));
	const char *above = NULL;
	if (!name.n)
		return uh_error_os(EISDIR, "%s", where);
	struct uh_error *err = open_above(a, where, &above, &dir);
	const bool strange = err && !err->errnum;
	if (!err)
		err = judge_files(dir, where, name);
	if (strange && access != DB_READ)
		err->errnum = EPERM;
	if (err && access == DB_READ && (strange || err->errnum == EPERM)) {
		uh_error_free(err);
		return place_of_others(a, where, ret);
	}
	if (!err && access == DB_MAKE && faccessat(dir, name.p, F_OK, AT_SYMLINK_NOFOLLOW) && !make_file(dir, name.p))
		err = uh_error_os(errno, "%s", where);
	if (!err)
		*ret = (struct db_place){ in_directory(a, above, name.p), true };
	return err;
}

struct uh_error *db_set_aside(const char *where, const char *name)
{
	if (rename(where, name) && errno != ENOENT)
		return uh_error_os(errno, "%s", where);
	return db_remove(where);
}

struct uh_error *db_remove(const char *where)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct uh_error *err = NULL;
	for (size_t n = 0; n < ARRAY_SIZE(beside) && !err; n++)
		err = save_remove(AT_FDCWD, arena_printf(&a, "%s%s", where, beside[n]).p);
	return err;
}
