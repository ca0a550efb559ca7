// Walks a path from the root down and judges each directory, link and file by its descriptor, so that nobody can exchange one of them
// between the judgement and the use.
#include "base/door/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/door/caller.h"
#include "base/door/library.h"
#include "base/cleanup.h"

enum { LINKS_MOST = 40, ROOT = 0 };

/** A way from the root down. */
struct trust_walk {
	struct arena arena;
	int top;           // as high as it goes
	int node;          // where it is
	int parent;        // of a node that is a file
	unsigned depth;    // of the node below the top
	unsigned links;    // that were followed
	uid_t caller, own; // own: who owns the root directory, which is root also where a user namespace shows another number
	dev_t device;      // that the root directory lies on
	bool given;        // who owns the top of a mount is believed in it
	dev_t mount;       // that the node lies on
	uid_t mount_owner; // who owns its top
	struct str rest;   // of the path; it begins with a slash where it begins at the top
	struct text real;  // the way so far, without links
	size_t real_top;   // how much of it leads to the top
	struct text why;   // the first thing on the way that is not believed
};

static void walk_end(struct trust_walk *w)
{
	cleanup_close(&w->top);
	cleanup_close(&w->node);
	cleanup_close(&w->parent);
	text_free(&w->real);
	text_free(&w->why);
	arena_free(&w->arena);
}

static void trust_move(int *to, int fd)
{
	cleanup_close(to);
	*to = fd;
}

static bool believed_owner(const struct trust_walk *w, uid_t uid)
{
	return uid == ROOT || uid == w->own || uid == w->caller || uid == geteuid();
}

bool trust_owner(uid_t uid) { return uid == ROOT || uid == geteuid() || uid == caller_uid(); }

/** Whether it may be a user's own file system, which says of its files what that user likes. A container's whole root may be one. */
static bool invented(const struct trust_walk *w, int fd, const struct stat *st)
{
	struct statfs fs;
	return geteuid() == ROOT && st->st_dev != w->device &&
	       (fstatfs(fd, &fs) || (unsigned long)fs.f_type == FUSE_SUPER_MAGIC);
}

/** Of the directories that a container is given, those of its user: whoever put the mount there meant him. */
static bool trust_given(struct trust_walk *w, const struct stat *st)
{
	if (st->st_dev != w->mount) {
		w->mount = st->st_dev;
		w->mount_owner = st->st_uid;
	}
	return w->given && st->st_uid == w->mount_owner && !believed_owner(w, st->st_uid);
}

/** An access list shows in the bits of the group, which are its mask. In a sticky directory nobody replaces files of others, and each
 * file is judged by its own owner. */
static void trust_judge(struct trust_walk *w, int fd, const struct stat *st, const char *name)
{
	const bool sticky = S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX;
	const bool given = trust_given(w, st);
	if (w->why.n)
		return;
	const struct str it = arena_printf(&w->arena, STR_FMT "/%s", STR_ARG(text_str(&w->real)), name);
	if (invented(w, fd, st))
		text_printf(&w->why, STR_FMT " lies in a file system of FUSE", STR_ARG(it));
	else if (given)
		return;
	else if (!believed_owner(w, st->st_uid))
		text_printf(&w->why, STR_FMT " belongs to user %u, neither to root nor to you", STR_ARG(it),
			    (unsigned)st->st_uid);
	else if (!S_ISLNK(st->st_mode) && !sticky && st->st_mode & (S_IWGRP | S_IWOTH))
		text_printf(&w->why, "not only its owner may write " STR_FMT, STR_ARG(it));
}

// These return errno. A path that is not believed is still followed to its end: if there is no such file, nothing needs to be said.

static int go_to_top(struct trust_walk *w)
{
	trust_move(&w->node, fcntl(w->top, F_DUPFD_CLOEXEC, 0));
	w->depth = 0;
	w->mount = w->device;
	w->mount_owner = w->own;
	w->real.n = w->real_top;
	return w->node < 0 ? errno : 0;
}

static int trust_go_up(struct trust_walk *w)
{
	if (!w->depth)
		return 0;
	trust_move(&w->node, openat(w->node, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
	w->depth--;
	w->mount_owner = w->own; // it may be another mount
	while (w->real.n && w->real.p[--w->real.n] != '/')
		;
	return w->node < 0 ? errno : 0;
}

static int trust_follow(struct trust_walk *w, int link)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(link, "", target, sizeof(target));
	if (n <= 0 || n == sizeof(target) || ++w->links > LINKS_MOST)
		return n < 0 ? errno : ELOOP;
	w->rest = arena_printf(&w->arena, "%.*s/" STR_FMT, (int)n, target, STR_ARG(w->rest));
	return 0;
}

static int trust_go_down(struct trust_walk *w, const char *name)
{
	struct stat st;
	// O_DIRECTORY makes the kernel mount a directory that is mounted on demand.
	_cleanup_close_ int fd = openat(w->node, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOTDIR)
		fd = openat(w->node, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return errno;
	trust_judge(w, fd, &st, name);
	if (S_ISLNK(st.st_mode))
		return trust_follow(w, fd);
	trust_move(&w->parent, w->node);
	w->node = fd;
	fd = -1;
	w->depth++;
	text_printf(&w->real, "/%s", name);
	return 0;
}

static int trust_go(struct trust_walk *w, const char *path)
{
	int err = 0;
	w->rest = str_z(path);
	while (w->rest.n && !err) {
		char name[NAME_MAX + 1];
		const bool from_top = w->rest.p[0] == '/';
		const struct str step = from_top ? S("") : str_split(&w->rest, '/');
		while (w->rest.n && w->rest.p[0] == '/')
			w->rest = str_from(w->rest, 1);
		if (step.n > NAME_MAX)
			return ENAMETOOLONG;
		str_copy(name, sizeof(name), step);
		if (from_top)
			err = go_to_top(w);
		else if (!strcmp(name, ".."))
			err = trust_go_up(w);
		else if (strcmp(name, "."))
			err = trust_go_down(w, name);
	}
	return err;
}

static int door_trust_walk(struct trust_walk *w, const char *root, const char *path)
{
	struct stat st;
	char here[PATH_MAX];
	w->node = w->parent = -1;
	w->caller = caller_uid();
	w->top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->top < 0 || fstat(w->top, &st))
		return errno;
	w->own = w->mount_owner = st.st_uid;
	w->device = w->mount = st.st_dev;
	trust_judge(w, w->top, &st, "");
	const char *first = root ? root : path;
	int err = first[0] == '/' ? 0 : getcwd(here, sizeof(here)) ? trust_go(w, here) : errno;
	if (!err && root) {
		err = trust_go(w, root);
		trust_move(&w->top, fcntl(w->node, F_DUPFD_CLOEXEC, 0));
		w->real_top = w->real.n;
		w->depth = 0;
	}
	return err ? err : trust_go(w, path);
}

static struct uh_error *walk_believed(struct trust_walk *w, const char *root, const char *path)
{
	int err = door_trust_walk(w, root, path);
	if (err)
		return uh_error_os(err, "%s", path);
	return w->why.n ? uh_error_new("%s: not used: " STR_FMT, path, STR_ARG(text_str(&w->why))) : NULL;
}

/** The node, which was opened to be judged only, for use. */
static struct uh_error *reopen(const struct trust_walk *w, const char *path, int flags, int *ret_fd)
{
	struct stat judged, st;
	flags |= O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	if (fstat(w->node, &judged))
		return uh_error_os(errno, "%s", path);
	const bool directory = S_ISDIR(judged.st_mode);
	if (!directory && !S_ISREG(judged.st_mode)) // to open a device may do something already
		return uh_error_new("%s: not a file", path);
	_cleanup_close_ int fd =
		directory ? openat(w->node, ".", flags) : openat(w->parent, strrchr(w->real.p, '/') + 1, flags);
	if (fd < 0 || fstat(fd, &st))
		return uh_error_os(errno, "%s", path);
	if (st.st_dev != judged.st_dev || st.st_ino != judged.st_ino)
		return uh_error_os(ESTALE, "%s", path);
	*ret_fd = fd;
	fd = -1;
	return NULL;
}

struct uh_error *trust_open(const char *root, const char *path, int flags, int *ret_fd)
{
	_cleanup_(walk_end) struct trust_walk w = { 0 };
	struct uh_error *err = walk_believed(&w, root, path);
	return err ? err : reopen(&w, path, flags, ret_fd);
}

struct uh_error *trust_open_below(const char *path, bool given, int *ret_fd)
{
	_cleanup_(walk_end) struct trust_walk w = { .given = given };
	struct uh_error *err = walk_believed(&w, NULL, path);
	return err ? err : reopen(&w, path, O_RDONLY | O_DIRECTORY, ret_fd);
}

struct uh_error *trust_real_path(struct arena *a, const char *path, const char **ret)
{
	_cleanup_(walk_end) struct trust_walk w = { 0 };
	struct uh_error *err = walk_believed(&w, NULL, path);
	if (!err)
		*ret = arena_z(a, text_str(&w.real));
	return err;
}

void *trust_load(const char *name, int flags, struct uh_error **ret_refused)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct uh_error *err = !library_loads ? uh_error_new("the static unhang loads no libraries; use one from a package") :
			       strchr(name, '/') ? trust_real_path(&room, name, &name) :
						   NULL;
	void *library = err ? NULL : library_open(name, flags);
	const bool refused = err && !err->errnum;
	if (!refused)
		uh_error_free(err);
	*ret_refused = refused ? err : NULL;
	return library;
}
