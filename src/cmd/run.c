// unhang run: a job, and what is done around it.
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "cmd/cmd.h"

#define RECORDER "libunhang-recorder.so"
enum { LIST_MOST = 64, RESTARTS_MOST = 1000, SECONDS_MOST = 10000000, LEVEL_USUAL_MOST = 5, LEVEL_MOST = 10 };

static void usage(void)
{
	puts("usage: unhang run [OPTION...] -- COMMAND...\n"
	     "\n"
	     "Runs COMMAND as if unhang were not there: same output, same terminal, same exit\n"
	     "status. Signals that would end unhang are passed on: docs/RUN.md lists them.\n"
	     "Beside it the flight recorder runs (level 1). If the job fails or hangs, unhang\n"
	     "saves the evidence while its processes exist, explains it, ends all processes\n"
	     "of the job, and says what to do next. With --restart it tries again and records\n"
	     "more each time, by the table of docs/RUN.md. The report goes to standard error.\n"
	     "\n"
	     "  --restart N               start it again at most N times\n"
	     "  --delay SECONDS           wait before the first restart, then twice as long\n"
	     "                            each time (5)\n"
	     "  --resume 'ARGS'           add these arguments from the second try on\n"
	     "  --checkpoint GLOB         say which of these files is the newest, and how much\n"
	     "                            work was lost since\n"
	     "  --on-repeat WHAT          after the same fault at the same place, change this\n"
	     "                            and try once more: NAME=VALUE (a variable), level=N\n"
	     "                            or profile=FILE; may be repeated\n"
	     "  --level N                 record this much from the start: 0, 1, 3, 5 or 10\n"
	     "  --allow-inputs            allow level 10, which stores the data of the job\n"
	     "  --hang-after SECONDS      a job hangs if it has work on the GPU and no queue\n"
	     "                            moves for so long (60; 35 minutes in a collective;\n"
	     "                            longer where the GPU cannot be looked at)\n"
	     "  --timeout-silent SECONDS  end a job that writes nothing for so long\n"
	     "  --deadline SECONDS        end the job after so long, with all tries\n"
	     "  --grace SECONDS           after SIGTERM, kill the job when so much time has\n"
	     "                            passed (20)\n"
	     "  --cores WHAT              what becomes of core files: keep,\n"
	     "                            explain-and-drop (the default) or off\n"
	     "  --env NAME=VALUE          set a variable for the job; may be repeated\n"
	     "  --profile FILE            set the variables of a profile that unhang doctor\n"
	     "                            --apply wrote\n"
	     "  --status-file FILE        keep what unhang thinks of the job in FILE, as JSON\n"
	     "  --crash-diagnostics FILE  unless the job ended well and used a GPU, write\n"
	     "                            crash_diagnostics.json for agents to FILE\n"
	     "  --hooks DIR               unless the job ended well and used a GPU, run the\n"
	     "                            programs in DIR\n"
	     "  --state-dir DIR           where runs are stored (/var/lib/unhang/runs\n"
	     "                            for root, else ~/.local/state/unhang/runs)\n"
	     "  --quiet                   write no report and no decisions\n"
	     "  --json                    write the report as JSON (docs/run.schema.json)\n"
	     "  -h, --help                show this text\n"
	     "\n"
	     "exit status: that of COMMAND, 128 and more if a signal ended it; 126 or 127 it\n"
	     "could not be started; 2 unhang refused to start it");
}

enum { OPT_STATUS = 256, OPT_STATE, OPT_CRASH, OPT_HOOKS, OPT_ENV, OPT_REPEAT, OPT_PROFILE, OPT_RESUME, OPT_CHECKPOINT };

static const struct option options[] = {
	{ "restart", required_argument, NULL, 'r' },
	{ "delay", required_argument, NULL, 'd' },
	{ "resume", required_argument, NULL, OPT_RESUME },
	{ "checkpoint", required_argument, NULL, OPT_CHECKPOINT },
	{ "on-repeat", required_argument, NULL, OPT_REPEAT },
	{ "level", required_argument, NULL, 'l' },
	{ "allow-inputs", no_argument, NULL, 'i' },
	{ "hang-after", required_argument, NULL, 'H' },
	{ "timeout-silent", required_argument, NULL, 's' },
	{ "deadline", required_argument, NULL, 'D' },
	{ "grace", required_argument, NULL, 'g' },
	{ "cores", required_argument, NULL, 'c' },
	{ "env", required_argument, NULL, OPT_ENV },
	{ "profile", required_argument, NULL, OPT_PROFILE },
	{ "status-file", required_argument, NULL, OPT_STATUS },
	{ "crash-diagnostics", required_argument, NULL, OPT_CRASH },
	{ "hooks", required_argument, NULL, OPT_HOOKS },
	{ "state-dir", required_argument, NULL, OPT_STATE },
	{ "quiet", no_argument, NULL, 'q' },
	{ "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct lists {
	const char *env[LIST_MOST], *repeat[LIST_MOST];
};

/** NAME=VALUE, with a name that a variable can have. */
static bool is_setting(const char *option, const char *text)
{
	const size_t n = strcspn(text, "=");
	bool good = n && text[n] && !char_digit(text[0]);
	for (size_t i = 0; good && i < n; i++)
		good = char_word(text[i]);
	if (!good)
		complain("%s %s: not NAME=VALUE", option, text);
	return good;
}

static bool add_setting(const char **list, size_t *n, const char *option, const char *text)
{
	return is_setting(option, text) && add_path(list, n, LIST_MOST, option, text);
}

static bool parse_level(const char *text, int *ret)
{
	static const int levels[] = { 0, 1, 3, 5, 10 };
	char *end;
	const long level = strtol(text, &end, 10);
	for (size_t i = 0; *text && !*end && i < sizeof(levels) / sizeof(levels[0]); i++)
		if (levels[i] == level) {
			*ret = levels[i];
			return true;
		}
	complain("--level %s: levels are 0, 1, 3, 5 and 10", text);
	return false;
}

static bool parse_cores(const char *text, enum uh_cores *ret)
{
	static const char *const names[] = { "keep", "explain-and-drop", "off" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(text, names[i])) {
			*ret = (enum uh_cores)i;
			return true;
		}
	complain("--cores %s: it is keep, explain-and-drop or off", text);
	return false;
}

static bool parse_delay(const char *text, struct uh_run_options *o)
{
	o->delay_given = true;
	o->delay = 0;
	return !strcmp(text, "0") || parse_count("--delay", text, SECONDS_MOST, &o->delay);
}

/** Where the text of an option goes; NULL: it is none of these. */
static const char **text_of(int option, struct uh_run_options *o)
{
	switch (option) {
	case OPT_STATUS:
		return &o->status_file;
	case OPT_STATE:
		return &o->state_dir;
	case OPT_CRASH:
		return &o->crash_diagnostics;
	case OPT_HOOKS:
		return &o->hooks;
	case OPT_PROFILE:
		return &o->profile;
	case OPT_RESUME:
		return &o->resume;
	case OPT_CHECKPOINT:
		return &o->checkpoint;
	default:
		return NULL;
	}
}

/** -1: go on; else the exit status. */
static int take_option(int option, struct uh_run_options *o, struct lists *l, char **argv)
{
	bool ok = true;
	const char **text = text_of(option, o);
	if (text) {
		*text = optarg;
		return -1;
	}
	switch (option) {
	case 'r':
		ok = parse_count("--restart", optarg, RESTARTS_MOST, &o->restarts);
		break;
	case 'd':
		ok = parse_delay(optarg, o);
		break;
	case 'H':
		ok = parse_count("--hang-after", optarg, SECONDS_MOST, &o->hang_after);
		break;
	case 's':
		ok = parse_count("--timeout-silent", optarg, SECONDS_MOST, &o->silent);
		break;
	case 'D':
		ok = parse_count("--deadline", optarg, SECONDS_MOST, &o->deadline);
		break;
	case 'g':
		ok = parse_count("--grace", optarg, SECONDS_MOST, &o->grace);
		break;
	case 'l':
		ok = parse_level(optarg, &o->level);
		break;
	case 'c':
		ok = parse_cores(optarg, &o->cores);
		break;
	case OPT_ENV:
		ok = add_setting(l->env, &o->nenv, "--env", optarg);
		break;
	case OPT_REPEAT:
		ok = add_setting(l->repeat, &o->non_repeat, "--on-repeat", optarg);
		break;
	case 'i':
		o->allow_inputs = true;
		break;
	case 'q':
		o->quiet = true;
		break;
	case 'J':
		o->json = true;
		break;
	case 'h':
		usage();
		return EXIT_NOTHING_WRONG;
	default:
		complain_option(argv, option, "run");
		return EXIT_CANNOT;
	}
	return ok ? -1 : EXIT_CANNOT;
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

/** The recorder lies beside the program, or where libraries are installed, also if the whole tree was moved: PREFIX/bin/unhang. */
static const char *find_recorder(char room[static PATH_MAX])
{
	if (near_program(room, 0, RECORDER) || near_program(room, 1, UNHANG_LIBDIR_BELOW "/" RECORDER))
		return room;
	return access(UNHANG_LIBDIR "/" RECORDER, R_OK) ? NULL : UNHANG_LIBDIR "/" RECORDER;
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
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (snprintf(room, PATH_MAX, "%s/%s", places[i], name) < PATH_MAX && !access(room, R_OK))
			return room;
	return NULL;
}

/** What options say together. */
static bool is_right(const struct uh_run_options *o)
{
	if (!o->command[0])
		complain("run needs a command: unhang run [OPTION...] -- COMMAND");
	else if (o->level > LEVEL_USUAL_MOST && !o->allow_inputs)
		complain("--level %d stores the data of the job; --allow-inputs says that it may", o->level);
	else
		return true;
	return false;
}

/** --on-repeat level=N: a level, and one that is allowed. */
static bool repeat_is_right(const struct uh_run_options *o)
{
	for (size_t i = 0; i < o->non_repeat; i++) {
		int level = 0;
		if (strncmp(o->on_repeat[i], "level=", 6))
			continue;
		if (!parse_level(o->on_repeat[i] + 6, &level))
			return false;
		if (level > LEVEL_USUAL_MOST && !o->allow_inputs) {
			complain("--on-repeat level=%d stores the data of the job; --allow-inputs says that it may", level);
			return false;
		}
	}
	return true;
}

int cmd_run(int argc, char **argv)
{
	char recorder[PATH_MAX], agent[PATH_MAX], python[PATH_MAX];
	struct lists lists;
	struct uh_run_options o = { .level = 1, .cores = UH_CORES_EXPLAIN, .env = lists.env, .on_repeat = lists.repeat };
	int option, status = -1;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
		status = take_option(option, &o, &lists, argv);
		if (status >= 0)
			return status;
	}
	o.command = argv + optind;
	o.recorder = find_recorder(recorder);
	o.agent = find_agent(agent);
	o.python = find_python(python);
	o.width = stream_width(STDERR_FILENO);
	if (!is_right(&o) || !repeat_is_right(&o))
		return EXIT_CANNOT;
	struct uh_error *err = uh_run(&o, stderr, &status);
	if (!err)
		return status;
	const int refused = cannot(err);
	return status > 0 ? status : refused;
}
