// unhang: which command it is, and what all of them need. Each command is a thin file: options in (options.h), a function of unhang.h, exit
// status out.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/child.h"
#include "base/door/caller.h"
#include "base/door/door.h"
#include "base/door/library.h"
#include "base/error.h"
#include "base/print.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "commit.h"
#include "knowledge_version.h"
#include "unhang/unhang.h"

// --- the terminal ---

bool terminal_colour(void)
{
	const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
	return isatty(STDOUT_FILENO) && !(no_colour && *no_colour) && term && strcmp(term, "dumb");
}

unsigned stream_width(int fd)
{
	struct winsize size;
	const char *columns = getenv("COLUMNS");
	int64_t n;
	if (isatty(fd) && !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col)
		return size.ws_col;
	return columns && str_number(str_z(columns), &n) && n > 0 && n < 10000 ? (unsigned)n : 0;
}

unsigned terminal_width(void) { return stream_width(STDOUT_FILENO); }

/** By the names of the locale, as setlocale() takes them. */
static bool locale_is_unicode(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		const char *value = getenv(names[n]);
		if (value && *value)
			return str_like(S("*utf-8*"), str_z(value)) || str_like(S("*utf8*"), str_z(value));
	}
	return false;
}

void terminal_describe(struct uh_report_options *o)
{
	struct winsize size;
	const char *term = getenv("TERM");
	o->colour = terminal_colour();
	o->width = terminal_width();
	if (!isatty(STDOUT_FILENO) || !term || !strcmp(term, "dumb") || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		return;
	o->height = size.ws_row;
	o->drawing = locale_is_unicode() ? UH_DRAW_UNICODE : UH_DRAW_ASCII;
}

void show_look(void *ctx, const char *name, unsigned long long done, unsigned long long total)
{
	(void)ctx;
	if (!isatty(STDERR_FILENO))
		return;
	fputs("\r\033[K", stderr);
	if (done < total)
		fprintf(stderr, "looking at %s, %llu of %llu ", name, done + 1, total);
}

// In the groups and the order of --help. A newcomer needs the first two groups.
static const struct subcommand {
	const char *group; // of this and those that follow; NULL: the same; empty: none
	const char *name;
	command_fn *run;
	const char *summary;
} commands[] = {
	{ "Answers", "explain", cmd_explain, "explain a log, core or other evidence" },
	{ NULL, "live", cmd_live, "look at the GPUs of this machine: what is stuck, and why" },
	{ NULL, "remedy", cmd_remedy, "show one remedy: its steps, cost, undo and sources" },
	{ NULL, "cases", cmd_cases, "show public incidents like this one, and what solved them" },
	{ "This machine", "doctor", cmd_doctor, "check kernel, firmware and settings for known problems" },
	{ NULL, "capture", cmd_capture, "save all evidence of this machine in one file" },
	{ NULL, "watch", cmd_watch, "notice, save and explain each incident, all the time" },
	{ NULL, "incidents", cmd_incidents, "show the incidents that watch and core stored" },
	{ NULL, "history", cmd_history, "show what happened over time, and whether changes helped" },
	{ NULL, "selftest", cmd_selftest, "check that unhang reads these GPUs correctly" },
	{ "A job", "run", cmd_run, "run a job and explain its failures (--guard, --restart)" },
	{ NULL, "try", cmd_try, "find out why a job fails: run it with one thing changed" },
	{ NULL, "last", cmd_last, "show what a job runs on the GPU, or ran last" },
	{ NULL, "repro", cmd_repro, "turn the failing launch into a standalone program" },
	{ NULL, "level", cmd_level, "set how much the flight recorder of a job records" },
	{ NULL, "bisect", cmd_bisect, "find the two launches of a job that race" },
	{ NULL, "core", cmd_core, "store and explain GPU cores that ROCm pipes to it" },
	{ "The silicon", "waves", cmd_waves, "show the waves on a GPU, or in a GPU core" },
	{ NULL, "queues", cmd_queues, "show the compute queues of programs, or in a GPU core" },
	{ NULL, "rings", cmd_rings, "show the driver's rings, and the packet where each is" },
	{ NULL, "packets", cmd_packets, "show the commands in a GPU's buffer, or in a file of words" },
	{ NULL, "regs", cmd_regs, "show registers of a GPU, and what their values mean" },
	{ NULL, "memory", cmd_memory, "show bytes, page tables and code behind a GPU's address" },
	{ NULL, "top", cmd_top, "show what all GPUs do now, again and again" },
	{ NULL, "where", cmd_where, "find kernel, instruction and source line of an address" },
	{ NULL, "emulate", cmd_emulate, "run a command on a machine with emulated GPUs" },
	{ "A fleet", "check", cmd_check, "say whether the next job can run here, for schedulers" },
	{ NULL, "fleet", cmd_fleet, "ask many nodes; drain and resume them under Slurm" },
	{ NULL, "triage", cmd_triage, "explain a tree of logs and bundles, each once, into a store" },
	{ NULL, "collect", cmd_collect, "bring the history of many machines into one store" },
	{ NULL, "serve", cmd_serve, "show the history as pages in a browser" },
	{ NULL, "store", cmd_store, "check, migrate or rebuild a store of the history" },
	{ "", "knowledge", cmd_knowledge, "list, show, check and update what unhang knows" },
};

void complain(const char *format, ...)
{
	_cleanup_text_ struct text line = { 0 };
	va_list ap;
	va_start(ap, format);
	text_vprintf(&line, format, ap);
	va_end(ap);
	print_said(line.p); // names of files and members of archives are evidence too
}

void complain_line(void *ctx, const char *message)
{
	(void)ctx;
	complain("%s", message);
}

int cannot(struct uh_error *err)
{
	complain("%s", uh_error_message(err));
	uh_error_free(err);
	return EXIT_CANNOT;
}

bool take_root(void *to, const char *path)
{
	struct opened other, own;
	_cleanup_error_ struct uh_error *err = door_look(&(struct named){ .path = path }, &other); // told when the path is used
	if (!err)
		err = door_look(&(struct named){ .path = "/" }, &own);
	const bool same = !err && other.st.st_dev == own.st.st_dev && other.st.st_ino == own.st.st_ino;
	*(const char **)to = same ? NULL : path;
	return true;
}

static void usage(void)
{
	puts("unhang: my AMD GPU hung or crashed; why, and how do I get going again?\n"
	     "\n"
	     "usage: unhang [COMMAND] [OPTION...] [PATH...]\n"
	     "\n"
	     "  unhang explain dmesg.txt      what happened, why, and what helps\n"
	     "  unhang dmesg.txt              the same\n"
	     "  dmesg | unhang explain -      the same from a pipe\n"
	     "  unhang                        this machine: its GPUs and the newest incident");
	for (const struct subcommand *c = commands; c < commands + ARRAY_SIZE(commands); c++) {
		if (c->group)
			printf(*c->group ? "\n%s:\n" : "\n", c->group);
		printf("  %-12s  %s\n", c->name, c->summary);
	}
	puts("\n"
	     "For more: unhang COMMAND --help, or man unhang.\n"
	     "exit status: 0 nothing wrong, 1 an incident or an unhealthy GPU was found,\n"
	     "2 unknown: unhang could not do what was asked");
}

static void version(void)
{
	enum { YEAR = 1000000, MONTH = 10000, DAY = 100 }; // YYYYMMDDNN
	const unsigned n = KNOWLEDGE_VERSION;
	printf("unhang %s%s\ncommit %s\nknowledge of %04u-%02u-%02u (%u)\n", UNHANG_VERSION,
	       library_loads ? "" : ", static file", *UNHANG_COMMIT ? UNHANG_COMMIT : "unknown: it was built outside of git",
	       n / YEAR, n / MONTH % 100, n / DAY % 100, n);
}

/** What there is besides commands. -1: it is none of that. */
static int run_plain(const char *word)
{
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))
		usage();
	else if (!strcmp(word, "--version"))
		version();
	else if (!strcmp(word, "--list-commands")) // for completions
		for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
			printf("%s\t%s\n", commands[i].name, commands[i].summary);
	else
		return -1;
	return EXIT_NOTHING_WRONG;
}

static int run_command(int argc, char **argv)
{
	const int plain = argc > 1 ? run_plain(argv[1]) : -1;
	if (plain >= 0)
		return plain;
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	// `unhang` and `unhang --json` are about this machine.
	if (argc == 1 || argv[1][0] == '-')
		return cmd_now(argc, argv);
	// `unhang FILE`
	struct opened found;
	_cleanup_error_ struct uh_error *err = door_look(&(struct named){ .path = argv[1] }, &found);
	if (!err)
		return cmd_explain(argc, argv);
	return refuse("there is no command or file '%s'; unhang --help lists the commands", argv[1]);
}

int all_said(int status)
{
	door_tell(complain_line, NULL);
	door_end();
	return print_arrived(stdout) ? status : refuse("standard output could not be written");
}

int main(int argc, char **argv)
{
	enum { OUTPUT = 64 << 10 };
	hold_descriptors();
	caller_clean_environment();
	if (!isatty(STDOUT_FILENO))
		setvbuf(stdout, NULL, _IOFBF, OUTPUT);
	return all_said(run_command(argc, argv));
}
