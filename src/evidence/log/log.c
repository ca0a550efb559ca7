#include <stdlib.h>

#include "evidence/log/log_reader.h"

enum {
	EXPORT_LOOK = 4096,
	WRITER_LINES = 4, // a program's output this close before a fault tells whose fault it is
	OUTPUT_TEXT = 120,
	TYPED_LINES = 48, // of a source are searched for typing errors: what people type is short
	RECORDS = 32,     // in one line
	TEST_LOOK = 16,   // bytes in which the number of a test stands
};

struct log_reader *log_reader_new(const struct know *k, unsigned source, struct str name, struct code_shelf *code,
				  const struct log_words *words, struct event_sink sink)
{
	struct log_reader *r = mem_alloc(sizeof(*r));
	r->know = k;
	r->source = source;
	r->name = name;
	r->code = code;
	r->context = context_finder_new(k, words, source);
	r->parts = part_finder_new(k, words, source);
	r->names = name_finder_new(k, source);
	r->order = (struct log_order){ .know = k, .sink = sink };
	return r;
}

void log_reader_live(struct log_reader *r) { r->order.direction = DIRECTION_FORWARD; }
uint64_t log_reader_lines(const struct log_reader *r) { return r->lines; }
uint64_t log_reader_events(const struct log_reader *r) { return r->events; }
uint64_t log_reader_lost(const struct log_reader *r) { return r->order.lost; }
bool log_reader_cut(const struct log_reader *r) { return r->journal.cut; }

size_t log_reader_kinds(const struct log_reader *r, const char **ret, size_t room)
{
	size_t n = 0;
	if (r->driver_lines)
		ret[n++] = "kernel-log";
	// A server's log with a stack in it is still a server's log.
	bool log_first = r->program_lines && r->nkinds == 1 && !strcmp(r->kinds[0], "stacks");
	if (log_first && n < room)
		ret[n++] = "application-log";
	for (size_t i = 0; i < r->nkinds && n < room; i++)
		ret[n++] = r->kinds[i];
	if (r->program_lines && !log_first && n < room)
		ret[n++] = "application-log";
	return n;
}

void log_reader_end(struct log_reader *r)
{
	const struct artefact_output out = log_output(r);
	struct event e;
	log_artefact_end(r);
	log_journal_end(r);
	// Where a text only quotes messages, that is said: who gave it to us takes it for a log.
	if (r->quotes.at && !r->failures &&
	    artefact_event(&out, "quoted-message", (struct place){ r->source, r->quotes.at }, &e))
		log_emit(r, &e);
	if (r->hearsay_at && artefact_event(&out, "hardware-hearsay", (struct place){ r->source, r->hearsay_at }, &e))
		log_emit(r, &e);
	log_order_end(&r->order);
}

void log_reader_free(struct log_reader *r)
{
	if (!r)
		return;
	log_artefact_end(r);
	log_journal_free(&r->journal);
	log_order_free(&r->order);
	context_finder_free(r->context);
	part_finder_free(r->parts);
	name_finder_free(r->names);
	free(r);
}

/** The fields of a journal export record, before and behind its MESSAGE. */
static void export_fields(const struct line_at *c, struct logline *line)
{
	const size_t from = c->begin > EXPORT_LOOK ? c->begin - EXPORT_LOOK : 0;
	struct str before = { c->window->bytes + from, c->begin - from };
	for (ptrdiff_t blank; (blank = str_find(before, S("\n\n"))) >= 0;)
		before = str_from(before, (size_t)blank + 2);
	const struct str behind = str_cut((struct str){ c->window->bytes + c->end, c->window->size - c->end }, EXPORT_LOOK);
	const ptrdiff_t end = str_find(behind, S("\n\n"));
	struct str record = { before.p, before.n + c->end - c->begin + (end < 0 ? behind.n : (size_t)end) };
	int64_t v;
	while (record.n) {
		struct str value = str_trim(str_split(&record, '\n')), key = str_split(&value, '=');
		if (str_is(key, "__MONOTONIC_TIMESTAMP") && str_number(value, &v)) {
			line->stamps.best = (struct stamp){ TIME_BOOT, (double)v / 1e6 };
			line->stamps.found = true;
		} else {
			line_field(key, value, line);
		}
	}
	line_settle_writer(line);
}

/** A runtime's last words carry no prefix; the line just before them tells which process wrote last. */
static void tell_last_output(struct log_reader *r, const struct line_at *c, uint64_t number)
{
	const struct artefact_output out = log_output(r);
	size_t end = c->begin;
	for (unsigned i = 0; i < WRITER_LINES && end > 1; i++) {
		LINE_ROOM(clean);
		const char *newline = memrchr(c->window->bytes, '\n', end - 1);
		size_t begin = newline ? (size_t)(newline - c->window->bytes) + 1 : 0;
		struct logline before = { 0 };
		struct event e;
		line_parse(r->know, line_clean((struct str){ c->window->bytes + begin, end - 1 - begin }, &clean), &before);
		end = begin;
		if (!before.writer.pid.n && !before.writer.rank.n && !before.writer.worker.n)
			continue;
		if (!artefact_event(&out, "last-output", (struct place){ r->source, number - i - 1 }, &e))
			return;
		log_add_writer(&e, &before.writer);
		event_add(&e, S("output"), str_cut(before.message, OUTPUT_TEXT), FACT_TEXT);
		if (before.stamps.found && !before.stamps.delta) { // a difference was added up when its line was read
			log_settle_time(r, &before.stamps);
			e.time = before.stamps.best;
		}
		e.text = before.message;
		log_emit(r, &e);
		return;
	}
}

/** An event whose line does not say whose it is. */
static bool lacks_writer(const struct logline *line, const struct match *m)
{
	const struct know_signature *s = match_signature(m);
	return s->program && s->event && s->event->opens == OPENS_YES && !s->of_other && !line->writer.pid.n &&
	       !line->writer.rank.n && !line->writer.worker.n;
}

/** How many frames of the kernel's stack stand above the line at @c; those with a question mark need not be of it. */
static unsigned callers_above(const struct line_at *c)
{
	enum { LOOK_BACK = 40 };
	unsigned callers = 0;
	size_t end = c->begin;
	for (unsigned i = 0; i < LOOK_BACK && end > 1; i++) {
		const char *newline = memrchr(c->window->bytes, '\n', end - 1);
		size_t begin = newline ? (size_t)(newline - c->window->bytes) + 1 : 0;
		struct str before = { c->window->bytes + begin, end - 1 - begin };
		if (str_find(before, S("Call Trace")) >= 0 || str_find(before, S("RIP: ")) >= 0)
			break;
		callers += str_find(before, S("+0x")) > 0 && str_find(before, S("/0x")) > 0 && str_find(before, S(" ? ")) < 0;
		end = begin;
	}
	return callers;
}

/** Messages of the driver before and behind @m, where lines were pasted into one. @left is how many more may be. */
static void read_beside(struct log_reader *r, const struct logline *line, const struct match *m, uint64_t number, unsigned left)
{
	enum { CLEAR = 8 }; // characters of text by which it is a message of its own
	const struct know_signature *s = match_signature(m);
	struct str parts[] = { str_cut(line->message, m->begin), str_from(line->message, m->end) };
	if (s->program || s->message || !left || line->opening.live) // a record is one message
		return;
	for (size_t i = 0; i < 2; i++) {
		struct logline part = *line;
		struct match other;
		part.message = parts[i];
		if (str_trim(parts[i]).n < CLEAR || !line_recognise(r->know, &part, &other) || other.weight < CLEAR)
			continue;
		const struct know_signature *its = match_signature(&other);
		// What tells of another kind of failure is a record; of the same kind it is the rest of this one.
		if (its->program || its->message || its == s || its->level != LEVEL_ERROR || (!its->event && !its->detail_ids))
			continue;
		log_event(r, &part, &other, number);
		read_beside(r, &part, &other, number, left - 1);
	}
}

/** The word of the marks that has this number's, and its bit there; NULL: it is none. */
static uint64_t *test_mark(struct log_tests *t, struct str number, uint64_t *ret_bit)
{
	int64_t n;
	if (!str_number(number, &n) || n < 0 || n >= TESTS)
		return NULL;
	*ret_bit = 1ull << n % 64;
	return &t->marked[n / 64];
}

static void mark_test(struct log_tests *t, struct str number)
{
	uint64_t bit, *mark = test_mark(t, number, &bit);
	if (mark)
		*mark |= bit;
}

/** Notes the tests that @text names: ctest writes `9: ` before what test 9 prints, and `Start  9: NAME` or `9: Test command: ` when it
 * begins. */
static void find_tests(struct log_tests *t, struct str text)
{
	struct str rest = text;
	while (str_after(rest, S("Start "), &rest)) {
		struct str number = str_trim(str_cut(rest, TEST_LOOK));
		if (memchr(number.p, ':', number.n))
			mark_test(t, str_split(&number, ':'));
	}
	rest = text;
	for (ptrdiff_t found; (found = str_find(rest, S(": Test command: "))) >= 0; rest = str_from(rest, (size_t)found + 2)) {
		size_t begin = (size_t)found;
		while (begin && char_digit(rest.p[begin - 1]))
			begin--;
		mark_test(t, str_cut(str_from(rest, begin), (size_t)found - begin));
	}
}

/** Whether the window names @number as that of a test before the line at @c. Each of its bytes is searched once. */
static bool of_test_runner(struct log_tests *t, const struct line_at *c, struct str number)
{
	uint64_t bit, *mark = test_mark(t, number, &bit);
	if (!t->upto || t->window != c->offset)
		*t = (struct log_tests){ .window = c->offset };
	if (c->begin > t->upto) {
		find_tests(t, (struct str){ c->window->bytes + t->upto, c->begin - t->upto });
		t->upto = c->begin;
	}
	return mark && *mark & bit;
}

/** The event of a line, and whose it may be. */
static void make_log_event(struct log_reader *r, const struct logline *line, const struct match *m, const struct line_at *c,
			   uint64_t number)
{
	struct logline rest = *line;
	struct match again;
	char rank[RANK_DIGITS];
	if (c && lacks_writer(line, m) && log_rank_around(r, c, rank))
		rest.writer.rank = str_z(rank);
	if (c && line->writer.numbered && of_test_runner(&r->tests, c, line->writer.rank))
		rest.writer.rank = (struct str){ 0 };
	rest.callers = c && match_signature(m)->event && match_signature(m)->event->tells == TELLS_FRAME ? callers_above(c) : 0;
	log_event(r, &rest, m, number);
	if (c && lacks_writer(line, m))
		tell_last_output(r, c, number);
	read_beside(r, line, m, number, RECORDS);
	// Two processes that end at once write into one line.
	rest.message = str_from(line->message, m->end);
	if (match_signature(m)->program && line_recognise(r->know, &rest, &again) &&
	    match_signature(&again) == match_signature(m))
		log_event(r, &rest, &again, number);
}

static void read_text(struct log_reader *r, struct logline *line, const struct line_at *c, uint64_t number)
{
	JOINED(joined);
	size_t end;
	struct match alone;
	if (line->by.writer == WRITER_INTO_LOG)
		return;
	log_settle_time(r, &line->stamps);
	bool known = line_recognise(r->know, line, &alone);
	// What an export says a program wrote is not the kernel's word, whatever it looks like.
	if (line->by.writer == WRITER_PROGRAM && !(known && match_signature(&alone)->program))
		return;
	// Programs print whole lines: what follows one of theirs is another's, unless a terminal has broken it.
	const bool whole =
		known && match_signature(&alone)->program && !(r->wrap_width && c && c->end - c->begin == r->wrap_width);
	if (c && r->stamped && line->stamps.found && log_continuation(r, c, line, &joined, &end) &&
	    (!whole || joined.match.weight > alone.weight)) {
		r->consumed = c->offset + end;
		log_event(r, &joined.line, &joined.match, number);
		return;
	}
	// What is but a part of the line may be the end of a message that begins with a mistyped word.
	bool telling = known && match_signature(&alone)->event && match_signature(&alone)->event->opens == OPENS_YES &&
		       (alone.end - alone.begin) * 2 >= line->message.n;
	struct match typed;
	if (!telling && r->typed < TYPED_LINES && line->message.n && !line->opening.live) {
		r->typed++;
		if (line_recognise_typed(r->know, line, &typed)) {
			alone = typed;
			known = true;
		}
	}
	if (known)
		make_log_event(r, line, &alone, c, number);
	else if (line->device.n && str_is(line->driver, "amdgpu"))
		log_sighting(r, line, number);
	else if (!line->opening.live && line_is_of_other_drm(line)) // a live line may be anybody's words
		log_other_drm(r, line, number);
}

/** In a log with times, a line without one belongs to an earlier line: it goes on with its message, or at least has its time, which is
 * then borrowed. */
static bool read_as_rest(struct log_reader *r, const struct line_at *c, struct logline *line, struct kept_stamps *borrowed,
			 uint64_t number)
{
	LINE_ROOM(clean);
	JOINED(joined);
	struct logline before;
	struct line_at previous;
	struct match m;
	size_t end;
	bool known = line_recognise(r->know, line, &m), program = known && match_signature(&m)->program;
	if (!log_stamped_before(r, c, program ? TRACEBACK_LINES : JOIN_LINES, &clean, &before, &previous))
		return false;
	if (before.stamps.delta) // it was added up when that line was read
		before.stamps.best = (struct stamp){ r->have_base ? TIME_YEARLESS : TIME_RELATIVE, r->base + r->elapsed };
	else
		log_settle_time(r, &before.stamps);
	stamps_keep(&before.stamps, borrowed);
	borrowed->program |= line->stamps.program;
	if (program) {
		line->stamps = stamps_kept(borrowed);
		make_log_event(r, line, &m, c, number);
		return true;
	}
	if (c->offset + previous.begin >= r->consumed && log_continuation(r, &previous, &before, &joined, &end) &&
	    c->offset + end > c->offset + c->begin) {
		r->consumed = c->offset + end;
		for (size_t at = previous.begin; at < c->begin; at++)
			number -= c->window->bytes[at] == '\n';
		log_event(r, &joined.line, &joined.match, number);
		return true;
	}
	line->stamps = stamps_kept(borrowed);
	line->stamps.borrowed = true;
	if (!line_recognise(r->know, line, &m))
		return false;
	// Names that point into the other line live as long as this call, which ends with the line.
	if (!line->device.n) {
		line->device = before.device;
		line->driver = before.driver;
	}
	log_event(r, line, &m, number);
	return true;
}

/** Length of the kernel's time `[ 1234.567890] ` at the front of @s, or 0. */
static size_t kernel_time(struct str s)
{
	size_t n = 1, dot = 0;
	if (!s.n || s.p[0] != '[')
		return 0;
	while (n < s.n && n < 24 && (char_digit(s.p[n]) || s.p[n] == ' ' || s.p[n] == '.')) {
		dot = s.p[n] == '.' ? n : dot;
		n++;
	}
	return dot > 1 && n > dot + 3 && n + 1 < s.n && s.p[n] == ']' && s.p[n + 1] == ' ' ? n + 2 : 0;
}

/** Length of the driver's prefix `amdgpu 0000:03:00.0: ` at the front of @s, or 0. */
static size_t driver_prefix(struct str s)
{
	size_t n = str_starts(s, S("amdgpu ")) ? pci_length(str_from(s, 7)) : 0;
	return n && str_starts(str_from(s, 7 + n), S(": ")) ? 9 + n : 0;
}

/** Where in @text the second record begins, if several were pasted into one line: at what it has twice, else at its end. */
static size_t next_record(struct str text)
{
	size_t (*const begins[])(struct str) = { kernel_time, driver_prefix };
	for (size_t i = 0; i < 2; i++) {
		bool first = true;
		for (size_t at = 0; at < text.n; at++) {
			if ((at && !char_space(text.p[at - 1])) || !begins[i](str_from(text, at)))
				continue;
			if (!first)
				return at;
			first = false;
		}
	}
	return text.n;
}

void log_wrapped(struct log_reader *r, struct logline *line, uint64_t number)
{
	LINE_ROOM(clean);
	struct str text = line->text;
	if (!line->stamps.found && line->time_text.n) {
		const struct stamps read = stamps_read(r->know, line->time_text);
		line->stamps.found = read.found;
		line->stamps.best = read.best;
	}
	while (text.n) {
		struct logline one = *line;
		// What the kernel wrote as one record is one: a user may have put a newline into it.
		struct str piece = str_split(&text, line->by.writer == WRITER_KERNEL ? 0 : '\n');
		line_parse(r->know, line_clean(piece, &clean), &one);
		read_text(r, &one, NULL, number);
	}
}

void log_candidate(struct log_reader *r, const struct line_at *c, uint64_t number)
{
	LINE_ROOM(clean);
	LINE_ROOM(unwrapped);
	_lifetime_ lent = { 0 };
	struct str raw = lifetime_begin(&lent, (struct str){ c->window->bytes + c->begin, c->end - c->begin });
	struct logline line = { 0 };
	struct kept_stamps borrowed;
	// journalctl -o json-sse and json-seq put something before the object.
	struct str object = str_starts(raw, S("data: ")) ? str_from(raw, 6) :
			    str_starts(raw, S("\x1e"))   ? str_from(raw, 1) :
							   raw;
	if (str_starts(str_trim(str_cut(object, 64)), S("{")) && line_unwrap(object, &unwrapped, &line)) {
		log_wrapped(r, &line, number);
		return;
	}
	struct str text = line_clean(raw, &clean), message = str_trim(text);
	quotes_line(&r->quotes, text);
	if (str_starts(message, S("MESSAGE="))) { // journalctl -o verbose, or a part of an export
		export_fields(c, &line);
		line_parse(r->know, str_from(message, 8), &line);
		read_text(r, &line, NULL, number);
		return;
	}
	size_t record = next_record(text);
	for (unsigned i = 0; i < RECORDS && record < text.n; i++, record = next_record(text)) {
		struct logline one = { 0 };
		line_parse(r->know, str_cut(text, record), &one);
		read_text(r, &one, NULL, number);
		text = str_from(text, record);
		c = NULL;
	}
	line_parse(r->know, text, &line);
	if (c && r->stamped && !line.stamps.found && read_as_rest(r, c, &line, &borrowed, number))
		return;
	read_text(r, &line, c, number);
}

/** Context is no event of the log: it says nothing of how much was found in it. */
static void emit_context(void *ctx, const struct event *e)
{
	struct log_reader *r = ctx;
	const struct fact *quotes = event_fact(e, "quotes");
	if (quotes)
		quotes_text(&r->quotes, quotes->value);
	else
		log_order_event(&r->order, e);
}

static void look_around(struct log_reader *r, struct str text, bool eventful)
{
	const struct event_sink sink = { emit_context, r };
	context_find(r->context, text, r->lines + 1, eventful, &sink);
	part_find(r->parts, text, r->lines + 1, &sink);
	name_find(r->names, text, r->lines + 1, eventful, &r->order.sink);
}

void log_reader_window(struct log_reader *r, const struct window *lent, uint64_t offset)
{
	_lifetime_ until_return = { 0 };
	struct window own = *lent, *w = &own;
	own.bytes = lifetime_begin(&until_return, (struct str){ lent->bytes, lent->size }).p;
	look_around(r, (struct str){ w->bytes + w->from, w->to - w->from }, w->candidates.len);
	const size_t first = window_first_line(w);
	size_t done = r->artefact ? log_artefact_walk(r, w, first, first != w->from, offset) : 0;
	for (size_t i = 0; i < w->candidates.len; i++) {
		const struct candidate *cand = &w->candidates.data[i];
		struct line_at c = { w, cand->begin, cand->end, offset };
		if (offset + c.begin < r->consumed || c.begin < done)
			continue;
		if (!log_journal_line(r, &c, r->lines + cand->line + 1) && !log_artefact_line(r, &c, r->lines + cand->line + 1))
			log_candidate(r, &c, r->lines + cand->line + 1);
		if (r->consumed < offset + c.end)
			r->consumed = offset + c.end;
		if (r->artefact)
			done = log_artefact_walk(r, w, c.end + 1, cand->line + 1, offset);
	}
	r->journal.upto = offset + w->size;
	r->lines += w->newlines;
}

void log_reader_record(struct log_reader *r, const struct source_record *record)
{
	LINE_ROOM(clean);
	_lifetime_ lent = { 0 };
	struct logline line = { .boot_id = lifetime_begin(&lent, record->boot_id), .by = record->by };
	if (record->boot_seconds >= 0)
		line.stamps.best = (struct stamp){ TIME_BOOT, record->boot_seconds };
	else if (record->wall_seconds >= 0)
		line.stamps.best = (struct stamp){ TIME_WALL, record->wall_seconds };
	line.stamps.found = line.stamps.best.clock != TIME_NONE;
	line_parse(r->know, line_clean(record->text, &clean), &line);
	if (line.opening.own || line.by.writer == WRITER_UNTOLD) // words in other lines may be a user's
		look_around(r, record->text, false);
	r->lines++;
	read_text(r, &line, NULL, r->lines);
}
