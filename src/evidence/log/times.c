// Which time a line has, and how far its log was broken into lines.
#include "evidence/log/parts.h"

void log_settle_time(struct log_reader *r, struct stamps *s)
{
	if (!s->found)
		return;
	r->stamped = true;
	if (s->delta) {
		r->elapsed += s->best.seconds;
		s->best = (struct stamp){ r->have_base ? TIME_YEARLESS : TIME_RELATIVE, r->base + r->elapsed };
	} else if (s->best.clock == TIME_YEARLESS) {
		const double year = 366 * 86400.0;
		double seconds = s->best.seconds + r->yearless_years;
		if (seconds < r->yearless_last - 300 * 86400.0) {
			r->yearless_years += year;
			seconds += year;
		}
		r->yearless_last = seconds;
		s->best.seconds = r->base = seconds;
		r->elapsed = 0;
		r->have_base = true;
	}
}

bool log_stamped_before(struct log_reader *r, const struct line_at *c, int lines, struct line_room *room,
			struct logline *ret_line, struct line_at *ret_context)
{
	const struct window *w = c->window;
	size_t end = c->begin;
	// Lines that were looked at for the one before need not be looked at again.
	bool far = lines > JOIN_LINES;
	uint64_t seen = far ? r->looked_upto : 0;
	if (far)
		r->looked_upto = c->offset + c->begin;
	for (int i = 0; i < lines && end > 1; i++) {
		const char *newline = memrchr(w->bytes, '\n', end - 1);
		size_t begin = newline ? (size_t)(newline - w->bytes) + 1 : 0;
		*ret_line = (struct logline){ 0 };
		if (far && c->offset + begin < seen && r->looked.found) {
			ret_line->stamps = stamps_kept(&r->looked);
			*ret_context = *c;
			return true;
		}
		if (far && c->offset + begin < seen)
			return false;
		line_parse(r->know, line_clean((struct str){ w->bytes + begin, end - 1 - begin }, room), ret_line);
		*ret_context = (struct line_at){ w, begin, end - 1, c->offset };
		if (ret_line->stamps.found) {
			if (far)
				stamps_keep(&ret_line->stamps, &r->looked);
			return true;
		}
		end = begin;
	}
	if (far)
		r->looked = (struct kept_stamps){ 0 };
	return false;
}

bool log_reader_look(struct log_reader *r, struct str head)
{
	enum { LINES = 400 };
	size_t widths[LINES], n = 0, most = 0;
	size_t before = 0;
	bool delta = false, was_stamped = false;
	r->exported = str_starts(head, S("__CURSOR="));
	for (int i = 0; i < LINES && head.n; i++) {
		LINE_ROOM(clean);
		struct str line = str_split(&head, '\n');
		struct stamps stamps = stamps_read(r->know, line_clean(line, &clean));
		delta |= stamps.delta;
		r->stamped |= stamps.found;
		if (was_stamped && !stamps.found && line.n)
			widths[n++] = before;
		was_stamped = stamps.found;
		before = line.n;
	}
	for (size_t i = 0; i < n; i++) {
		size_t same = 0;
		for (size_t k = 0; k < n; k++)
			same += widths[k] == widths[i];
		if (same > most && same * 2 > n && same > 1) {
			most = same;
			r->wrap_width = widths[i];
		}
	}
	return delta;
}
