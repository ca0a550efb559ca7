#include "report/applied.h"

#include <time.h>

#include "base/print.h"

void report_commands(FILE *out, const char *before, const struct command *const *list, size_t n)
{
	fputs(before, out);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? "; " : " ", out);
		print_safe(out, command_str(list[i]));
	}
	fputc('\n', out);
}

static struct str date_text(int64_t date, char *room, size_t size)
{
	time_t at = (time_t)date;
	struct tm tm = { 0 };
	gmtime_r(&at, &tm);
	snprintf(room, size, "%04d-%02d-%02d %02d:%02d UTC", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
		 tm.tm_min);
	return str_z(room);
}

/** @label: of each in a text. */
static void walk_texts(struct sheet *s, const char *key, const char *label, const struct str *list, size_t n)
{
	sheet_texts(s, key, list, n);
	for (size_t i = 0; i < n; i++) {
		sheet_say(s, "  %-8s", label);
		sheet_say_safe(s, "", list[i], "\n");
	}
}

void report_applied_begin(struct applied_report *r, bool as_json, FILE *out)
{
	*r = (struct applied_report){ .sheet = sheet_on(as_json, out) };
	sheet_begin(&r->sheet, "unhang/applied/1", "applied");
}

void report_applied(struct applied_report *r, const struct applied_view *v)
{
	static const struct column head[] = { { "id", .after = ": " }, { "state" }, { "since", ", since " } };
	static const struct column title[] = { { "title", "  ", .none = "" } };
	struct sheet *s = &r->sheet;
	char room[96];
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_text(v->id));
	sheet_put(s, "title", v_text(v->title));
	sheet_put(s, "state", v_word(v->state));
	sheet_put(s, "date", v_int(v->date));
	sheet_note(s, "since", v_text(date_text(v->date, room, sizeof(room))));
	sheet_put(s, "needed", v_bool(!v->needless));
	sheet_line(s, 0, COLUMNS(head));
	sheet_line(s, 0, COLUMNS(title));
	walk_texts(s, "sets", "sets", v->sets, v->nsets);
	walk_texts(s, "files", "in", v->files, v->nfiles);
	walk_texts(s, "why", "but", v->why, v->nwhy);
	if (v->needless)
		sheet_say(s, "  no longer needed with the versions here: " STR_FMT "\n", STR_ARG(v->undo));
	if (v->until && sheet_say(s, "  "))
		report_commands(s->json.out, v->until, v->commands, v->ncommands);
	sheet_commands(s, "not_active_until", v->commands, v->ncommands);
	sheet_close(s, '}');
	r->shown++;
}

void report_applied_end(struct applied_report *r)
{
	if (!r->shown)
		sheet_say(&r->sheet, "unhang has changed nothing on this machine.\n");
	sheet_end(&r->sheet);
}
