// The lead picture of an incident below its first screen: only on a terminal that has room for both. The rows of the first screen are a
// timeline already.
#include "report/picture/draw.h"
#include "report/text/parts.h"

enum { SCREEN = 24, PROMPT = 2 };

void prose_picture(const struct text_report *t, const struct incident *i)
{
	const enum know_picture kind = i->cause->class->picture;
	struct picture p;
	struct text drawn = { 0 };
	if (t->options->drawing == UH_DRAW_NOTHING || kind == SHOWS_TIMELINE || !picture_make(kind, t->diagnosis, i, &p))
		return;
	picture_draw(&p, t->options->drawing == UH_DRAW_ASCII, t->width, &drawn);
	size_t lines = PROMPT;
	for (size_t n = 0; n < drawn.n; n++)
		lines += drawn.p[n] == '\n';
	if (drawn.n && SCREEN + lines <= t->options->height) {
		fprintf(t->out, "\n%s%s%s\n", prose_paint(t, "\033[1m"), picture_title(kind), prose_plain(t));
		fwrite(drawn.p, 1, drawn.n, t->out);
	}
	text_free(&drawn);
	picture_free(&p);
}
