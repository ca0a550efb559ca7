// Level 3: the bytes of a kernel's arguments, beside its packet's record.
#include "recorder/recorder.h"

enum { SLOTS_LEAST = 16 };

void arguments_room(struct queue_state *q)
{
	uint64_t slots = q->mask + 1;
	const uint32_t stride = (uint32_t)((sizeof(struct rec_arguments) + rec.settings.argument_bytes + 7) / 8 * 8);
	if (q->arguments || !q->head)
		return;
	void *at = extent_fit(EXTENT_ARGUMENTS, q->id, 0, &slots, SLOTS_LEAST, stride);
	q->argument_mask = slots - 1;
	q->argument_stride = stride;
	__atomic_store_n(&q->arguments, at, __ATOMIC_RELEASE);
	if (!at)
		rec_line("no room for the arguments of a queue's kernels; they are not recorded");
}

/** A piece of memory that arguments lie in, as the runtime tells of it. */
struct range {
	uint64_t begin, end;
	uint32_t state;
};

/** Asked of the runtime once for each piece. */
static __attribute__((noinline)) struct range range_ask(uint64_t address)
{
	hsa_status (*ask)(const void *, struct hsa_pointer_info *, void *, uint32_t *, void *) =
		(hsa_status(*)(const void *, struct hsa_pointer_info *, void *, uint32_t *, void *))next.ext[EXT_POINTER_INFO];
	hsa_status (*agent_info)(hsa_handle, uint32_t, void *) =
		(hsa_status(*)(hsa_handle, uint32_t, void *))next.core[CORE_AGENT_GET_INFO];
	struct hsa_pointer_info info = { .size = sizeof(info) };
	uint32_t device = 0;
	if (!ask || ask((const void *)(uintptr_t)address, &info, NULL, NULL, NULL) != HSA_OK || !info.type || !info.bytes)
		return (struct range){ address, address + 1, REC_ARGUMENTS_UNKNOWN };
	const bool vram = info.owner && agent_info(info.owner, AGENT_INFO_DEVICE, &device) == HSA_OK && device == DEVICE_GPU;
	const uint64_t begin = (uintptr_t)info.agent_base;
	return (struct range){ begin, begin + info.bytes, vram ? REC_ARGUMENTS_IN_VRAM : REC_ARGUMENTS_COPIED };
}

/** The piece that was asked for last, whole or not at all: to take closed VRAM for memory of the host would kill the job. */
static bool range_read(struct queue_state *q, struct range *ret)
{
	const uint32_t turn = atomic_load_explicit(&q->range_turn, memory_order_acquire);
	ret->begin = atomic_load_explicit(&q->range_begin, memory_order_acquire);
	ret->end = atomic_load_explicit(&q->range_end, memory_order_acquire);
	ret->state = atomic_load_explicit(&q->range_state, memory_order_acquire);
	return !(turn & 1) && atomic_load_explicit(&q->range_turn, memory_order_relaxed) == turn;
}

/** An odd turn is being written; who comes second keeps what it has for itself. */
static void range_keep(struct queue_state *q, const struct range *r)
{
	uint32_t turn = atomic_load_explicit(&q->range_turn, memory_order_relaxed);
	if (turn & 1 || !atomic_compare_exchange_strong(&q->range_turn, &turn, turn + 1))
		return;
	atomic_store_explicit(&q->range_begin, r->begin, memory_order_release);
	atomic_store_explicit(&q->range_end, r->end, memory_order_release);
	atomic_store_explicit(&q->range_state, r->state, memory_order_release);
	atomic_store_explicit(&q->range_turn, turn + 2, memory_order_release);
}

static bool inside(const struct range *r, uint64_t address, uint64_t size)
{
	return address >= r->begin && address < r->end && size <= r->end - address;
}

static __attribute__((noinline)) uint32_t state_ask(struct queue_state *q, uint64_t address, uint64_t size)
{
	const struct range r = range_ask(address);
	range_keep(q, &r);
	return inside(&r, address, size) ? r.state : REC_ARGUMENTS_UNKNOWN;
}

/** How much of the arguments can be copied, and why not all. */
static inline uint32_t state_of(struct queue_state *q, uint64_t address, int size)
{
	struct range r;
	if (size < 0 || !address)
		return size == -2 ? REC_ARGUMENTS_LEFT_OUT : REC_ARGUMENTS_UNKNOWN;
	return range_read(q, &r) && inside(&r, address, (uint64_t)size) ? r.state : state_ask(q, address, (uint64_t)size);
}

/** Bytes that are no whole words, or lie askew. @to: where the first goes, the word at place @i. */
static __attribute__((noinline)) uint64_t copy_askew(uint64_t *to, uint64_t from, uint32_t n, unsigned i)
{
	uint64_t sum = 0;
	for (uint32_t at = 0; at < n; at += 8, i++) {
		uint64_t word = 0;
		memcpy(&word, (const void *)(uintptr_t)(from + at), n - at < 8 ? n - at : 8);
		sum += rec_check_word(word, i);
		__atomic_store_n(&to[at / 8], word, __ATOMIC_RELAXED);
	}
	return sum;
}

/** Copies @n bytes behind the first two words of a slot, and returns what they add to its check. Others may write to @from by now: each word
 * is read once. */
static inline uint64_t copy_words(uint64_t *slot, uint64_t from, uint32_t n)
{
	const unsigned end = 2 + (from % 8 ? 0 : n / 8);
	const uint64_t *words = (const uint64_t *)(uintptr_t)from - 2;
	uint64_t sum = 0;
	unsigned i = 2;
	for (; i < end; i++) {
		const uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
		sum += rec_check_word(word, i);
		__atomic_store_n(&slot[i], word, __ATOMIC_RELAXED);
	}
	const uint32_t done = (end - 2) * 8;
	return done == n ? sum : sum + copy_askew(&slot[i], from + done, n - done, i);
}

void arguments_record(struct queue_state *q, uint64_t id, struct argued of)
{
	const uint64_t lds = of.lds < 0xffffu * 4 ? (of.lds + 3) / 4 : 0xffff;
	char *slots = __atomic_load_n((char **)&q->arguments, __ATOMIC_ACQUIRE);
	if (!slots)
		return;
	const int size = kernel_arguments_in(of.kernel, of.filter);
	const uint32_t state = state_of(q, of.address, size),
		       room = q->argument_stride - (uint32_t)sizeof(struct rec_arguments);
	const uint32_t n = state != REC_ARGUMENTS_COPIED ? 0 : (uint32_t)size < room ? (uint32_t)size : room;
	const uint64_t first = state | (uint64_t)n << 16 | (uint64_t)(size < 0 ? 0 : size & 0xffff) << 32 | lds << 48;
	uint64_t *slot = (uint64_t *)(slots + (id & q->argument_mask) * q->argument_stride);
	const uint64_t sum = rec_check_begin(id) + rec_check_word(first, 1) + copy_words(slot, of.address, n);
	// Where the packet's place was taken by another one meanwhile, so may the memory of its arguments be: the slot is left torn.
	if (__builtin_expect(packet_overtaken(q, id), 0))
		return;
	__atomic_store_n(&slot[1], first, __ATOMIC_RELAXED);
	__atomic_store_n(&slot[0], (uint32_t)id | (uint64_t)rec_check_end(sum) << 32, __ATOMIC_RELAXED);
	const char *after = slots + ((id + 1) & q->argument_mask) * q->argument_stride;
	for (uint32_t at = 0; at < 16 + n; at += CACHE_LINE)
		__builtin_prefetch(after + at, 1);
}
