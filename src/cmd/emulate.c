// unhang emulate. The emulator is a program of its own, which needs FUSE; it lies beside unhang or in its libexec directory, and takes its
// options itself: the table here is what --help, the completions and the man page have of them.
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
static bool emulator_try(const char *directory, bool beside, char **argv)
{
	_cleanup_arena_ struct arena room = { 0 };
	const char *program = arena_printf(&room, "%s/unhang-emulator", directory).p;
	bool there = !access(program, F_OK);
	_cleanup_error_ struct uh_error *err =
		there && !(beside && like_unhang(program)) ? trust_real_path(&room, program, &program) : NULL;
	unsetenv("UNHANG_KFD"); // a plan for programs outside: the machine has a KFD of its own
	if (!err)
		execv(program, argv);
	else
		complain("%s", err->message);
	return !err;
}

static const struct help_text emulate_help = {
	.name = "emulate",
	.usage = "unhang emulate SCENARIO [OPTION...] -- COMMAND...\n"
		 "       unhang emulate --list [--json]\n"
		 "       unhang emulate --check FILE",
	.about = "Runs COMMAND on a machine with emulated GPUs. For COMMAND only, /sys, /dev/dri, /dev/kmsg and "
		 "/proc/interrupts are those of the scenario; everything else is this machine's. If the scenario has a "
		 "block kfd, HIP programs of COMMAND run on its GPUs. It needs FUSE, and root or user namespaces. SCENARIO "
		 "is a built-in scenario, or a file; docs/SCENARIOS.md describes the format.",
	.status = "exit status: that of COMMAND, 128 or more if a signal ended it; 2 it could not be run",
	.operands = "FILE",
};

int cmd_emulate(int argc, char **argv)
{
	static const struct option_row rows[] = {
		{ 0, "record", "FILE",
		  "write a line of JSON for each open, read, ioctl and write that reached the emulated machine" },
		{ 0, "list", NULL, "list the built-in scenarios" },
		{ 0, "json", NULL, "with --list: for programs" },
		{ 0, "check", "FILE", "check a scenario and report its first mistake" },
	};
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h") || !strcmp(argv[i], "--list-options"))
			options_parse(&emulate_help, ROWS(rows), NO_ROWS, 2, (char *[]){ argv[0], argv[i], NULL });
	char directory[PATH_MAX];
	const bool own = own_directory(directory);
	if (own) {
		const char *path = getenv("PATH");
		_cleanup_text_ struct text longer = { 0 };
		text_printf(&longer, "%s:%s", directory, path ? path : "/usr/bin:/bin");
		setenv("PATH", longer.p, 1);
	}
	if ((own && !emulator_try(directory, true, argv)) || !emulator_try(UNHANG_LIBEXEC, false, argv))
		return EXIT_CANNOT;
	return refuse("unhang-emulator: %s; it is neither beside unhang nor in " UNHANG_LIBEXEC, strerror(errno));
}
