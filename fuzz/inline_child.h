// Children whose work is done here, before anybody waits for them: a fork of a process with AddressSanitizer takes longer than an input, and
// what a child does would not be seen. For targets that are linked with --wrap for these functions.
#pragma once

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"

enum child_end __wrap_child_wait(struct child *c, int64_t deadline, size_t most, struct text *ret);
bool __wrap_child_kill(struct child *c, int milliseconds);
bool __wrap_child_start(enum child_name name, void (*work)(int fd, const void *ctx), const void *ctx, struct child *ret);
enum child_end __wrap_child_collect(void);
void __wrap_child_keep_only(int fd);
void __wrap_child_keep_two(int fd, int other);

static bool work_here(void (*work)(int fd, const void *ctx), const void *ctx, struct child *ret)
{
	*ret = (struct child){ .fd = memfd_create("child", MFD_CLOEXEC) };
	if (ret->fd < 0)
		abort();
	work(ret->fd, ctx);
	lseek(ret->fd, 0, SEEK_SET);
	return true;
}

/** But for the reader of base/door/door.c, which serves for ever: without it unhang reads itself. */
bool __wrap_child_start(enum child_name name, void (*work)(int fd, const void *ctx), const void *ctx, struct child *ret)
{
	return name != CHILD_DOOR && name != CHILD_DOOR_CODE && work_here(work, ctx, ret);
}

enum child_end __wrap_child_wait(struct child *c, int64_t deadline, size_t most, struct text *ret)
{
	(void)c, (void)deadline, (void)most, (void)ret;
	return CHILD_GOOD;
}

bool __wrap_child_kill(struct child *c, int milliseconds)
{
	(void)milliseconds;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	return true;
}

enum child_end __wrap_child_collect(void) { return CHILD_REFUSED; }
void __wrap_child_keep_only(int fd) { (void)fd; }
void __wrap_child_keep_two(int fd, int other) { (void)fd, (void)other; }
