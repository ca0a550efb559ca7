// Where every launch passes: the doorbell of a queue. The packets between the last one that was seen and the one that the doorbell names
// are copied into the queue's ring of records, before the GPU is told of them.
#include <stdlib.h>

#include "recorder/waits/waits.h"

enum { RECORDS_LEAST = 64, WALK_BACK = 64, PROBES = 32, BUCKET_USED = 1, GONE_KEPT = 24 };

static size_t bucket_of(hsa_handle doorbell) { return (size_t)((doorbell >> 6) * 0x9e3779b97f4a7c15u >> 54) % QUEUE_BUCKETS; }

struct queue_state *queue_find(hsa_handle doorbell)
{
	for (size_t i = bucket_of(doorbell), n = 0; n < PROBES; i = (i + 1) % QUEUE_BUCKETS, n++) {
		const uint64_t key = atomic_load_explicit(&rec.buckets[i].doorbell, memory_order_acquire);
		if (key == doorbell)
			return atomic_load_explicit(&rec.buckets[i].queue, memory_order_relaxed);
		if (!key)
			return NULL;
	}
	return NULL;
}

static bool bucket_put(struct queue_state *q)
{
	for (size_t i = bucket_of(q->doorbell), n = 0; n < PROBES; i = (i + 1) % QUEUE_BUCKETS, n++)
		if (atomic_load(&rec.buckets[i].doorbell) <= BUCKET_USED) {
			atomic_store(&rec.buckets[i].queue, q);
			atomic_store(&rec.buckets[i].doorbell, q->doorbell);
			return true;
		}
	return false;
}

void queue_forget(hsa_handle doorbell)
{
	for (size_t i = bucket_of(doorbell), n = 0; n < PROBES; i = (i + 1) % QUEUE_BUCKETS, n++)
		if (atomic_load(&rec.buckets[i].doorbell) == doorbell) {
			atomic_store(&rec.buckets[i].doorbell, BUCKET_USED);
			return;
		}
}

static void head_fill(struct queue_state *q, uint32_t flags)
{
	struct rec_queue *h = q->head;
	h->address = (uintptr_t)q->queue;
	h->ring = (uintptr_t)q->packets;
	h->doorbell = q->doorbell;
	h->agent = q->agent;
	h->size = (uint32_t)q->size;
	h->flags = flags | (q->mask + 1 < q->size ? REC_QUEUE_SHORT : 0);
	h->hsa_id = q->queue->hsa.id;
	h->created = rec_ticks();
	// A queue that was not seen from its beginning: what the GPU has not taken yet is still to be recorded.
	h->seen = flags & REC_QUEUE_FOUND ? __atomic_load_n(&q->queue->read_index, __ATOMIC_RELAXED) : 0;
}

/** A queue that is gone, whose place in the file a new one of the same kind may have: programs make and destroy them without end. */
static struct queue_state *queue_again(uint64_t size, uint32_t flags)
{
	for (uint32_t i = 0; i < rec.nqueues && rec.nqueues >= GONE_KEPT; i++) {
		struct queue_state *q = rec.queues[i];
		if (!q->gone || !q->head || q->size != size || (q->head->flags ^ flags) & REC_QUEUE_INTERCEPTED)
			continue;
		memset(q->head, 0, sizeof(*q->head) + (q->mask + 1) * RECORD_SIZE);
		q->gone = false;
		atomic_store(&q->range_end, 0);
		return q;
	}
	return NULL;
}

static struct queue_state *queue_new(uint64_t size, uint32_t flags)
{
	// Behind an intercept queue there is another of the same size, which the GPU reads.
	uint64_t records = flags & REC_QUEUE_INTERCEPTED ? 2 * size : size;
	struct queue_state *q = rec.nqueues < QUEUES_MOST ? aligned_alloc(CACHE_LINE, sizeof(*q)) : NULL;
	if (!q)
		return NULL;
	memset(q, 0, sizeof(*q));
	q->id = rec.nqueues;
	q->size = size;
	q->packet_mask = size - 1;
	q->head = extent_fit(EXTENT_QUEUE, q->id, sizeof(struct rec_queue), &records, RECORDS_LEAST, RECORD_SIZE);
	q->records = q->head ? (uint64_t *)(q->head + 1) : NULL;
	q->mask = records - 1;
	if (!q->head && !rec.header->torn_queues++ && !rec.header->closed)
		rec_line("no room for the packets of a queue of %llu; it is not recorded", (unsigned long long)size);
	return q;
}

struct queue_state *queue_add(struct hsa_queue *queue, hsa_handle agent, uint32_t flags)
{
	const uint64_t size = queue->size;
	if (!size || size & (size - 1) || size > 1u << 24 || !queue->base)
		return NULL;
	struct queue_state *q = queue_again(size, flags);
	q = q ? q : queue_new(size, flags);
	if (!q)
		return NULL;
	q->queue = (struct amd_queue *)queue;
	q->doorbell = queue->doorbell;
	q->agent = agent;
	q->packets = queue->base;
	if (q->head)
		head_fill(q, flags);
	if (q->head && rec_level() >= LEVEL_ARGUMENTS)
		arguments_room(q);
	if (q->id == rec.nqueues) {
		rec.queues[q->id] = q;
		__atomic_store_n(&rec.nqueues, q->id + 1, __ATOMIC_RELEASE);
	}
	return bucket_put(q) ? q : NULL;
}

void queues_end(void)
{
	for (uint32_t i = 0; i < rec.nqueues; i++) {
		rec.queues[i]->gone = true;
		rec.queues[i]->passing = NULL;
		queue_forget(rec.queues[i]->doorbell);
	}
}

/** A doorbell whose queue's creation was not seen: newer runtimes have several ways to make one. */
static __attribute__((noinline)) struct queue_state *queue_adopt(hsa_handle doorbell)
{
	const struct amd_signal *s = (const struct amd_signal *)(uintptr_t)doorbell;
	struct queue_state *q = NULL;
	if (!s || s->kind >= 0 || !s->queue || s->queue->hsa.doorbell != doorbell ||
	    !(s->queue->hsa.features & QUEUE_DISPATCHES))
		return NULL;
	pthread_mutex_lock(&rec.lock);
	if (atomic_load(&rec.on)) {
		q = queue_find(doorbell);
		q = q ? q : queue_add(&s->queue->hsa, 0, REC_QUEUE_FOUND);
	}
	pthread_mutex_unlock(&rec.lock);
	return q;
}

static inline const uint64_t *packet_at(const struct queue_state *q, uint64_t id)
{
	return &q->packets[(id & q->packet_mask) * 8];
}

static inline uint64_t packet_word(const uint64_t *p, unsigned i) { return __atomic_load_n(&p[i], __ATOMIC_RELAXED); }

/** The first word. Its lower half first: who writes a packet writes that last, and alone, so that a load of all of it would have to wait
 * until that store has left the core. */
static inline uint64_t packet_head(const uint64_t *p)
{
	const uint64_t low = __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);
	return low | (uint64_t)__atomic_load_n((const uint32_t *)p + 1, __ATOMIC_RELAXED) << 32;
}

/** Work-group sizes have 16 bits each and 1024 is the most: minus one they need 10. */
static inline uint64_t group_of(uint64_t w0, uint64_t w1)
{
	const uint64_t x = (w0 >> 32) - 1, y = (w0 >> 48) - 1, z = w1 - 1;
	return (x & 1023) | (y & 1023) << 10 | (z & 1023) << 20 | (w0 >> 16 & 3) << 30;
}

/** Who launched it, and when. */
struct launcher {
	uint64_t time;
	uint64_t who; // thread and operation, where word 7 has them
	uint32_t filter;
};

/** The record of a packet whose words are @p; not words 0 and 7. */
static inline void dispatch_words(const uint64_t *p, uint64_t w0, uint64_t time, uint64_t *w)
{
	const uint64_t w1 = packet_word(p, 1), grid = packet_word(p, 2);
	w[1] = time;
	w[2] = packet_word(p, 4);
	w[3] = packet_word(p, 5);
	w[4] = packet_word(p, 7);
	w[5] = w1 >> 32 | grid << 32;
	w[6] = grid >> 32 | group_of(w0, w1) << 32;
}

/** The signals that a barrier waits for are words 1 to 5 of its packet. */
static void barrier_words(const uint64_t *p, uint64_t *w)
{
	uint64_t n = 0, found[5] = { 0 };
	for (unsigned i = 1; i <= 5; i++) {
		const uint64_t signal = packet_word(p, i);
		if (signal)
			found[n++] = signal;
	}
	w[2] = found[0];
	w[3] = found[1];
	w[5] = found[2];
	w[6] = n;
}

/** @dispatch: it is a kernel, as far as is known. */
static inline void record_write(struct queue_state *q, uint64_t id, uint64_t *w, struct launcher l, bool dispatch)
{
	if (__builtin_expect(packet_overtaken(q, id), 0)) {
		__atomic_fetch_add(&q->head->unseen, 1, __ATOMIC_RELAXED);
		return;
	}
	rec_write(&q->records[(id & q->mask) * RECORD_WORDS], w, RECORD_WORDS, id);
	// The next record goes where nothing has been for a whole round: fetched now, it is there when the next launch comes.
	__builtin_prefetch(&q->records[((id + 1) & q->mask) * RECORD_WORDS], 1);
	if (dispatch && rec_level() >= LEVEL_ARGUMENTS)
		arguments_record(q, id,
				 (struct argued){ w[2], w[3], (uint32_t)(packet_word(packet_at(q, id), 3) >> 32), l.filter });
}

/** A packet that is no kernel, or is none any more. */
static __attribute__((noinline)) bool other_record(struct queue_state *q, uint64_t id, struct launcher l, bool rung)
{
	uint64_t w[RECORD_WORDS];
	const uint64_t *p = packet_at(q, id), w0 = packet_head(p);
	uint64_t header = w0 & 0xffff;
	const unsigned kind = header & 0xff;
	dispatch_words(p, w0, l.time, w);
	if (kind == AQL_KIND_INVALID) {
		// The GPU takes a packet's type away first and then counts it.
		if (!rung && (int64_t)(__atomic_load_n(&q->queue->read_index, __ATOMIC_RELAXED) - id) <= 0)
			return false;
		// Where a kernel has its code a barrier has its fourth signal, which hardly any has. Of what kind it was nobody knows any
		// more: of one that waits for any of its signals less follows.
		header = w[2] ? REC_PACKET_TAKEN : AQL_KIND_BARRIER_OR;
	}
	if (kind == AQL_KIND_BARRIER_AND || header == AQL_KIND_BARRIER_OR || kind == AQL_KIND_BARRIER_OR)
		barrier_words(p, w);
	w[7] = header | l.who;
	record_write(q, id, w, l, kind == AQL_KIND_DISPATCH || header == REC_PACKET_TAKEN);
	return true;
}

/** @rung: its own doorbell was rung, so that it is written. false: its producer has not written it yet, or it is another's: its time is
 * behind what that one did before it wrote the packet, as to make its signal ready. A kernel's words stay in registers. */
static inline bool packet_record(struct queue_state *q, uint64_t id, struct launcher l, bool rung)
{
	uint64_t w[RECORD_WORDS];
	const uint64_t *p = packet_at(q, id), w0 = packet_head(p);
	if (!rung)
		l.time = rec_ticks();
	if (__builtin_expect((w0 & 0xff) != AQL_KIND_DISPATCH, 0))
		return other_record(q, id, l, rung);
	dispatch_words(p, w0, l.time, w);
	w[7] = (w0 & 0xffff) | l.who;
	record_write(q, id, w, l, true);
	return true;
}

static bool recorded(const struct queue_state *q, uint64_t id)
{
	const uint64_t word = __atomic_load_n(&q->records[(id & q->mask) * RECORD_WORDS], __ATOMIC_RELAXED);
	return word && (uint32_t)word == (uint32_t)id; // a checksum is never 0
}

/** A doorbell behind one of a later packet: producers that share a queue ring in any order. */
static void record_late(struct queue_state *q, uint64_t value, struct launcher l)
{
	const uint64_t read = __atomic_load_n(&q->queue->read_index, __ATOMIC_ACQUIRE);
	for (uint64_t id = value, n = 0; n < WALK_BACK && !recorded(q, id) && (int64_t)(read + q->size - id) > 0; id--, n++)
		if (!packet_record(q, id, l, id == value) || !id)
			return;
}

/** Packets that no doorbell named by itself: those of one producer that rings once for many, or of others that have not written theirs
 * yet. Where the GPU is a whole ring behind, the packet of the round before is still there. */
static void record_between(struct queue_state *q, uint64_t from, uint64_t end, struct launcher l)
{
	const uint64_t read = __atomic_load_n(&q->queue->read_index, __ATOMIC_ACQUIRE);
	// Nothing was recorded for a while: what the GPU has taken since may be overwritten.
	if (end - from > WALK_BACK && (int64_t)(read - from) > 0)
		from = (int64_t)(end - read) > 0 ? read : end;
	for (; from != end && (int64_t)(read + q->size - from) > 0; from++)
		if (!recorded(q, from))
			packet_record(q, from, l, false);
}

/** A doorbell that names another packet than the one behind the last that was seen. */
static __attribute__((noinline)) void record_jump(struct queue_state *q, uint64_t value, struct launcher l)
{
	const uint64_t end = value + 1;
	uint64_t seen = __atomic_load_n(&q->head->seen, __ATOMIC_RELAXED);
	do
		if ((int64_t)(end - seen) <= 0) {
			record_late(q, value, l);
			return;
		}
	while (!__atomic_compare_exchange_n(&q->head->seen, &seen, end, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	record_between(q, seen, value, l);
	packet_record(q, value, l, true);
}

/** The packets up to @value, which is the one that the doorbell names. In turn, `seen` is stored without a lock on the bus, which would wait
 * for the launch's own stores: another producer that rings at the same moment may be set back by one, and what is recorded already is
 * passed over; the sampler puts it right. */
static inline void queue_record(struct queue_state *q, uint64_t value, struct launcher l)
{
	if (__builtin_expect(__atomic_load_n(&q->head->seen, __ATOMIC_RELAXED) != value, 0)) {
		record_jump(q, value, l);
		return;
	}
	__atomic_store_n(&q->head->seen, value + 1, __ATOMIC_RELAXED);
	packet_record(q, value, l, true);
}

void queue_record_unrung(struct queue_state *q, uint64_t end)
{
	const struct launcher l = { .time = rec_ticks(), .who = (uint64_t)RECORD_NO_THREAD << 16 };
	uint64_t seen = __atomic_load_n(&q->head->seen, __ATOMIC_RELAXED);
	const uint64_t read = __atomic_load_n(&q->queue->read_index, __ATOMIC_ACQUIRE);
	// Those that are only reserved are not taken: their producers ring when they are written.
	end = (int64_t)(read + q->size - end) < 0 ? read + q->size : end;
	if ((int64_t)(end - seen) > 0 &&
	    __atomic_compare_exchange_n(&q->head->seen, &seen, end, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		record_between(q, seen, end, l);
}

/** At a level above 0; @then is the runtime's own. */
static __attribute__((noinline)) void doorbell(hsa_handle signal, int64_t value, signal_store_fn *then)
{
	struct queue_state *q = signal ? queue_find(signal) : NULL;
	if (!q && signal && ((const struct amd_signal *)(uintptr_t)signal)->kind < 0)
		q = queue_adopt(signal);
	if (q && q->head) {
		const struct thread_state *t = thread_here();
		const struct launcher l = { .time = rec_ticks(),
					    .who = (uint64_t)t->number << 16 | (uint64_t)t->operation << 32,
					    .filter = t->filter };
		queue_record(q, (uint64_t)value, l);
	}
	then(signal, value);
	if (__builtin_expect(waits_on(), 0))
		waits_host();
}

void hook_store_relaxed(hsa_handle signal, int64_t value)
{
	signal_store_fn *then = (signal_store_fn *)next.core[CORE_SIGNAL_STORE_RELAXED];
	if (rec_level())
		doorbell(signal, value, then);
	else
		then(signal, value);
}

void hook_store_screlease(hsa_handle signal, int64_t value)
{
	signal_store_fn *then = (signal_store_fn *)next.core[CORE_SIGNAL_STORE_SCRELEASE];
	if (rec_level())
		doorbell(signal, value, then);
	else
		then(signal, value);
}
