// Old recordings: those of processes that have ended, all but the newest.
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/recorder.h"

enum { FILES_MOST = 4096 };

struct old_recording {
	char name[256];
	struct timespec time;
};

/** A file of ours whose process has ended: nobody holds its lock. */
static bool ended(int directory, const char *name, struct timespec *ret_time)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char magic[8];
	struct stat st;
	bool is = false;
	const int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == getuid() &&
	    pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && !memcmp(magic, RECORDING_MAGIC, sizeof(magic)))
		is = !fcntl(fd, F_GETLK, &lock) && lock.l_type == F_UNLCK;
	close(fd);
	*ret_time = st.st_mtim;
	return is;
}

static int newest_first(const void *a, const void *b)
{
	const struct timespec *x = &((const struct old_recording *)a)->time, *y = &((const struct old_recording *)b)->time;
	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? 1 : -1;
	return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

void vacuum(const char *directory, uint32_t keep)
{
	static const char suffix[] = ".recording";
	DIR *d = opendir(directory);
	struct old_recording *list = d ? calloc(FILES_MOST, sizeof(*list)) : NULL;
	size_t n = 0;
	for (struct dirent *e; list && n < FILES_MOST && (e = readdir(d));) {
		const size_t len = strlen(e->d_name);
		if (len < sizeof(suffix) || strcmp(e->d_name + len - sizeof(suffix) + 1, suffix) ||
		    !ended(dirfd(d), e->d_name, &list[n].time))
			continue;
		memcpy(list[n++].name, e->d_name, len + 1);
	}
	if (n > keep) {
		qsort(list, n, sizeof(*list), newest_first);
		for (size_t i = keep; i < n; i++) {
			char core[sizeof(list[i].name) + 16];
			unlinkat(dirfd(d), list[i].name, 0);
			if (core_beside(list[i].name, core, sizeof(core)))
				unlinkat(dirfd(d), core, 0);
		}
	}
	free(list);
	if (d)
		closedir(d);
}
