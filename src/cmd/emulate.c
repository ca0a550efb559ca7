// The emulator is a program of its own, which needs FUSE; it lies beside unhang or in its libexec directory.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/door/caller.h"
#include "base/error.h"
#include "base/door/trust.h"
#include "cmd/cmd.h"

static void usage(void)
{
	puts("usage: unhang emulate SCENARIO [OPTION...] -- COMMAND...\n"
	     "       unhang emulate --list [--json]\n"
	     "       unhang emulate --check FILE\n"
	     "\n"
	     "Runs COMMAND on a machine with emulated GPUs. For COMMAND only, /sys, /dev/dri,\n"
	     "/dev/kmsg and /proc/interrupts are those of the scenario; everything else is\n"
	     "this machine's. If the scenario has a block kfd, HIP programs of COMMAND run on\n"
	     "its GPUs. It needs FUSE, and root or user namespaces.\n"
	     "\n"
	     "  SCENARIO          a built-in scenario, or a file; docs/SCENARIOS.md describes\n"
	     "                    the format\n"
	     "  --record FILE     write a line of JSON for each open, read, ioctl and write\n"
	     "                    that reached the emulated machine\n"
	     "  --list            list the built-in scenarios; with --json, for programs\n"
	     "  --check FILE      check a scenario and report its first mistake\n"
	     "  -h, --help        show this text\n"
	     "\n"
	     "exit status: that of COMMAND, 128 or more if a signal ended it; 2 it could not\n"
	     "be run");
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

/** Whether the program is as trustworthy as unhang beside it: only those who could replace unhang could have written it. In a directory
 * that everybody may write to, others could too. */
static bool like_unhang(const char *program)
{
	struct stat own, st;
	if (stat("/proc/self/exe", &own) || lstat(program, &st))
		return false;
	return S_ISREG(st.st_mode) && (!st.st_uid || st.st_uid == own.st_uid || st.st_uid == caller_uid()) &&
	       !(st.st_mode & ~own.st_mode & (S_IWGRP | S_IWOTH));
}

/** Runs it, and returns only if that fails. false: others may have written it, which was said. */
static bool try(const char *directory, bool beside, char **argv)
{
	struct arena room = { 0 };
	const char *program = arena_printf(&room, "%s/unhang-emulator", directory).p;
	bool there = !access(program, F_OK);
	struct uh_error *err = there && !(beside && like_unhang(program)) ? trust_real_path(&room, program, &program) : NULL;
	if (!err)
		execv(program, argv);
	else
		complain("%s", err->message);
	bool good = !err;
	uh_error_free(err);
	arena_free(&room);
	return good;
}

int cmd_emulate(int argc, char **argv)
{
	char directory[PATH_MAX];
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			usage();
			return EXIT_NOTHING_WRONG;
		}
	bool own = own_directory(directory);
	if (own)
		extend_path(directory);
	if ((own && !try(directory, true, argv)) || !try(UNHANG_LIBEXEC, false, argv))
		return EXIT_CANNOT;
	complain("unhang-emulator: %s; it is neither beside unhang nor in " UNHANG_LIBEXEC, strerror(errno));
	return EXIT_CANNOT;
}
