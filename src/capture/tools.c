// Programs of others that say more of a process, where they are installed and were asked for.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/child.h"
#include "capture/parts.h"
#include "gpu/find/device.h"

enum { ARGUMENTS_MOST = 24, PIDS_MOST = 64, TOOL_MS = 5000, DEBUGGER_MS = 20000, SAID_MOST = 4 << 20 };

/** A program and its arguments; %p stands for the process. */
struct tool {
	const char *name, *what;
	const char *arguments[ARGUMENTS_MOST];
	int milliseconds;
};

/** Without --nonblocking py-spy stops the program while it looks. */
static const struct tool py_spy = {
	"py-spy", "Python stacks of process", { "py-spy", "dump", "--nonblocking", "--pid", "%p" }, TOOL_MS
};
static const struct tool rocgdb = { "rocgdb",
				    "GPU and host stacks of process",
				    { "rocgdb", "-batch", "-nx", "-p", "%p", "-ex", "info agents", "-ex", "info queues", "-ex",
				      "info dispatches", "-ex", "info threads", "-ex", "thread apply all backtrace" },
				    DEBUGGER_MS };

struct tool_run {
	const struct tool *tool;
	int64_t pid;
};

static void become(const struct tool_run *r, int to)
{
	char pid[24];
	const char *arguments[ARGUMENTS_MOST + 1] = { 0 };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(pid, sizeof(pid), "%lld", (long long)r->pid);
	for (size_t i = 0; i < ARGUMENTS_MOST && r->tool->arguments[i]; i++)
		arguments[i] = strcmp(r->tool->arguments[i], "%p") ? r->tool->arguments[i] : pid;
	dup2(null, STDIN_FILENO);
	dup2(to, STDOUT_FILENO);
	dup2(to, STDERR_FILENO);
	close_from(STDERR_FILENO + 1);
	execvp(arguments[0], (char *const *)arguments);
	_exit(errno == ENOENT ? 127 : 126);
}

static void run_tool(struct step *s)
{
	const struct tool_run *r = s->ctx;
	struct item_file f;
	int status = 0;
	if (!item_create(s->capture, s->name, &f)) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		return;
	}
	pid_t child = fork();
	if (!child)
		become(r, f.fd);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	int code = child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	off_t size = lseek(f.fd, 0, SEEK_END);
	if (code == 127) {
		step_end(s, ITEM_ABSENT, "%s is not installed", r->tool->name);
		item_drop(s->capture, &f);
		return;
	}
	s->shared->result.bytes = size > 0 ? (uint64_t)size : 0;
	if (code)
		step_end(s, ITEM_CUT, "%s ended with status %d", r->tool->name, code);
	else
		step_end(s, ITEM_SAVED, "%s", "");
	if (!item_finish(s->capture, &f))
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
}

static void run_for_all(struct taking *c, const struct tool *tool)
{
	int64_t pids[PIDS_MOST];
	size_t n = capture_holders(c, NULL, pids, PIDS_MOST);
	for (size_t i = 0; i < n; i++) {
		struct tool_run *r = arena_alloc(c->arena, sizeof(*r));
		*r = (struct tool_run){ tool, pids[i] };
		const char *name = arena_printf(c->arena, BUNDLE_TOOLS "%s-%lld.txt", tool->name, (long long)pids[i]).p;
		const char *what = arena_printf(c->arena, "%s %lld", tool->what, (long long)pids[i]).p;
		step_run(c, &(struct step_plan){ name, what, run_tool, r, tool->milliseconds, false });
	}
	if (!n)
		step_note(c, BUNDLE_TOOLS, tool->name, ITEM_ABSENT, "no process holds a GPU");
}

void capture_tools(struct taking *c) { run_for_all(c, &py_spy); }
void capture_debugger(struct taking *c) { run_for_all(c, &rocgdb); }
