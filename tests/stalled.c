// unhang with a file of a tree that never answers, and a clock that stands still until then: no deadline is a matter of luck. It is linked
// with all of unhang; what is defined here comes before the C library's own.
//
// UNHANG_STALL is the path, as it is opened below --root, that does not answer. UNHANG_OPENED names a file that gets each such path.
// UNHANG_OPENAT2 is the errno of a system that has no openat2().
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LATE_S = 11 }; // more than a file of a tree may take

/** Whoever stands at the file makes it later for all processes. */
static struct shared {
	_Atomic int64_t late_s;
} * shared;

__attribute__((constructor)) static void begin(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		abort();
}

/** A child has closed all descriptors but one. */
static void note(const char *path)
{
	const char *to = getenv("UNHANG_OPENED");
	int fd = to ? open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
	if (fd >= 0 && (write(fd, path, strlen(path)) < 0 || write(fd, "\n", 1) < 0))
		abort();
	if (fd >= 0)
		close(fd);
}

static void stall(void)
{
	// Again and again until it is killed: who saw it move after the first time waits from there on.
	for (;;) {
		shared->late_s += LATE_S;
		sleep(1);
	}
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long a[6];
	va_list ap;
	va_start(ap, number);
	for (size_t i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_openat2) {
		const char *path = (const char *)a[1], *stalled = getenv("UNHANG_STALL"), *error = getenv("UNHANG_OPENAT2");
		note(path);
		if (stalled && !strcmp(path, stalled))
			stall();
		if (error)
			return errno = atoi(error), -1;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	static int (*real)(clockid_t, struct timespec *);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	if (clock != CLOCK_MONOTONIC || !shared)
		return real(clock, ret);
	*ret = (struct timespec){ .tv_sec = 1000 + shared->late_s };
	return 0;
}
