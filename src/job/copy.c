// What the job writes to standard output and standard error: the last of it is evidence. Whoever reads it must not see a difference:
// - A file is read where it lies, when it is needed.
// - In place of a pipe the job gets another one, and a process of its own hands on what comes, buffer by buffer, without copying it where that
//   is allowed. It ends when nobody can write any more, so that it outlives us where processes of the job do; when its reader is gone, the
//   job's pipe has none either.
// - Terminals, sockets and devices the job has as they are: of these nothing is kept.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/save.h"
#include "job/supervisor.h"

enum { KEPT = JOB_OUTPUT_KEPT, PIECE = 64 << 10, HELD_MOST = 1 << 20, IDLE_MS = 20, KEEP_MS = 100 };
// Descriptors of the process that hands on. From FREE on it opens five more: what it is given lies above them, so that it cannot fail later.
enum { IN = 3, NUDGE = 5, READY = 6, FREE = 7, ABOVE = FREE + 5 };

/** Both processes have it. */
struct copy_ring {
	_Atomic uint64_t total; // bytes that were kept
	char bytes[KEPT];       // the last of them
};
struct copy_shared {
	atomic_uint asked, answered; // all that was written before it was asked has been handed on
	struct copy_ring rings[COPIES];
};

// --- the process that hands on ---

/** One stream. It goes on to the descriptor of the same number that we were started with. What went on is held in a pipe at its side, which
 * shares its pages: only what is still there when there is time is copied. */
struct way {
	int in, out, side[2];
	size_t held;  // at its side
	size_t ahead; // the last of these, which are still to go on
	bool full;    // something waits, and the reader has no room for it
	bool copies;  // pages cannot be moved here: what comes is read and written
	char *bytes;  // what was read
	size_t at, n; // of these, still to be written
	struct copy_ring *ring;
};

static void copy_keep(struct copy_ring *r, const char *bytes, size_t n)
{
	const size_t at = r->total % KEPT, first = n < KEPT - at ? n : KEPT - at;
	memcpy(r->bytes + at, bytes, first);
	memcpy(r->bytes, bytes + first, n - first);
	r->total += n;
}

static void keep_held(struct way *w, char *room)
{
	ssize_t n;
	while (w->held && (n = read(w->side[0], room, PIECE)) > 0) {
		copy_keep(w->ring, room, (size_t)n);
		w->held -= (size_t)n;
	}
}

/** Of a flood only the end is of use. */
static void forget(struct way *w, int nowhere)
{
	while (w->held > KEPT) {
		const ssize_t n = splice(w->side[0], NULL, nowhere, NULL, w->held - KEPT, SPLICE_F_NONBLOCK);
		if (n <= 0)
			return;
		w->held -= (size_t)n;
	}
}

/** Holds what comes next. 0: nothing will; -1: see errno. */
static ssize_t hold_next(struct way *w, int nowhere, char *room)
{
	ssize_t n = tee(w->in, w->side[1], HELD_MOST, SPLICE_F_NONBLOCK);
	if (n < 0 && errno == EAGAIN && w->held) { // of small pieces it has no room for many
		keep_held(w, room);
		n = tee(w->in, w->side[1], HELD_MOST, SPLICE_F_NONBLOCK);
	}
	if (n <= 0)
		return n;
	w->ahead = (size_t)n;
	w->held += (size_t)n;
	if (w->held > HELD_MOST / 2)
		forget(w, nowhere);
	return n;
}

/** After a call that failed. Where it is not the pipe's fault, a sandbox or an old kernel does not let us move pages. false: nobody reads. */
static bool try_again(struct way *w, int why, char *room)
{
	if (why == EAGAIN || why == EINTR || why == EPIPE)
		return why != EPIPE;
	keep_held(w, room);
	w->copies = true;
	return true;
}

static bool copy_read_next(struct way *w)
{
	const ssize_t n = read(w->in, w->bytes, PIECE);
	if (n <= 0)
		return n < 0 && errno == EINTR;
	const size_t kept = w->ahead < (size_t)n ? w->ahead : (size_t)n; // while pages could still be held
	copy_keep(w->ring, w->bytes + kept, (size_t)n - kept);
	w->ahead -= kept;
	w->at = 0;
	w->n = (size_t)n;
	w->full = true; // for all that we know
	return true;
}

/** A pipe that has room at all has so much, and nobody waits for its reader. */
static bool write_next(struct way *w)
{
	const ssize_t n = write(w->out, w->bytes + w->at, w->n < PIPE_BUF ? w->n : PIPE_BUF);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	w->at += (size_t)n;
	w->n -= (size_t)n;
	w->full = w->n;
	return true;
}

/** The next buffers. false: there will be none, or nobody reads them. */
static bool copy_hand_on(struct way *w, int nowhere, char *room)
{
	if (w->copies)
		return w->n ? write_next(w) : copy_read_next(w);
	if (!w->ahead) {
		const ssize_t held = hold_next(w, nowhere, room);
		if (held <= 0)
			return held < 0 && try_again(w, errno, room);
	}
	const ssize_t moved = splice(w->in, NULL, w->out, NULL, w->ahead, SPLICE_F_NONBLOCK);
	w->ahead -= moved > 0 ? (size_t)moved : 0;
	w->full = moved < 0 && errno == EAGAIN;
	return moved > 0 || (moved < 0 && try_again(w, errno, room));
}

static void close_way(struct way *w, char *room)
{
	keep_held(w, room);
	cleanup_close(&w->in);
	cleanup_close(&w->out);
}

/** Waits for both ends of each way. Where the reader is full, that something comes is no news. */
static bool copy_wait_for(const struct way *ways, int nudge, struct pollfd *p)
{
	for (size_t i = 0; i < COPIES; i++) {
		p[2 * i] = (struct pollfd){ .fd = ways[i].full ? -1 : ways[i].in, .events = POLLIN };
		p[2 * i + 1] = (struct pollfd){ .fd = ways[i].out, .events = ways[i].full ? POLLOUT : 0 };
	}
	p[2 * COPIES] = (struct pollfd){ .fd = nudge, .events = POLLIN };
	return poll(p, 2 * COPIES + 1, ways[0].held || ways[1].held ? IDLE_MS : -1) >= 0;
}

static bool serve(struct way *w, const struct pollfd *p, int nowhere, char *room)
{
	const bool comes = p[0].revents, gone = p[1].revents & (POLLERR | POLLNVAL), room_again = p[1].revents & POLLOUT;
	if (w->in >= 0 && (gone || ((comes || room_again) && !copy_hand_on(w, nowhere, room))))
		close_way(w, room);
	return comes || w->full;
}

static void hand_on_all(struct copy_shared *shared, struct way *ways, int nowhere)
{
	_cleanup_free_ char *room = mem_large(PIECE);
	int nudge = NUDGE;
	int64_t kept = 0;
	while (ways[0].in >= 0 || ways[1].in >= 0) {
		struct pollfd p[2 * COPIES + 1];
		bool busy = false;
		const unsigned asked = shared->asked;
		if (!copy_wait_for(ways, nudge, p))
			continue;
		for (size_t i = 0; i < COPIES; i++)
			busy |= serve(&ways[i], &p[2 * i], nowhere, room);
		if (p[2 * COPIES].revents && read(nudge, room, PIECE) <= 0)
			nudge = -1; // nobody asks any more
		if (busy && now_ms() - kept < KEEP_MS)
			continue;
		for (size_t i = 0; i < COPIES; i++)
			keep_held(&ways[i], room);
		kept = now_ms();
		shared->answered = busy ? shared->answered : asked;
	}
}

/** Leaves it nothing but what it needs: else it would keep terminals, locks and directories busy. */
static bool settle(const int *ins, int nudge, int ready)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "unhang-output");
	setsid();
	close_between(STDIN_FILENO, STDIN_FILENO);
	for (int i = 0; i < COPIES; i++)
		if (ins[i] < 0)
			close_between(STDOUT_FILENO + i, STDOUT_FILENO + i);
		else if (dup2(ins[i], IN + i) < 0)
			return false;
	if (dup2(nudge, NUDGE) < 0 || dup2(ready, READY) < 0)
		return false;
	close_from(FREE);
	(void)!chdir("/");
	return true;
}

/** A trial, with what the ways have at their sides. A sandbox may also kill who moves pages: then it does so before the job has our pipes. */
static bool can_move(const struct way *ways)
{
	const int from = ways[0].side[0], to = ways[1].side[1];
	char bytes[2];
	return write(ways[0].side[1], "", 1) == 1 && tee(from, to, 1, SPLICE_F_NONBLOCK) == 1 &&
	       splice(from, NULL, to, NULL, 1, SPLICE_F_NONBLOCK) == 1 && read(ways[1].side[0], bytes, 2) == 2;
}

__attribute__((noreturn)) static void copier(const struct job_copy *c, const int *ins, int nudge, int ready,
					     const char *directory)
{
	struct way ways[COPIES];
	if (!settle(ins, nudge, ready))
		_exit(1);
	const int nowhere = open("/dev/null", O_WRONLY); // without it, more has to be copied
	bool sides = true;
	for (int i = 0; i < COPIES; i++) {
		ways[i] = (struct way){ .in = ins[i] < 0 ? -1 : IN + i,
					.out = ins[i] < 0 ? -1 : STDOUT_FILENO + i,
					.bytes = mem_large(PIECE),
					.ring = &c->shared->rings[i] };
		sides &= !pipe2(ways[i].side, O_NONBLOCK);
		fcntl(ways[i].side[0], F_SETPIPE_SZ, HELD_MOST); // as without nowhere
	}
	const bool moves = sides && can_move(ways);
	for (int i = 0; i < COPIES; i++)
		ways[i].copies = !moves;
	if (write(READY, "", 1) != 1)
		_exit(1);
	close_between(READY, READY);
	hand_on_all(c->shared, ways, nowhere);
	if (getppid() != c->owner) // who was killed cannot save it
		copy_save(c, directory);
	_exit(0);
}

// --- which of them ---

static bool copy_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/** Whether the job has this pipe by another number, too: then what it writes here and there would not keep its order. */
static bool copy_is_shared(const struct stat *of)
{
	_cleanup_dir_ DIR *d = opendir("/proc/self/fd");
	bool found = !d;
	for (const char *name; !found && (name = dir_next(d));) {
		struct stat st;
		const int fd = atoi(name);
		found = (fd == STDIN_FILENO || fd > STDERR_FILENO) && !fstat(fd, &st) && copy_same_file(&st, of) &&
			!(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	return found;
}

static enum copy_kind copy_kind_of(int fd, const struct stat *st)
{
	const int flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return COPY_NOT;
	if (S_ISREG(st->st_mode))
		return COPY_FILE;
	// A job that asked not to wait for its reader must not wait for us.
	const int kind = flags & (O_ACCMODE | O_DIRECT | O_NONBLOCK);
	return S_ISFIFO(st->st_mode) && kind == O_WRONLY && !copy_is_shared(st) ? COPY_PIPE : COPY_NOT;
}

/** Where the next byte goes. */
static uint64_t place_in(int fd)
{
	struct stat st;
	const off_t at = lseek(fd, 0, SEEK_CUR);
	const bool append = fcntl(fd, F_GETFL) & O_APPEND;
	return !append && at >= 0 ? (uint64_t)at : !fstat(fd, &st) ? (uint64_t)st.st_size : 0;
}

/** A pipe whose end @theirs has a number from ABOVE on. false: there is no room for one. */
static bool pipe_above(int ends[static 2], int theirs)
{
	int low[2];
	if (pipe2(low, O_CLOEXEC))
		return false;
	ends[theirs] = fcntl(low[theirs], F_DUPFD_CLOEXEC, ABOVE);
	ends[!theirs] = low[!theirs];
	cleanup_close(&low[theirs]);
	return ends[theirs] >= 0;
}

/** A pipe as large as the one that it stands for. */
static bool make_pipe(struct copy_stream *s, int outer, int *ret_in)
{
	int ends[2] = { -1, -1 };
	const bool good = pipe_above(ends, 0);
	*ret_in = ends[0];
	s->for_job = ends[1];
	if (good)
		fcntl(ends[1], F_SETPIPE_SZ, fcntl(outer, F_GETPIPE_SZ));
	return good;
}

static void look_at(struct job_copy *c, struct stat *st)
{
	for (int i = 0; i < COPIES; i++) {
		struct copy_stream *s = &c->streams[i];
		*s = (struct copy_stream){ .for_job = -1 };
		s->kind = fstat(STDOUT_FILENO + i, &st[i]) ? COPY_NOT : copy_kind_of(STDOUT_FILENO + i, &st[i]);
		if (s->kind == COPY_FILE)
			s->begin = s->end = place_in(STDOUT_FILENO + i);
	}
	c->same = c->streams[0].kind != COPY_NOT && c->streams[0].kind == c->streams[1].kind && copy_same_file(&st[0], &st[1]);
}

/** Waits until it can hand on. false: it ended before. */
static bool is_ready(const struct job_copy *c, int ready)
{
	char byte;
	if (read(ready, &byte, 1) == 1)
		return true;
	waitpid(c->pid, NULL, 0);
	return false;
}

static void pair_drop(int (*fds)[2])
{
	cleanup_close(&(*fds)[0]);
	cleanup_close(&(*fds)[1]);
}

/** In place of each pipe one of ours; where that cannot be, the job has its own. */
static void put_between(struct job_copy *c, const char *directory)
{
	_cleanup_(pair_drop) int ins[COPIES] = { -1, -1 }, nudge[2] = { -1, -1 }, ready[2] = { -1, -1 };
	void *shared = mmap(NULL, sizeof(*c->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	c->shared = shared == MAP_FAILED ? NULL : shared;
	bool good = c->shared && pipe_above(nudge, 0) && pipe_above(ready, 1);
	for (int i = 0; i < COPIES && good; i++)
		if (c->streams[i].kind == COPY_PIPE && !(i && c->same))
			good = make_pipe(&c->streams[i], STDOUT_FILENO + i, &ins[i]);
	c->pid = good ? fork() : -1;
	if (!c->pid) {
		copy_started(c);
		cleanup_close(&nudge[1]);
		copier(c, ins, nudge[0], ready[1], directory);
	}
	c->nudge = take_fd(&nudge[1]);
	cleanup_close(&ready[1]); // so that an end of the process is seen
	if (c->pid < 0 || !is_ready(c, ready[0])) {
		copy_started(c);
		copy_end(c);
		c->lacking = true;
	}
}

void copy_begin(struct job_copy *c, const char *directory)
{
	struct stat st[COPIES];
	*c = (struct job_copy){ .owner = getpid(), .nudge = -1 };
	look_at(c, st);
	if (c->streams[0].kind == COPY_PIPE || c->streams[1].kind == COPY_PIPE)
		put_between(c, directory);
}

void copy_become(const struct job_copy *c)
{
	const int first = c->streams[0].for_job, second = c->same ? first : c->streams[1].for_job;
	if (first >= 0)
		dup2(first, STDOUT_FILENO);
	if (second >= 0)
		dup2(second, STDERR_FILENO);
}

void copy_started(struct job_copy *c)
{
	for (int i = 0; i < COPIES; i++)
		cleanup_close(&c->streams[i].for_job);
}

bool copy_handed_on(struct job_copy *c)
{
	if (!c->shared)
		return true;
	if (!c->shared->asked) {
		c->shared->asked = 1;
		(void)!write(c->nudge, "", 1);
	}
	return c->shared->answered;
}

void copy_end(struct job_copy *c)
{
	cleanup_close(&c->nudge);
	if (c->shared)
		munmap(c->shared, sizeof(*c->shared));
	*c = (struct job_copy){ .nudge = -1, .streams = { { .for_job = -1 }, { .for_job = -1 } } };
}

// --- what is known of it ---

bool copy_mark(struct job_copy *c)
{
	bool any = false;
	for (int i = 0; i < COPIES; i++) {
		struct copy_stream *s = &c->streams[i];
		if (s->kind == COPY_FILE)
			s->end = place_in(STDOUT_FILENO + i);
		any |= s->kind == COPY_FILE ? s->end != s->begin : c->shared && c->shared->rings[i].total;
	}
	return any;
}

static void add_ring(const struct copy_ring *r, struct text *to)
{
	const uint64_t total = r->total;
	const size_t n = total < KEPT ? (size_t)total : KEPT, at = (size_t)((total - n) % KEPT),
		     first = n < KEPT - at ? n : KEPT - at;
	text_add(to, (struct str){ r->bytes + at, first });
	text_add(to, (struct str){ r->bytes, n - first });
}

/** Opened by who helps: the file may lie on a server that does not answer. */
static void copy_add_file(const struct job_copy *c, int i, struct text *to)
{
	const struct copy_stream *s = &c->streams[i];
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)c->owner, STDOUT_FILENO + i);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const uint64_t begin = s->end < s->begin ? 0 : s->begin; // somebody has emptied it meanwhile
	uint64_t at = s->end - begin > KEPT ? s->end - KEPT : begin;
	ssize_t n = fd < 0 ? -1 : 1;
	while (at < s->end && n > 0) {
		n = pread(fd, text_room(to, PIECE), s->end - at < PIECE ? (size_t)(s->end - at) : PIECE, (off_t)at);
		to->n += n > 0 ? (size_t)n : 0;
		at += n > 0 ? (uint64_t)n : 0;
	}
}

struct uh_error *copy_save(const struct job_copy *c, const char *directory)
{
	static const char *const names[COPIES] = { "standard output", "standard error" };
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text all = { 0 }, one = { 0 };
	for (int i = 0; i < (c->same ? 1 : COPIES); i++) {
		text_clear(&one);
		if (c->streams[i].kind == COPY_FILE)
			copy_add_file(c, i, &one);
		else if (c->streams[i].kind == COPY_PIPE && c->shared)
			add_ring(&c->shared->rings[i], &one);
		if (one.n && !c->same)
			text_printf(&all, "%s==> %s <==\n", all.n ? "\n" : "", names[i]);
		text_add(&all, text_str(&one));
	}
	return all.n ? save_soon(AT_FDCWD, arena_printf(&a, "%s/" JOB_OUTPUT, directory).p, text_str(&all), 0640) : NULL;
}
