// Sizes, lifetimes, and many small allocations in a short time.
#include "preload/guard.h"

enum { BURST_LEAST = 1000, BURST_EVERY = 64 };
#define BURST_PAUSE UINT64_C(1000000000)

/** The burst that goes on. */
static struct {
	struct alloc_burst b;
	uint32_t id;
} burst;

static void burst_store(void)
{
	if (!guard.nbursts)
		return;
	if (!burst.id)
		burst.id = __atomic_load_n(&guard.header->bursts, __ATOMIC_RELAXED) + 1;
	__atomic_store_n(&guard.header->bursts, burst.id, __ATOMIC_RELAXED);
	record_write(&guard.bursts[(burst.id - 1) % guard.nbursts], &burst.b, sizeof(burst.b) / 8, burst.id);
}

/** A thousand small ones a second, without a pause of a second. */
static void burst_note(const struct request *q, uint64_t now)
{
	struct alloc_burst *b = &burst.b;
	if (!b->count || (now > b->end && now - b->end > BURST_PAUSE)) {
		*b = (struct alloc_burst){ .begin = now, .most = SMALL_ALLOCATION };
		burst.id = 0;
	}
	b->alike = b->size == q->size ? b->alike + 1 : 1;
	b->size = q->size;
	b->end = now > b->end ? now : b->end;
	b->thread = q->thread;
	b->stack = q->stack;
	b->count++;
	const bool fast = (double)b->count * 1e9 >= (double)BURST_LEAST * (double)(b->end - b->begin);
	if (b->count >= BURST_LEAST && b->count % BURST_EVERY == 0 && fast)
		burst_store();
}

static unsigned life_of(uint64_t ns)
{
	unsigned i = 0;
	for (uint64_t most = 1000; i + 1 < ALLOC_LIVES && ns > most; most *= 8)
		i++;
	return i;
}

void size_born(const struct request *q, bool ours)
{
	struct alloc_size *s = guard.sizes ? &guard.sizes[alloc_class(q->size)] : NULL;
	struct alloc_header *h = guard.header;
	if (ours) {
		counted_peak(&h->peak, count(&h->live, 1));
		counted_peak(&h->peak_bytes, count(&h->live_bytes, q->size));
	}
	if (!s)
		return;
	s->count++;
	s->live++;
	s->peak = s->live > s->peak ? s->live : s->peak;
	s->bytes += q->size;
	s->live_bytes += q->size;
	s->guarded += ours;
	if (q->size <= SMALL_ALLOCATION) {
		h->small++;
		burst_note(q, q->time);
	}
}

void size_died(uint64_t size, uint64_t lived)
{
	struct alloc_size *s = guard.sizes ? &guard.sizes[alloc_class(size)] : NULL;
	if (!s)
		return;
	s->freed++;
	s->live--;
	s->live_bytes -= size;
	s->lives[life_of(lived)]++;
}

void statistics_tell(void)
{
	const struct alloc_header *h = guard.header;
	uint64_t all = 0;
	for (unsigned i = 0; guard.sizes && i < ALLOC_CLASSES; i++)
		all += guard.sizes[i].count;
	if (burst.b.count >= BURST_LEAST && burst.id)
		burst_store();
	if (guard.settings.reported)
		rec_line("%llu allocations, at most %llu of them (%llu KB) at once in %llu KB; %llu calls of KFD",
			 (unsigned long long)all, (unsigned long long)h->peak, (unsigned long long)h->peak_bytes >> 10,
			 (unsigned long long)h->taken_peak >> 10, (unsigned long long)h->kfd_calls);
}
