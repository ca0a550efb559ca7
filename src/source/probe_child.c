// The child of a batch: it opens, reads and asks, and writes its answers into memory that its parent shares.
#include "source/probe_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/root.h"
#include "source/probe_find.h"
#include "source/probe_list.h"
#include "source/tape/tomb.h"

enum { PAGE = 4096 };

static void count_one(struct probe_work *w)
{
	w->room->operations++;
	w->room->moved = now_ms();
}

static void moved(void *work) { count_one(work); }

/** Another child has the GPU: that is no fault of the file. */
static void waits(void *work) { ((struct probe_work *)work)->room->moved = now_ms(); }

static ssize_t read_at(struct probe_work *w, int fd, char *to, size_t size, uint64_t offset)
{
	ssize_t n;
	do {
		count_one(w);
		n = pread(fd, to, size, (off_t)offset);
	} while (n < 0 && errno == EINTR);
	return n;
}

/** sysfs gives a page at a time, and less only at the end; the others are read until nothing comes. */
static bool short_ends(const char *path)
{
	struct str s = str_z(path);
	return str_starts(s, S("/sys/")) && !str_starts(s, S("/sys/kernel/debug/"));
}

static ssize_t read_file(struct probe_work *w, const struct probe *p, int fd, char *to, size_t size)
{
	size_t at = 0;
	struct stat st;
	uint64_t start = 0;
	if (p->from_end && !fstat(fd, &st) && st.st_size > (off_t)size)
		start = (uint64_t)st.st_size - size;
	while (at < size) {
		ssize_t n = read_at(w, fd, to + at, size - at, start + at);
		if (n < 0)
			return -1;
		at += (size_t)n;
		if (n == 0 || (n < PAGE && short_ends(p->path)))
			break;
	}
	return (ssize_t)at;
}

struct probe_entry {
	uint64_t inode, offset;
	unsigned short size;
	unsigned char type;
	char name[];
};

static ssize_t read_list(struct probe_work *w, int fd, char *to, size_t size)
{
	_Alignas(struct probe_entry) char room[PAGE];
	size_t at = 0;
	for (;;) {
		count_one(w);
		long n = syscall(SYS_getdents64, fd, room, sizeof(room));
		if (n <= 0)
			return n < 0 ? -1 : (ssize_t)at;
		for (long i = 0; i < n; i += ((struct probe_entry *)(room + i))->size) {
			struct str name = str_z(((struct probe_entry *)(room + i))->name);
			if (name.p[0] == '.')
				continue;
			if (name.n + 1 > size - at)
				return (ssize_t)at;
			memcpy(to + at, name.p, name.n);
			to[at + name.n] = '\n';
			at += name.n + 1;
		}
	}
}

/** The answer to an AMDGPU_INFO goes where its pointer points: to the room. DRM_VERSION's texts are not asked for. */
static ssize_t control(struct probe_work *w, const struct probe *p, int fd, char *to)
{
	_Alignas(uint64_t) char argument[ARGUMENT_MOST] = { 0 };
	unsigned long request = p->kind == PROBE_QUERY ? AMDGPU_INFO_IOCTL : p->request;
	if (request != DRM_VERSION_IOCTL)
		memcpy(argument, p->argument, p->argument_size);
	if (p->kind == PROBE_QUERY) {
		struct amdgpu_query *q = (struct amdgpu_query *)argument;
		q->pointer = (uintptr_t)to;
		q->size = (uint32_t)probe_size(p);
	}
	count_one(w);
	if (ioctl(fd, request, argument) < 0)
		return -1;
	if (p->kind == PROBE_QUERY)
		return (ssize_t)probe_size(p);
	if (p->kind == PROBE_BANKED)
		return read_at(w, fd, to, probe_size(p), p->offset);
	memcpy(to, argument, p->argument_size);
	return (ssize_t)p->argument_size;
}

static ssize_t operate(struct probe_work *w, const struct probe *p, int fd, char *to)
{
	switch (p->kind) {
	case PROBE_FILE:
		return read_file(w, p, fd, to, probe_size(p));
	case PROBE_LIST:
		return read_list(w, fd, to, probe_size(p));
	case PROBE_READ:
		return read_at(w, fd, to, probe_size(p), p->offset);
	case PROBE_FIND:
		return probe_find(fd, p->find, to, probe_size(p), moved, w);
	case PROBE_SECTION:
		return probe_section(fd, p->find, to, probe_size(p), moved, w);
	default:
		return control(w, p, fd, to);
	}
}

static bool reopens(const struct probe *p, const struct probe *last)
{
	return !last || last->kind == PROBE_LIST || p->kind == PROBE_LIST || strcmp(p->path, last->path) != 0;
}

/** This machine's kernel may be mounted into a tree, as it is for a chroot: its files are no record, and some of them act. */
static bool of_this_kernel(int fd)
{
	static const long kinds[] = { SYSFS_MAGIC,    DEBUGFS_MAGIC,       PROC_SUPER_MAGIC,
				      EFIVARFS_MAGIC, CGROUP2_SUPER_MAGIC, PSTOREFS_MAGIC };
	struct statfs st;
	if (fstatfs(fd, &st))
		return true;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if ((long)st.f_type == kinds[i])
			return true;
	return false;
}

/** A tree may hold anything: nothing in it leads out of it, and what is neither a file nor a directory is not opened. */
static int open_probe(const struct probe_work *w, const char *path)
{
	if (!w->root)
		return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	_cleanup_close_ int at = root_open_at(w->root_fd, path, O_PATH);
	if (at < 0 || fstat(at, &st))
		return -1;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return errno = EIO, -1; // what it says is not known
	if (of_this_kernel(at))
		return errno = EXDEV, -1;
	return root_open_at(w->root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

static ssize_t read_link(const struct probe_work *w, const char *path, char *to, size_t size)
{
	if (!w->root)
		return readlink(path, to, size);
	_cleanup_close_ int at = root_open_at(w->root_fd, path, O_PATH | O_NOFOLLOW);
	return at < 0 ? -1 : readlinkat(at, "", to, size);
}

static void do_probe(struct probe_work *w, const struct probe *p, const struct probe *last, int *fd, struct probe_answer *ret)
{
	char *to = (char *)w->room + ret->at;
	ssize_t n = -1;
	if (p->kind == PROBE_LINK) {
		count_one(w);
		n = read_link(w, p->path, to, probe_size(p));
	} else {
		// A file that could not be opened is not tried again for each operation on it: *fd is the error then.
		if (reopens(p, last)) {
			// Closing a render node may wait for the GPU: that is left to the child's end.
			if (last && last->kind != PROBE_QUERY)
				cleanup_close(fd);
			w->room->moved = now_ms();
			*fd = open_probe(w, p->path);
			*fd = *fd < 0 ? -errno : *fd;
		}
		if (*fd >= 0)
			n = operate(w, p, *fd, to);
		else
			errno = -*fd;
	}
	ret->error = n < 0 ? errno : 0;
	ret->n = n < 0 ? 0 : (size_t)n;
	ret->end = n < 0 ? PROBE_FAILED : PROBE_GOOD;
}

/** How many operations behind this one are not to be made. */
static size_t skipped_behind(const struct probe_work *w, size_t i)
{
	const struct probe *p = &w->probes[i];
	const struct probe_answer *a = &w->room->answers[i];
	size_t left = w->n - i - 1;
	bool failed = p->unless_fails && a->end == PROBE_FAILED;
	if (failed)
		return p->skips < left ? p->skips : left;
	if (!p->unless.n || a->end != PROBE_GOOD || p->unless_at > a->n || p->unless.n > a->n - p->unless_at ||
	    memcmp((const char *)w->room + a->at + p->unless_at, p->unless.p, p->unless.n) != 0)
		return 0;
	return p->skips < left ? p->skips : left;
}

void probe_child(int pipe, const void *ctx)
{
	struct probe_work w = *(const struct probe_work *)ctx;
	const struct probe *last = NULL;
	struct tomb_hold hold = { .fd = -1, .milliseconds = w.milliseconds, .waits = waits, .ctx = &w };
	int fd = -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != w.parent)
		return;
	child_keep_only(pipe);
	if (w.root)
		w.root_fd = open(w.root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < w.n; i++) {
		if (w.room->answers[i].end == PROBE_FORBIDDEN)
			continue;
		w.room->current = i;
		if (!w.root && reopens(&w.probes[i], last) && !tomb_take(&hold, str_z(w.probes[i].path))) {
			w.room->held = w.room->held ? w.room->held : i + 1;
			if (!w.goes_on)
				break;
			continue;
		}
		do_probe(&w, &w.probes[i], last, &fd, &w.room->answers[i]);
		last = &w.probes[i];
		i += skipped_behind(&w, i);
	}
	w.room->done = true;
}
