#include "base/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY_MAX = 1 << 30 };

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
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
#endif
}

/** Whether the pipe was read to its end in time. */
static bool collect(int fd, int64_t deadline, size_t most, struct text *ret)
{
	char room[4096];
	for (;;) {
		int64_t left = deadline - now_ms();
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		if (left <= 0 || poll(&wait, 1, (int)left) == 0)
			return false;
		ssize_t n = read(fd, room, sizeof(room));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		if (ret->n + (size_t)n > most)
			return false;
		text_add(ret, (struct str){ room, (size_t)n });
	}
}

bool child_run(void (*work)(int fd, const void *ctx), const void *ctx, int milliseconds, size_t most, struct text *ret)
{
	int ends[2];
	if (pipe(ends))
		return false;
	pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		limit_child(milliseconds);
		work(ends[1], ctx);
		_exit(0);
	}
	close(ends[1]);
	bool good = child > 0 && collect(ends[0], now_ms() + milliseconds, most, ret);
	close(ends[0]);
	if (child < 0)
		return false;
	if (!good)
		kill(child, SIGKILL);
	int status = 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return good && WIFEXITED(status) && !WEXITSTATUS(status);
}
