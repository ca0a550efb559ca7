// The processes that hold a GPU: who they are, and where their threads wait; and what programs of others say of them and of the machine.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/door/trust.h"
#include "capture/steps.h"
#include "gpu/find/device.h"

enum { PIDS_MOST = 256, THREADS_MOST = 256, ASK_MS = 700, PATIENCE_MS = 10000, SMALL = 16 << 10, LARGE = 4 << 20 };

/** A process may hold several GPUs, and may have been asked for, too. */
static void add_pid(int64_t *list, size_t *n, size_t most, int64_t pid)
{
	for (size_t i = 0; i < *n; i++)
		if (list[i] == pid)
			return;
	if (*n < most)
		list[(*n)++] = pid;
}

/** The processes that hold a GPU, and those that were asked for; how many. */
static size_t find_gpu_holders(const struct taking *c, struct tape *tape, int64_t *ret, size_t most)
{
	const struct capture_options *o = c->options;
	_cleanup_(devices_free) struct devices own = { 0 };
	const struct devices *d = tape && o->devices ? o->devices(tape, o->devices_ctx) : &own;
	size_t n = 0;
	if (d == &own)
		devices_find_at(o->know, (struct machine_at){ .tape = tape }, &own);
	for (size_t i = 0; i < d->n; i++)
		for (size_t h = 0; h < d->list[i].nholders; h++)
			add_pid(ret, &n, most, d->list[i].holders[h].pid);
	for (size_t i = 0; i < o->npids; i++)
		add_pid(ret, &n, most, o->pids[i]);
	return n;
}

// --- what the kernel says of them ---

/** Files of a process, and how much of each is read. */
static const struct {
	const char *name;
	size_t size;
} process_files[] = {
	{ "comm", SMALL },  { "cmdline", SMALL },   { "status", SMALL }, { "stat", SMALL },   { "wchan", SMALL },
	{ "stack", SMALL }, { "environ", 1 << 16 }, { "limits", SMALL }, { "cgroup", SMALL }, { "maps", LARGE },
};
static const char *const thread_files[] = { "comm", "stat", "wchan", "stack" };
enum { FILES = ARRAY_SIZE(process_files), OF_THREAD = ARRAY_SIZE(thread_files) };

struct process_look {
	const struct taking *capture;
	struct probe_patience patience;
	struct probe_count count;
	struct arena arena;
	struct text text; // for people
};

/** What did not answer is told as well: that a thread cannot be asked where it waits is itself a sign. */
static void show_file(struct process_look *l, const char *title, const struct probe *p)
{
	_cleanup_text_ struct text kept = { 0 };
	struct str data = { p->data, p->end == PROBE_GOOD ? p->n : 0 };
	if (str_ends(str_z(p->path), S("/environ"))) {
		filter_environment(l->capture->options->know, data, &kept);
		data = text_str(&kept);
	}
	if (data.n) {
		text_printf(&l->text, "--- %s\n", title);
		for (size_t i = 0; i < data.n; i++)
			text_add(&l->text, data.p[i] ? (struct str){ data.p + i, 1 } : S("\n"));
		if (data.p[data.n - 1] != '\n')
			text_add(&l->text, S("\n"));
	} else if (p->end != PROBE_GOOD) {
		text_printf(&l->text, "--- %s: %s\n", title, p->end == PROBE_FAILED ? strerror(p->error) : "it did not answer");
	}
}

/** All files of a process at once. One that blocks is left behind, and the others are still asked. */
static void ask_files(struct process_look *l, struct probe *probes, size_t n)
{
	struct probe_batch batch = { .probes = probes, .n = n, .goes_on = true };
	probe_run_all(&l->arena, &batch, 1, ASK_MS, &l->count);
}

/** A hang is often seen in one thread only: the one that waits in the kernel for the GPU. */
static void look_at_threads(struct process_look *l, int64_t pid)
{
	struct probe list = { .kind = PROBE_LIST,
			      .path = arena_printf(&l->arena, "/proc/%lld/task", (long long)pid).p,
			      .size = SMALL };
	ask_files(l, &list, 1);
	struct str names = probe_text(&list);
	for (size_t n = 0; names.n && n < THREADS_MOST; n++) {
		struct str thread = str_split(&names, '\n');
		struct probe p[OF_THREAD];
		for (size_t i = 0; i < OF_THREAD; i++)
			p[i] = (struct probe){ .path = arena_printf(&l->arena, "/proc/%lld/task/" STR_FMT "/%s", (long long)pid,
								    STR_ARG(thread), thread_files[i])
							       .p,
					       .size = SMALL };
		ask_files(l, p, OF_THREAD);
		for (size_t i = 0; i < OF_THREAD; i++)
			show_file(l, arena_printf(&l->arena, "thread " STR_FMT " %s", STR_ARG(thread), thread_files[i]).p,
				  &p[i]);
	}
}

/** The same files for each process, so that a reader of the text finds them at the same place. */
static void show_process(struct process_look *l, int64_t pid)
{
	struct probe p[FILES];
	text_printf(&l->text, "=== process %lld\n", (long long)pid);
	for (size_t i = 0; i < FILES; i++)
		p[i] = (struct probe){
			.path = arena_printf(&l->arena, "/proc/%lld/%s", (long long)pid, process_files[i].name).p,
			.size = process_files[i].size
		};
	ask_files(l, p, FILES);
	for (size_t i = 0; i < FILES; i++)
		show_file(l, process_files[i].name, &p[i]);
	look_at_threads(l, pid);
}

void capture_processes(struct step *s, struct tape *tape)
{
	int64_t pids[PIDS_MOST];
	struct process_look l = { .capture = s->capture, .patience = { PATIENCE_MS, tape } };
	l.count.patience = &l.patience;
	const size_t n = find_gpu_holders(s->capture, tape, pids, PIDS_MOST);
	for (size_t i = 0; i < n; i++)
		show_process(&l, pids[i]);
	step_end(s, n ? ITEM_SAVED : ITEM_ABSENT, "%s", n ? "" : "no process holds a GPU");
	if (n) { // to a file that was opened when there still were rights; it gets its name when this is over
		struct item_file f = *(const struct item_file *)s->ctx;
		s->shared->result.whole = f.fd >= 0 && item_write(&f, text_str(&l.text)) && item_close(&f);
		if (!s->shared->result.whole)
			step_end(s, ITEM_CUT, "%s", strerror(errno));
		s->shared->result.bytes += f.bytes;
	}
	text_free(&l.text);
	arena_free(&l.arena);
}

// --- what programs of others say ---

enum { ARGUMENTS_MOST = 24, PROGRAM_MS = 5000, DEBUGGER_MS = 20000, OUTPUT_MOST = 4 << 20, TOOL_PIDS_MOST = 64 };

struct program {
	const char *name;
	const char *arguments[ARGUMENTS_MOST]; // without its name; %p stands for the process
	const char *input;                     // a file of the partial directory: its standard input; NULL: none
	int64_t pid; // whose tool it is, which was asked for: it is found as the user's shell finds it; 0
};

/** The path of a program that nobody but root and who captures can have written; NULL: there is none. */
static const char *find_program(struct arena *a, const char *name)
{
	static const char *const places[] = { "/opt/rocm/bin", "/usr/bin", "/usr/sbin", "/usr/local/bin" };
	const char *path = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(places) && !path; i++)
		uh_error_free(trust_real_path(a, arena_printf(a, "%s/%s", places[i], name).p, &path));
	return path;
}

/** In the child. Nothing of ours is open in it. A program that nobody asked for has a clean environment, and cannot fill the disk. */
static void become_program(const struct program *p, const char *path, int dir, int to)
{
	static const char *const clean[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/nonexistent", NULL };
	const char *arguments[ARGUMENTS_MOST + 2] = { path };
	char pid[24];
	const int from =
		p->input ? openat(dir, p->input, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(pid, sizeof(pid), "%lld", (long long)p->pid);
	for (size_t i = 0; i < ARGUMENTS_MOST && p->arguments[i]; i++)
		arguments[i + 1] = strcmp(p->arguments[i], "%p") ? p->arguments[i] : pid;
	dup2(from, STDIN_FILENO);
	dup2(to, STDOUT_FILENO);
	dup2(to, STDERR_FILENO);
	close_from(STDERR_FILENO + 1);
	if (p->pid) {
		execvp(path, (char *const *)arguments);
	} else {
		setrlimit(RLIMIT_FSIZE, &(struct rlimit){ OUTPUT_MOST, OUTPUT_MOST });
		execve(path, (char *const *)arguments, (char *const *)clean);
	}
	_exit(errno == ENOENT ? 127 : 126);
}

/** Its output goes straight to the item, so that a program which is killed has said what it had said by then. */
static void run_program(struct step *s)
{
	const struct program *p = s->ctx;
	_cleanup_arena_ struct arena a = { 0 };
	struct item_file f = { .fd = -1 };
	struct stat st = { 0 };
	int status = 0;
	const char *path = p->pid ? p->name : find_program(&a, p->name);
	if (path && !item_create(s->capture, s->name, &f)) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		return;
	}
	const pid_t child = path ? fork() : -1;
	if (!child)
		become_program(p, path, s->capture->dir, f.fd);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	const int code = child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	if (!path || (p->pid && code == 127)) {
		step_end(s, ITEM_ABSENT, "%s is not installed", p->name);
		item_drop(s->capture, &f);
		return;
	}
	if (!fstat(f.fd, &st))
		s->shared->result.bytes = (uint64_t)st.st_size;
	if (!p->pid && (!tape_budget_take(s->capture->budget, (uint64_t)st.st_size) || !st.st_size)) {
		step_end(s, ITEM_FAILED, "%s said nothing", p->name);
		item_drop(s->capture, &f);
		return;
	}
	if (!code)
		step_end(s, ITEM_SAVED, "%s", "");
	else if (p->pid)
		step_end(s, ITEM_CUT, "%s ended with status %d", p->name, code);
	else
		step_end(s, ITEM_CUT, "%s ended with an error", p->name);
	if (!item_finish(s->capture, &f))
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
}

static void ask_program(struct taking *c, const char *name, const char *what, const struct program *p)
{
	step_run(c, &(struct step_plan){ name, what, run_program, p, CHILD_CAPTURE_WRITE, PROGRAM_MS });
}

/** A tool is asked about each process that holds a GPU. */
static void ask_about_all(struct taking *c, const struct program *tool, const char *what, int milliseconds)
{
	int64_t pids[TOOL_PIDS_MOST];
	size_t n = find_gpu_holders(c, NULL, pids, TOOL_PIDS_MOST);
	for (size_t i = 0; i < n; i++) {
		struct program *p = arena_alloc(c->arena, sizeof(*p));
		*p = *tool;
		p->pid = pids[i];
		const char *name = arena_printf(c->arena, BUNDLE_TOOLS "%s-%lld.txt", tool->name, (long long)pids[i]).p;
		step_run(c, &(struct step_plan){ name, arena_printf(c->arena, "%s %lld", what, (long long)pids[i]).p,
						 run_program, p, CHILD_CAPTURE_WRITE, milliseconds });
	}
	if (!n)
		step_note(c, BUNDLE_TOOLS, tool->name, ITEM_ABSENT, "no process holds a GPU");
}

/** Without --nonblocking py-spy stops the program while it looks. */
void capture_tools(struct taking *c)
{
	static const struct program py_spy = { "py-spy", { "dump", "--nonblocking", "--pid", "%p" } };
	if (c->options->tools)
		ask_about_all(c, &py_spy, "Python stacks of process", PROGRAM_MS);
}

void capture_debugger(struct taking *c)
{
	static const struct program rocgdb = { "rocgdb",
					       { "-batch", "-nx", "-p", "%p", "-ex", "info agents", "-ex", "info queues", "-ex",
						 "info dispatches", "-ex", "info threads", "-ex",
						 "thread apply all backtrace" } };
	if (c->options->debugger)
		ask_about_all(c, &rocgdb, "GPU and host stacks of process", DEBUGGER_MS);
}

/** Of the configuration that was saved: nothing is asked of the hardware. Its path could be another file's by now. */
static void decode_pci(struct taking *c)
{
	struct stat st;
	const char *what = "PCI devices (lspci -vvv)";
	static const struct program lspci = { "lspci", { "-vvv", "-F", "/proc/self/fd/0" }, PCI_CONFIG };
	if (fstatat(c->dir, PCI_CONFIG, &st, AT_SYMLINK_NOFOLLOW))
		step_note(c, BUNDLE_MORE "lspci.txt", what, ITEM_ABSENT, "the configuration could not be saved");
	else
		ask_program(c, BUNDLE_MORE "lspci.txt", what, &lspci);
}

enum { PROCESSES_MOST = 4 << 20, CONTAINERS_MOST = 8, ID = 64 };

/** The id of the container in a control group's path: 64 hexadecimal digits. Empty: it is in none. */
static struct str container_of(struct str cgroup)
{
	size_t digits = 0;
	for (size_t i = 0; i < cgroup.n; i++) {
		digits = char_hex(cgroup.p[i]) ? digits + 1 : 0;
		if (digits == ID && (i + 1 == cgroup.n || !char_hex(cgroup.p[i + 1])))
			return (struct str){ cgroup.p + i + 1 - ID, ID };
	}
	return (struct str){ 0 };
}

/** Of a container that has a process which holds a GPU, or that was asked for. Its variables, command and labels are the users'. */
static void ask_container(struct taking *c, const char *client, struct str id)
{
	static const char form[] =
		"{\"Id\":{{json .Id}},\"Image\":{{json .Image}},\"Created\":{{json .Created}},\"State\":{{json .State}},"
		"\"RestartCount\":{{json .RestartCount}},\"Memory\":{{json .HostConfig.Memory}},"
		"\"ShmSize\":{{json .HostConfig.ShmSize}},\"Privileged\":{{json .HostConfig.Privileged}},"
		"\"IpcMode\":{{json .HostConfig.IpcMode}},\"PidMode\":{{json .HostConfig.PidMode}},"
		"\"Devices\":{{json .HostConfig.Devices}},\"SecurityOpt\":{{json .HostConfig.SecurityOpt}}}";
	struct program *p = arena_alloc(c->arena, sizeof(*p));
	*p = (struct program){ client, { "inspect", "--format", form, arena_z(c->arena, id) } };
	const char *name = arena_printf(c->arena, BUNDLE_MORE "container-%.12s.json", arena_z(c->arena, id)).p;
	ask_program(c, name, arena_printf(c->arena, "the container %.12s", arena_z(c->arena, id)).p, p);
}

/** Containers of the processes that were saved; a line for each. */
static void find_containers(const struct taking *c, struct text *ret)
{
	_cleanup_text_ struct text all = { 0 };
	bool cgroup = false;
	_cleanup_close_ int fd = openat(c->dir, LOOKS_TEXT, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const ssize_t n = fd < 0 ? -1 : read(fd, text_room(&all, PROCESSES_MOST), PROCESSES_MOST);
	struct str rest = { all.p, n > 0 ? (size_t)n : 0 };
	while (rest.n) {
		const struct str line = str_split(&rest, '\n'), id = cgroup ? container_of(line) : (struct str){ 0 };
		if (str_starts(line, S("--- ")))
			cgroup = str_is(line, "--- cgroup");
		if (id.n && str_find(text_str(ret), id) < 0)
			text_printf(ret, STR_FMT "\n", STR_ARG(id));
	}
}

/** Which container a process is in is told by its control group; what the container is only its runtime knows. */
static void ask_containers(struct taking *c)
{
	_cleanup_text_ struct text ids = { 0 };
	const char *client = find_program(c->arena, "docker") ? "docker" : find_program(c->arena, "podman") ? "podman" : NULL;
	find_containers(c, &ids);
	struct str rest = text_str(&ids);
	if (!rest.n || !client)
		step_note(c, BUNDLE_MORE "container-", "containers", ITEM_ABSENT,
			  rest.n ? "neither docker nor podman is installed; processes.txt has the control groups" :
				   "no process that holds a GPU is in one");
	for (size_t i = 0; i < CONTAINERS_MOST && rest.n && client; i++)
		ask_container(c, client, str_split(&rest, '\n'));
}

/** Both open the GPUs, which wakes them up and may never return where one hangs. */
static void ask_rocm(struct taking *c)
{
	static const struct program rocminfo = { "rocminfo", { NULL } }, amd_smi = { "amd-smi", { "static" } };
	static const struct {
		const char *member, *what;
		const struct program *program;
	} all[] = { { BUNDLE_MORE "rocminfo.txt", "what ROCm's runtime sees (rocminfo)", &rocminfo },
		    { BUNDLE_MORE "amd-smi.txt", "what amd-smi sees (amd-smi static)", &amd_smi } };
	struct probe_stuck stuck;
	const struct capture_options *o = c->options;
	const bool calm = o->calm && o->calm(o->devices_ctx) && !tape_dead_at(c->dead, 0, &stuck);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (calm)
			ask_program(c, all[i].member, all[i].what, all[i].program);
		else
			step_note(c, all[i].member, all[i].what, ITEM_ABSENT,
				  "it was not run: it opens every GPU, and not every one is known to be well and awake");
	}
}

void capture_programs(struct taking *c)
{
	decode_pci(c);
	ask_containers(c);
	ask_rocm(c);
}
