// What a command takes, as one table. The command line is parsed by it, `--help` is printed from it, the completions of the shells ask for
// it (`unhang COMMAND --list-options`), and tests/house.py holds the man page against it. A row points at the variable that it sets, so that
// an option stands in one place: its row.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/** How the value of an option is kept. */
enum option_kind {
	OPTION_FLAG,   // bool: it was given
	OPTION_TEXT,   // const char *: as it was typed
	OPTION_COUNT,  // unsigned: from 1 to @most
	OPTION_LIST,   // const char *[@most]: it may be repeated; @count is how often it was
	OPTION_CHOICE, // int or an enum: which of its words
	OPTION_TAKE    // a function decides
};

struct option_row {
	char letter;          // 0: none
	const char *name;     // without `--`; NULL: it has a letter only
	const char *argument; // NULL: none. In brackets: it is an operand, which --help shows here; `[=WORDS]`: it may follow
	const char *help;
	enum option_kind kind;
	void *to;
	unsigned most;
	size_t *count;
	bool (*take)(void *to, const char *text); // false: behind a complaint
	const char *words;                        // what may be given, for completions, with blanks between
};

#define TO_FLAG(p)                                                                                                             \
	.kind = OPTION_FLAG, .to = (bool *) { p }
#define TO_TEXT(p)                                                                                                             \
	.kind = OPTION_TEXT, .to = (const char **) { p }
#define TO_COUNT(p, n) .kind = OPTION_COUNT, .to = (unsigned *){ p }, .most = (n)
#define TO_LIST(list, p, n) .kind = OPTION_LIST, .to = (const char **){ list }, .count = (p), .most = (n)
#define TO_CHOICE(p, these) .kind = OPTION_CHOICE, .to = (p), .words = (these)
#define TO_FUNCTION(f, p) .kind = OPTION_TAKE, .take = (f), .to = (p)

/** The row of --json, which every command has that answers. */
#define JSON_ROW(p, schema)                                                                                                    \
	{                                                                                                                      \
		0, "json", NULL, "for programs: the document of docs/" schema ".schema.json", TO_FLAG(p)                       \
	}

struct option_rows {
	const struct option_row *rows;
	size_t n;
};
#define ROWS(array) ((struct option_rows){ array, ARRAY_SIZE(array) })
#define NO_ROWS ((struct option_rows){ 0 })

/** A command. Of @usage, @about and @status a line that begins with a blank is printed as it is; others are wrapped. */
struct help_text {
	const char *name; // `level`; NULL: unhang without a command
	const char *usage, *about, *status;
	const char *between;  // what --help says before the shared ones; NULL: nothing
	const char *operands; // what completes them: FILE, COMMAND, or words; NULL: nothing
	bool stops;           // options end at the first operand, which is a command of its own
};

/** Takes the options of a command: its own, and those that it shares with others. The operands are at argv + optind. Returns only where the
 * command is to go on: behind --help or a complaint unhang has ended. */
void options_parse(const struct help_text *h, struct option_rows own, struct option_rows shared, int argc, char **argv);
/** Whether there is no operand, or none but the first @most. false: behind a complaint with @hint. */
bool operands_end(int argc, char **argv, int most, const char *hint);

/** Adds a path of a repeated option. false, with a complaint, if there are @most already. */
bool add_path(const char **list, size_t *n, size_t most, const char *option, const char *path);
