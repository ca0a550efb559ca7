// Processes of its own for each emulated machine: others that are emulated at the same time have GPUs at the same addresses, and their
// processes would be taken for this one's.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "emulator/namespace.h"

enum { STATUS_SIGNAL = 128 };

static sigset_t handed_on(void)
{
	static const int numbers[] = { SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP };
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaddset(&set, numbers[i]);
	return set;
}

/** Waits for the child that goes on as the emulator, hands signals on to it, and ends as it does. */
__attribute__((noreturn)) static void stand_for(pid_t child)
{
	sigset_t set = handed_on();
	siginfo_t info;
	int status;
	for (;;) {
		if (waitpid(child, &status, WNOHANG) == child)
			_exit(WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status));
		// What the terminal sends reaches the child by itself.
		if (sigwaitinfo(&set, &info) > 0 && info.si_signo != SIGCHLD && info.si_code != SI_KERNEL)
			kill(child, info.si_signo);
	}
}

/** Goes on as the first process of a namespace, which sees its own in /proc. Returns there, or where that cannot be had. */
static bool enter(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNS | CLONE_NEWPID) && !(namespace_as_user() && !unshare(CLONE_NEWPID)))
		return false;
	pid_t child = fork();
	if (child > 0)
		stand_for(child);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return !child && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

void namespace_alone(void)
{
	sigset_t before, set = handed_on();
	int ends[2];
	char good = 1;
	fflush(NULL);
	if (pipe2(ends, O_CLOEXEC))
		return;
	sigprocmask(SIG_BLOCK, &set, &before);
	pid_t child = fork();
	if (!child) {
		if (!enter() || write(ends[1], &good, 1) != 1)
			_exit(EXIT_FAILURE);
		sigprocmask(SIG_SETMASK, &before, NULL);
		close(ends[0]);
		close(ends[1]);
		return;
	}
	close(ends[1]);
	if (child > 0 && read(ends[0], &good, 1) == 1)
		stand_for(child);
	close(ends[0]);
	while (child > 0 && waitpid(child, NULL, 0) < 0)
		;
	sigprocmask(SIG_SETMASK, &before, NULL);
}
