// Between a trial and the job of a run: a process below which the whole tree of the job hangs, also what it sends into sessions of its own. It
// ends all of it as soon as the job has ended, or when the trial asks for it, or is killed.
#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "job/trial/runs.h"
#include "source/process.h"

enum { ROUNDS = 200 };

static void kill_children(void)
{
	DIR *d = opendir("/proc");
	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		struct process_stat st;
		char room[512];
		int64_t pid;
		if (str_number(str_z(e->d_name), &pid) &&
		    process_stat_parse(process_file(pid, "stat", room, sizeof(room)), &st) && st.parent == getpid())
			kill((pid_t)pid, SIGKILL);
	}
	if (d)
		closedir(d);
}

/** Whoever the job left has become our child; and when that one ends, its own children do. Who is stuck in the kernel is left in the end. */
static void end_strays(void)
{
	static const struct timespec pause = { .tv_nsec = 10000000 };
	for (int i = 0; i < ROUNDS; i++) {
		pid_t ended, some = 0;
		while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
			some = ended;
		if (ended < 0)
			return;
		kill_children();
		if (!some)
			nanosleep(&pause, NULL);
	}
}

/** The status of the job, as a shell has it. */
static int reaper_wait(pid_t job)
{
	sigset_t heard;
	int status = 0;
	sigemptyset(&heard);
	sigaddset(&heard, SIGCHLD);
	sigaddset(&heard, SIGTERM);
	for (pid_t ended = 0; ended != job;) {
		if (sigwaitinfo(&heard, NULL) == SIGTERM) {
			kill(-job, SIGKILL);
			kill(job, SIGKILL);
		}
		while (ended != job && (ended = waitpid(-1, &status, WNOHANG)) > 0)
			;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void reaper_begin(int trial)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != trial)
		_exit(NOT_STARTED);
	const pid_t reaper = getpid(), job = fork();
	if (!job) {
		setpgid(0, 0);
		child_of(reaper); // a job that nobody watches would hold the GPU
		sigemptyset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		return;
	}
	const int status = job < 0 ? NOT_STARTED : reaper_wait(job);
	end_strays();
	_exit(status);
}
