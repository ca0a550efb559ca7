// The directory of a run's recordings. They lie in memory while the job runs. Its path is in the record of the run, so that what a run which was
// killed left there can be found; but a record is text, and who wrote it may be another.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "job/parts.h"

#define RANDOM_END "-XXXXXX"

/** The directory that the user's own UNHANG_RECORDING names; else shared memory. In a container that dies with it. /dev/null is a word of
 * the recorder's, and no file. */
static const char *recordings_base(struct supervisor *s)
{
	const char *own = getenv("UNHANG_RECORDING"), *slash = own ? strrchr(own, '/') : NULL;
	if (own && own[0] == '/' && slash > own && strcmp(own, "/dev/null") && !memchr(own, '%', (size_t)(slash - own)))
		return arena_z(s->arena, (struct str){ own, (size_t)(slash - own) });
	return access("/dev/shm", W_OK) ? s->directory : "/dev/shm";
}

/** A directory of ours alone; -1: it is none. */
static int open_own(const char *path)
{
	struct stat st;
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/** Whether there is such a directory of ours alone now. In a directory that others may write to, somebody may have made it before us. */
static bool make_private(const char *path)
{
	if (!mkdir(path, 0700))
		return true;
	if (errno != EEXIST)
		return false;
	_cleanup_close_ int fd = open_own(path);
	errno = EEXIST;
	return fd >= 0;
}

static struct str name_of(struct arena *a, struct str run_id)
{
	return arena_printf(a, RECORDINGS_BEGIN "%u." STR_FMT, (unsigned)getuid(), STR_ARG(run_id));
}

/** The recordings lie in memory, in a directory of their own that capture and `unhang last` know by its name. Where that is another user's,
 * it has an ending that nobody can guess. */
struct uh_error *recordings_make(struct supervisor *s)
{
	const struct str name = name_of(s->arena, s->run->id),
			 path = arena_printf(s->arena, "%s/" STR_FMT, recordings_base(s), STR_ARG(name));
	char *other = arena_z(s->arena, arena_printf(s->arena, STR_FMT RANDOM_END, STR_ARG(path)));
	const char *made = make_private(path.p) ? path.p : errno == EEXIST ? mkdtemp(other) : NULL;
	if (!made)
		return uh_error_os(errno, "%s", path.p);
	s->recordings = made;
	s->run->recordings = str_z(s->recordings);
	return NULL;
}

bool recordings_believed(struct str path, struct str run_id)
{
	struct arena a = { 0 };
	struct str more;
	const bool named = str_behind(str_base(path), name_of(&a, run_id), &more) &&
			   (!more.n || (more.n == strlen(RANDOM_END) && more.p[0] == RANDOM_END[0]));
	_cleanup_close_ int fd = named && run_id.n && path.p[0] == '/' ? open_own(arena_z(&a, path)) : -1;
	arena_free(&a);
	return fd >= 0;
}

void recordings_empty(const char *path)
{
	const int fd = open_own(path);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

void recordings_remove(const char *path)
{
	recordings_empty(path);
	rmdir(path);
}
