// The allocations of a recording: the table that the sampler built, and what happened since.
#include <stdlib.h>

#include "base/bytes.h"
#include "evidence/recording/recording.h"

enum {
	NEAR = 2 << 20, // so far from an allocation an address is still near it
	STEPS_MOST = 4096,
	PIECES_MOST = 4096,
};

/** What made an allocation, and what ends it. */
static const struct memory_call {
	enum rec_call makes, ends;
	const char *noun;
} calls[] = {
	{ CALL_POOL_ALLOCATE, CALL_POOL_FREE, "buffer" },
	{ CALL_ALLOCATE, CALL_FREE, "buffer" },
	{ CALL_RESERVE, CALL_UNRESERVE, "reserved range" },
	{ CALL_MAP, CALL_UNMAP, "mapped range" },
	{ CALL_IPC_ATTACH, CALL_IPC_DETACH, "buffer of another process" },
	{ CALL_LOCK, CALL_UNLOCK, "locked host memory" },
	{ CALL_INTEROP_MAP, CALL_INTEROP_UNMAP, "buffer of another API" },
	{ CALL_SVM_SET, CALL_NONE, "shared range (SVM)" },
};

const char *call_noun(enum rec_call call)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].makes == call)
			return calls[i].noun;
	return "memory";
}

static const struct recorded_pool *pool_of(const struct flight_recording *r, uint64_t handle)
{
	for (size_t i = 0; i < r->npools; i++)
		if (r->pools[i].handle == handle)
			return &r->pools[i];
	return NULL;
}

/** The allocations by their begin, while events are applied to them: the newest first. */
struct memory_index {
	struct flight_recording *r;
	uint32_t *heads, *before; // places in r->allocations plus one; 0: none
	size_t mask;
};

static uint32_t *recording_memory_head_of(const struct memory_index *m, uint64_t begin)
{
	return &m->heads[(begin * 0x9e3779b97f4a7c15u >> 32) & m->mask];
}

static struct recorded_allocation *live_at(const struct memory_index *m, uint64_t begin, enum rec_call call)
{
	for (uint32_t i = *recording_memory_head_of(m, begin); i; i = m->before[i - 1]) {
		struct recorded_allocation *a = &m->r->allocations[i - 1];
		if (a->begin == begin && a->call == call && !a->died)
			return a;
	}
	return NULL;
}

static void recording_memory_row_take(const struct memory_index *m, const struct rec_allocation *a)
{
	struct flight_recording *r = m->r;
	uint32_t *head = recording_memory_head_of(m, a->address);
	m->before[r->nallocations] = *head;
	r->allocations[r->nallocations++] =
		(struct recorded_allocation){ .begin = a->address,
					      .size = a->size,
					      .born = a->born,
					      .died = a->state == REC_MEMORY_FREED ? a->died ? a->died : 1 : 0,
					      .call = a->call,
					      .by = a->by,
					      .freed_by = a->freed_by,
					      .operation = a->operation,
					      .gpus = a->gpus,
					      .pool = a->call == CALL_POOL_ALLOCATE ? pool_of(r, a->of) : NULL };
	*head = (uint32_t)r->nallocations;
}

static void event_make(const struct memory_index *m, const struct rec_event *e)
{
	const struct rec_allocation a = { .address = e->call == CALL_LOCK ? e->a[2] : e->a[0],
					  .size = e->a[1],
					  .born = e->time,
					  .of = e->a[2],
					  .call = e->call,
					  .state = REC_MEMORY_LIVE,
					  .by = e->thread,
					  .operation = e->operation,
					  .gpus = rec_gpus_at_first(e) };
	struct recorded_allocation *same = live_at(m, a.address, e->call);
	if (same) {
		same->size = a.size;
		same->born = a.born;
		same->gpus = a.gpus;
	} else if (a.address) {
		recording_memory_row_take(m, &a);
	}
}

/** As the recorder's sampler does it (recorder/allocations.c). */
static void event_access(const struct memory_index *m, const struct rec_event *e)
{
	const bool mapped = e->call == CALL_SET_ACCESS;
	const uint64_t size = mapped ? e->a[1] : 1;
	for (uint64_t at = 0, steps = 0; at < size && steps < PIECES_MOST; steps++) {
		struct recorded_allocation *a = live_at(m, e->a[0] + at, mapped ? CALL_MAP : CALL_POOL_ALLOCATE);
		if (!a || !a->size)
			return;
		a->gpus = rec_gpus_after(&(struct rec_allocation){ .gpus = a->gpus }, e);
		at += a->size < size - at ? a->size : size - at;
	}
}

/** Of events before those that are in the table it is known only what is still in the ring. */
static void events_apply(const struct memory_index *m)
{
	const struct flight_recording *r = m->r;
	for (size_t i = 0; i < r->nevents; i++) {
		const struct rec_event *e = &r->events[i].raw;
		if (r->events[i].id < r->applied || e->status)
			continue;
		if (e->call == CALL_SET_ACCESS || e->call == CALL_ALLOW_ACCESS)
			event_access(m, e);
		for (size_t c = 0; c < ARRAY_SIZE(calls); c++) {
			struct recorded_allocation *ended =
				e->call == calls[c].ends ? live_at(m, e->a[0], calls[c].makes) : NULL;
			if (e->call == calls[c].makes) {
				event_make(m, e);
			} else if (ended) {
				ended->died = e->time ? e->time : 1;
				ended->freed_by = e->thread;
			}
		}
	}
}

static uint64_t recording_memory_end_of(const struct recorded_allocation *a)
{
	return a->size < UINT64_MAX - a->begin ? a->begin + a->size : UINT64_MAX;
}

static int recording_memory_by_begin(const void *a, const void *b)
{
	const struct recorded_allocation *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->born < y->born ? -1 : x->born > y->born;
}

void recording_memory(struct flight_recording *r, const struct recording_piece *memory)
{
	const bool table = memory && memory->extent.stride >= RECORD_SIZE && memory->extent.head >= sizeof(struct rec_memory);
	const size_t room = (table ? memory->extent.slots : 0) + r->nevents;
	struct memory_index m = { .r = r, .mask = 1023 };
	while (m.mask < room)
		m.mask = 2 * m.mask + 1;
	m.heads = mem_alloc((m.mask + 1) * sizeof(*m.heads));
	m.before = mem_alloc((room + 1) * sizeof(*m.before));
	r->allocations = arena_alloc(&r->arena, (room + 1) * sizeof(*r->allocations));
	if (table) {
		r->applied = get_u64(memory->head);
		r->lost_allocations = get_u64(memory->head + 8);
		for (uint64_t i = 0, id; i < memory->extent.slots; i++) {
			struct rec_allocation a;
			if (!record_at(memory, i, RECORD_WORDS, i + 1, &id, &r->torn))
				continue;
			memcpy(&a, memory->slots + i * memory->extent.stride, sizeof(a));
			if (a.state == REC_MEMORY_LIVE || a.state == REC_MEMORY_FREED)
				recording_memory_row_take(&m, &a);
		}
	}
	events_apply(&m);
	free(m.heads);
	free(m.before);
	qsort(r->allocations, r->nallocations, sizeof(*r->allocations), recording_memory_by_begin);
	r->farthest = arena_alloc(&r->arena, (r->nallocations + 1) * sizeof(*r->farthest));
	uint64_t farthest = 0;
	for (size_t i = 0; i < r->nallocations; i++) {
		const uint64_t end = recording_memory_end_of(&r->allocations[i]);
		farthest = r->farthest[i] = end > farthest ? end : farthest;
	}
}

/** How well an allocation explains an address: the lower the better; -1: not at all. */
static int rank(const struct recorded_allocation *a, uint64_t address, uint64_t time, struct nearby *ret)
{
	const uint64_t end = recording_memory_end_of(a);
	const bool dead = a->died && a->died <= time, inside = address >= a->begin && address < end;
	*ret = (struct nearby){ .allocation = a };
	if (inside) {
		ret->relation = dead ? NEAR_FREED : NEAR_INSIDE;
		ret->distance = address - a->begin;
		ret->only_reserved = a->call == CALL_RESERVE && !dead;
		// What was mapped there tells more than that the range is still reserved.
		return dead ? (a->call == CALL_MAP ? 1 : 3) : ret->only_reserved ? 2 : 0;
	}
	if (dead)
		return -1;
	if (address >= end && address - end < NEAR) {
		ret->relation = NEAR_PAST;
		ret->distance = address - end;
		return 4;
	}
	if (address < a->begin && a->begin - address <= NEAR) {
		ret->relation = NEAR_BEFORE;
		ret->distance = a->begin - address;
		return 5;
	}
	return -1;
}

/** Whether a GPU had no access to an allocation that lives. What is not known is no reason to say so. */
static bool denied(const struct flight_recording *r, const struct recorded_allocation *a, uint64_t agent)
{
	unsigned gpu = 0;
	const struct recorded_agent *owner = a->pool ? recording_agent(r, a->pool->agent) : NULL;
	const bool known = !r->lost_allocations && (a->gpus >> REC_GPUS_KNOWN || (owner && owner->gpu));
	if (!agent || !known || (owner && owner->handle == agent))
		return false;
	for (size_t i = 0; i < r->nagents; i++) {
		if (r->agents[i].handle == agent)
			return r->agents[i].gpu && gpu < REC_GPUS_KNOWN && !(a->gpus >> gpu & 1);
		gpu += r->agents[i].gpu;
	}
	return false;
}

struct nearby recording_near(const struct flight_recording *r, uint64_t address, uint64_t time, uint64_t agent)
{
	struct nearby best = { .relation = NEAR_NOWHERE };
	int best_rank = -1;
	size_t steps = 0;
	const uint64_t behind = address < UINT64_MAX - NEAR ? address + NEAR : UINT64_MAX;
	// Freed allocations overlap others: how far back to look is told by the farthest end so far.
	for (size_t i = sorted_upto(r->allocations, r->nallocations, begin, behind); i-- > 0 && steps < STEPS_MOST; steps++) {
		struct nearby n;
		if (r->farthest[i] < UINT64_MAX - NEAR && r->farthest[i] + NEAR < address)
			break;
		const int this = rank(&r->allocations[i], address, time, &n);
		if (this < 0)
			continue;
		// Of two that are freed the newer one is better, else the nearer one.
		const bool better = this != best_rank        ? best_rank < 0 || this < best_rank :
				    n.relation == NEAR_FREED ? n.allocation->died > best.allocation->died :
							       n.distance < best.distance;
		if (better) {
			best = n;
			best_rank = this;
		}
	}
	best.not_for_gpu = best.relation == NEAR_INSIDE && !best.only_reserved && denied(r, best.allocation, agent);
	return best;
}

const char *near_name(enum near_relation relation)
{
	static const char *const names[] = { "inside", "freed", "past", "before", "nowhere" };
	return names[relation];
}
