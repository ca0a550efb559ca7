// A child is a copy of this instance of the module, with a memory of its own: what crashes there, or needs too much, costs only the copy.
// It runs to its end before its parent goes on, so there is no deadline. Whoever waits for the page can stop it.
#include "base/child.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "machine/page.h"

int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/** The page calls it in the copy. */
__attribute__((export_name("run_child"))) void run_child(void (*work)(int fd, const void *ctx), int fd, const void *ctx)
{
	work(fd, ctx);
}

/** One that runs beside its parent cannot be had. Who asks for it does the work itself, or goes without. */
bool child_start(enum child_name name, void (*work)(int fd, const void *ctx), const void *ctx, struct child *ret)
{
	(void)name;
	(void)work;
	(void)ctx;
	(void)ret;
	errno = ENOSYS;
	return false;
}

bool child_ended(const struct child *c) { return c->pid <= 0; }

void child_keep_only(int fd) { (void)fd; }
void child_keep_two(int fd, int other)
{
	(void)fd;
	(void)other;
}

bool child_moves(int pid, int thread, uint64_t *last)
{
	(void)pid;
	(void)thread;
	(void)last;
	return false;
}

bool child_kill(struct child *c, int milliseconds)
{
	(void)c;
	(void)milliseconds;
	return true;
}

enum child_end child_collect(const struct child_task *t, void (*work)(int fd, const void *ctx), const void *ctx,
			     struct text *ret)
{
	enum { PIECE = 4096, ANSWER_MOST = 1 << 20 };
	static const enum child_end ends[] = {
		[PAGE_GOOD] = CHILD_GOOD, [PAGE_CRASHED] = CHILD_CRASHED, [PAGE_MEMORY] = CHILD_MEMORY
	};
	int fd;
	enum child_end end = ends[page_child(work, ctx, &fd)];
	size_t n = 1;
	while (end == CHILD_GOOD && n) {
		n = page_take(fd, text_room(ret, PIECE), PIECE);
		ret->n += n;
		if (ret->n > (t->most ? t->most : ANSWER_MOST))
			end = CHILD_MEMORY;
	}
	page_close(fd);
	return end;
}
