// Clears up behind a trial that was killed. A process of its own waits until the trial's end of a pipe is closed, by whatever it was: then it
// removes the place of the recordings, which is memory. Its reaper ends each job that ran.
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "job/trial/runs.h"

enum { REMOVALS = 50 };

__attribute__((noreturn)) static void keeper_become(int from, const char *place)
{
	static const struct timespec pause = { .tv_nsec = 20000000 };
	setsid(); // what is sent to the trial's group is not for it
	const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC), ear = dup2(from, STDERR_FILENO + 1);
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		dup2(nothing, fd);
	close_from(ear + 1);
	char nothing_comes;
	while (read(ear, &nothing_comes, 1) < 0 && errno == EINTR)
		;
	for (int i = 0; i < REMOVALS && runs_is_place(place); i++) { // a job that ends may still make a file
		runs_drop(place);
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

int keeper_begin(const char *place)
{
	int ends[2] = { -1, -1 };
	if (pipe2(ends, O_CLOEXEC))
		return -1;
	_cleanup_close_ int hears = ends[0], tells = ends[1];
	const pid_t pid = fork();
	if (!pid && fork())
		_exit(0); // its child is nobody's, so that nobody waits for it
	if (!pid) {
		cleanup_close(&tells);
		keeper_become(hears, place);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return take_fd(&tells);
}
