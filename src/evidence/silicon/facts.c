// What the looks at a GPU say, as named facts for the conditions of knowledge/silicon.know. A fact that is only for conditions is noted, one
// that people read is said; what was not looked at is no fact, so that a condition on it is unknown and not false.
#include "evidence/silicon/facts.h"
#include "evidence/silicon/code.h"

#include <stdlib.h>

#include "evidence/silicon/user_queues.h"
#include "gpu/packet.h"

enum { CHAIN_MOST = 8 };

// --- the list ---

static void facts_add(struct verdict_facts *f, const char *name, struct str value, enum fact_type type, bool tell)
{
	if (value.n && f->n < VERDICT_FACTS)
		f->facts[f->n++] = (struct verdict_fact){ str_z(name), value, type, tell };
}

static void say(struct verdict_facts *f, const char *name, struct str value) { facts_add(f, name, value, FACT_TEXT, true); }
static void note(struct verdict_facts *f, const char *name, struct str value) { facts_add(f, name, value, FACT_TEXT, false); }
static void facts_number(struct verdict_facts *f, const char *name, int64_t value, bool tell)
{
	facts_add(f, name, arena_printf(f->arena, "%lld", (long long)value), FACT_NUMBER, tell);
}
static void code(struct verdict_facts *f, const char *name, uint64_t value)
{
	char room[24];
	facts_add(f, name, arena_str(f->arena, code_text(value, room)), FACT_CODE, true);
}

void verdict_fact_add(struct verdict_facts *f, const char *name, struct str value) { note(f, name, value); }

static bool facts_get(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct verdict_facts *f = ctx;
	for (size_t i = 0; i < f->n; i++) {
		if (!str_eq(f->facts[i].name, name) || index--)
			continue;
		*ret = f->facts[i].value;
		return true;
	}
	*ret = (struct str){ 0 };
	return false;
}

struct fact_view verdict_view(const struct verdict_facts *f) { return (struct fact_view){ facts_get, f }; }

struct str verdict_fact(const struct verdict_facts *f, const char *name)
{
	struct str value;
	facts_get(f, str_z(name), 0, &value);
	return value;
}

bool verdict_fact_is(const struct verdict_facts *f, const char *name, const char *value)
{
	struct str v;
	for (size_t i = 0; facts_get(f, str_z(name), i, &v); i++)
		if (str_is(v, value))
			return true;
	return false;
}

/** A fact of the unit; it is told of the one that the verdict is about. */
static const char *still_fact(struct arena *a, struct str unit)
{
	return arena_z(a, arena_printf(a, "still_at_" STR_FMT, STR_ARG(unit)));
}

void verdict_facts_unit(struct verdict_facts *f, const struct know *k, const struct know_verdict *v)
{
	const struct fact_view view = { facts_get, f };
	_cleanup_text_ struct text unit = { 0 };
	phrase_fill(&unit, v->unit, &view);
	struct str name = arena_str(f->arena, text_str(&unit));
	const struct know_unit *u = know_unit(k, name);
	say(f, "ip_block", name);
	if (u)
		say(f, "ip_block_title", u->title);
	facts_add(f, "still_at", verdict_fact(f, still_fact(f->arena, name)), FACT_CODE, true);
	if (v->each_xcc)
		say(f, "xcc", verdict_fact(f, "of_xcc"));
}

// --- whether it could be looked at ---

/** They are asked once, before the looks. */
static bool sensors_silent(const struct watch *w)
{
	return w->device && w->device->sensors_silent > 1 && w->device->sensors_silent == w->device->sensors;
}

static void add_gate(struct verdict_facts *f, const struct watch *w)
{
	const struct gate *g = &w->gate;
	const struct probe_stuck *stuck = watch_stuck(w);
	const char *word = !w->device                       ? "offline" :
			   w->device->off_bus || g->off_bus ? "off-bus" :
			   (stuck || g->error) && g->gfxoff ? "gfxoff-stuck" :
			   g->reset                         ? "reset" :
			   stuck                            ? "stuck" :
			   g->asleep                        ? "asleep" :
			   g->guest                         ? "guest" :
			   g->gfxoff                        ? "gfxoff" :
			   g->open                          ? "open" :
							      "refused";
	note(f, "gate", str_z(word));
	if (sensors_silent(w))
		facts_number(f, "sensors_silent", w->device->sensors_silent, true);
	if (stuck) {
		struct str stack = stuck->stack, innermost = str_split(&stack, '\n');
		say(f, "blocked_path", stuck->at);
		say(f, "blocked_at", stuck->wchan.n ? stuck->wchan : innermost);
		say(f, "blocked_in", stuck_in(w->know, stuck));
		if (w->waited)
			say(f, "blocked_seconds", arena_printf(f->arena, "%.1f", (double)w->waited / 1000));
	}
	if (g->error)
		say(f, "query_error", str_z(strerrorname_np(g->error)));
	if (w->device && w->device->off_bus) {
		const struct link *l = &w->device->link;
		say(f, "config", S("ffff"));
		say(f, "link", link_text(w->device, f->arena));
		if (l->fatal >= 0)
			say(f, "aer",
			    arena_printf(f->arena, "%lld fatal, %lld non-fatal, %lld corrected", (long long)l->fatal,
					 (long long)l->nonfatal, (long long)l->correctable));
	}
}

// --- units ---

static void facts_add_units(struct verdict_facts *f, const struct watch *w, unsigned xcc)
{
	static const char *const words[] = { NULL, "idle", "busy", "changing" };
	const struct know *k = w->know;
	_cleanup_text_ struct text busy = { 0 };
	uint32_t value;
	note(f, "busy", S("none")); // so that conditions on it are known to be false
	for (size_t i = 0; i < k->units.len; i++) {
		const struct know_unit *u = k->units.data[i];
		enum steadiness s = watch_unit(w, xcc, u);
		if (s == STEADY_UNKNOWN)
			continue;
		note(f, words[s], u->head.id);
		if (s == STEADY_SET)
			text_printf(&busy, "%s" STR_FMT, busy.n ? ", " : "", STR_ARG(u->head.id));
		if (watch_still(w, xcc, u, &value)) {
			char room[24];
			note(f, "still", u->head.id);
			facts_add(f, still_fact(f->arena, u->head.id), arena_str(f->arena, code_text(value, room)), FACT_CODE,
				  false);
		}
	}
	say(f, "busy_units", busy.n ? arena_str(f->arena, text_str(&busy)) : S("none"));
}

/** Blocks that nobody answers for: gone, or without power or clock. */
static void add_ones(struct verdict_facts *f, const struct watch *w, unsigned xcc)
{
	const struct device *d = w->device;
	note(f, "xcc_ones", watch_block_ones(w, S("gc"), xcc) ? S("yes") : S("no"));
	for (size_t i = 0; d && i < d->nips; i++)
		if (!str_is(d->ips[i].name, "gc") && watch_block_ones(w, d->ips[i].name, d->ips[i].instance))
			note(f, "ones_in", d->ips[i].name);
	for (size_t i = 0; i < w->know->units.len; i++)
		if (w->know->units.data[i]->engine && watch_unit_ones(w, xcc, w->know->units.data[i]))
			note(f, "ones_in", w->know->units.data[i]->head.id);
}

/** Whether nothing takes work on any XCC of the partition; where one was not seen, it is not known. */
static void add_partition(struct verdict_facts *f, const struct watch *w, uint64_t xccs)
{
	static const char *const takers[] = { "SPI", "CPC" };
	bool idle = true;
	for (unsigned xcc = 0; xcc < w->xccs; xcc++) {
		if (!(xccs >> xcc & 1))
			continue;
		if (!watch_xcc_seen(w, xcc))
			return;
		for (size_t i = 0; i < ARRAY_SIZE(takers); i++) {
			const struct know_unit *u = know_unit(w->know, str_z(takers[i]));
			idle &= u && watch_unit(w, xcc, u) == STEADY_CLEAR;
		}
	}
	note(f, "partition_idle", idle ? S("yes") : S("no"));
}

static void add_chain(struct verdict_facts *f, const struct watch_view *v)
{
	const struct know_unit *chain[CHAIN_MOST];
	size_t n = watch_chain(v, chain, CHAIN_MOST);
	_cleanup_text_ struct text out = { 0 };
	if (!n)
		return;
	// From the last unit, which is the one that is stuck, back to the first.
	for (size_t i = n - 1; i-- > 0;)
		text_printf(&out, "%s" STR_FMT, out.n ? ", " : "", STR_ARG(chain[i]->title));
	if (out.n)
		say(f, "waits_chain", arena_str(f->arena, text_str(&out)));
	note(f, "waits_end", chain[n - 1]->head.id);
	say(f, "waits_end_title", chain[n - 1]->title);
}

// --- waves ---

/** The XCCs that share their work with this one. */
static uint64_t partition(const struct watch *w, unsigned xcc) { return w->device ? partition_of_xcc(w->device, xcc) : 1; }

/** Whether this XCC is the only one of its partition where the party's waves stand still. */
static bool alone_still(const struct watch *w, const struct party *p)
{
	uint64_t xccs = partition(w, p->xcc);
	const struct wave_slot *b = &p->waves->of;
	for (size_t g = 0; g < w->ngroups; g++) {
		const struct wave_slot *a = &w->groups[g].of;
		const bool same = a->vmid == b->vmid && a->me == b->me && a->pipe == b->pipe && a->queue == b->queue;
		if (a->xcc != p->xcc && xccs >> a->xcc & 1 && same && !w->groups[g].state.moved)
			return false;
	}
	return xccs & (xccs - 1);
}

/** What the party sees of the waves; NULL: they were not looked at, or its XCC cannot be seen. */
static const struct wave_state *waves_of(const struct watch *w, const struct party *p)
{
	static const struct wave_state none = { 0 };
	const struct wave_state *all = w->device && !watch_xcc_seen(w, p->xcc) ? NULL : watch_wave_state(w, p->xcc);
	return !all ? NULL : p->waves ? &p->waves->state : p->driver ? all : &none;
}

/** Which registers change between the looks: a loop that counts has its counter there. */
static void add_changes(struct verdict_facts *f, const struct wave_state *s)
{
	static const char *const words[] = { [GPRS_STILL] = "still", [GPRS_CHANGE] = "changing" };
	_cleanup_text_ struct text list = { 0 };
	if (s->sgprs != GPRS_UNREAD)
		note(f, "sgprs", str_z(words[s->sgprs]));
	if (s->vgprs != GPRS_UNREAD)
		note(f, "vgprs", str_z(words[s->vgprs]));
	if (s->sgprs != GPRS_UNREAD)
		note(f, "stood_registers", s->stood_changing ? S("changing") : S("still"));
	for (size_t i = 0; i < s->nchanges && (s->changes[i].grows || s->changes[i].falls); i++)
		text_printf(&list, "%s%c%u %s", i ? ", " : "", s->changes[i].bank, s->changes[i].number,
			    s->changes[i].grows ? "grows" : "falls");
	if (list.n && s->loops)
		say(f, "counts", arena_str(f->arena, text_str(&list)));
}

static void facts_add_waves(struct verdict_facts *f, const struct watch *w, const struct party *p)
{
	const struct wave_state *s = waves_of(w, p), *all = watch_wave_state(w, p->xcc);
	if (!s)
		return;
	// Waves of the partition that are not the party's: a command processor without any waits for those.
	bool elsewhere = false;
	for (size_t g = 0; g < w->ngroups; g++)
		elsewhere |= &w->groups[g] != p->waves && partition(w, p->xcc) >> w->groups[g].of.xcc & 1;
	note(f, "waves_elsewhere", elsewhere ? S("yes") : S("no"));
	if (!elsewhere && p->sure && p->waves)
		say(f, "only_waves", S("yes"));
	if (!w->waves_sampled)
		facts_number(f, "waves", (int64_t)s->count, s->count);
	if (!w->waves_sampled && !all->count)
		say(f, "no_waves", S("no waves are on the GPU"));
	if (!p->waves || w->wave_looks < 2)
		return;
	// Of many waves some always move; a tenth of them is work, fewer is chance. Those at a barrier wait for the others.
	size_t others = s->barrier < s->count ? s->count - s->barrier : s->count;
	bool moving = s->moved * 10 > others;
	note(f, "waves_moving", moving ? S("yes") : S("no"));
	note(f, "waves_loop", s->loops ? S("yes") : S("no"));
	facts_number(f, "loop_bytes", (int64_t)s->loop_bytes, s->loops);
	if (s->loops > 1)
		facts_number(f, "more_loops", (int64_t)s->loops - 1, true);
	facts_number(f, "waves_memory", (int64_t)s->memory, s->memory);
	facts_number(f, "waves_barrier", (int64_t)s->barrier, s->barrier);
	if (s->barrier && s->barrier < s->count) {
		facts_number(f, "waves_free", (int64_t)others, true);
		code(f, "barrier_pc", s->barrier_pc);
	}
	facts_number(f, "waves_halted", (int64_t)s->halted, s->halted);
	say(f, "stop_reason", stop_reasons_text(f->arena, s->stop_reasons));
	if (s->stop_reasons && s->one && s->one->in_trap)
		say(f, "trap_note", S("in the trap handler, so the pc is the handler's"));
	if (s->stop_reasons && s->stopped < s->count)
		facts_number(f, "waves_stopped", (int64_t)s->stopped, true);
	note(f, "alone", !moving && alone_still(w, p) ? S("yes") : S("no"));
	add_changes(f, s);
	code(f, "pc", s->pc);
	facts_number(f, "vmid", p->waves->of.vmid, true);
	if (w->device && !w->device->nholders && !p->nqueues)
		say(f, "no_owner", S("no process that unhang sees uses this GPU"));
}

void verdict_facts_code(struct verdict_facts *f, const struct party_code *c)
{
	struct str kernel = c->kernel.n ? c->kernel : verdict_fact(f, "kernel_name");
	note(f, "kernel", str_split(&kernel, '('));
	note(f, "polls", c->polls);
	note(f, "waits_for", c->waits_for);
	if (c->polled_known)
		code(f, "polled_address", c->polled);
	if (c->value_known)
		code(f, "polled_value", c->value);
	if (c->shader) {
		say(f, "shader", shader_say(f->arena, c->shader));
		say(f, "shader_short", arena_printf(f->arena, STR_FMT " at 0x%llx", STR_ARG(c->shader->stage),
						    (unsigned long long)c->shader->address));
	}
}

// --- rings ---

/** The packet at which a ring stands. */
static void facts_add_packet(struct verdict_facts *f, const struct watch *w, const struct watched_ring *r, struct str gfx)
{
	struct packet p;
	const struct packet_stream s = { w->know, packet_language_of(w->know, r->name), gfx, r->words, r->n };
	if (!r->words || s.language == PACKETS_UNKNOWN || !packet_decode(&s, f->arena, r->rptr, &p))
		return;
	if (p.known)
		say(f, "ring_packet", p.name);
	say(f, "ring_waits", p.waits_for);
}

static bool add_rings(struct verdict_facts *f, const struct watch *w)
{
	bool moved = false;
	const struct watched_ring *first = NULL;
	facts_number(f, "rings", (int64_t)w->rings.len, false);
	for (size_t i = 0; i < w->rings.len; i++) {
		const struct watched_ring *r = &w->rings.data[i];
		moved |= r->moved;
		if (r->moved)
			note(f, "ring_moving", r->name);
		// Work that came just before the last look may be taken in a moment.
		if (r->moved || r->waited < (w->device ? 2 : 1))
			continue;
		const struct know_unit *u = watch_ring_unit(w->know, r->name);
		note(f, "ring_stuck", r->name);
		if (u && u->engine)
			note(f, "engine_stuck", u->head.id);
		// What the driver waited for, else an engine of its own: the others may only wait for shaders.
		if (!first || (!str_eq(first->name, f->late_ring) && (str_eq(r->name, f->late_ring) || (u && u->engine))))
			first = r;
	}
	if (!first)
		return moved;
	const struct know_unit *u = watch_ring_unit(w->know, first->name);
	say(f, "ring", first->name);
	const struct watch_view whole = watch_xcc(w, 0);
	const struct know_unit *waits = u ? watch_waits(&whole, u) : NULL;
	if (u)
		note(f, "ring_unit", u->head.id);
	if (waits)
		say(f, "ring_waits_unit", waits->title);
	code(f, "ring_rptr", first->rptr);
	code(f, "ring_wptr", first->wptr);
	facts_add_packet(f, w, first, w->device ? w->device->gfx : (struct str){ 0 });
	return moved;
}

// --- user queues ---

/** Whether one moved; and those that did not. */
static bool facts_add_queues(struct verdict_facts *f, const struct watch *w, const struct party *p, const struct user_queues *q)
{
	const struct user_process *of = p->process;
	bool moved = false, told = false, stopped = false;
	for (size_t i = 0; i < p->nqueues; i++) {
		const struct user_queue *u = p->queues[i];
		moved |= user_queue_moved(u);
		if (!user_queue_stands(u))
			continue;
		// One of a client may wait for a fence of another program: that it stands is no hang, only no progress.
		note(f, u->client ? "client_queue_stuck" : "queue_stuck", arena_printf(f->arena, "%u", u->id));
		if (!told) {
			facts_number(f, "queue_id", u->id, true);
			if (u->packets)
				facts_number(f, "queue_pending", (int64_t)u->pending, true);
			note(f, "queue_packet", u->packet);
			say(f, "kernel_name", u->kernel);
		}
		of = told || of ? of : &q->processes[u->process];
		told = true;
	}
	if (told || (of && p->waves)) {
		say(f, "process", of->name);
		facts_number(f, "pid", of->pid, true);
	} else if (p->owner) {
		say(f, "process", p->owner->name);
		facts_number(f, "pid", p->owner->pid, true);
		stopped = p->owner->stopped;
	}
	for (size_t h = 0; w->device && of && h < w->device->nholders; h++)
		stopped |= w->device->holders[h].pid == of->pid && w->device->holders[h].stopped;
	note(f, "stopped", stopped ? S("yes") : S("no"));
	note(f, "process_moving", p->process_moves ? S("yes") : S("no"));
	note(f, "others", p->others_move ? S("moving") : S("still"));
	note(f, "beside", p->beside_move ? S("moving") : S("still"));
	if (moved)
		note(f, "queue_moving", S("yes"));
	return moved;
}

/** Whether queues wait for each other, which nothing on the GPU can end. */
static void add_deadlock(struct verdict_facts *f, const struct watch *w, const struct user_queues *q)
{
	struct barrier_wait waits[BARRIERS_MOST];
	size_t n = w->device ? barriers_cycle(q, w->device->pci, waits) : 0;
	if (!n)
		return;
	const struct user_process *p = &q->processes[waits[0].queue->process];
	facts_number(f, "deadlock", (int64_t)n, true);
	say(f, "deadlock_says", barriers_say(f->arena, waits, n));
	say(f, "deadlock_process", p->name);
	facts_number(f, "deadlock_pid", p->pid, true);
}

static void add_progress(struct verdict_facts *f, const struct watch *w, const struct party *p, const struct user_queues *q)
{
	// Work of a process that computes does not go through rings.
	bool rings = add_rings(f, w) && !p->process, queues = facts_add_queues(f, w, p, q);
	bool counted = w->interrupts_first >= 0 && w->interrupts_last >= 0;
	bool interrupts = counted && w->interrupts_last != w->interrupts_first;
	bool standing = verdict_fact(f, "queue_stuck").n, client_stands = verdict_fact(f, "client_queue_stuck").n;
	// Interrupts of a display come also while all work hangs, and programs that poll need none: alone they prove nothing.
	const char *word = queues	   ? "yes" :
			   standing	   ? "no" :
			   rings	   ? "yes" :
			   interrupts	   ? "maybe" :
			   !w->device	   ? "no" : // the driver waited before it wrote the dump
			   client_stands || w->rings_known ? "no" :
						       "unknown";
	note(f, "progress", str_z(word));
	note(f, "interrupts", !counted ? S("unknown") : interrupts ? S("moving") : S("still"));
}

void verdict_facts_of(struct verdict_facts *f, const struct watch *w, const struct party *p, const struct user_queues *q)
{
	const unsigned xcc = p->xcc;
	const struct watch_view view = { w, xcc, waves_of(w, p) };
	const struct know_unit *spi = know_unit(w->know, S("SPI"));
	const uint64_t xccs = partition(w, xcc);
	add_gate(f, w);
	if (w->xccs > 1)
		facts_number(f, "of_xcc", xcc, false);
	if (w->looks) {
		note(f, "ones", watch_all_ones(w) ? S("yes") : S("no"));
		add_ones(f, w, xcc);
		facts_add_units(f, w, xcc);
		facts_add_waves(f, w, p);
		// This XCC launches waves at every look while the others launch none: in one partition they share their work.
		bool alone = spi && xccs & (xccs - 1);
		for (unsigned other = 0; other < w->xccs && alone; other++)
			if (xccs >> other & 1)
				alone = watch_unit(w, other, spi) == (other == xcc ? STEADY_SET : STEADY_CLEAR);
		note(f, "alone_busy", alone ? S("yes") : S("no"));
		add_partition(f, w, xccs);
		add_chain(f, &view);
	}
	add_progress(f, w, p, q);
	add_deadlock(f, w, q);
	facts_number(f, "looks", (int64_t)w->looks, !sensors_silent(w));
	if (w->looks > 1 && w->ended > w->began) // one look takes no time, and a watch that was cut short has no end
		say(f, "seconds", arena_printf(f->arena, "%.1f", (double)(w->ended - w->began) / 1000));
	if (w->device && w->device->busy >= 0)
		facts_number(f, "load", w->device->busy, true);
	if (w->device && w->device->memory_busy >= 0)
		facts_number(f, "memory_load", w->device->memory_busy, false);
	if (w->device && w->device->power_mw >= 0)
		facts_number(f, "power", w->device->power_mw / 1000, true);
	if (w->device && w->device->power_mw >= 0 && w->device->power_cap_mw > 0)
		facts_number(f, "power_share", w->device->power_mw * 100 / w->device->power_cap_mw, false);
}
