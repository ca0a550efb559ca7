// What an expert asks for next, as programs of others tell it. Only such are run that nobody but root and who
// captures can have written.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/door/trust.h"
#include "capture/expert/expert.h"

enum { ARGUMENTS_MOST = 8, STEP_MS = 5000, PROCESSES_MOST = 4 << 20, CONTAINERS_MOST = 8, ID = 64, OUTPUT_MOST = 4 << 20 };

struct program {
	const char *name;
	const char *arguments[ARGUMENTS_MOST]; // without its name
	const char *input;                     // a file of the partial directory: its standard input; NULL: none
};

/** Its path; NULL: there is none that is believed. */
static const char *find(struct arena *a, const char *name)
{
	static const char *const places[] = { "/opt/rocm/bin", "/usr/bin", "/usr/sbin", "/usr/local/bin" };
	const char *path = NULL;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !path; i++)
		uh_error_free(trust_real_path(a, arena_printf(a, "%s/%s", places[i], name).p, &path));
	return path;
}

static void become(const struct program *p, const char *path, int dir, int to)
{
	static const char *const environment[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/nonexistent", NULL };
	const char *arguments[ARGUMENTS_MOST + 2] = { path };
	const int from = p->input ? openat(dir, p->input, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ OUTPUT_MOST, OUTPUT_MOST });
	for (size_t i = 0; i < ARGUMENTS_MOST && p->arguments[i]; i++)
		arguments[i + 1] = p->arguments[i];
	dup2(from, STDIN_FILENO);
	dup2(to, STDOUT_FILENO);
	dup2(to, STDERR_FILENO);
	close_from(STDERR_FILENO + 1);
	execve(path, (char *const *)arguments, (char *const *)environment);
	_exit(126);
}

static void run(struct step *s)
{
	const struct program *p = s->ctx;
	struct arena a = { 0 };
	struct item_file f = { .fd = -1 };
	struct stat st = { 0 };
	int status = 0;
	const char *path = find(&a, p->name);
	if (!path) {
		step_end(s, ITEM_ABSENT, "%s is not installed", p->name);
	} else if (!item_create(s->capture, s->name, &f)) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
	} else {
		const pid_t child = fork();
		if (!child)
			become(p, path, s->capture->dir, f.fd);
		while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		const bool good = !fstat(f.fd, &st) && child > 0 && WIFEXITED(status) && !WEXITSTATUS(status);
		f.bytes = (uint64_t)st.st_size;
		s->shared->result.bytes = f.bytes;
		if (!tape_budget_take(s->capture->budget, f.bytes) || !st.st_size) {
			step_end(s, ITEM_FAILED, "%s said nothing", p->name);
			item_drop(s->capture, &f);
		} else {
			step_end(s, good ? ITEM_SAVED : ITEM_CUT, "%s%s", good ? "" : p->name,
				 good ? "" : " ended with an error");
			if (!item_finish(s->capture, &f))
				step_end(s, ITEM_FAILED, "%s", strerror(errno));
		}
	}
	arena_free(&a);
}

static void ask(struct taking *c, const char *name, const char *what, const struct program *p)
{
	step_run(c, &(struct step_plan){ name, what, run, p, STEP_MS, false });
}

/** Of the configuration that was saved: nothing is asked of the hardware. Its path could be another file's by now. */
static void decode_pci(struct taking *c)
{
	struct stat st;
	const char *what = "PCI devices (lspci -vvv)";
	struct program *p = arena_alloc(c->arena, sizeof(*p));
	*p = (struct program){ "lspci", { "-vvv", "-F", "/proc/self/fd/0" }, EXPERT_PCI };
	if (fstatat(c->dir, EXPERT_PCI, &st, AT_SYMLINK_NOFOLLOW))
		step_note(c, BUNDLE_MORE "lspci.txt", what, ITEM_ABSENT, "the configuration could not be saved");
	else
		ask(c, BUNDLE_MORE "lspci.txt", what, p);
}

// --- containers ---

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
	ask(c, name, arena_printf(c->arena, "the container %.12s", arena_z(c->arena, id)).p, p);
}

/** Containers of the processes that were saved; a line for each. */
static void find_containers(const struct taking *c, struct text *ret)
{
	struct text all = { 0 };
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
	text_free(&all);
}

static void ask_containers(struct taking *c)
{
	struct text ids = { 0 };
	const char *client = find(c->arena, "docker") ? "docker" : find(c->arena, "podman") ? "podman" : NULL;
	find_containers(c, &ids);
	struct str rest = text_str(&ids);
	if (!rest.n || !client)
		step_note(c, BUNDLE_MORE "container-", "containers", ITEM_ABSENT,
			  rest.n ? "neither docker nor podman is installed; processes.txt has the control groups" :
				   "no process that holds a GPU is in one");
	for (size_t i = 0; i < CONTAINERS_MOST && rest.n && client; i++)
		ask_container(c, client, str_split(&rest, '\n'));
	text_free(&ids);
}

// --- ROCm ---

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
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (calm)
			ask(c, all[i].member, all[i].what, all[i].program);
		else
			step_note(c, all[i].member, all[i].what, ITEM_ABSENT,
				  "it was not run: it opens every GPU, and not every one is known to be well and awake");
	}
}

void capture_expert_programs(struct taking *c)
{
	decode_pci(c);
	ask_containers(c);
	ask_rocm(c);
}
