// Begins children, waits for them and ends them. A child that sleeps in the kernel cannot be killed, so no wait here is without an end:
// whoever waits for a child is told that it is late and goes on without it.
#include "base/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lifetime.h"
#include "base/lower.h"

enum { KILL_MS = 200, ANSWER_MOST = 1 << 20 };

int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/** A crash handler that the parent installed must not run in the child. */
static void crash_plainly(void)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	for (size_t i = 0; i < ARRAY_SIZE(crashes); i++)
		signal(crashes[i], SIG_DFL);
}

/** One without a limit of memory has none of processor time either: its threads together may use more of it than the clock shows. */
static void limit_child(const struct child_rights *r)
{
	const rlim_t seconds = (rlim_t)r->milliseconds / 1000 + 1, bytes = (rlim_t)r->memory << 20;
	struct rlimit core = { 0, 0 };
	if (r->cores)
		getrlimit(RLIMIT_CORE, &core);
	core.rlim_cur = 0;
	setrlimit(RLIMIT_CORE, &core);
	if (r->memory && r->milliseconds)
		setrlimit(RLIMIT_CPU, &(struct rlimit){ seconds, seconds });
	if (ADDRESSES_CHECKED || !r->memory) // the sanitizer's shadow is larger than any limit
		return;
	setrlimit(RLIMIT_AS, &(struct rlimit){ bytes, bytes });
	close(STDERR_FILENO); // what a library prints, or that memory ran out in the child, is not for the user
}

static bool base_child_put_down(const struct child_rights *r)
{
	switch (r->user) {
	case CHILD_AS_NO_ONE:
		return lower_keeping(LOWER_NOGROUP, r->keeps);
	case CHILD_AS_READING:
		lower_to_reading();
		break;
	case CHILD_AS_CALLER:
	case CHILD_AS_OWNER: // who knows the owner calls lower_to_owner()
		break;
	}
	return true;
}

bool child_put_down(enum child_name name) { return base_child_put_down(&child_rights[name]); }

/** Reads the pipe to its end. */
static enum child_end base_child_collect(int fd, int64_t deadline, size_t most, struct text *ret)
{
	char room[4096];
	for (;;) {
		int64_t left = deadline - now_ms();
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		int ready = poll(&wait, 1, left < 0 ? 0 : (int)left); // one that has ended is not late, whenever it is asked
		if (!ready)
			return CHILD_LATE;
		if (ready < 0 && errno == EINTR)
			continue;
		ssize_t n = read(fd, room, sizeof(room));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? CHILD_GOOD : CHILD_CRASHED;
		if (ret->n + (size_t)n > most)
			return CHILD_MEMORY;
		text_add(ret, (struct str){ room, (size_t)n });
	}
}

/** How the child ended: its limits and mem_alloc() give it certain statuses. */
static enum child_end base_child_judge(int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		return CHILD_LATE;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		return CHILD_MEMORY;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? CHILD_GOOD : CHILD_CRASHED;
}

/** Its status, where it ends before @deadline. */
static bool base_child_reap(struct child *c, int64_t deadline, int *ret_status)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	pid_t gone;
	while ((gone = waitpid(c->pid, ret_status, WNOHANG)) == 0 || (gone < 0 && errno == EINTR)) {
		if (now_ms() >= deadline)
			return false;
		nanosleep(&pause, NULL);
	}
	c->pid = 0;
	return true;
}

static void close_pipe(struct child *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

void child_of(int parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

static bool base_child_begin(void (*work)(int fd, const void *ctx), const void *ctx, const struct child_rights *rights,
			     struct child *ret)
{
	int ends[2];
	*ret = (struct child){ .fd = -1 };
	if (pipe(ends))
		return false;
	const pid_t parent = getpid();
	pid_t child = fork();
	if (child == 0) {
		child_of(parent);
		close(ends[0]);
		crash_plainly();
		limit_child(rights);
		if (!rights->later && !base_child_put_down(rights))
			_exit(1);
		work(ends[1], ctx);
		_exit(0);
	}
	int why = errno;
	close(ends[1]);
	if (child < 0)
		close(ends[0]);
	else
		*ret = (struct child){ child, ends[0] };
	errno = why;
	return child > 0;
}

bool child_start(enum child_name name, void (*work)(int fd, const void *ctx), const void *ctx, struct child *ret)
{
	return base_child_begin(work, ctx, &child_rights[name], ret);
}

void hold_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/", O_PATH | O_CLOEXEC);
}

/** Without /proc there is only guessing. Some limits are so high that to try each number would take minutes. */
static void close_each(int first, int last)
{
	enum { GUESSED_MOST = 1 << 16 };
	struct rlimit files;
	const bool known = !getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < GUESSED_MOST;
	const int end = known ? (int)files.rlim_cur : GUESSED_MOST;
	for (int fd = first; fd <= last && fd < end; fd++)
		close(fd);
}

void close_between(int first, int last)
{
	if (first > last || !close_range((unsigned)first, (unsigned)last, 0))
		return;
	DIR *d = opendir("/proc/self/fd");
	if (!d) {
		close_each(first, last);
		return;
	}
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		int64_t fd;
		if (str_number(str_z(e->d_name), &fd) && fd >= first && fd <= last && fd != dirfd(d))
			close((int)fd);
	}
	closedir(d);
}

void close_from(int first) { close_between(first, INT_MAX); }

void child_keep_only(int fd)
{
	close_between(0, fd - 1);
	close_from(fd + 1);
	hold_descriptors();
}

void child_quiet(void)
{
	close_between(STDIN_FILENO, STDERR_FILENO);
	hold_descriptors();
}

void child_keep_two(int fd, int other)
{
	const int low = fd < other ? fd : other, high = fd < other ? other : fd;
	close_between(0, low - 1);
	close_between(low + 1, high - 1);
	close_from(high + 1);
}

enum child_end child_wait(struct child *c, int64_t deadline, size_t most, struct text *ret)
{
	enum child_end end = base_child_collect(c->fd, deadline, most, ret);
	int status = 0;
	if (end != CHILD_GOOD)
		return end;
	if (!base_child_reap(c, deadline, &status)) // its end is a part of its work: it closes files
		return CHILD_LATE;
	close_pipe(c);
	return base_child_judge(status);
}

bool child_moves(int pid, int thread, uint64_t *last)
{
	enum { MINFLT = 8, MAJFLT = 10, UTIME = 12, STIME = 13, ROOM = 512 }; // words of /proc/PID/stat, from the state on
	char path[64], stat[ROOM];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, thread);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	stat[n < 0 ? 0 : n] = 0;
	const char *state = strrchr(stat, ')');
	struct str rest = str_from(str_z(state ? state : ""), 1);
	bool runs = str_starts(rest, S(" R"));
	uint64_t sum = 0;
	for (int word = 1; rest.n; word++) {
		int64_t number;
		struct str text = str_word(&rest);
		if ((word == MINFLT || word == MAJFLT || word == UTIME || word == STIME) && str_number(text, &number))
			sum += (uint64_t)number;
	}
	bool moved = runs || sum != *last;
	*last = sum;
	return moved;
}

bool child_ended(const struct child *c)
{
	struct pollfd pipe = { .fd = c->fd, .events = POLLIN };
	return poll(&pipe, 1, 0) > 0;
}

void futex_wait(_Atomic uint32_t *word, uint32_t value, int milliseconds)
{
	const struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000L };
	syscall(SYS_futex, word, FUTEX_WAIT, value, milliseconds ? &time : NULL, NULL, 0);
}

void futex_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0); }

bool child_kill(struct child *c, int milliseconds)
{
	int status;
	close_pipe(c);
	if (c->pid && kill(c->pid, SIGKILL) == 0)
		return base_child_reap(c, now_ms() + milliseconds, &status);
	return true;
}

void child_drop(struct child *c)
{
	if (c->pid)
		child_kill(c, 0);
}

/** As child_wait(); one that still works at @deadline gets slices of time until @latest. */
static enum child_end base_child_wait_busy(struct child *c, int64_t deadline, int64_t latest, size_t most, struct text *ret)
{
	enum { SLICE_MS = 50 };
	uint64_t pulse = 0;
	enum child_end end;
	while ((end = child_wait(c, deadline, most, ret)) == CHILD_LATE && deadline < latest &&
	       child_moves(c->pid, c->pid, &pulse))
		deadline += SLICE_MS;
	return end;
}

enum child_end child_collect(const struct child_task *t, void (*work)(int fd, const void *ctx), const void *ctx,
			     struct text *ret)
{
	struct child_rights rights = child_rights[t->name];
	const int64_t now = now_ms(), deadline = t->deadline ? t->deadline : now + rights.milliseconds;
	const int64_t left = deadline + t->busy_ms - now;
	struct child c;
	rights.milliseconds = left < 1 ? 1 : left > INT_MAX ? INT_MAX : (int)left;
	if (!base_child_begin(work, ctx, &rights, &c))
		return CHILD_REFUSED;
	enum child_end end = base_child_wait_busy(&c, deadline, deadline + t->busy_ms, t->most ? t->most : ANSWER_MOST, ret);
	const int why = errno;
	child_kill(&c, KILL_MS);
	errno = why;
	return end;
}

struct filler {
	void (*work)(void *room, size_t size, const void *ctx);
	void *room;
	size_t size;
	const void *ctx;
};

/** Writes nothing: the end of the pipe tells the parent that the child has ended. */
static void base_child_fill(int fd, const void *ctx)
{
	const struct filler *f = ctx;
	(void)fd;
	f->work(f->room, f->size, f->ctx);
}

enum child_end child_fill(const struct child_task *t, void (*work)(void *room, size_t size, const void *ctx), const void *ctx,
			  size_t size, void **ret_room)
{
	_cleanup_map_ struct map room = {
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), size
	};
	if (room.p == MAP_FAILED) {
		room.p = NULL;
		return CHILD_REFUSED;
	}
	const struct filler f = { work, room.p, size, ctx };
	_cleanup_text_ struct text nothing = { 0 };
	enum child_end end = child_collect(t, base_child_fill, &f, &nothing);
	if (end == CHILD_GOOD)
		*ret_room = take_ptr(room.p);
	return end;
}
