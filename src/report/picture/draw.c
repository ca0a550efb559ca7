#include "report/picture/draw.h"

#include "base/print.h"

enum { INDENT = 2, LEAST = 40, MOST = 118, LANES_WIDE = 64 };

/** A letter for each look: of a bar or cell, and of a point. */
struct letters {
	const char *bar[LOOKS], *point[LOOKS];
	const char *nothing, *fold, *link;
};

static const struct letters plain = {
	.bar = { [LOOK_UNKNOWN] = "?", [LOOK_GOOD] = "#", [LOOK_BAD] = "x", [LOOK_EFFECT] = "o", [LOOK_QUIET] = "." },
	.point = { [LOOK_UNKNOWN] = "?", [LOOK_GOOD] = "#", [LOOK_BAD] = "*", [LOOK_EFFECT] = "o", [LOOK_QUIET] = "." },
	.nothing = "-",
	.fold = "/",
	.link = "^",
};
static const struct letters blocks = {
	.bar = { [LOOK_UNKNOWN] = "\u2591",
		 [LOOK_GOOD] = "\u2592",
		 [LOOK_BAD] = "\u2588",
		 [LOOK_EFFECT] = "\u2593",
		 [LOOK_QUIET] = "\u00b7" },
	.point = { [LOOK_UNKNOWN] = "\u25cc",
		   [LOOK_GOOD] = "\u25cb",
		   [LOOK_BAD] = "\u25cf",
		   [LOOK_EFFECT] = "\u25cb",
		   [LOOK_QUIET] = "\u00b7" },
	.nothing = "\u2500",
	.fold = "/",
	.link = "\u2191",
};

static void add(struct text *to, const char *z) { text_add(to, str_z(z)); }

static void indent(struct text *to, size_t n) { text_printf(to, "%*s", (int)n, ""); }

static size_t column_of(double at, size_t wide) { return (size_t)(at * (double)(wide - 1) + 0.5); }

/** The marks of one track, as a row of letters. */
static void add_track(const struct picture *p, size_t track, const struct letters *l, size_t wide, struct text *to)
{
	const char *row[MOST];
	for (size_t n = 0; n < wide; n++)
		row[n] = l->nothing;
	for (size_t k = 0; k < p->marks.len; k++) {
		const struct picture_mark *m = &p->marks.data[k];
		const bool point = m->from == m->to;
		const size_t begin = column_of(m->from, wide), end = point ? begin + 1 : column_of(m->to, wide) + (m->to >= 1);
		for (size_t n = begin; m->track == track && n < (end > begin ? end : begin + 1) && n < wide; n++)
			row[n] = point ? l->point[m->look] : l->bar[m->look];
	}
	for (size_t n = 0; n < p->folds.len && !track; n++) {
		const size_t at = column_of(p->folds.data[n], wide);
		row[at] = l->fold;
		row[at + 1 < wide ? at + 1 : at] = l->fold;
	}
	for (size_t n = 0; n < wide; n++)
		add(to, row[n]);
}

/** The label of the only mark of a track, which stands behind the row. */
static struct str label_of(const struct picture *p, size_t track)
{
	struct str label = { 0 };
	size_t n = 0;
	for (size_t k = 0; k < p->marks.len; k++) {
		if (p->marks.data[k].track != track)
			continue;
		label = p->marks.data[k].label;
		n++;
	}
	return n == 1 ? label : (struct str){ 0 };
}

/** Below the tracks: the labels of as many ticks as there is room for. */
static void add_ticks(const struct picture *p, size_t left, size_t wide, struct text *to)
{
	char line[MOST + 1];
	memset(line, ' ', sizeof(line));
	for (size_t k = 0; k < p->ticks.len; k++) {
		const struct str s = p->ticks.data[k].label;
		const size_t middle = column_of(p->ticks.data[k].at, wide);
		size_t begin = middle > s.n / 2 ? middle - s.n / 2 : 0;
		if (!s.n || s.n > wide)
			continue;
		begin = begin + s.n > wide ? wide - s.n : begin;
		bool room = true;
		for (size_t n = begin ? begin - 1 : 0; n <= begin + s.n && n < wide; n++)
			room &= line[n] == ' ';
		if (room)
			memcpy(line + begin, s.p, s.n);
	}
	size_t end = wide;
	while (end && line[end - 1] == ' ')
		end--;
	if (!end)
		return;
	indent(to, left);
	text_add_safe(to, (struct str){ line, end });
	add(to, "\n");
}

static void add_tracks(const struct picture *p, const struct letters *l, size_t width, struct text *to)
{
	size_t names = 0, labels = 0;
	for (size_t n = 0; n < p->tracks.len; n++) {
		const size_t name = print_columns(p->tracks.data[n]), label = print_columns(label_of(p, n));
		names = name > names ? name : names;
		labels = label > labels ? label : labels;
	}
	const size_t left = INDENT + names + (names > 0), right = labels + (labels > 0);
	if (width < left + right + LEAST / 2)
		return;
	const size_t wide = width - left - right < MOST ? width - left - right : MOST;
	for (size_t n = 0; n < p->tracks.len; n++) {
		const struct str label = label_of(p, n);
		indent(to, INDENT);
		text_add_safe(to, p->tracks.data[n]);
		indent(to, left - INDENT - print_columns(p->tracks.data[n]));
		add_track(p, n, l, wide, to);
		if (label.n) {
			add(to, " ");
			text_add_safe(to, label);
		}
		add(to, "\n");
	}
	add_ticks(p, left, wide, to);
}

static void add_cells(const struct picture *p, const struct letters *l, size_t width, struct text *to)
{
	const size_t wide = width >= LANES_WIDE + INDENT + 4 ? LANES_WIDE : LANES_WIDE / 2;
	for (size_t n = 0; n < p->marks.len; n++) {
		if (n % wide == 0)
			text_printf(to, "%*s%2zu ", INDENT, "", n);
		add(to, l->bar[p->marks.data[n].look]);
		if ((n + 1) % wide == 0 || n + 1 == p->marks.len)
			text_printf(to, " %zu\n", n);
	}
}

/** As much of a label as a line has room for. */
static void add_fitting(struct text *to, struct str s, size_t columns)
{
	enum { DOTS = 3 };
	struct text shown = { 0 };
	text_add_safe(&shown, s);
	size_t n = shown.n;
	if (print_columns(text_str(&shown)) > columns) {
		for (n = columns > DOTS ? columns - DOTS : 0; n && ((unsigned char)shown.p[n] & 0xc0) == 0x80;)
			n--; // not within a character
	}
	text_add(to, str_cut(text_str(&shown), n));
	add(to, n < shown.n ? "..." : "");
	text_free(&shown);
}

static void add_chain(const struct picture *p, const struct letters *l, size_t width, struct text *to)
{
	enum { DEEPEST = 12 };
	size_t deep = 0;
	for (size_t n = 0; n < p->marks.len; n++) {
		const bool stuck = p->marks.data[n].look == LOOK_BAD;
		deep = stuck ? 0 : deep < DEEPEST ? deep + 2 : deep;
		indent(to, INDENT + deep);
		add(to, stuck ? l->bar[LOOK_BAD] : l->link);
		add(to, " ");
		add_fitting(to, p->marks.data[n].label, width - INDENT - deep - 2);
		add(to, "\n");
	}
}

static void add_legend(const struct picture *p, const struct letters *l, struct text *to)
{
	bool any = false;
	for (size_t n = 0; n < LOOKS; n++) {
		if (!p->looks[n])
			continue;
		const bool point = p->kind == SHOWS_TIMELINE;
		text_printf(to, "%*s%s %s", any ? 3 : INDENT, "", point ? l->point[n] : l->bar[n], p->looks[n]);
		any = true;
	}
	add(to, any ? "\n" : "");
}

void picture_draw(const struct picture *p, bool ascii, size_t width, struct text *to)
{
	const struct letters *l = ascii ? &plain : &blocks;
	switch (p->form) {
	case PICTURE_TRACKS:
		add_tracks(p, l, width, to);
		break;
	case PICTURE_CELLS:
		add_cells(p, l, width, to);
		break;
	case PICTURE_CHAIN:
		add_chain(p, l, width, to);
		return; // its words say what it is
	}
	if (to->n)
		add_legend(p, l, to);
}
