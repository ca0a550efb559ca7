// Draws pictures as SVG. Places are percentages, so that a picture is as wide as its screen and its letters stay readable; what does not
// fit on a phone is in the table below it.
#include "base/print.h"
#include "report/html/html.h"

enum { TRACK = 34, BAR = 18, AXIS = 18, TOP = 6, CELL = 22, PHONE = 320, LETTER = 7 };

// Labels near an edge begin or end at their place.
#define LEFT 0.2
#define RIGHT 0.8

static const char *const classes[LOOKS] = { [LOOK_UNKNOWN] = "k-unknown",
					    [LOOK_GOOD] = "k-good",
					    [LOOK_BAD] = "k-bad",
					    [LOOK_EFFECT] = "k-effect",
					    [LOOK_QUIET] = "k-quiet" };

static void open_shape(struct html *p, const char *shape, enum picture_look look)
{
	page_markup(p, S("<"));
	page_markup(p, str_z(shape));
	page_markup(p, S(" class=\""));
	page_markup(p, str_z(classes[look]));
	page_markup(p, S("\" "));
}

static void svg_put_title(struct html *p, struct str label)
{
	page_put(p, "><title>");
	page_clipped(p, label, 200);
	page_put(p, "</title></");
}

static void put_label(struct html *p, double at, double y, struct str label)
{
	page_numbers(p, "<text x=\"%.2f%%\" y=\"%.0f\" text-anchor=\"", at * 100, y);
	page_markup(p, at < LEFT ? S("start") : at > RIGHT ? S("end") : S("middle"));
	page_put(p, "\">");
	page_clipped(p, label, PHONE / LETTER);
	page_put(p, "</text>");
}

/** The middle of a point: those at the ends are drawn whole. */
static double point_at(const struct picture_mark *m) { return 0.015 + m->from * 0.97; }

/** @beside: a label that does not fit into it may stand beside it. */
static void put_mark(struct html *p, const struct picture_mark *m, double top, bool beside)
{
	const double wide = m->to - m->from, y = top + 14;
	if (wide > 0) {
		open_shape(p, "rect", m->look);
		page_numbers(p, "x=\"%.3f%%\" y=\"%.0f\" width=\"%.3f%%\" height=\"%d\"", m->from * 100, y, wide * 100, BAR);
		svg_put_title(p, m->label);
		page_put(p, "rect>");
	} else {
		open_shape(p, "circle", m->look);
		page_numbers(p, "cx=\"%.3f%%\" cy=\"%.0f\" r=\"6\"", point_at(m) * 100, y + BAR / 2.0);
		svg_put_title(p, m->label);
		page_put(p, "circle>");
	}
	if (wide > 0 && (double)(print_columns(m->label) * LETTER) <= wide * PHONE)
		page_numbers(p, "<text x=\"%.2f%%\" y=\"%.0f\" text-anchor=\"middle\">", (m->from + wide / 2) * 100, y + 13);
	else if (wide > 0 && beside && m->to < RIGHT)
		page_numbers(p, "<text x=\"%.2f%%\" dx=\"6\" y=\"%.0f\">", m->to * 100, y + 13);
	else if (wide > 0 && beside)
		page_numbers(p, "<text x=\"%.2f%%\" dx=\"-6\" y=\"%.0f\" text-anchor=\"end\">", m->from * 100, y + 13);
	else
		return;
	page_fill(p, "@</text>", m->label);
}

/** Where a label on a phone begins and ends, as parts of its width. */
struct label_room {
	double begin, end;
};

enum { LABELS = 12 };

/** A line of labels that do not overlap: who comes first has the room. */
struct label_line {
	struct label_room taken[LABELS];
	size_t n;
	double y;
};

static void put_free(struct html *p, struct label_line *l, struct picture_tick t)
{
	const double wide = (double)(print_columns(t.label) * LETTER) / PHONE;
	const double begin = t.at < LEFT ? t.at : t.at > RIGHT ? t.at - wide : t.at - wide / 2;
	const struct label_room room = (struct label_room){ begin, begin + wide + 0.03 };
	bool fits_here = t.label.n && l->n < LABELS;
	for (size_t m = 0; m < l->n && fits_here; m++)
		fits_here = room.begin >= l->taken[m].end || room.end <= l->taken[m].begin;
	if (!fits_here)
		return;
	l->taken[l->n++] = room;
	put_label(p, t.at, l->y, t.label);
}

/** The points of a track without a name of its own bear theirs above them: the causes first, the others as far as there is room. */
static void put_names(struct html *p, const struct picture *g, size_t track, double y)
{
	struct label_line line = { .y = y };
	for (int others = 0; others < 2 && !g->tracks.data[track].n; others++)
		for (size_t n = 0; n < g->marks.len; n++) {
			const struct picture_mark *m = &g->marks.data[n];
			if (m->track == track && m->from >= m->to && (m->look == LOOK_BAD) == !others)
				put_free(p, &line, (struct picture_tick){ point_at(m), m->label });
		}
}

/** Whether its track has no other mark. */
static bool alone(const struct picture *g, size_t n)
{
	for (size_t k = 0; k < g->marks.len; k++)
		if (k != n && g->marks.data[k].track == g->marks.data[n].track)
			return false;
	return true;
}

/** Widths are in percent and heights in pixels, so that the picture fits a phone without a script. */
static void put_tracks(struct html *p, const struct picture *g)
{
	const double height = TOP + (double)g->tracks.len * TRACK + AXIS;
	page_numbers(p, "height=\"%.0f\">", height);
	for (size_t n = 0; n < g->tracks.len; n++) {
		const double y = TOP + (double)n * TRACK;
		page_numbers(p, "<line class=\"axis\" x1=\"0\" x2=\"100%%\" y1=\"%.0f\" y2=\"%.0f\"/>", y + 14 + BAR / 2.0,
			     y + 14 + BAR / 2.0);
		put_label(p, 0, y + 10, g->tracks.data[n]);
		put_names(p, g, n, y + 10);
	}
	for (size_t n = 0; n < g->marks.len; n++)
		put_mark(p, &g->marks.data[n], TOP + (double)g->marks.data[n].track * TRACK, alone(g, n));
	for (size_t n = 0; n < g->folds.len; n++)
		put_label(p, g->folds.data[n], TOP + 14 + 13, S("//"));
	struct label_line line = { .y = height - 4 };
	for (size_t k = 0; k < g->ticks.len; k++)
		put_free(p, &line, g->ticks.data[k]);
}

/** Where rows have names, these stand before them and cells bear their labels; else cells are counted. */
static void put_cells(struct html *p, const struct picture *g)
{
	const bool named = g->tracks.len;
	const size_t rows = named ? g->tracks.len : (g->marks.len + PICTURE_CELLS_WIDE - 1) / PICTURE_CELLS_WIDE;
	const double left = named ? 30 : 0, part = (100 - left) / PICTURE_CELLS_WIDE;
	page_numbers(p, "height=\"%zu\">", rows * CELL);
	for (size_t n = 0; n < g->tracks.len; n++)
		put_label(p, 0, (double)(n * CELL + 13), g->tracks.data[n]);
	for (size_t n = 0; n < g->marks.len; n++) {
		const struct picture_mark *m = &g->marks.data[n];
		const size_t row = named ? m->track : n / PICTURE_CELLS_WIDE;
		const double at = left + (named ? m->from : (double)(n % PICTURE_CELLS_WIDE)) * part;
		open_shape(p, "rect", m->look);
		page_numbers(p, "x=\"%.2f%%\" y=\"%zu\" width=\"%.2f%%\" height=\"%d\"", at, row * CELL, part * 0.9, CELL - 4);
		svg_put_title(p, m->label);
		page_numbers(p, "rect><text class=\"small\" x=\"%.2f%%\" y=\"%zu\" text-anchor=\"middle\">", at + part * 0.45,
			     row * CELL + 13);
		if (named)
			page_text(p, m->label);
		else
			page_numbers(p, "%zu", n);
		page_put(p, "</text>");
	}
}

void html_strip(struct html_report *h, const struct picture *g)
{
	page_fill(&h->page, "<svg class=\"strip\" role=\"img\" width=\"100%\" aria-label=\"@\" ", g->says);
	put_tracks(&h->page, g);
	page_put(&h->page, "</svg>\n");
}

void html_picture(struct html_report *h, const struct picture *g)
{
	struct html *p = &h->page;
	page_fill(p, "<figure><figcaption>@</figcaption>\n", str_z(picture_title(g->kind)));
	if (g->form == PICTURE_CHAIN) {
		// A list: its lines have to wrap, which those of SVG do not.
		page_put(p, "<ol class=\"chain\">\n");
		for (size_t n = 0; n < g->marks.len; n++) {
			const struct picture_mark *m = &g->marks.data[n];
			page_put(p, "<li class=\"");
			page_markup(p, str_z(classes[m->look]));
			page_put(p, "\">");
			page_clipped(p, m->label, 400);
			page_put(p, "</li>\n");
		}
		page_put(p, "</ol>\n");
	} else {
		// Says the same as the line below it, for those who do not see it.
		page_fill(p, "<svg class=\"picture\" role=\"img\" width=\"100%\" aria-label=\"@\" ", g->says);
		if (g->form == PICTURE_CELLS)
			put_cells(p, g);
		else
			put_tracks(p, g);
		page_put(p, "</svg>\n");
	}
	// Only looks that this picture has.
	page_put(p, "<p class=\"legend\">");
	for (size_t n = 0; n < LOOKS; n++) {
		if (!g->looks[n])
			continue;
		page_put(p, "<span><svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\">");
		open_shape(p, "rect", (enum picture_look)n);
		page_fill(p, "width=\"12\" height=\"12\"/></svg> @</span> ", str_z(g->looks[n]));
	}
	page_fill(p, "</p>\n<p class=\"says\">@.</p>\n<details><summary>as table</summary>\n", g->says);
	// The same as a table: for screen readers, and to copy numbers from.
	page_fill(p, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"@, as a table\"><table><thead><tr>",
		  str_z(picture_title(g->kind)));
	for (size_t n = 0; n < g->ncolumns; n++)
		page_element(p, "th scope=\"col\"", "th", str_z(g->heads[n]));
	page_put(p, "</tr></thead><tbody>\n");
	for (size_t n = 0; n < g->cells.len; n++) {
		if (n % g->ncolumns == 0)
			page_put(p, "<tr>");
		page_element(p, "td", "td", g->cells.data[n]);
		if ((n + 1) % g->ncolumns == 0)
			page_put(p, "</tr>\n");
	}
	page_put(p, "</tbody></table></div>\n</details></figure>\n");
}

void html_pictures(struct html_report *h, const struct incident *i, enum know_picture lead)
{
	struct html *p = &h->page;
	_cleanup_text_ struct text lacks = { 0 };
	html_fold(h, "pictures", "More pictures", 0);
	for (enum know_picture kind = 0; kind < SHOWS_KINDS; kind++) {
		struct picture g;
		if (kind == lead)
			continue;
		if (picture_make(kind, h->d, i, &g)) {
			html_picture(h, &g);
			picture_free(&g);
		} else if (picture_needs(kind, i)) {
			text_printf(&lacks, "%s%s: needs %s.", lacks.n ? " " : "", picture_title(kind), picture_needs(kind, i));
		}
	}
	if (lacks.n) {
		page_fill(p, "<p class=\"missing\">Not drawn. @</p>\n", text_str(&lacks));
	}
	html_fold_end(h);
}
