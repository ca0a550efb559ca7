// Levels 5 and 10: packets are held back until the work before them has ended, so that the buffers are read as the kernel will find them.
// Only an intercept queue can do that: the command processor polls the write index of an ordinary one and would run ahead. It makes the
// queue run one kernel after the other.
#include <stdlib.h>

#include "recorder/inputs.h"

enum { WAIT_MS = 2000, LOOK_US = 20, HELD_MOST = 64, BARRIER_HEADER = AQL_KIND_BARRIER_AND | 1 << 8 | 2 << 9 | 2 << 11 };

/** A kernel that is held back: a barrier before it tells when all earlier work has ended, a second one waits for us. */
struct held {
	const uint64_t *packet;
	uint64_t index;
	hsa_handle reached, released;
};

/** @consumer: a GPU, where nobody on the host waits for it: it needs no interrupt then. 0: anybody. */
static hsa_handle signal_new(int64_t value, hsa_handle consumer)
{
	hsa_status (*create)(int64_t, uint32_t, const hsa_handle *, hsa_handle *) =
		(hsa_status(*)(int64_t, uint32_t, const hsa_handle *, hsa_handle *))next.core[CORE_SIGNAL_CREATE];
	hsa_handle signal = 0;
	return create(value, consumer != 0, consumer ? &consumer : NULL, &signal) == HSA_OK ? signal : 0;
}

static void signal_end(hsa_handle signal)
{
	if (signal)
		((hsa_status(*)(hsa_handle))next.core[CORE_SIGNAL_DESTROY])(signal);
}

/** false: earlier work has not ended within the time that the job may be held. */
static bool reached(hsa_handle signal)
{
	int64_t (*load)(hsa_handle) = (int64_t(*)(hsa_handle))next.core[CORE_SIGNAL_LOAD_SCACQUIRE];
	for (unsigned i = 0; i < WAIT_MS * 1000 / LOOK_US; i++) {
		if (load(signal) <= 0)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_US * 1000 }, NULL);
	}
	return false;
}

static bool wanted(const uint64_t *packet)
{
	return (packet[0] & 0xff) == AQL_KIND_DISPATCH && kernel_arguments(packet[4]) > 0;
}

static void take(struct queue_state *q, const struct held *h)
{
	const uint64_t kernel = h->packet[4];
	struct inputs in = { .queue = q,
			     .packet = h->index,
			     .kernel = kernel,
			     .name = kernel_name(kernel),
			     .operation = thread_here()->operation };
	inputs_find(&in, h->packet[5], kernel_arguments(kernel));
	if (in.n && rec_level() >= LEVEL_INPUTS)
		inputs_dump(&in);
	if (in.n)
		inputs_count(&in);
}

// --- how far the GPU is ---

enum { PASSING_ROUNDS = 4, NOTHING_TELLS = 1 };

/** What was handed on to the GPU, in order. Packets that have no completion signal all get the same one, which the GPU counts down by one
 * for each that has ended. */
struct passing {
	hsa_handle counter;
	uint64_t mask;
	_Atomic uint64_t handed;         // packets
	uint64_t ended, counted, looked; // of the sampler: how many have ended, how many of these the counter told of
	struct passed {
		uint64_t id;
		hsa_handle own; // its own completion signal; 0: it has the counter, NOTHING_TELLS: neither
	} list[];
};

/** Notes a packet, and returns the completion signal that it goes with. */
static hsa_handle pass(struct passing *s, const uint64_t *packet, uint64_t id)
{
	const unsigned kind = packet[0] & 0xff;
	const bool tells = kind == AQL_KIND_DISPATCH || kind == AQL_KIND_BARRIER_AND || kind == AQL_KIND_BARRIER_OR;
	if (!s)
		return packet[7];
	const uint64_t at = atomic_load_explicit(&s->handed, memory_order_relaxed);
	s->list[at & s->mask] = (struct passed){ id, tells ? packet[7] : NOTHING_TELLS };
	atomic_store_explicit(&s->handed, at + 1, memory_order_release);
	return tells && !packet[7] ? s->counter : packet[7];
}

/** Programs use a signal again when it has fired: then a later packet has it, and it does not say so any more. */
static bool used_again(const struct passing *s, uint64_t handed)
{
	const hsa_handle own = s->list[s->ended & s->mask].own;
	for (uint64_t at = handed; at-- != s->ended + 1;)
		if (s->list[at & s->mask].own == own)
			return true;
	return false;
}

/** Whether the first packet of which it is not known yet has ended. A later one that has ended did so behind it. */
static bool passed(struct passing *s, uint64_t handed, uint64_t done)
{
	const hsa_handle own = s->list[s->ended & s->mask].own;
	int64_t value;
	if (!own)
		return s->counted != done && ++s->counted;
	if (own == NOTHING_TELLS || s->counted != done || (signal_value(own, &value) && value <= 0))
		return true;
	if (s->looked == handed)
		return false;
	s->looked = handed;
	return used_again(s, handed);
}

uint64_t intercept_read(struct queue_state *q, uint64_t read)
{
	struct passing *s = q->passing;
	int64_t value;
	if (!s || !signal_value(s->counter, &value))
		return read;
	const uint64_t handed = atomic_load_explicit(&s->handed, memory_order_acquire);
	if (handed - s->ended > s->mask + 1)
		return read; // more than fit into both queues: the order was lost
	while (s->ended != handed && passed(s, handed, (uint64_t)-value))
		s->ended++;
	return s->ended == handed ? read : s->list[s->ended & s->mask].id;
}

void passing_free(struct passing *s)
{
	if (s)
		signal_end(s->counter);
	free(s);
}

static struct passing *passing_new(const struct queue_state *q)
{
	const uint64_t rows = PASSING_ROUNDS * q->size;
	struct passing *s = calloc(1, sizeof(*s) + rows * sizeof(s->list[0]));
	if (!s)
		return NULL;
	s->mask = rows - 1;
	s->counter = signal_new(0, q->agent);
	if (s->counter)
		return s;
	free(s);
	return NULL;
}

// --- packets on their way ---

/** What is handed on. */
struct batch {
	const uint64_t (*packets)[8];
	uint64_t n, index; // of the first
	struct held *held;
	size_t nheld;
};

/** The packets with two barriers before each kernel that is held. Returns how many packets that are. */
static size_t packets_make(uint64_t (*to)[8], const struct batch *b, struct passing *passing)
{
	size_t out = 0, held_now = 0;
	for (uint64_t i = 0; i < b->n; i++) {
		const uint64_t *from = b->packets[i];
		const struct held *h = held_now < b->nheld && b->held[held_now].packet == from ? &b->held[held_now++] : NULL;
		if (h) {
			memset(to[out], 0, 2 * sizeof(to[0]));
			to[out][0] = to[out + 1][0] = BARRIER_HEADER;
			to[out++][7] = h->reached;
			to[out++][1] = h->released;
		}
		memcpy(to[out], from, sizeof(to[0]));
		to[out++][7] = pass(passing, from, b->index + i);
	}
	return out;
}

static void held_find(struct batch *b)
{
	for (uint64_t i = 0; i < b->n && b->nheld < HELD_MOST; i++) {
		struct held h = { .packet = b->packets[i], .index = b->index + i };
		if (!wanted(h.packet) || !(h.reached = signal_new(1, 0)))
			continue;
		h.released = signal_new(1, 0);
		if (h.released)
			b->held[b->nheld++] = h;
		else
			signal_end(h.reached);
	}
}

/** The kernels one after the other. A signal that the GPU may still look at stays until a later one has been reached. */
static void held_take(struct queue_state *q, const struct held *held, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (reached(held[i].reached)) {
			signal_end(held[i].reached);
			signal_end(q->released);
			q->released = 0;
			take(q, &held[i]);
		}
		((signal_store_fn *)next.core[CORE_SIGNAL_STORE_SCRELEASE])(held[i].released, 0);
		q->released = held[i].released;
	}
}

/** The writer of this runtime may be called once only, so that the packets are submitted whole, and held by barriers. */
static void intercepted(const void *packets, uint64_t n, uint64_t index, void *data, packet_writer_fn *write)
{
	enum { FEW = 4 };
	_Alignas(CACHE_LINE) uint64_t few[FEW][8] = { { 0 } };
	struct held held[HELD_MOST];
	struct queue_state *q = data;
	struct batch b = { .packets = packets, .n = n, .index = index, .held = held };
	if (rec_level() >= LEVEL_STATISTICS)
		held_find(&b);
	const size_t most = n + 2 * b.nheld;
	uint64_t(*room)[8] = most <= FEW ? few : aligned_alloc(CACHE_LINE, most * sizeof(few[0]));
	if (room) {
		write(room, packets_make(room, &b, q->passing));
		held_take(q, held, b.nheld);
	} else {
		write(packets, n);
	}
	if (room != few)
		free(room);
}

hsa_status intercept_create(hsa_handle agent, uint32_t size, uint32_t type, queue_error_fn *error, void *data,
			    uint32_t private_size, uint32_t group_size, struct hsa_queue **ret)
{
	return ((queue_create_fn *)next.ext[EXT_INTERCEPT_CREATE])(agent, size, type, error, data, private_size, group_size,
								   ret);
}

void intercept_begin(struct queue_state *q)
{
	hsa_status (*attach)(struct hsa_queue *, intercept_fn *, void *) =
		(hsa_status(*)(struct hsa_queue *, intercept_fn *, void *))next.ext[EXT_INTERCEPT_REGISTER];
	q->passing = passing_new(q);
	const bool attached = attach && attach(&q->queue->hsa, intercepted, q) == HSA_OK;
	if (attached)
		return;
	passing_free(q->passing);
	q->passing = NULL;
	if (q->head)
		q->head->flags &= ~(uint32_t)REC_QUEUE_INTERCEPTED;
}
