// Starts the job as if we were not there: the same descriptors, the same signals, the same process group.
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "job/parts.h"

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
__attribute__((noreturn)) static void become(const struct start *s, pid_t parent, int error)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); // a job that nobody watches would hold the GPU
	if (getppid() != parent)
		_exit(126);
	limit_cores(s->core_most, s->raise);
	copy_become(s->copy);
	signals_give_back(s->signals);
	execvpe(s->command[0], s->command, s->environment);
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

pid_t start_job(const struct start *s)
{
	int ends[2], why = 0;
	const pid_t parent = getpid();
	if (pipe2(ends, O_CLOEXEC))
		return -1;
	const pid_t pid = fork_into(s->group);
	if (!pid)
		become(s, parent, ends[1]);
	const int failed = errno;
	close(ends[1]);
	// Closed by the exec, or filled with the reason why there was none.
	while (pid > 0 && read(ends[0], &why, sizeof(why)) < 0 && errno == EINTR)
		;
	close(ends[0]);
	if (pid > 0 && why)
		waitpid(pid, NULL, 0);
	errno = pid < 0 ? failed : why;
	return why ? -1 : pid;
}

// --- the environment ---

struct variables {
	struct arena *arena;
	VEC(char *) list;
};

static void set(struct variables *v, struct str line)
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

static const char *get(const struct variables *v, const char *name)
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
		set(v, str_split(&lines, '\n'));
}

/** The tools that the user's environment names stay, before ours. */
static void add_tool(struct variables *v, const char *library)
{
	const char *others = get(v, "HSA_TOOLS_LIB");
	const bool there = others && strstr(others, library);
	if (!there)
		set(v, arena_printf(v->arena, "HSA_TOOLS_LIB=%s%s%s", others && *others ? others : "",
				    others && *others ? " " : "", library));
}

/** Whoever set one of these himself wants it so. */
static void set_default(struct variables *v, const char *name, struct str value)
{
	if (!get(v, name) && value.n)
		set(v, arena_printf(v->arena, "%s=" STR_FMT, name, STR_ARG(value)));
}

/** Python then names PyTorch's operators to the recorder; a sitecustomize that this one hides runs as well. */
static void set_python(struct variables *v, const char *directory)
{
	const char *own = get(v, "PYTHONPATH"), *torch = get(v, "UNHANG_TORCH");
	if (directory && !(torch && !strcmp(torch, "off")))
		set(v, arena_printf(v->arena, "PYTHONPATH=%s%s%s", directory, own && *own ? ":" : "", own ? own : ""));
}

static void set_recorder(struct variables *v, const struct start_settings *s)
{
	add_tool(v, s->options->recorder);
	set(v, arena_printf(v->arena, "UNHANG_LEVEL=%lld", (long long)s->of->level));
	set(v, arena_printf(v->arena, "UNHANG_MAX_LEVEL=%lld", (long long)(s->of->level > 3 ? s->of->level : 3)));
	set(v, arena_printf(v->arena, "UNHANG_RECORDING=%s/%%h.%%p.recording", s->recordings));
	set(v, arena_printf(v->arena, "UNHANG_DUMPS=%s/%%p", s->dumps));
	set(v, arena_printf(v->arena, "UNHANG_SUPERVISOR=%d", (int)getpid()));
	set_default(v, "UNHANG_KEEP", S("1000"));
	set_python(v, s->options->python);
	if (s->of->filter.n)
		set(v, arena_printf(v->arena, "UNHANG_INCLUDE=" STR_FMT, STR_ARG(s->of->filter)));
}

char *const *start_environment(struct arena *a, const struct start_settings *s)
{
	struct variables v = { .arena = a };
	for (char **e = environ; *e; e++)
		vec_push(&v.list, *e);
	set_lines(&v, s->profile);
	for (size_t i = 0; i < s->options->nenv; i++)
		set(&v, str_z(s->options->env[i]));
	set_lines(&v, s->on_repeat);
	set(&v, arena_printf(a, "UNHANG_RUN=%s", s->run_id));
	if (s->options->recorder && s->of->level)
		set_recorder(&v, s);
	if (s->agent && s->options->agent) {
		add_tool(&v, s->options->agent);
		set_default(&v, "ROCM_DEBUG_AGENT_OPTIONS", arena_printf(a, "--output=%s/" JOB_AGENT_FILE, s->directory));
	}
	if (s->options->cores == CORES_KEEP && s->cores)
		set_default(&v, "UNHANG_CORE", arena_printf(a, "%s/" JOB_CORE "%%p.light", s->directory));
	if (s->cores)
		set_default(&v, "HSA_COREDUMP_PATTERN", arena_printf(a, "%s/" JOB_CORE "%%p", s->directory));
	else
		set_default(&v, "UNHANG_CORE_BYTES", S("0"));
	char **list = arena_alloc(a, (v.list.len + 1) * sizeof(*list));
	memcpy(list, v.list.data, v.list.len * sizeof(*list));
	vec_free(&v.list);
	return list;
}
