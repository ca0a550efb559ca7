// What changes of the system look like: before they are made (so that the user can say no), as they are listed later, and the smoke
// test of the GPUs. Titles and files hold facts of the machine, so all that is no word of this program goes through
// print_safe().
#include "report/apply.h"

#include <time.h>

#include "base/print.h"
#include "report/text/wrap.h"

/** One line: what is put into it may hold anything. */
static void say_safe(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say_safe(FILE *out, const char *format, ...)
{
	_cleanup_text_ struct text line = { 0 };
	va_list ap;
	va_start(ap, format);
	text_vprintf(&line, format, ap);
	va_end(ap);
	print_safe(out, text_str(&line));
	fputc('\n', out);
}

void report_order(const struct order_view *v, FILE *out)
{
	const struct row_style style = { 2, 8, v->width };
	say_safe(out, STR_FMT ": " STR_FMT, STR_ARG(v->id), STR_ARG(v->title));
	wrap_step_row(out, &style, "cost", v->steps->cost);
	wrap_step_row(out, &style, "risk", v->steps->risk);
	wrap_step_row(out, &style, "until", v->steps->until);
	wrap_step_row(out, &style, "check", v->steps->verify);
	wrap_row(out, &style, "undo", v->undo, 0);
	for (size_t n = 0; n < v->nnotes; n++)
		wrap_row(out, &style, "note", v->notes[n], 0);
	wrap_row(out, &style, "BUT", v->but, 0);
}

void report_by_hand(const struct order_view *v, FILE *out)
{
	const struct row_style style = { 2, 8, v->width };
	say_safe(out, STR_FMT ": " STR_FMT, STR_ARG(v->id), STR_ARG(v->title));
	for (size_t n = 0; n < v->steps->n; n++)
		wrap_step_row(out, &style, n ? "" : "do", v->steps->list[n]);
}

// --- files ---

static void report_apply_put_lines(FILE *out, char mark, struct str text)
{
	for (struct str line; text.n;) {
		line = str_split(&text, '\n');
		say_safe(out, "  %c " STR_FMT, mark, STR_ARG(line));
	}
}

void report_file_change(const struct file_view *v, FILE *out)
{
	print_safe(out, v->path);
	fputs(!v->there_before && !v->there_after ? " (missing)\n" :
	      !v->there_before                    ? " (a new file)\n" :
	      !v->there_after                     ? " (to be deleted)\n" :
	      str_eq(v->before, v->after)         ? " (nothing to change)\n" :
						    "\n",
	      out);
	// The lines that differ.
	struct str before = v->before;
	struct str after = v->there_after ? v->after : (struct str){ 0 };
	// The lines that both begin with. A line that differs in its end differs.
	size_t n = 0, line = 0;
	for (; n < before.n && n < after.n && before.p[n] == after.p[n]; n++)
		if (before.p[n] == '\n')
			line = n + 1;
	size_t front = n == before.n && n == after.n ? n : line;
	before = str_from(before, front);
	after = str_from(after, front);
	while (before.n && after.n) {
		size_t b = before.n - 1, a = after.n - 1;
		while (b && before.p[b - 1] != '\n')
			b--;
		while (a && after.p[a - 1] != '\n')
			a--;
		if (!str_eq(str_from(before, b), str_from(after, a)))
			break;
		before.n = b;
		after.n = a;
	}
	report_apply_put_lines(out, '-', before);
	report_apply_put_lines(out, '+', after);
}

// --- what is to go ---

void report_drop(struct str name, struct str undo, FILE *out)
{
	say_safe(out, "  " STR_FMT ": unhang set it: " STR_FMT, STR_ARG(name), STR_ARG(undo));
}

void report_drop_by_hand(const struct command *what, FILE *out) { say_safe(out, "  " STR_FMT, STR_ARG(command_str(what))); }

// --- variables of one job ---

void report_profile(const char *directory, struct str id, struct str text, FILE *out)
{
	say_safe(out, "%s/" STR_FMT ".sh (and .json): variables for one job; the system is not changed", directory,
		 STR_ARG(id));
	report_apply_put_lines(out, '+', text);
}

void report_profile_written(const char *directory, struct str id, FILE *out)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct str path = arena_printf(&room, "%s/" STR_FMT ".sh", directory, STR_ARG(id));
	const struct command *c = COMMAND_OF(&room, ". ", PIECE_PATH, path);
	say_safe(out, "written, not active until: " STR_FMT " in the shell of the job",
		 STR_ARG(c ? command_str(c) : S(". the file")));
}

void report_profile_deleted(const char *directory, struct str id, FILE *out)
{
	say_safe(out, "%s/" STR_FMT ".sh and .json (to be deleted)", directory, STR_ARG(id));
}

void report_rest_deleted(FILE *out) { fputs("what is left of a record that was never finished (to be deleted)\n", out); }

// --- changes that were made ---

void report_commands(FILE *out, const char *before, const struct command *const *list, size_t n)
{
	fputs(before, out);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? "; " : " ", out);
		print_safe(out, command_str(list[i]));
	}
	fputc('\n', out);
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
	struct sheet *s = &r->sheet;
	const time_t date = (time_t)v->date;
	struct tm tm = { 0 };
	char since[96];
	strftime(since, sizeof(since), "%Y-%m-%d %H:%M UTC", gmtime_r(&date, &tm) ? &tm : &(struct tm){ 0 });
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "id", v_text(v->id) }, { "title", v_text(v->title) }, { "state", v_word(v->state) },
		     { "date", v_int(v->date) }, { "since", v_word(since), TEXT_ONLY }, { "needed", v_bool(!v->needless) });
	sheet_line(s, 0, COLUMNS_OF({ "id", .after = ": " }, { "state" }, { "since", ", since " }));
	sheet_line(s, 0, COLUMNS_OF({ "title", "  ", .none = "" }));
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

// --- the smoke test ---

enum { LATER_LINES = 14 };

void report_smoke_begin(struct smoke_report *r) { sheet_begin(&r->sheet, "unhang/smoke/1", "gpus"); }

void report_smoke(struct smoke_report *r, const struct smoke_view *v)
{
	struct sheet *s = &r->sheet;
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "pci", v_text(v->device->pci) }, { "name", v_known(v->device->name), TEXT_ONLY },
		     { "result", v_word(v->result) }, { "step", v_known(v->step) }, { "error", v_known(v->error) },
		     { "library", v_known(v->library) }, { "milliseconds", v_int(v->milliseconds) },
		     { "text", v_text(v->text) });
	sheet_list(s, COLUMNS_OF({ "pci", ", " }, { "name", "  ", .none = "AMD GPU" }, { "text", ": ", .none = "" }),
		   (struct row_style){ 0, LATER_LINES, r->width ? r->width : WRAP_WIDTH });
	sheet_close(s, '}');
	fflush(s->json.out);
}

void report_smoke_end(struct smoke_report *r) { sheet_end(&r->sheet); }
