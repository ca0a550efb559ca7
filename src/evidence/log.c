#include "evidence/log.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "evidence/artefact.h"

enum {
	HOLD_TO_DECIDE = 256, // events by which the direction of a log is decided
	HOLD_MAX = 16384,     // events of a log that runs backwards
	HELD_TEXT = 240,
	JOIN_LINES = 3, // a wrapped line goes on over at most so many
	EXPORT_LOOK_BACK = 4096,
	TRACEBACK_LINES = 100, // between a program's last time and its error
	WRITER_LINES = 4,      // whose output stands so close before a fault
	OUTPUT_TEXT = 120,
	KINDS = 6,
};

enum order { ORDER_UNKNOWN, ORDER_FORWARD, ORDER_BACKWARD };

struct log_reader {
	const struct know *know;
	struct event_sink sink;
	unsigned source;
	struct str name; // of the source
	struct code_shelf *code;
	enum order order;
	bool stamped;                         // this log has times, so a line without one continues another
	bool have_base;                       // dmesg -H has named a minute
	double base, elapsed;                 // for logs that print differences
	double yearless_last, yearless_years; // a log that runs over new year
	uint64_t lines, events, lost;
	const struct artefact_reader *artefact; // that is open
	void *artefact_self;
	struct stamp artefact_time; // of the line before it
	unsigned strangers;         // lines in a row that are none of it
	size_t nkinds;
	const char *kinds[KINDS];         // of the artefacts that were read
	bool driver_lines, program_lines; // of the kernel's driver, of programs
	size_t wrap_width;                // at which a terminal has broken the lines of this log; 0: it has not
	uint64_t looked_upto;             // lines before this offset were searched for a time
	struct kept_stamps looked;        // which was this one
	uint64_t consumed;                // offset behind the last line that was joined to another
	struct arena arena;               // of held events
	VEC(struct event *) held;
};

struct log_reader *log_reader_new(const struct know *k, unsigned source, struct str name, struct code_shelf *code,
				  struct event_sink sink)
{
	struct log_reader *r = mem_alloc(sizeof(*r));
	r->know = k;
	r->source = source;
	r->name = name;
	r->code = code;
	r->sink = sink;
	return r;
}

void log_reader_live(struct log_reader *r) { r->order = ORDER_FORWARD; }
uint64_t log_reader_lines(const struct log_reader *r) { return r->lines; }
uint64_t log_reader_events(const struct log_reader *r) { return r->events; }
uint64_t log_reader_lost(const struct log_reader *r) { return r->lost; }

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

static void note_kind(struct log_reader *r, const char *kind)
{
	for (size_t i = 0; i < r->nkinds; i++)
		if (!strcmp(r->kinds[i], kind))
			return;
	if (r->nkinds < KINDS)
		r->kinds[r->nkinds++] = kind;
}

static void close_artefact(struct log_reader *r)
{
	if (r->artefact)
		r->artefact->close(r->artefact_self);
	r->artefact = NULL;
	r->artefact_self = NULL;
	r->strangers = 0;
}

void log_reader_free(struct log_reader *r)
{
	if (!r)
		return;
	close_artefact(r);
	vec_free(&r->held);
	arena_free(&r->arena);
	free(r);
}

// --- the direction of a log ---

static struct event *event_copy(struct arena *a, const struct event *e)
{
	struct event *c = arena_alloc(a, offsetof(struct event, facts) + e->nfacts * sizeof(e->facts[0]));
	memcpy(c, e, offsetof(struct event, facts) + e->nfacts * sizeof(e->facts[0]));
	c->device = arena_str(a, e->device);
	c->driver = arena_str(a, e->driver);
	c->text = arena_str(a, str_cut(e->text, HELD_TEXT));
	c->boot_id = arena_str(a, e->boot_id);
	c->host = arena_str(a, e->host);
	for (size_t i = 0; i < c->nfacts; i++) {
		c->facts[i].name = arena_str(a, e->facts[i].name);
		c->facts[i].value = arena_str(a, e->facts[i].value);
	}
	c->dump = dump_copy(a, &e->dump);
	return c;
}

static int sequence_rank(const struct know_sequence *s, struct str signature)
{
	int rank = 0;
	for (const struct know_list *l = s->order; l; l = l->next, rank++)
		if (str_eq(l->text, signature))
			return rank;
	return -1;
}

/** +1: @a stands before @b as the driver prints them; -1: behind; 0: it says nothing. */
static int sequence_vote(const struct know *k, const struct event *a, const struct event *b)
{
	if (!a->signature || !b->signature || !str_eq(a->device, b->device))
		return 0;
	for (size_t i = 0; i < k->sequences.len; i++) {
		int x = sequence_rank(k->sequences.data[i], a->signature->head.id);
		int y = sequence_rank(k->sequences.data[i], b->signature->head.id);
		// Neighbours only: a step of more than one may be the next round of the same messages.
		if (x >= 0 && y >= 0 && abs(x - y) == 1)
			return x < y ? 1 : -1;
	}
	return 0;
}

static enum order decide_order(const struct log_reader *r)
{
	int up = 0, down = 0, before = 0, behind = 0;
	for (size_t i = 1; i < r->held.len; i++) {
		const struct event *a = r->held.data[i - 1], *b = r->held.data[i];
		if (a->time.clock == b->time.clock && a->time.clock != TIME_NONE) {
			up += b->time.seconds > a->time.seconds;
			down += b->time.seconds < a->time.seconds;
		}
		int vote = sequence_vote(r->know, a, b);
		before += vote > 0;
		behind += vote < 0;
	}
	if (up != down)
		return down > up && down > 1 ? ORDER_BACKWARD : down > up && behind > before ? ORDER_BACKWARD : ORDER_FORWARD;
	return behind > before ? ORDER_BACKWARD : ORDER_FORWARD;
}

static void release_held(struct log_reader *r)
{
	for (size_t i = 0; i < r->held.len; i++) {
		size_t at = r->order == ORDER_BACKWARD ? r->held.len - 1 - i : i;
		r->sink.event(r->sink.ctx, r->held.data[at]);
	}
	r->held.len = 0;
	arena_free(&r->arena);
}

static void emit(struct log_reader *r, const struct event *e)
{
	r->events += e->signature != NULL;
	if (r->order == ORDER_FORWARD) {
		r->sink.event(r->sink.ctx, e);
		return;
	}
	if (r->held.len < HOLD_MAX)
		vec_push(&r->held, event_copy(&r->arena, e));
	else
		r->lost++;
	if (r->order == ORDER_UNKNOWN && r->held.len >= HOLD_TO_DECIDE) {
		r->order = decide_order(r);
		if (r->order == ORDER_FORWARD)
			release_held(r);
	}
}

/** As the readers of artefacts call it. */
static void emit_from_artefact(void *ctx, const struct event *e) { emit(ctx, e); }

void log_reader_end(struct log_reader *r)
{
	close_artefact(r);
	if (r->order == ORDER_UNKNOWN)
		r->order = decide_order(r);
	release_held(r);
}

// --- from a matched line to an event ---

static void add_capture(const struct know *k, struct event *e, const struct capture *c, char room[static 24])
{
	struct str name = c->piece->name, value = c->text;
	int64_t number;
	switch (c->piece->type) {
	case VALUE_HEX: {
		uint64_t code = 0;
		if (str_is(value, "(nil)") || str_hex(value, &code))
			event_add(e, name, code_text(code, room), FACT_CODE);
		break;
	}
	case VALUE_INT:
	case VALUE_NUM:
		if (!str_number(value, &number))
			break;
		int n = snprintf(room, 24, "%lld", (long long)number);
		event_add(e, name, (struct str){ room, (size_t)n }, FACT_NUMBER);
		break;
	case VALUE_NAME: {
		struct str named = str_number(value, &number) ? know_name(k, c->piece->table, number) : value;
		event_add(e, name, named, FACT_TEXT);
		break;
	}
	default:
		event_add(e, name, value, FACT_TEXT);
	}
}

/** An event without facts so far; not zeroed as a whole, because most of it is room for facts. */
static void start_event(const struct log_reader *r, const struct logline *line, uint64_t number, struct event *e)
{
	e->signature = NULL;
	e->time = line_time(line);
	e->at = (struct place){ r->source, number };
	e->device = line->device;
	e->driver = line->driver;
	e->text = (struct str){ 0 };
	e->boot_id = line->boot_id;
	e->host = line->stamps.host;
	e->now = false;
	e->dump = (struct dump){ 0 };
	e->nfacts = 0;
}

/** Who wrote the line is a fact of what happens in a program; the kernel's messages name their process themselves. */
static void add_writer(struct event *e, const struct writer *w)
{
	static const char *const names[] = { "rank", "worker", "pid", "host" };
	const struct str values[] = { w->rank, w->worker, w->pid, w->host };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int64_t number;
		if (!event_fact(e, names[i]))
			event_add(e, str_z(names[i]), values[i], str_number(values[i], &number) ? FACT_NUMBER : FACT_TEXT);
	}
}

static void make_sighting(struct log_reader *r, const struct logline *line, uint64_t number)
{
	struct event e;
	start_event(r, line, number, &e);
	emit(r, &e);
}

/** Whose software it is, where the line says so beside its message. */
static void add_vendor(const struct know *k, struct event *e, struct str message)
{
	for (size_t i = 0; i < k->vendors.len; i++) {
		const struct know_pair *v = k->vendors.data[i];
		if (str_find(message, v->value) >= 0 && !event_fact(e, "vendor_amd") && !event_fact(e, "vendor_nvidia"))
			event_add(e, v->name, S("yes"), FACT_TEXT);
	}
}

static void make_event(struct log_reader *r, const struct logline *line, const struct match *m, uint64_t number)
{
	const struct know_signature *s = match_signature(m);
	char rooms[TEMPLATE_VALUES][24];
	struct event e;
	start_event(r, line, number, &e);
	e.signature = s;
	e.text = str_from(line->message, m->begin);
	for (size_t i = 0; i < m->ncaptures; i++)
		if (m->captures[i].piece->name.n)
			add_capture(r->know, &e, &m->captures[i], rooms[i]);
	for (const struct know_pair *p = s->sets; p; p = p->next) {
		int64_t number_value;
		event_add(&e, p->name, p->value,
			  str_is(p->value, "true")            ? FACT_TRUE :
			  str_starts(p->value, S("0x"))       ? FACT_CODE :
			  str_number(p->value, &number_value) ? FACT_NUMBER :
								FACT_TEXT);
	}
	if (s->program && s->event && !s->of_other)
		add_writer(&e, &line->writer);
	if (s->event && s->event->any_vendor)
		add_vendor(r->know, &e, line->message);
	r->program_lines |= s->program && s->level == LEVEL_ERROR;
	r->driver_lines |= !s->program;
	emit(r, &e);
}

// --- lines ---

/** Turns differences and times without a year into times that can be compared. */
static void settle_time(struct log_reader *r, struct stamps *s)
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

/** What stands before and behind a line in its window. */
struct context {
	const struct window *window;
	size_t begin, end;
	uint64_t offset; // of the window
};

static struct str raw_line(const struct window *w, size_t begin, size_t *ret_next)
{
	const char *after = memchr(w->bytes + begin, '\n', w->size - begin);
	size_t end = after ? (size_t)(after - w->bytes) : w->size;
	*ret_next = after ? end + 1 : w->size;
	return (struct str){ w->bytes + begin, end - begin };
}

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

/** A line that was put together of two parts. */
struct joined {
	struct logline line;
	struct match match;
	bool space; // between the parts
	struct lifetime lent;
	char *room; // of which @line and @match are views
};

enum { JOINED_BYTES = 2 * LINE_MAX_BYTES };

static void joined_end(struct joined *j)
{
	lifetime_end(&j->lent);
	free(j->room);
}

/** One that ends with its scope. */
#define JOINED(name) _cleanup_(joined_end) struct joined name = { .room = mem_large(JOINED_BYTES) }

/** The line that @head and @tail make with a space between them, or without. */
static bool match_glued(struct log_reader *r, const struct logline *head, struct str tail, bool space, struct joined *out)
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
	// Only a match that needs both parts is a reason to join them.
	size_t border = at - skipped;
	return m->end > border && (m->begin < border || only_prefix(head));
}

/** Terminals break a line anywhere, at one and the same width; people and forums break it at a space. */
static bool match_joined(struct log_reader *r, const struct context *c, const struct logline *head, struct str tail,
			 bool indented, struct joined *out)
{
	bool hard = r->wrap_width && c->end - c->begin == r->wrap_width && !indented;
	return match_glued(r, head, tail, !hard, out) || (!indented && match_glued(r, head, tail, hard, out));
}

/** Tries the following lines, up to the next one with a time, as the continuation of @line. */
static bool try_continuation(struct log_reader *r, const struct context *c, const struct logline *line, struct joined *out,
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
		struct str raw = raw_line(c->window, at, &next);
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
		bool indented = text.n && text.p[0] == ' ';
		if (match_joined(r, c, line, (struct str){ tail_room, tail_n }, indented, out) &&
		    (!best.n || out->match.template->weight > best_weight)) {
			best = (struct str){ tail_room, tail_n };
			best_space = out->space;
			best_weight = out->match.template->weight;
			*ret_end = next;
		}
		at = next;
	}
	// Another may have been tried behind the best one.
	return best.n && match_glued(r, line, best, best_space, out);
}

/** The fields of a journal export record before its MESSAGE. */
static void export_fields(const struct context *c, struct logline *line)
{
	const char *from = c->window->bytes + (c->begin > EXPORT_LOOK_BACK ? c->begin - EXPORT_LOOK_BACK : 0);
	struct str before = { from, (size_t)(c->window->bytes + c->begin - from) };
	for (ptrdiff_t blank; (blank = str_find(before, S("\n\n"))) >= 0;)
		before = str_from(before, (size_t)blank + 2);
	int64_t v;
	while (before.n) {
		struct str value = str_trim(str_split(&before, '\n')), key = str_split(&value, '=');
		if (str_is(key, "__MONOTONIC_TIMESTAMP") && str_number(value, &v)) {
			line->stamps.best = (struct stamp){ TIME_BOOT, (double)v / 1e6 };
			line->stamps.found = true;
		} else if (str_is(key, "_BOOT_ID")) {
			line->boot_id = value;
		}
	}
}

/** A runtime's last words carry no prefix; the line just before them tells which process wrote last. */
static void tell_last_output(struct log_reader *r, const struct context *c, uint64_t number)
{
	const struct artefact_output out = {
		.know = r->know, .source = r->source, .sink = { emit_from_artefact, r }, .name = r->name, .code = r->code
	};
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
		add_writer(&e, &before.writer);
		event_add(&e, S("output"), str_cut(before.message, OUTPUT_TEXT), FACT_TEXT);
		if (before.stamps.found && !before.stamps.delta) { // a difference was added up when its line was read
			settle_time(r, &before.stamps);
			e.time = before.stamps.best;
		}
		e.text = before.message;
		emit(r, &e);
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

/** The event of a line, and whose it may be. */
static void make_log_event(struct log_reader *r, const struct logline *line, const struct match *m, const struct context *c,
			   uint64_t number)
{
	struct logline rest = *line;
	struct match again;
	make_event(r, line, m, number);
	if (c && lacks_writer(line, m))
		tell_last_output(r, c, number);
	// Two processes that end at once write into one line.
	rest.message = str_from(line->message, m->end);
	if (match_signature(m)->program && line_recognise(r->know, &rest, &again) &&
	    match_signature(&again) == match_signature(m))
		make_event(r, &rest, &again, number);
}

/** Programs print whole lines: what follows one of theirs is another's, unless a terminal has broken it. */
static bool gains_by_joining(const struct log_reader *r, const struct context *c, const struct match *alone,
			     const struct match *joined)
{
	bool broken = r->wrap_width && c->end - c->begin == r->wrap_width;
	return !match_signature(alone)->program || broken || joined->template->weight > alone->template->weight;
}

static void read_text(struct log_reader *r, struct logline *line, const struct context *c, uint64_t number)
{
	JOINED(joined);
	size_t end;
	struct match alone;
	settle_time(r, &line->stamps);
	bool known = line_recognise(r->know, line, &alone);
	if (c && r->stamped && line->stamps.found && try_continuation(r, c, line, &joined, &end) &&
	    (!known || gains_by_joining(r, c, &alone, &joined.match))) {
		r->consumed = c->offset + end;
		make_event(r, &joined.line, &joined.match, number);
		return;
	}
	if (known)
		make_log_event(r, line, &alone, c, number);
	else if (line->device.n && str_is(line->driver, "amdgpu")) {
		make_sighting(r, line, number);
	}
}

/** The last line with a time before this one, if it is at most @lines away. */
static bool find_stamped_before(struct log_reader *r, const struct context *c, int lines, struct line_room *room,
				struct logline *ret_line, struct context *ret_context)
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
		*ret_context = (struct context){ w, begin, end - 1, c->offset };
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

/** A line without a time in a log with times is the rest of one before it: of its message, or at least of its time, which it
 * has from @borrowed then. */
static bool read_as_rest(struct log_reader *r, const struct context *c, struct logline *line, struct kept_stamps *borrowed,
			 uint64_t number)
{
	LINE_ROOM(clean);
	JOINED(joined);
	struct logline before;
	struct context previous;
	struct match m;
	size_t end;
	bool known = line_recognise(r->know, line, &m), program = known && match_signature(&m)->program;
	if (!find_stamped_before(r, c, program ? TRACEBACK_LINES : JOIN_LINES, &clean, &before, &previous))
		return false;
	if (before.stamps.delta) // it was added up when that line was read
		before.stamps.best = (struct stamp){ r->have_base ? TIME_YEARLESS : TIME_RELATIVE, r->base + r->elapsed };
	else
		settle_time(r, &before.stamps);
	stamps_keep(&before.stamps, borrowed);
	if (program) {
		line->stamps = stamps_kept(borrowed);
		make_log_event(r, line, &m, c, number);
		return true;
	}
	if (c->offset + previous.begin >= r->consumed && try_continuation(r, &previous, &before, &joined, &end) &&
	    c->offset + end > c->offset + c->begin) {
		r->consumed = c->offset + end;
		for (size_t at = previous.begin; at < c->begin; at++)
			number -= c->window->bytes[at] == '\n';
		make_event(r, &joined.line, &joined.match, number);
		return true;
	}
	line->stamps = stamps_kept(borrowed);
	if (!line_recognise(r->know, line, &m))
		return false;
	// Names that point into the other line live as long as this call, which ends with the line.
	if (!line->device.n) {
		line->device = before.device;
		line->driver = before.driver;
	}
	make_event(r, line, &m, number);
	return true;
}

static void read_candidate(struct log_reader *r, const struct context *c, uint64_t number)
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
		struct str text = line.text;
		if (!line.stamps.found && line.time_text.n) {
			line.stamps = stamps_read(r->know, line.time_text);
			line.stamps.end = 0;
		}
		while (text.n) {
			struct logline one = line;
			struct str piece = str_split(&text, '\n');
			line_parse(r->know, line_clean(piece, &clean), &one);
			read_text(r, &one, NULL, number);
		}
		return;
	}
	struct str text = line_clean(raw, &clean), message = str_trim(text);
	if (str_starts(message, S("MESSAGE="))) { // journalctl -o export; indented: -o verbose
		export_fields(c, &line);
		line_parse(r->know, str_from(message, 8), &line);
		read_text(r, &line, NULL, number);
		return;
	}
	line_parse(r->know, text, &line);
	if (r->stamped && !line.stamps.found && read_as_rest(r, c, &line, &borrowed, number))
		return;
	read_text(r, &line, c, number);
}

/** A dump has no times; it happened after the last line before it that has one. */
static void find_artefact_time(struct log_reader *r, const struct context *c, struct logline *line)
{
	LINE_ROOM(clean);
	struct logline before;
	struct context previous;
	r->artefact_time = (struct stamp){ 0 };
	if (line->stamps.found || !r->stamped || !find_stamped_before(r, c, TRACEBACK_LINES, &clean, &before, &previous) ||
	    before.stamps.delta)
		return;
	settle_time(r, &before.stamps);
	r->artefact_time = line->stamps.best = before.stamps.best;
	line->stamps.found = line->stamps.borrowed = true;
}

/** Whether the line at @c is one of an artefact. */
static bool artefact_line(struct log_reader *r, const struct context *c, uint64_t number)
{
	LINE_ROOM(clean);
	_lifetime_ lent = { 0 };
	struct str raw = lifetime_begin(&lent, (struct str){ c->window->bytes + c->begin, c->end - c->begin });
	struct logline line = { 0 };
	struct place at = { r->source, number };
	// Most lines begin nothing, and none of the driver's does, so that it is asked before the line is taken apart.
	if (!r->artefact && (str_find(raw, S("amdgpu")) >= 0 || str_find(raw, S("[drm")) >= 0 || !recognise_artefact(raw)))
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
			close_artefact(r);
		return false;
	}
	close_artefact(r);
	find_artefact_time(r, c, &line);
	const struct artefact_output out = {
		.know = r->know, .source = r->source, .sink = { emit_from_artefact, r }, .name = r->name, .code = r->code
	};
	r->artefact = begins;
	r->artefact_self = begins->open(&out);
	note_kind(r, begins->kind);
	return begins->line(r->artefact_self, &line, at) == TAKEN_YES;
}

/** Takes every line from @begin on, until the artefact that is open ends or the window does; returns where. */
static size_t walk_artefact(struct log_reader *r, const struct window *w, size_t begin, uint64_t line, uint64_t offset)
{
	while (begin < w->to && r->artefact) {
		size_t next;
		struct str raw = raw_line(w, begin, &next);
		struct context c = { w, begin, begin + raw.n, offset };
		if (offset + begin >= r->consumed && !artefact_line(r, &c, r->lines + line + 1))
			read_candidate(r, &c, r->lines + line + 1);
		line++;
		begin = next;
	}
	return begin;
}

/** Where the first line begins that is this window's business. */
static size_t first_line(const struct window *w, uint64_t *ret_line)
{
	*ret_line = 0;
	if (!w->from || w->bytes[w->from - 1] == '\n')
		return w->from;
	const char *next = memchr(w->bytes + w->from, '\n', w->size - w->from);
	*ret_line = 1;
	return next ? (size_t)(next - w->bytes) + 1 : w->size;
}

void log_reader_window(struct log_reader *r, const struct window *lent, uint64_t offset)
{
	uint64_t line;
	_lifetime_ until_return = { 0 };
	struct window own = *lent, *w = &own;
	own.bytes = lifetime_begin(&until_return, (struct str){ lent->bytes, lent->size }).p;
	size_t done = first_line(w, &line);
	done = r->artefact ? walk_artefact(r, w, done, line, offset) : 0;
	for (size_t i = 0; i < w->candidates.len; i++) {
		const struct candidate *cand = &w->candidates.data[i];
		struct context c = { w, cand->begin, cand->end, offset };
		if (offset + c.begin < r->consumed || c.begin < done)
			continue;
		if (!artefact_line(r, &c, r->lines + cand->line + 1))
			read_candidate(r, &c, r->lines + cand->line + 1);
		if (r->consumed < offset + c.end)
			r->consumed = offset + c.end;
		if (r->artefact)
			done = walk_artefact(r, w, c.end + 1, cand->line + 1, offset);
	}
	r->lines += w->newlines;
}

void log_reader_line(struct log_reader *r, struct str raw, struct stamp time, struct str boot_id)
{
	LINE_ROOM(clean);
	_lifetime_ lent = { 0 };
	struct logline line = { .boot_id = lifetime_begin(&lent, boot_id) };
	line.stamps.found = time.clock != TIME_NONE;
	line.stamps.best = time;
	r->lines++;
	line_parse(r->know, line_clean(raw, &clean), &line);
	read_text(r, &line, NULL, r->lines);
}

bool log_reader_look(struct log_reader *r, struct str head)
{
	enum { LINES = 400 };
	size_t widths[LINES], n = 0, most = 0;
	size_t before = 0;
	bool delta = false, was_stamped = false;
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
