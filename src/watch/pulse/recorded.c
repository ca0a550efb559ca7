// How far the flight recording of a process is.
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "evidence/recording/head.h"
#include "evidence/recording/places.h"
#include "source/clerk/clerk.h"
#include "watch/pulse/signs.h"

#define ENDING ".recording"
enum { DIRECTORIES_MOST = 64, FILES_MOST = 1024 };

bool recorded_packets(int fd, uint64_t *ret_taken, bool *ret_waits)
{
	struct rec_header h;
	struct recorded_pace p;
	if (fd < 0 || !recording_head(fd, &h) || h.state != RECORDING_ON || !recording_pace(fd, &p))
		return false;
	*ret_taken = p.taken;
	*ret_waits = p.busy;
	return true;
}

static void cleanup_directory(DIR **d)
{
	if (*d)
		closedir(*d);
}

static DIR *list(const char *name)
{
	int fd = clerk_open_shared(name, CLERK_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !d)
		close(fd);
	return d;
}

/** Whether the process was there when the recording began; its start is known in whole ticks. */
static bool began_before(const struct sign_process *p, const struct rec_header *h)
{
	enum { NS = 1000000000 };
	const uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
	return !h->start.boot_ns || h->start.boot_ns / (NS / ticks) + 1 >= p->stat.began;
}

bool recorded_is_of(int fd, const struct sign_process *p)
{
	uid_t owner;
	struct stat file;
	struct rec_header h;
	if (fd < 0 || fstat(fd, &file) || !process_owner(p->pid, &owner) || owner != file.st_uid || !recording_head(fd, &h))
		return false;
	// In a namespace of its own the process does not know the number that others know it by.
	return (h.pid_namespace || h.pid == (uint64_t)p->pid) && began_before(p, &h);
}

/** HOST.PID.recording */
static bool is_named(struct str name, int64_t pid)
{
	int64_t n;
	if (!str_ends(name, S(ENDING)))
		return false;
	struct str stem = str_cut(name, name.n - (sizeof(ENDING) - 1));
	size_t begin = stem.n;
	while (begin && char_digit(stem.p[begin - 1]))
		begin--;
	return str_number(str_from(stem, begin), &n) && n == pid;
}

void recorded_find(const struct sign_process *p, char *ret, size_t size)
{
	__attribute__((cleanup(cleanup_directory))) DIR *top = opendir(RECORDINGS_ROOT);
	ret[0] = '\0';
	unsigned seen = 0;
	for (const struct dirent *e = top ? readdir(top) : NULL; e && seen < DIRECTORIES_MOST && !ret[0]; e = readdir(top)) {
		if (!str_starts(str_z(e->d_name), S("unhang-")))
			continue;
		seen++;
		__attribute__((cleanup(cleanup_directory))) DIR *d = list(e->d_name);
		unsigned files = 0;
		for (const struct dirent *f = d ? readdir(d) : NULL; f && files < FILES_MOST && !ret[0];
		     f = readdir(d), files++)
			if (is_named(str_z(f->d_name), p->pid)) {
				snprintf(ret, size, "%s/%s", e->d_name, f->d_name);
				_cleanup_close_ int fd = clerk_open_shared(ret, CLERK_RECORDING);
				ret[0] = recorded_is_of(fd, p) ? ret[0] : '\0';
			}
	}
}
