#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/door/caller.h"
#include "base/child.h"
#include "base/door/door.h"
#include "base/print.h"
#include "cmd/cmd.h"

static const struct subcommand commands[] = {
	{ "explain", cmd_explain, "explain a log, core or other evidence" },
	{ "live", cmd_live, "look at the GPUs of this machine: what is stuck, and why" },
	{ "last", cmd_last, "show what a job runs on the GPU, or ran last" },
	{ "level", cmd_level, "set how much the flight recorder of a job records" },
	{ "capture", cmd_capture, "save all evidence of this machine in one file" },
	{ "watch", cmd_watch, "notice, save and explain each incident, for good" },
	{ "run", cmd_run, "run a job; save and explain its failures, and restart it" },
	{ "incidents", cmd_incidents, "show the incidents that watch stored" },
	{ "doctor", cmd_doctor, "check kernel, firmware and settings for known problems" },
	{ "remedy", cmd_remedy, "show one remedy: its steps, cost, undo and sources" },
	{ "where", cmd_where, "find kernel, instruction and source line of an address" },
	{ "waves", cmd_waves, "show the waves on a GPU, or in a GPU core" },
	{ "queues", cmd_queues, "show the compute queues of programs, or in a GPU core" },
	{ "rings", cmd_rings, "show the driver's rings, and the packet where each is" },
	{ "regs", cmd_regs, "show registers of a GPU, and what their values mean" },
	{ "emulate", cmd_emulate, "run a command on a machine with emulated GPUs" },
	{ "knowledge", cmd_knowledge, "list, show, check and update what unhang knows" },
};

void complain(const char *format, ...)
{
	struct text line = { 0 };
	va_list ap;
	va_start(ap, format);
	text_vprintf(&line, format, ap);
	va_end(ap);
	fputs("unhang: ", stderr);
	print_safe(stderr, text_str(&line)); // names of files and members of archives are evidence too
	fputc('\n', stderr);
	text_free(&line);
}

void complain_line(void *ctx, const char *message)
{
	(void)ctx;
	complain("%s", message);
}

const char *other_root(const char *path)
{
	struct opened other, own;
	struct uh_error *err = door_look(&(struct named){ .path = path }, &other); // reported later, when the path is used
	if (!err)
		err = door_look(&(struct named){ .path = "/" }, &own);
	bool same = !err && other.st.st_dev == own.st.st_dev && other.st.st_ino == own.st.st_ino;
	uh_error_free(err);
	return same ? NULL : path;
}

static bool is_there(const char *path)
{
	struct opened found;
	struct uh_error *err = door_look(&(struct named){ .path = path }, &found);
	const bool there = !err;
	uh_error_free(err);
	return there;
}

static void usage(FILE *out)
{
	fputs("unhang: my AMD GPU hung or crashed; why, and how do I get going again?\n"
	      "\n"
	      "usage: unhang [COMMAND] [OPTION...] [PATH...]\n"
	      "\n"
	      "  unhang explain dmesg.txt      what happened, why, and what helps\n"
	      "  unhang dmesg.txt              the same\n"
	      "  dmesg | unhang explain -      the same from a pipe\n"
	      "  unhang                        this machine: its GPUs and the newest incident\n"
	      "\n"
	      "commands:\n",
	      out);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(out, "  %-12s  %s\n", commands[i].name, commands[i].summary);
	fputs("\n"
	      "For more: unhang COMMAND --help, or man unhang.\n"
	      "exit status: 0 nothing wrong, 1 an incident or an unhealthy GPU was found,\n"
	      "2 unknown: unhang could not do what was asked\n",
	      out);
}

/** The exit status, unless the answer could not be written. */
static int written(int status)
{
	door_tell(complain_line, NULL);
	door_end();
	if (print_arrived(stdout))
		return status;
	complain("standard output could not be written");
	return EXIT_CANNOT;
}

int main(int argc, char **argv)
{
	enum { OUTPUT = 64 << 10 };
	hold_descriptors();
	caller_clean_environment();
	if (!isatty(STDOUT_FILENO))
		setvbuf(stdout, NULL, _IOFBF, OUTPUT);
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))) {
		usage(stdout);
		return written(EXIT_NOTHING_WRONG);
	}
	if (argc > 1 && !strcmp(argv[1], "--version")) {
		puts("unhang " UNHANG_VERSION);
		return written(EXIT_NOTHING_WRONG);
	}
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return written(commands[i].run(argc - 1, argv + 1));
	// `unhang` and `unhang --json` are about this machine.
	if (argc == 1 || argv[1][0] == '-')
		return written(cmd_now(argc, argv));
	// `unhang FILE`
	if (is_there(argv[1]))
		return written(cmd_explain(argc, argv));
	complain("there is no command or file '%s'; unhang --help lists the commands", argv[1]);
	return EXIT_CANNOT;
}
