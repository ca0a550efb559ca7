// A signal that a barrier waits for is given by a packet. If that packet stands behind a barrier too, its queue has to move first. A cycle
// of such queues never moves, unless the program itself sets one of the signals.
#include "evidence/silicon/barriers.h"

/** The packet of a process that gives a signal when it is done. */
static bool find_giver(const struct user_queues *q, size_t process, uint64_t signal, struct barrier_wait *ret)
{
	for (size_t i = 0; i < q->n; i++) {
		const struct user_queue *u = &q->list[i];
		for (size_t k = 0; u->process == process && k < u->ntasks; k++)
			if (u->tasks[k].signal == signal) {
				ret->by = u;
				ret->task = &u->tasks[k];
				return true;
			}
	}
	return false;
}

struct barrier_path {
	const struct user_queues *queues;
	struct barrier_wait *waits;
	size_t n;
};

/** Goes on from a queue that waits, until the path comes back to its first. */
static bool follow(struct barrier_path *p, const struct user_queue *u)
{
	if (p->n == BARRIERS_MOST)
		return false;
	for (size_t i = 0; i < p->n; i++)
		if (p->waits[i].queue == u)
			return false; // a cycle that the first is not in
	struct barrier_wait *w = &p->waits[p->n++];
	for (size_t i = 0; i < u->nsignals; i++) {
		*w = (struct barrier_wait){ .queue = u, .signal = u->signals[i] };
		if (find_giver(p->queues, u->process, w->signal, w) && w->by->waits &&
		    (w->by == p->waits[0].queue || follow(p, w->by)))
			return true;
	}
	p->n--;
	return false;
}

size_t barriers_cycle(const struct user_queues *q, struct str gpu, struct barrier_wait ret[static BARRIERS_MOST])
{
	for (size_t i = 0; i < q->n; i++) {
		struct barrier_path p = { q, ret, 0 };
		if (q->list[i].waits && str_eq(q->list[i].gpu, gpu) && follow(&p, &q->list[i]))
			return p.n;
	}
	return 0;
}

/** A kernel's name without its parameters. */
static struct str short_name(struct str kernel) { return str_split(&kernel, '('); }

/** The kernel that a queue would run next. */
static struct str next_kernel(const struct user_queue *u)
{
	for (size_t i = 0; i < u->ntasks; i++)
		if (u->tasks[i].kernel.n)
			return short_name(u->tasks[i].kernel);
	return (struct str){ 0 };
}

struct str barriers_say(struct arena *a, const struct barrier_wait *waits, size_t n)
{
	struct text out = { 0 };
	for (size_t i = 0; i < n; i++) {
		const struct barrier_wait *w = &waits[i];
		struct str before = next_kernel(w->queue);
		text_printf(&out, "%squeue %u stands at packet %llu, a barrier", i ? "; " : "", w->queue->id,
			    (unsigned long long)w->queue->read);
		if (before.n)
			text_printf(&out, " before " STR_FMT ",", STR_ARG(before));
		text_printf(&out, " that waits for packet %llu of ", (unsigned long long)w->task->index);
		if (w->by == w->queue)
			text_add(&out, S("the same queue"));
		else
			text_printf(&out, "queue %u", w->by->id);
		if (w->task->kernel.n)
			text_printf(&out, " (" STR_FMT ")", STR_ARG(short_name(w->task->kernel)));
	}
	struct str s = arena_str(a, text_str(&out));
	text_free(&out);
	return s;
}
