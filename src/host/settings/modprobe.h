// modprobe.d: what it says of modules, read as libkmod reads it.
//
// What kmod 30 does, tried with `modprobe --show-depends` (tests/doctor_settings.py tries it again): files are read in the order of their
// names over all directories, and a name in an earlier directory hides the same name in a later one; only names that end in .conf count.
// Options of all lines for a module are put behind one another, then those of the kernel's command line, also from behind `--`; the
// kernel takes the last of several. So the command line wins over every file. A `#` begins a comment only as the first character of a
// line; behind an option it is an option. A backslash joins lines and is dropped before any other character.
#pragma once

#include "base/arena.h"

enum modprobe_kind { MODPROBE_OPTIONS, MODPROBE_BLACKLIST, MODPROBE_INSTALL, MODPROBE_OTHER };

struct modprobe_line {
	enum modprobe_kind kind;
	struct str directive; // the first word
	struct str module;    // - is _
	struct str rest;      // options; or the command
	unsigned line;        // where it begins
};

/** Takes lines off @text until one has a directive and a module; MODPROBE_OTHER is any other directive. @line counts them. false at the end. */
bool modprobe_next(struct arena *a, struct str *text, unsigned *line, struct modprobe_line *ret);

struct modprobe_file {
	struct str name;
	const char *directory;
};

/** The directories. The first one wins. */
extern const char *const modprobe_directories[];
enum { MODPROBE_DIRECTORIES = 5 };

/** Orders @files, which come directory by directory, and drops those that are hidden or do not count. How many are left. */
size_t modprobe_order(struct modprobe_file *files, size_t n);
