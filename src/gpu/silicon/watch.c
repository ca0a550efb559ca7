// A GPU looked at several times: its registers and rings, and what they say of its units. Which registers there are to look at, what each
// field means and who waits for whom is text in knowledge/silicon.know; here is how a list of looks becomes a word about a unit: busy at
// every look, at none, at some. watch_waves.c does the same for waves.
#include "gpu/silicon/watch.h"
#include "source/tape/tape.h"

#include <stdlib.h>

// --- what is read ---

static void silicon_watch_add_named(struct watch *w, struct str name, bool deep, const struct register_table *of_dump)
{
	enum { INSTANCES = 64 };
	struct device_register found[INSTANCES];
	struct reg reg;
	if (!w->device && of_dump && register_find(of_dump, name, &reg))
		vec_push(&w->registers, ((struct watched_register){ .reg = reg }));
	size_t n = w->device ? device_registers(w->device, name, found, INSTANCES) : 0;
	for (size_t i = 0; i < n && i < INSTANCES; i++) {
		const struct ip *ip = found[i].ip;
		// The render node answers for the first instance; the others are read through debugfs.
		vec_push(&w->registers, ((struct watched_register){ .reg = found[i].reg,
								    .ip = ip,
								    .xcc = str_is(ip->name, "gc") ? ip->instance : 0,
								    .deep = deep || ip->instance }));
	}
}

int64_t watch_now(const struct watch *w)
{
	return tape_now(w->device && w->device->patience ? w->device->patience->tape : NULL);
}

void watch_begin(struct watch *w, const struct know *k, struct target *t, const struct device *d, struct str gfx)
{
	*w = (struct watch){ .know = k, .target = t, .device = d, .xccs = 1, .interrupts_first = -1, .interrupts_last = -1 };
	w->began = watch_now(w);
	unsigned version[3];
	const struct register_table *table = NULL;
	bool exact;
	if (!d && gc_of_gfx(k, gfx, version))
		table = register_table_for(S("gc"), version[0], version[1], version[2], &exact);
	if (d && d->shaders.xccs)
		w->xccs = d->shaders.xccs;
	for (size_t i = 0; i < k->watches.len; i++) {
		for (const struct know_list *l = k->watches.data[i]->render; l; l = l->next)
			silicon_watch_add_named(w, l->text, false, table);
		for (const struct know_list *l = k->watches.data[i]->deep; l; l = l->next)
			silicon_watch_add_named(w, l->text, true, table);
	}
}

void watch_end(struct watch *w)
{
	vec_free(&w->registers);
	vec_free(&w->rings);
	vec_free(&w->gprs);
	arena_free(&w->arena);
}

void watch_close_looks(struct watch *w)
{
	const struct probe_stuck *stuck = w->device ? target_stuck(w->target) : NULL;
	if (stuck && !w->ended_looking)
		w->stuck = *stuck;
	w->ended_looking = true;
}

const struct probe_stuck *watch_stuck(const struct watch *w)
{
	if (w->late.n)
		return NULL;
	const struct probe_stuck *stuck = !w->device ? NULL : !w->ended_looking ? target_stuck(w->target) : w->stuck.is ? &w->stuck : NULL;
	return stuck || !w->device || !w->device->stuck.is ? stuck : &w->device->stuck;
}

static void look_at_registers(struct watch *w, bool deep)
{
	size_t n = w->registers.len;
	struct request *requests = arena_alloc(&w->arena, n * sizeof(*requests) + 1);
	struct watched_register **of = arena_alloc(&w->arena, n * sizeof(struct watched_register *) + 1);
	size_t asked = 0;
	for (size_t i = 0; i < n; i++) {
		struct watched_register *r = &w->registers.data[i];
		if (r->deep != deep)
			continue;
		struct request *q = &requests[asked];
		*q = (struct request){ .kind = REQUEST_REGISTER, .reg = &r->reg, .bank = BANK_NONE };
		if (r->ip) {
			q->ip = r->ip->name;
			q->ip_instance = r->ip->instance;
			if (r->xcc)
				q->bank.xcc = (int)r->xcc;
		}
		of[asked++] = r;
	}
	if (asked)
		w->target->ask(w->target, requests, asked);
	for (size_t i = 0; i < asked; i++) {
		if (requests[i].answer != ANSWER_GIVEN)
			continue;
		of[i]->values[w->looks] = requests[i].value;
		of[i]->known |= 1u << w->looks;
	}
}

static void look_at_rings(struct watch *w)
{
	struct request r = { .kind = REQUEST_RINGS, .positions = true };
	if (target_ask(w->target, &r) != ANSWER_GIVEN)
		return;
	w->rings_known = true;
	for (size_t i = 0; i < r.n; i++) {
		const struct ring *ring = &r.rings[i];
		size_t at = 0;
		while (at < w->rings.len && !str_eq(w->rings.data[at].name, ring->name))
			at++;
		if (at == w->rings.len)
			vec_push(&w->rings,
				 ((struct watched_ring){ .name = arena_str(&w->arena, ring->name), .rptr = ring->rptr }));
		struct watched_ring *seen = &w->rings.data[at];
		if (ring->rptr != seen->rptr) {
			seen->moved = true;
			seen->waited = 0;
		}
		seen->rptr = ring->rptr;
		seen->wptr = ring->wptr == ring->rptr ? ring->driver_wptr : ring->wptr;
		seen->waited = seen->wptr == seen->rptr ? 0 : seen->waited + 1;
		seen->words = ring->words;
		seen->n = ring->n;
	}
}

void watch_contents(struct watch *w)
{
	enum { MOST = 4 };
	size_t n = 0;
	for (size_t i = 0; i < w->rings.len && n < MOST && w->device; i++) {
		struct watched_ring *ring = &w->rings.data[i];
		struct request r = { .kind = REQUEST_RINGS, .ring = ring->name };
		if (ring->moved || !ring->waited || target_stuck(w->target))
			continue;
		n++;
		if (target_ask(w->target, &r) == ANSWER_GIVEN && r.n) {
			ring->words = r.rings[0].words;
			ring->n = r.rings[0].n;
		}
	}
}

void watch_look(struct watch *w, bool deep, bool rings)
{
	if (w->looks == LOOKS_MOST)
		return;
	if (w->device && w->device->off_bus) {
		w->gate = target_gate(w->target);
		return;
	}
	look_at_registers(w, false);
	if (w->device)
		w->gate = target_gate(w->target);
	else
		w->gate = (struct gate){ .open = true };
	if (w->gate.open && deep)
		look_at_registers(w, true);
	// A driver that did not answer once is not asked for more.
	if (w->gate.open && rings && (!w->device || !target_stuck(w->target)))
		look_at_rings(w);
	w->looks++;
	w->ended = watch_now(w);
}

// --- units ---

static const struct watched_register *silicon_watch_read_register(const struct watch *w, unsigned xcc, struct str name)
{
	return list_find(w->registers.data, w->registers.len, r, r->known && r->xcc == xcc && str_eq(r->reg.name, name));
}

/** Whether it reads all ones at every look: then nobody answers for it, and its fields say nothing. */
static bool only_ones(const struct watch *w, const struct watched_register *r)
{
	for (size_t i = 0; i < w->looks; i++)
		if (r->known >> i & 1 && r->values[i] != UINT32_MAX)
			return false;
	return r->known;
}

static const struct watched_register *silicon_watch_find_register(const struct watch *w, unsigned xcc, struct str name)
{
	const struct watched_register *r = silicon_watch_read_register(w, xcc, name);
	return r && !only_ones(w, r) ? r : NULL;
}

static enum steadiness silicon_watch_unit_of(const struct watch_view *v, const struct know_unit *u);

/** @waves, @waves-memory, @waves-barrier: most of them do that. One that has just come to a barrier says nothing. */
static enum steadiness pseudo_field(const struct watch_view *v, struct str name)
{
	const struct wave_state *s = v->waves, *all = watch_wave_state(v->watch, v->xcc);
	const bool before_memory = str_is(name, "@waves-memory"), at_barrier = str_is(name, "@waves-barrier");
	if (!s)
		return STEADY_UNKNOWN;
	const struct know_unit *memory = know_unit(v->watch->know, S("memory"));
	const bool busy = before_memory && memory && silicon_watch_unit_of(v, memory) == STEADY_SET;
	// The instruction says what they wait for, where it could be read: then the memory path must be busy with it at every look. Else all
	// waves of the XCC stand, at no barrier, while it is.
	if (before_memory && (s->waits == WAITS_OTHER || s->waits == WAITS_BARRIER))
		return STEADY_CLEAR;
	if (at_barrier && s->count && !s->moved && s->waits == WAITS_BARRIER)
		return STEADY_SET;
	if (before_memory && s->count && !s->moved && busy &&
	    (s->waits == WAITS_MEMORY || (s->count == all->count && !s->barrier && !s->halted)))
		return STEADY_SET;
	size_t n = str_is(name, "@waves") ? s->count : s->moved ? 0 : before_memory ? s->memory : s->barrier;
	return n * 2 > s->count ? STEADY_SET : STEADY_CLEAR;
}

static enum steadiness one_field(const struct watch_view *v, struct str name)
{
	const struct watch *w = v->watch;
	if (str_starts(name, S("@")))
		return pseudo_field(v, name);
	struct str field_name = name, register_name = str_split(&field_name, '.');
	const struct watched_register *r = silicon_watch_find_register(w, v->xcc, register_name);
	struct reg_field field;
	if (!r || !register_field_find(&r->reg, field_name, &field))
		return STEADY_UNKNOWN;
	size_t set = 0, looks = 0;
	for (size_t i = 0; i < w->looks; i++) {
		if (!(r->known >> i & 1))
			continue;
		looks++;
		set += field_of(&field, r->values[i]) != 0;
	}
	return set == looks ? STEADY_SET : set ? STEADY_NOT : STEADY_CLEAR;
}

static enum steadiness silicon_watch_either(enum steadiness a, enum steadiness b)
{
	if (a == STEADY_SET || b == STEADY_SET)
		return STEADY_SET;
	if (a == STEADY_NOT || b == STEADY_NOT)
		return STEADY_NOT;
	return a == STEADY_UNKNOWN ? b : a;
}

static enum steadiness silicon_watch_unit_of(const struct watch_view *v, const struct know_unit *u)
{
	const struct watch *w = v->watch;
	enum steadiness busy = STEADY_UNKNOWN;
	for (const struct know_list *l = u->busy; l; l = l->next)
		busy = silicon_watch_either(busy, one_field(v, l->text));
	for (const struct know_list *l = u->idle; l; l = l->next) {
		struct str field = l->text;
		const struct watched_register *r = silicon_watch_find_register(w, v->xcc, str_split(&field, '.'));
		uint32_t bits = 0;
		for (size_t i = 0; r && i < w->looks; i++)
			bits |= r->known >> i & 1 ? r->values[i] : 0;
		if (!bits) // at no look: the part has the register, but not the engine
			continue;
		const enum steadiness idle = one_field(v, l->text);
		busy = silicon_watch_either(busy, idle == STEADY_SET ? STEADY_CLEAR : idle == STEADY_CLEAR ? STEADY_SET : idle);
	}
	return busy;
}

struct watch_view watch_xcc(const struct watch *w, unsigned xcc)
{
	return (struct watch_view){ w, xcc, watch_wave_state(w, xcc) };
}

enum steadiness watch_unit(const struct watch *w, unsigned xcc, const struct know_unit *u)
{
	const struct watch_view v = watch_xcc(w, xcc);
	return silicon_watch_unit_of(&v, u);
}

bool watch_still(const struct watch *w, unsigned xcc, const struct know_unit *u, uint32_t *ret_value)
{
	// Whether a ring that it serves is there: the registers of MES are on parts, too, whose driver does without it.
	bool serves = false;
	for (size_t i = 0; i < w->rings.len; i++)
		serves |= patterns_fit(u->rings, w->rings.data[i].name);
	const struct watched_register *r = u->still.n && serves ? silicon_watch_find_register(w, xcc, u->still) : NULL;
	size_t looks = 0;
	*ret_value = 0;
	for (size_t i = 0; r && i < w->looks; i++) {
		if (!(r->known >> i & 1))
			continue;
		if (looks++ && r->values[i] != *ret_value)
			return false;
		*ret_value = r->values[i];
	}
	return looks > 1;
}

const struct know_unit *watch_waits(const struct watch_view *v, const struct know_unit *u)
{
	const struct know_unit *spi = know_unit(v->watch->know, S("SPI"));
	for (const struct know_pair *p = u->waits; p; p = p->next) {
		struct str rest = p->value;
		for (struct str field = str_word(&rest); field.n; field = str_word(&rest)) {
			enum steadiness s = one_field(v, field);
			// Where waves could not be read, their launcher says whether there are any to wait for.
			if (s == STEADY_UNKNOWN && str_is(field, "@waves") && spi)
				s = silicon_watch_unit_of(v, spi);
			if (s == STEADY_SET)
				return know_unit(v->watch->know, p->name);
		}
	}
	return NULL;
}

size_t watch_chain(const struct watch_view *v, const struct know_unit **ret, size_t most)
{
	const struct know *k = v->watch->know;
	size_t n = 0;
	const struct know_unit *u = NULL, *busy = NULL;
	// In the order of the knowledge file: from where commands come in to where memory is.
	for (size_t i = 0; i < k->units.len && !u; i++)
		if (silicon_watch_unit_of(v, k->units.data[i]) == STEADY_SET) {
			busy = busy ? busy : k->units.data[i];
			u = watch_waits(v, k->units.data[i]) ? k->units.data[i] : NULL;
		}
	for (u = u ? u : busy; u && n < most; u = watch_waits(v, u)) {
		if (list_find(ret, n, it, *it == u))
			return n;
		ret[n++] = u;
	}
	return n;
}

const struct know_unit *watch_ring_unit(const struct know *k, struct str ring)
{
	return list_find_of(k->units.data, k->units.len, it, patterns_fit(it->rings, ring));
}

// --- what does not answer, or was not read ---

bool watch_xcc_seen(const struct watch *w, unsigned xcc)
{
	const struct know_unit *spi = know_unit(w->know, S("SPI"));
	bool registers = false, waves = false;
	for (size_t i = 0; i < w->registers.len; i++)
		registers |= w->registers.data[i].known && w->registers.data[i].xcc == xcc;
	for (size_t look = 0; look < w->wave_looks; look++)
		for (size_t i = 0; i < w->waves[look].nunits; i++)
			waves |= w->waves[look].units[i].xcc == xcc;
	// Waves were looked at, and none could be read though it has some at every look.
	const bool unread = !waves && w->wave_looks && spi && watch_unit(w, xcc, spi) == STEADY_SET;
	return registers && !unread;
}

unsigned watch_xccs_without_waves_read(const struct watch *w)
{
	uint64_t seen = 0, asked = 0;
	unsigned n = 0;
	for (size_t look = 0; look < w->wave_looks; look++) {
		seen |= w->waves[look].seen;
		asked |= w->waves[look].slots ? 0 : w->waves[look].xccs ? w->waves[look].xccs : UINT64_MAX;
	}
	for (unsigned xcc = 0; xcc < w->xccs; xcc++)
		n += (asked & ~seen) >> (xcc % 64) & 1;
	return n;
}

unsigned watch_xccs_unseen(const struct watch *w)
{
	unsigned n = 0;
	for (unsigned xcc = 0; xcc < w->xccs && w->gate.open; xcc++)
		n += !watch_xcc_seen(w, xcc);
	return n;
}

bool watch_all_ones(const struct watch *w)
{
	return list_find(w->registers.data, w->registers.len, r, r->known) &&
	       !list_find(w->registers.data, w->registers.len, r, r->known && !only_ones(w, r));
}

bool watch_unit_ones(const struct watch *w, unsigned xcc, const struct know_unit *u)
{
	size_t known = 0;
	const struct know_list *const lists[] = { u->busy, u->idle };
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (const struct know_list *l = lists[i]; l; l = l->next) {
			struct str rest = l->text;
			const struct watched_register *r = silicon_watch_read_register(w, xcc, str_split(&rest, '.'));
			known += r != NULL;
			if (r && !only_ones(w, r))
				return false;
		}
	return known;
}

/** The copy engines' registers are in the same block on some parts. */
static bool of_engine(const struct watch *w, const struct watched_register *r)
{
	for (size_t i = 0; i < w->know->units.len; i++) {
		const struct know_unit *u = w->know->units.data[i];
		for (const struct know_list *l = u->engine ? u->idle : NULL; l; l = l->next) {
			struct str rest = l->text;
			if (str_eq(str_split(&rest, '.'), r->reg.name))
				return true;
		}
	}
	return false;
}

bool watch_block_ones(const struct watch *w, struct str ip, unsigned instance)
{
	size_t known = 0;
	for (size_t i = 0; i < w->registers.len; i++) {
		const struct watched_register *r = &w->registers.data[i];
		if (!r->known || !r->ip || !str_eq(r->ip->name, ip) || r->ip->instance != instance || of_engine(w, r))
			continue;
		known++;
		if (!only_ones(w, r))
			return false;
	}
	return known;
}

bool watch_ring_waits(const struct watch *w)
{
	return list_find(w->rings.data, w->rings.len, it, !it->moved && it->waited) != NULL;
}
