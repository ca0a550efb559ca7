// What is around a line: the time that an earlier line has, the lines that it goes on in where a terminal or a form wrapped it, and the
// artefact that it stands in.
#include <stdlib.h>

#include "evidence/log/log_reader.h"

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
	const bool every = log_journal_look(&r->journal, head);
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
	return delta || every;
}

// --- Lines that a terminal, a forum or a person has broken: a message that goes on over the following lines ---

/** Whether @line is nothing but the driver's prefix: `amdgpu 0000:04:00.0:`, with the message on the next line. */
static bool only_prefix(const struct logline *line)
{
	struct str rest = line->message, whole = str_trim(rest);
	// `[drm:amdgpu_job_timedout` with the rest of its bracket on the next line
	if (str_starts(whole, S("[drm:")) && str_find(whole, S("]")) < 0)
		return true;
	while (rest.n) {
		struct str word = str_word(&rest);
		while (word.n && word.p[word.n - 1] == ':')
			word.n--;
		if (word.n && !str_eq(word, line->driver) && !str_eq(word, line->device) && !str_is(word, "amdgpu"))
			return false;
	}
	return line->device.n;
}

/** The line that @head and @tail make with a space between them, or without. */
static bool match_glued(struct log_reader *r, const struct logline *head, struct str tail, bool space, struct log_joined *out)
{
	size_t at = head->text.n;
	if (at + 1 + tail.n >= JOINED_BYTES)
		return false;
	memcpy(out->room, head->text.p, at);
	out->room[at] = ' ';
	memcpy(out->room + at + space, tail.p, tail.n);
	struct str whole = lifetime_begin(&out->lent, (struct str){ out->room, at + space + tail.n });
	out->space = space;
	out->line = (struct logline){ .stamps = head->stamps, .boot_id = head->boot_id };
	line_parse(r->know, whole, &out->line);
	size_t skipped = (size_t)(out->line.message.p - whole.p);
	const struct match *m = &out->match;
	if (skipped > at || !line_recognise(r->know, &out->line, &out->match))
		return false;
	// Only a match that needs both parts is a reason to join them: a gap in a pattern takes any words that stand before the rest.
	size_t border = at - skipped;
	if (m->end <= border || (m->begin >= border && !only_prefix(head)))
		return false;
	struct logline rest = { 0 };
	struct match of_rest;
	line_parse(r->know, tail, &rest);
	return only_prefix(head) || !line_recognise(r->know, &rest, &of_rest) || of_rest.weight < m->weight;
}

bool log_continuation(struct log_reader *r, const struct line_at *c, const struct logline *line, struct log_joined *out,
		      size_t *ret_end)
{
	LINE_ROOM(clean);
	LINE_ROOM(tails);
	char *tail_room = tails.bytes;
	size_t tail_n = 0, at = c->end + 1, width = c->end - c->begin;
	struct str best = { 0 }; // of the tails
	bool best_space = false;
	size_t best_weight = 0;
	for (int i = 0; i < JOIN_LINES && at < c->window->size; i++) {
		size_t next;
		struct str raw = log_raw_line(c->window, at, &next);
		// A line that begins like this one has a time like this one: no need to read it.
		if (raw.n >= 4 && c->end - c->begin >= 4 && !memcmp(raw.p, c->window->bytes + c->begin, 4))
			break;
		struct str text = line_clean(raw, &clean), unquoted = quoting_skip(text);
		if (!unquoted.n || stamps_read(r->know, text).found || tail_n + unquoted.n + 1 >= LINE_MAX_BYTES)
			break;
		if (i && width != r->wrap_width)
			tail_room[tail_n++] = ' ';
		memcpy(tail_room + tail_n, unquoted.p, unquoted.n);
		tail_n += unquoted.n;
		width = raw.n;
		// Terminals break a line anywhere, at one and the same width; people and forums break it at a space.
		const bool indented = text.n && text.p[0] == ' ';
		const bool hard = r->wrap_width && c->end - c->begin == r->wrap_width && !indented;
		const struct str tail = { tail_room, tail_n };
		if ((match_glued(r, line, tail, !hard, out) || (!indented && match_glued(r, line, tail, hard, out))) &&
		    (!best.n || out->match.weight > best_weight)) {
			best = tail;
			best_space = out->space;
			best_weight = out->match.weight;
			*ret_end = next;
		}
		at = next;
	}
	// Another may have been tried behind the best one.
	return best.n && match_glued(r, line, best, best_space, out);
}

// Artefacts inside of a log: where one begins, its reader is opened and gets every line until it has ended. A line that it does not
// take is one of the log, because several processes write into one.

void log_artefact_end(struct log_reader *r)
{
	if (r->artefact)
		artefact_close(r->artefact, r->artefact_self);
	r->artefact = NULL;
	r->artefact_self = NULL;
	r->strangers = 0;
}

/** A dump has no times; it happened after the last line before it that has one. */
static void find_artefact_time(struct log_reader *r, const struct line_at *c, struct logline *line)
{
	LINE_ROOM(clean);
	struct logline before;
	struct line_at previous;
	r->artefact_time = (struct stamp){ 0 };
	if (line->stamps.found || !r->stamped || !log_stamped_before(r, c, TRACEBACK_LINES, &clean, &before, &previous) ||
	    before.stamps.delta)
		return;
	log_settle_time(r, &before.stamps);
	r->artefact_time = line->stamps.best = before.stamps.best;
	line->stamps.found = line->stamps.borrowed = true;
}

/** Whether an artefact may begin in a line, perhaps behind a time, a rank or a mark of quotation. Nothing is taken apart for it. */
static bool may_begin_artefact(struct str line)
{
	enum { WORDS_BEFORE = 5 };
	for (int n = 0; n <= WORDS_BEFORE && line.n; n++) {
		if (recognise_artefact(line))
			return true;
		str_split(&line, ' ');
		line = str_trim(line);
	}
	return false;
}

bool log_artefact_line(struct log_reader *r, const struct line_at *c, uint64_t number)
{
	LINE_ROOM(clean);
	_lifetime_ lent = { 0 };
	struct str raw = lifetime_begin(&lent, (struct str){ c->window->bytes + c->begin, c->end - c->begin });
	struct logline line = { 0 };
	struct place at = { r->source, number };
	// Most lines begin nothing, and none of the driver's does, so that it is asked before the line is taken apart.
	if (!r->artefact && (str_find(raw, S("amdgpu")) >= 0 || str_find(raw, S("[drm")) >= 0 || !may_begin_artefact(raw)))
		return false;
	line_parse_front(r->know, line_clean(raw, &clean), &line);
	if (!line.stamps.found && r->artefact && r->artefact_time.clock != TIME_NONE) {
		line.stamps.best = r->artefact_time;
		line.stamps.found = line.stamps.borrowed = true;
	}
	enum taken taken = r->artefact ? r->artefact->line(r->artefact_self, &line, at) : TAKEN_NO;
	if (taken == TAKEN_YES)
		r->strangers = 0;
	if (taken != TAKEN_NO)
		return taken == TAKEN_YES;
	const struct artefact_reader *begins = recognise_artefact(line.text);
	begins = begins ? begins : recognise_artefact(line.message);
	if (!begins) {
		if (r->artefact && ++r->strangers > r->artefact->patience)
			log_artefact_end(r);
		return false;
	}
	log_artefact_end(r);
	find_artefact_time(r, c, &line);
	const struct artefact_output out = log_output(r);
	r->artefact = begins;
	r->artefact_self = artefact_open(begins, &out);
	size_t kind = 0;
	while (kind < r->nkinds && strcmp(r->kinds[kind], begins->kind) != 0)
		kind++;
	if (kind == r->nkinds && kind < LOG_KINDS)
		r->kinds[r->nkinds++] = begins->kind;
	return begins->line(r->artefact_self, &line, at) == TAKEN_YES;
}

size_t log_artefact_walk(struct log_reader *r, const struct window *w, size_t begin, uint64_t line, uint64_t offset)
{
	while (begin < w->to && r->artefact) {
		size_t next;
		struct str raw = log_raw_line(w, begin, &next);
		struct line_at c = { w, begin, begin + raw.n, offset };
		if (offset + begin >= r->consumed && !log_artefact_line(r, &c, r->lines + line + 1))
			log_candidate(r, &c, r->lines + line + 1);
		line++;
		begin = next;
	}
	return begin;
}
