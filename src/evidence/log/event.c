// From a line whose message is known to an event.
#include <stdio.h>

#include "evidence/log/log_reader.h"

/** As the readers of artefacts call it. */
static void emit_from_artefact(void *ctx, const struct event *e) { log_emit(ctx, e); }

void log_emit(struct log_reader *r, const struct event *e)
{
	const struct know_event *kind = e->signature ? e->signature->event : NULL;
	r->events += e->signature && !(kind && kind->tells == TELLS_UNKNOWN); // which is no known message
	r->failures += e->signature && e->signature->level == LEVEL_ERROR;
	log_order_event(&r->order, e);
}

struct artefact_output log_output(struct log_reader *r)
{
	return (struct artefact_output){
		.know = r->know, .source = r->source, .sink = { emit_from_artefact, r }, .name = r->name, .code = r->code
	};
}

static void add_capture(const struct know *k, struct event *e, const struct capture *c, char room[static 24])
{
	struct str name = c->piece->name, value = c->text;
	int64_t number;
	if (!value.n || value_elided(value))
		return;
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
	event_begin(e, (struct place){ r->source, number });
	e->time = line_time(line);
	e->device = line->device;
	e->driver = line->driver;
	e->boot_id = line->boot_id;
	e->host = line->stamps.host;
	e->unattested = line->by.writer != WRITER_UNTOLD && !line->opening.attested;
}

void log_add_writer(struct event *e, const struct writer *w)
{
	static const char *const names[] = { "rank", "worker", "pid", "host" };
	const struct str values[] = { w->rank, w->worker, w->pid, w->host };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int64_t number;
		if (!event_fact(e, names[i]))
			event_add(e, str_z(names[i]), values[i], str_number(values[i], &number) ? FACT_NUMBER : FACT_TEXT);
	}
}

/** The rank before the line at @at, going up or down through @w; false: none of the nearest lines has one. *@ret_edge: there are no more
 * lines. */
static bool rank_beside(const struct log_reader *r, const struct line_at *c, bool below, char rank[static RANK_DIGITS],
			bool *ret_edge)
{
	enum { NEAR_LINES = 3 };
	LINE_ROOM(clean);
	const struct window *w = c->window;
	size_t begin = c->begin, end = c->end;
	*ret_edge = false;
	for (int i = 0; i < NEAR_LINES; i++) {
		if (below ? end + 1 >= w->size : begin < 2) {
			*ret_edge = true;
			return false;
		}
		const char *newline =
			below ? memchr(w->bytes + end + 1, '\n', w->size - end - 1) : memrchr(w->bytes, '\n', begin - 1);
		const size_t from = below ? end + 1 : newline ? (size_t)(newline - w->bytes) + 1 : 0;
		const size_t to = !below ? begin - 1 : newline ? (size_t)(newline - w->bytes) : w->size;
		struct logline line = { 0 };
		line_parse_front(r->know, line_clean((struct str){ w->bytes + from, to - from }, &clean), &line);
		if (line.writer.rank.n && line.writer.rank.n < RANK_DIGITS) {
			str_copy(rank, RANK_DIGITS, line.writer.rank);
			return true;
		}
		begin = from;
		end = to;
	}
	return false;
}

bool log_rank_around(const struct log_reader *r, const struct line_at *c, char rank[static RANK_DIGITS])
{
	char below[RANK_DIGITS];
	bool edge, ignored;
	const struct str named = prefix_rank_of_name(r->name);
	if (named.n && named.n < RANK_DIGITS) {
		str_copy(rank, RANK_DIGITS, named);
		return true;
	}
	if (!rank_beside(r, c, false, rank, &ignored))
		return false;
	// Ranks write in turns: only what stands between two lines of one, or at the end, is that one's.
	return rank_beside(r, c, true, below, &edge) ? !strcmp(rank, below) : edge;
}

void log_sighting(struct log_reader *r, const struct logline *line, uint64_t number)
{
	struct event e;
	start_event(r, line, number, &e);
	log_emit(r, &e);
}

/** Whose software it is, where the line says so beside its message. */
static void add_vendor(const struct know *k, struct event *e, struct str message)
{
	static const char *const facts[] = { "vendor_amd", "vendor_nvidia", "vendor_cuda" };
	for (size_t i = 0; i < k->vendors.len; i++) {
		const struct know_row *v = k->vendors.data[i];
		if (str_find(message, v->value) < 0)
			continue;
		for (size_t f = 0; f < ARRAY_SIZE(facts); f++)
			if (str_is(v->head.id, facts[f] + strlen("vendor_")))
				event_add(e, str_z(facts[f]), S("yes"), FACT_TEXT);
		return;
	}
}

/** Keeps @e, of which there may be millions, until a failure follows. */
static void keep_for_failure(struct log_reader *r, const struct event *e)
{
	const struct fact *pid = event_fact(e, "pid");
	size_t slot = 0;
	while (slot + 1 < KEPT_KINDS && r->kept[slot].signature && r->kept[slot].signature->event != e->signature->event)
		slot++;
	struct log_kept *kept = &r->kept[slot];
	if (!e->nfacts)
		return;
	kept->signature = e->signature;
	kept->at = e->at;
	kept->n = 0;
	for (size_t i = 0; i < e->nfacts && kept->n < KEPT_FACTS; i++) {
		if (e->facts[i].type != FACT_TEXT) // who it was is told by the failure
			continue;
		str_copy(kept->names[kept->n], sizeof(kept->names[0]), e->facts[i].name);
		str_copy(kept->values[kept->n++], sizeof(kept->values[0]), e->facts[i].value);
	}
	str_copy(kept->pid, sizeof(kept->pid), pid ? pid->value : (struct str){ 0 });
}

/** Tells what was kept, where @failure is of the same process as far as the lines say. */
static void tell_kept(struct log_reader *r, struct log_kept *kept, const struct event *failure)
{
	const struct fact *pid = event_fact(failure, "pid");
	struct event e = { .signature = kept->signature, .at = kept->at, .time = failure->time, .boot_id = failure->boot_id };
	if (!kept->signature || (pid && kept->pid[0] && !str_is(pid->value, kept->pid)))
		return;
	for (size_t i = 0; i < kept->n; i++)
		event_add(&e, str_z(kept->names[i]), str_z(kept->values[i]), FACT_TEXT);
	kept->signature = NULL;
	log_emit(r, &e);
}

/** The driver numbers hardware errors in braces before its messages: `{1}`. A number stands for one error, on all GPUs of a hive. */
static uint64_t number_in_braces(struct str before)
{
	const char *open = before.n ? memrchr(before.p, '{', before.n) : NULL;
	struct str rest = open ? str_from(before, (size_t)(open - before.p) + 1) : (struct str){ 0 };
	int64_t n;
	return str_number(str_split(&rest, '}'), &n) && n >= 0 ? (uint64_t)n + 1 : 0;
}

/** The open bank that a line names, and the newest one of its GPU; NULL: there is none. */
static struct log_bank *bank_of(struct log_reader *r, const struct event *e, int64_t entry, const struct log_bank **ret_newest)
{
	struct log_bank *found = NULL;
	*ret_newest = NULL;
	for (size_t i = 0; i < BANKS_OPEN; i++) {
		struct log_bank *b = &r->banks[i];
		if (!b->order || !str_is(e->device, b->device))
			continue;
		if (!*ret_newest || b->order > (*ret_newest)->order)
			*ret_newest = b;
		if (b->entry == entry && b->numbered == e->numbered)
			found = b;
	}
	return found;
}

/** In the place of @again, or of the oldest. */
static struct log_bank *bank_begin(struct log_reader *r, const struct event *e, int64_t entry, struct log_bank *again)
{
	struct log_bank *b = again ? again : &r->banks[0];
	const bool mixed = again && !bank_has(&again->bank, BANK_IPID);
	for (size_t i = 0; i < BANKS_OPEN && !again; i++)
		b = r->banks[i].order < b->order ? &r->banks[i] : b;
	*b = (struct log_bank){ .order = ++r->banks_begun, .entry = entry, .numbered = e->numbered, .mixed = mixed };
	str_copy(b->device, sizeof(b->device), e->device);
	return b;
}

/** A register whose STATUS is not in the log: what the bank says is not known. false: the user has retracted the message. */
static bool bank_lost(struct log_reader *r, struct event *e)
{
	e->signature = know_signature(r->know, S("ras-bank-lost"));
	e->nfacts = 0;
	return e->signature;
}

/** Adds what a register of a bank tells; false: it tells nothing more than the others did. */
static bool add_bank(struct log_reader *r, struct event *e, struct arena *a)
{
	const struct fact *entry = event_fact(e, "aca_entry"), *named = event_fact(e, "aca_register"),
			  *value = event_fact(e, named ? "aca_value" : "aca_status");
	const enum bank_register which = named ? bank_register(named->value) : BANK_STATUS;
	const struct log_bank *newest;
	int64_t number = 0;
	uint64_t bits;
	if (entry)
		str_number(entry->value, &number);
	struct log_bank *b = bank_of(r, e, number, &newest);
	if (which == BANK_STATUS)
		newest = b = bank_begin(r, e, number, b);
	else if (which == BANK_REGISTERS) // CONTROL stands before STATUS
		return false;
	else if (!b || (bank_has(&b->bank, which) && !b->mixed))
		return bank_lost(r, e);
	if (!value || !str_hex(value->value, &bits))
		return which == BANK_STATUS;
	bank_set(&b->bank, which, bits);
	b->bank.unnumbered = !entry; // MI200, whose driver reads registers one by one, and no list of banks
	if (named && (b->mixed || b != newest)) // its event is not the newest any more
		return false;
	if (named) // the facts of the line are those of the bank
		e->nfacts = 0;
	bank_facts(r->know, &b->bank, which, e, a);
	return e->nfacts;
}

/** What the driver says of the hardware costs a module where anybody may have written it. */
static bool is_hearsay(const struct log_reader *r, const struct logline *line, const struct match *m, enum line_speaker *ret)
{
	const struct know_signature *s = match_signature(m);
	const bool costly = str_is(s->subsystem, "ras") && !s->bare && !s->program && line->by.writer == WRITER_UNTOLD;
	*ret = costly ? line_speaker(r->know, line, m->begin) : SPEAKER_KERNEL;
	return *ret == SPEAKER_PROGRAM;
}

void log_event(struct log_reader *r, const struct logline *line, const struct match *m, uint64_t number)
{
	const struct know_signature *s = match_signature(m);
	char rooms[TEMPLATE_VALUES][24], depth[24];
	struct event e;
	enum line_speaker speaker;
	bool tells_failure = s->level != LEVEL_INFO || (s->event && s->event->opens == OPENS_YES);
	if (tells_failure && !line->opening.live && quotes_message(&r->quotes, line, m->begin, m->end, s->program)) {
		r->quotes.at = r->quotes.at ? r->quotes.at : number;
		return;
	}
	if (is_hearsay(r, line, m, &speaker)) {
		r->hearsay_at = tells_failure && !r->hearsay_at ? number : r->hearsay_at;
		return;
	}
	start_event(r, line, number, &e);
	e.unattested |= speaker == SPEAKER_DOUBTFUL;
	e.signature = s;
	e.text = str_from(line->message, m->begin);
	if (e.device.n)
		e.numbered = number_in_braces(str_cut(line->message, m->begin));
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
	if (s->event && s->event->tells == TELLS_FRAME) {
		int n = snprintf(depth, sizeof(depth), "%u", line->callers);
		event_add(&e, S("frame_depth"), (struct str){ depth, (size_t)n }, FACT_NUMBER);
	}
	if (s->program && s->event && !s->of_other)
		log_add_writer(&e, &line->writer);
	if (s->event && s->event->any_vendor)
		add_vendor(r->know, &e, line->message);
	_cleanup_arena_ struct arena room = { 0 };
	if (s->bank && !add_bank(r, &e, &room)) {
		r->driver_lines = true;
		return;
	}
	r->program_lines |= s->program && s->level == LEVEL_ERROR;
	r->driver_lines |= !s->program;
	if (s->event && s->event->before_failure)
		keep_for_failure(r, &e);
	log_emit(r, &e);
	if (s->event && s->event->opens == OPENS_YES && s->level == LEVEL_ERROR)
		for (size_t i = 0; i < KEPT_KINDS; i++)
			tell_kept(r, &r->kept[i], &e);
}

void log_other_drm(struct log_reader *r, const struct logline *line, uint64_t number)
{
	const struct artefact_output out = log_output(r);
	const bool error = line_speaks_of_error(line->text);
	struct event e;
	if (r->other_drm[error] ||
	    !artefact_event(&out, error ? "other-drm-error" : "other-drm-line", (struct place){ r->source, number }, &e))
		return;
	r->other_drm[error] = true;
	const struct str driver = line->driver.n ? line->driver : line->module;
	if (driver.n)
		event_add(&e, S("other_driver"), driver, FACT_TEXT);
	log_order_event(&r->order, &e); // it is no known message
}
