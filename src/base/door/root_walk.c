#include "base/door/root_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { LINKS_MOST = 40 }; // as many as the kernel follows

struct root_walk {
	int root, at;
	char done[PATH_MAX]; // the way to @at, without links; empty at the root
	char rest[PATH_MAX]; // what is left of the path
	unsigned links;
};

/** Puts @at in the place of where the walk is. false where it is an error. */
static bool move(struct root_walk *w, int at)
{
	if (at < 0)
		return false;
	cleanup_close(&w->at);
	w->at = at;
	return true;
}

/** Goes from the root to @way, which has no links: one that is there now is an error. */
static bool go(struct root_walk *w, struct str way)
{
	bool good = move(w, openat(w->root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
	while (good && way.n) {
		char name[NAME_MAX + 1];
		str_copy(name, sizeof(name), str_split(&way, '/'));
		good = move(w, openat(w->at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	}
	return good;
}

static bool go_up(struct root_walk *w)
{
	char *slash = strrchr(w->done, '/');
	*(slash ? slash : w->done) = 0;
	return go(w, str_z(w->done));
}

static bool go_down(struct root_walk *w, const char *name)
{
	size_t n = strlen(w->done), room = sizeof(w->done) - n;
	if (snprintf(w->done + n, room, "%s%s", n ? "/" : "", name) >= (int)room)
		return errno = ENAMETOOLONG, false;
	return move(w, openat(w->at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/** Puts where @link points before what is left of the path. */
static bool follow(struct root_walk *w, int link)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(link, "", target, sizeof(target));
	size_t left = strlen(w->rest) + 1;
	if (n <= 0)
		return errno = n ? errno : ENOENT, false;
	if (++w->links > LINKS_MOST)
		return errno = ELOOP, false;
	if ((size_t)n + left > sizeof(w->rest))
		return errno = ENAMETOOLONG, false;
	memmove(w->rest + n, w->rest, left);
	memcpy(w->rest, target, (size_t)n);
	if (target[0] != '/')
		return true;
	w->done[0] = 0;
	return go(w, S(""));
}

/** Takes the next component off the path; empty at its end. */
static bool next_name(struct root_walk *w, char ret[static NAME_MAX + 1])
{
	const char *from = w->rest + strspn(w->rest, "/");
	size_t n = strcspn(from, "/");
	if (n > NAME_MAX)
		return errno = ENAMETOOLONG, false;
	str_copy(ret, NAME_MAX + 1, (struct str){ from, n });
	memmove(w->rest, from + n, strlen(from + n) + 1);
	return true;
}

static int walk(struct root_walk *w, int flags)
{
	char name[NAME_MAX + 1];
	while (next_name(w, name)) {
		bool last = !w->rest[0], up = !strcmp(name, "..");
		if (!name[0])
			return openat(w->at, ".", flags | O_CLOEXEC);
		if (!strcmp(name, ".") || (up && go_up(w)))
			continue;
		struct stat st;
		_cleanup_close_ int at = up ? -1 : openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (at < 0 || fstat(at, &st))
			return -1;
		bool link = S_ISLNK(st.st_mode) && !(last && flags & O_NOFOLLOW);
		if (!link && last)
			return openat(w->at, name, flags | O_NOFOLLOW | O_CLOEXEC);
		if (!(link ? follow(w, at) : go_down(w, name)))
			return -1;
	}
	return -1;
}

int root_walk(int root, const char *path, int flags)
{
	struct root_walk w = { .root = root, .at = -1 };
	if (strlen(path) >= sizeof(w.rest))
		return errno = ENAMETOOLONG, -1;
	str_copy(w.rest, sizeof(w.rest), str_z(path));
	int ret = go(&w, S("")) ? walk(&w, flags) : -1;
	cleanup_close(&w.at);
	return ret;
}
