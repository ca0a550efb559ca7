// What the job writes to standard output and standard error: the last of it is evidence. Whoever reads it must not see a difference:
// - A file is read where it lies, when it is needed.
// - In place of a pipe the job gets another one, and a process of its own hands on what comes, buffer by buffer, without copying it. It ends when
//   nobody can write any more, so that it outlives us where processes of the job do; when its reader is gone, the job's pipe has none either.
// - Terminals, sockets and devices the job has as they are: of these nothing is kept.
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/save.h"
#include "job/parts.h"

enum { KEPT = JOB_OUTPUT_KEPT, PIECE = 64 << 10, HELD_MOST = 1 << 20, IDLE_MS = 20, KEEP_MS = 100 };
// Descriptors of the process that hands on. From FREE on it opens five more: what it is given lies above them, so that it cannot fail later.
enum { IN = 3, NUDGE = 5, FREE = 6, ABOVE = FREE + 5 };

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
	struct copy_ring *ring;
};

static void keep(struct copy_ring *r, const char *bytes, size_t n)
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
		keep(w->ring, room, (size_t)n);
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

/** Holds what comes next. false: nothing will. */
static bool hold_next(struct way *w, int nowhere, char *room)
{
	ssize_t n = tee(w->in, w->side[1], HELD_MOST, SPLICE_F_NONBLOCK);
	if (n < 0 && errno == EAGAIN && w->held) { // of small pieces it has no room for many
		keep_held(w, room);
		n = tee(w->in, w->side[1], HELD_MOST, SPLICE_F_NONBLOCK);
	}
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	w->ahead = (size_t)n;
	w->held += (size_t)n;
	if (w->held > HELD_MOST / 2)
		forget(w, nowhere);
	return true;
}

/** The next buffers. false: there will be none, or nobody reads them. */
static bool hand_on(struct way *w, int nowhere, char *room)
{
	if (!w->ahead && !hold_next(w, nowhere, room))
		return false;
	if (!w->ahead)
		return true;
	const ssize_t moved = splice(w->in, NULL, w->out, NULL, w->ahead, SPLICE_F_NONBLOCK);
	w->ahead -= moved > 0 ? (size_t)moved : 0;
	w->full = moved < 0 && errno == EAGAIN;
	return moved > 0 || w->full || errno == EINTR;
}

static void close_way(struct way *w, char *room)
{
	keep_held(w, room);
	close(w->in);
	close(w->out);
	w->in = w->out = -1;
}

/** Waits for both ends of each way. Where the reader is full, that something comes is no news. */
static bool wait_for(const struct way *ways, int nudge, struct pollfd *p)
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
	if (w->in >= 0 && (gone || ((comes || room_again) && !hand_on(w, nowhere, room))))
		close_way(w, room);
	return comes || w->full;
}

static void hand_on_all(struct copy_shared *shared, struct way *ways, int nowhere)
{
	char *room = mem_large(PIECE);
	int nudge = NUDGE;
	int64_t kept = 0;
	while (ways[0].in >= 0 || ways[1].in >= 0) {
		struct pollfd p[2 * COPIES + 1];
		bool busy = false;
		const unsigned asked = shared->asked;
		if (!wait_for(ways, nudge, p))
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
	free(room);
}

/** Leaves it nothing but what it needs: else it would keep terminals, locks and directories busy. */
static bool settle(const int *ins, int nudge)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "unhang-output");
	setsid();
	close(STDIN_FILENO);
	for (int i = 0; i < COPIES; i++)
		if (ins[i] < 0)
			close(STDOUT_FILENO + i);
		else if (dup2(ins[i], IN + i) < 0)
			return false;
	return dup2(nudge, NUDGE) >= 0 && !close_range(FREE, ~0u, 0) && !chdir("/");
}

__attribute__((noreturn)) static void copier(const struct job_copy *c, const int *ins, int nudge, const char *directory)
{
	struct way ways[COPIES];
	const int nowhere = settle(ins, nudge) ? open("/dev/null", O_WRONLY) : -1;
	bool good = nowhere >= 0;
	for (int i = 0; i < COPIES && good; i++) {
		ways[i] = (struct way){ .in = ins[i] < 0 ? -1 : IN + i,
					.out = ins[i] < 0 ? -1 : STDOUT_FILENO + i,
					.ring = &c->shared->rings[i] };
		good = !pipe2(ways[i].side, O_NONBLOCK);
		fcntl(ways[i].side[0], F_SETPIPE_SZ, HELD_MOST); // where that is not allowed, more has to be copied
	}
	if (good)
		hand_on_all(c->shared, ways, nowhere);
	if (good && getppid() != c->owner) // who was killed cannot save it
		copy_save(c, directory);
	_exit(!good);
}

// --- which of them ---

static bool same_file(const struct stat *a, const struct stat *b) { return a->st_dev == b->st_dev && a->st_ino == b->st_ino; }

/** Whether the job has this pipe by another number, too: then what it writes here and there would not keep its order. */
static bool is_shared(const struct stat *of)
{
	DIR *d = opendir("/proc/self/fd");
	bool found = !d;
	for (struct dirent *e = d ? readdir(d) : NULL; e && !found; e = readdir(d)) {
		struct stat st;
		const int fd = atoi(e->d_name);
		found = (fd == STDIN_FILENO || fd > STDERR_FILENO) && !fstat(fd, &st) && same_file(&st, of) &&
			!(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	if (d)
		closedir(d);
	return found;
}

static enum copy_kind kind_of(int fd, const struct stat *st)
{
	const int flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return COPY_NOT;
	if (S_ISREG(st->st_mode))
		return COPY_FILE;
	const int kind = flags & (O_ACCMODE | O_DIRECT | O_NONBLOCK); // a job that asked not to wait for its reader must not wait for us
	return S_ISFIFO(st->st_mode) && kind == O_WRONLY && !is_shared(st) ? COPY_PIPE : COPY_NOT;
}

/** Where the next byte goes. */
static uint64_t place_in(int fd)
{
	struct stat st;
	const off_t at = lseek(fd, 0, SEEK_CUR);
	const bool append = fcntl(fd, F_GETFL) & O_APPEND;
	return !append && at >= 0 ? (uint64_t)at : !fstat(fd, &st) ? (uint64_t)st.st_size : 0;
}

/** A pipe whose reading end has a number from ABOVE on. false: there is no room for one. */
static bool pipe_above(int ends[static 2])
{
	int low[2];
	if (pipe2(low, O_CLOEXEC))
		return false;
	ends[0] = fcntl(low[0], F_DUPFD_CLOEXEC, ABOVE);
	ends[1] = low[1];
	close(low[0]);
	return ends[0] >= 0;
}

/** A pipe as large as the one that it stands for. */
static bool make_pipe(struct copy_stream *s, int outer, int *ret_in)
{
	int ends[2] = { -1, -1 };
	const bool good = pipe_above(ends);
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
		s->kind = fstat(STDOUT_FILENO + i, &st[i]) ? COPY_NOT : kind_of(STDOUT_FILENO + i, &st[i]);
		if (s->kind == COPY_FILE)
			s->begin = s->end = place_in(STDOUT_FILENO + i);
	}
	c->same = c->streams[0].kind != COPY_NOT && c->streams[0].kind == c->streams[1].kind && same_file(&st[0], &st[1]);
}

/** In place of each pipe one of ours; where that cannot be, the job has its own. */
static void put_between(struct job_copy *c, const char *directory)
{
	int ins[COPIES] = { -1, -1 }, nudge[2] = { -1, -1 };
	void *shared = mmap(NULL, sizeof(*c->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	c->shared = shared == MAP_FAILED ? NULL : shared;
	bool good = c->shared && pipe_above(nudge);
	for (int i = 0; i < COPIES && good; i++)
		if (c->streams[i].kind == COPY_PIPE && !(i && c->same))
			good = make_pipe(&c->streams[i], STDOUT_FILENO + i, &ins[i]);
	c->pid = good ? fork() : -1;
	if (!c->pid) {
		for (int i = 0; i < COPIES; i++)
			if (c->streams[i].for_job >= 0)
				close(c->streams[i].for_job);
		close(nudge[1]);
		copier(c, ins, nudge[0], directory);
	}
	c->nudge = nudge[1];
	if (nudge[0] >= 0)
		close(nudge[0]);
	for (int i = 0; i < COPIES; i++)
		if (ins[i] >= 0)
			close(ins[i]);
	if (c->pid < 0) {
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
	for (int i = 0; i < COPIES; i++) {
		if (c->streams[i].for_job >= 0)
			close(c->streams[i].for_job);
		c->streams[i].for_job = -1;
	}
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
	if (c->nudge >= 0)
		close(c->nudge);
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
static void add_file(const struct job_copy *c, int i, struct text *to)
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
	struct arena a = { 0 };
	struct text all = { 0 }, one = { 0 };
	for (int i = 0; i < (c->same ? 1 : COPIES); i++) {
		text_clear(&one);
		if (c->streams[i].kind == COPY_FILE)
			add_file(c, i, &one);
		else if (c->streams[i].kind == COPY_PIPE && c->shared)
			add_ring(&c->shared->rings[i], &one);
		if (one.n && !c->same)
			text_printf(&all, "%s==> %s <==\n", all.n ? "\n" : "", names[i]);
		text_add(&all, text_str(&one));
	}
	struct uh_error *err =
		all.n ? save_soon(AT_FDCWD, arena_printf(&a, "%s/" JOB_OUTPUT, directory).p, text_str(&all), 0640) : NULL;
	text_free(&one);
	text_free(&all);
	arena_free(&a);
	return err;
}
