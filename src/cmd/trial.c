// unhang try: what is behind a job that fails. unhang bisect: which two launches of it race. unhang repro: a failing launch as a program of its
// own.
#include <getopt.h>
#include <limits.h>
#include <unistd.h>

#include "base/arena.h"
#include "cmd/tell.h"

enum { TRIAL_JOBS_MOST = 16, TRIAL_SECONDS_MOST = 10000000, TRIAL_ENV_MOST = 64 };

static const struct help_text bisect_help = {
	.name = "bisect",
	.usage = "unhang bisect [OPTION...] -- COMMAND...",
	.about = "Finds out which two launches of a job race, by running it again and again: with launches that wait for each "
		 "other, and with launches that begin later. The job needs no change. It must fail now and then by itself, and "
		 "end. unhang names a pair only if the job fails more often with the window between the two made wider, and no "
		 "more with the two in order. docs/BISECT.md has an example. Stopped, it tells what is known so far; the same "
		 "command goes on from there.",
	.status = "exit status: 0 there is an answer, 1 it is unresolved or not finished, 2 it could not be done",
	.operands = "COMMAND",
	.stops = true,
};

/** What bisect and try have in common: how a run is made and judged, and where it is told. */
#define TRIAL_ROWS(o, env, quiet, kind)                                                                                                          \
	{ 0, "fails-if", "WHAT",                                                                                                                  \
	  "when a run counts as failed: status (not 0; the default, with hang), status=N, hang, output=TEXT, nan=FILE "                           \
	  "(a .npy file or a text that it writes); several with ' or ' between them",                                                            \
	  TO_TEXT(&(o).fails_if) },                                                                                                               \
	{ 0, "hang-after", "SECONDS", "end a run that takes longer; it has hung (600)",                                                           \
	  TO_COUNT(&(o).hang_after, TRIAL_SECONDS_MOST) },                                                                                        \
	{ 0, "budget", "SECONDS", "stop after this many seconds, and tell what is known",                                                         \
	  TO_COUNT(&(o).budget, TRIAL_SECONDS_MOST) },                                                                                            \
	{ 0, "jobs", "N", "make N runs at a time, each on a GPU of its own (1)", TO_COUNT(&(o).jobs, TRIAL_JOBS_MOST) },                          \
	{ 0, "low-rate", "PERCENT", "look for failures down to this rate (5)", TO_COUNT(&(o).low_rate, 99) },                                     \
	{ 0, "env", "NAME=VALUE", "set a variable for the job; may be repeated", TO_LIST(env, &(o).nenv, TRIAL_ENV_MOST) },                       \
	{ 0, "fresh", NULL, "start again from the first run, even if an earlier trial was stopped", TO_FLAG(&(o).fresh) },                        \
	{ 0, "state-dir", "DIR",                                                                                                                  \
	  "where runs are noted (/var/lib/unhang/" kind " for root, else ~/.local/state/unhang/" kind ")",                                        \
	  TO_TEXT(&(o).state_dir) },                                                                                                              \
	{ 0, "html", "FILE", "write the answer to FILE as well, with the rates as a plot", TO_TEXT(&(o).html) },                                  \
	{ 0, "quiet", NULL, "say nothing while it runs", TO_FLAG(&(quiet)) }, JSON_ROW(&(o).json, kind)

static bool trial_right(struct uh_trial_options *o, const struct output_kind *page)
{
	for (size_t i = 0; i < o->nenv; i++)
		if (!strchr(o->env[i], '=') || o->env[i][0] == '=')
			return reject("--env %s: not NAME=VALUE", o->env[i]);
	o->width = stream_width(STDOUT_FILENO);
	return !o->html || output_allowed(page, o->html, o->command, 0);
}

static int trial_status(enum uh_trial_end end)
{
	return end == UH_TRIAL_ANSWERED ? EXIT_NOTHING_WRONG : end == UH_TRIAL_OPEN ? EXIT_INCIDENT : EXIT_CANNOT;
}

int cmd_bisect(int argc, char **argv)
{
	char recorder[PATH_MAX];
	const char *env[TRIAL_ENV_MOST];
	struct uh_bisect_options o = { .job.env = env };
	bool quiet = false;
	enum uh_trial_end end = UH_TRIAL_OPEN;
	const struct option_row rows[] = {
		{ 0, "repro", "SECONDS", "end each run after this many seconds; without a failure by then it has passed",
		  TO_COUNT(&o.repro, TRIAL_SECONDS_MOST) },
		TRIAL_ROWS(o.job, env, quiet, "bisect"),
	};
	options_parse(&bisect_help, ROWS(rows), NO_ROWS, argc, argv);
	o.job.command = argv + optind;
	if (!o.job.command[0])
		return refuse("bisect needs a command: unhang bisect [OPTION...] -- COMMAND");
	static const struct output_kind page = { "--html", "<!DOCTYPE html>", "unhang bisect" };
	if (!trial_right(&o.job, &page))
		return EXIT_CANNOT;
	o.job.recorder = find_recorder(recorder);
	struct uh_error *err = uh_bisect(&o, stdout, quiet ? NULL : stderr, complain_line, NULL, &end);
	return err ? cannot(err) : trial_status(end);
}

static const struct help_text try_help = {
	.name = "try",
	.usage = "unhang try [OPTION...] [EXPERIMENT...] -- COMMAND...",
	.about = "Finds out why a job fails, by running it again and again: as it is, and with one thing "
		 "changed. The most telling experiment comes first; unhang says what each outcome makes of each explanation, and "
		 "which remedy follows. With names, only these experiments are made:\n"
		 "    unhang try -- python train.py --steps 3\n"
		 "    unhang try guard -- ./job\n"
		 "unhang knowledge list experiment lists them. docs/TRY.md has an example. Stopped, it tells what is known so far; "
		 "the same command goes on from there.",
	.status = "exit status: 0 there is an answer, 1 it is undecided or not finished, 2 it could not be done",
	.operands = "launch-blocking serialize-kernels serialize-copies one-queue fixed-queues no-sdma xnack graphs-off another-gpu "
		    "switches all-switches guard pool",
	.stops = true,
};

/** The words before `--` are experiments. false: there is no `--`, or no command behind it. */
static bool try_operands(int argc, char **argv, struct uh_try_options *o)
{
	int at = optind;
	const bool begun = !strcmp(argv[optind - 1], "--");
	while (!begun && at < argc && strcmp(argv[at], "--"))
		at++;
	o->names = (const char *const *)argv + optind;
	o->nnames = (size_t)(at - optind);
	o->job.command = argv + at + (!begun && at < argc);
	return at < argc && o->job.command[0];
}

int cmd_try(int argc, char **argv)
{
	char recorder[PATH_MAX], program[PATH_MAX];
	_cleanup_free_ char *allocator = mem_alloc(PATH_MAX);
	const char *env[TRIAL_ENV_MOST];
	struct uh_try_options o = { .job.env = env };
	bool quiet = false;
	enum uh_trial_end end = UH_TRIAL_OPEN;
	const struct option_row rows[] = {
		{ 0, "guard-align", "N", "with guard: allocations begin at multiples of N bytes (256)",
		  TO_FUNCTION(take_guard_align, &o.guard_align) },
		{ 0, "unrecorded", NULL, "go on where nothing of the job is recorded on a GPU, as in a container",
		  TO_FLAG(&o.unrecorded) },
		TRIAL_ROWS(o.job, env, quiet, "try"),
	};
	options_parse(&try_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!try_operands(argc, argv, &o))
		return refuse("try needs a command: unhang try [OPTION...] [EXPERIMENT...] -- COMMAND");
	for (size_t i = 0; i < o.nnames; i++)
		if (o.names[i][0] == '-')
			return refuse("%s stands behind an experiment; options go first: unhang try [OPTION...] [EXPERIMENT...] -- COMMAND",
				      o.names[i]);
	const ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	program[n > 0 ? n : 0] = 0;
	o.program = program;
	static const struct output_kind page = { "--html", "<!DOCTYPE html>", "unhang try" };
	if (!trial_right(&o.job, &page))
		return EXIT_CANNOT;
	o.job.recorder = find_recorder(recorder);
	o.allocator = find_allocator(allocator);
	struct uh_error *err = uh_try(&o, stdout, quiet ? NULL : stderr, complain_line, NULL, &end);
	return err ? cannot(err) : trial_status(end);
}

enum { BEFORE_MOST = 1024, RUNS_MOST = 1000, SECONDS_MOST = 86400, BEFORE = 8, RUNS = 24, SECONDS = 30 };

static const struct help_text repro_help = {
	.name = "repro",
	.usage = "unhang repro [OPTION...] RUN|BUNDLE|RECORDING|CORE -o DIR",
	.about = "Turns the failing GPU launch into a standalone program: its code, arguments and buffers, the launches before "
		 "it that used the same "
		 "buffers, a Makefile, and a README that says what it must show. What buffers held is only in it "
		 "with --user-data, and only if the job ran at level 10:\n"
		 "    unhang run --level 10 --allow-inputs -- python train.py\n"
		 "    unhang repro RUN -o repro --user-data --shrink",
	.status = "exit status: 0 the program was made (and failed in the same way, if it was run), 1 it was run and did "
		  "not fail in the same way, "
		  "2 it could not be made",
	.operands = "FILE",
};

static void show_run(const char *line) { fprintf(stderr, "unhang: %s\n", line); }

int cmd_repro(int argc, char **argv)
{
	const char *code[CODE_MOST];
	char recorder[PATH_MAX];
	bool alike = false;
	struct uh_repro_options o = { .code = code, .before = BEFORE, .runs = RUNS, .seconds = SECONDS };
	const struct option_row rows[] = {
		{ 'o', "output", "DIR", "where to write the program: a new directory, or an empty one", TO_TEXT(&o.directory) },
		{ 0, "user-data", NULL, "save what the buffers held, too: the job's data", TO_FLAG(&o.user_data) },
		{ 0, "redact", NULL, "leave out the names of the program, its machine and its paths", TO_FLAG(&o.redact) },
		{ 0, "check", NULL, "build it, run it, and say whether it fails in the same way", TO_FLAG(&o.check) },
		{ 0, "shrink", NULL, "also make it smaller, as long as it fails in the same way", TO_FLAG(&o.shrink) },
		{ 0, "runs", "N", "run it at most N times (24)", TO_COUNT(&o.runs, RUNS_MOST) },
		{ 0, "seconds", "N", "end a run after N seconds (30)", TO_COUNT(&o.seconds, SECONDS_MOST) },
		{ 0, "before", "N", "take at most N earlier launches (8)", TO_COUNT(&o.before, BEFORE_MOST) },
		{ 0, "inputs", "DIR", "the inputs that level 10 saved, if they were moved", TO_TEXT(&o.inputs) },
		{ 0, "code", "FILE", "code objects, or files and directories that have them; may be repeated",
		  TO_LIST(code, &o.ncode, CODE_MOST) },
		JSON_ROW(&o.json, "repro"),
	};
	options_parse(&repro_help, ROWS(rows), NO_ROWS, argc, argv);
	if (argc - optind != 1)
		return refuse("unhang repro needs one RUN, BUNDLE, RECORDING or CORE; see unhang repro --help");
	if (!o.directory)
		return refuse("unhang repro needs -o DIR, where the program goes");
	o.target = argv[optind];
	o.recorder = find_recorder(recorder);
	o.tell = isatty(STDERR_FILENO) ? show_run : NULL;
	struct uh_error *err = uh_repro(&o, stdout, complain_line, NULL, &alike);
	return err ? cannot(err) : alike ? EXIT_NOTHING_WRONG : EXIT_INCIDENT;
}
