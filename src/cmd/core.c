// unhang core: the handler that ROCm's runtime pipes GPU cores into (HSA_COREDUMP_PATTERN).
#include <getopt.h>
#include <unistd.h>

#include "cmd/cmd.h"

enum { MEGABYTES_MOST = 1 << 20, PID_MOST = 1 << 22 };

static const struct help_text core_help = {
	.name = "core",
	.usage = "unhang core [OPTION...] PID",
	.about =
		"Reads the GPU core of process PID from standard input, as ROCm's runtime (ROCm 7) pipes it to its handler. It "
		"keeps a light core, without the GPU's memory, explains it and stores both: unhang incidents shows them. It "
		"prints nothing and does not change how the process ends. To set it up:\n"
		"    sudo unhang doctor --apply gpu-cores",
	.status = "exit status: 0 always, but 2 if there is a mistake in the arguments",
};

/** A decimal number that a process can have. */
static bool core_pid(const char *text, int64_t *ret)
{
	return !text[strspn(text, "0123456789")] && str_number(str_z(text), ret) && *ret > 0 && *ret <= PID_MOST;
}

int cmd_core(int argc, char **argv)
{
	struct uh_core_options o = { 0 };
	const struct option_row rows[] = {
		{ 0, "all", NULL, "keep the whole core, with the GPU's memory", TO_FLAG(&o.all) },
		{ 0, "most", "MB", "keep at most so many megabytes of it (64; with --all as many as incidents may use)",
		  TO_COUNT(&o.megabytes, MEGABYTES_MOST) },
		{ 0, "state-dir", "DIR", "where to store it (/var/lib/unhang for root, else ~/.local/state/unhang)",
		  TO_TEXT(&o.state_dir) },
	};
	options_parse(&core_help, ROWS(rows), NO_ROWS, argc, argv);
	if (argc - optind != 1 || !core_pid(argv[optind], &o.pid))
		return refuse("unhang core needs the number of the process: in HSA_COREDUMP_PATTERN, write %%p");
	if (isatty(STDIN_FILENO))
		return refuse("unhang core reads a GPU core from a pipe; see unhang core --help");
	uh_core(&o);
	return EXIT_NOTHING_WRONG;
}
