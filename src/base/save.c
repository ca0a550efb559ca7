#include "base/save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/door/account.h"
#include "base/cleanup.h"

// Hidden, and with an end that no reader of a directory of settings looks for: .NAME.1234abcd.unhang-new
#define UNFINISHED ".unhang-new"
enum { RANDOM_DIGITS = 8, ATTRIBUTES_MOST = 1 << 12 };

struct save_place {
	int dir;
	const char *name; // in it
};

static void place_close(struct save_place *p) { cleanup_close(&p->dir); }

static struct uh_error *place_open(int dir, const char *path, struct save_place *ret)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX];
	size_t n = slash ? (size_t)(slash - path) + 1 : 1;
	ret->name = slash ? slash + 1 : path;
	if (n >= sizeof(parent) || !*ret->name)
		return uh_error_os(n >= sizeof(parent) ? ENAMETOOLONG : EISDIR, "%s", path);
	str_copy(parent, sizeof(parent), slash ? (struct str){ path, n } : S("."));
	ret->dir = openat(dir, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return ret->dir < 0 ? uh_error_os(errno, "%s", path) : NULL;
}

static struct uh_error *place_sync(const struct save_place *p, const char *path)
{
	// Some file systems cannot do this for a directory, and need it not.
	if (fsync(p->dir) && errno != EINVAL)
		return uh_error_os(errno, "%s: the change may not have reached the disk", path);
	return NULL;
}

bool write_all(int fd, struct str bytes)
{
	while (bytes.n) {
		ssize_t n = write(fd, bytes.p, bytes.n);
		if (n < 0 && errno != EINTR)
			return false;
		bytes = str_from(bytes, n > 0 ? (size_t)n : 0);
	}
	return true;
}

/** Some file systems have none, and some may only be set by the kernel. */
static bool copy_attributes(int from, int to)
{
	char names[ATTRIBUTES_MOST], value[ATTRIBUTES_MOST];
	ssize_t n = flistxattr(from, names, sizeof(names));
	for (const char *name = names; n > 0 && name < names + n; name += strlen(name) + 1) {
		ssize_t size = fgetxattr(from, name, value, sizeof(value));
		if (size < 0 || (fsetxattr(to, name, value, (size_t)size, 0) && errno != EPERM && errno != ENOTSUP))
			return false;
	}
	return n >= 0 || errno == ENOTSUP;
}

static bool become_like(int like, int fd)
{
	struct stat want, have;
	if (fstat(like, &want) || fstat(fd, &have))
		return false;
	if ((want.st_uid != have.st_uid || want.st_gid != have.st_gid) && fchown(fd, want.st_uid, want.st_gid))
		return false;
	return copy_attributes(like, fd);
}

enum save_how { SAVE_REPLACE, SAVE_SOON, SAVE_NEW, SAVE_OVER, SAVE_SHARED };
struct save_way {
	enum save_how how;
	mode_t mode;
	int like; // a file whose owner and attributes it gets; -1: none
};

/** Writes the file under its unfinished name. Where that fails, errno says why, and nothing is left of it. */
static bool write_unfinished(const struct save_place *p, struct str bytes, const struct save_way *way,
			     char room[static NAME_MAX + 1])
{
	unsigned number;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return false;
	int n = snprintf(room, NAME_MAX + 1, ".%s.%0*x" UNFINISHED, p->name, RANDOM_DIGITS, number);
	if (n < 0 || n > NAME_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	_cleanup_close_ int fd = openat(p->dir, room, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, way->mode);
	if (fd < 0)
		return false;
	// What the umask took away. The boot partition's file system has no modes, and refuses.
	bool good = (way->like < 0 || become_like(way->like, fd)) && (!fchmod(fd, way->mode) || errno == EPERM) &&
		    write_all(fd, bytes) && (way->how == SAVE_SOON || !fsync(fd));
	int error = errno;
	if (!good)
		unlinkat(p->dir, room, 0);
	errno = error;
	return good;
}

/** Of its directory. Who may not change it leaves it as it is. */
static void take_group(const struct save_place *p, const char *unfinished)
{
	struct stat st;
	if (!fstat(p->dir, &st))
		(void)!fchownat(p->dir, unfinished, (uid_t)-1, st.st_gid, AT_SYMLINK_NOFOLLOW);
}

/** NFS cannot do this "unless it is taken" in one step, but it can make a second name. */
bool save_name(int dir, const char *unfinished, int to, const char *name)
{
	if (!renameat2(dir, unfinished, to, name, RENAME_NOREPLACE))
		return true;
	return errno == EINVAL && !linkat(dir, unfinished, to, name, 0) && !unlinkat(dir, unfinished, 0);
}

static bool give_name(const struct save_place *p, const char *unfinished, bool replace)
{
	return replace ? !renameat(p->dir, unfinished, p->dir, p->name) : save_name(p->dir, unfinished, p->dir, p->name);
}

struct uh_error *save_check(int dir, const char *path)
{
	struct stat st;
	if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) || S_ISREG(st.st_mode))
		return NULL;
	if (S_ISDIR(st.st_mode))
		return uh_error_os(EISDIR, "%s", path);
	return uh_error_new("%s is %s, which is not replaced; name a file", path,
			    S_ISLNK(st.st_mode) ? "a link" : "no regular file");
}

static struct uh_error *save_save(int dir, const char *path, struct str bytes, mode_t mode, enum save_how how)
{
	_cleanup_(place_close) struct save_place p = { .dir = -1 };
	struct uh_error *err = place_open(dir, path, &p);
	char unfinished[NAME_MAX + 1];
	if (err)
		return err;
	struct stat st;
	_cleanup_close_ int like =
		how == SAVE_OVER ? openat(p.dir, p.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
	if (how == SAVE_OVER && (like < 0 || fstat(like, &st)))
		return uh_error_os(errno, "%s", path);
	if (how == SAVE_SHARED && !fstat(p.dir, &st))
		mode &= st.st_mode;
	const struct save_way way = { how, how == SAVE_OVER ? st.st_mode & 07777 : mode, like };
	if (!write_unfinished(&p, bytes, &way, unfinished))
		return uh_error_os(errno, "%s", path);
	if (how == SAVE_SHARED)
		take_group(&p, unfinished);
	if (!give_name(&p, unfinished, how != SAVE_NEW)) {
		err = uh_error_os(errno, "%s", path);
		unlinkat(p.dir, unfinished, 0);
		return err;
	}
	return how == SAVE_SOON ? NULL : place_sync(&p, path);
}

struct uh_error *save_file(int dir, const char *path, struct str bytes, mode_t mode)
{
	return save_save(dir, path, bytes, mode, SAVE_REPLACE);
}

struct uh_error *save_soon(int dir, const char *path, struct str bytes, mode_t mode)
{
	return save_save(dir, path, bytes, mode, SAVE_SOON);
}

struct uh_error *save_new_file(int dir, const char *path, struct str bytes, mode_t mode)
{
	return save_save(dir, path, bytes, mode, SAVE_NEW);
}

struct uh_error *save_shared(int dir, const char *path, struct str bytes, mode_t mode)
{
	return save_save(dir, path, bytes, mode, SAVE_SHARED);
}

void save_give(int fd, mode_t mode)
{
	gid_t group;
	if (!geteuid() && account_group("unhang", &group))
		(void)!fchown(fd, 0, group);
	fchmod(fd, mode);
}

struct uh_error *save_over(int dir, const char *path, struct str bytes) { return save_save(dir, path, bytes, 0, SAVE_OVER); }

struct uh_error *save_remove(int dir, const char *path)
{
	_cleanup_(place_close) struct save_place p = { .dir = -1 };
	struct uh_error *err = place_open(dir, path, &p);
	if (err && err->errnum == ENOENT) {
		uh_error_free(err);
		return NULL;
	}
	if (err)
		return err;
	if (unlinkat(p.dir, p.name, 0))
		return errno == ENOENT ? NULL : uh_error_os(errno, "%s", path);
	return place_sync(&p, path);
}

/** .NAME.1234abcd.unhang-new */
static bool is_unfinished(struct str entry, struct str name)
{
	static const struct str end = { UNFINISHED, sizeof(UNFINISHED) - 1 };
	if (entry.n != 1 + name.n + 1 + RANDOM_DIGITS + end.n || !str_ends(entry, end) || entry.p[0] != '.' ||
	    entry.p[1 + name.n] != '.')
		return false;
	return str_starts(str_from(entry, 1), name);
}

unsigned save_left_over(int dir, const char *path, bool remove)
{
	struct save_place p = { .dir = -1 };
	struct uh_error *err = place_open(dir, path, &p);
	if (err) {
		uh_error_free(err);
		return 0;
	}
	DIR *list = fdopendir(p.dir);
	if (!list) {
		place_close(&p);
		return 0;
	}
	unsigned found = 0;
	for (struct dirent *e = readdir(list); e; e = readdir(list)) {
		if (!is_unfinished(str_z(e->d_name), str_z(p.name)))
			continue;
		found++;
		if (remove)
			unlinkat(p.dir, e->d_name, 0);
	}
	closedir(list);
	return found;
}

const char *absolute_path(struct arena *a, const char *path)
{
	char here[PATH_MAX];
	if (!path || !*path || *path == '/' || !getcwd(here, sizeof(here)))
		return path;
	return arena_printf(a, "%s/%s", strcmp(here, "/") ? here : "", path).p;
}

bool make_above(int dir, const char *path, mode_t mode)
{
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		char part[PATH_MAX];
		str_copy(part, sizeof(part), (struct str){ path, (size_t)(slash - path) });
		if (mkdirat(dir, part, mode) && errno != EEXIST)
			return false;
	}
	return true;
}

static void remove_to_depth(int dir, int depth)
{
	const int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = again < 0 ? NULL : fdopendir(again);
	for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list)) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !unlinkat(dir, e->d_name, 0) || !depth)
			continue;
		_cleanup_close_ int below = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below >= 0)
			remove_to_depth(below, depth - 1);
		unlinkat(dir, e->d_name, AT_REMOVEDIR);
	}
	if (list)
		closedir(list);
	else if (again >= 0)
		close(again);
}

void remove_below(int dir)
{
	enum { DEPTH_MOST = 16 };
	remove_to_depth(dir, DEPTH_MOST);
}
