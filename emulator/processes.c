// The scenario's processes: children of the emulator that hold the memory and the files that the scenario says.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "emulator/namespace.h"

enum { TICK_MS = 20, WAIT_MS = 5000, FIRST_PASID = 0x8001 };

static void sleep_ms(long ms) { nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL); }

static void show_name(struct str name, struct str arguments)
{
	char short_name[16];
	str_copy(short_name, sizeof(short_name), name);
	prctl(PR_SET_NAME, short_name);
	char *room = (char *)(uintptr_t)arguments.p;
	if (arguments.n < 2)
		return;
	memset(room, 0, arguments.n);
	str_copy(room, arguments.n, name);
}

/** Who looks at its environment sees what the scenario says. It is written over the emulator's own, where there is room. */
static void show_environment(struct str wanted)
{
	char *begin = environ && environ[0] ? environ[0] : NULL, *end = begin;
	for (size_t i = 0; begin && environ[i] && environ[i] == end; i++)
		end += strlen(environ[i]) + 1;
	if (!wanted.n || !begin || wanted.n > (size_t)(end - begin))
		return;
	memset(begin, 0, (size_t)(end - begin));
	memcpy(begin, wanted.p, wanted.n);
}

/** A part of a tick is spent with computing. */
static void compute(unsigned percent)
{
	struct timespec now, begin;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < (long)percent * TICK_MS * 10000);
}

static void open_files(const struct server *s, const struct emu_process *p)
{
	bool computes = false;
	for (size_t i = 0; i < s->nseats; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/dev/dri/renderD%d", s->seats[i].facts->render);
		if (emu_process_opens(p, s->seats[i].gpu) && open(path, O_RDWR) < 0)
			_exit(EXIT_FAILURE);
	}
	for (size_t i = 0; i < emu_queues(s->machine); i++)
		computes |= emu_queue(s->machine, i).process == p;
	if (computes)
		(void)!open("/dev/kfd", O_RDWR);
}

__attribute__((noreturn)) static void live(struct server *s, struct emu_process *p, struct shared *shared, struct str arguments,
					   pid_t parent)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	close_from(3);
	show_name(emu_process_name(p), arguments);
	_cleanup_error_ struct uh_error *err = emu_process_fill(p);
	if (err) {
		str_copy(shared->why, sizeof(shared->why), str_z(err->message));
		__atomic_store_n(&shared->failed, true, __ATOMIC_RELEASE);
		_exit(EXIT_FAILURE);
	}
	while (!__atomic_load_n(&shared->furnished, __ATOMIC_ACQUIRE))
		sleep_ms(1);
	open_files(s, p);
	show_environment(emu_process_environment(p));
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_ACQ_REL);
	if (emu_process_stopped(p))
		raise(SIGSTOP);
	for (;; sleep_ms(TICK_MS)) {
		emu_process_tick(p, server_time(s));
		if (emu_process_computes(p))
			compute(emu_process_computes(p));
	}
}

struct uh_error *processes_start(struct server *s, struct shared *shared, struct str arguments)
{
	pid_t parent = getpid();
	for (size_t i = 0; i < emu_processes(s->machine); i++) {
		struct emu_process *p = emu_process(s->machine, i);
		pid_t pid = fork();
		if (pid < 0)
			return uh_error_os(errno, "no process can be started");
		unsigned pasid = FIRST_PASID + (unsigned)i;
		emu_process_runs(p, pid ? pid : getpid(), pasid);
		if (!pid)
			live(s, p, shared, arguments, parent);
	}
	return NULL;
}

struct uh_error *processes_wait(const struct server *s, struct shared *shared)
{
	__atomic_store_n(&shared->furnished, true, __ATOMIC_RELEASE);
	for (int ms = 0; ms < WAIT_MS; ms++) {
		if (__atomic_load_n(&shared->failed, __ATOMIC_ACQUIRE))
			return uh_error_new("%s", shared->why);
		if (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) >= emu_processes(s->machine))
			return NULL;
		sleep_ms(1);
	}
	return uh_error_new("a process of the scenario could not be started");
}

void processes_end(struct server *s)
{
	for (size_t i = 0; i < emu_processes(s->machine); i++) {
		int pid = emu_process_pid(emu_process(s->machine, i));
		if (pid > 0)
			kill(pid, SIGKILL);
	}
}
