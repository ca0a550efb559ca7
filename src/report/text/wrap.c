// Lines of a terminal's width, and the sharing of the first screen's lines. Commands are kept whole: a shell that is given what stands
// here runs the same, so a line may only end in a backslash or inside a comment.
#include "report/text/wrap.h"

#include <stdlib.h>

#include "base/print.h"
#include "report/text/prose.h"

void wrap_word(struct wrapping *w, struct str word)
{
	if (w->column + 1 + word.n > (w->width ? w->width : WRAP_WIDTH) && w->column > w->margin) {
		fprintf(w->out, "\n%*s", (int)w->margin, "");
		w->column = w->margin;
	}
	fputc(' ', w->out);
	print_safe(w->out, word);
	w->column += 1 + (unsigned)word.n;
}

void wrap_row(FILE *out, const struct row_style *style, const char *label, struct str text, size_t more)
{
	const size_t indent = style->left + style->label;
	if (!text.n)
		return;
	fprintf(out, "%*s%-*s", (int)style->left, "", (int)style->label, label);
	print_wrapped(out, text, indent + more, indent, style->width ? style->width : WRAP_WIDTH);
}

/** The front of a command that a line may end behind: up to a space that no quotes hold. */
static struct str take_shell_word(struct str *s)
{
	size_t n = 0;
	char quote = 0;
	for (; n < s->n && (quote || s->p[n] != ' '); n++) {
		if (quote ? s->p[n] == quote : s->p[n] == '\'' || s->p[n] == '"')
			quote = quote ? 0 : s->p[n];
		else if (s->p[n] == '\\' && quote != '\'' && n + 1 < s->n)
			n++;
	}
	struct str word = str_cut(*s, n);
	*s = str_from(*s, n);
	while (s->n && s->p[0] == ' ')
		*s = str_from(*s, 1);
	return word;
}

/** Where a command is being written. */
struct pen {
	FILE *out; // NULL: it is only counted
	size_t indent, width, column, lines;
};

/** From the beginning of a line. */
static void write_command(struct pen *p, struct str command)
{
	bool comment = false, first = true;
	for (struct str word = take_shell_word(&command); word.n; word = take_shell_word(&command), first = false) {
		const size_t n = print_columns(word);
		const bool begins_comment = !comment && word.p[0] == '#';
		// All but the last word of a line leave room for the backslash; one that is too long for its column begins further left.
		const size_t all = n + (command.n && !comment ? 2 : 0);
		if (!first && p->column + 1 + all > p->width) {
			const size_t left = all <= p->width && p->indent + all > p->width ? p->width - all : p->indent;
			if (p->out)
				fprintf(p->out, "%s\n%*s%s", comment || begins_comment ? "" : " \\", (int)left, "",
					comment ? "# " : "");
			p->column = left + (comment ? 2 : 0);
			p->lines++;
		} else if (!first) {
			if (p->out)
				fputc(' ', p->out);
			p->column++;
		}
		comment |= begins_comment;
		if (p->out)
			print_safe(p->out, word);
		p->column += n;
	}
}

size_t wrap_command(FILE *out, struct str command, size_t indent, size_t width)
{
	struct pen p = { out, indent, width, indent, 1 };
	if (out)
		fprintf(out, "%*s", (int)indent, "");
	write_command(&p, command);
	if (out)
		fputc('\n', out);
	return p.lines;
}

/** Where the first command at or behind @s begins, with what stands before it without a space: a bracket. */
static size_t command_at(struct str s, const struct command *step)
{
	struct str run;
	for (size_t i = 0; (run = command_run(step, i)).n; i++) {
		size_t at = run.p < s.p ? s.n : (size_t)(run.p - s.p);
		while (at < s.n && at && s.p[at - 1] != ' ')
			at--;
		if (at < s.n)
			return at;
	}
	return s.n;
}

/** Up to a space outside of the commands in it. */
static struct str take_commands(struct str *s, const struct command *step)
{
	size_t n = 0;
	while (n < s->n && s->p[n] != ' ') {
		struct str run = { 0 };
		for (size_t i = 0; (run = command_run(step, i)).n && run.p != s->p + n; i++)
			;
		n += run.n ? run.n : 1;
	}
	struct str piece = str_cut(*s, n);
	*s = str_from(*s, n);
	return piece;
}

/** What stays together: a command with the brackets and the comma at it, or a word. */
static struct str take_piece(struct str *s, const struct command *step, bool *ret_command)
{
	while (s->n && s->p[0] == ' ')
		*s = str_from(*s, 1);
	const size_t at = command_at(*s, step);
	*ret_command = s->n && !at;
	if (*ret_command)
		return take_commands(s, step);
	struct str prose = str_cut(*s, at), word = print_unit(&prose);
	*s = str_from(*s, word.n ? (size_t)(word.p + word.n - s->p) : at);
	return word;
}

/** Without the comma or colon that a sentence puts behind a command. */
static struct str without_stop(struct str piece, const struct command *step)
{
	struct str run;
	for (size_t i = 0; (run = command_run(step, i)).n; i++) {
		const char *end = run.p + run.n;
		if (end == piece.p + piece.n - 1 && char_among(*end, ",;:."))
			return str_cut(piece, piece.n - 1);
	}
	return piece;
}

void wrap_step(FILE *out, const struct command *step, const struct row_style *style, size_t column)
{
	struct pen p = { out, style->left + style->label, style->width ? style->width : WRAP_WIDTH, column, 1 };
	struct str rest = command_str(step);
	bool command, first = column <= p.indent;
	for (struct str piece = take_piece(&rest, step, &command); piece.n; piece = take_piece(&rest, step, &command)) {
		const size_t n = print_columns(piece);
		// A word that is too long for its column begins further left, as in other texts.
		const size_t left = !command && n <= p.width && p.indent + n > p.width ? p.width - n : p.indent;
		if (p.column + !first + n > p.width && (!first || left < p.column)) {
			fprintf(out, "\n%*s", (int)left, "");
			p.column = left;
		} else if (!first) {
			fputc(' ', out);
			p.column++;
		}
		first = false;
		if (command && p.column + n > p.width) {
			// What is copied from several lines must be the command alone: words behind it begin a line of their own.
			write_command(&p, without_stop(piece, step));
			p.column = p.width;
			continue;
		}
		print_safe(out, piece);
		p.column += n;
	}
	fputc('\n', out);
}

void wrap_step_row(FILE *out, const struct row_style *style, const char *label, const struct command *step)
{
	if (!command_str(step).n)
		return;
	fprintf(out, "%*s%-*s", (int)style->left, "", (int)style->label, label);
	wrap_step(out, step, style, style->left + style->label);
}

// --- the first screen: its lines are shared among blocks ---

struct block *screen_add(struct screen *s, struct block p)
{
	vec_push(&s->blocks, p);
	return &s->blocks.data[s->blocks.len - 1];
}

void screen_text(const struct screen *s, struct block *p, struct str text)
{
	enum { DOTS = 3 };
	const size_t most = s->width > p->indent + 2 * DOTS ? s->width - p->indent : 2 * DOTS;
	for (struct str word = str_word(&text); word.n; word = str_word(&text)) {
		if (p->text.n)
			text_add(&p->text, S(" "));
		if (print_columns(word) <= most) {
			text_add(&p->text, word);
			continue;
		}
		size_t n = most - DOTS;
		while (n && ((unsigned char)word.p[n] & 0xc0) == 0x80) // not within a character
			n--;
		text_add(&p->text, str_cut(word, n));
		text_add(&p->text, S("..."));
	}
}

/** Where the text begins. */
static size_t first_column(const struct block *p)
{
	const size_t label = p->label ? strlen(p->label) + 1 : 0;
	if (p->stacked)
		return p->indent;
	return p->column ? p->column : label > p->indent ? label : p->label ? p->indent : 0;
}

/** Lines that it takes as it is. */
static size_t natural(const struct screen *s, const struct block *p)
{
	if (p->form == FORM_GAP)
		return 1;
	if (p->form == FORM_COMMAND)
		return wrap_command(NULL, text_str(&p->text), p->indent, s->width);
	_cleanup_text_ struct text all = { 0 };
	text_add(&all, text_str(&p->text));
	text_add(&all, text_str(&p->behind));
	return print_lines(text_str(&all), p->indent, first_column(p), s->width) + p->stacked;
}

/** What is shown of a block in so many lines. */
static struct str clip_block(const struct screen *s, const struct block *p, size_t given, bool *ret_torn)
{
	const struct print_room room = {
		p->indent, first_column(p), s->width, given - p->stacked, print_columns(text_str(&p->behind)),
		p->kept,   p->advice
	};
	return print_clip(text_str(&p->text), &room, ret_torn);
}

/** Whether a sentence of the block breaks off in so many lines. */
static bool is_torn(const struct screen *s, const struct block *p, size_t given)
{
	bool torn = false;
	if (p->form == FORM_TEXT)
		clip_block(s, p, given, &torn);
	return torn;
}

/** Takes a line from the block that has most; of several the last, which matters least. @whole: only from one that can do without it,
 *  and not from the headline. */
static bool wrap_take_line(struct screen *s, bool whole)
{
	struct block *from = NULL;
	for (size_t n = 0; n < s->blocks.len; n++) {
		struct block *p = &s->blocks.data[n];
		const size_t text = p->given - p->stacked;
		if (p->form == FORM_TEXT && !p->fixed && text > 1 && (!from || text >= from->given - from->stacked) &&
		    !(whole && (p->whole || is_torn(s, p, p->given - 1))))
			from = p;
	}
	if (from)
		from->given--;
	return from;
}

/** Leaves a block out; what stands behind a spare one is said by the one before. Returns the lines that this saves. */
static size_t spare_block(struct screen *s, size_t n)
{
	struct block *p = &s->blocks.data[n], *before = n ? p - 1 : NULL;
	size_t saved = p->given;
	p->given = p->most = 0;
	if (before && p->spare && p->behind.n) {
		saved += before->given;
		text_add(&before->text, text_str(&p->behind));
		before->given = before->most = natural(s, before);
		saved -= before->given;
	}
	return saved;
}

/** Leaves out what others can say instead, or what goes first. Returns the lines that this saves. */
static size_t take_yielding(struct screen *s)
{
	size_t found = s->blocks.len;
	for (size_t n = 0; n < s->blocks.len; n++) {
		const struct block *p = &s->blocks.data[n];
		if (p->given && (p->yields || (p->spare && p->behind.n)))
			found = n;
	}
	if (found == s->blocks.len)
		return 0;
	// A command goes with the sentence that announces it.
	const bool announced = found && s->blocks.data[found].form == FORM_COMMAND && s->blocks.data[found - 1].yields;
	return spare_block(s, found) + (announced ? spare_block(s, found - 1) : 0);
}

/** Leaves out the last advice that is not the first: one more is worth less than a sentence that does not break off. */
static size_t take_advice(struct screen *s)
{
	for (size_t n = s->blocks.len; n-- > 1;) {
		const struct block *p = &s->blocks.data[n];
		if (p->given && p->advice && p->label && !*p->label)
			return spare_block(s, n);
	}
	return 0;
}

/** Lines that can be had without a sentence that breaks off. */
static size_t screen_make_room(struct screen *s)
{
	const size_t saved = take_yielding(s);
	return saved ? saved : wrap_take_line(s, true) ? 1 : take_advice(s);
}

/** Gives a line to each block whose sentence breaks off, as long as there are lines, or others can do without one. */
static size_t mend_torn(struct screen *s, size_t used, size_t lines)
{
	for (size_t n = 0; n < s->blocks.len; n++) {
		struct block *p = &s->blocks.data[n];
		while (p->given < p->most && is_torn(s, p, p->given)) {
			p->given++;
			const size_t saved = used < lines ? 0 : screen_make_room(s);
			if (used >= lines && !saved) {
				p->given--;
				break;
			}
			used = used + 1 - saved;
		}
	}
	return used;
}

/** A block, cut to the lines that it was given; what stands behind its text, the place in the evidence, is kept in any case. */
static void write_block(const struct screen *s, const struct block *p)
{
	const size_t column = first_column(p);
	bool torn;
	if (p->form == FORM_GAP) {
		fputc('\n', s->out);
		return;
	}
	if (p->form == FORM_COMMAND) {
		wrap_command(s->out, text_str(&p->text), p->indent, s->width);
		return;
	}
	_cleanup_text_ struct text line = { 0 };
	const struct str all = text_str(&p->text), shown = clip_block(s, p, p->given, &torn);
	text_add(&line, shown);
	if (torn)
		text_add(&line, S(" ..."));
	else if (shown.n < all.n && str_ends(all, S(".")) && !str_ends(shown, S(".")))
		text_add(&line, S("."));
	text_add(&line, text_str(&p->behind));
	const char *paint = !s->colour ? "" : p->paint ? p->paint : "\033[1m", *plain = s->colour ? "\033[0m" : "";
	const size_t lead = print_columns(text_str(&p->lead));
	print_safe(s->out, text_str(&p->lead));
	if (p->label)
		fprintf(s->out, "%s%-*s%s", paint, p->stacked ? 0 : (int)(column - lead), p->label, plain);
	else if (p->whole)
		fprintf(s->out, "%s", paint);
	if (p->stacked)
		fprintf(s->out, "\n%*s", (int)p->indent, "");
	print_wrapped(s->out, text_str(&line), p->indent, column, s->width);
	if (p->whole && s->colour)
		fputs("\033[0m", s->out);
}

void screen_write(struct screen *s, size_t lines)
{
	// Each block gets what it needs, then, in their order, what it may have of what is left, a line at a time.
	size_t used = 0, wanted = 0;
	for (size_t n = 0; n < s->blocks.len; n++) {
		struct block *p = &s->blocks.data[n];
		const size_t all = natural(s, p);
		p->most = p->form == FORM_TEXT && p->most + p->stacked < all ? p->most + p->stacked : all;
		p->given = p->form == FORM_TEXT && p->least + p->stacked < p->most ? p->least + p->stacked : p->most;
		used += p->given;
		wanted += p->most;
	}
	for (size_t n = 0; n < s->blocks.len && wanted > lines; n++)
		if (s->blocks.data[n].spare && !s->blocks.data[n].behind.n)
			used -= spare_block(s, n);
	for (size_t saved = 1; used > lines && saved; used -= saved) {
		saved = screen_make_room(s);
		if (!saved)
			saved = wrap_take_line(s, false);
	}
	used = mend_torn(s, used, lines);
	for (bool more = true; more && used < lines;) {
		more = false;
		for (size_t n = 0; n < s->blocks.len && used < lines; n++) {
			struct block *p = &s->blocks.data[n];
			if (p->given < p->most) {
				p->given++;
				used++;
				more = true;
			}
		}
	}
	for (size_t n = 0; n < s->blocks.len; n++) {
		struct block *p = &s->blocks.data[n];
		if (p->given)
			write_block(s, p);
		text_free(&p->lead);
		text_free(&p->text);
		text_free(&p->behind);
	}
	vec_free(&s->blocks);
}
