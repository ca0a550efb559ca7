// The log of a recording: kernels, code, GPUs, pools and texts.
#include <stdlib.h>

#include "base/bytes.h"
#include "evidence/recording/recording.h"

enum { ENTRIES_MOST = 4 << 20 };

typedef void entry_fn(struct flight_recording *r, const struct rec_entry *e, struct str text);

/** Calls @each for every whole entry; the first that is not whole ends the log. */
static void walk(struct flight_recording *r, const struct recording_piece *log, entry_fn *each)
{
	const uint64_t room = log->extent.slots * log->extent.stride;
	uint64_t used = log->extent.head >= sizeof(struct rec_log) ? get_u64(log->head) : 0;
	used = used < room ? used : room;
	for (uint64_t at = 0; used - at >= sizeof(struct rec_entry);) {
		struct rec_entry e;
		memcpy(&e, log->slots + at, sizeof(e));
		if (e.size < sizeof(e) || e.size % 8 || e.size > used - at || e.size > UINT16_MAX ||
		    e.text > e.size - sizeof(e))
			break;
		uint64_t *words = mem_alloc(e.size);
		memcpy(words, log->slots + at, e.size);
		const bool whole = rec_check(words, e.size / 8, at) == e.check;
		free(words);
		if (!whole)
			break;
		each(r, &e, (struct str){ log->slots + at + sizeof(e), e.text });
		at += e.size;
	}
}

/** The first walk counts, so that there is room for what the second keeps. */
static void count(struct flight_recording *r, const struct rec_entry *e, struct str text)
{
	(void)text;
	r->nkernels += e->kind == ENTRY_KERNEL;
	r->ncode += e->kind == ENTRY_CODE;
	r->nagents += e->kind == ENTRY_AGENT;
	r->npools += e->kind == ENTRY_POOL;
	r->nnames += e->kind == ENTRY_TEXT;
}

static struct str pci_of(struct arena *a, const struct rec_entry *e)
{
	const unsigned bus = (unsigned)e->n[3] & 0xffff;
	return e->n[1] == 1 && bus ?
		       arena_printf(a, "%04x:%02x:%02x.%x", (unsigned)e->n[4] & 0xffff, bus >> 8, bus >> 3 & 31, bus & 7) :
		       (struct str){ 0 };
}

static void take_kernel(struct flight_recording *r, const struct rec_entry *e, struct str text)
{
	struct kernel_words *words = arena_alloc(&r->arena, sizeof(*words));
	words->arena = &r->arena;
	r->kernels[r->nkernels++] = (struct recorded_kernel){ .object = e->n[0],
							      .words = words,
							      .argument_bytes = (uint32_t)e->n[1],
							      .executable = e->n[2],
							      .loaded = e->time,
							      .unloaded = UINT64_MAX,
							      .name = text };
}

static void take_unload(struct flight_recording *r, const struct rec_entry *e)
{
	for (size_t i = 0; i < r->nkernels; i++)
		if (r->kernels[i].executable == e->n[0] && r->kernels[i].unloaded == UINT64_MAX)
			r->kernels[i].unloaded = e->time;
	for (size_t i = 0; i < r->ncode; i++)
		if (r->code[i].executable == e->n[0] && r->code[i].unloaded == UINT64_MAX)
			r->code[i].unloaded = e->time;
}

static void take(struct flight_recording *r, const struct rec_entry *e, struct str text)
{
	struct str rest = text;
	switch (e->kind) {
	case ENTRY_KERNEL:
		take_kernel(r, e, text);
		break;
	case ENTRY_CODE:
		r->code[r->ncode++] = (struct recorded_code){ .base = e->n[0],
							      .size = e->n[1],
							      .delta = e->n[2],
							      .executable = e->n[3],
							      .loaded = e->time,
							      .unloaded = UINT64_MAX,
							      .uri = text };
		break;
	case ENTRY_UNLOAD:
		take_unload(r, e);
		break;
	case ENTRY_AGENT:
		r->agents[r->nagents++] = (struct recorded_agent){ .handle = e->n[0],
								   .gpu = e->n[1] == 1,
								   .node = (uint32_t)e->n[2],
								   .name = str_split(&rest, '\n'),
								   .product = str_trim(rest),
								   .pci = pci_of(&r->arena, e) };
		break;
	case ENTRY_POOL:
		r->pools[r->npools++] = (struct recorded_pool){ .handle = e->n[0],
								.agent = e->n[1],
								.flags = (uint32_t)e->n[2],
								.segment = (uint32_t)(e->n[2] >> 32),
								.bytes = e->n[3] };
		break;
	case ENTRY_TEXT:
		if (e->id && e->id <= r->nnames)
			r->names[e->id - 1] = text;
		break;
	case ENTRY_ALLOCATOR:
		r->allocator = text;
		r->allocator_segment = e->n[0];
		break;
	case ENTRY_METADATA:
		recording_type_add(r, e, text);
		break;
	default:
		break;
	}
}

static int by_object(const void *a, const void *b)
{
	const struct recorded_kernel *x = a, *y = b;
	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	return x->loaded < y->loaded ? -1 : x->loaded > y->loaded;
}

void recording_names(struct flight_recording *r, const struct recording_piece *log)
{
	walk(r, log, count);
	r->kernels = arena_alloc(&r->arena, (r->nkernels + 1) * sizeof(*r->kernels));
	r->code = arena_alloc(&r->arena, (r->ncode + 1) * sizeof(*r->code));
	r->agents = arena_alloc(&r->arena, (r->nagents + 1) * sizeof(*r->agents));
	r->pools = arena_alloc(&r->arena, (r->npools + 1) * sizeof(*r->pools));
	r->names = arena_alloc(&r->arena, (r->nnames + 1) * sizeof(*r->names));
	const size_t names = r->nnames;
	r->nkernels = r->ncode = r->nagents = r->npools = 0;
	walk(r, log, take);
	r->nnames = names;
	qsort(r->kernels, r->nkernels, sizeof(*r->kernels), by_object);
	recording_types_join(r);
	vec_free(&r->types);
}

const struct recorded_kernel *recording_kernel(const struct flight_recording *r, uint64_t object, uint64_t time)
{
	size_t low = 0, high = r->nkernels;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct recorded_kernel *k = &r->kernels[middle];
		if (k->object < object || (k->object == object && k->loaded <= time))
			low = middle + 1;
		else
			high = middle;
	}
	const struct recorded_kernel *k = low ? &r->kernels[low - 1] : NULL;
	return object && k && k->object == object ? k : NULL;
}

const struct recorded_agent *recording_agent(const struct flight_recording *r, uint64_t handle)
{
	for (size_t i = 0; i < r->nagents; i++)
		if (r->agents[i].handle == handle)
			return &r->agents[i];
	return NULL;
}
