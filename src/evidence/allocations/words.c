// What the file of allocations holds, in words.
#include "evidence/allocations/allocations.h"
#include "evidence/allocations/names.h"
#include "evidence/recording/recording.h"
#include "gpu/memory/map.h"

const char *alloc_call_name(uint32_t call)
{
	static const char *const names[ALLOC_CALLS] = {
		[ALLOC_CALL_MALLOC] = "hipMalloc",
		[ALLOC_CALL_FREE] = "hipFree",
		[ALLOC_CALL_EXT_MALLOC] = "hipExtMallocWithFlags",
		[ALLOC_CALL_HOST_MALLOC] = "hipHostMalloc",
		[ALLOC_CALL_HOST_FREE] = "hipHostFree",
		[ALLOC_CALL_MANAGED] = "hipMallocManaged",
		[ALLOC_CALL_PITCH] = "hipMallocPitch",
		[ALLOC_CALL_3D] = "hipMalloc3D",
		[ALLOC_CALL_ASYNC] = "hipMallocAsync",
		[ALLOC_CALL_FREE_ASYNC] = "hipFreeAsync",
		[ALLOC_CALL_IPC_GET] = "hipIpcGetMemHandle",
		[ALLOC_CALL_IPC_OPEN] = "hipIpcOpenMemHandle",
		[ALLOC_CALL_RESERVE] = "hipMemAddressReserve",
		[ALLOC_CALL_CREATE] = "hipMemCreate",
		[ALLOC_CALL_GRAPH_NODE] = "hipGraphAddMemAllocNode",
		[ALLOC_CALL_DEVICE_RESET] = "hipDeviceReset",
		[ALLOC_CALL_SYNCHRONIZE] = "hipFree (it waits for the device)",
		[ALLOC_CALL_EXPORT] = "hipMemGetHandleForAddressRange",
		// Not by the name of the call that it is a part of: that one's own hangs are of another kind.
		[ALLOC_CALL_FILL] = "the guard's hipMemset behind an allocation",
	};
	return call < ALLOC_CALLS && names[call] ? names[call] : "a call of HIP";
}

struct str allocation_operation_say(const struct allocations *a, uint32_t number)
{
	if (!number || number > a->noperations)
		return (struct str){ 0 };
	const struct alloc_operation *o = &a->operations[number - 1];
	return (struct str){ o->name, strnlen(o->name, sizeof(o->name)) };
}

struct str allocation_say(struct arena *a, const struct alloc_row *r)
{
	return arena_printf(a, "%s of " STR_FMT " bytes at 0x%llx", alloc_call_name(r->call),
			    STR_ARG(arena_grouped(a, r->size)), (unsigned long long)r->address);
}

/** A range of bytes from the end or the beginning; a part below 0 is not of this side. */
static struct str range_say(struct arena *a, int64_t first, int64_t last, const char *where)
{
	first = first < 0 ? 0 : first;
	return arena_printf(a, STR_FMT " to " STR_FMT " bytes %s", STR_ARG(arena_grouped(a, (uint64_t)first)),
			    STR_ARG(arena_grouped(a, (uint64_t)(last < first ? first : last))), where);
}

struct str allocation_offset_say(struct arena *a, const struct allocation_at *at)
{
	const int64_t size = at->row ? (int64_t)at->row->size : 0;
	switch (at->place) {
	case ALLOC_PAST:
		return range_say(a, at->first - size, at->last - size, "past the end");
	case ALLOC_BEFORE:
		return range_say(a, -at->last, -at->first, "before the start");
	case ALLOC_INSIDE:
	case ALLOC_FREED:
		if (at->last < 0)
			return range_say(a, -at->last, -at->first, "before the start");
		if (at->first >= size)
			return range_say(a, at->first - size, at->last - size, "past the end");
		return range_say(a, at->first, at->last < size ? at->last : size - 1, "from the start");
	case ALLOC_ELSEWHERE:
		break;
	}
	return at->row ? arena_printf(a, STR_FMT " away", STR_ARG(map_size_say(a, at->distance))) : (struct str){ 0 };
}

struct str allocation_stack_say(struct allocations *a, struct arena *to, uint32_t stack, size_t most)
{
	const struct alloc_stack *s = stack && stack <= a->nstacks ? &a->stacks[stack - 1] : NULL;
	struct module_frame frames[ALLOC_FRAMES];
	if (!s || !s->count)
		return (struct str){ 0 };
	if (!a->names)
		a->names = module_names_new();
	const size_t n = s->count < ALLOC_FRAMES ? s->count : ALLOC_FRAMES;
	for (size_t i = 0; i < n; i++) {
		const unsigned module = alloc_frame_module(s->frames[i]);
		frames[i] = (struct module_frame){ .module = module && module <= a->nmodules ? &a->modules[module - 1] : NULL,
						   .offset = alloc_frame_offset(s->frames[i]) };
	}
	return frames_say(a->names, to, frames, n, most);
}

double allocations_time(const struct allocations *a, uint64_t ns)
{
	const struct alloc_header *h = &a->header;
	return ((double)h->real_ns + ((double)ns - (double)h->boot_ns)) / 1e9;
}

struct str burst_say(struct arena *a, const struct alloc_burst *b)
{
	const double seconds = b->end > b->begin ? (double)(b->end - b->begin) / 1e9 : 0;
	return arena_printf(a, STR_FMT " allocations of up to " STR_FMT " in " STR_FMT, STR_ARG(arena_grouped(a, b->count)),
			    STR_ARG(map_size_say(a, b->most)), STR_ARG(seconds_say(a, seconds)));
}

const struct alloc_burst *allocations_burst(const struct allocations *a)
{
	const struct alloc_burst *most = NULL;
	for (size_t i = 0; i < a->nbursts; i++)
		if (!most || a->bursts[i].count > most->count)
			most = &a->bursts[i];
	return most;
}
