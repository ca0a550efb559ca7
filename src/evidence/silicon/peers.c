// For whom waves in a loop may wait: programs on other GPUs that may be of the same job, because they are in one hive or have one name.
#include "evidence/silicon/round.h"

const struct know_verdict *told_verdict(const struct judgement *j)
{
	for (size_t i = 0; j && i < j->n; i++)
		if (j->verdicts[i]->event.n && !j->verdicts[i]->well)
			return j->verdicts[i];
	return NULL;
}

/** rank0 and rank1 are of one job. */
static struct str name_of_job(struct str name)
{
	while (name.n > 1 && name.p[name.n - 1] >= '0' && name.p[name.n - 1] <= '9')
		name.n--;
	return name;
}

static bool peers_same_job(const struct user_process *p, int64_t pid, struct str name)
{
	return pid == p->pid || str_eq(name_of_job(name), name_of_job(p->name));
}

/** Whether the GPU @of may have work of the same job as party @p of the GPU @d. */
static bool may_be_peer(const struct device *d, const struct party *p, const struct device *of)
{
	if (d == of || !p->process)
		return false;
	return (d->hive.n && str_eq(d->hive, of->hive)) ||
	       list_find(of->holders, of->nholders, it, peers_same_job(p->process, it->pid, it->name));
}

static struct str peer_name(struct arena *a, const struct user_process *p, const struct device *d)
{
	return p ? arena_printf(a, STR_FMT " (%lld) on " STR_FMT, STR_ARG(p->name), (long long)p->pid, STR_ARG(d->pci)) : d->pci;
}

static bool goes_round(const struct verdict_facts *f)
{
	return verdict_fact_is(f, "waves_moving", "yes") && verdict_fact_is(f, "waves_loop", "yes");
}

/** One that is stuck, and not in a loop itself: who goes round may wait, too. */
static struct str stuck_peer(struct silicon_round *r, const struct silicon_looked *g)
{
	for (size_t i = 0; i < g->judgements.len; i++) {
		const struct judgement *j = g->judgements.data[i];
		if (told_verdict(j) && !goes_round(&j->facts))
			return peer_name(&r->arena, j->party->process, g->device);
	}
	return (struct str){ 0 };
}

/** One of the same job whose work goes on: of a hive alone it may be anybody's. */
static struct str working_peer(struct silicon_round *r, const struct silicon_looked *g, const struct party *p)
{
	for (size_t i = 0; i < g->judgements.len; i++) {
		const struct judgement *j = g->judgements.data[i];
		const struct user_process *of = j->party->process;
		const bool works = verdict_fact_is(&j->facts, "progress", "yes") ||
				   (verdict_fact_is(&j->facts, "waves_moving", "yes") && !goes_round(&j->facts));
		if (of && works && !told_verdict(j) && peers_same_job(p->process, of->pid, of->name))
			return peer_name(&r->arena, of, g->device);
	}
	return (struct str){ 0 };
}

/** One that has queues on the GPU and no work in any of them; @of: of the same job, NULL: whosoever. */
static struct str idle_peer(struct silicon_round *r, const struct silicon_looked *g, const struct user_process *of)
{
	const struct user_queues *q = &r->queues;
	for (size_t p = 0; p < q->nprocesses; p++) {
		bool any = false, idle = true;
		for (size_t i = 0; i < q->n; i++) {
			const struct user_queue *u = &q->list[i];
			if (u->process != p || u->client || !str_eq(u->gpu, g->device->pci))
				continue;
			any = true;
			idle &= u->known && !u->pending && !user_queue_moved(u);
		}
		if (any && idle && (!of || peers_same_job(of, q->processes[p].pid, q->processes[p].name)))
			return peer_name(&r->arena, &q->processes[p], g->device);
	}
	return (struct str){ 0 };
}

bool peers_add(struct silicon_round *r, const struct silicon_looked *g, struct judgement *j)
{
	struct str stuck = { 0 }, idle = { 0 }, rank = { 0 }, works = { 0 };
	if (!goes_round(&j->facts))
		return false;
	for (size_t i = 0; i < r->n && !stuck.n; i++) {
		if (!may_be_peer(g->device, j->party, r->gpus[i].device))
			continue;
		stuck = stuck_peer(r, &r->gpus[i]);
		idle = idle.n ? idle : idle_peer(r, &r->gpus[i], NULL);
		rank = rank.n ? rank : idle_peer(r, &r->gpus[i], j->party->process);
		works = works.n ? works : working_peer(r, &r->gpus[i], j->party);
	}
	verdict_fact_add(&j->facts, "peer_stuck", stuck);
	verdict_fact_add(&j->facts, "peer_idle", idle);
	verdict_fact_add(&j->facts, "rank_idle", rank);
	verdict_fact_add(&j->facts, "rank_works", works);
	return stuck.n || idle.n || works.n;
}
