// How far the flight recording of a process is.
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "evidence/recording/head.h"
#include "evidence/recording/places.h"
#include "source/clerk/clerk.h"
#include "watch/pulse/signs.h"

#define ENDING ".recording"
enum { DIRECTORIES_MOST = 64, FILES_MOST = 1024 };

struct packets {
	uint64_t taken;
	bool waits;
};

static void count_queue(void *ctx, const struct rec_queue *q)
{
	struct packets *p = ctx;
	if (q->destroyed)
		return;
	p->taken += q->read;
	p->waits |= q->write > q->read;
}

bool recorded_packets(int fd, uint64_t *ret_taken, bool *ret_waits)
{
	struct rec_header h;
	struct packets p = { 0 };
	if (fd < 0 || !recording_head(fd, &h) || h.state != RECORDING_ON || !recording_queue_heads(fd, count_queue, &p))
		return false;
	*ret_taken = p.taken;
	*ret_waits = p.waits;
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

/** HOST.PID.recording */
static bool is_of(struct str name, int64_t pid)
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

void recorded_find(int64_t pid, char *ret, size_t size)
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
			if (is_of(str_z(f->d_name), pid))
				snprintf(ret, size, "%s/%s", e->d_name, f->d_name);
	}
}
