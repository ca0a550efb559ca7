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
