// unhang capture: a bundle of evidence, now.
#include <getopt.h>
#include <signal.h>
#include <string.h>

#include "cmd/cmd.h"

enum { PIDS_MOST = 64, SECONDS_MOST = 3600 };

struct pids {
	long long list[PIDS_MOST];
	size_t n;
};
static bool take_pid(void *to, const char *text)
{
	struct pids *pids = to;
	int64_t pid;
	if (!str_number(str_z(text), &pid) || pid <= 0 || pids->n == PIDS_MOST)
		return reject("--pid needs the number of a process, and at most %d of them; not '%s'", PIDS_MOST, text);
	pids->list[pids->n++] = pid;
	return true;
}

/** As option_row.take. */
static bool take_output(void *to, const char *text)
{
	*(const char **)to = text;
	if (!*text)
		complain("-o needs the name of a file or a directory");
	else if (!strcmp(text, "-"))
		complain("-o - does not work: the evidence is saved step by step beside the file, so that nothing is lost if "
			 "the "
			 "machine dies. Name a file: -o FILE");
	return *text && strcmp(text, "-");
}

static bool signal_waits(void *ctx)
{
	const sigset_t *held = ctx;
	sigset_t waiting;
	sigpending(&waiting);
	for (int i = 1; i < NSIG; i++)
		if (sigismember(held, i) == 1 && sigismember(&waiting, i) == 1)
			return true;
	return false;
}

static const struct help_text capture_help = {
	.name = "capture",
	.usage = "unhang capture [OPTION...]",
	.about = "Saves all evidence of this machine in one file before it is lost: device cores of the driver, the kernel "
		 "log, what the GPUs say (registers, waves, rings, queues), the processes that hold a GPU, and the facts "
		 "that unhang doctor checks. To unhang, the file is a machine: later, on any machine, unhang explain FILE "
		 "says what it would have said here. So do unhang --target FILE, unhang waves|queues|rings|regs --target "
		 "FILE and unhang doctor --root FILE. Nothing is written to a GPU. Run it as root to save everything.",
	.status = "exit status: 0 the file was written, 2 it could not be written; the next capture packs what was saved",
};

int cmd_capture(int argc, char **argv)
{
	struct pids pids = { .n = 0 };
	struct uh_capture_options o = { .user_data = UH_USER_REGISTERS, .progress = show_look };
	const struct option_row rows[] = {
		{ 'o', "output", "FILE",
		  "the file to write, or a directory for it (default: unhang-HOST-TIME.tar.zst in the current directory)",
		  TO_FUNCTION(take_output, &o.file) },
		{ 0, "pid", "PID", "save this process too; may be repeated", TO_FUNCTION(take_pid, &pids) },
		{ 0, "redact", NULL,
		  "replace names of hosts, users and models, serial numbers, network addresses, home directories and secrets "
		  "with counters",
		  TO_FLAG(&o.redact) },
		{ 0, "bug-report", NULL,
		  "also write FILE.md, the text for a bug report; both keep only what is known to be needed",
		  TO_FLAG(&o.bug_report) },
		{ 0, "user-data", "WHAT", "what to save of programs' memory: none, registers (of waves; the default), or all",
		  TO_CHOICE(&o.user_data, "none registers all") },
		{ 0, "tools", NULL, "run py-spy for each process that holds a GPU, if it is installed", TO_FLAG(&o.tools) },
		{ 0, "deadline", "SECONDS", "the time for all of it (30)", TO_COUNT(&o.seconds, SECONDS_MOST) },
		{ 0, "release-devcoredump", NULL,
		  "free each device core once it is saved, so that the driver can make another; this writes to the driver",
		  TO_FLAG(&o.release_devcoredump) },
		{ 0, "attach-debugger", NULL,
		  "run rocgdb for each process, last of all. Attaching can take every queue off the GPU, also those of other "
		  "programs. If that fails, the driver resets the GPU. A debugger that is killed at its deadline leaves "
		  "breakpoints in the program",
		  TO_FLAG(&o.attach_debugger) },
		{ 0, "json", NULL, "for programs: the manifest of the file, docs/capture.schema.json", TO_FLAG(&o.json) },
	};
	options_parse(&capture_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!operands_end(argc, argv, 0, "-o FILE names the file to make"))
		return EXIT_CANNOT;
	sigset_t held;
	// Signals that end a capture. They wait until it has said what is left; those that are ignored stay so.
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction now;
	sigemptyset(&held);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		if (!sigaction(ending[i], NULL, &now) && now.sa_handler != SIG_IGN)
			sigaddset(&held, ending[i]);
	sigprocmask(SIG_BLOCK, &held, NULL);
	o.pids = pids.list;
	o.npids = pids.n;
	o.stopped = signal_waits;
	o.stopped_ctx = &held;
	const int status = done(uh_capture(&o, stdout, complain_line, NULL));
	fflush(stdout);
	sigprocmask(SIG_UNBLOCK, &held, NULL); // a signal that came ends unhang here, as its sender expects
	return status;
}
