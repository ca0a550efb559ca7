// States of queues, rings and waves, by what a round of looks says of the parties that they belong to.
#include "evidence/silicon/states.h"

static struct str short_kernel(struct str name) { return str_split(&name, '('); }

/** The facts that all of them have: those of the party, and what follows from them. */
static struct verdict_facts *state_facts(struct silicon_round *r, const struct silicon_looked *g, const struct judgement *j,
					 const char *of)
{
	struct verdict_facts *f = arena_alloc(&r->arena, sizeof(*f));
	const struct know_verdict *told = told_verdict(j), *first = j && j->n ? j->verdicts[0] : NULL;
	const struct watch *w = &g->watch;
	if (j)
		*f = j->facts;
	f->arena = &r->arena;
	if (told)
		verdict_facts_unit(f, r->know, told);
	verdict_fact_add(f, "of", str_z(of));
	if (first)
		verdict_fact_add(f, "verdict", told ? told->head.id : first->head.id);
	verdict_fact_add(f, "told", told ? S("yes") : S("no"));
	if (!j)
		verdict_fact_add(f, "gate", w->gate.open ? S("open") : S("closed"));
	if (w->ended > w->began)
		verdict_fact_add(f, "watched", arena_printf(&r->arena, "%.1f", (double)(w->ended - w->began) / 1000));
	return f;
}

static struct silicon_state state_by(struct silicon_round *r, const struct silicon_looked *g, const struct verdict_facts *f)
{
	const struct fact_view view = verdict_view(f);
	struct silicon_state s = { .is = S("unknown") };
	s.seconds = g->watch.ended > g->watch.began ? (double)(g->watch.ended - g->watch.began) / 1000 : 0;
	for (size_t i = 0; i < r->know->states.len; i++) {
		const struct know_queue_state *k = r->know->states.data[i];
		if (condition_eval(k->when, &view) != TRUTH_YES)
			continue;
		_cleanup_text_ struct text why = { 0 };
		phrase_fill(&why, k->say, &view);
		s.is = k->is;
		s.why = arena_str(&r->arena, text_str(&why));
		break;
	}
	return s;
}

// --- queues ---

/** Whether the waves that were judged are in the address space of a client of the driver. */
static bool waves_of_client(const struct judgement *j, const struct client_queue *c)
{
	const struct wave_space *s = j->code.space;
	return s && s->memory && s->before.root && c->tables_known && s->before.root == c->tables.root;
}

/** The judgement about the party of a queue; of several, one that found something wrong. */
static const struct judgement *judgement_of_queue(const struct silicon_looked *g, const struct user_queue *u)
{
	const struct judgement *found = NULL;
	for (size_t i = 0; i < g->judgements.len; i++) {
		const struct judgement *j = g->judgements.data[i];
		if (!(u->client ? waves_of_client(j, u->client) : party_has(j->party, u)))
			continue;
		if (!found || (!told_verdict(found) && told_verdict(j)))
			found = j;
	}
	return found;
}

/** A queue is empty as soon as the GPU has taken its last packet, whose waves may be there still. */
static bool own_waves(const struct judgement *j, const struct user_queue *u)
{
	return j && j->party->waves && j->party->sure && j->party->nqueues == 1 && j->party->queues[0] == u && j->party->waves->state.count;
}

/** Who gives the signal that a barrier at the head of a queue waits for, and whether that one waits for this queue itself. */
static void add_barrier(struct silicon_round *r, const struct user_queue *u, struct verdict_facts *f)
{
	struct barrier_wait wait, cycle[BARRIERS_MOST];
	const size_t n = u->waits ? barriers_cycle(&r->queues, u->gpu, cycle) : 0;
	verdict_fact_add(f, "own_deadlock", list_find(cycle, n, it, it->queue == u) ? S("yes") : S("no"));
	if (!u->waits || !barrier_giver(&r->queues, u, &wait))
		return;
	struct str kernel = short_kernel(wait.task->kernel);
	verdict_fact_add(f, "own_giver",
			 arena_printf(&r->arena, "packet %llu of %s%.0u%s" STR_FMT "%s", (unsigned long long)wait.task->index,
				      wait.by == u ? "the same queue" : "queue ", wait.by == u ? 0 : wait.by->id,
				      kernel.n ? " (" : "", STR_ARG(kernel), kernel.n ? ")" : ""));
}

struct silicon_state state_of_queue(struct silicon_round *r, const struct silicon_looked *g, const struct user_queue *u)
{
	const struct judgement *j = judgement_of_queue(g, u);
	struct verdict_facts *f = state_facts(r, g, j, "queue");
	verdict_fact_add(f, "own", !u->known             ? S("unread") :
				   user_queue_moved(u)   ? S("moved") :
				   user_queue_stands(u)  ? S("stands") :
							   S("empty"));
	if (own_waves(j, u))
		verdict_fact_add(f, "own_waves", arena_printf(&r->arena, "%zu", j->party->waves->state.count));
	verdict_fact_add(f, "own_client", u->client ? S("yes") : S("no"));
	verdict_fact_add(f, "own_packet", u->packet);
	if (!u->client && r->queues.placed && r->queues.kfd.hqds_read)
		verdict_fact_add(f, "own_place", u->slot.known ? S("yes") : S("no"));
	if (!verdict_fact(f, "kernel").n)
		verdict_fact_add(f, "kernel", short_kernel(u->kernel));
	const struct user_process *p = &r->queues.processes[u->process];
	for (size_t i = 0; i < g->device->nholders; i++)
		if (g->device->holders[i].pid == p->pid && g->device->holders[i].stopped)
			verdict_fact_add(f, "own_stopped", arena_printf(&r->arena, STR_FMT " (%lld)", STR_ARG(p->name), (long long)p->pid));
	add_barrier(r, u, f);
	return state_by(r, g, f);
}

// --- rings ---

/** Of the driver, or of waves that no process which computes has: what a ring of this unit starts. One that is about this very ring comes
 * first. */
static const struct judgement *judgement_of_ring(const struct silicon_looked *g, struct str ring, const struct know_unit *unit)
{
	const bool engine = unit && unit->engine, graphics = unit && str_is(unit->head.id, "CPG");
	const struct judgement *found = NULL;
	for (size_t i = 0; i < g->judgements.len; i++) {
		const struct judgement *j = g->judgements.data[i];
		const bool told = told_verdict(j), own = told && str_eq(verdict_fact(&j->facts, "ring"), ring);
		const struct wave_set *waves = j->party->waves;
		if ((j->party->process || (waves && !waves->of.me != graphics)) && !own)
			continue;
		if (own)
			return j;
		if (!engine && (!found || (told && !told_verdict(found))))
			found = j;
	}
	return found;
}

struct silicon_state state_of_ring(struct silicon_round *r, const struct silicon_looked *g, struct str name)
{
	const struct watch *w = &g->watch;
	const struct watched_ring *ring = list_find(w->rings.data, w->rings.len, it, str_eq(it->name, name));
	const struct know_unit *unit = watch_ring_unit(r->know, name);
	struct verdict_facts *f = state_facts(r, g, judgement_of_ring(g, name, unit), "ring");
	verdict_fact_add(f, "own", !ring || w->looks < 2 ? S("unread") :
				   ring->moved            ? S("moved") :
				   ring->waited           ? S("stands") :
							    S("empty"));
	if (unit)
		verdict_fact_add(f, "own_unit", unit->title);
	return state_by(r, g, f);
}

// --- waves ---

struct silicon_state state_of_waves(struct silicon_round *r, const struct silicon_looked *g, const struct judgement *j)
{
	struct verdict_facts *f = state_facts(r, g, j, "waves");
	return state_by(r, g, f);
}
