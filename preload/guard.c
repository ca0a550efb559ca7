// The guard: each allocation ends at the end of a mapping of its own, and what was freed stays unmapped for as long as there is room.
#include <stdlib.h>

#include "preload/guard.h"
#include "recorder/recorder.h"

enum { SAMPLING_MOST = 1 << 16 };

/** What was freed, the oldest first. The lock is held. */
static struct {
	struct allocation *first, *last;
	uint64_t count, bytes;
} quarantine;
static uint64_t taken, waste;        // mappings that live, and bytes that they have more than was asked for
static uint64_t over[DEVICES_MOST];  // struct allocation.over of those that live
static uint64_t seen[ALLOC_CLASSES]; // requests, by class
static uint64_t chosen;              // for sample:N

// --- which ones ---

/** Above half of a budget every second one is guarded, above three quarters every fourth, and so on: of each class of sizes alike. */
static uint32_t sampling_of(uint64_t used, uint64_t most)
{
	uint32_t every = 1;
	for (uint64_t left = most / 2; every < SAMPLING_MOST && (used > most ? 0 : most - used) < left; left /= 2)
		every *= 2;
	return every;
}

/** By the scarcer of both. Which one it is is said once. */
static uint32_t sampling_now(void)
{
	const struct guard_settings *s = &guard.settings;
	const uint32_t of_mappings = sampling_of(taken, s->mappings), of_memory = sampling_of(waste, s->memory);
	const uint32_t every = of_mappings > of_memory ? of_mappings : of_memory;
	const bool first = every > 1 && !guard.header->sampling;
	if (first && of_mappings >= of_memory)
		rec_line("more than %llu allocations at once: from here on only some are guarded", (unsigned long long)s->mappings / 2);
	else if (first)
		rec_line("guarding takes more than %llu %s of GPU memory: from here on only some allocations are guarded",
			 (unsigned long long)s->memory / 2 >> (s->memory < 4 * MIB ? 10 : 20), s->memory < 4 * MIB ? "KiB" : "MiB");
	guard.header->sampling = every > 1 ? every : 0;
	return every;
}

/** By the operation that the program is in, or by a file that asks. */
static bool is_matched(const struct request *q)
{
	const char *glob = guard.settings.match;
	char name[128] = "";
	return (operation_here(name, sizeof(name)) && text_matches(glob, strlen(glob), name)) || stack_matches(q->stack, glob);
}

/** The lock is held. */
static bool is_wanted(const struct request *q)
{
	const struct guard_settings *s = &guard.settings;
	// HIP's virtual memory functions know no flags.
	if (q->call == ALLOC_CALL_EXT_MALLOC && q->flags && (q->flags == HIP_SIGNAL_MEMORY || guard.header->tier == ALLOC_TIER_MAPPED))
		return false;
	if (s->match[0] && !is_matched(q))
		return false;
	if (s->sample > 1 && chosen++ % s->sample)
		return false;
	if (seen[alloc_class(q->size)]++ % sampling_now())
		return false;
	return taken < s->mappings && waste < s->memory;
}

// --- canaries ---

/** The bytes of its mapping that are not its own, before it and behind it; of many, the nearest page. */
static void slack_of(const struct allocation *a, struct extent ret[2])
{
	const uint64_t end = a->address + a->size, below = a->address - a->map, above = a->map + a->map_size - end;
	const uint64_t taken_below = below < PAGE ? below : PAGE;
	ret[0] = (struct extent){ a->address - taken_below, taken_below };
	ret[1] = (struct extent){ end, above < PAGE ? above : PAGE };
}

static bool canaries_fill(const struct allocation *a, enum alloc_call call)
{
	struct extent slack[2];
	slack_of(a, slack);
	return device_fill(a->device, slack, call);
}

/** What was written there, as bytes from the allocation's address. false: nothing was. */
static bool are_broken(const uint8_t *bytes, uint64_t n, uint64_t *ret_first, uint64_t *ret_end)
{
	bool broken = false;
	for (uint64_t i = 0; i < n; i++)
		if (bytes[i] != CANARY) {
			*ret_first = broken ? *ret_first : i;
			*ret_end = i + 1;
			broken = true;
		}
	return broken;
}

/** @bytes are what is there now. @q: who frees it; NULL: the program ends, and the lock is held. */
static void side_check(const struct allocation *a, const struct request *q, const struct extent *p, const uint8_t *bytes)
{
	const bool above = p->at > a->address;
	const int64_t from = (int64_t)(p->at - a->address);
	uint64_t first = 0, end = 0;
	if (!are_broken(bytes, p->n, &first, &end))
		return;
	if (q)
		pthread_mutex_lock(&guard.lock);
	struct alloc_finding f = { .kind = above ? ALLOC_FOUND_BROKEN_ABOVE : ALLOC_FOUND_BROKEN_BELOW,
				   .address = a->address,
				   .begin = from + (int64_t)first,
				   .end = from + (int64_t)end };
	memcpy(f.bytes, bytes + first, end - first < sizeof(f.bytes) ? end - first : sizeof(f.bytes));
	finding_add(&f, q, a->row);
	if (q)
		pthread_mutex_unlock(&guard.lock);
}

/** Both sides by one copy, where there is little between them: each copy is waited for. */
static bool slack_read(const struct allocation *a, const struct extent p[2], uint8_t bytes[static 3 * PAGE], const uint8_t *ret[2])
{
	const bool near = a->size <= PAGE;
	const struct extent whole[2] = { { p[0].at, p[1].at + p[1].n - p[0].at }, { 0, 0 } };
	ret[0] = bytes;
	ret[1] = bytes + (near ? p[1].at - p[0].at : p[0].n);
	return device_read(a->device, near ? whole : p, bytes);
}

static void canaries_check(const struct allocation *a, const struct request *q)
{
	const uint8_t *of[2];
	struct extent slack[2];
	slack_of(a, slack);
	if (!a->canaries || (!slack[0].n && !slack[1].n))
		return;
	_cleanup_free_ uint8_t *bytes = malloc(3 * PAGE); // a thread may have a stack of 16 KiB
	// A GPU that is lost may copy nothing and say that it did.
	if (bytes)
		memset(bytes, CANARY, 3 * PAGE);
	if (!bytes || !slack_read(a, slack, bytes, of)) {
		count(&guard.header->unchecked, 1);
		return;
	}
	for (size_t i = 0; i < 2; i++)
		side_check(a, q, &slack[i], of[i]);
}

// --- quarantine ---

/** Those that have to go. The lock is held. */
static struct allocation *quarantine_shrink(void)
{
	const struct guard_settings *s = &guard.settings;
	struct allocation *gone = NULL;
	while (quarantine.first && (quarantine.count > s->quarantine_count || quarantine.bytes > s->quarantine_bytes ||
				    taken + quarantine.count > s->mappings)) {
		struct allocation *a = quarantine.first;
		quarantine.first = a->next;
		quarantine.count--;
		quarantine.bytes -= a->map_size;
		span_drop(&a->span);
		row_state(a->row, ALLOC_RELEASED);
		a->next = gone;
		gone = a;
	}
	guard.header->held_count = quarantine.count;
	guard.header->held_bytes = quarantine.bytes;
	return gone;
}

static void quarantine_add(struct allocation *a)
{
	if (quarantine.first)
		quarantine.last->next = a;
	else
		quarantine.first = a;
	quarantine.last = a;
	a->next = NULL;
	quarantine.count++;
	quarantine.bytes += a->map_size;
}

static void all_release(struct allocation *gone)
{
	while (gone) {
		struct allocation *a = gone;
		gone = a->next;
		tier_release(a);
		free(a);
	}
}

// --- allocating ---

static void header_count(void)
{
	struct alloc_header *h = guard.header;
	__atomic_store_n(&h->taken, taken, __ATOMIC_RELAXED);
	counted_peak(&h->taken_peak, h->taken_bytes);
}

/** Its place among the others. One that is being freed may have had these addresses: it has lost them. The lock is held. */
static bool known_make(struct allocation *a, const struct request *q)
{
	a->span = (struct span){ .begin = a->map - a->before, .end = a->map + a->map_size + a->behind };
	for (struct span *old; !span_add(&a->span);) {
		old = span_of(a->map);
		if (!old || old->slab || !((struct allocation *)old)->freeing)
			return false;
		span_drop(old);
	}
	const struct alloc_row r = { .address = a->address,
				     .map = a->map,
				     .map_size = a->map_size,
				     .before = a->before,
				     .behind = a->behind,
				     .born = a->born,
				     .flags = ALLOC_GUARDED | (a->canaries ? ALLOC_CANARIES : 0) };
	a->row = row_add(q, &r);
	taken++;
	waste += a->map_size - a->size;
	over[a->device] += a->over;
	guard.header->taken_bytes += a->map_size;
	size_born(q, true);
	header_count();
	return true;
}

static bool scarce; // mappings: others need what is left

static void scarce_look(void)
{
	enum { RESERVE = 1024 };
	static bool told;
	const bool now = !mappings_left(RESERVE);
	__atomic_store_n(&scarce, now, __ATOMIC_RELAXED);
	if (now && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		rec_line("the kernel allows hardly any mapping more (vm.max_map_count): from here on only some allocations are guarded");
}

/** Looked at now and then. */
static bool are_scarce(void)
{
	enum { EVERY = 32 };
	static uint32_t asked;
	if (!(__atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED) % EVERY))
		scarce_look();
	return __atomic_load_n(&scarce, __ATOMIC_RELAXED);
}

bool guard_refuses(void)
{
	enum { LEAST = 64 };
	static bool told;
	if (__atomic_load_n(&guard.header->tier, __ATOMIC_RELAXED) != ALLOC_TIER_PAGES || !__atomic_load_n(&scarce, __ATOMIC_RELAXED) || mappings_left(LEAST))
		return false;
	if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		rec_line("hipMalloc fails for want of mappings (vm.max_map_count): with the guard each allocation needs its own");
	return true;
}

bool guard_allocate(struct request *q, void **ret)
{
	if (!tier_find() || are_scarce())
		return false;
	pthread_mutex_lock(&guard.lock);
	const bool wanted = is_wanted(q);
	q->number = wanted ? ++guard.numbers : 0;
	struct allocation *gone = wanted ? quarantine_shrink() : NULL;
	pthread_mutex_unlock(&guard.lock);
	all_release(gone);
	struct allocation *a = wanted ? calloc(1, sizeof(*a)) : NULL;
	if (!a)
		return false;
	const uint64_t bytes = guard.settings.below ? q->size : round_up(q->size, guard.settings.align);
	if (bytes < q->size || bytes > UINT64_MAX / 2 || tier_take(a, q, bytes)) {
		scarce_look();
		free(a);
		return false;
	}
	a->address = guard.settings.below ? a->map : a->map + a->map_size - bytes;
	a->size = q->size;
	a->device = q->device;
	a->state = ALLOC_LIVE;
	a->over = round_up(a->map_size, guard.header->charge) - round_up(q->size, PAGE);
	a->canaries = canaries_fill(a, q->call);
	a->born = now_ns();
	pthread_mutex_lock(&guard.lock);
	const bool known = known_make(a, q);
	pthread_mutex_unlock(&guard.lock);
	*ret = (void *)a->address;
	if (!known) { // two of HIP's allocations at one place: the program gets it as HIP gave it, and HIP frees it
		*ret = (void *)a->map;
		free(a);
	}
	return true;
}

// --- freeing ---

/** It has ended, with its addresses or without. The lock is held. */
static struct allocation *end_note(struct allocation *a, const struct request *q, bool held)
{
	const uint64_t now = now_ns();
	a->state = held ? ALLOC_HELD : ALLOC_RELEASED;
	a->freeing = false;
	taken--;
	waste -= a->map_size - a->size;
	over[a->device] -= a->over;
	guard.header->taken_bytes -= a->map_size;
	count(&guard.header->live, (uint64_t)-1);
	count(&guard.header->live_bytes, -a->size);
	size_died(a->size, now - a->born);
	row_end(a->row, q, a->state, now);
	header_count();
	if (held) {
		quarantine_add(a);
		return quarantine_shrink();
	}
	span_drop(&a->span);
	a->next = NULL;
	return a;
}

/** What is wrong with an address that is to be freed; false: nothing is. The lock is held. */
static bool is_misused(const struct allocation *a, const struct request *q, uint64_t p)
{
	if (p == a->address && a->state == ALLOC_LIVE && !a->freeing)
		return false;
	struct alloc_finding f = { .kind = p == a->address ? ALLOC_FOUND_DOUBLE_FREE : ALLOC_FOUND_WILD_FREE,
				   .address = p,
				   .begin = (int64_t)(p - a->address) };
	finding_add(&f, q, a->row);
	return true;
}

hip_error guard_free(struct allocation *a, struct request *q, void *p)
{
	// The lock is held until it is ours alone.
	const bool misused = is_misused(a, q, (uintptr_t)p);
	if (!misused)
		a->freeing = true;
	pthread_mutex_unlock(&guard.lock);
	if (misused)
		return HIP_INVALID_VALUE;
	if (a->canaries && !device_wait(a->device))
		canaries_check(a, q);
	bool held = false;
	const hip_error e = tier_give(a, &held);
	pthread_mutex_lock(&guard.lock);
	struct allocation *gone = NULL;
	if (e)
		a->freeing = false;
	else
		gone = end_note(a, q, held);
	pthread_mutex_unlock(&guard.lock);
	all_release(gone);
	return e;
}

uint64_t guard_over(int device)
{
	pthread_mutex_lock(&guard.lock);
	const uint64_t n = over[device];
	pthread_mutex_unlock(&guard.lock);
	return n;
}

// --- the end ---

static struct {
	struct allocation **list;
	size_t n, room;
	int device;
} left;

static void left_collect(struct span *s)
{
	struct allocation *a = (struct allocation *)s;
	if (!s->slab && a->state == ALLOC_LIVE && !a->freeing && (left.device < 0 || a->device == left.device) &&
	    left.n < left.room)
		left.list[left.n++] = a;
}

/** Those that live, of a device or (-1) of all. The lock is held. */
static void left_list(int device)
{
	left.device = device;
	left.n = 0;
	left.room = taken;
	left.list = calloc(taken + 1, sizeof(*left.list));
	if (left.list)
		spans_walk(left_collect);
}

void guard_reset(int device)
{
	struct allocation *gone = NULL;
	pthread_mutex_lock(&guard.lock);
	left_list(device);
	for (size_t i = 0; i < left.n; i++) {
		struct allocation *a = end_note(left.list[i], NULL, false);
		a->next = gone;
		gone = a;
	}
	free(left.list);
	pthread_mutex_unlock(&guard.lock);
	all_release(gone);
	device_forget(device);
}

/** A GPU that hangs must not keep the program from ending: this is a thread of its own, which is waited for only so long. */
static void *last_look(void *ctx)
{
	enum { SECONDS = 2 };
	const uint64_t until = now_ns() + SECONDS * UINT64_C(1000000000);
	(void)ctx;
	pthread_mutex_lock(&guard.lock);
	left_list(-1);
	for (size_t i = 0; i < left.n; i++) {
		if (now_ns() < until)
			canaries_check(left.list[i], NULL);
		else
			count(&guard.header->unchecked, left.list[i]->canaries);
	}
	free(left.list);
	pthread_mutex_unlock(&guard.lock);
	return NULL;
}

void guard_end(void)
{
	enum { SECONDS = 4 };
	pthread_t thread;
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SECONDS;
	if (pthread_create(&thread, NULL, last_look, NULL))
		return;
	if (pthread_timedjoin_np(thread, NULL, &until))
		pthread_detach(thread);
}
