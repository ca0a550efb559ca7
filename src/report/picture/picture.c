// Pictures of an incident: their table of kinds, the scale that folds what is empty, and the drawing in letters for a terminal. HTML
// draws the same pictures (html/svg.c), so what a picture shows is decided once.
#include "report/picture/picture.h"

#include <stdlib.h>

#include "base/print.h"

/** In the order of enum know_picture. */
static const struct {
	const char *title, *needs;
	const char *from; // kind of evidence that has what it needs, if any has; NULL: not one kind alone
	bool (*make)(const struct diagnosis *d, const struct incident *i, struct picture *p);
} kinds[] = {
	[SHOWS_TIMELINE] = { "What happened when", "times of several events", NULL, picture_of_timeline },
	[SHOWS_ADDRESSES] = { "Addresses around the fault", "a map of the program's memory (a GPU core, or a recording)",
			      "gpu-core", picture_of_addresses },
	[SHOWS_WAITS] = { "What waits for what", "a look at the hung GPU (sudo unhang), or its device core", "devcoredump",
			  picture_of_waits },
	[SHOWS_LANES] = { "The lanes of the wave that stopped", "a wave dump with registers", "debug-agent", picture_of_lanes },
	[SHOWS_RANKS] = { "The ranks of the job", "reports of several ranks", NULL, picture_of_ranks },
	[SHOWS_CHIP] = { "The chip", "a look at the hung GPU with its waves (sudo unhang)", NULL, picture_of_chip },
	[SHOWS_QUEUES] = { "How far queues and rings are", "a look at the GPU (sudo unhang), or a core", "gpu-core",
			   picture_of_queues },
};

const char *picture_title(enum know_picture kind) { return kinds[kind].title; }

const char *picture_needs(enum know_picture kind, const struct incident *i)
{
	for (size_t n = 0; kinds[kind].from && n < i->nevidence; n++)
		if (str_is(i->evidence[n], kinds[kind].from))
			return NULL;
	return kinds[kind].needs;
}

bool picture_make(enum know_picture kind, const struct diagnosis *d, const struct incident *i, struct picture *ret)
{
	*ret = (struct picture){ .kind = kind };
	if (kinds[kind].make(d, i, ret))
		return true;
	picture_free(ret);
	return false;
}

void picture_free(struct picture *p)
{
	vec_free(&p->tracks);
	vec_free(&p->marks);
	vec_free(&p->ticks);
	vec_free(&p->folds);
	vec_free(&p->cells);
	arena_free(&p->arena);
}

void picture_set_heads(struct picture *p, const char *const *heads, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p->heads[i] = heads[i];
	p->ncolumns = n;
}

void picture_add_cells(struct picture *p, const struct str *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		vec_push(&p->cells, arena_str(&p->arena, list[i]));
}

struct str picture_count(struct picture *p, int64_t n) { return n < 0 ? S("") : arena_printf(&p->arena, "%lld", (long long)n); }

void picture_track(struct picture *p, struct str label) { vec_push(&p->tracks, arena_str(&p->arena, label)); }

void picture_mark(struct picture *p, struct picture_mark m)
{
	m.label = arena_str(&p->arena, m.label);
	vec_push(&p->marks, m);
}

void picture_tick(struct picture *p, double at, struct str label)
{
	const struct picture_tick t = { at, arena_str(&p->arena, label) };
	vec_push(&p->ticks, t);
}

// Times and addresses lie far apart where nothing happens. Such gaps are folded; the rest is to scale.
#define FOLD_WIDTH 0.06 // of a gap that is left out
#define SPAN_LEAST 0.02 // of what is there, however small
#define GAP_MOST 0.5    // of the whole, for a gap

void scale_add(struct scale *s, double value) { vec_push(&s->values, value); }

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static bool is_gap(double begin, double end, const struct scale_span *spans, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (spans[i].begin < end && spans[i].end > begin)
			return false;
	return true;
}

/** The largest gap that is not folded; SIZE_MAX: there is none. */
static size_t largest(const struct scale *s, const double *wide)
{
	size_t best = SIZE_MAX;
	for (size_t i = 0; i + 1 < s->values.len; i++)
		if (s->gap.data[i] && wide[i] > 0 && (best == SIZE_MAX || wide[i] > wide[best]))
			best = i;
	return best;
}

/** Sets the width of gaps that take too much to 0. Returns the sum of the others; *@ret_folded were folded. Beside what is there a gap may be
 * as long as all of it. Where there are points only, half of the whole, and most gaps stay: else a moment would look like the whole story. */
static double fold(const struct scale *s, double *wide, size_t *ret_folded)
{
	double sum = 0, there = 0;
	*ret_folded = 0;
	for (size_t i = 0; i + 1 < s->values.len; i++) {
		sum += wide[i] = s->values.data[i + 1] - s->values.data[i];
		there += s->gap.data[i] ? 0 : wide[i];
	}
	for (size_t i = largest(s, wide); i != SIZE_MAX && wide[i] < sum; i = largest(s, wide)) {
		if (there > 0 ? wide[i] <= there : wide[i] <= GAP_MOST * sum || 2 * (*ret_folded + 1) >= s->values.len)
			break;
		sum -= wide[i];
		wide[i] = 0;
		++*ret_folded;
	}
	return sum;
}

void scale_ready(struct scale *s, const struct scale_span *spans, size_t n, struct picture *p)
{
	size_t len = 0, folded;
	if (!s->values.len)
		return;
	qsort(s->values.data, s->values.len, sizeof(s->values.data[0]), by_value);
	for (size_t i = 0; i < s->values.len; i++)
		if (!len || s->values.data[i] > s->values.data[len - 1])
			s->values.data[len++] = s->values.data[i];
	s->values.len = len;
	for (size_t i = 0; i + 1 < len; i++)
		vec_push(&s->gap, is_gap(s->values.data[i], s->values.data[i + 1], spans, n));
	_cleanup_free_ double *wide = mem_alloc(len * sizeof(*wide));
	double at = 0, all = 0;
	const double sum = fold(s, wide, &folded);
	for (size_t i = 0; i + 1 < len; i++) {
		wide[i] = wide[i] > 0 ? wide[i] / sum : FOLD_WIDTH;
		wide[i] = !s->gap.data[i] && wide[i] < SPAN_LEAST ? SPAN_LEAST : wide[i];
		all += wide[i];
	}
	vec_push(&s->at, 0.0);
	for (size_t i = 0; i + 1 < len; i++) {
		at += wide[i] / all;
		vec_push(&s->at, at);
	}
	// A gap that was folded has the fixed width; where it stands is marked.
	for (size_t i = 0; i + 1 < len && folded; i++)
		if (s->gap.data[i] && wide[i] == FOLD_WIDTH)
			vec_push(&p->folds, (s->at.data[i] + s->at.data[i + 1]) / 2);
}

double scale_at(const struct scale *s, double value)
{
	for (size_t i = 0; i + 1 < s->values.len; i++) {
		const double begin = s->values.data[i], end = s->values.data[i + 1];
		if (value <= end)
			return value <= begin ?
				       s->at.data[i] :
				       s->at.data[i] + (value - begin) / (end - begin) * (s->at.data[i + 1] - s->at.data[i]);
	}
	return s->values.len > 1 ? 1 : 0.5;
}

void scale_free(struct scale *s)
{
	vec_free(&s->values);
	vec_free(&s->gap);
	vec_free(&s->at);
}

// --- in letters ---

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

static void picture_add(struct text *to, const char *z) { text_add(to, str_z(z)); }

static void picture_indent(struct text *to, size_t n) { text_printf(to, "%*s", (int)n, ""); }

static size_t column_of(double at, size_t wide) { return (size_t)(at * (double)(wide - 1) + 0.5); }

/** The marks of one track, as a row of letters. */
static void picture_add_track(const struct picture *p, size_t track, const struct letters *l, size_t wide, struct text *to)
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
		picture_add(to, row[n]);
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
	picture_indent(to, left);
	text_add_safe(to, (struct str){ line, end });
	picture_add(to, "\n");
}

/** A row of letters for each track. Nothing is drawn where the terminal is too narrow for it to mean anything. */
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
		picture_indent(to, INDENT);
		text_add_safe(to, p->tracks.data[n]);
		picture_indent(to, left - INDENT - print_columns(p->tracks.data[n]));
		picture_add_track(p, n, l, wide, to);
		if (label.n) {
			picture_add(to, " ");
			text_add_safe(to, label);
		}
		picture_add(to, "\n");
	}
	add_ticks(p, left, wide, to);
}

/** As much of a label as a line has room for. */
static void add_fitting(struct text *to, struct str s, size_t columns)
{
	enum { DOTS = 3 };
	_cleanup_text_ struct text shown = { 0 };
	text_add_safe(&shown, s);
	size_t n = shown.n;
	if (print_columns(text_str(&shown)) > columns) {
		for (n = columns > DOTS ? columns - DOTS : 0; n && ((unsigned char)shown.p[n] & 0xc0) == 0x80;)
			n--; // not within a character
	}
	text_add(to, str_cut(text_str(&shown), n));
	picture_add(to, n < shown.n ? "..." : "");
}

void picture_draw(const struct picture *p, bool ascii, size_t width, struct text *to)
{
	const struct letters *l = ascii ? &plain : &blocks;
	switch (p->form) {
	case PICTURE_TRACKS:
		add_tracks(p, l, width, to);
		break;
	case PICTURE_CELLS: {
		const size_t wide = width >= LANES_WIDE + INDENT + 4 ? LANES_WIDE : LANES_WIDE / 2;
		for (size_t n = 0; n < p->marks.len; n++) {
			if (n % wide == 0)
				text_printf(to, "%*s%2zu ", INDENT, "", n);
			picture_add(to, l->bar[p->marks.data[n].look]);
			if ((n + 1) % wide == 0 || n + 1 == p->marks.len)
				text_printf(to, " %zu\n", n);
		}
		break;
	}
	case PICTURE_CHAIN: {
		enum { DEEPEST = 12 };
		size_t deep = 0;
		for (size_t n = 0; n < p->marks.len; n++) {
			const bool stuck = p->marks.data[n].look == LOOK_BAD;
			deep = stuck ? 0 : deep < DEEPEST ? deep + 2 : deep;
			picture_indent(to, INDENT + deep);
			picture_add(to, stuck ? l->bar[LOOK_BAD] : l->link);
			picture_add(to, " ");
			add_fitting(to, p->marks.data[n].label, width - INDENT - deep - 2);
			picture_add(to, "\n");
		}
		return; // its words say what it is
	}
	}
	if (to->n) {
		bool any = false;
		for (size_t n = 0; n < LOOKS; n++) {
			if (!p->looks[n])
				continue;
			const bool point = p->kind == SHOWS_TIMELINE;
			text_printf(to, "%*s%s %s", any ? 3 : INDENT, "", point ? l->point[n] : l->bar[n], p->looks[n]);
			any = true;
		}
		picture_add(to, any ? "\n" : "");
	}
}
