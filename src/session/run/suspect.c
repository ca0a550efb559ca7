// Of several recordings the one counts whose fault came first; without a fault, the one that has stood longest with work in flight.
#include "session/run/suspect.h"

#include <stdlib.h>

#include "session/last/last.h"

enum { LOG_LINES = 50, NEIGHBOURS = 64 << 10 };

struct suspect {
	const struct flight_recording *of;
	const struct recorded_packet *packet;
	const struct recorded_queue *queue;
	const struct rec_event *fault; // NULL: none
	double time;                   // seconds since 1970
};

static const struct recorded_packet *running(const struct recorded_queue *q)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->packets[i].kind == PACKET_DISPATCH && q->packets[i].progress == PROGRESS_RUNNING)
			return &q->packets[i];
	return NULL;
}

static const struct rec_event *first_fault(const struct flight_recording *r)
{
	for (size_t i = 0; i < r->nevents; i++)
		if (r->events[i].raw.call == CALL_FAULT || r->events[i].raw.call == CALL_QUEUE_ERROR)
			return &r->events[i].raw;
	return NULL;
}

/** A fault outweighs what only stands; of the same, the earlier. */
static bool outweighs(const struct suspect *a, const struct suspect *b)
{
	if (!b->of || !a->fault != !b->fault)
		return !b->of || a->fault;
	return a->time < b->time;
}

static void look(const struct flight_recording *r, struct suspect *best)
{
	const struct rec_event *fault = first_fault(r);
	struct suspect own = { .of = r, .fault = fault, .time = fault ? recording_time(r, fault->time) : 0 };
	for (size_t i = 0; i < r->nqueues; i++) {
		const struct recorded_queue *q = &r->queues[i];
		struct suspect s = { .of = r, .queue = q, .fault = fault, .packet = running(q) };
		s.time = fault ? own.time : s.packet ? recording_time(r, s.packet->raw.time) : 0;
		if (s.packet && outweighs(&s, best))
			*best = s;
	}
	if (fault && outweighs(&own, best))
		*best = own;
}

/** The number of the launch among those of its kernel, from 1 on; -1: older ones are not there any more. */
static int64_t launch_of(const struct suspect *s)
{
	int64_t n = 0;
	for (size_t q = 0; q < s->of->nqueues; q++) {
		const struct recorded_queue *queue = &s->of->queues[q];
		if (queue->n && queue->packets[0].id)
			return -1;
		for (size_t i = 0; i < queue->n; i++) {
			const struct recorded_packet *p = &queue->packets[i];
			n += p->kind == PACKET_DISPATCH && p->kernel && p->kernel == s->packet->kernel &&
			     (p == s->packet || p->raw.time < s->packet->raw.time);
		}
	}
	return n;
}

static void tell_fault(const struct suspect *s, struct arena *a, struct run_try *ret)
{
	ret->ended = S("gpu-fault");
	if (s->fault->call == CALL_QUEUE_ERROR) {
		ret->because = arena_printf(a, "The runtime reported an error of a queue (code 0x%llx) to the recorder.",
					    (unsigned long long)s->fault->a[1]);
		return;
	}
	const struct nearby n = recording_near(s->of, s->fault->a[0], s->fault->time, s->fault->a[2]);
	ret->because = arena_printf(a, "The recorder saw a memory fault at 0x%llx.", (unsigned long long)s->fault->a[0]);
	ret->place = near_say(a, s->of, &n, s->fault->time);
	// How far two buffers lie apart changes from try to try.
	if (n.allocation && (n.relation == NEAR_INSIDE || n.relation == NEAR_FREED || n.distance < NEIGHBOURS))
		ret->offset = arena_printf(a, "%s+%llu/%llu", near_name(n.relation), (unsigned long long)n.distance,
					   (unsigned long long)n.allocation->size);
}

static void tell(const struct suspect *s, struct arena *a, struct run_try *ret)
{
	if (!s->of)
		return;
	ret->pid = s->of->header.pid;
	ret->rank = s->of->header.rank;
	if (s->fault)
		tell_fault(s, a, ret);
	if (!s->packet)
		return;
	ret->kernel = packet_say(a, s->packet);
	ret->symbol = s->packet->kernel ? arena_str(a, s->packet->kernel->name) : (struct str){ 0 };
	ret->packet = (int64_t)s->packet->id;
	ret->launch = s->packet->kernel ? launch_of(s) : -1;
}

struct recordings {
	struct recording_paths paths;
	VEC(struct flight_recording *) list;
};

static void open_all(const char *directory, struct recordings *ret)
{
	*ret = (struct recordings){ 0 };
	uh_error_free(recordings_find(directory, &ret->paths));
	for (size_t i = 0; i < ret->paths.list.len; i++) {
		struct flight_recording *r;
		struct uh_error *err = recording_open(ret->paths.list.data[i], &r);
		if (!err)
			vec_push(&ret->list, r);
		uh_error_free(err);
	}
}

static void close_all(struct recordings *r)
{
	for (size_t i = 0; i < r->list.len; i++)
		recording_free(r->list.data[i]);
	vec_free(&r->list);
	recording_paths_free(&r->paths);
}

void suspect_find(const char *directory, struct arena *a, struct run_try *ret)
{
	struct recordings all;
	struct suspect best = { 0 };
	open_all(directory, &all);
	for (size_t i = 0; i < all.list.len; i++)
		look(all.list.data[i], &best);
	tell(&best, a, ret);
	close_all(&all);
}

// --- for crash diagnostics ---

static void add_launches(const struct flight_recording *r, struct arena *a, struct text *to, struct str *ret_last)
{
	for (size_t q = 0; q < r->nqueues; q++) {
		const struct recorded_queue *queue = &r->queues[q];
		for (size_t i = queue->n > LOG_LINES ? queue->n - LOG_LINES : 0; i < queue->n; i++) {
			const struct recorded_packet *p = &queue->packets[i];
			if (p->kind != PACKET_DISPATCH)
				continue;
			*ret_last = arena_printf(a, "Kernel API Call: " STR_FMT " queue %u packet %llu %s",
						 STR_ARG(packet_say(a, p)), queue->id, (unsigned long long)p->id,
						 progress_name(p->progress));
			text_printf(to, STR_FMT "\n", STR_ARG(*ret_last));
		}
	}
}

void suspect_log(const char *directory, struct arena *a, struct suspect_log *ret)
{
	struct recordings all;
	struct suspect best = { 0 };
	struct text lines = { 0 };
	*ret = (struct suspect_log){ 0 };
	open_all(directory, &all);
	for (size_t i = 0; i < all.list.len; i++)
		look(all.list.data[i], &best);
	if (!best.of && all.list.len)
		best.of = all.list.data[0];
	if (best.of)
		add_launches(best.of, a, &lines, &ret->last);
	for (size_t i = 0; best.of && i < best.of->nagents; i++)
		if (best.of->agents[i].gpu && !ret->gfx.n)
			ret->gfx = arena_str(a, best.of->agents[i].name);
	if (best.packet)
		ret->last = arena_printf(a, "Kernel API Call: " STR_FMT " packet %llu", STR_ARG(packet_say(a, best.packet)),
					 (unsigned long long)best.packet->id);
	ret->lines = arena_str(a, text_str(&lines));
	text_free(&lines);
	close_all(&all);
}
