// The emulator is a program of its own, which needs FUSE; it lies beside unhang or in its libexec directory.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "cmd/cmd.h"

static void usage(void)
{
	puts("usage: unhang emulate SCENARIO [OPTION...] -- COMMAND...\n"
	     "       unhang emulate --list [--json]\n"
	     "       unhang emulate --check FILE\n"
	     "\n"
	     "Runs COMMAND on a machine whose GPUs are emulated: /sys, /dev/dri, /dev/kmsg and /proc/interrupts are those that "
	     "the\n"
	     "scenario describes, for COMMAND only; everything else is this machine's. Root, or user namespaces, and FUSE are "
	     "needed.\n"
	     "\n"
	     "  SCENARIO          one that is built in, or a file; docs/SCENARIOS.md says how one is written\n"
	     "  --record FILE     a line of JSON for each open, read, ioctl and write that reached the emulated machine\n"
	     "  --list            the scenarios that are built in; with --json for machines\n"
	     "  --check FILE      whether a scenario is right; its first mistake is told\n"
	     "  -h, --help        this text\n"
	     "\n"
	     "exit status: COMMAND's, 128 and more when a signal ended it; 2 it could not be run");
}

/** The directory that this program is in; COMMAND finds the same unhang. */
static bool own_directory(char room[static PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", room, PATH_MAX - 1);
	if (n <= 0)
		return false;
	room[n] = 0;
	char *slash = strrchr(room, '/');
	if (slash)
		*slash = 0;
	return slash;
}

static void extend_path(const char *directory)
{
	const char *path = getenv("PATH");
	struct text longer = { 0 };
	text_printf(&longer, "%s:%s", directory, path ? path : "/usr/bin:/bin");
	setenv("PATH", longer.p, 1);
	text_free(&longer);
}

static void try(const char *directory, char **argv)
{
	struct text program = { 0 };
	text_printf(&program, "%s/unhang-emulator", directory);
	execv(program.p, argv);
	text_free(&program);
}

int cmd_emulate(int argc, char **argv)
{
	char directory[PATH_MAX];
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			usage();
			return EXIT_NOTHING_WRONG;
		}
	if (own_directory(directory)) {
		extend_path(directory);
		try(directory, argv);
	}
	try(UNHANG_LIBEXEC, argv);
	complain("unhang-emulator: %s; it is neither beside unhang nor in " UNHANG_LIBEXEC, strerror(errno));
	return EXIT_CANNOT;
}
