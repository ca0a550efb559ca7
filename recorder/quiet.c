// Writes that end nobody. Beyond the process's own limit of file sizes (RLIMIT_FSIZE) the kernel sends SIGXFSZ, and where nobody reads any
// more SIGPIPE: both end a program that knows nothing of our files. Both go to the thread that writes, so it holds them back for that
// moment and takes what came of its own write away. What the program has set for its own writes stays as it is.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "recorder/recorder.h"

struct quiet {
	sigset_t before, pending;
};

static void quiet_begin(struct quiet *q)
{
	sigset_t both;
	sigemptyset(&both);
	sigaddset(&both, SIGXFSZ);
	sigaddset(&both, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &both, &q->before);
	sigpending(&q->pending);
}

/** @result: of the call; errno stays. */
static void quiet_end(const struct quiet *q, int64_t result)
{
	const int error = errno, sent = result >= 0 ? 0 : error == EFBIG ? SIGXFSZ : error == EPIPE ? SIGPIPE : 0;
	sigset_t one;
	sigemptyset(&one);
	// One that the program had held back before is the program's.
	if (sent && !sigismember(&q->pending, sent) && !sigaddset(&one, sent))
		while (sigtimedwait(&one, NULL, &(struct timespec){ 0 }) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &q->before, NULL);
	errno = error;
}

ssize_t quiet_write(int fd, const void *bytes, size_t n)
{
	struct quiet q;
	quiet_begin(&q);
	const ssize_t done = write(fd, bytes, n);
	quiet_end(&q, done);
	return done;
}

/** Where the file system cannot allocate, zeros are written. */
static int allocate(int fd, off_t begin, off_t end)
{
	static const char zeros[RECORDING_PAGE];
	int r;
	do
		r = fallocate(fd, 0, begin, end - begin);
	while (r && errno == EINTR);
	if (!r || (errno != EOPNOTSUPP && errno != ENOSYS))
		return r;
	for (off_t at = begin; at < end; at += (off_t)sizeof(zeros))
		if (pwrite(fd, zeros, sizeof(zeros), at) != (ssize_t)sizeof(zeros))
			return -1;
	return 0;
}

bool quiet_allocate(int fd, uint64_t begin, uint64_t end)
{
	struct quiet q;
	quiet_begin(&q);
	const int r = allocate(fd, (off_t)begin, (off_t)end);
	quiet_end(&q, r);
	return !r;
}
