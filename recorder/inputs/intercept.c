// Levels 5 and 10: packets are held back until the work before them has ended, so that the buffers are read as the kernel will find them.
// Only an intercept queue can do that: the command processor polls the write index of an ordinary one and would run ahead. It makes the
// queue run one kernel after the other. The program's threads hand the packets on and go on (held.c).
#include <dlfcn.h>
#include <stdlib.h>

#include "recorder/waits/waits.h"

enum { HELD_AT_ONCE = 64, AQL_SIZE = 64 };

static bool wanted(const uint64_t *packet)
{
	return (packet[0] & 0xff) == AQL_KIND_DISPATCH && kernel_arguments(packet[4]) > 0;
}

// --- how far the GPU is ---

enum { PASSING_ROUNDS = 4, NOTHING_TELLS = 1, MARKS = 16, MARKS_IN_RING = 8 };

/** What was handed on to the GPU, in order. Packets that have no completion signal all get the same one, which the GPU counts down by one
 * for each that has ended. */
struct passing {
	hsa_handle counter;
	struct holding *holding; // NULL: nothing is held back
	struct waiting *waiting; // NULL: nothing waits for other queues
	const struct amd_queue *queue;
	struct ring {
		hsa_handle marks; // counted down by one for each mark that the GPU has come to
		uint64_t size, slots, nmarks;
		uint64_t mark_at[MARKS]; // slots
		uint64_t beyond;         // the packet that was handed on without room for it, plus one; 0: none
		bool behind;             // the program did not wait longer
	} ring;
	uint64_t mask;
	_Atomic uint64_t handed; // packets
	uint64_t counters;       // of these have the counter
	uint64_t ended, looked;  // of the sampler: how many have ended
	struct passed {
		_Atomic uint64_t id;
		_Atomic hsa_handle own;    // its own completion signal; 0: it has the counter, NOTHING_TELLS: neither
		_Atomic uint64_t counters; // with the counter up to here, itself among them
	} list[];
};

/** Notes a packet, and returns the completion signal that it goes with. */
static hsa_handle pass(struct passing *s, const uint64_t *packet, uint64_t id)
{
	const unsigned kind = packet[0] & 0xff;
	const bool tells = kind == AQL_KIND_DISPATCH || kind == AQL_KIND_BARRIER_AND || kind == AQL_KIND_BARRIER_OR;
	const bool counts = tells && !packet[7];
	const uint64_t at = atomic_load_explicit(&s->handed, memory_order_relaxed);
	struct passed *p = &s->list[at & s->mask];
	s->counters += counts;
	atomic_store_explicit(&p->id, id, memory_order_relaxed);
	atomic_store_explicit(&p->own, tells ? packet[7] : NOTHING_TELLS, memory_order_relaxed);
	atomic_store_explicit(&p->counters, s->counters, memory_order_relaxed);
	atomic_store_explicit(&s->handed, at + 1, memory_order_release);
	return counts ? s->counter : packet[7];
}

/** Programs use a signal again when it has fired: then a later packet has it, and it does not say so any more. */
static bool used_again(const struct passing *s, uint64_t handed, hsa_handle own)
{
	for (uint64_t at = handed; at-- != s->ended + 1;)
		if (atomic_load_explicit(&s->list[at & s->mask].own, memory_order_relaxed) == own)
			return true;
	return false;
}

/** Whether the first packet of which it is not known yet has ended. A later one that has ended did so behind it. @done: so many that have
 * the counter have ended. */
static bool passed(struct passing *s, uint64_t handed, uint64_t done)
{
	const struct passed *p = &s->list[s->ended & s->mask];
	const hsa_handle own = atomic_load_explicit(&p->own, memory_order_relaxed);
	const uint64_t counters = atomic_load_explicit(&p->counters, memory_order_relaxed);
	int64_t value;
	if (!own)
		return done >= counters;
	if (own == NOTHING_TELLS || done > counters || (signal_value(own, &value) && value <= 0))
		return true;
	if (s->looked == handed)
		return false;
	s->looked = handed;
	return used_again(s, handed, own);
}

/** Where many small packets were handed on since the last look, the first are overwritten: those have ended, or there were no room. */
uint64_t intercept_read(struct queue_state *q, uint64_t read)
{
	struct passing *s = q->passing;
	int64_t value;
	if (!s || !signal_value(s->counter, &value))
		return read;
	const uint64_t handed = atomic_load_explicit(&s->handed, memory_order_acquire), half = (s->mask + 1) / 2;
	if (handed - s->ended > half)
		s->ended = handed - half;
	while (s->ended != handed && passed(s, handed, (uint64_t)-value))
		s->ended++;
	const uint64_t id = atomic_load_explicit(&s->list[s->ended & s->mask].id, memory_order_relaxed);
	// Who hands packets on does not wait for this look.
	const bool overwritten = atomic_load_explicit(&s->handed, memory_order_acquire) - s->ended > s->mask;
	return s->ended == handed || overwritten ? read : id;
}

void passing_end(struct passing *s)
{
	if (s && s->holding)
		holding_end(s->holding);
}

void passing_free(struct passing *s)
{
	if (!s)
		return;
	if (s->holding)
		holding_free(s->holding);
	waiting_free(s->waiting);
	signal_end(s->counter);
	signal_end(s->ring.marks);
	free(s);
}

static struct passing *passing_new(const struct queue_state *q)
{
	const uint64_t rows = PASSING_ROUNDS * q->size;
	struct passing *s = calloc(1, sizeof(*s) + rows * sizeof(s->list[0]));
	if (!s)
		return NULL;
	s->mask = rows - 1;
	s->queue = q->queue;
	s->ring.size = q->size;
	s->counter = signal_new(0, q->agent);
	s->ring.marks = signal_new(0, q->agent);
	if (s->counter && s->ring.marks) {
		if (rec.settings.max_level >= LEVEL_STATISTICS)
			s->holding = holding_new(q->agent, q->size, q->id);
		s->waiting = waiting_new(q->agent, q->id);
		return s;
	}
	passing_free(s);
	return NULL;
}

// --- room in the GPU's ring ---

/** The mark behind which nothing is left to the GPU, as a slot. */
static uint64_t ring_taken(const struct ring *r)
{
	const uint64_t marks = signal_counted(r->marks);
	return marks ? r->mark_at[(marks - 1) % MARKS] + 1 : 0;
}

/** Whether @n packets fit. The runtime puts one of its own there at times. */
static bool ring_has(const struct ring *r, uint64_t n)
{
	enum { SPARE = 4 };
	return r->slots + n + SPARE <= ring_taken(r) + r->size;
}

/** Waits for room for @n packets: older runtimes abort the program, or lose the rest, when two packets do not fit that one doorbell told of.
 * A program that is so far ahead would wait by itself. But the GPU may be waiting for the program: then one packet may go, and the
 * runtime keeps it. The queue's own index says whether its doorbell has returned since. */
static void ring_wait(struct passing *s, uint64_t n, uint64_t index)
{
	struct ring *r = &s->ring;
	uint64_t taken = 0, since = 0;
	n = n < r->size / 2 ? n : r->size / 2;
	while (!ring_has(r, n)) {
		const uint64_t now = now_ms(), taken_now = ring_taken(r);
		const bool same_doorbell =
			r->beyond && (int64_t)(__atomic_load_n(&s->queue->read_index, __ATOMIC_ACQUIRE) - r->beyond) < 0;
		since = since && taken == taken_now ? since : now;
		taken = taken_now;
		r->behind |= now - since > AHEAD_MS;
		if (r->behind && !same_doorbell) {
			r->beyond = index + 1;
			return;
		}
		look_pause();
	}
	r->behind = false;
	r->beyond = 0;
}

/** A packet that waits for nothing, so that the GPU comes to it when it has taken those before it. Returns how many were put. */
static size_t mark_put(struct ring *r, uint64_t *to)
{
	const uint64_t last = r->nmarks ? r->mark_at[(r->nmarks - 1) % MARKS] : 0;
	if (r->slots - last < r->size / MARKS_IN_RING || r->nmarks - signal_counted(r->marks) >= MARKS)
		return 0;
	memset(to, 0, AQL_SIZE);
	to[0] = AQL_KIND_BARRIER_AND;
	to[7] = r->marks;
	r->mark_at[r->nmarks++ % MARKS] = r->slots;
	return 1;
}

// --- packets on their way ---

/** What is handed on. */
struct batch {
	const uint64_t (*packets)[8];
	uint64_t n, index; // of the first
	struct held *held; // in their order
	size_t nheld;
};

/** The packets, a mark where one is due, two barriers before each kernel that is held, and those of waits/. Returns how many packets that are. */
static size_t packets_make(uint64_t (*to)[8], const struct batch *b, struct passing *passing)
{
	size_t out = mark_put(&passing->ring, to[0]);
	const struct held *h = b->held;
	for (uint64_t i = 0; i < b->n; i++) {
		if (h && h->packet == b->index + i) {
			memset(to[out], 0, 2 * sizeof(to[0]));
			to[out][0] = to[out + 1][0] = BARRIER_HEADER;
			to[out++][7] = holding_reached(passing->holding);
			to[out++][1] = h->released;
			h = h->next;
		}
		out += waits_before(passing->waiting, b->packets[i], to + out);
		memcpy(to[out], b->packets[i], sizeof(to[0]));
		to[out++][7] = pass(passing, b->packets[i], b->index + i);
		out += waits_behind(passing->waiting, b->packets[i], to + out);
	}
	passing->ring.slots += out;
	return out;
}

static void held_find(struct batch *b, struct holding *h)
{
	struct held **last = &b->held;
	for (uint64_t i = 0; i < b->n && b->nheld < HELD_AT_ONCE; i++) {
		if (!wanted(b->packets[i]) || !holding_room(h))
			continue;
		*last = held_new(h, b->packets[i], b->index + i);
		if (!*last)
			continue;
		last = &(*last)->next;
		b->nheld++;
	}
}

/** Without memory for more packets, these go as they are. */
static void hand_on_bare(struct passing *s, const struct batch *b, packet_writer_fn *write)
{
	for (struct held *k = b->held; k;) {
		struct held *after = k->next;
		held_free(k);
		k = after;
	}
	s->ring.slots += b->n;
	write(b->packets, b->n);
}

/** The writer of this runtime may be called once only, so that the packets are submitted whole, and held by barriers. */
static void intercepted(const void *packets, uint64_t n, uint64_t index, void *data, packet_writer_fn *write)
{
	enum { FEW = 4 };
	_Alignas(CACHE_LINE) uint64_t few[FEW][8] = { { 0 } };
	struct passing *s = data;
	struct batch b = { .packets = packets, .n = n, .index = index };
	const uint64_t more = s->waiting ? WAITS_EACH : 0;
	ring_wait(s, 1 + (3 + more) * n, index);
	if (s->holding && rec_level() >= LEVEL_STATISTICS)
		held_find(&b, s->holding);
	const size_t most = 1 + n + 2 * b.nheld + more * n;
	_cleanup_free_ void *many = most <= FEW ? NULL : aligned_alloc(CACHE_LINE, most * sizeof(few[0]));
	uint64_t(*room)[8] = most <= FEW ? few : many;
	if (room) {
		write(room, packets_make(room, &b, s));
		if (s->holding)
			holding_add(s->holding, b.held);
	} else {
		hand_on_bare(s, &b, write);
	}
}

/** Whether another tool makes the queues: it is not passed by. */
static bool made_by_tool(void)
{
	Dl_info maker, runtime;
	return dladdr(next.core[CORE_QUEUE_CREATE], &maker) && dladdr(next.core[CORE_SYSTEM_GET_INFO], &runtime) &&
	       maker.dli_fbase != runtime.dli_fbase;
}

queue_create_fn *intercept_maker(void)
{
	return (queue_create_fn *)(made_by_tool() ? next.core[CORE_QUEUE_CREATE] : next.ext[EXT_INTERCEPT_CREATE]);
}

void intercept_begin(struct queue_state *q)
{
	hsa_status (*attach)(struct hsa_queue *, intercept_fn *, void *) =
		(hsa_status(*)(struct hsa_queue *, intercept_fn *, void *))next.ext[EXT_INTERCEPT_REGISTER];
	static _Atomic bool told;
	struct passing *s = passing_new(q);
	if (s && attach && attach(&q->queue->hsa, intercepted, s) == HSA_OK) {
		q->passing = s;
		return;
	}
	passing_free(s);
	q->passing = NULL;
	if (!atomic_exchange(&told, true))
		rec_line("another tool makes queues that cannot be held; levels 5 and 10 read nothing there");
	if (q->head)
		q->head->flags &= ~(uint32_t)REC_QUEUE_INTERCEPTED;
}
