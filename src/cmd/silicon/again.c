#include "cmd/silicon/again.h"

#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/print.h"
#include "cmd/cmd.h"
#include "cmd/silicon/screen.h"

enum { COLUMNS = 80, LINES = 24 };

/** A line in which every character that is another than before is marked. */
static void mark_line(struct text *to, struct str before, struct str line, bool known, unsigned columns)
{
	bool marked = false;
	for (size_t at = 0; at < line.n && columns; columns--) {
		const size_t n = utf8_length(str_from(line, at)) ? utf8_length(str_from(line, at)) : 1;
		const struct str one = str_cut(str_from(line, at), n);
		const bool differs = known && (at + n > before.n || !str_eq(one, str_cut(str_from(before, at), n)));
		if (differs != marked)
			text_add(to, differs ? S("\033[7m") : S("\033[0m"));
		marked = differs;
		text_add(to, one);
		at += n;
	}
	if (marked)
		text_add(to, S("\033[0m"));
}

static void clock_text(char room[static 16])
{
	const time_t now = time(NULL);
	struct tm local;
	strftime(room, 16, "%H:%M:%S", localtime_r(&now, &local));
}

static void show_page(struct str before, struct str text, unsigned seconds, struct text *to)
{
	unsigned columns = COLUMNS, lines = LINES;
	const bool known = before.n;
	char now[16];
	screen_size(&columns, &lines);
	clock_text(now);
	// A line is wiped before it is written: behind one that fills it, the cursor is still on its last character.
	text_printf(to, "\033[H\033[K%s, every %u s; q ends", now, seconds);
	unsigned row = 1;
	for (; row < lines && text.n; row++) {
		text_add(to, S("\r\n\033[K"));
		mark_line(to, str_split(&before, '\n'), str_split(&text, '\n'), known, columns);
	}
	if (row < lines)
		text_add(to, S("\r\n\033[J"));
}

/** The lines that were not in the same place before. */
static void show_changes(struct str before, struct str text, struct text *to)
{
	char now[16];
	clock_text(now);
	if (!before.n) {
		text_add(to, text);
		return;
	}
	_cleanup_text_ struct text changed = { 0 };
	while (text.n) {
		const struct str line = str_split(&text, '\n');
		if (!str_eq(line, str_split(&before, '\n')))
			text_printf(&changed, STR_FMT "\n", STR_ARG(line));
	}
	text_printf(to, "-- %s%s\n", now, changed.n ? "" : ": the same");
	text_add(to, text_str(&changed));
}

struct uh_error *look_again(unsigned seconds, struct uh_error *(*look)(void *ctx, FILE *out), void *ctx)
{
	const bool full = screen_possible();
	_cleanup_text_ struct text before = { 0 }, shown = { 0 };
	struct uh_error *err = NULL;
	bool goes_on = true;
	if (full)
		screen_begin();
	while (goes_on) {
		_cleanup_free_ char *page = NULL;
		size_t n = 0;
		FILE *memory = open_memstream(&page, &n);
		err = look(ctx, memory);
		fclose(memory);
		if (err)
			break;
		const struct str now = { page, n };
		text_clear(&shown);
		if (full)
			show_page(text_str(&before), now, seconds, &shown);
		else
			show_changes(text_str(&before), now, &shown);
		print_str(stdout, text_str(&shown));
		text_clear(&before);
		text_add(&before, now);
		goes_on = print_arrived(stdout) && screen_wait(&seconds, NULL);
	}
	screen_give();
	return err;
}
