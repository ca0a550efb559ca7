// The pool: small allocations are pieces of slabs. A piece is a multiple of 256 bytes; free ones are kept by size in lists, two levels of
// bits say which lists have any (TLSF), and neighbours that are free are one. What describes them lies in host memory.
#include <stdlib.h>

#include "preload/guard.h"

enum { GRAIN = 256, GRAINS = 8192, SECOND = 8, SECOND_BITS = 3, FIRST = 14, LOOKS = 8 }; // a slab has GRAINS at most

struct slab;
/** A piece of a slab, used or free. Sizes and places are in grains. */
struct piece {
	struct slab *slab;
	uint32_t at, n;
	struct piece *before, *behind; // neighbours in the slab
	struct piece *next, *previous; // of the list of free ones
	uint64_t size, born, number;   // as asked for; size 0: it is free
	uint32_t row;
	bool freeing;
};

struct slab {
	struct span span;
	uint64_t base;
	int device;
	uint32_t slot; // in the file
	struct alloc_slab told;
	struct piece *first;
	struct piece *at[GRAINS]; // pieces, by where they begin
};

/** Of a GPU. */
static struct store {
	uint32_t firsts;
	uint32_t seconds[FIRST];
	struct piece *lists[FIRST][SECOND];
	uint32_t empty;        // slabs that nobody uses
} stores[DEVICES_MOST];

// --- lists of free pieces ---

/** The list that a piece of @n grains is in. */
static void list_of(uint32_t n, unsigned *ret_first, unsigned *ret_second)
{
	const unsigned top = 31 - (unsigned)__builtin_clz(n);
	*ret_first = top;
	*ret_second = top < SECOND_BITS ? 0 : (n >> (top - SECOND_BITS)) & (SECOND - 1);
}

static void list_push(struct store *s, struct piece *p)
{
	unsigned f, g;
	list_of(p->n, &f, &g);
	p->previous = NULL;
	p->next = s->lists[f][g];
	if (p->next)
		p->next->previous = p;
	s->lists[f][g] = p;
	s->firsts |= 1u << f;
	s->seconds[f] |= 1u << g;
}

static void list_take(struct store *s, struct piece *p)
{
	unsigned f, g;
	list_of(p->n, &f, &g);
	if (p->next)
		p->next->previous = p->previous;
	if (p->previous)
		p->previous->next = p->next;
	else
		s->lists[f][g] = p->next;
	if (!s->lists[f][g])
		s->seconds[f] &= ~(1u << g);
	if (!s->seconds[f])
		s->firsts &= ~(1u << f);
}

/** A free piece of at least @n grains: among the first @most of the list where some are large enough, or of the next that has any. */
static struct piece *list_find(const struct store *s, uint32_t n, uint32_t most)
{
	unsigned f, g;
	list_of(n, &f, &g);
	// Its own list may hold smaller ones than it: the first that fits is taken.
	for (struct piece *p = s->lists[f][g]; p && most--; p = p->next)
		if (p->n >= n)
			return p;
	uint32_t bits = s->seconds[f] & (g + 1 < 32 ? ~0u << (g + 1) : 0);
	if (!bits) {
		const uint32_t firsts = s->firsts & ~0u << (f + 1);
		if (!firsts)
			return NULL;
		f = (unsigned)__builtin_ctz(firsts);
		bits = s->seconds[f];
	}
	return s->lists[f][__builtin_ctz(bits)];
}

// --- slabs ---

static void slab_tell(struct slab *s, bool gone)
{
	s->told.died = gone ? now_ns() : 0;
	if (s->slot < guard.nslabs)
		record_write(&guard.slabs[s->slot], &s->told, sizeof(s->told) / 8, s->slot);
}

/** Where the file tells of it: places of those that were given back are used again, the oldest first. */
static uint32_t slab_slot(void)
{
	uint32_t best = ROW_NONE;
	for (uint32_t i = 0; i < guard.nslabs; i++) {
		const struct alloc_slab *s = &guard.slabs[i];
		if (!s->base)
			return i;
		if (s->died && (best == ROW_NONE || s->died < guard.slabs[best].died))
			best = i;
	}
	return best;
}

/** The lock is held. */
static bool slab_add(int device, void *memory)
{
	struct slab *s = calloc(1, sizeof(*s));
	struct piece *p = calloc(1, sizeof(*p));
	if (s && p) {
		s->base = (uintptr_t)memory;
		s->span = (struct span){ s->base, s->base + guard.settings.slab, true };
		s->device = device;
		s->slot = slab_slot();
		s->told = (struct alloc_slab){
			.base = s->base, .size = guard.settings.slab, .born = now_ns(), .device = (uint32_t)device
		};
		s->first = s->at[0] = p;
		*p = (struct piece){ .slab = s, .n = (uint32_t)(guard.settings.slab / GRAIN) };
	}
	if (!s || !p || !span_add(&s->span)) {
		free(s);
		free(p);
		return false;
	}
	list_push(&stores[device], p);
	stores[device].empty++;
	slab_tell(s, false);
	__atomic_store_n(&guard.header->taken, guard.header->taken + 1, __ATOMIC_RELAXED);
	counted_peak(&guard.header->taken_peak, count(&guard.header->taken_bytes, guard.settings.slab));
	return true;
}

/** An empty one is ours no more. The lock is held; the caller gives the memory back. */
static uint64_t slab_drop(struct slab *s)
{
	const uint64_t base = s->base;
	list_take(&stores[s->device], s->first);
	stores[s->device].empty--;
	span_drop(&s->span);
	slab_tell(s, true);
	count(&guard.header->taken_bytes, -guard.settings.slab);
	count(&guard.header->taken, (uint64_t)-1);
	free(s->first);
	free(s);
	return base;
}

// --- pieces ---

/** The lock is held. */
static struct piece *piece_take(int device, uint64_t size)
{
	struct store *s = &stores[device];
	const uint32_t n = (uint32_t)(round_up(size, GRAIN) / GRAIN);
	struct piece *p = list_find(s, n, LOOKS);
	p = p ? p : list_find(s, n, UINT32_MAX);
	if (!p)
		return NULL;
	struct piece *rest = p->n > n ? calloc(1, sizeof(*rest)) : NULL;
	list_take(s, p);
	s->empty -= !p->before && !p->behind;
	if (rest) {
		*rest = (struct piece){ .slab = p->slab, .at = p->at + n, .n = p->n - n, .before = p, .behind = p->behind };
		if (p->behind)
			p->behind->before = rest;
		p->behind = rest;
		p->n = n;
		p->slab->at[rest->at] = rest;
		list_push(s, rest);
	}
	p->size = size;
	struct alloc_slab *t = &p->slab->told;
	t->used += size;
	t->most = t->used > t->most ? t->used : t->most;
	t->blocks++;
	return p;
}

/** @p takes its neighbour in. */
static void piece_join(struct piece *p, struct piece *with)
{
	p->n += with->n;
	p->behind = with->behind;
	if (p->behind)
		p->behind->before = p;
	p->slab->at[with->at] = NULL;
	free(with);
}

/** The slab that is empty then and one too many; NULL: none is. The lock is held. */
static struct slab *piece_give(struct piece *p)
{
	struct slab *slab = p->slab;
	struct store *s = &stores[slab->device];
	slab->told.used -= p->size;
	slab->told.blocks--;
	p->size = 0;
	p->freeing = false;
	if (p->behind && !p->behind->size) {
		list_take(s, p->behind);
		piece_join(p, p->behind);
	}
	if (p->before && !p->before->size) {
		p = p->before;
		list_take(s, p);
		piece_join(p, p->behind);
	}
	list_push(s, p);
	if (p->before || p->behind)
		return NULL;
	// One stays, so that a program that allocates and frees by turns does not ask HIP each time.
	return s->empty++ ? slab : NULL;
}

// --- the doors ---

static bool slab_get(int device)
{
	void *memory = NULL;
	if (hip.hipMalloc(&memory, guard.settings.slab) || !memory)
		return false;
	pthread_mutex_lock(&guard.lock);
	const bool added = slab_add(device, memory);
	pthread_mutex_unlock(&guard.lock);
	if (!added)
		hip.hipFree(memory);
	return added;
}

static struct piece *piece_get(struct request *q)
{
	pthread_mutex_lock(&guard.lock);
	struct piece *p = piece_take(q->device, q->size);
	if (p) {
		p->number = q->number = ++guard.numbers;
		p->born = q->time;
		const struct alloc_row r = { .address = p->slab->base + (uint64_t)p->at * GRAIN,
					     .map = p->slab->base,
					     .map_size = guard.settings.slab,
					     .born = p->born,
					     .flags = ALLOC_POOLED };
		p->row = row_add(q, &r);
		size_born(q, true);
	}
	pthread_mutex_unlock(&guard.lock);
	return p;
}

bool pool_allocate(struct request *q, void **ret)
{
	if (q->call != ALLOC_CALL_MALLOC || q->size > guard.settings.pool_most || device_forbids())
		return false;
	struct piece *p = piece_get(q);
	// Another thread may have taken the new slab's last piece.
	for (int tries = 0; !p && tries < 8 && slab_get(q->device); tries++)
		p = piece_get(q);
	if (p)
		*ret = (void *)(p->slab->base + (uint64_t)p->at * GRAIN);
	return p;
}

/** The piece that an address lies in. */
static struct piece *piece_of(struct slab *s, uint64_t address)
{
	uint64_t at = (address - s->base) / GRAIN;
	while (at && !s->at[at])
		at--;
	return s->at[at];
}

bool pool_find(struct span *span, uint64_t address, uint64_t *ret_begin, uint64_t *ret_size, uint64_t *ret_number,
	       uint32_t *ret_row)
{
	const struct piece *p = piece_of((struct slab *)span, address);
	*ret_begin = p ? p->slab->base + (uint64_t)p->at * GRAIN : 0;
	if (!p || address >= *ret_begin + p->size)
		return false;
	*ret_size = p->size;
	*ret_number = p->number;
	*ret_row = p->row;
	return true;
}

/** Tells what is wrong with an address that is to be freed. The lock is held. */
static void piece_misused(const struct piece *p, const struct request *q, uint64_t address)
{
	const uint64_t begin = p->slab->base + (uint64_t)p->at * GRAIN;
	const uint32_t before = row_find(address, ALLOC_RELEASED);
	const bool inside = p->size && address != begin, twice = !inside && (p->size || before != ROW_NONE);
	struct alloc_finding f = { .kind = twice ? ALLOC_FOUND_DOUBLE_FREE : ALLOC_FOUND_WILD_FREE,
				   .address = address,
				   .begin = inside ? (int64_t)(address - begin) : 0 };
	finding_add(&f, q, p->size ? p->row : before);
}

/** The slab that is empty then and one too many; NULL: none is. The lock is held. */
static struct slab *piece_end(struct piece *p, const struct request *q)
{
	const uint64_t now = now_ns();
	row_end(p->row, q, ALLOC_RELEASED, now);
	size_died(p->size, now - p->born);
	count(&guard.header->live, (uint64_t)-1);
	count(&guard.header->live_bytes, -p->size);
	return piece_give(p);
}

/** The piece ends. A slab that nobody uses any more is given back. */
static void piece_free(struct piece *p, const struct request *q)
{
	pthread_mutex_lock(&guard.lock);
	struct slab *spare = piece_end(p, q);
	const uint64_t base = spare ? slab_drop(spare) : 0;
	pthread_mutex_unlock(&guard.lock);
	if (base)
		hip.hipFree((void *)base);
}

/** HIP waits for the device before it frees: so does this, and what still writes there damages nobody. */
hip_error pool_free(struct span *span, struct request *q, void *address)
{
	// The lock is held until the piece is ours alone.
	struct slab *s = (struct slab *)span;
	struct piece *p = piece_of(s, (uintptr_t)address);
	const bool good = p->size && !p->freeing && s->base + (uint64_t)p->at * GRAIN == (uintptr_t)address;
	const int device = s->device;
	if (good)
		p->freeing = true;
	else
		piece_misused(p, q, (uintptr_t)address);
	pthread_mutex_unlock(&guard.lock);
	if (!good)
		return HIP_INVALID_VALUE;
	const hip_error e = devices_wait(device);
	if (!e) {
		piece_free(p, q);
		return HIP_SUCCESS;
	}
	// As HIP does where a capture forbids it: it is the program's still.
	pthread_mutex_lock(&guard.lock);
	p->freeing = false;
	pthread_mutex_unlock(&guard.lock);
	return e;
}

static struct {
	struct slab *found;
	int device;
} looked_for;

static void empty_look(struct span *span)
{
	struct slab *s = (struct slab *)span;
	if (span->slab && s->device == looked_for.device && !s->first->size && !s->first->behind)
		looked_for.found = s;
}

bool pool_trim(int device)
{
	pthread_mutex_lock(&guard.lock);
	looked_for.found = NULL;
	looked_for.device = device;
	if (stores[device].empty)
		spans_walk(empty_look);
	const uint64_t base = looked_for.found ? slab_drop(looked_for.found) : 0;
	pthread_mutex_unlock(&guard.lock);
	return base && !hip.hipFree((void *)base);
}

static void any_look(struct span *span)
{
	struct slab *s = (struct slab *)span;
	if (span->slab && s->device == looked_for.device)
		looked_for.found = s;
}

/** The device was reset: HIP has taken the slabs back. */
void pool_reset(int device)
{
	pthread_mutex_lock(&guard.lock);
	for (;;) {
		looked_for.found = NULL;
		looked_for.device = device;
		spans_walk(any_look);
		struct slab *s = looked_for.found;
		if (!s)
			break;
		for (struct piece *p = s->first; p;) {
			const bool used = p->size;
			if (used)
				piece_end(p, NULL);
			p = used ? s->first : p->behind; // it may have become one with its neighbours
		}
		slab_drop(s);
	}
	pthread_mutex_unlock(&guard.lock);
}
