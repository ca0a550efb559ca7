#include "report/text/wrap.h"

#include "base/print.h"

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

size_t wrap_command(FILE *out, struct str command, size_t indent, size_t width)
{
	size_t lines = 1, column = 0;
	bool comment = false;
	if (out)
		fprintf(out, "%*s", (int)indent, "");
	for (struct str word = take_shell_word(&command); word.n; word = take_shell_word(&command)) {
		const size_t n = print_columns(word);
		const bool begins_comment = !comment && word.p[0] == '#';
		// All but the last word of a line leave room for the backslash.
		if (column && (indent + column + 1 + n + (command.n && !comment ? 2 : 0) > width)) {
			if (out)
				fprintf(out, "%s\n%*s%s", comment || begins_comment ? "" : " \\", (int)indent, "",
					comment ? "# " : "");
			column = comment ? 2 : 0;
			lines++;
		} else if (column) {
			if (out)
				fputc(' ', out);
			column++;
		}
		comment |= begins_comment;
		if (out)
			print_safe(out, word);
		column += n;
	}
	if (out)
		fputc('\n', out);
	return lines;
}
