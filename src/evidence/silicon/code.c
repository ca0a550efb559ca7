// Code behind waves that stand or go round, by the process or the address space that they are of.
#include "evidence/silicon/code.h"

#include "base/cleanup.h"
#include "evidence/silicon/round.h"
#include "evidence/waves/wave_code.h"

enum { SOME_WAVES = 8 }; // of a party whose dispatch is looked for

// --- dispatches ---

/** The queue of a process that has this number. */
static const struct queue *process_queue(struct target *process, uint32_t id)
{
	struct request r = { .kind = REQUEST_QUEUES };
	target_ask(process, &r);
	return list_find(r.queues, r.n, it, it->id == id);
}

void party_find_dispatches(struct silicon_looked *g, const struct party *p, struct wave *waves, size_t n)
{
	struct target *process = p->process ? p->process->target : NULL;
	_cleanup_free_ struct wave **list = mem_alloc((n + 1) * sizeof(*list));
	const struct queue *best = NULL;
	size_t most = 0;
	for (size_t i = 0; i < n; i++)
		list[i] = &waves[i];
	if (!n || !target_ttmps(g->target, waves, n))
		return;
	// Where it is not known which of its queues they are of, the packets tell: of one of them all of these waves can be.
	for (size_t i = 0; process && i < p->nqueues; i++) {
		const struct queue *q = p->queues[i]->client ? NULL : process_queue(process, p->queues[i]->id);
		const size_t fit = q ? waves_check_dispatch(process, q, list, n, false) : 0;
		if (fit > most)
			best = q;
		else if (fit && fit == most)
			best = NULL;
		most = fit > most ? fit : most;
	}
	if (best)
		waves_check_dispatch(process, best, list, n, true);
	for (size_t i = 0; i < n && !best; i++)
		waves[i].placed = false;
}

// --- what they wait for ---

/** Where no register tells of a barrier, the instruction does. */
static enum wave_waits waits_of(struct silicon_round *r, const struct where *at, const struct wave_barrier *b)
{
	struct meaning_parked parked;
	struct meaning m;
	if (at->here >= at->ninstructions || !meaning_of(r->know, at->instructions[at->here].text, &m))
		return WAITS_UNKNOWN;
	if (!b->known && b->stood && meaning_parked(&r->arena, r->know, at->instructions, at->ninstructions, at->here, &parked) &&
	    parked.meaning.what->act == ACT_BARRIER)
		return WAITS_BARRIER;
	return meaning_waits_memory(r->know, &m) ? WAITS_MEMORY : WAITS_OTHER;
}

/** The address that the loop loads from. Registers that do not change between the looks still hold it. */
static void find_polled(struct silicon_round *r, struct silicon_looked *g, const struct wave_state *s, const struct instruction *load,
			struct party_code *c)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct wave w = c->one;
	struct where at = *c->at;
	struct lane_address lanes[MEANING_LANES];
	if (s->sgprs != GPRS_STILL || s->vgprs == GPRS_CHANGE || !watch_is_last(&g->watch, w.slot.xcc))
		return;
	wave_read_registers(g->target, &a, &w);
	at.here = (size_t)(load - at.instructions);
	const struct wave_code code = { .know = r->know, .where = &at, .wave = &w };
	const size_t n = wave_code_addresses(&code, lanes);
	struct meaning m;
	c->polled_known = n && meaning_of(r->know, load->text, &m) && m.what->space != SPACE_LDS;
	if (c->polled_known) {
		uint8_t word[8] = { 0 };
		c->polled = lanes[0].address;
		c->bytes = m.bytes && m.bytes < sizeof(word) ? m.bytes : sizeof(word) / (m.bytes ? 1 : 2);
		c->value_known = wave_space_contents(&g->spaces, c->space, c->polled, word, c->bytes);
		memcpy(&c->value, word, sizeof(word));
	}
	vec_free(&w.registers);
}

static void find_poll(struct silicon_round *r, struct silicon_looked *g, const struct wave_state *s, struct party_code *c)
{
	const struct where *at = c->at;
	struct meaning_parked parked = { 0 };
	if (at->here >= at->ninstructions)
		return;
	meaning_parked(&r->arena, r->know, at->instructions, at->ninstructions, at->here, &parked);
	if (!parked.polls || !s->loops || !s->moved)
		return;
	c->polls = at->instructions[parked.polled].text;
	find_polled(r, g, s, &at->instructions[parked.polled], c);
}

// --- all of it ---

/** Some waves of a set at the newest look at all, the one at the place where most are first. */
static size_t some_waves(const struct watch *w, const struct wave_set *set, struct wave ret[static SOME_WAVES])
{
	const struct wave_look *l = watch_newest(w, set->of.xcc);
	size_t n = 0;
	ret[n++] = *set->state.one;
	for (size_t i = 0; i < l->n && n < SOME_WAVES; i++)
		if (wave_set_has(set, &l->waves[i].slot) && !wave_slots_equal(&l->waves[i].slot, &ret[0].slot))
			ret[n++] = l->waves[i];
	return n;
}

/** Whether KFD tells that a process has other address spaces on a GPU than that of a slot. */
static bool known_elsewhere(const struct user_queues *q, size_t process, const struct device *d, const struct wave_slot *s)
{
	bool any = false;
	for (size_t i = 0; i < q->n; i++) {
		const struct user_queue *u = &q->list[i];
		if (u->process != process || u->client || !str_eq(u->gpu, d->pci))
			continue;
		if (!u->slot.known || u->slot.vmid == s->vmid)
			return false;
		any = true;
	}
	return any;
}

/** Where neither the GPU nor KFD tells whose waves of a compute queue are: a process that has code where they are. */
static void guess_process(struct silicon_round *r, struct silicon_looked *g, struct party_code *c)
{
	const struct device *d = g->device;
	for (size_t i = 0; i < r->queues.nprocesses && !c->guess; i++) {
		const struct user_process *p = &r->queues.processes[i];
		const struct where *at;
		if (!p->target || !list_find(d->holders, d->nholders, h, h->pid == p->pid) ||
		    known_elsewhere(&r->queues, i, d, &c->one.slot))
			continue;
		struct wave_space *space = wave_space_of(&g->spaces, &c->one.slot, p->target);
		wave_space_where(&g->spaces, space, &c->one.at, 1, WAVE_CONTEXT, &at);
		if (!at->in)
			continue;
		c->guess = p;
		c->space = space;
		c->at = at;
	}
}

/** Who has the address space of waves, by its PASID. */
static const struct holder *party_owner(const struct device *d, const struct address_space *s)
{
	for (size_t i = 0; s->pasid_known && i < d->nholders; i++)
		if (list_find(d->holders[i].pasids, d->holders[i].npasids, it, *it == s->pasid))
			return &d->holders[i];
	return NULL;
}

void party_code_find(struct silicon_round *r, struct silicon_looked *g, struct party *p, struct party_code *ret)
{
	const struct wave_state *s = p->waves ? &p->waves->state : NULL;
	struct wave some[SOME_WAVES];
	*ret = (struct party_code){ 0 };
	if (!s || !s->one || !s->count || (s->moved * 2 >= s->count && !s->loops) || g->watch.waves_sampled || target_stuck(g->target))
		return;
	const size_t n = some_waves(&g->watch, p->waves, some);
	party_find_dispatches(g, p, some, n);
	ret->one = some[0];
	ret->one.stood = !s->moved;
	ret->space = wave_space_of(&g->spaces, &some[0].slot, p->process ? p->process->target : NULL);
	wave_space_where(&g->spaces, ret->space, &some[0].at, 1, WAVE_CONTEXT, &ret->at);
	if (!ret->at->in && !p->process && some[0].slot.me)
		guess_process(r, g, ret);
	if (!p->process && !ret->guess && ret->space->memory)
		p->owner = party_owner(g->device, &ret->space->before);
	ret->kernel = wave_space_kernel(ret->space, &some[0], ret->at);
	ret->shader = wave_space_shader(ret->space, some[0].pc);
	ret->one.kernel = ret->kernel;
	struct wave_barrier barrier = wave_barrier_of(&ret->one);
	const enum wave_waits waits = waits_of(r, ret->at, &barrier);
	const struct know_unit *memory = know_unit(r->know, S("memory"));
	watch_set_waits(&g->watch, p->waves, waits);
	ret->one.memory_idle = waits == WAITS_MEMORY && memory && watch_unit(&g->watch, p->xcc, memory) == STEADY_CLEAR;
	barrier = wave_barrier_of(&ret->one);
	struct str load;
	ret->waits_for = wave_waits_for(&r->arena, r->know, ret->at, &barrier, &load);
	find_poll(r, g, s, ret);
}
