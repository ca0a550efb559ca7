// The table of allocations: those that live, and those that died and whose place nobody needed since. The sampler builds it from the
// events, so that it costs who allocates nothing.
#include "recorder/recorder.h"

enum { PROBES = 64 };

/** What an event does to the table. */
struct effect {
	bool makes, ends;
};
static const struct effect effects[CALLS] = {
	[CALL_POOL_ALLOCATE] = { .makes = true }, [CALL_ALLOCATE] = { .makes = true },     [CALL_RESERVE] = { .makes = true },
	[CALL_MAP] = { .makes = true },           [CALL_IPC_ATTACH] = { .makes = true },   [CALL_LOCK] = { .makes = true },
	[CALL_INTEROP_MAP] = { .makes = true },   [CALL_SVM_SET] = { .makes = true },      [CALL_POOL_FREE] = { .ends = true },
	[CALL_FREE] = { .ends = true },           [CALL_UNRESERVE] = { .ends = true },     [CALL_UNMAP] = { .ends = true },
	[CALL_IPC_DETACH] = { .ends = true },     [CALL_INTEROP_UNMAP] = { .ends = true }, [CALL_UNLOCK] = { .ends = true },
};
/** A range may be reserved and mapped at once: each is a row of its own. */
static const uint16_t made_by[CALLS] = {
	[CALL_POOL_FREE] = CALL_POOL_ALLOCATE,
	[CALL_FREE] = CALL_ALLOCATE,
	[CALL_UNRESERVE] = CALL_RESERVE,
	[CALL_UNMAP] = CALL_MAP,
	[CALL_IPC_DETACH] = CALL_IPC_ATTACH,
	[CALL_INTEROP_UNMAP] = CALL_INTEROP_MAP,
	[CALL_UNLOCK] = CALL_LOCK,
};

static uint64_t place_of(uint64_t key, unsigned call) { return (key + call) * 0x9e3779b97f4a7c15u >> 40; }

static void row_write(uint64_t slot, const struct rec_allocation *a)
{
	uint64_t w[RECORD_WORDS];
	memcpy(w, a, sizeof(w));
	rec_write((uint64_t *)&rec.allocations[slot], w, RECORD_WORDS, slot);
}

/** Where an allocation goes: its own old row, a free one, or that of the one of its neighbours that died longest ago. */
static bool row_for(uint64_t key, unsigned call, uint64_t *ret_slot)
{
	uint64_t best = UINT64_MAX;
	bool found = false;
	for (uint64_t i = place_of(key, call), n = 0; n < PROBES && n <= rec.allocation_mask; i++, n++) {
		const struct rec_allocation *a = &rec.allocations[i & rec.allocation_mask];
		const bool same = a->state && a->address == key && a->call == call;
		if (!a->state || same) {
			*ret_slot = i & rec.allocation_mask;
			return true;
		}
		if (a->state == REC_MEMORY_FREED && a->died < best) {
			best = a->died;
			*ret_slot = i & rec.allocation_mask;
			found = true;
		}
	}
	return found;
}

static void make(const struct rec_event *e)
{
	uint64_t slot;
	// Locked memory is found again by the host's address.
	const uint64_t key = e->call == CALL_LOCK ? e->a[2] : e->a[0];
	const struct rec_allocation a = { .address = key,
					  .size = e->a[1],
					  .born = e->time,
					  .of = e->call == CALL_LOCK ? e->a[0] : e->a[2],
					  .call = e->call,
					  .state = REC_MEMORY_LIVE,
					  .by = e->thread,
					  .operation = e->operation,
					  .gpus = rec_gpus_at_first(e) };
	if (!e->a[0] || !row_for(key, e->call, &slot)) {
		rec.memory->lost += e->a[0] != 0;
		return;
	}
	row_write(slot, &a);
}

static void end(const struct rec_event *e)
{
	const unsigned call = made_by[e->call];
	for (uint64_t i = place_of(e->a[0], call), n = 0; n < PROBES && n <= rec.allocation_mask; i++, n++) {
		struct rec_allocation a = rec.allocations[i & rec.allocation_mask];
		if (a.state != REC_MEMORY_LIVE || a.address != e->a[0] || a.call != call)
			continue;
		a.state = REC_MEMORY_FREED;
		a.died = e->time;
		a.freed_by = e->thread;
		row_write(i & rec.allocation_mask, &a);
		return;
	}
}

/** Gives access to the allocation at an address, and says how large it is; 0: there is none. */
static uint64_t row_access(const struct rec_event *e, uint64_t address, unsigned call)
{
	for (uint64_t i = place_of(address, call), n = 0; n < PROBES && n <= rec.allocation_mask; i++, n++) {
		struct rec_allocation a = rec.allocations[i & rec.allocation_mask];
		if (a.state != REC_MEMORY_LIVE || a.address != address || a.call != call)
			continue;
		a.gpus = rec_gpus_after(&a, e);
		row_write(i & rec.allocation_mask, &a);
		return a.size;
	}
	return 0;
}

/** Access to mapped memory is given to a range, which may be of many pieces, one behind the other. */
static void access_note(const struct rec_event *e)
{
	uint64_t size = 1;
	if (e->call == CALL_ALLOW_ACCESS)
		row_access(e, e->a[0], CALL_POOL_ALLOCATE);
	for (uint64_t at = 0; e->call == CALL_SET_ACCESS && at < e->a[1] && size; at += size)
		size = row_access(e, e->a[0] + at, CALL_MAP);
	// Pieces that are not found: what is not known of them must not be told.
	rec.memory->lost += !size;
}

static void apply(const struct rec_event *e)
{
	if (e->status || e->call >= CALLS)
		return;
	if (e->call == CALL_ALLOW_ACCESS || e->call == CALL_SET_ACCESS)
		access_note(e);
	if (effects[e->call].makes)
		make(e);
	else if (effects[e->call].ends)
		end(e);
}

void memory_apply(void)
{
	if (!rec.memory || !rec.events)
		return;
	const uint64_t end_at = __atomic_load_n(&rec.events->next, __ATOMIC_ACQUIRE);
	uint64_t id = rec.memory->applied;
	if (end_at - id > rec.event_mask + 1) {
		rec.memory->lost += end_at - id - rec.event_mask - 1;
		id = end_at - rec.event_mask - 1;
	}
	for (; id != end_at; id++) {
		struct rec_event e;
		// Its writer has the number but has not finished: it and those behind it are applied the next time.
		if (!rec_read(&rec.event_slots[(id & rec.event_mask) * RECORD_WORDS], (uint64_t *)&e, RECORD_WORDS, id))
			break;
		apply(&e);
	}
	__atomic_store_n(&rec.memory->applied, id, __ATOMIC_RELEASE);
}
