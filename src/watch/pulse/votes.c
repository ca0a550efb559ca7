// What the signs of a second make: votes of each GPU, and how the GPUs of one job stand to each other.
#include <stdio.h>

#include "base/print.h"
#include "watch/progress.h"
#include "watch/pulse/pulse.h"

enum { BUSY_LEAST = 50, BUSY_MUCH = 90, IDLE_MOST = 5, POWER_LEAST = 50, MS = 1000, MINUTE = 60 };

static bool uses(const struct signs *s, size_t process, size_t gpu) { return s->processes[process].gpus >> gpu & 1; }

/** A process that uses one GPU alone speaks for it; of one with several nobody knows which it means. */
static bool speaks_for(const struct signs *s, size_t process, size_t gpu)
{
	return s->processes[process].gpus == UINT64_C(1) << gpu;
}

/** One that moved shows that the GPU works; else one that stood. */
static enum vote either(enum vote a, enum vote b)
{
	return a == VOTE_MOVED || b == VOTE_MOVED ? VOTE_MOVED : a == VOTE_STOOD || b == VOTE_STOOD ? VOTE_STOOD : VOTE_UNKNOWN;
}

static int low_power(const struct know *k)
{
	int low = 0;
	for (size_t i = 0; i < k->votes.len; i++)
		low = k->votes.data[i]->low ? k->votes.data[i]->low : low;
	return low;
}

/** What the queues of one process on a GPU did. */
static enum vote queues_of(const struct signs *s, size_t process, size_t gpu)
{
	enum vote v = VOTE_UNKNOWN;
	for (size_t i = 0; i < s->nqueues; i++) {
		const struct sign_queue *q = &s->queues[i];
		if (q->process == process && q->gpu == gpu && q->known)
			v = either(v, q->moved ? VOTE_MOVED : q->pending ? VOTE_STOOD : VOTE_UNKNOWN);
	}
	return v;
}

/** The process that may hang: that another one works, or is stopped, says nothing of it. NULL: there is none. */
static const struct sign_process *subject_of(const struct signs *s, size_t gpu)
{
	for (size_t i = 0; i < s->n; i++)
		if (uses(s, i, gpu) && !s->processes[i].stopped && queues_of(s, i, gpu) == VOTE_STOOD)
			return &s->processes[i];
	return NULL;
}

/** The votes of the program that may hang; else of all. */
static void vote_of_programs(struct pulse_gpu *g, const struct signs *s, size_t gpu)
{
	const struct sign_process *subject = subject_of(s, gpu);
	for (size_t i = 0; i < s->n; i++) {
		const struct sign_process *p = &s->processes[i];
		if (!uses(s, i, gpu) || (subject && p != subject))
			continue;
		g->queue_vote = either(g->queue_vote, queues_of(s, i, gpu));
		if (!speaks_for(s, i, gpu))
			continue;
		g->recording_vote = either(g->recording_vote, p->recordings);
		g->heartbeat_vote = either(g->heartbeat_vote, p->beats);
	}
	// The one before it went on: what stood then does not count for this one.
	const int64_t pid = subject ? subject->pid : 0;
	if (pid && g->subject && pid != g->subject)
		g->queue_vote = VOTE_MOVED;
	g->subject = pid;
}

void pulse_vote(struct pulse_gpu *g, const struct signs *s, size_t gpu, int64_t interrupts)
{
	g->queue_vote = g->recording_vote = g->heartbeat_vote = g->power_vote = VOTE_UNKNOWN;
	g->pending = false;
	for (size_t i = 0; i < s->nqueues; i++)
		g->pending |= s->queues[i].gpu == gpu && s->queues[i].known && s->queues[i].pending;
	vote_of_programs(g, s, gpu);
	bool work = g->pending || g->busy >= BUSY_LEAST, counted = interrupts >= 0 && g->interrupts >= 0;
	g->interrupt_vote = !s->n || !counted           ? VOTE_UNKNOWN :
			    interrupts != g->interrupts ? VOTE_MOVED :
			    work                        ? VOTE_STOOD :
							  VOTE_UNKNOWN;
	g->interrupts = interrupts;
	if (g->busy >= BUSY_LEAST && g->power > g->most_power)
		g->most_power = g->power;
	if (g->busy >= BUSY_MUCH && g->power >= 0 && g->most_power >= POWER_LEAST &&
	    g->power * 100 < g->most_power * low_power(s->know))
		g->power_vote = VOTE_STOOD;
	g->stands = g->interrupt_vote == VOTE_STOOD || g->queue_vote == VOTE_STOOD || g->recording_vote == VOTE_STOOD;
}

// --- the GPUs of one job ---

/** Processes of one job: those of one user that one process started (torchrun, srun, mpirun, a server's engine). Of those that init
 * started, only those of one session, as in a container whose first process is the launcher. */
static bool same_job(const struct sign_process *a, const struct sign_process *b)
{
	return a->pid == b->pid ||
	       (a->uid == b->uid && a->launcher == b->launcher && (a->launcher > 1 || a->stat.session == b->stat.session));
}

struct peers {
	unsigned waiting, others;           // GPUs of the job that stand, this one among them; that do not
	const struct sign_process *lagging; // has no work on its GPU
	bool works;                         // and is busy elsewhere
};

static const struct sign_process *first_of(const struct signs *s, size_t gpu)
{
	for (size_t i = 0; i < s->n; i++)
		if (uses(s, i, gpu))
			return &s->processes[i];
	return NULL;
}

/** Whether its own work waits on a GPU that stands. */
static bool waits_itself(const struct pulse_gpu *gpus, const struct signs *s, const struct sign_process *p)
{
	for (size_t i = 0; i < s->nqueues; i++)
		if (&s->processes[s->queues[i].process] == p && s->queues[i].known && s->queues[i].pending &&
		    gpus[s->queues[i].gpu].stands)
			return true;
	return false;
}

/** Of the job of @mine, one that uses this GPU and does not wait itself: ROCm has some memory of each process on every GPU. */
static const struct sign_process *other_of(const struct pulse_gpu *gpus, const struct signs *s, size_t gpu,
					   const struct sign_process *mine)
{
	const struct sign_process *found = NULL;
	for (size_t i = 0; i < s->n; i++) {
		const struct sign_process *p = &s->processes[i];
		if (uses(s, i, gpu) && same_job(mine, p) && !waits_itself(gpus, s, p) &&
		    (!found || (p->works && !found->works)))
			found = p;
	}
	return found;
}

static struct peers peers_of(const struct pulse_gpu *gpus, const struct signs *s, size_t gpu)
{
	struct peers r = { 0 };
	const struct sign_process *mine = first_of(s, gpu);
	for (size_t i = 0; mine && i < s->devices->n && i < SIGNS_GPUS; i++) {
		const struct sign_process *p = first_of(s, i);
		if (!p || !same_job(mine, p))
			continue;
		r.waiting += gpus[i].stands;
		r.others += !gpus[i].stands;
		bool idle = !gpus[i].pending && gpus[i].busy < BUSY_LEAST, moves = gpus[i].queue_vote == VOTE_MOVED;
		if (i == gpu || gpus[i].stands || (!idle && !moves) || (r.lagging && r.works))
			continue;
		p = other_of(gpus, s, i, mine);
		r.works = p ? moves || p->works : r.works;
		r.lagging = p ? p : r.lagging;
	}
	// Where most of them work on, they do not wait for each other: they are copies of one server, and this one hangs.
	if (r.waiting < r.others)
		r.lagging = NULL;
	return r;
}

// --- the text ---

static void add_vote(struct text *to, const char *name, enum vote v) { text_printf(to, "vote %s %s\n", name, vote_name(v)); }

static void add_fact(struct text *to, const char *name, struct str value)
{
	text_printf(to, "fact %s ", name);
	text_add_safe(to, value); // a line is one value
	text_add(to, S("\n"));
}

static void add_number(struct text *to, const char *name, int64_t value)
{
	char room[24];
	snprintf(room, sizeof(room), "%lld", (long long)value);
	add_fact(to, name, str_z(room));
}

/** In steps: a number that changes each second would have to be told each second. */
static int64_t step_of(int64_t busy)
{
	return busy >= BUSY_MUCH ? BUSY_MUCH : busy >= BUSY_LEAST ? BUSY_LEAST : busy >= IDLE_MOST ? IDLE_MOST : 0;
}

static void add_peers(struct text *to, const struct peers *r)
{
	char room[96];
	add_fact(to, "peers", r->lagging ? (r->works ? S("ahead") : S("behind")) : S("none"));
	if (!r->lagging)
		return;
	snprintf(room, sizeof(room), "%u GPU%s", r->waiting, r->waiting == 1 ? "" : "s");
	add_fact(to, "waiting", str_z(room));
	if (r->lagging->rank[0])
		snprintf(room, sizeof(room), "rank %s", r->lagging->rank);
	else
		snprintf(room, sizeof(room), "%.15s (pid %lld)", r->lagging->stat.name, (long long)r->lagging->pid);
	add_fact(to, "lagging", str_z(room));
}

/** Whether it may have work on the GPU that nobody sees in its queues. */
static bool may_work(const struct signs *s, size_t process, size_t gpu, const struct pulse_gpu *g)
{
	bool queues = false;
	for (size_t i = 0; i < s->nqueues; i++)
		queues |= s->queues[i].process == process && s->queues[i].gpu == gpu;
	return s->processes[process].unknown_queues || (queues && g->busy >= BUSY_LEAST);
}

/** Of the processes that use it: the one that may hang; else one that is stopped, where no other may work; else the first. */
static void add_processes(struct text *to, const struct pulse_gpu *g, const struct signs *s, size_t gpu, int64_t now_ms)
{
	const struct sign_process *first = NULL, *stopped = NULL, *subject = subject_of(s, gpu);
	bool launched = false, unknown = false, works = false;
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct sign_process *p = &s->processes[i];
		if (!uses(s, i, gpu))
			continue;
		n++;
		first = first ? first : p;
		stopped = stopped ? stopped : p->stopped ? p : NULL;
		works |= !p->stopped && may_work(s, i, gpu, g);
		launched |= p->launched;
		unknown |= p->unknown_queues;
	}
	add_number(to, "processes", (int64_t)n);
	if (!n)
		return;
	stopped = subject || works ? NULL : stopped;
	first = subject ? subject : stopped ? stopped : first;
	add_fact(to, "process", str_z(first->stat.name));
	add_number(to, "pid", first->pid);
	if (first->rank[0])
		add_fact(to, "rank", str_z(first->rank));
	if (first->job[0])
		add_fact(to, "job", str_z(first->job));
	if (stopped)
		add_fact(to, "stopped", str_z(stopped->stopped));
	if (launched || unknown)
		return;
	add_fact(to, "launched", S("no"));
	add_number(to, "held", (now_ms - first->first) / MS / MINUTE * MINUTE);
}

void pulse_text(const struct pulse_gpu *gpus, const struct signs *s, size_t gpu, int64_t now_ms, struct text *to)
{
	const struct pulse_gpu *g = &gpus[gpu];
	text_add(to, s->devices->list[gpu].pci);
	text_add(to, S("\n"));
	add_vote(to, "interrupts", g->interrupt_vote);
	add_vote(to, "queues", g->queue_vote);
	add_vote(to, "recordings", g->recording_vote);
	add_vote(to, "heartbeat", g->heartbeat_vote);
	add_vote(to, "power", g->power_vote);
	add_processes(to, g, s, gpu, now_ms);
	if (g->busy >= 0)
		add_number(to, "busy", step_of(g->busy));
	if (g->stands) {
		const struct peers r = peers_of(gpus, s, gpu);
		add_peers(to, &r);
	}
}
