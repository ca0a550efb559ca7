// Starts the job as if we were not there: the same descriptors, the same signals, the same process group and terminal.
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/supervisor.h"
#include "preload/format.h"

// Signals: what we change for ourselves, the job gets back. A disposition that is ignored lasts across exec, so what our parent ignores (nohup
// SIGHUP, a shell's background SIGINT, a daemon's SIGCHLD) is ignored by us and by the job, unless somebody undoes it.

struct signal_change {
	int signal;
	void (*now)(int);
	bool taken; // by our signalfd
};
static const struct signal_change signal_changes[] = {
	{ SIGCHLD, SIG_DFL, true }, // ignored, the kernel would reap the job, and nobody would know how it ended
	{ SIGTERM, SIG_DFL, true },  { SIGHUP, SIG_DFL, true },   { SIGINT, SIG_DFL, true },
	{ SIGQUIT, SIG_DFL, true },  { SIGUSR1, SIG_DFL, true },  { SIGUSR2, SIG_DFL, true },
	{ SIGCONT, SIG_DFL, true },  { SIGPIPE, SIG_IGN, false }, // who reads our report may be gone; the job goes on
	{ SIGXFSZ, SIG_IGN, false },                              // a write beyond RLIMIT_FSIZE is an error, not our end
};
enum { SIGNALS_CHANGED = ARRAY_SIZE(signal_changes) };
_Static_assert((int)SIGNALS_CHANGED == (int)SIGNALS_KEPT, "each change has a place where it is kept");

/** What would end us, and the job with us, is the job's to answer. Ignored, it is so for both. */
static void add_passed(sigset_t *ours)
{
	static const int passed[] = { SIGXCPU, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT };
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
		sigaddset(ours, passed[i]);
	for (int n = SIGRTMIN; n <= SIGRTMAX; n++)
		sigaddset(ours, n);
}

void signals_take(struct signals *s)
{
	sigset_t ours;
	sigemptyset(&ours);
	add_passed(&ours);
	for (size_t i = 0; i < SIGNALS_CHANGED; i++)
		if (signal_changes[i].taken)
			sigaddset(&ours, signal_changes[i].signal);
	sigprocmask(SIG_BLOCK, &ours, &s->mask);
	for (size_t i = 0; i < SIGNALS_CHANGED; i++) {
		const struct sigaction now = { .sa_handler = signal_changes[i].now };
		sigaction(signal_changes[i].signal, &now, &s->kept[i]);
	}
	s->fd = signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
}

void signals_give_back(const struct signals *s)
{
	for (size_t i = 0; i < SIGNALS_CHANGED; i++)
		sigaction(signal_changes[i].signal, &s->kept[i], NULL);
	sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

bool signals_ignored(const struct signals *s, int signal)
{
	for (size_t i = 0; i < SIGNALS_CHANGED; i++)
		if (signal_changes[i].signal == signal)
			return s->kept[i].sa_handler == SIG_IGN;
	return false;
}

// The job runs in our process group, so Ctrl-C, Ctrl-Z, fg and a resize reach it from the kernel as they would without us. What is left to do:
// to stop when the job alone stops, and to put the terminal right when the job was killed with it in another mode.

void terminal_save(struct terminal *t)
{
	*t = (struct terminal){ .fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY) };
	if (t->fd < 0)
		return;
	t->foreground = tcgetpgrp(t->fd);
	if (tcgetattr(t->fd, &t->modes))
		cleanup_close(&t->fd);
}

void terminal_restore(const struct terminal *t)
{
	sigset_t output, before;
	// In the background the terminal is somebody else's.
	if (t->fd < 0 || t->foreground != getpgrp())
		return;
	sigemptyset(&output);
	sigaddset(&output, SIGTTOU);
	sigprocmask(SIG_BLOCK, &output, &before);
	if (tcgetpgrp(t->fd) != t->foreground)
		tcsetpgrp(t->fd, t->foreground);
	tcsetattr(t->fd, TCSADRAIN, &t->modes);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

bool terminal_job_control(const struct terminal *t)
{
	const pid_t parent = getppid();
	return t->fd >= 0 && getsid(parent) == getsid(0) && getpgid(parent) != getpgrp();
}

// --- the environment ---

struct variables {
	struct arena *arena;
	VEC(char *) list;
};

static void variable_set(struct variables *v, struct str line)
{
	const char *equals = memchr(line.p, '=', line.n);
	if (!equals || equals == line.p)
		return;
	const size_t name = (size_t)(equals + 1 - line.p);
	char *copy = arena_z(v->arena, line);
	for (size_t i = 0; i < v->list.len; i++)
		if (!strncmp(v->list.data[i], copy, name)) {
			v->list.data[i] = copy;
			return;
		}
	vec_push(&v->list, copy);
}

static const char *variable_get(const struct variables *v, const char *name)
{
	const size_t n = strlen(name);
	for (size_t i = 0; i < v->list.len; i++)
		if (!strncmp(v->list.data[i], name, n) && v->list.data[i][n] == '=')
			return v->list.data[i] + n + 1;
	return NULL;
}

static void set_lines(struct variables *v, struct str lines)
{
	while (lines.n)
		variable_set(v, str_split(&lines, '\n'));
}

/** Whoever variable_set one of these himself wants it so. */
static void set_default(struct variables *v, const char *name, struct str value)
{
	if (!variable_get(v, name) && value.n)
		variable_set(v, arena_printf(v->arena, "%s=" STR_FMT, name, STR_ARG(value)));
}

/** The tools that the user's environment names stay, before ours. AMD's builds of the runtime look at them only if told to. */
static void add_tool(struct variables *v, const char *library)
{
	const char *others = variable_get(v, "HSA_TOOLS_LIB");
	const bool there = others && strstr(others, library);
	if (!there)
		variable_set(v, arena_printf(v->arena, "HSA_TOOLS_LIB=%s%s%s", others && *others ? others : "",
					     others && *others ? " " : "", library));
	set_default(v, "HSA_TOOLS_ROCPROFILER_V1_TOOLS", S("1"));
}

/** Python then names PyTorch's operators to the recorder; a sitecustomize that this one hides runs as well. */
static void set_python(struct variables *v, const char *directory)
{
	const char *own = variable_get(v, "PYTHONPATH"), *torch = variable_get(v, "UNHANG_TORCH");
	if (directory && !(torch && !strcmp(torch, "off")))
		variable_set(v, arena_printf(v->arena, "PYTHONPATH=%s%s%s", directory, own && *own ? ":" : "", own ? own : ""));
}

/** The debug agent and GPU cores exclude each other in most versions of ROCm. */
static bool with_agent(const struct job_try *a) { return a->told->changes == RUN_WITH_AGENT; }

static void set_recorder(struct variables *v, const struct supervisor *s, const struct job_try *a)
{
	const int64_t level = a->told->level;
	add_tool(v, s->options->recorder);
	variable_set(v, arena_printf(v->arena, "UNHANG_LEVEL=%lld", (long long)level));
	variable_set(v, arena_printf(v->arena, "UNHANG_MAX_LEVEL=%lld", (long long)(level > 3 ? level : 3)));
	variable_set(v, arena_printf(v->arena, "UNHANG_RECORDING=%s/%%h.%%p.recording", s->recordings));
	variable_set(v, arena_printf(v->arena, "UNHANG_DUMPS=%s/" JOB_INPUTS "/%%p", a->directory));
	variable_set(v, arena_printf(v->arena, "UNHANG_SUPERVISOR=%d", (int)getpid()));
	set_default(v, "UNHANG_KEEP", S("1000"));
	set_python(v, s->options->python);
	if (a->told->filter.n)
		variable_set(v, arena_printf(v->arena, "UNHANG_INCLUDE=" STR_FMT, STR_ARG(a->told->filter)));
}

/** Guard or pool. What the user preloads stays, behind it: the allocator must be the first that HIP's callers find. */
static void set_allocator(struct variables *v, const struct supervisor *s, const struct job_try *a)
{
	const struct uh_run_options *o = s->options;
	const char *others = variable_get(v, "LD_PRELOAD");
	if (!others || !strstr(others, o->allocator))
		variable_set(v, arena_printf(v->arena, "LD_PRELOAD=%s%s%s", o->allocator, others && *others ? ":" : "",
					     others ? others : ""));
	variable_set(v, arena_printf(v->arena, "UNHANG_ALLOCATIONS=%s/" ALLOC_OF_JOB "%%p", a->directory));
	if (o->pool) {
		variable_set(v, S("UNHANG_POOL=1"));
		return;
	}
	variable_set(v, arena_printf(v->arena, "UNHANG_GUARD=%s", o->guard));
	if (o->guard_align)
		variable_set(v, arena_printf(v->arena, "UNHANG_GUARD_ALIGN=%u", o->guard_align));
	// A framework that hands out parts of its buffers would hide all that happens inside of them.
	set_default(v, "PYTORCH_NO_CUDA_MEMORY_CACHING", S("1"));
}

/** For a try: ours, the user's, and the recorder's. */
static char *const *job_environment(const struct supervisor *s, const struct job_try *a)
{
	struct variables v = { .arena = s->arena };
	const bool agent = with_agent(a), cores = s->options->cores != UH_CORES_OFF && !agent;
	for (char **e = environ; *e; e++)
		vec_push(&v.list, *e);
	set_lines(&v, s->profile);
	for (size_t i = 0; i < s->options->nenv; i++)
		variable_set(&v, str_z(s->options->env[i]));
	if (a->told->changes == RUN_ON_REPEAT)
		set_lines(&v, s->repeat);
	variable_set(&v, arena_printf(v.arena, "UNHANG_RUN=" STR_FMT, STR_ARG(s->run->id)));
	if (s->options->recorder && a->told->level)
		set_recorder(&v, s, a);
	if (s->options->allocator && (s->options->guard || s->options->pool))
		set_allocator(&v, s, a);
	if (agent && s->options->agent) {
		add_tool(&v, s->options->agent);
		set_default(&v, "ROCM_DEBUG_AGENT_OPTIONS", arena_printf(v.arena, "--output=%s/" JOB_AGENT_FILE, a->directory));
	}
	if (s->options->cores == UH_CORES_KEEP && cores)
		set_default(&v, "UNHANG_CORE", arena_printf(v.arena, "%s/" JOB_CORE "%%p.light", a->directory));
	if (cores)
		set_default(&v, "HSA_COREDUMP_PATTERN", arena_printf(v.arena, "%s/" JOB_CORE "%%p", a->directory));
	else
		set_default(&v, "UNHANG_CORE_BYTES", S("0"));
	char **list = arena_alloc(v.arena, (v.list.len + 1) * sizeof(*list));
	memcpy(list, v.list.data, v.list.len * sizeof(*list));
	vec_free(&v.list);
	return list;
}

// --- the job ---

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

/** Never more than @most; with --cores keep also where the user's limit forbids them, as far as he may raise it. */
static void limit_cores(uint64_t most, bool raise)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_CORE, &l) || (l.rlim_cur <= most && !raise))
		return;
	l.rlim_cur = l.rlim_max < most ? l.rlim_max : most;
	setrlimit(RLIMIT_CORE, &l);
}

/** In the child. What it writes to @error is errno. */
__attribute__((noreturn)) static void job_become(const struct supervisor *s, const struct job_try *a, char *const *command,
						 char *const *environment, int error)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); // a job that nobody watches would hold the GPU
	if (getppid() != s->run->pid)
		_exit(126);
	limit_cores(with_agent(a) ? 0 : cores_most(s), s->options->cores == UH_CORES_KEEP);
	copy_become(&a->copy);
	signals_give_back(&s->signals);
	execvpe(command[0], command, environment);
	const int why = errno;
	(void)!write(error, &why, sizeof(why));
	_exit(127);
}

/** A process that is born in the group: to move one there costs ten milliseconds and more. Where that cannot be, it runs where we do. */
static pid_t fork_into(int group)
{
	struct clone_args a = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)group };
	const long pid = group < 0 ? -1 : syscall(SYS_clone3, &a, sizeof(a));
	return pid < 0 ? fork() : (pid_t)pid;
}

/** Returns why it cannot be started, as errno; 0: it was. */
static int start_start_job(const struct supervisor *s, struct job_try *a, char *const *command)
{
	int ends[2], why = 0;
	char *const *environment = job_environment(s, a);
	if (pipe2(ends, O_CLOEXEC))
		return errno;
	_cleanup_close_ int from = ends[0], to = ends[1];
	a->root = fork_into(a->group.fd);
	if (!a->root)
		job_become(s, a, command, environment, to);
	if (a->root < 0)
		return errno;
	cleanup_close(&to);
	// Closed by the exec, or filled with the reason why there was none.
	while (read(from, &why, sizeof(why)) < 0 && errno == EINTR)
		;
	if (why)
		waitpid(a->root, NULL, 0);
	return why;
}

/** The command, with what --resume adds from the second try on. */
static char *const *command_line(struct supervisor *s, const struct run_try *t)
{
	_cleanup_vec_ VEC(char *) list = { 0 };
	for (size_t i = 0; s->options->command[i]; i++)
		vec_push(&list, s->options->command[i]);
	struct str more = str_z(t->number > 1 && s->options->resume ? s->options->resume : "");
	for (struct str word = str_word(&more); word.n; word = str_word(&more))
		vec_push(&list, arena_z(s->arena, word));
	char **kept = arena_alloc(s->arena, (list.len + 1) * sizeof(*kept));
	memcpy(kept, list.data, list.len * sizeof(*kept));
	return kept;
}

struct uh_error *start_try(struct supervisor *s, struct job_try *a)
{
	char *const *command = command_line(s, a->told);
	if (a->told->level > 5)
		mkdir(arena_printf(s->arena, "%s/" JOB_INPUTS, a->directory).p, 0700);
	copy_begin(&a->copy, a->directory);
	s->helper.copier = a->copy.pid;
	if (a->copy.lacking && !s->options->quiet)
		loop_tell(s, S("The output of the job is not kept: no process could be put between the job and its reader. "
			       "Mostly too few files can be open at a time (ulimit -n)."));
	const int why = start_start_job(s, a, command);
	copy_started(&a->copy);
	if (!why)
		return NULL;
	s->missing = true;
	a->status = (why == ENOENT ? NOT_FOUND : NOT_EXECUTABLE) << 8;
	return uh_error_os(why, "%s", command[0]);
}
