// Options by their table: taken with getopt_long(), shown by --help, and listed for the completions.
#include "cmd/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "cmd/cmd.h"

// A value of getopt_long() for a row is its place in the table; letters have values of their own.
enum { ROWS_MOST = 64, FIRST = 256, HELP_WIDTH = 80, LEFT_MOST = 26 };

static const struct option_row help_row = { 'h', "help", NULL, "show this text" };

/** The options of a command, and --help behind them. */
struct option_list {
	const struct option_row *rows[ROWS_MOST], *shared; // shared: the first of those
	size_t n;
};

/** Whether a value may follow, behind `=` only. */
static bool row_may_have_value(const struct option_row *row) { return row->argument && !strncmp(row->argument, "[=", 2); }
static bool row_has_value(const struct option_row *row) { return row->argument && row->argument[0] != '['; }

/** `-b, --boot N`. */
static struct str left_side(const struct option_row *row, struct text *room)
{
	room->n = 0;
	text_printf(room, "  ");
	if (row->letter)
		text_printf(room, row->name ? "-%c, " : "-%c", row->letter);
	if (row->name)
		text_printf(room, "--%s", row->name);
	if (row->argument)
		text_printf(room, "%s%s", row_may_have_value(row) ? "" : " ", row->argument);
	return text_str(room);
}

/** Text for people: each line is wrapped, but one that begins with a blank is printed as it is. */
static void print_prose(const char *text)
{
	struct str rest = str_z(text);
	while (rest.n) {
		struct str line = str_split(&rest, '\n');
		if (line.n && line.p[0] != ' ')
			print_wrapped(stdout, line, 0, 0, HELP_WIDTH);
		else
			printf(STR_FMT "\n", STR_ARG(line));
	}
}

/** What --help prints. */
static void print_help(const struct help_text *h, const struct option_list *l)
{
	_cleanup_text_ struct text room = { 0 };
	size_t column = 0;
	for (size_t i = 0; i < l->n; i++) {
		const size_t wide = left_side(l->rows[i], &room).n;
		column = wide > column && wide <= LEFT_MOST ? wide : column;
	}
	column += 2;
	printf("usage: %s\n\n", h->usage);
	print_prose(h->about);
	putchar('\n');
	for (size_t i = 0; i < l->n; i++) {
		const struct str left = left_side(l->rows[i], &room);
		if (h->between && l->rows[i] == l->shared)
			printf("\n%s\n", h->between);
		printf(STR_FMT "%*s", STR_ARG(left), left.n + 2 <= column ? (int)(column - left.n) : 0, "");
		if (left.n + 2 > column)
			printf("\n%*s", (int)column, "");
		print_wrapped(stdout, str_z(l->rows[i]->help), column, column, HELP_WIDTH);
	}
	if (h->status) {
		putchar('\n');
		print_prose(h->status);
	}
}

/** What completes a value: FILE, DIR, words, or nothing. */
static const char *completed_by(const struct option_row *row)
{
	static const char *const files[] = { "FILE", "PATH", "BUNDLE", "GLOB", "TARGET" };
	if (row->words || !row_has_value(row))
		return row->words ? row->words : "";
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (!strcmp(row->argument, files[i]))
			return "FILE";
	return strcmp(row->argument, "DIR") ? "" : "DIR";
}

/** For completions: a line for each option with tabs between its names, its argument, what completes that, and its help; and one without a
 * name for the operands. */
static void print_list(const struct help_text *h, const struct option_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct option_row *row = l->rows[i];
		printf(row->name ? "--%s\t" : "\t", row->name);
		printf(row->letter ? "-%c\t" : "\t", row->letter);
		printf("%s\t%s\t%s\n", row_has_value(row) ? row->argument : "", completed_by(row), row->help);
	}
	printf("\t\t\t%s\t\n", h->operands ? h->operands : "");
}

bool add_path(const char **list, size_t *n, size_t most, const char *option, const char *path)
{
	if (*n == most)
		return reject("more than %zu times %s", most, option);
	list[(*n)++] = path;
	return true;
}

/** Which of the words it is. */
static bool take_choice(const struct option_row *row, const char *text)
{
	struct str rest = str_z(row->words);
	_cleanup_text_ struct text list = { 0 };
	for (int i = 0; rest.n; i++) {
		const struct str word = str_split(&rest, ' ');
		if (str_is(word, text)) {
			*(int *)row->to = i;
			return true;
		}
		text_printf(&list, "%s" STR_FMT, !i ? "" : rest.n ? ", " : " or ", STR_ARG(word));
	}
	return reject("--%s needs %s, not '%s'", row->name, list.p, text);
}

/** Keeps the value of an option. false: behind a complaint. */
static bool option_take(const struct option_row *row, const char *text)
{
	_cleanup_text_ struct text name = { 0 };
	int64_t n;
	switch (row->kind) {
	case OPTION_FLAG:
		return *(bool *)row->to = true;
	case OPTION_TEXT:
		*(const char **)row->to = text;
		return true;
	case OPTION_COUNT:
		if (!str_number(str_z(text), &n) || n < 1 || n > row->most)
			return reject("--%s needs a number from 1 to %u, not '%s'", row->name, row->most, text);
		*(unsigned *)row->to = (unsigned)n;
		return true;
	case OPTION_LIST:
		text_printf(&name, "--%s", row->name);
		return add_path(row->to, row->count, row->most, name.p, text);
	case OPTION_CHOICE:
		return take_choice(row, text);
	case OPTION_TAKE:
		return row->take(row->to, text);
	}
	return false;
}

/** What getopt_long() did not understand. */
static int complain_option(const struct help_text *h, char **argv, int got)
{
	const char *space = h->name ? " " : "", *name = h->name ? h->name : "";
	if (got == '?' && optopt && strncmp(argv[optind - 1], "--", 2))
		return refuse("there is no option '-%c'; unhang%s%s --help lists the options", optopt, space, name);
	return refuse("%s '%s'; unhang%s%s --help lists the options",
		      got == ':' ? "a value is missing after" : "there is no option", argv[optind - 1], space, name);
}

/** -1: go on; else the exit status. */
static int options_take(const struct help_text *h, struct option_rows own, struct option_rows shared, int argc, char **argv)
{
	struct option_list l;
	struct option longs[ROWS_MOST + 1] = { 0 };
	char letters[2 * ROWS_MOST + 3];
	l.n = 0;
	l.shared = shared.rows;
	for (size_t i = 0; i < own.n && l.n < ROWS_MOST - 1; i++)
		l.rows[l.n++] = &own.rows[i];
	for (size_t i = 0; i < shared.n && l.n < ROWS_MOST - 1; i++)
		l.rows[l.n++] = &shared.rows[i];
	l.rows[l.n++] = &help_row;
	size_t nlongs = 0, nletters = (size_t)sprintf(letters, h->stops ? "+:" : ":");
	for (size_t i = 0; i < l.n; i++) {
		const int value = row_has_value(l.rows[i])      ? required_argument :
				  row_may_have_value(l.rows[i]) ? optional_argument :
								  no_argument;
		if (l.rows[i]->name)
			longs[nlongs++] = (struct option){ l.rows[i]->name, value, NULL, FIRST + (int)i };
		if (l.rows[i]->letter)
			nletters += (size_t)sprintf(letters + nletters, value == no_argument ? "%c" : "%c:", l.rows[i]->letter);
	}
	if (argc == 2 && !strcmp(argv[1], "--list-options")) {
		print_list(h, &l);
		return EXIT_NOTHING_WRONG;
	}
	opterr = 0;
	for (int got; (got = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
		const struct option_row *row = got >= FIRST ? l.rows[got - FIRST] : NULL;
		for (size_t i = 0; !row && i < l.n && got != '?' && got != ':'; i++)
			row = l.rows[i]->letter == got ? l.rows[i] : NULL;
		if (!row)
			return complain_option(h, argv, got);
		if (row == &help_row) {
			print_help(h, &l);
			return EXIT_NOTHING_WRONG;
		}
		if (!option_take(row, optarg))
			return EXIT_CANNOT;
	}
	return -1;
}

void options_parse(const struct help_text *h, struct option_rows own, struct option_rows shared, int argc, char **argv)
{
	const int status = options_take(h, own, shared, argc, argv);
	if (status >= 0)
		exit(all_said(status));
}

bool operands_end(int argc, char **argv, int most, const char *hint)
{
	if (argc - optind <= most)
		return true;
	return reject("what is '%s'? %s", argv[optind + most], hint);
}
