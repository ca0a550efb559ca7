// Pictures of the GPU itself: the chip with its compute units in the order in which the driver counts them (units that were switched
// off in the factory are gaps), queues and rings, what waits for what, and the lanes of a wave. The chip is drawn only where the GPU
// told which units it has.
#include "evidence/waves/wave_code.h"
#include "report/picture/picture.h"

static const char *const unit_states[LOOKS] = { [LOOK_BAD] = "waves that stand still or loop",
						[LOOK_EFFECT] = "waves at a barrier",
						[LOOK_GOOD] = "waves that get on",
						[LOOK_QUIET] = "no wave" };

static enum picture_look chip_look_of(const struct unit_seen *u)
{
	return u->caught ? LOOK_BAD : u->barrier ? LOOK_EFFECT : u->waves ? LOOK_GOOD : LOOK_QUIET;
}

static struct str row_name(struct picture *p, const struct wave_unit *u)
{
	return arena_printf(&p->arena, "XCC %u SE %u SH %u", u->xcc, u->se, u->sh);
}

bool picture_of_chip(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	const struct dump *chip = NULL;
	for (size_t n = 0; n < i->events.len && !chip; n++)
		chip = i->events.data[n]->dump.nunits ? &i->events.data[n]->dump : NULL;
	size_t there = 0, used = 0, caught = 0;
	(void)d;
	if (!chip)
		return false;
	p->form = PICTURE_CELLS;
	picture_heads(p, "Where", "CU or WGP", "State", "Waves", "At");
	for (size_t n = 0; n < chip->nunits; n++) {
		const struct unit_seen *u = &chip->units[n];
		if (u->at.cu >= PICTURE_CELLS_WIDE)
			return false;
		if (!n || u->at.xcc != u[-1].at.xcc || u->at.se != u[-1].at.se || u->at.sh != u[-1].at.sh)
			picture_track(p, row_name(p, &u->at));
		there += u->at.there;
		used += u->waves > 0;
		caught += u->caught > 0;
		// A unit that was switched off in the factory has a row, and no mark: it is a gap.
		const enum picture_look look = chip_look_of(u);
		char room[24];
		picture_cells(p, row_name(p, &u->at), picture_count(p, u->at.cu),
			      u->at.there ? str_z(unit_states[look]) : S("switched off in the factory"),
			      picture_count(p, u->at.there ? (int64_t)u->waves : -1),
			      u->waves ? code_text(u->pc, room) : S(""));
		if (!u->at.there)
			continue;
		p->looks[look] = unit_states[look];
		picture_mark(p, (struct picture_mark){ p->tracks.len - 1, u->at.cu, u->at.cu, look,
						       u->waves ? arena_printf(&p->arena, "%zu", u->waves) : S("") });
	}
	const size_t gaps = chip->nunits - there;
	p->says = arena_printf(&p->arena, "Waves are on %zu of %zu %s, and stand still or loop on %zu of them", used, there,
			       chip->units[0].wgp ? "WGPs" : "CUs", caught);
	if (gaps)
		p->says = arena_printf(&p->arena, STR_FMT ". Gaps (%zu) were switched off in the factory", STR_ARG(p->says),
				       gaps);
	return there;
}

// How far queues and rings are: what waits in each, from the place that was read last.

enum { QUEUES_MOST = 32 };

#define READ_AT 0.06 // where the read position stands
#define LEAST 0.01   // of what waits, however little

/** One that is read and written: a queue of packets, or a ring of the driver's words. */
struct queue_track {
	struct str name, head, waits_for;
	bool known, words; // a ring's positions are those of words, which others print in hexadecimal
	uint64_t read, written;
	int64_t waves; // -1: not told
};

static struct str chip_number(struct picture *p, bool known, bool words, uint64_t n)
{
	return !known ? S("not known") : arena_printf(&p->arena, words ? "0x%llx" : "%llu", (unsigned long long)n);
}

/** @most waits in the fullest of its kind. */
static void chip_add_track(struct picture *p, const struct queue_track *s, uint64_t most)
{
	const size_t track = p->tracks.len;
	const bool ordered = s->known && s->written >= s->read; // a ring may have begun anew
	const uint64_t waiting = ordered ? s->written - s->read : 0;
	const double wide = waiting ? (1 - READ_AT) * (double)waiting / (double)most : 0;
	picture_track(p, s->head.n ? arena_printf(&p->arena, STR_FMT ", at " STR_FMT, STR_ARG(s->name), STR_ARG(s->head)) :
				     s->name);
	if (s->known)
		picture_mark(p, (struct picture_mark){ track, 0, READ_AT, LOOK_QUIET, S("") });
	if (waiting)
		picture_mark(p, (struct picture_mark){ track, READ_AT, READ_AT + (wide > LEAST ? wide : LEAST), LOOK_EFFECT,
						       arena_printf(&p->arena, "%llu", (unsigned long long)waiting) });
	if (!ordered)
		picture_mark(p, (struct picture_mark){ track, READ_AT, READ_AT, LOOK_UNKNOWN, S("not known") });
	picture_cells(p, s->name, chip_number(p, s->known, s->words, s->read), chip_number(p, s->known, s->words, s->written),
		      chip_number(p, ordered, false, s->written - s->read), s->head.n ? s->head : S("not known"), s->waits_for,
		      picture_count(p, s->waves));
}

static size_t chip_add_queues(struct picture *p, const struct dump *d)
{
	uint64_t most = 0;
	size_t waiting = 0;
	for (size_t n = 0; n < d->nqueues; n++) {
		const struct queue_row *q = &d->queues[n];
		if (!q->indexes_known || q->write_index <= q->read_index)
			continue;
		waiting++;
		most = q->write_index - q->read_index > most ? q->write_index - q->read_index : most;
	}
	for (size_t n = 0; n < d->nqueues && n < QUEUES_MOST; n++) {
		const struct queue_row *q = &d->queues[n];
		const struct queue_track s = { .name = arena_printf(&p->arena, "queue %u", q->id),
					       .head = q->head,
					       .known = q->indexes_known,
					       .read = q->read_index,
					       .written = q->write_index,
					       .waves = (int64_t)q->waves };
		chip_add_track(p, &s, most);
	}
	return waiting;
}

bool picture_of_queues(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	const struct dump *queues = NULL;
	size_t rings = 0, waiting = 0;
	(void)d;
	picture_heads(p, "Where", "Read", "Written", "Waiting", "Packet at the head", "It waits for", "Waves");
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		queues = !queues && e->dump.nqueues ? &e->dump : queues;
		if ((diag_fact(e, "ring_rptr") || diag_fact(e, "ring_packet")) && p->tracks.len < QUEUES_MOST && ++rings) {
			// What a look at the GPU, or its device core, told of a ring.
			struct queue_track s = { .name = arena_printf(&p->arena, "ring " STR_FMT,
								      STR_ARG(diag_value(e, "ring"))),
						 .head = diag_value(e, "ring_packet"),
						 .waits_for = diag_value(e, "ring_waits"),
						 .words = true,
						 .waves = -1 };
			s.known =
				str_hex(diag_value(e, "ring_rptr"), &s.read) && str_hex(diag_value(e, "ring_wptr"), &s.written);
			chip_add_track(p, &s, s.known && s.written > s.read ? s.written - s.read : 1);
		}
	}
	if (queues)
		waiting = chip_add_queues(p, queues);
	picture_tick(p, READ_AT, S("read"));
	p->looks[LOOK_QUIET] = "read";
	p->looks[LOOK_EFFECT] = "waits to be read";
	for (size_t n = 0; n < p->marks.len; n++)
		if (p->marks.data[n].look == LOOK_UNKNOWN)
			p->looks[LOOK_UNKNOWN] = "not known";
	p->says = queues ? arena_printf(&p->arena, "Work waits in %zu of %zu queues", waiting, queues->nqueues) :
			   arena_printf(&p->arena, "Rings that were read: %zu", rings);
	return p->tracks.len;
}

// What a hung GPU waits for: the unit that is stuck, and all that wait behind it.

enum { LINKS_EACH = 6 };

/** Takes the text before the next comma off @s that is not in brackets: `the memory path (L1, L2), the shader cores`. */
static struct str take_unit(struct str *s)
{
	int depth = 0;
	for (size_t n = 0; n < s->n; n++) {
		depth += (s->p[n] == '(') - (s->p[n] == ')');
		if (s->p[n] != ',' || depth > 0)
			continue;
		const struct str unit = str_cut(*s, n);
		*s = str_from(*s, n + 1);
		return str_trim(unit);
	}
	const struct str unit = str_trim(*s);
	*s = (struct str){ 0 };
	return unit;
}

static void add_link(struct picture *p, struct str unit, enum picture_look look, const char *state)
{
	picture_mark(p, (struct picture_mark){ p->marks.len, 0, 1, look, unit });
	picture_cells(p, picture_count(p, (int64_t)p->marks.len), unit, str_z(state));
}

/** Units of the GPU behind the one that is stuck. */
static void chip_add_units(struct picture *p, const struct incident *i)
{
	for (size_t n = 0; n < i->events.len && !p->marks.len; n++) {
		const struct diag_event *e = i->events.data[n];
		const struct str end = diag_value(e, "waits_end_title");
		struct str chain = diag_value(e, "waits_chain");
		if (!end.n)
			continue;
		add_link(p, end, LOOK_BAD, "stuck");
		while (chain.n)
			add_link(p, take_unit(&chain), LOOK_EFFECT, "waits for the one above");
		p->says = arena_printf(&p->arena, "Stuck: " STR_FMT, STR_ARG(end));
	}
}

/** Queues that wait for each other: a sentence for each. */
static void add_circle(struct picture *p, const struct incident *i)
{
	for (size_t n = 0; n < i->events.len && !p->marks.len; n++) {
		struct str all = diag_value(i->events.data[n], "deadlock_says");
		while (all.n)
			add_link(p, str_trim(str_split(&all, ';')), LOOK_BAD, "waits for the other");
		p->says = S("They wait in a circle: none can go on");
	}
}

/** Kernels that have not ended, and who waits for them. */
static void add_kernels(struct picture *p, const struct incident *i)
{
	size_t flying = 0, waiting = 0;
	for (size_t n = 0; n < i->events.len && flying < LINKS_EACH; n++)
		if (i->events.data[n]->kind->tells == TELLS_IN_FLIGHT && ++flying)
			add_link(p, i->events.data[n]->sentence, LOOK_BAD, "has not ended");
	for (size_t n = 0; n < i->events.len && flying && waiting < LINKS_EACH; n++)
		if (i->events.data[n]->kind->waits && i->events.data[n]->kind->tells != TELLS_IN_FLIGHT && ++waiting)
			add_link(p, i->events.data[n]->sentence, LOOK_EFFECT, "waits");
	p->says = arena_printf(&p->arena, "In flight: %zu, waiting: %zu", flying, waiting);
}

bool picture_of_waits(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static void (*const ways[])(struct picture * p, const struct incident *i) = { chip_add_units, add_circle, add_kernels };
	(void)d;
	p->form = PICTURE_CHAIN;
	picture_heads(p, "Place", "What", "State");
	for (size_t n = 0; n < ARRAY_SIZE(ways) && !p->marks.len; n++)
		ways[n](p, i);
	for (size_t n = 0; n < p->marks.len; n++)
		p->looks[p->marks.data[n].look] = p->marks.data[n].look == LOOK_BAD ? "stuck" : "waits";
	return p->marks.len;
}

// The lanes of the wave that stopped: which were active, and which hold a value that is out of step.

static uint64_t active_lanes(const struct diag_event *e)
{
	const struct wave_register *exec = wave_register_named(&e->dump.registers, S("exec"));
	return exec && exec->n ? exec->data[0] : UINT64_MAX;
}

/** The first event that has a register with lanes out of step. */
static const struct diag_event *find_event(const struct incident *i, struct lane_pattern *ret)
{
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		if (diag_fact(e, "odd_register") && lanes_find_odd(&e->dump.registers, active_lanes(e), ret))
			return e;
	}
	return NULL;
}

bool picture_of_lanes(const struct diagnosis *d, const struct incident *i, struct picture *p)
{
	static const char *const states[LOOKS] = {
		[LOOK_BAD] = "out of step", [LOOK_GOOD] = "in step", [LOOK_QUIET] = "inactive", [LOOK_UNKNOWN] = "not known"
	};
	struct lane_pattern pattern;
	char room[24];
	const struct diag_event *e = find_event(i, &pattern);
	(void)d;
	if (!e)
		return false;
	const uint64_t active = active_lanes(e);
	p->form = PICTURE_CELLS;
	picture_heads(p, "Lane", "State", "Value");
	for (unsigned lane = 0; lane < pattern.v->n && lane < WAVE_LANES; lane++) {
		const bool known = lane_known(pattern.v, lane), on = active >> lane & 1, odd = pattern.odd >> lane & 1;
		const enum picture_look look = odd ? LOOK_BAD : !on ? LOOK_QUIET : known ? LOOK_GOOD : LOOK_UNKNOWN;
		const struct str value = known ? code_text(pattern.v->data[lane], room) : S("");
		p->looks[look] = states[look];
		picture_mark(p, (struct picture_mark){ 0, lane, lane, look, value });
		picture_cells(p, picture_count(p, lane), str_z(states[look]), value);
	}
	p->says = arena_printf(&p->arena, "In register " STR_FMT ", lanes " STR_FMT " are out of step with the others",
			       STR_ARG(pattern.v->name), STR_ARG(lanes_say(&p->arena, pattern.odd)));
	return true;
}
