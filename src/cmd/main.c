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
	{ "explain", cmd_explain, "evidence in, diagnosis out" },
	{ "live", cmd_live, "the GPUs of this machine: what is stuck, and why" },
	{ "capture", cmd_capture, "save all evidence of this machine in one file, now" },
	{ "watch", cmd_watch, "notice, save and explain each incident, for as long as the machine runs" },
	{ "incidents", cmd_incidents, "the incidents that watch stored" },
	{ "doctor", cmd_doctor, "kernel, firmware and parameters against what is known; what to set, what to drop" },
	{ "remedy", cmd_remedy, "one remedy: its steps, cost, undo and sources" },
	{ "where", cmd_where, "program counter to kernel, instruction and source line" },
	{ "waves", cmd_waves, "the waves on a GPU, or in a GPU core" },
	{ "queues", cmd_queues, "the queues of programs that compute, or in a GPU core" },
	{ "rings", cmd_rings, "the driver's rings, and the packet where each stands" },
	{ "regs", cmd_regs, "registers of a GPU, and what their values mean" },
	{ "emulate", cmd_emulate, "run a command on a machine whose GPUs are emulated" },
	{ "knowledge", cmd_knowledge, "list, show, check and try what is known" },
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
	      "  unhang                        this machine now: its GPUs, what is stuck, and the newest incident\n"
	      "\n"
	      "commands:\n",
	      out);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(out, "  %-12s  %s\n", commands[i].name, commands[i].summary);
	fputs("\n"
	      "unhang COMMAND --help says more; so does man unhang.\n"
	      "exit status: 0 nothing wrong, 1 an incident or a GPU that is not well was found, 2 unhang could not do what was "
	      "asked\n",
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
