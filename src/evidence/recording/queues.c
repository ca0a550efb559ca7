// The queues of a recording and their packets: which are there. progress.c says how far each is.
#include <stdlib.h>

#include "base/bytes.h"
#include "evidence/recording/recording.h"

enum { AQL_TYPE_VENDOR = 0, AQL_TYPE_DISPATCH = 2, AQL_TYPE_BARRIER_AND = 3, AQL_TYPE_BARRIER_OR = 5 };

static int by_id(const void *a, const void *b)
{
	const struct recorded_packet *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void packet_take(const struct flight_recording *r, struct recorded_packet *p)
{
	const unsigned type = p->raw.header & 0xff;
	const bool taken = p->raw.header == REC_PACKET_TAKEN;
	p->kind = taken || type == AQL_TYPE_DISPATCH                          ? PACKET_DISPATCH :
		  type == AQL_TYPE_BARRIER_AND || type == AQL_TYPE_BARRIER_OR ? PACKET_BARRIER :
										PACKET_OTHER;
	p->awaits_all = type == AQL_TYPE_BARRIER_AND;
	p->barrier_bit = !taken && p->raw.header >> 8 & 1;
	for (unsigned i = 0; i < 3; i++)
		p->group[i] = (p->raw.group >> 10 * i & 1023) + 1;
	p->dimensions = p->raw.group >> 30;
	p->kernel = p->kind == PACKET_BARRIER ? NULL : recording_kernel(r, p->raw.kernel, p->raw.time);
	p->operation = recording_operation(r, p->raw.operation);
}

static const struct recording_piece *arguments_of(const struct recording_piece *p, size_t n, uint32_t queue)
{
	for (size_t i = 0; i < n; i++)
		if (p[i].extent.kind == EXTENT_ARGUMENTS && p[i].extent.id == queue &&
		    p[i].extent.stride >= sizeof(struct rec_arguments))
			return &p[i];
	return NULL;
}

static void arguments_take(struct flight_recording *r, struct recorded_packet *p, const struct recording_piece *from)
{
	struct rec_arguments a;
	uint64_t id;
	const char *at = from->slots + (p->id & (from->extent.slots - 1)) * from->extent.stride;
	memcpy(&a, at, sizeof(a));
	if (!a.check || a.id != (uint32_t)p->id)
		return;
	if (a.copied > from->extent.stride - sizeof(a) || !record_whole(at, 2 + (a.copied + 7u) / 8, p->id, &id) ||
	    id != p->id) {
		r->torn++;
		return;
	}
	struct rec_arguments *kept = arena_alloc(&r->arena, sizeof(*kept));
	*kept = a;
	p->arguments = kept;
	p->argument_bytes = (const uint8_t *)at + sizeof(a);
}

static void queue_take(struct flight_recording *r, const struct recording_piece *p, size_t n, const struct recording_piece *of)
{
	struct recorded_queue *q = &r->queues[r->nqueues++];
	const uint64_t slots = of->extent.slots;
	q->id = of->extent.id;
	memcpy(&q->head, of->head, sizeof(q->head));
	r->cut = r->cut || !q->head.size;
	q->read = q->head.read;
	q->write = q->head.write;
	q->agent = recording_agent(r, q->head.agent);
	q->packets = arena_alloc(&r->arena, slots * sizeof(*q->packets));
	// A packet's number may be above what was noted as seen: its producer is ahead of who notes.
	const uint64_t upto = q->head.seen < UINT64_MAX - slots ? q->head.seen + slots - 1 : UINT64_MAX;
	for (uint64_t i = 0; i < slots; i++) {
		const char *at = of->slots + i * of->extent.stride;
		struct recorded_packet *k = &q->packets[q->n];
		if (!get_u64(at))
			continue;
		if (!record_whole(at, RECORD_WORDS, upto, &k->id) || (k->id & (slots - 1)) != i) {
			q->torn++;
			continue;
		}
		memcpy(&k->raw, at, sizeof(k->raw));
		q->n++;
	}
	r->torn += q->torn;
	qsort(q->packets, q->n, sizeof(*q->packets), by_id);
	const struct recording_piece *arguments = arguments_of(p, n, q->id);
	for (size_t i = 0; i < q->n; i++) {
		packet_take(r, &q->packets[i]);
		if (arguments)
			arguments_take(r, &q->packets[i], arguments);
	}
}

void recording_queues(struct flight_recording *r, const struct recording_piece *p, size_t n)
{
	size_t queues = 0;
	for (size_t i = 0; i < n; i++)
		queues += p[i].extent.kind == EXTENT_QUEUE;
	r->queues = arena_alloc(&r->arena, (queues + 1) * sizeof(*r->queues));
	for (size_t i = 0; i < n; i++)
		if (p[i].extent.kind == EXTENT_QUEUE && p[i].extent.head >= sizeof(struct rec_queue) &&
		    p[i].extent.stride >= RECORD_SIZE)
			queue_take(r, p, n, &p[i]);
}
