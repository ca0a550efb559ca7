// How far each packet of a recording is, by what the program and the recorder's sampler saw, and by what follows from it. A process dies
// between two looks at its queues: what was at the head at the last look may have ended since. So nothing is called running because it
// was, unless it stood there for a while, or the GPU reported a fault.
#include <stdlib.h>

#include "evidence/recording/head.h"
#include "evidence/recording/recording.h"

enum { ROUNDS_MOST = 16 };
static const double a_while =
	1; // seconds, many times the sampler's period: a kernel does not end in the last of them by chance

const char *progress_name(enum packet_progress p)
{
	static const char *const names[] = { "ended", "probably-ended", "unknown", "running", "waiting" };
	return names[p];
}

// --- signals that were seen to have fired ---

static int by_signal(const void *a, const void *b)
{
	const struct seen_signal *x = a, *y = b;
	return x->signal != y->signal ? (x->signal < y->signal ? -1 : 1) : x->time < y->time ? -1 : x->time > y->time;
}

static void sort_seen(struct flight_recording *r)
{
	if (r->seen.len)
		qsort(r->seen.data, r->seen.len, sizeof(*r->seen.data), by_signal);
}

void recording_seen(struct flight_recording *r, const struct recording_piece *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (uint64_t k = 0; p[i].extent.kind == EXTENT_DONE && k < p[i].extent.slots; k++) {
			struct rec_done d;
			if (p[i].extent.stride < sizeof(d))
				break;
			memcpy(&d, p[i].slots + k * p[i].extent.stride, sizeof(d));
			if (d.time)
				vec_push(&r->seen, ((struct seen_signal){ rec_done_mix(d.signal, d.time), d.time }));
		}
	sort_seen(r);
}

/** Whether it was seen after @time that @signal had fired; among the first @n, which are sorted. */
static bool saw(const struct flight_recording *r, size_t n, uint64_t signal, uint64_t time)
{
	const size_t upto = sorted_upto(r->seen.data, n, signal, signal);
	const struct seen_signal *last = upto ? &r->seen.data[upto - 1] : NULL;
	return signal && last && last->signal == signal && last->time >= time;
}

/** What waited for a signal and has ended tells that the signal had fired. */
static void add_awaited(struct flight_recording *r, size_t n, uint64_t signal, uint64_t time)
{
	if (signal && !saw(r, n, signal, time))
		vec_push(&r->seen, ((struct seen_signal){ signal, time }));
}

static void see_through_barriers(struct flight_recording *r, size_t n, const struct recorded_queue *q)
{
	for (size_t i = 0; i < q->n; i++) {
		const struct rec_packet *p = &q->packets[i].raw;
		if (q->packets[i].progress != PROGRESS_ENDED || !q->packets[i].awaits_all)
			continue;
		add_awaited(r, n, p->kernel, p->time);
		add_awaited(r, n, p->arguments, p->time);
		add_awaited(r, n, p->grid[0] | (uint64_t)p->grid[1] << 32, p->time);
	}
}

/** A packet that has ended tells of those before it as far as it had to wait for them: up to the last one with the barrier bit, which began
 * when all before it had ended. */
static void mark_ended(const struct flight_recording *r, struct recorded_queue *q)
{
	uint64_t barrier = 0, ended = 0;
	for (size_t i = 0; i < q->n; i++) {
		struct recorded_packet *p = &q->packets[i];
		const bool sampled = p->id + 1 == q->head.certain;
		barrier = p->barrier_bit ? p->id : barrier;
		p->progress =
			sampled || saw(r, r->seen.len, p->raw.completion, p->raw.time) ? PROGRESS_ENDED : PROGRESS_UNKNOWN;
		ended = p->progress == PROGRESS_ENDED ? barrier : ended;
	}
	for (size_t i = 0; i < q->n && q->packets[i].id < ended; i++)
		q->packets[i].progress = PROGRESS_ENDED;
}

// --- what runs ---

static bool recording_progress_concerns(const struct rec_event *fault, const struct recorded_queue *q)
{
	return fault->call == CALL_FAULT ? q->head.agent == fault->a[2] || !q->agent :
					   fault->call == CALL_QUEUE_ERROR && q->head.address == fault->a[0];
}

/** Whether the packet at the head of a queue is known to be there and not to have ended: it was launched before the last look, and this was
 * a while after the queue had moved, or after a fault. */
static bool recording_progress_stands(const struct flight_recording *r, const struct recorded_queue *q,
				      const struct recorded_packet *p)
{
	const uint64_t since = p->raw.time > q->head.moved ? p->raw.time : q->head.moved;
	if (q->head.sampled < p->raw.time)
		return false;
	for (size_t i = 0; i < r->nevents; i++)
		if (recording_progress_concerns(&r->events[i].raw, q) && q->head.sampled >= r->events[i].raw.time)
			return true;
	return q->head.sampled >= since && (double)(q->head.sampled - since) / r->rate >= a_while;
}

/** Whether a fault found it at the head of a queue that was destroyed afterwards, as HIP 7 does: there a fault is an error that a call returns,
 * and the program goes on. */
static bool was_struck(const struct flight_recording *r, const struct recorded_queue *q, const struct recorded_packet *p)
{
	for (size_t i = 0; i < r->nevents; i++) {
		const struct rec_event *e = &r->events[i].raw;
		if (recording_progress_concerns(e, q) && e->time >= p->raw.time && e->time <= q->head.sampled &&
		    e->time <= q->head.destroyed)
			return true;
	}
	return false;
}

static void mark_rest(const struct flight_recording *r, struct recorded_queue *q)
{
	bool running = false;
	q->stands = false;
	for (size_t i = 0; i < q->n; i++) {
		struct recorded_packet *p = &q->packets[i];
		if (p->progress == PROGRESS_ENDED)
			continue;
		if (p->id < q->read || (q->head.destroyed && !running && (p->id > q->read || !was_struck(r, q, p)))) {
			p->progress = PROGRESS_TAKEN;
		} else if (p->id == q->read) { // at the head, when the sampler looked
			q->stands = q->head.destroyed || recording_progress_stands(r, q, p);
			// or it is in sight: of a process that lives, and whose sampler does
			running = q->stands ||
				  (r->alive && p->raw.time <= q->head.sampled && recording_age(r, q->head.sampled) < a_while);
			p->progress = running ? PROGRESS_RUNNING : PROGRESS_UNKNOWN;
		} else {
			p->progress = running ? PROGRESS_WAITING : PROGRESS_UNKNOWN;
		}
	}
}

void recording_progress(struct flight_recording *r)
{
	size_t before;
	unsigned round = 0;
	do { // what has ended tells of signals, and these of more that has ended
		before = r->seen.len;
		for (size_t i = 0; i < r->nqueues; i++)
			mark_ended(r, &r->queues[i]);
		for (size_t i = 0; i < r->nevents; i++) {
			const struct rec_event *e = &r->events[i].raw;
			for (unsigned k = 1; e->call == CALL_COPY_AFTER && k < 4 && saw(r, before, e->a[0], e->time); k++)
				add_awaited(r, before, e->a[k], e->time);
		}
		for (size_t i = 0; i < r->nqueues; i++)
			see_through_barriers(r, before, &r->queues[i]);
		sort_seen(r);
	} while (r->seen.len != before && ++round < ROUNDS_MOST);
	for (size_t i = 0; i < r->nqueues; i++)
		mark_rest(r, &r->queues[i]);
}

uint64_t recording_open_ended(const struct flight_recording *r)
{
	uint64_t n = 0;
	for (size_t q = 0; q < r->nqueues; q++)
		for (size_t i = 0; i < r->queues[q].n; i++)
			n += r->queues[q].packets[i].kind == PACKET_DISPATCH &&
			     r->queues[q].packets[i].progress >= PROGRESS_UNKNOWN;
	return n;
}

const struct recorded_packet *queue_running(const struct recorded_queue *q)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->packets[i].progress == PROGRESS_RUNNING)
			return &q->packets[i];
	return NULL;
}

const struct recorded_packet *recording_faulted(const struct flight_recording *r, const struct rec_event *fault,
						const struct recorded_queue **ret_queue)
{
	const struct recorded_queue *of = NULL;
	for (size_t i = 0; i < r->nqueues; i++) {
		const struct recorded_queue *q = &r->queues[i];
		if (!recording_progress_concerns(fault, q) || !q->stands || queue_running(q)->kind != PACKET_DISPATCH)
			continue;
		if (of)
			return NULL;
		of = q;
	}
	const struct recorded_packet *p = of ? queue_running(of) : NULL;
	// A kernel behind it may run beside it: until one comes that waits for all before.
	for (const struct recorded_packet *k = p; p && ++k < of->packets + of->n && !k->barrier_bit;)
		if (k->kind == PACKET_DISPATCH && k->progress == PROGRESS_WAITING)
			return NULL;
	if (p)
		*ret_queue = of;
	return p;
}

struct idle_gpu recording_idle(const struct flight_recording *r)
{
	static const double still = 5;
	struct idle_gpu g = { .idle = true, .age = recording_age(r, r->header.start.ticks) };
	for (size_t i = 0; i < r->nqueues; i++) {
		const struct recorded_queue *q = &r->queues[i];
		g.launched += q->head.seen;
		for (size_t k = 0; k < q->n; k++) {
			const double age = recording_age(r, q->packets[k].raw.time);
			g.idle = g.idle && q->packets[k].progress < PROGRESS_UNKNOWN;
			g.age = age < g.age ? age : g.age;
		}
	}
	// Who is inside of a call that does not return launches nothing, and nobody waits for more.
	for (size_t i = 0; i < r->nthreads; i++) {
		const struct rec_thread *t = &r->threads[i].raw;
		g.idle = g.idle && (t->ended || !call_ends_alone(t->call) || recording_age(r, t->since) < still);
	}
	g.idle = g.idle && g.age >= still && r->header.state == RECORDING_ON && !recording_gap(r);
	return g;
}
