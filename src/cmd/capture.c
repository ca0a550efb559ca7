// unhang capture: a bundle of evidence, now.
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmd/cmd.h"

enum { PIDS_MOST = 64, SECONDS_MOST = 3600 };

static void usage(void)
{
	puts("usage: unhang capture [OPTION...]\n"
	     "\n"
	     "Saves all evidence of this machine in one file before it is lost: device cores\n"
	     "of the driver, the kernel log, what the GPUs say (registers, waves, rings,\n"
	     "queues), the processes that hold a GPU, and the facts that unhang doctor checks.\n"
	     "To unhang, the file is a machine: later, on any machine, unhang explain FILE\n"
	     "says what it would have said here. So do unhang --target FILE, unhang\n"
	     "waves|queues|rings|regs --target FILE and unhang doctor --root FILE. Nothing is\n"
	     "written to a GPU. Run it as root to save everything.\n"
	     "\n"
	     "  -o, --output FILE      the file to write, or a directory for it (default:\n"
	     "                         unhang-HOST-TIME.tar.zst in the current directory)\n"
	     "  --pid PID              save this process too; may be repeated\n"
	     "  --redact               replace names of hosts, users and models, serial\n"
	     "                         numbers, network addresses, home directories and\n"
	     "                         secrets with counters\n"
	     "  --bug-report           also write FILE.md, the text for a bug report; both\n"
	     "                         keep only what is known to be needed\n"
	     "  --user-data WHAT       what to save of programs' memory: none, registers (of\n"
	     "                         waves; the default), or all\n"
	     "  --tools                run py-spy for each process that holds a GPU, if it is\n"
	     "                         installed\n"
	     "  --deadline SECONDS     the time for all of it (30)\n"
	     "  --release-devcoredump  free each device core once it is saved, so that the\n"
	     "                         driver can make another; this writes to the driver\n"
	     "  --attach-debugger      run rocgdb for each process, last of all. Attaching can\n"
	     "                         take every queue off the GPU, also those of other\n"
	     "                         programs. If that fails, the driver resets the GPU. A\n"
	     "                         debugger that is killed at its deadline leaves\n"
	     "                         breakpoints in the program\n"
	     "  --json                 for programs: the manifest of the file,\n"
	     "                         docs/capture.schema.json\n"
	     "  -h, --help             show this text\n"
	     "\n"
	     "exit status: 0 the file was written, 2 it could not be written; the next capture\n"
	     "packs what was saved");
}

static bool parse_pid(const char *text, long long *pids, size_t *n)
{
	int64_t pid;
	if (!str_number(str_z(text), &pid) || pid <= 0 || *n == PIDS_MOST) {
		complain("--pid needs the number of a process, and at most %d of them; not '%s'", PIDS_MOST, text);
		return false;
	}
	pids[(*n)++] = pid;
	return true;
}

static bool parse_output(const char *text, const char **ret)
{
	*ret = text;
	if (!*text)
		complain("-o needs the name of a file or a directory");
	else if (!strcmp(text, "-"))
		complain("-o - does not work: the evidence is saved step by step beside the file, so that nothing is lost if "
			 "the "
			 "machine dies. Name a file: -o FILE");
	return *text && strcmp(text, "-");
}

static bool parse_user_data(const char *text, enum uh_user_data *ret)
{
	if (uh_user_data_named(text, ret))
		return true;
	complain("--user-data needs none, registers or all; not '%s'", text);
	return false;
}

enum { OPTION_DEBUGGER = 256 };
static const struct option options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "pid", required_argument, NULL, 'p' },
	{ "redact", no_argument, NULL, 'r' },
	{ "bug-report", no_argument, NULL, 'b' },
	{ "user-data", required_argument, NULL, 'u' },
	{ "tools", no_argument, NULL, 't' },
	{ "deadline", required_argument, NULL, 'd' },
	{ "release-devcoredump", no_argument, NULL, 'R' },
	{ "attach-debugger", no_argument, NULL, OPTION_DEBUGGER },
	{ "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/** -1: go on; else the exit status. */
static int take_option(int option, struct uh_capture_options *o, long long *pids, char **argv)
{
	bool ok = true;
	switch (option) {
	case 'o':
		ok = parse_output(optarg, &o->file);
		break;
	case 'p':
		ok = parse_pid(optarg, pids, &o->npids);
		break;
	case 'r':
		o->redact = true;
		break;
	case 'b':
		o->bug_report = true;
		break;
	case 'u':
		ok = parse_user_data(optarg, &o->user_data);
		break;
	case 't':
		o->tools = true;
		break;
	case 'd':
		ok = parse_count("--deadline", optarg, SECONDS_MOST, &o->seconds);
		break;
	case 'R':
		o->release_devcoredump = true;
		break;
	case OPTION_DEBUGGER:
		o->attach_debugger = true;
		break;
	case 'J':
		o->json = true;
		break;
	case 'h':
		usage();
		return EXIT_NOTHING_WRONG;
	default:
		complain_option(argv, option, "capture");
		return EXIT_CANNOT;
	}
	return ok ? -1 : EXIT_CANNOT;
}

// --- Ctrl-C ---

/** Signals that end a capture. They wait until it has said what is left; those that are ignored stay so. */
static void hold_signals(sigset_t *held)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction now;
	sigemptyset(held);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		if (!sigaction(ending[i], NULL, &now) && now.sa_handler != SIG_IGN)
			sigaddset(held, ending[i]);
	sigprocmask(SIG_BLOCK, held, NULL);
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

int cmd_capture(int argc, char **argv)
{
	long long pids[PIDS_MOST];
	struct uh_capture_options o = { .pids = pids, .user_data = UH_USER_REGISTERS, .progress = show_look };
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
		int status = take_option(option, &o, pids, argv);
		if (status >= 0)
			return status;
	}
	if (optind < argc) {
		complain("what is '%s'? -o FILE names the file to make", argv[optind]);
		return EXIT_CANNOT;
	}
	sigset_t held;
	hold_signals(&held);
	o.stopped = signal_waits;
	o.stopped_ctx = &held;
	struct uh_error *err = uh_capture(&o, stdout, complain_line, NULL);
	int status = err ? cannot(err) : EXIT_NOTHING_WRONG;
	fflush(stdout);
	sigprocmask(SIG_UNBLOCK, &held, NULL); // a signal that came ends unhang here, as its sender expects
	return status;
}
