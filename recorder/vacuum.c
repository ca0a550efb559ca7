// Old recordings: those of processes that have ended, all but the newest.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/recorder.h"

enum { FILES_MOST = 4096 };

struct old_recording {
	char path[PATH_MOST + 256];
	struct timespec time;
};

static int newest_first(const void *a, const void *b)
{
	const struct timespec *x = &((const struct old_recording *)a)->time, *y = &((const struct old_recording *)b)->time;
	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? 1 : -1;
	return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

/** A recording of this user: whether its process lives, and when it was last touched. false: it is none. */
static bool look(const char *path, bool *ret_lives, struct timespec *ret_time)
{
	struct stat st;
	_cleanup_close_ int fd = own_file(path, file_kind.magic, MAGIC_SIZE);
	const bool good = fd >= 0 && !stat_fd(fd, &st);
	if (good) {
		*ret_lives = is_locked(fd);
		*ret_time = st.st_mtim;
	}
	return good;
}

/** @ret_removed: the word that says how many were removed for it; NULL: it has none. false: it stays. */
static bool drop(const char *path, const char *magic, size_t n, uint32_t *ret_removed)
{
	_cleanup_close_ int fd = own_file(path, magic, n);
	if (fd < 0)
		return false;
	if (ret_removed && pread(fd, ret_removed, sizeof(*ret_removed), (off_t)file_kind.removed) < 0)
		*ret_removed = 0;
	return !is_locked(fd) && remove_open(path, fd);
}

/** With the light core beside it. */
static uint32_t drop_both(const char *path)
{
	char core[sizeof(((struct old_recording *)0)->path)];
	uint32_t before = 0;
	const bool removed = drop(path, file_kind.magic, MAGIC_SIZE, &before);
	if (core_beside(path, core, sizeof(core)))
		drop(core, CORE_MAGIC, sizeof(CORE_MAGIC), NULL);
	return removed ? before + 1 : 0;
}

uint32_t vacuum(const char *directory, uint64_t keep, uint64_t most)
{
	const size_t suffix = strlen(file_kind.suffix);
	DIR *d = opendir(directory);
	_cleanup_free_ struct old_recording *list = d ? calloc(FILES_MOST, sizeof(*list)) : NULL;
	size_t n = 0;
	uint32_t removed = 0;
	for (struct dirent *e; list && n < FILES_MOST && (e = readdir(d));) {
		const size_t len = strlen(e->d_name);
		bool lives;
		snprintf(list[n].path, sizeof(list[n].path), "%s/%s", directory, e->d_name);
		if (len <= suffix || strcmp(e->d_name + len - suffix, file_kind.suffix) ||
		    !look(list[n].path, &lives, &list[n].time))
			continue;
		if (!lives)
			n++;
		else if (most)
			most--;
	}
	keep = keep < most ? keep : most;
	if (n > keep) {
		qsort(list, n, sizeof(*list), newest_first);
		for (size_t i = keep; i < n; i++)
			removed += drop_both(list[i].path);
	}
	if (d)
		closedir(d);
	return removed;
}
