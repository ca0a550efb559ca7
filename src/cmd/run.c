// unhang run: a job, and what is done around it. unhang last, unhang level: what a job's flight recorder saw, and how much it records.
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cmd/tell.h"

#define RECORDER "libunhang-recorder.so"
#define ALLOCATOR "libunhang-guard.so"
#define LEVELS "0 1 3 5 10"
enum {
	LIST_MOST = 64,
	RESTARTS_MOST = 1000,
	SECONDS_MOST = 10000000,
	LEVEL_USUAL_MOST = 5,
	LEVEL_MOST = 10,
	PACKETS = 16,
	PACKETS_MOST = 1 << 20
};

/** A list of settings, NAME=VALUE, with names that variables can have. */
struct setting_list {
	const char *option;
	const char *list[LIST_MOST];
	size_t n;
};
static bool take_job_setting(void *to, const char *text)
{
	struct setting_list *s = to;
	const size_t n = strcspn(text, "=");
	bool good = n && text[n] && !char_digit(text[0]);
	for (size_t i = 0; good && i < n; i++)
		good = char_word(text[i]);
	if (good)
		return add_path(s->list, &s->n, LIST_MOST, s->option, text);
	return reject("%s %s: not NAME=VALUE", s->option, text);
}

/** As option_row.take: one of LEVELS. */
static bool take_level(void *to, const char *text)
{
	static const int levels[] = { 0, 1, 3, 5, 10 };
	char *end;
	const long level = strtol(text, &end, 10);
	for (size_t i = 0; *text && !*end && i < ARRAY_SIZE(levels); i++)
		if (levels[i] == level) {
			*(int *)to = levels[i];
			return true;
		}
	return reject("--level %s: levels are 0, 1, 3, 5 and 10", text);
}

/** As option_row.take: it may be 0, which is not the usual delay. */
static bool take_delay(void *to, const char *text)
{
	struct uh_run_options *o = to;
	int64_t n;
	if (!str_number(str_z(text), &n) || n < 0 || n > SECONDS_MOST)
		return reject("--delay needs a number from 0 to %d, not '%s'", SECONDS_MOST, text);
	o->delay_given = true;
	o->delay = (unsigned)n;
	return true;
}

/** A file beside the program, or below a directory above that. false: there is none. */
static bool near_program(char room[static PATH_MAX], int above, const char *file)
{
	const ssize_t n = readlink("/proc/self/exe", room, PATH_MAX - 1);
	room[n > 0 ? n : 0] = 0;
	for (int i = 0; i <= above; i++) {
		char *slash = strrchr(room, '/');
		if (!slash)
			return false;
		*slash = 0;
	}
	const size_t length = strlen(room);
	return snprintf(room + length, PATH_MAX - length, "/%s", file) < (int)(PATH_MAX - length) && !access(room, R_OK);
}

/** A library of ours lies beside the program, or where libraries are installed, also if the whole tree was moved: PREFIX/bin/unhang. RPM
 * packages have a program that was built elsewhere, and their libraries in lib64. */
static const char *find_library(char room[static PATH_MAX], const char *name)
{
	static const char *const above[] = { UNHANG_LIBDIR_BELOW, "lib64" };
	char below[128];
	if (near_program(room, 0, name))
		return room;
	for (size_t i = 0; i < ARRAY_SIZE(above); i++)
		if (snprintf(below, sizeof(below), "%s/%s", above[i], name) < (int)sizeof(below) && near_program(room, 1, below))
			return room;
	snprintf(room, PATH_MAX, "%s/%s", UNHANG_LIBDIR, name);
	return access(room, R_OK) ? NULL : room;
}

const char *find_recorder(char room[static PATH_MAX]) { return find_library(room, RECORDER); }
const char *find_allocator(char room[static PATH_MAX]) { return find_library(room, ALLOCATOR); }

/** Whether these are the words that UNHANG_GUARD has. */
static bool guard_words(struct str words)
{
	int64_t n;
	struct str rest;
	while (words.n) {
		const struct str word = str_split(&words, ',');
		const bool sample = str_behind(word, S("sample:"), &rest);
		if (!str_is(word, "above") && !str_is(word, "below") &&
		    !(sample && str_number(rest, &n) && n > 0 && n <= INT32_MAX) &&
		    !(str_behind(word, S("match:"), &rest) && rest.n && rest.n < 128))
			return false;
	}
	return true;
}

/** As option_row.take. */
static bool take_guard(void *to, const char *text)
{
	struct uh_run_options *o = to;
	o->guard = text && *text ? text : "above";
	return guard_words(str_z(o->guard)) ||
	       reject("--guard=%s: it is none of above, below, sample:N and match:GLOB", text);
}

/** Tells why the job was not started; of a command that is none, whether it would be what --guard takes behind a =. */
static int run_cannot(const struct uh_run_options *o, struct uh_error *err, int status)
{
	enum { NOT_FOUND = 127 };
	if (status != NOT_FOUND || !o->guard || !guard_words(str_z(o->command[0])))
		return cannot(err);
	complain("%s (did you mean --guard=%s?)", uh_error_message(err), o->command[0]);
	uh_error_free(err);
	return EXIT_CANNOT;
}

bool take_guard_align(void *to, const char *text)
{
	int64_t n;
	if (!str_number(str_z(text), &n) || n < 1 || n > 4096 || (n & (n - 1)))
		return reject("--guard-align %s: not a power of two from 1 to 4096", text);
	*(unsigned *)to = (unsigned)n;
	return true;
}

/** What options say of the allocator together. */
static bool allocator_right(const struct uh_run_options *o)
{
	if (o->guard && o->pool)
		return reject("--guard and --pool exclude each other: one keeps allocations apart, the other puts them together");
	if (o->guard_align && !o->guard)
		return reject("--guard-align needs --guard");
	if ((o->guard || o->pool) && !o->allocator)
		return reject(ALLOCATOR " is not installed: there is no guard and no pool");
	return true;
}

/** What Python imports by itself, where unhang is installed. */
static const char *find_python(char room[static PATH_MAX])
{
	if (!near_program(room, 1, "share/unhang/python/sitecustomize.py"))
		return NULL;
	*strrchr(room, '/') = 0;
	return room;
}

/** ROCm's debug agent, where it is installed. */
static const char *find_agent(char room[static PATH_MAX])
{
	static const char *const places[] = { "/opt/rocm/lib", "/opt/rocm/lib64", UNHANG_LIBDIR, "/usr/lib/x86_64-linux-gnu" };
	static const char name[] = "librocm-debug-agent.so.2";
	const char *rocm = getenv("ROCM_PATH");
	if (rocm && snprintf(room, PATH_MAX, "%s/lib/%s", rocm, name) < PATH_MAX && !access(room, R_OK))
		return room;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (snprintf(room, PATH_MAX, "%s/%s", places[i], name) < PATH_MAX && !access(room, R_OK))
			return room;
	return NULL;
}

/** Levels above the usual ones store the data of the job, which it must be told. */
static bool level_allowed(const struct uh_run_options *o, const char *option, int level)
{
	if (level <= LEVEL_USUAL_MOST || o->allow_inputs)
		return true;
	return reject("%s%d stores the data of the job; --allow-inputs says that it may", option, level);
}

/** What options say together. */
static bool is_right(const struct uh_run_options *o)
{
	if (!o->command[0])
		return reject("run needs a command: unhang run [OPTION...] -- COMMAND");
	for (size_t i = 0; i < o->non_repeat; i++) {
		int level = 0;
		if (strncmp(o->on_repeat[i], "level=", 6))
			continue;
		if (!take_level(&level, o->on_repeat[i] + 6) || !level_allowed(o, "--on-repeat level=", level))
			return false;
	}
	return allocator_right(o) && level_allowed(o, "--level ", o->level);
}

static const struct help_text run_help = {
	.name = "run",
	.usage = "unhang run [OPTION...] -- COMMAND...",
	.about = "Runs COMMAND as if unhang were not there: same output, same terminal, same exit status. Signals that "
		 "would end unhang are passed on: docs/RUN.md lists them. Beside it the flight recorder runs (level 1). If "
		 "the job fails or hangs, unhang saves the evidence while its processes exist, explains it, ends all "
		 "processes of the job, and says what to do next. With --restart it tries again and records more each time, "
		 "by the table of docs/RUN.md. The report goes to standard error.",
	.status = "exit status: that of COMMAND, 128 and more if a signal ended it; 126 or 127 it could not be started; 2 "
		  "unhang refused to start it",
	.operands = "COMMAND",
	.stops = true,
};

int cmd_run(int argc, char **argv)
{
	char recorder[PATH_MAX], agent[PATH_MAX], python[PATH_MAX];
	_cleanup_free_ char *allocator = mem_alloc(PATH_MAX);
	struct setting_list env = { .option = "--env" }, repeat = { .option = "--on-repeat" };
	struct uh_run_options o = { .level = 1, .cores = UH_CORES_EXPLAIN, .env = env.list, .on_repeat = repeat.list };
	const struct option_row rows[] = {
		{ 0, "restart", "N", "start it again at most N times", TO_COUNT(&o.restarts, RESTARTS_MOST) },
		{ 0, "delay", "SECONDS", "wait before the first restart, then twice as long each time (5)",
		  TO_FUNCTION(take_delay, &o) },
		{ 0, "resume", "'ARGS'", "add these arguments from the second try on", TO_TEXT(&o.resume) },
		{ 0, "checkpoint", "GLOB", "say which of these files is the newest, and how much work was lost since",
		  TO_TEXT(&o.checkpoint) },
		{ 0, "on-repeat", "WHAT",
		  "after the same fault at the same place, change this and try once more: NAME=VALUE (a variable), level=N "
		  "or profile=FILE; may be repeated",
		  TO_FUNCTION(take_job_setting, &repeat) },
		{ 0, "level", "N", "record this much from the start: 0, 1, 3, 5 or 10", TO_FUNCTION(take_level, &o.level),
		  .words = LEVELS },
		{ 0, "allow-inputs", NULL, "allow level 10, which stores the data of the job", TO_FLAG(&o.allow_inputs) },
		{ 0, "guard", "[=WORDS]",
		  "unmapped addresses around each GPU allocation, so that accesses out of bounds fault: above (the default), "
		  "below, sample:N, match:GLOB; slower, more memory",
		  TO_FUNCTION(take_guard, &o) },
		{ 0, "guard-align", "N", "with --guard: allocations begin at multiples of N bytes (256)",
		  TO_FUNCTION(take_guard_align, &o.guard_align) },
		{ 0, "pool", NULL, "small GPU allocations share large ones, for cards that hang after many small ones",
		  TO_FLAG(&o.pool) },
		{ 0, "hang-after", "SECONDS",
		  "a job hangs if it has work on the GPU and no queue moves for so long (60; 35 minutes in a collective; "
		  "longer where the GPU cannot be looked at)",
		  TO_COUNT(&o.hang_after, SECONDS_MOST) },
		{ 0, "timeout-silent", "SECONDS", "end a job that writes nothing for so long",
		  TO_COUNT(&o.silent, SECONDS_MOST) },
		{ 0, "deadline", "SECONDS", "end the job after so long, with all tries", TO_COUNT(&o.deadline, SECONDS_MOST) },
		{ 0, "grace", "SECONDS", "after SIGTERM, kill the job when so much time has passed (20)",
		  TO_COUNT(&o.grace, SECONDS_MOST) },
		{ 0, "cores", "WHAT", "what becomes of core files: keep, explain-and-drop (the default) or off",
		  TO_CHOICE(&o.cores, "keep explain-and-drop off") },
		{ 0, "env", "NAME=VALUE", "set a variable for the job; may be repeated", TO_FUNCTION(take_job_setting, &env) },
		{ 0, "profile", "FILE", "set the variables of a profile that unhang doctor --apply wrote",
		  TO_TEXT(&o.profile) },
		{ 0, "status-file", "FILE", "keep what unhang thinks of the job in FILE, as JSON", TO_TEXT(&o.status_file) },
		{ 0, "crash-diagnostics", "FILE",
		  "if the job failed or used no GPU, write crash_diagnostics.json for agents to FILE",
		  TO_TEXT(&o.crash_diagnostics) },
		{ 0, "hooks", "DIR", "if the job failed or used no GPU, run the programs in DIR", TO_TEXT(&o.hooks) },
		{ 0, "state-dir", "DIR",
		  "where runs are stored (/var/lib/unhang/runs for root, else ~/.local/state/unhang/runs)",
		  TO_TEXT(&o.state_dir) },
		{ 0, "quiet", NULL, "write no report and no decisions", TO_FLAG(&o.quiet) },
		{ 0, "json", NULL, "write the report as JSON (docs/run.schema.json)", TO_FLAG(&o.json) },
	};
	options_parse(&run_help, ROWS(rows), NO_ROWS, argc, argv);
	o.nenv = env.n;
	o.non_repeat = repeat.n;
	o.command = argv + optind;
	o.recorder = find_recorder(recorder);
	o.agent = find_agent(agent);
	o.allocator = find_allocator(allocator);
	o.python = find_python(python);
	o.width = stream_width(STDERR_FILENO);
	if (!is_right(&o))
		return EXIT_CANNOT;
	int status = -1;
	struct uh_error *err = uh_run(&o, stderr, &status);
	if (!err)
		return status;
	const int refused = run_cannot(&o, err, status);
	return status > 0 ? status : refused;
}

/** As option_row.take. */
static bool take_address(void *to, const char *text)
{
	unsigned long long *ret = to;
	char *end;
	errno = 0;
	*ret = strtoull(text, &end, 0);
	if (!errno && *text && !*end && *ret)
		return true;
	return reject("--address %s: not an address such as 0x7f0000001000", text);
}

static const struct help_text last_help = {
	.name = "last",
	.usage = "unhang last [PID|FILE|DIR...] [OPTION...]",
	.about = "Shows what a job runs on the GPU now, or ran last: the kernels in flight, the calls that have not "
		 "returned, and where a faulting address is among the buffers. The job must run with the flight recorder:\n"
		 "    HSA_TOOLS_LIB=libunhang-recorder.so HSA_TOOLS_ROCPROFILER_V1_TOOLS=1 PROGRAM\n"
		 "PID is a process, FILE its recording, and DIR a directory with the recordings of several ranks. Without "
		 "any of them, unhang takes your newest recording in /dev/shm; root without one gets the newest of all "
		 "users. A recording outlives its process, even if that was killed.",
	.status = "exit status: 0 a recording was read, 2 none",
	.operands = "FILE",
};

int cmd_last(int argc, char **argv)
{
	struct uh_last_options o = { .packets = PACKETS };
	const struct option_row rows[] = {
		{ 0, "address", "ADDRESS", "tell which buffer this address is in, or near",
		  TO_FUNCTION(take_address, &o.address) },
		{ 0, "packets", "N", "in JSON, show N packets before those in flight (16)",
		  TO_COUNT(&o.packets, PACKETS_MOST) },
		{ 'a', "all", NULL, "show every recorded packet and every queue", TO_FLAG(&o.all) },
		{ 0, "perfetto", "FILE", "write a timeline for ui.perfetto.dev and chrome://tracing", TO_TEXT(&o.perfetto) },
		JSON_ROW(&o.json, "last"),
	};
	options_parse(&last_help, ROWS(rows), NO_ROWS, argc, argv);
	o.targets = (const char *const *)argv + optind;
	o.ntargets = (size_t)(argc - optind);
	static const struct output_kind timeline = { "--perfetto", "{", "\"generator\": \"unhang\"" };
	if (o.perfetto && !output_allowed(&timeline, o.perfetto, argv + optind, o.ntargets))
		return EXIT_CANNOT;
	struct uh_error *err = uh_last(&o, stdout, complain_line, NULL);
	if (!err && o.perfetto)
		complain("the timeline is in %s", o.perfetto);
	return done(err);
}

static const struct help_text level_help = {
	.name = "level",
	.usage = "unhang level PID|FILE|DIR LEVEL",
	.about = "Changes how much the flight recorder of a running job records:\n"
		 "  0   nothing\n"
		 "  1   each launch and copy, each allocation, calls that do not return\n"
		 "  3   the arguments of kernels, too\n"
		 "  5   statistics of the buffers behind them, too\n"
		 "  10  the contents of these buffers, too\n"
		 "Levels 5 and 10 need queues of another kind. They are made when the job starts: set UNHANG_MAX_LEVEL=10 "
		 "for it.",
	.status = "exit status: 0 the recorder was told, 2 it cannot have this level",
	.operands = LEVELS,
};

int cmd_level(int argc, char **argv)
{
	options_parse(&level_help, NO_ROWS, NO_ROWS, argc, argv);
	char *end = NULL;
	const unsigned long level = argc - optind == 2 ? strtoul(argv[optind + 1], &end, 10) : 0;
	if (!end || *end || end == argv[optind + 1] || level > LEVEL_MOST)
		return refuse("level needs a process or a recording, and a level from 0 to %d; see unhang level --help",
			      LEVEL_MOST);
	return done(uh_record_level(argv[optind], (unsigned)level, stdout));
}
