#include "source/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/root.h"
#include "source/probe_find.h"
#include "source/probe_list.h"
#include "source/probe_stuck.h"
#include "source/tape/tomb.h"

enum {
	PAGE = 4096,
	ROOM_MOST = 1 << 29, // of a batch; what is not touched costs nothing
	DIE_MS = 60,
	STEP_MS = 20,
	BATCH_FACTOR = 20, // a batch may take this many times as long as one operation, and a millisecond more for each
	TREE_MS = 10000,   // without progress on a file of a tree
};

/** What a child writes: how far it is, an answer for each operation, then the bytes. */
struct answer {
	_Atomic int end; // enum probe_end
	int error;
	size_t at, n; // bytes, in the room
};
struct room {
	_Atomic size_t current, operations;
	_Atomic int64_t moved; // when the last operation began
	_Atomic bool done;
	struct answer answers[];
};

struct probe_work {
	const struct probe *probes;
	size_t n;
	struct room *room;
	size_t size;
	int parent;
	const char *root;
	int root_fd; // in the child
};

/** A batch that runs. */
struct probe_running {
	struct probe_batch *batch;
	struct probe_work work;
	struct child child;
	bool began;
	enum child_end end;
};

static size_t size_of(const struct probe *p)
{
	if (p->kind == PROBE_IOCTL)
		return p->argument_size;
	return p->size ? p->size : PAGE;
}

static void count_one(struct probe_work *w)
{
	w->room->operations++;
	w->room->moved = now_ms();
}

static void moved(void *work) { count_one(work); }

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
		q->size = (uint32_t)size_of(p);
	}
	count_one(w);
	if (ioctl(fd, request, argument) < 0)
		return -1;
	if (p->kind == PROBE_QUERY)
		return (ssize_t)size_of(p);
	if (p->kind == PROBE_BANKED)
		return read_at(w, fd, to, size_of(p), p->offset);
	memcpy(to, argument, p->argument_size);
	return (ssize_t)p->argument_size;
}

static ssize_t operate(struct probe_work *w, const struct probe *p, int fd, char *to)
{
	switch (p->kind) {
	case PROBE_FILE:
		return read_file(w, p, fd, to, size_of(p));
	case PROBE_LIST:
		return read_list(w, fd, to, size_of(p));
	case PROBE_READ:
		return read_at(w, fd, to, size_of(p), p->offset);
	case PROBE_FIND:
		return probe_find(fd, p->find, to, size_of(p), moved, w);
	case PROBE_SECTION:
		return probe_section(fd, p->find, to, size_of(p), moved, w);
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

static void do_probe(struct probe_work *w, const struct probe *p, const struct probe *last, int *fd, struct answer *ret)
{
	char *to = (char *)w->room + ret->at;
	ssize_t n = -1;
	if (p->kind == PROBE_LINK) {
		count_one(w);
		n = read_link(w, p->path, to, size_of(p));
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
	const struct answer *a = &w->room->answers[i];
	size_t left = w->n - i - 1;
	bool failed = p->unless_fails && a->end == PROBE_FAILED;
	if (failed)
		return p->skips < left ? p->skips : left;
	if (!p->unless.n || a->end != PROBE_GOOD || p->unless_at > a->n || p->unless.n > a->n - p->unless_at ||
	    memcmp((const char *)w->room + a->at + p->unless_at, p->unless.p, p->unless.n) != 0)
		return 0;
	return p->skips < left ? p->skips : left;
}

/** The child. */
static void do_batch(int pipe, const void *ctx)
{
	struct probe_work w = *(const struct probe_work *)ctx;
	const struct probe *last = NULL;
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
		do_probe(&w, &w.probes[i], last, &fd, &w.room->answers[i]);
		last = &w.probes[i];
		i += skipped_behind(&w, i);
	}
	w.room->done = true;
}

/** Room for the answers; which of them are allowed. false where there is none. */
static bool prepare(struct probe_running *r)
{
	const struct probe_batch *b = r->batch;
	size_t at = sizeof(struct room) + b->n * sizeof(struct answer), start = at;
	for (size_t i = 0; i < b->n; i++) {
		if (at > ROOM_MOST || size_of(&b->probes[i]) > ROOM_MOST - at)
			return errno = ENOMEM, false;
		at += (size_of(&b->probes[i]) + 7) & ~(size_t)7;
	}
	void *room = mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return false;
	r->work = (struct probe_work){ b->probes, b->n, room, at, getpid(), b->root, -1 };
	r->work.room->moved = now_ms();
	for (size_t i = 0; i < b->n; i++) {
		const struct probe *p = &b->probes[i], *last = i ? p - 1 : NULL;
		bool same = last && last->kind == p->kind && last->request == p->request && last->path == p->path &&
			    last->argument_size == p->argument_size && last->dead == p->dead && last->buried == p->buried;
		struct answer *answer = &r->work.room->answers[i];
		bool allowed = same ? answer[-1].end != PROBE_FORBIDDEN :
				      probe_allowed(p) || (b->root && probe_listed_recorded(p->kind, str_z(p->path)));
		allowed &= (!b->root || p->kind <= PROBE_SECTION) && !p->dead && !p->buried; // a tree has no driver
		answer->end = allowed ? PROBE_NOT_MADE : PROBE_FORBIDDEN;
		answer->at = start;
		start += (size_of(p) + 7) & ~(size_t)7;
	}
	return true;
}

static void collect(struct arena *a, struct probe_running *r, enum child_end end)
{
	const struct room *room = r->work.room;
	for (size_t i = 0; i < r->batch->n; i++) {
		struct probe *p = &r->batch->probes[i];
		const struct answer *answer = &room->answers[i];
		p->end = (enum probe_end)answer->end;
		if (p->end == PROBE_NOT_MADE && i == room->current && end != CHILD_GOOD) {
			p->end = end != CHILD_LATE ? PROBE_FAILED : r->batch->stuck.is ? PROBE_STUCK : PROBE_NOT_MADE;
			p->error = EIO;
		}
		if (p->end != PROBE_GOOD && p->end != PROBE_FAILED)
			continue;
		p->error = p->error ? p->error : answer->error;
		p->n = answer->n;
		p->data = arena_z(a, (struct str){ (const char *)room + answer->at, answer->n });
	}
}

static int longest(const struct probe_batch *b, int milliseconds) { return BATCH_FACTOR * milliseconds + (int)b->n; }

/** What an operation of the batch may take; when it is stuck. */
static int each(const struct probe_batch *b, int milliseconds) { return b->root ? TREE_MS : milliseconds; }

/** When a batch is late although it goes on: of a tree, never. */
static int64_t batch_deadline(const struct probe_batch *b, int64_t began, int milliseconds, const struct probe_count *count)
{
	int64_t left = count->patience ? count->patience->left : INT64_MAX, most = longest(b, milliseconds);
	return b->root ? INT64_MAX : began + (left < most ? left : most);
}

/** Waits for its end; where it is late, looks where it is and tells it to end, which may take a while. A child that goes on from
 * operation to operation, or waits for a processor only, is given more time; one that has all answers is not waited for. */
static void wait_run(struct arena *a, struct probe_running *r, int64_t deadline, int milliseconds)
{
	struct text nothing = { 0 };
	int64_t now;
	do {
		r->end = child_wait(&r->child, now_ms() + STEP_MS, 0, &nothing);
		now = now_ms();
	} while (r->end == CHILD_LATE && now < deadline && !r->work.room->done &&
		 (now - r->work.room->moved < milliseconds || probe_in_state(a, r->child.pid, S("R"))));
	text_free(&nothing);
	if (r->end == CHILD_LATE && r->work.room->done)
		r->end = CHILD_GOOD;
	if (r->end == CHILD_LATE && now - r->work.room->moved < milliseconds)
		r->batch->stuck.late = true;
	else if (r->end == CHILD_LATE)
		probe_where_stuck(a, r->child.pid, r->batch->probes[r->work.room->current].path, &r->batch->stuck);
	child_kill(&r->child, 0);
}

static void end_run(struct arena *a, struct probe_running *r, int64_t deadline, struct probe_count *count)
{
	int64_t left = deadline - now_ms();
	if (!child_kill(&r->child, left > 0 ? (int)left : 0) && r->end == CHILD_LATE)
		r->batch->stuck.uninterruptible |= probe_in_state(a, r->child.pid, S("D"));
	if (r->child.pid && r->batch->stuck.uninterruptible && !r->batch->root)
		tomb_bury(r->child.pid, r->batch->stuck.at);
	collect(a, r, r->end);
	count->children++;
	count->operations += r->work.room->operations;
}

static void clear_batch(struct probe_batch *b)
{
	b->stuck = (struct probe_stuck){ 0 };
	for (size_t i = 0; i < b->n; i++) {
		struct probe *p = &b->probes[i];
		p->end = PROBE_NOT_MADE;
		p->error = 0;
		p->data = NULL;
		p->n = 0;
	}
}

static void begin_run(struct probe_batch *b, int milliseconds, struct probe_running *ret)
{
	ret->batch = b;
	ret->began = b->n && prepare(ret) && child_begin(do_batch, &ret->work, longest(b, milliseconds), &ret->child);
	if (b->n && !ret->began)
		b->probes[0].error = errno;
}

/** Time that went to files that answered late or not at all: of a batch that went well, what one operation may take is not counted, and of
 * a tree only what it stood still. */
static void lose_patience(const struct probe_batch *batches, size_t n, int64_t took, int milliseconds,
			  const struct probe_count *count)
{
	bool stuck = false, tree = batches[0].root;
	for (size_t i = 0; i < n; i++)
		stuck |= batches[i].stuck.is || batches[i].stuck.late;
	int64_t over = took > milliseconds ? took - milliseconds : 0, stood = took < milliseconds ? took : milliseconds;
	int64_t lost = tree ? (stuck ? stood : 0) : stuck ? took : over;
	if (count->patience)
		count->patience->left -= lost < count->patience->left ? lost : count->patience->left;
}

static void run_round(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	_cleanup_free_ struct probe_running *runs = mem_alloc((n ? n : 1) * sizeof(*runs));
	bool spent = count->patience && count->patience->left <= 0;
	for (size_t i = 0; i < n; i++) {
		clear_batch(&batches[i]);
		batches[i].stuck.late = spent;
		if (!spent)
			begin_run(&batches[i], each(&batches[i], milliseconds), &runs[i]);
	}
	int64_t began = now_ms();
	for (size_t i = 0; i < n; i++) {
		int most = each(&batches[i], milliseconds);
		if (runs[i].began)
			wait_run(a, &runs[i], batch_deadline(&batches[i], began, most, count), most);
	}
	if (n)
		lose_patience(batches, n, now_ms() - began, each(&batches[0], milliseconds), count);
	int64_t deadline = now_ms() + DIE_MS;
	for (size_t i = 0; i < n; i++) {
		if (runs[i].began)
			end_run(a, &runs[i], deadline, count);
		if (runs[i].work.room)
			munmap(runs[i].work.room, runs[i].work.size);
	}
}

/** What stands behind the file that did not answer. */
static void run_rest(struct arena *a, const struct probe_batch *b, int milliseconds, struct probe_count *count)
{
	struct probe_batch rest = *b;
	while (rest.stuck.is && (rest.root || rest.goes_on)) {
		size_t at = 0;
		while (at < rest.n && rest.probes[at].end != PROBE_STUCK)
			at++;
		if (at == rest.n)
			return;
		rest.probes += at + 1;
		rest.n -= at + 1;
		run_round(a, &rest, 1, milliseconds, count);
	}
}

static void run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	run_round(a, batches, n, milliseconds, count);
	for (size_t i = 0; i < n; i++)
		run_rest(a, &batches[i], milliseconds, count);
}

void probe_run_machine(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	for (size_t i = 0; i < n; i++)
		tomb_mark(a, &batches[i]);
	run_all(a, batches, n, milliseconds, count);
	for (size_t i = 0; i < n; i++)
		tomb_tell(a, &batches[i]);
}
