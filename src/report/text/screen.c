#include <stdlib.h>

#include "report/text/screen.h"

#include "base/print.h"
#include "report/text/wrap.h"

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
	const size_t label = p->label ? strlen(p->label) + 2 : 0;
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
	struct text all = { 0 };
	text_add(&all, text_str(&p->text));
	text_add(&all, text_str(&p->behind));
	const size_t n = print_lines(text_str(&all), p->indent, first_column(p), s->width) + p->stacked;
	text_free(&all);
	return n;
}

/** Takes a line from the block that has most; of several the last, which matters least. */
static bool take_line(struct screen *s)
{
	struct block *from = NULL;
	for (size_t n = 0; n < s->blocks.len; n++) {
		struct block *p = &s->blocks.data[n];
		const size_t text = p->given - p->stacked;
		if (p->form == FORM_TEXT && text > 1 && (!from || text >= from->given - from->stacked))
			from = p;
	}
	if (from)
		from->given--;
	return from;
}

/** Each block gets what it needs, then, in their order, what it may have of what is left, a line at a time. */
static void share(struct screen *s, size_t lines)
{
	size_t used = 0;
	for (size_t n = 0; n < s->blocks.len; n++) {
		struct block *p = &s->blocks.data[n];
		const size_t all = natural(s, p);
		p->most = p->form == FORM_TEXT && p->most + p->stacked < all ? p->most + p->stacked : all;
		p->given = p->form == FORM_TEXT && p->least + p->stacked < p->most ? p->least + p->stacked : p->most;
		used += p->given;
	}
	while (used > lines && take_line(s))
		used--;
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
}

static void write_label(const struct screen *s, const struct block *p, size_t column)
{
	const char *paint = !s->colour ? "" : p->paint ? p->paint : "\033[1m", *plain = s->colour ? "\033[0m" : "";
	const size_t lead = print_columns(text_str(&p->lead));
	print_safe(s->out, text_str(&p->lead));
	if (p->label)
		fprintf(s->out, "%s%-*s%s", paint, p->stacked ? 0 : (int)(column - lead), p->label, plain);
	else if (p->whole)
		fprintf(s->out, "%s", paint);
	if (p->stacked)
		fprintf(s->out, "\n%*s", (int)p->indent, "");
}

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
	const struct print_room room = { p->indent, column, s->width, p->given - p->stacked,
					 print_columns(text_str(&p->behind)) };
	struct text line = { 0 };
	const struct str all = text_str(&p->text), shown = print_clip(all, &room, &torn);
	text_add(&line, shown);
	if (torn)
		text_add(&line, S(" ..."));
	else if (shown.n < all.n && str_ends(all, S(".")) && !str_ends(shown, S(".")))
		text_add(&line, S("."));
	text_add(&line, text_str(&p->behind));
	write_label(s, p, column);
	print_wrapped(s->out, text_str(&line), p->indent, column, s->width);
	if (p->whole && s->colour)
		fputs("\033[0m", s->out);
	text_free(&line);
}

void screen_write(struct screen *s, size_t lines)
{
	share(s, lines);
	for (size_t n = 0; n < s->blocks.len; n++) {
		struct block *p = &s->blocks.data[n];
		write_block(s, p);
		text_free(&p->lead);
		text_free(&p->text);
		text_free(&p->behind);
	}
	vec_free(&s->blocks);
}
