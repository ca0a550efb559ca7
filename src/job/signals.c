// Signals: what we change for ourselves, the job gets back. A disposition that is ignored lasts across exec, so what our parent ignores (nohup
// SIGHUP, a shell's background SIGINT, a daemon's SIGCHLD) is ignored by us and by the job, unless somebody undoes it.
#include <sys/signalfd.h>

#include "job/parts.h"

struct change {
	int signal;
	void (*now)(int);
	bool taken; // by our signalfd
};
static const struct change changes[] = {
	{ SIGCHLD, SIG_DFL, true }, // ignored, the kernel would reap the job, and nobody would know how it ended
	{ SIGTERM, SIG_DFL, true },  { SIGHUP, SIG_DFL, true },   { SIGINT, SIG_DFL, true },
	{ SIGQUIT, SIG_DFL, true },  { SIGUSR1, SIG_DFL, true },  { SIGUSR2, SIG_DFL, true },
	{ SIGCONT, SIG_DFL, true },  { SIGPIPE, SIG_IGN, false }, // who reads our report may be gone; the job goes on
	{ SIGXFSZ, SIG_IGN, false },                              // a write beyond RLIMIT_FSIZE is an error, not our end
};
enum { CHANGES = sizeof(changes) / sizeof(changes[0]) };
_Static_assert((int)CHANGES == (int)SIGNALS_KEPT, "each change has a place where it is kept");

/** What would end us, and the job with us, is the job's to answer. Ignored, it is so for both. */
static void add_passed(sigset_t *ours)
{
	static const int passed[] = { SIGXCPU, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT };
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		sigaddset(ours, passed[i]);
	for (int n = SIGRTMIN; n <= SIGRTMAX; n++)
		sigaddset(ours, n);
}

void signals_take(struct signals *s)
{
	sigset_t ours;
	sigemptyset(&ours);
	add_passed(&ours);
	for (size_t i = 0; i < CHANGES; i++)
		if (changes[i].taken)
			sigaddset(&ours, changes[i].signal);
	sigprocmask(SIG_BLOCK, &ours, &s->mask);
	for (size_t i = 0; i < CHANGES; i++) {
		const struct sigaction now = { .sa_handler = changes[i].now };
		sigaction(changes[i].signal, &now, &s->kept[i]);
	}
	s->fd = signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
}

void signals_give_back(const struct signals *s)
{
	for (size_t i = 0; i < CHANGES; i++)
		sigaction(changes[i].signal, &s->kept[i], NULL);
	sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

bool signals_ignored(const struct signals *s, int signal)
{
	for (size_t i = 0; i < CHANGES; i++)
		if (changes[i].signal == signal)
			return s->kept[i].sa_handler == SIG_IGN;
	return false;
}
