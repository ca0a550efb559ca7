// Who has work on an XCC. The GPU shows waves by address space and place of a queue, KFD shows queues by process: where both know the place
// they are matched by it, else by the address space, else by what moves.
#include "evidence/silicon/parties.h"

struct party_search {
	struct arena *arena;
	const struct watch *watch;
	const struct user_queues *all;
	unsigned xcc;
	size_t nqueues; // on this XCC
	const struct user_queue **queues;
	size_t n;
	struct party *parties;
};

/** Whether waves go about in their code. */
static bool at_work(const struct wave_state *s) { return s->moved * 2 >= s->count && s->moved && !s->loops; }

static bool parties_of_gpu(const struct watch *w, const struct user_queue *u)
{
	return u->known && w->device && str_eq(u->gpu, w->device->pci);
}

/** Whether it may be on an XCC, by its partition. */
static bool on_xcc(const struct user_queue *u, unsigned xcc) { return !u->xccs || u->xccs >> xcc & 1; }

bool party_has(const struct party *p, const struct user_queue *u)
{
	for (size_t i = 0; i < p->nqueues; i++)
		if (p->queues[i] == u)
			return true;
	return false;
}

// --- whose waves they are ---

/** How surely a queue is that of waves. */
enum sureness { MATCH_NONE, MATCH_MAYBE, MATCH_VMID, MATCH_PLACE };

static enum sureness parties_match(const struct wave_slot *w, const struct user_queue *u)
{
	const struct queue_slot *s = &u->slot;
	if (!w->me || u->client) // graphics; where a client's queue is on the GPU, nobody tells
		return MATCH_NONE;
	if (!s->known)
		return MATCH_MAYBE;
	if (s->vmid != w->vmid)
		return MATCH_NONE;
	return s->me == w->me && s->pipe == w->pipe && s->queue == w->queue ? MATCH_PLACE : MATCH_VMID;
}

static bool queue_taken(const struct party_search *s, const struct user_queue *u)
{
	for (size_t i = 0; i < s->n; i++)
		if (party_has(&s->parties[i], u))
			return true;
	return false;
}

static bool one_process(const struct party *p)
{
	for (size_t i = 1; i < p->nqueues; i++)
		if (p->queues[i]->process != p->queues[0]->process)
			return false;
	return p->nqueues;
}

/** Where it is not known which of several processes has these waves: waves at work are of one whose queue moves, others of one whose
 * queue stands. */
static void narrow(struct party *p, const struct wave_state *s)
{
	size_t n = 0;
	if (one_process(p))
		return;
	for (size_t i = 0; i < p->nqueues; i++)
		if (at_work(s) ? user_queue_moved(p->queues[i]) : user_queue_stands(p->queues[i]))
			p->queues[n++] = p->queues[i];
	p->nqueues = n ? n : p->nqueues;
}

/** How surely the best of all queues is that of these waves. */
static enum sureness best_match(const struct party_search *s, const struct wave_slot *w)
{
	enum sureness best = MATCH_NONE;
	for (size_t i = 0; i < s->nqueues; i++) {
		enum sureness m = parties_match(w, s->queues[i]);
		best = m > best ? m : best;
	}
	return best;
}

/** The queues of waves: of their place on the GPU, else of their VMID, else those that are not of others. */
static void find_queues(const struct party_search *s, struct party *p)
{
	const struct wave_slot *w = &p->waves->of;
	enum sureness best = best_match(s, w);
	p->queues = arena_alloc(s->arena, (s->nqueues + 1) * sizeof(struct user_queue *));
	for (size_t i = 0; i < s->nqueues; i++)
		if (best >= MATCH_VMID ? parties_match(w, s->queues[i]) == best : w->me && !s->queues[i]->client && !queue_taken(s, s->queues[i]))
			p->queues[p->nqueues++] = s->queues[i];
	if (best != MATCH_PLACE)
		narrow(p, &p->waves->state);
	p->sure = best >= MATCH_VMID;
	if (one_process(p))
		p->process = &s->all->processes[p->queues[0]->process];
}

// --- who there is ---

/** Those whose queues the GPU itself tells, or the others. */
static void parties_add_waves(struct party_search *s, bool told)
{
	for (size_t g = 0; s->watch->wave_looks && g < s->watch->ngroups; g++) {
		const struct wave_set *w = &s->watch->groups[g];
		if (w->of.xcc != s->xcc || (best_match(s, &w->of) >= MATCH_VMID) != told)
			continue;
		struct party p = { .xcc = s->xcc, .waves = w };
		find_queues(s, &p);
		s->parties[s->n++] = p;
	}
}

/** Whether waves of a queue are on another XCC of the partition: a kernel need not fill them all. */
static bool works_beside(const struct party_search *s, const struct user_queue *u)
{
	const uint64_t xccs = s->watch->device ? partition_of_xcc(s->watch->device, s->xcc) : 0;
	for (size_t g = 0; s->watch->wave_looks && g < s->watch->ngroups; g++) {
		const struct wave_slot *w = &s->watch->groups[g].of;
		enum sureness best = w->xcc != s->xcc && xccs >> w->xcc & 1 ? best_match(s, w) : MATCH_NONE;
		if (best && parties_match(w, u) == best)
			return true;
	}
	return false;
}

/** Those whose queues have or had work, and whose waves none are. */
static void parties_add_processes(struct party_search *s)
{
	for (size_t process = 0; process < s->all->nprocesses; process++) {
		struct party p = { .xcc = s->xcc, .process = &s->all->processes[process] };
		bool work = false, met = false;
		p.queues = arena_alloc(s->arena, (s->nqueues + 1) * sizeof(struct user_queue *));
		for (size_t i = 0; i < s->nqueues; i++) {
			const struct user_queue *u = s->queues[i];
			if (u->process != process)
				continue;
			p.queues[p.nqueues++] = u;
			work |= user_queue_moved(u) || user_queue_stands(u);
			met |= queue_taken(s, u) || works_beside(s, u);
		}
		if (work && !met)
			s->parties[s->n++] = p;
	}
}

// --- how they stand to each other ---

/** @shaders: only those that the command processor serves. */
static bool rings_move(const struct watch *w, bool shaders)
{
	for (size_t i = 0; i < w->rings.len; i++) {
		const struct know_unit *u = watch_ring_unit(w->know, w->rings.data[i].name);
		if (w->rings.data[i].moved && !(shaders && u && u->engine))
			return true;
	}
	return false;
}

static void party_compare(const struct party_search *s, struct party *p)
{
	const uint64_t xccs = s->watch->device ? partition_of_xcc(s->watch->device, p->xcc) : 1;
	p->others_move = p->process && rings_move(s->watch, false);
	p->beside_move = p->process && rings_move(s->watch, true);
	for (size_t i = 0; i < s->all->n; i++) {
		const struct user_queue *u = &s->all->list[i];
		if (!parties_of_gpu(s->watch, u) || !user_queue_moved(u) || party_has(p, u))
			continue;
		bool same = p->process == &s->all->processes[u->process] && on_xcc(u, p->xcc);
		p->process_moves |= same;
		p->others_move |= !same;
		p->beside_move |= !same && on_xcc(u, p->xcc);
	}
	for (size_t g = 0; s->watch->wave_looks && g < s->watch->ngroups; g++) {
		const struct wave_set *o = &s->watch->groups[g];
		if (p->waves && o->of.vmid == p->waves->of.vmid)
			continue;
		p->others_move |= at_work(&o->state);
		p->beside_move |= at_work(&o->state) && xccs >> o->of.xcc & 1;
	}
}

size_t parties_of(struct arena *a, const struct watch *w, const struct user_queues *q, unsigned xcc, struct party **ret)
{
	struct party_search s = { .arena = a, .watch = w, .all = q, .xcc = xcc };
	s.queues = arena_alloc(a, (q->n + 1) * sizeof(struct user_queue *));
	s.parties = arena_alloc(a, (w->ngroups + q->nprocesses + 1) * sizeof(*s.parties));
	for (size_t i = 0; i < q->n; i++)
		if (parties_of_gpu(w, &q->list[i]) && on_xcc(&q->list[i], xcc))
			s.queues[s.nqueues++] = &q->list[i];
	parties_add_waves(&s, true);
	parties_add_waves(&s, false);
	parties_add_processes(&s);
	// The driver is there where nobody else is, or where work stands in its rings that waves without a process do not belong to.
	bool driver = !s.n || watch_ring_waits(w);
	for (size_t i = 0; i < s.n; i++)
		driver &= s.parties[i].process != NULL;
	if (driver)
		s.parties[s.n++] = (struct party){ .xcc = xcc, .driver = true };
	for (size_t i = 0; i < s.n; i++)
		party_compare(&s, &s.parties[i]);
	*ret = s.parties;
	return s.n;
}

bool parties_may_hide(const struct watch *w, const struct user_queues *q)
{
	size_t n = rings_move(w, false);
	for (size_t process = 0; process < q->nprocesses; process++) {
		bool uses = false, moves = false;
		size_t standing = 0;
		for (size_t i = 0; i < q->n; i++) {
			const struct user_queue *u = &q->list[i];
			if (u->process != process || !parties_of_gpu(w, u))
				continue;
			uses = true;
			moves |= user_queue_moved(u);
			standing += user_queue_stands(u);
		}
		n += standing + (moves || (uses && !standing));
	}
	return n > 1;
}
