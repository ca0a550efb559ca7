#include "base/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY_MAX = 1 << 30, KILL_MS = 1000 };

int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/** A handler of the parent's for crashes must not bring the child back to life. */
static void crash_plainly(void)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		signal(crashes[i], SIG_DFL);
}

static void limit_child(int milliseconds)
{
	const struct rlimit time = { (rlim_t)milliseconds / 1000 + 1, (rlim_t)milliseconds / 1000 + 1 };
	const struct rlimit none = { 0, 0 };
	setrlimit(RLIMIT_CPU, &time);
	setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__) // whose shadow is larger than any limit
	const struct rlimit memory = { MEMORY_MAX, MEMORY_MAX };
	setrlimit(RLIMIT_AS, &memory);
	close(STDERR_FILENO); // that the child had too little memory, or what a library has to say, is not for the user
#endif
}

/** Reads the pipe to its end. */
static enum child_end collect(int fd, int64_t deadline, size_t most, struct text *ret)
{
	char room[4096];
	for (;;) {
		int64_t left = deadline - now_ms();
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		int ready = left <= 0 ? 0 : poll(&wait, 1, (int)left);
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

/** What the child's limits, and mem_alloc() in it, made of it. */
static enum child_end judge(int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		return CHILD_LATE;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		return CHILD_MEMORY;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? CHILD_GOOD : CHILD_CRASHED;
}

/** Nobody waits long for its end: one that sleeps in the kernel (for the lock of a stuck process's memory) does not die. */
static void end_child(pid_t child)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	kill(child, SIGKILL);
	for (int i = 0; i < KILL_MS && waitpid(child, NULL, WNOHANG) == 0; i++)
		nanosleep(&pause, NULL);
}

static enum child_end run(void (*work)(int fd, const void *ctx), const void *ctx, int milliseconds, size_t most,
			  struct text *ret)
{
	int ends[2];
	if (pipe(ends))
		return CHILD_REFUSED;
	pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		crash_plainly();
		limit_child(milliseconds);
		work(ends[1], ctx);
		_exit(0);
	}
	int why = errno;
	close(ends[1]);
	enum child_end end = child > 0 ? collect(ends[0], now_ms() + milliseconds, most, ret) : CHILD_REFUSED;
	close(ends[0]);
	errno = why;
	if (child < 0)
		return end;
	if (end != CHILD_GOOD) {
		end_child(child);
		return end;
	}
	int status = 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return judge(status);
}

bool child_run(void (*work)(int fd, const void *ctx), const void *ctx, int milliseconds, size_t most, struct text *ret)
{
	return run(work, ctx, milliseconds, most, ret) == CHILD_GOOD;
}

struct filler {
	void (*work)(void *room, size_t size, const void *ctx);
	void *room;
	size_t size;
	const void *ctx;
};

/** Writes nothing: the end of the pipe tells the parent that the child has ended. */
static void fill(int fd, const void *ctx)
{
	const struct filler *f = ctx;
	(void)fd;
	f->work(f->room, f->size, f->ctx);
}

enum child_end child_fill(void (*work)(void *room, size_t size, const void *ctx), const void *ctx, int milliseconds,
			  size_t size, void **ret_room)
{
	void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return CHILD_REFUSED;
	const struct filler f = { work, room, size, ctx };
	struct text nothing = { 0 };
	enum child_end end = run(fill, &f, milliseconds, 0, &nothing);
	int why = errno;
	if (end == CHILD_GOOD)
		*ret_room = room;
	else
		munmap(room, size);
	text_free(&nothing);
	errno = why;
	return end;
}
