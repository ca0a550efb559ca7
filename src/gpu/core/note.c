// The note that describes GPUs and queues in a core: NT_AMDGPU_CORE_STATE, in the words of the driver's debugger interface
// (kfd_ioctl.h: kfd_runtime_info, kfd_dbg_device_info_entry, kfd_queue_snapshot_entry).
#include "gpu/core/note.h"

#include "base/bytes.h"
#include "gpu/find/device.h"

enum {
	HEADER = 40,
	RUNTIME = 16,
	AGENT_LEAST = 112,
	QUEUE_LEAST = 60,
	AGENTS_MAX = 1024,
	QUEUES_MAX = 65536,
	QUEUE_ERROR = 1u << 30, // in a queue's id
	QUEUE_INVALID = 1u << 31,
};

static uint64_t padded(uint64_t n) { return (n + 7) & ~7ull; }

static void read_agent(struct arena *a, const char *p, size_t size, struct agent *g)
{
	g->exceptions = get_u64(p);
	g->lds_base = get_u64(p + 8);
	g->scratch_base = get_u64(p + 24);
	const char *w = p + 56;
	g->gpu_id = get_u32(w);
	g->location = get_u32(w + 4);
	g->vendor = get_u32(w + 8);
	g->device = get_u32(w + 12);
	g->revision = get_u32(w + 16);
	g->firmware = get_u32(w + 28);
	g->target_version = get_u32(w + 32);
	g->simds = get_u32(w + 36);
	g->waves_per_simd = get_u32(w + 40);
	g->xccs = get_u32(w + 52);
	g->debug_properties = size >= 120 ? get_u32(w + 60) : 0;
	g->gfx = gfx_of_target(a, g->target_version);
}

static void read_queue(struct arena *a, const struct core_note *n, const char *p, struct queue *q)
{
	uint32_t flags = get_u32(p + 40);
	q->exceptions = get_u64(p);
	q->ring = get_u64(p + 8);
	q->write_address = get_u64(p + 16);
	q->read_address = get_u64(p + 24);
	q->save_area = get_u64(p + 32);
	q->id = flags & ~(QUEUE_INVALID | QUEUE_ERROR);
	uint32_t gpu_id = get_u32(p + 44);
	q->ring_size = get_u32(p + 48);
	q->type = get_u32(p + 52);
	q->save_area_size = get_u32(p + 56);
	for (size_t i = 0; i < n->nagents; i++)
		if (n->agents[i].gpu_id == gpu_id)
			q->agent = &n->agents[i];
	if (flags & QUEUE_INVALID)
		q->problem = arena_printf(a, "queue %u was no queue of the process any more", q->id);
	else if (flags & QUEUE_ERROR)
		q->problem = arena_printf(a, "queue %u could not be suspended; what is saved of its waves may be old", q->id);
}

/** Entries of one kind in the note, as its header tells, and what may be. */
struct note_part {
	const char *what;
	uint64_t n, most, size, least;
};

/** The entries at *@at, which moves behind them. @file_at: where the note is. */
static struct uh_error *part(struct str desc, uint64_t file_at, const struct note_part *p, uint64_t *at, const char **ret)
{
	const char *what = p->what;
	uint64_t n = p->n, most = p->most, size = p->size, least = p->least;
	unsigned long long place = file_at + *at;
	if (n && (size < least || size > 65536))
		return uh_error_new("GPU note, %s at 0x%llx: entries of %llu bytes; at least %llu are needed", what, place,
				    (unsigned long long)size, (unsigned long long)least);
	if (n > most)
		return uh_error_new("GPU note, %s at 0x%llx: %llu of them; at most %llu are read", what, place,
				    (unsigned long long)n, (unsigned long long)most);
	if (n * size > desc.n - *at)
		return uh_error_new("GPU note, %s at 0x%llx: %llu entries of %llu bytes reach beyond the note's end at 0x%llx",
				    what, place, (unsigned long long)n, (unsigned long long)size,
				    (unsigned long long)(file_at + desc.n));
	*ret = desc.p + *at;
	uint64_t end = padded(*at + n * size);
	*at = end < desc.n ? end : desc.n;
	return NULL;
}

struct uh_error *core_note_parse(struct arena *a, struct str desc, uint64_t at, struct core_note *ret)
{
	const char *runtime = NULL, *agents = NULL, *queues = NULL;
	*ret = (struct core_note){ 0 };
	if (desc.n < HEADER)
		return uh_error_new("GPU note at 0x%llx: %zu bytes; its header has %d", (unsigned long long)at, desc.n, HEADER);
	ret->version = get_u64(desc.p);
	ret->kfd_major = get_u32(desc.p + 8);
	ret->kfd_minor = get_u32(desc.p + 12);
	if (ret->version != 1)
		return uh_error_new("GPU note at 0x%llx: version %llu; only version 1 is known", (unsigned long long)at,
				    (unsigned long long)ret->version);
	uint64_t runtime_size = get_u64(desc.p + 16);
	uint32_t nagents = get_u32(desc.p + 24), agent_size = get_u32(desc.p + 28);
	uint32_t nqueues = get_u32(desc.p + 32), queue_size = get_u32(desc.p + 36);
	uint64_t offset = HEADER;
	const struct note_part parts[] = { { "runtime", 1, 1, runtime_size, RUNTIME },
					   { "GPUs", nagents, AGENTS_MAX, agent_size, AGENT_LEAST },
					   { "queues", nqueues, QUEUES_MAX, queue_size, QUEUE_LEAST } };
	const char **const places[] = { &runtime, &agents, &queues };
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct uh_error *err = part(desc, at, &parts[i], &offset, places[i]);
		if (err)
			return err;
	}
	ret->r_debug = get_u64(runtime);
	ret->runtime_state = get_u32(runtime + 8);
	ret->ttmps_set_up = get_u32(runtime + 12);
	ret->nagents = nagents;
	ret->agents = arena_alloc(a, nagents * sizeof(*ret->agents) + 1);
	for (uint32_t i = 0; i < nagents; i++)
		read_agent(a, agents + (size_t)i * agent_size, agent_size, &ret->agents[i]);
	ret->nqueues = nqueues;
	ret->queues = arena_alloc(a, nqueues * sizeof(*ret->queues) + 1);
	for (uint32_t i = 0; i < nqueues; i++)
		read_queue(a, ret, queues + (size_t)i * queue_size, &ret->queues[i]);
	return NULL;
}
