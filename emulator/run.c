// COMMAND in the emulated machine: started, served until it ends, and everything taken down behind it.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "emulator/guest/guest.h"
#include "emulator/namespace.h"

enum { STATUS_SIGNAL = 128, CANNOT = 2, PATIENCE_MS = 2000, INTERRUPTS_MOST = 2 };

struct run {
	struct server *server;
	struct shared *shared;
	struct kept *kept;
	char **command;
	pid_t guard; // the command's parent
	int fuse;
	int report; // where the child says what it could not do
	sigset_t before;
	int interrupts;
	int64_t deadline; // for a command that was told to end; 0: none
};

static void begin_time(struct shared *shared)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	shared->begin = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/** Programs have our KFD, which lies beside the emulator, before libc. */
static void offer_kfd(const struct server *s)
{
	char own[PATH_MAX];
	ssize_t n = emu_kfd(s->machine) ? readlink("/proc/self/exe", own, sizeof(own) - 1) : 0;
	if (n <= 0)
		return;
	own[n] = 0;
	*strrchr(own, '/') = 0;
	const char *others = getenv("LD_PRELOAD");
	struct text all = { 0 };
	text_printf(&all, "%s/libunhang-kfd.so%s%s", own, others ? ":" : "", others ? others : "");
	setenv("LD_PRELOAD", all.p, 1);
	setenv("UNHANG_CONTAINER", "no", 0); // its driver numbers processes as its /proc does
	text_free(&all);
}

__attribute__((noreturn)) static void become_command(struct run *r, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(CANNOT);
	struct uh_error *err = namespace_furnish(r->server, r->kept);
	if (!err)
		err = processes_wait(r->server, r->shared);
	if (!err) {
		begin_time(r->shared);
		offer_kfd(r->server);
		sigprocmask(SIG_SETMASK, &r->before, NULL);
		execvp(r->command[0], r->command);
		err = uh_error_os(errno, "%s", r->command[0]);
	}
	(void)!write(r->report, err->message, strlen(err->message));
	_exit(CANNOT);
}

/** Children of this process, as /proc lists them; who lost his parent became one. */
static bool kill_children(void)
{
	char path[64], list[4096];
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, list, sizeof(list));
	struct str rest = { list, n > 0 ? (size_t)n : 0 };
	bool any = false;
	for (struct str word = str_word(&rest); word.n; word = str_word(&rest)) {
		int64_t pid;
		if (str_number(word, &pid) && pid > 1)
			any |= !kill((pid_t)pid, SIGKILL);
	}
	return any;
}

static void tell_end(struct run *r, int status, pid_t server)
{
	r->shared->status = status;
	__atomic_store_n(&r->shared->ended, true, __ATOMIC_RELEASE);
	kill(server, SIGUSR1);
}

static void reap(struct run *r, pid_t server)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == r->shared->command)
			tell_end(r, status, server);
	}
}

/** The command's parent, which ends all that the command left behind: when it is told to, and when the server is gone. */
__attribute__((noreturn)) static void guard(struct run *r, pid_t server)
{
	sigset_t wanted;
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCHLD);
	sigaddset(&wanted, SIGUSR2);
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	prctl(PR_SET_PDEATHSIG, SIGUSR2);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	close(r->fuse);
	pid_t self = getpid(), command = getppid() == server ? fork() : -1;
	if (!command)
		become_command(r, self);
	r->shared->command = command;
	if (command < 0)
		tell_end(r, CANNOT << 8, server);
	close(r->report);
	while (command > 0 && sigwaitinfo(&wanted, NULL) != SIGUSR2)
		reap(r, server);
	for (int64_t until = now_ms() + PATIENCE_MS; now_ms() < until;) {
		bool any = kill_children();
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (!any)
			break;
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
	_exit(EXIT_SUCCESS);
}

/** The terminal's interrupt reached the command too; what was sent to the emulator alone is handed on. */
static void on_signal(struct run *r, const struct signalfd_siginfo *info)
{
	int number = (int)info->ssi_signo;
	if (number == SIGUSR1)
		return;
	if (info->ssi_code != SI_KERNEL)
		kill(r->shared->command, number);
	bool must = number == SIGTERM || number == SIGHUP || ++r->interrupts >= INTERRUPTS_MOST;
	if (must && !r->deadline)
		r->deadline = now_ms() + PATIENCE_MS;
}

static void serve_until_end(struct run *r, int signals)
{
	enum { DEVICE_NICE = -15 };
	// A device answers at once, however much the processors have to do. Without the right to it the command waits longer.
	setpriority(PRIO_PROCESS, 0, DEVICE_NICE);
	while (!__atomic_load_n(&r->shared->ended, __ATOMIC_ACQUIRE)) {
		bool signal;
		if (!serve_some(r->server, r->deadline ? 50 : -1, signals, &signal))
			break;
		struct signalfd_siginfo info;
		while (signal && read(signals, &info, sizeof(info)) == sizeof(info))
			on_signal(r, &info);
		if (r->deadline && now_ms() > r->deadline) {
			kill(r->shared->command, SIGKILL);
			break;
		}
	}
}

/** The connection is closed already, so that nobody is stuck any more. */
static void end_all(struct run *r)
{
	processes_end(r->server);
	if (r->guard > 0)
		kill(r->guard, SIGUSR2);
	for (int64_t until = now_ms() + 2 * PATIENCE_MS; now_ms() < until;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);
		if (pid < 0)
			break;
		if (!pid)
			nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
}

static struct uh_error *start(struct run *r, int reports[2])
{
	if (pipe2(reports, O_CLOEXEC))
		return uh_error_os(errno, "no pipe");
	r->report = reports[1];
	pid_t parent = getpid();
	r->guard = fork();
	if (r->guard < 0)
		return uh_error_os(errno, "no process can be started");
	if (!r->guard)
		guard(r, parent);
	close(reports[1]);
	reports[1] = -1;
	return NULL;
}

static struct uh_error *run_in_namespace(struct run *r, int fuse, int signals, int *ret_status)
{
	int reports[2] = { -1, -1 };
	struct uh_error *err = serve_begin(r->server, fuse);
	if (!err)
		err = start(r, reports);
	if (!err)
		serve_until_end(r, signals);
	serve_end(r->server);
	end_all(r);
	char why[512];
	ssize_t n = err ? 0 : read(reports[0], why, sizeof(why));
	if (n > 0)
		err = uh_error_new("%.*s", (int)n, why);
	cleanup_close(&reports[0]);
	cleanup_close(&reports[1]);
	int status = r->shared->status;
	*ret_status = WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
	return err;
}

static int catch_signals(sigset_t *before)
{
	static const int caught[] = { SIGUSR1, SIGINT, SIGQUIT, SIGTERM, SIGHUP };
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
		sigaddset(&set, caught[i]);
	sigprocmask(SIG_BLOCK, &set, before);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

struct uh_error *run_command(struct server *s, char **command, struct str arguments, int *ret_status)
{
	int fuse = -1;
	struct run r = { .server = s, .command = command };
	namespace_alone();
	r.shared = mmap(NULL, sizeof(*r.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r.shared == MAP_FAILED)
		return uh_error_os(errno, "no memory");
	s->begin = &r.shared->begin;
	struct uh_error *err = namespace_enter(&r.kept, &fuse);
	if (!err) {
		r.fuse = fuse;
		_cleanup_close_ int signals = catch_signals(&r.before);
		err = processes_start(s, r.shared, arguments);
		if (!err) {
			tree_build(s);
			err = run_in_namespace(&r, fuse, signals, ret_status);
		} else {
			close(fuse);
			end_all(&r);
		}
		kept_free(r.kept);
	}
	munmap(r.shared, sizeof(*r.shared));
	return err;
}
