// A driver that is none, for fake_runtime: /dev/kfd with the debugger's operations that the recorder uses. It stands before libc's open(),
// ioctl() and prctl(), and says what it was asked for.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake_runtime.h"

struct trap {
	uint32_t pid, operation;
	uint64_t exceptions, buffer;
	uint32_t n, size;
};

static const char *const operations[] = { [0] = "enable", [1] = "disable", [6] = "suspend", [13] = "queues", [14] = "gpus" };
static char asked[256];
static int device = -1;

// An area with the header of one XCC: a control stack of three words, and no wave.
static uint32_t area[1024] = { 64, 12, 76, 0, [18] = 1u << 31 };

// The runtime's list of code objects: its head, two members and what they are called, each on a page of its own, as a debugger follows it.
enum { LIST_HEAD, LIST_FIRST, LIST_SECOND, LIST_URIS, LIST_PAGES };
static struct {
	uint64_t words[5]; // r_debug: version, first; link_map: base, name, ld, next
	char mark[4096 - 5 * sizeof(uint64_t)];
} list[LIST_PAGES] __attribute__((aligned(4096))) = {
	{ { 9 }, "page of the list's head" },
	{ { 0 }, "page of its first member" },
	{ { 0 }, "page of its second member" },
	{ { 0 }, "file:///nowhere/of-the-list.co" },
};

static uint64_t list_make(void)
{
	list[LIST_HEAD].words[1] = (uintptr_t)&list[LIST_FIRST];
	list[LIST_FIRST].words[1] = list[LIST_SECOND].words[1] = (uintptr_t)list[LIST_URIS].mark;
	list[LIST_FIRST].words[3] = (uintptr_t)&list[LIST_SECOND];
	return (uintptr_t)&list[LIST_HEAD];
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	const int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
	va_end(ap);
	const int fake = !strcmp(path, "/dev/kfd") && getenv("FAKE_KFD");
	const int fd = (int)syscall(SYS_openat, AT_FDCWD, fake ? "/dev/null" : path, flags, mode);
	if (fake)
		device = fd;
	return fd;
}

static int answer(struct trap *t)
{
	if (t->pid != (uint32_t)getpid() || t->operation > 14 || !operations[t->operation])
		return errno = EINVAL, -1;
	snprintf(asked + strlen(asked), sizeof(asked) - strlen(asked), " %s", operations[t->operation]);
	uint64_t *q = (uint64_t *)(uintptr_t)t->buffer;
	uint32_t *g = (uint32_t *)(uintptr_t)t->buffer;
	switch (t->operation) {
	case 0:
		q[0] = list_make();
		g[2] = g[3] = 1; // enabled, with the trap handler's registers
		break;
	case 1:
		printf("kfd:%s\n", asked);
		fflush(stdout);
		break;
	case 6:
		if (t->n != 1 || g[0] != 7)
			return errno = EINVAL, -1;
		break;
	case 13:
		memcpy(q,
		       (uint64_t[8]){ 0, fake_ring, fake_write, fake_read, (uintptr_t)area, 7 | 4242ull << 32,
				      65536 | 2ull << 32, sizeof(area) },
		       64);
		t->n = 1;
		break;
	case 14:
		g[14] = 4242;
		g[22] = 90010;
		g[27] = 1;
		t->n = 1;
		break;
	}
	return 0;
}

/** Says whom the recorder lets look into the process: only a kernel with Yama would. */
int prctl(int option, ...)
{
	unsigned long a[4];
	va_list ap;
	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (option == PR_SET_PTRACER && getenv("FAKE_KFD")) {
		printf("ptracer %lu\n", a[0]);
		fflush(stdout);
	}
	return (int)syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	va_start(ap, request);
	void *argument = va_arg(ap, void *);
	va_end(ap);
	if (fd != device || device < 0)
		return (int)syscall(SYS_ioctl, fd, request, argument);
	if (request == 0x80084b01) {
		memcpy(argument, (uint32_t[2]){ 1, 14 }, 8);
		return 0;
	}
	return request == 0xc0204b26 ? answer(argument) : (errno = ENOTTY, -1);
}
