// The reader: a child that opens, reads and asks, and writes its answers into memory that its parent shares.
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/door/root.h"
#include "source/probe_child.h"
#include "source/probe_find.h"
#include "source/probe_list.h"
#include "source/tape/stuck_reads.h"

enum { PAGE = 4096 };

/** What the reader is at. */
struct probe_work {
	struct probe_room *room;
	struct probe_batch batch;
	int64_t began;  // in milliseconds
	int root_fd;    // of a tree
	int fd;         // the file that is open; -errno: it could not be opened
	VEC(int) nodes; // render nodes: to close one may wait for the GPU, so that is left to the end
};

static void count_one(void *work)
{
	struct probe_work *w = work;
	w->room->operations++;
	w->room->moved = now_ms();
}

/** Another child has the GPU: that is no fault of the file. */
static void waits(void *work) { ((struct probe_work *)work)->room->moved = now_ms(); }

static ssize_t probe_child_read_at(struct probe_work *w, int fd, char *to, size_t size, uint64_t offset)
{
	ssize_t n;
	do {
		count_one(w);
		n = pread(fd, to, size, (off_t)offset);
	} while (n < 0 && errno == EINTR);
	return n;
}

static ssize_t read_file(struct probe_work *w, const struct probe *p, int fd, char *to, size_t size)
{
	size_t at = 0;
	struct stat st;
	uint64_t start = 0;
	// sysfs gives a page at a time, and less only at the end; the others are read until nothing comes.
	const struct str path = str_z(p->path);
	const bool short_ends = str_starts(path, S("/sys/")) && !str_starts(path, S("/sys/kernel/debug/"));
	if (p->from_end && !fstat(fd, &st) && st.st_size > (off_t)size)
		start = (uint64_t)st.st_size - size;
	while (at < size) {
		ssize_t n = probe_child_read_at(w, fd, to + at, size - at, start + at);
		if (n < 0)
			return -1;
		at += (size_t)n;
		if (n == 0 || (n < PAGE && short_ends))
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
		memset(to, 0, probe_size(p)); // the driver may write less, and another batch was here
		q->pointer = (uintptr_t)to;
		q->size = (uint32_t)probe_size(p);
	}
	count_one(w);
	if (ioctl(fd, request, argument) < 0)
		return -1;
	if (p->kind == PROBE_QUERY)
		return (ssize_t)probe_size(p);
	if (p->kind == PROBE_BANKED)
		return probe_child_read_at(w, fd, to, probe_size(p), p->offset);
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
		return probe_child_read_at(w, fd, to, probe_size(p), p->offset);
	case PROBE_FIND:
		return probe_find(fd, p->find, to, probe_size(p), count_one, w);
	case PROBE_SECTION:
		return probe_section(fd, p->find, to, probe_size(p), count_one, w);
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
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((long)st.f_type == kinds[i])
			return true;
	return false;
}

/** A tree may hold anything: nothing in it leads out of it, and what is neither a file nor a directory is not opened. */
static int open_probe(const struct probe_work *w, const char *path)
{
	if (!w->batch.root)
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

static int64_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void do_probe(struct probe_work *w, const struct probe *p, const struct probe *last, struct probe_answer *ret)
{
	char *to = (char *)w->room + ret->at;
	const int64_t began = now_us();
	ssize_t n = -1;
	if (p->kind == PROBE_LINK) {
		count_one(w);
		_cleanup_close_ int at = w->batch.root ? root_open_at(w->root_fd, p->path, O_PATH | O_NOFOLLOW) : -1;
		n = at >= 0 ? readlinkat(at, "", to, probe_size(p)) : w->batch.root ? -1 : readlink(p->path, to, probe_size(p));
	} else {
		// A file that could not be opened is not tried again for each operation on it.
		if (reopens(p, last)) {
			if (last && w->fd >= 0 && last->kind == PROBE_QUERY)
				vec_push(&w->nodes, take_fd(&w->fd));
			cleanup_close(&w->fd);
			w->room->moved = now_ms();
			w->fd = open_probe(w, p->path);
			w->fd = w->fd < 0 ? -errno : w->fd;
		}
		if (w->fd >= 0)
			n = operate(w, p, w->fd, to);
		else
			errno = -w->fd;
	}
	ret->error = n < 0 ? errno : 0;
	ret->n = n < 0 ? 0 : (size_t)n;
	const int64_t took = now_us() - began;
	ret->microseconds = (uint32_t)(took < UINT32_MAX ? took : UINT32_MAX);
	ret->end = n < 0 ? PROBE_FAILED : PROBE_GOOD;
}

/** How many operations behind this one are not to be made. */
static size_t skipped_behind(const struct probe_work *w, size_t i)
{
	const struct probe *p = &w->batch.probes[i];
	const struct probe_answer *a = &room_answers(w->room)[i];
	const size_t left = w->batch.n - i - 1;
	const bool failed = p->unless_fails && a->end == PROBE_FAILED, late = p->within && now_ms() - w->began > p->within;
	if (!failed && !late && (!p->unless.n || a->end != PROBE_GOOD || p->unless_at > a->n || p->unless.n > a->n - p->unless_at ||
			memcmp((const char *)w->room + a->at + p->unless_at, p->unless.p, p->unless.n) != 0))
		return 0;
	return p->skips < left ? p->skips : left;
}

static void read_batch(struct probe_work *w)
{
	struct probe_answer *answers = room_answers(w->room);
	const struct probe_batch *b = &w->batch;
	const struct probe *last = NULL;
	struct stuck_reads_hold hold = { .fd = -1, .milliseconds = w->room->milliseconds, .waits = waits, .ctx = w };
	w->began = now_ms();
	for (size_t i = 0; i < b->n; i++) {
		const struct probe *p = &b->probes[i], *q = i ? p - 1 : p;
		const bool same = i && p->kind == q->kind && p->request == q->request && p->path == q->path &&
				  p->argument_size == q->argument_size && p->dead == q->dead && p->buried == q->buried;
		if (same) {
			answers[i].end = answers[i - 1].end;
			continue;
		}
		// Only what is on the list is opened. A tree has more files that may be read, since they do nothing there, and no driver to ask.
		const bool may = probe_complete(p) && !p->dead && !p->buried && (!b->root || p->kind <= PROBE_SECTION) &&
				 (probe_allowed(p) || (b->root && probe_listed_recorded(p->kind, str_z(p->path))));
		if (!may)
			answers[i].end = PROBE_FORBIDDEN;
	}
	for (size_t i = 0; i < b->n; i++) {
		const struct probe *p = &b->probes[i];
		if (answers[i].end == PROBE_FORBIDDEN)
			continue;
		w->room->current = i;
		if (!b->root && reopens(p, last) && !stuck_reads_take(&hold, str_z(p->path))) {
			w->room->held = w->room->held ? w->room->held : i + 1;
			if (!b->goes_on)
				break;
			continue;
		}
		do_probe(w, p, last, &answers[i]);
		last = p;
		i += skipped_behind(w, i);
	}
	w->room->state = READER_ANSWERED;
	futex_wake(&w->room->state);
	cleanup_close(&w->fd);
	for (size_t i = 0; i < w->nodes.len; i++)
		close(w->nodes.data[i]);
	w->nodes.len = 0;
	cleanup_close(&hold.fd); // only now: what is being closed may still wait for the GPU
}

void probe_child(int pipe, const void *ctx)
{
	struct probe_room *room = *(struct probe_room *const *)ctx;
	struct probe_work w = { .room = room, .root_fd = -1, .fd = -1 };
	struct rusage used = { 0 };
	struct rlimit limit = { 0 };
	child_keep_only(pipe);
	for (;;) {
		_cleanup_arena_ struct arena a = { 0 };
		// Looked at once: between two looks the question may come, and then nobody wakes it any more.
		for (uint32_t state; (state = room->state) != READER_ASKED;)
			futex_wait(&room->state, state, 0);
		// A batch that computes instead of reading is killed by the kernel.
		const bool known = !getrusage(RUSAGE_SELF, &used) && !getrlimit(RLIMIT_CPU, &limit);
		limit.rlim_cur = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec + room->processor_ms / 1000 + 2);
		if (known && limit.rlim_cur < limit.rlim_max)
			setrlimit(RLIMIT_CPU, &limit);
		const struct str question = { (const char *)(room + 1), room->question };
		if (!wire_take(question, &probe_batch_kind, &a, &w.batch))
			_exit(1);
		if (w.batch.root)
			w.root_fd = open(w.batch.root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		read_batch(&w);
		cleanup_close(&w.root_fd);
		room->state = READER_IDLE;
		futex_wake(&room->state);
	}
}

// === Batches as they are sent: to a reader, which is another process (probe_child.c), and to the privileged reader, which has one of its own. ===

enum { PROBES_MOST = 1 << 20 };

static const struct wire_field probe_fields[] = {
	WIRE_NUMBER(struct probe, kind, PROBE_QUERY),
	WIRE_Z(struct probe, path),
	WIRE_NUMBER(struct probe, offset, UINT64_MAX),
	WIRE_NUMBER(struct probe, request, UINT64_MAX),
	WIRE_BYTES(struct probe, argument, argument_size, ARGUMENT_MOST),
	WIRE_NUMBER(struct probe, size, UINT64_MAX),
	WIRE_BOOL(struct probe, from_end),
	WIRE_BOOL(struct probe, dead),
	WIRE_BOOL(struct probe, buried),
	WIRE_BOOL(struct probe, unless_fails),
	WIRE_TEXT(struct probe, find),
	WIRE_TEXT(struct probe, unless),
	WIRE_NUMBER(struct probe, unless_at, UINT64_MAX),
	WIRE_NUMBER(struct probe, skips, UINT64_MAX),
	WIRE_NUMBER(struct probe, within, UINT32_MAX),
};
static const struct wire_kind probe_kind = WIRE_KIND('p', struct probe, probe_fields);

static const struct wire_field batch_fields[] = {
	WIRE_LIST(struct probe_batch, probes, n, &probe_kind, PROBES_MOST),
	WIRE_Z(struct probe_batch, root),
	WIRE_BOOL(struct probe_batch, goes_on),
};
const struct wire_kind probe_batch_kind = WIRE_KIND('b', struct probe_batch, batch_fields);

static const struct wire_field answer_fields[] = {
	WIRE_NUMBER(struct probe, end, PROBE_STUCK),
	WIRE_NUMBER(struct probe, error, INT32_MAX),
	WIRE_NUMBER(struct probe, microseconds, UINT32_MAX),
	WIRE_BYTES(struct probe, data, n, SIZE_MAX),
};
static const struct wire_kind answer_kind = WIRE_KIND('a', struct probe, answer_fields);

static const struct wire_field stuck_fields[] = {
	WIRE_BOOL(struct probe_stuck, is),    WIRE_BOOL(struct probe_stuck, late),
	WIRE_BOOL(struct probe_stuck, held),  WIRE_BOOL(struct probe_stuck, uninterruptible),
	WIRE_TEXT(struct probe_stuck, at),    WIRE_TEXT(struct probe_stuck, stack),
	WIRE_TEXT(struct probe_stuck, wchan), WIRE_NUMBER(struct probe_stuck, pid, INT32_MAX),
	WIRE_NUMBER(struct probe_stuck, since, INT64_MAX),
};
static const struct wire_kind stuck_kind = WIRE_KIND('s', struct probe_stuck, stuck_fields);

static const struct wire_field answers_fields[] = {
	WIRE_LIST(struct probe_batch, probes, n, &answer_kind, PROBES_MOST),
	WIRE_PART(struct probe_batch, stuck, &stuck_kind),
};
const struct wire_kind probe_answers_kind = WIRE_KIND('B', struct probe_batch, answers_fields);

bool probe_complete(const struct probe *p)
{
	const bool control = p->kind == PROBE_IOCTL || p->kind == PROBE_BANKED || p->kind == PROBE_QUERY;
	return p->path && (!control || p->argument || (p->kind == PROBE_IOCTL && p->request == DRM_VERSION_IOCTL));
}

bool probe_batch_answered(struct probe_batch *b, const struct probe_batch *answers)
{
	if (answers->n != b->n)
		return false;
	b->stuck = answers->stuck;
	for (size_t i = 0; i < b->n; i++) {
		const struct probe *from = &answers->probes[i];
		probe_answered(&b->probes[i], from->end, from->error, (struct str){ from->data, from->data ? from->n : 0 });
		b->probes[i].microseconds = from->microseconds;
	}
	return true;
}
