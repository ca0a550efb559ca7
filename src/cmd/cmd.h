// What the subcommands share.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cmd/options.h"
#include "unhang/unhang.h"

enum { EXIT_NOTHING_WRONG = 0, EXIT_INCIDENT = 1, EXIT_CANNOT = 2 };
enum { CODE_MOST = 64 }; // times --code

/** A command, with its own name as argv[0]; it returns the exit status. */
typedef int command_fn(int argc, char **argv);
command_fn cmd_bisect, cmd_capture, cmd_cases, cmd_check, cmd_collect, cmd_core, cmd_doctor, cmd_emulate;
command_fn cmd_explain, cmd_fleet, cmd_history, cmd_incidents, cmd_knowledge, cmd_last, cmd_level, cmd_live, cmd_memory;
command_fn cmd_now, cmd_packets, cmd_queues, cmd_regs, cmd_remedy, cmd_repro, cmd_rings, cmd_run, cmd_selftest, cmd_serve;
command_fn cmd_store, cmd_top, cmd_triage, cmd_try, cmd_watch, cmd_waves, cmd_where;

/** One line on stderr: `unhang: ...` */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** The same, as the end of a command; and of what says by false that it failed. */
#define refuse(...) (complain(__VA_ARGS__), EXIT_CANNOT)
#define reject(...) (complain(__VA_ARGS__), false)
/** As uh_problem_fn. */
void complain_line(void *ctx, const char *message);
/** Prints the error, frees it, and returns the exit status. */
int cannot(struct uh_error *err);
/** The same of a call that may have succeeded. */
static inline int done(struct uh_error *err) { return err ? cannot(err) : EXIT_NOTHING_WRONG; }
/** What stands behind every command: what waited too long is told, and output that did not arrive. The exit status. */
int all_said(int status);
/** What --root names, as option_row.take. NULL for `/`: this machine's driver must not be asked in the way that a tree is. */
bool take_root(void *to, const char *path);

/** libunhang-recorder.so; NULL: it is not here. */
const char *find_recorder(char room[static PATH_MAX]);
/** The library of guard and pool. */
const char *find_allocator(char room[static PATH_MAX]);
/** As option_row.take: a power of two up to a page. */
bool take_guard_align(void *to, const char *text);

static inline void session_end(struct uh_session **s)
{
	uh_session_free(*s);
	*s = NULL;
}
#define _cleanup_session_ _cleanup_(session_end)

bool terminal_colour(void);
/** Columns; 0 where nobody says. */
unsigned terminal_width(void);
/** The same of another descriptor than standard output. */
unsigned stream_width(int fd);
/** What this terminal is, for a report to a person. */
void terminal_describe(struct uh_report_options *o);
/** As uh_progress_fn, for GPUs: a line on a terminal that is overwritten, and wiped at the end. */
void show_look(void *ctx, const char *name, unsigned long long done, unsigned long long total);
