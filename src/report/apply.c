#include "report/apply.h"

#include "base/print.h"
#include "report/text/wrap.h"

static void put_row(const struct order_view *v, const char *label, struct str text, FILE *out)
{
	const struct row_style style = { 2, 8, v->width };
	wrap_row(out, &style, label, text, 0);
}

static void put_command(const struct order_view *v, const char *label, const struct command *c, FILE *out)
{
	const struct row_style style = { 2, 8, v->width };
	wrap_step_row(out, &style, label, c);
}

static void put_head(const struct order_view *v, FILE *out)
{
	print_safe(out, v->id);
	fputs(": ", out);
	print_safe(out, v->title); // with facts of the machine in it
	fputc('\n', out);
}

void report_order(const struct order_view *v, FILE *out)
{
	put_head(v, out);
	put_command(v, "cost", v->steps->cost, out);
	put_command(v, "risk", v->steps->risk, out);
	put_command(v, "until", v->steps->until, out);
	put_command(v, "check", v->steps->verify, out);
	put_row(v, "undo", v->undo, out);
	for (size_t n = 0; n < v->nnotes; n++)
		put_row(v, "note", v->notes[n], out);
	put_row(v, "BUT", v->but, out);
}

void report_by_hand(const struct order_view *v, FILE *out)
{
	put_head(v, out);
	for (size_t n = 0; n < v->steps->n; n++)
		put_command(v, n ? "" : "do", v->steps->list[n], out);
}

// --- files ---

static size_t common(struct str a, struct str b)
{
	size_t n = 0, line = 0;
	for (; n < a.n && n < b.n && a.p[n] == b.p[n]; n++)
		if (a.p[n] == '\n')
			line = n + 1;
	return n == a.n && n == b.n ? n : line;
}

static void put_lines(FILE *out, char mark, struct str text)
{
	while (text.n) {
		fprintf(out, "  %c ", mark);
		print_safe(out, str_split(&text, '\n'));
		fputc('\n', out);
	}
}

/** The lines that differ. */
static void put_difference(FILE *out, struct str before, struct str after)
{
	size_t front = common(before, after);
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
	put_lines(out, '-', before);
	put_lines(out, '+', after);
}

void report_file(const struct file_view *v, FILE *out)
{
	print_safe(out, v->path);
	fputs(!v->there_before && !v->there_after ? " (missing)\n" :
	      !v->there_before                    ? " (a new file)\n" :
	      !v->there_after                     ? " (to be deleted)\n" :
	      str_eq(v->before, v->after)         ? " (nothing to change)\n" :
						    "\n",
	      out);
	put_difference(out, v->before, v->there_after ? v->after : (struct str){ 0 });
}

// --- what is to go ---

void report_drop(struct str name, struct str undo, FILE *out)
{
	fprintf(out, "  " STR_FMT ": unhang set it: " STR_FMT "\n", STR_ARG(name), STR_ARG(undo));
}

void report_drop_by_hand(const struct command *what, FILE *out)
{
	fputs("  ", out);
	print_safe(out, command_str(what));
	fputc('\n', out);
}

// --- variables of one job ---

void report_profile(const char *directory, struct str id, struct str text, FILE *out)
{
	fprintf(out, "%s/" STR_FMT ".sh (and .json): variables for one job; the system is not changed\n", directory,
		STR_ARG(id));
	put_lines(out, '+', text);
}

void report_profile_written(const char *directory, struct str id, FILE *out)
{
	struct arena room = { 0 };
	struct str path = arena_printf(&room, "%s/" STR_FMT ".sh", directory, STR_ARG(id));
	const struct command *c = COMMAND_OF(&room, ". ", PIECE_PATH, path);
	fputs("written, not active until: ", out);
	print_safe(out, c ? command_str(c) : S(". the file"));
	fputs(" in the shell of the job\n", out);
	arena_free(&room);
}

void report_profile_deleted(const char *directory, struct str id, FILE *out)
{
	fprintf(out, "%s/" STR_FMT ".sh and .json (to be deleted)\n", directory, STR_ARG(id));
}

void report_rest_deleted(FILE *out) { fputs("what is left of a record that was never finished (to be deleted)\n", out); }
