// What the subcommands share.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "unhang/unhang.h"

enum { EXIT_NOTHING_WRONG = 0, EXIT_INCIDENT = 1, EXIT_CANNOT = 2 };

static inline int verdict_status(enum uh_verdict v)
{
	return v == UH_INCIDENT ? EXIT_INCIDENT : v == UH_UNKNOWN ? EXIT_CANNOT : EXIT_NOTHING_WRONG;
}

struct subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
};

int cmd_capture(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_emulate(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_incidents(int argc, char **argv);
int cmd_knowledge(int argc, char **argv);
int cmd_last(int argc, char **argv);
int cmd_level(int argc, char **argv);
int cmd_live(int argc, char **argv);
int cmd_now(int argc, char **argv);
int cmd_queues(int argc, char **argv);
int cmd_regs(int argc, char **argv);
int cmd_remedy(int argc, char **argv);
int cmd_rings(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_waves(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_where(int argc, char **argv);

/** One line on stderr: `unhang: ...` */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** As uh_problem_fn. */
void complain_line(void *ctx, const char *message);
/** Prints the error, frees it, and returns the exit status. */
struct uh_error;
int cannot(struct uh_error *err);
/** Adds a path of a repeated option. false, with a complaint, if there are @most already. */
bool add_path(const char **list, size_t *n, size_t most, const char *option, const char *path);
/** Reads a number from 1 to @most. false, with a complaint, if it is none. */
bool parse_count(const char *option, const char *text, unsigned most, unsigned *ret);
/** What --root names. NULL for `/`: this machine's driver must not be asked in the way that a tree is. */
const char *other_root(const char *path);
/** As uh_progress_fn, for GPUs: a line on a terminal that is overwritten, and wiped at the end. */
void show_look(void *ctx, const char *name, unsigned long long done, unsigned long long total);
/** How to know a file that unhang itself wrote for an option. */
struct output_kind {
	const char *option, *begins;
	const char *has; // within its first bytes
};
/** Whether a file that the user names may be written: it is new, empty, or of this kind, and none of @inputs. false: with a complaint. */
bool output_allowed(const struct output_kind *kind, const char *path, char *const *inputs, size_t n);
/** What getopt_long() did not understand; @command NULL: of unhang itself. */
void complain_option(char **argv, int c, const char *command);

bool terminal_colour(void);
/** Columns; 0 where nobody says. */
unsigned terminal_width(void);
/** The same of another descriptor than standard output. */
unsigned stream_width(int fd);
/** What this terminal is, for a report to a person. */
void terminal_describe(struct uh_report_options *o);
